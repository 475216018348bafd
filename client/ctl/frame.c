/* frame.c: what every command uses: values of options, the client, calls, errors. */
#include "client/ctl/ctl.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

const char *ctl_value(const struct ctl *c, const char *name)
{
    for (size_t i = c->given_count; i > 0; i--)
        if (strcmp(c->given[i - 1].name, name) == 0)
            return c->given[i - 1].value;
    return NULL;
}

bool ctl_flag(const struct ctl *c, const char *name) { return ctl_value(c, name) != NULL; }

int ctl_value_double(const struct ctl *c, const char *name, double *ret_value, struct nf_error *err)
{
    const char *v = ctl_value(c, name);
    double d;
    if (!v)
        return NF_OK;
    if (nf_str_to_double(nf_str_c(v), &d) < 0 || !(d >= 0))
        return nf_fail(err, NF_EUSAGE, "--%s: '%s' is not a number of 0 or more", name, v);
    *ret_value = d;
    return NF_OK;
}

int ctl_value_seconds_ms(const struct ctl *c, const char *name, uint64_t *ret_ms, struct nf_error *err)
{
    static const struct {
        const char *suffix;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 36e5}, {"", 1e3}};
    const char *v = ctl_value(c, name);
    if (!v)
        return NF_OK;
    for (size_t i = 0; i < NF_ARRAY_LEN(units); i++) {
        struct nf_str s = nf_str_c(v), suffix = nf_str_c(units[i].suffix);
        double d;
        if (!nf_str_ends(s, suffix))
            continue;
        s.len -= suffix.len;
        if (nf_str_to_double(s, &d) == NF_OK && d >= 0 && d * units[i].ms < 1e15) {
            /* "0" is a time too: out of it at once, not for ever. */
            uint64_t ms = (uint64_t)(d * units[i].ms + 0.5);
            *ret_ms = ms ? ms : 1;
            return NF_OK;
        }
    }
    return nf_fail(err, NF_EUSAGE, "--%s: '%s' is not a time (5, 1.5, 500ms, 20m, 2h)", name, v);
}

int ctl_value_u64(const struct ctl *c, const char *name, uint64_t max, uint64_t *ret_value, struct nf_error *err)
{
    const char *v = ctl_value(c, name);
    uint64_t n;
    if (!v)
        return NF_OK;
    if (nf_str_to_u64(nf_str_c(v), &n) < 0 || n > max)
        return nf_fail(err, NF_EUSAGE, "--%s: '%s' is not a number from 0 to %llu", name, v, (unsigned long long)max);
    *ret_value = n;
    return NF_OK;
}

int ctl_value_size(const struct ctl *c, const char *name, uint64_t *ret_bytes, struct nf_error *err)
{
    static const char *const units = "BKMGT";
    const char *v = ctl_value(c, name);
    double d;
    if (!v)
        return NF_OK;
    struct nf_str s = nf_str_c(v);
    double scale = 1;
    if (nf_str_ends(s, NF_STR("iB")))
        s.len -= 2;
    else if (s.len > 1 && s.data[s.len - 1] == 'B')
        s.len--;
    if (s.len) {
        char last = s.data[s.len - 1];
        const char *u = last ? strchr(units, last >= 'a' && last <= 'z' ? last - 32 : last) : NULL;
        if (u) {
            for (const char *p = units; p < u; p++)
                scale *= 1024;
            s.len--;
        }
    }
    if (nf_str_to_double(s, &d) < 0 || !(d >= 0) || d * scale >= 9e18)
        return nf_fail(err, NF_EUSAGE, "--%s: '%s' is not a size (500M, 2G, bytes)", name, v);
    *ret_bytes = (uint64_t)(d * scale);
    return NF_OK;
}

int ctl_client(struct ctl *c, neffd_client **ret_client, struct nf_error *err)
{
    if (!c->client) {
        neffd_client_options options = {
            .struct_size = sizeof(options),
            .socket = ctl_value(c, "socket"),
            .shared_dir = ctl_value(c, "cache-dir"),
            .local_dir = ctl_value(c, "local-dir"),
            .start_daemon = ctl_flag(c, "start"),
        };
        int r = cl_client_open(&options, "neffctl " NEFFD_VERSION, &c->client, err);
        if (r < 0)
            return r;
        if (ctl_flag(c, "cache-only"))
            c->client->cache_only = true;
    }
    *ret_client = c->client;
    return NF_OK;
}

void ctl_no_daemon_hint(struct ctl *c, struct nf_error *err)
{
    if (err->code != NF_ENODAEMON || err->hint[0])
        return;
    nf_error_hint(err, "start one with `neffd --socket=%s`", c->client ? c->client->socket : "unix:PATH");
}

int ctl_call(struct ctl *c, enum rpc_method_id method, const ProtobufCMessage *request, uint64_t timeout_ms, ProtobufCMessage **ret_reply,
    struct nf_error *err)
{
    neffd_client *client;
    int r = ctl_client(c, &client, err);
    if (r >= 0)
        r = cl_unary_message(client, method, request, cl_deadline(timeout_ms), ret_reply, err);
    if (r == NF_ENODAEMON)
        ctl_no_daemon_hint(c, err);
    return r;
}

int ctl_stream(struct ctl *c, enum rpc_method_id method, const ProtobufCMessage *request, ctl_each_fn *each, void *user, struct nf_error *err)
{
    const struct rpc_method *m = rpc_method(method);
    neffd_client *client;
    struct cl_channel *channel;
    struct cl_call *call = NULL;
    struct nf_buf out = NF_BUF_INIT;
    struct nf_str bytes;
    int r = ctl_client(c, &client, err);
    if (r >= 0)
        r = cl_client_channel(client, &channel, err);
    if (r >= 0 && (r = rpc_encode(request, &out)) < 0)
        nf_fail(err, r, "the request is larger than a message may be");
    if (r >= 0)
        r = cl_call_start(channel, m->path, CL_NO_DEADLINE, &call, err);
    if (r >= 0)
        r = cl_call_send(call, out.data, out.len, true, err);
    while (r >= 0 && (r = cl_call_recv(call, &bytes, err)) == 1) {
        ProtobufCMessage *message;
        r = rpc_decode(m->reply, bytes, &message, err);
        if (r >= 0) {
            r = each(c, message, user, err);
            protobuf_c_message_free_unpacked(message, NULL);
        }
    }
    cl_call_free(call);
    nf_buf_done(&out);
    if (r == NF_ENODAEMON)
        ctl_no_daemon_hint(c, err);
    return r;
}

int ctl_fail(struct ctl *c, const struct nf_error *err, const Neffd__V1__Error *failed)
{
    ctl_bar_clear(c);
    if (c->json) {
        Neffd__V1__Error message = NEFFD__V1__ERROR__INIT;
        if (failed) {
            message = *failed;
            message.location = (char *)(uintptr_t)err->location; /* with the file's name, which the daemon does not know */
        } else {
            rpc_error_to_message(err, &message);
        }
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "error", ctl_json_of_message(&message.base));
        ctl_json_print(o);
        return nf_status_exit(err->code);
    }
    for (size_t i = 0; failed && i < failed->n_log_tail; i++)
        if (!c->shown || !nf_map_get(c->shown, nf_str_c(failed->log_tail[i])))
            fprintf(stderr, "%s  | %s%s\n", ctl_on(c->color_err, CTL_DIM), ctl_clean(failed->log_tail[i]), ctl_off(c->color_err));
    fprintf(stderr, "%sneffctl:%s ", ctl_on(c->color_err, CTL_RED), ctl_off(c->color_err));
    if (c->command)
        fprintf(stderr, "%s: ", c->command->words);
    if (err->location[0])
        fprintf(stderr, "%s: ", ctl_clean(err->location));
    fprintf(stderr, "%s%s\n", ctl_clean(err->message[0] ? err->message : nf_status_text(err->code)), err->from_cache ? " (a remembered failure)" : "");
    if (err->hint[0])
        fprintf(stderr, "hint: %s\n", ctl_clean(err->hint));
    else if (err->code == NF_EUSAGE && c->command)
        fprintf(stderr, "hint: neffctl %s --help says more\n", c->command->words);
    return nf_status_exit(err->code);
}

void ctl_shown(struct ctl *c, const char *line)
{
    if (!c->terminal)   /* a file has the tail whole, whatever stands before it */
        return;
    if (!c->shown)
        c->shown = nf_map_new(true);
    nf_map_put(c->shown, nf_str_c(line), c);
}

int ctl_usage(struct ctl *c, const char *fmt, ...)
{
    struct nf_error err = {.code = NF_EUSAGE};
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err.message, sizeof(err.message), fmt, ap);
    (void)n;
    va_end(ap);
    nf_error_hint(&err, "neffctl %s%s--help says more", c->command ? c->command->words : "", c->command ? " " : "");
    return ctl_fail(c, &err, NULL);
}

int ctl_wrong_path(const char *path, int r, struct nf_error *err)
{
    struct stat st;
    bool wrong = r == NF_ENOTFOUND || (r == NF_EIO && (stat(path, &st) < 0 ? errno == ELOOP || errno == ENAMETOOLONG : S_ISDIR(st.st_mode)));
    if (wrong && err)
        err->code = NF_EINVAL;
    return wrong ? NF_EINVAL : r;
}

/* What has no size may have no end: that much of a pipe or a device is a graph, more is a mistake. */
#define ENDLESS_BYTES ((size_t)2 << 30)
#define ENDLESS_TEXT "it does not end within 2 GiB"

int ctl_read_file(const char *path, struct nf_buf *ret_bytes, struct nf_error *err)
{
    int r;
    if (strcmp(path, "-") == 0) {
        r = nf_fd_read_all(0, ENDLESS_BYTES, ret_bytes);
        return r < 0 ? nf_fail(err, r, "cannot read standard input: %s", r == NF_ELIMIT ? ENDLESS_TEXT : nf_status_text(r)) : NF_OK;
    }
    struct stat st;
    if (stat(path, &st) < 0) {
        int e = errno;
        r = nf_fail_errno(err, e, "cannot open %s", path);
        return ctl_wrong_path(path, r, err);
    }
    if (S_ISDIR(st.st_mode)) {
        nf_fail(err, NF_EINVAL, "%s is a directory", path);
        return NF_EINVAL;
    }
    r = nf_file_read(path, S_ISREG(st.st_mode) ? (size_t)1 << 40 : ENDLESS_BYTES, ret_bytes, err);
    if (r == NF_ELIMIT && !S_ISREG(st.st_mode))
        return nf_fail(err, r, "cannot read %s: %s", path, ENDLESS_TEXT);
    return ctl_wrong_path(path, r, err);
}

bool ctl_is_key(const char *text, struct nf_digest *ret_key)
{
    /* 32 digits: a key of TorchNeuron's cache, as `cache import` keeps it. */
    char padded[65] = "0000000000000000000000000000000000000000000000000000000000000000";
    size_t n = strlen(text);
    if (n != 64 && n != 32)
        return false;
    memcpy(padded, text, n);
    return nf_digest_parse(nf_str_n(padded, 64), ret_key) == NF_OK;
}
