/* client.c: opening a client: where daemon and tiers are. Cheap, because a hit must cost less than 5 ms from loading the
 * library: no connection, no directory is made, nothing is read but the configuration. */
#include "client/client_internal.h"

#include "base/clock.h"
#include "config/config.h"

#include <sys/stat.h>
#include <unistd.h>

CL_EXPORT const char *neffd_version(void) { return NEFFD_VERSION; }

int cl_error_out(const struct nf_error *err, neffd_error *out)
{
    int code = err->code < 0 ? err->code : NF_EINTERNAL;
    if (out) {
        *out = (neffd_error){
            .code = code,
            .failure_class = (int)nf_status_class(code),
            .retryable = nf_status_retryable(code),
            .retry_after_ms = err->retry_after_ms,
        };
        (void)nf_format(out->name, sizeof(out->name), "%s", nf_status_name(code));
        (void)nf_format(out->message, sizeof(out->message), "%s", err->message[0] ? err->message : nf_status_text(code));
        (void)nf_format(out->location, sizeof(out->location), "%s", err->location);
        (void)nf_format(out->hint, sizeof(out->hint), "%s", err->hint);
    }
    return code;
}

static bool is_set(const struct cfg *cfg, enum cfg_id id) { return cfg_setting(cfg, id).set; }

int cl_client_open(const neffd_client_options *options, const char *tool, neffd_client **ret_client, struct nf_error *err)
{
    static const neffd_client_options none = {.struct_size = sizeof(none)};
    struct cfg *cfg = NULL;
    if (!options)
        options = &none;
    int r = cl_struct_check("neffd_client_options", options, options->struct_size, sizeof(*options), err);
    if (r < 0)
        return r;
    struct cfg_override overrides[4] = {0};
    size_t n = 0;
    if (options->socket && options->socket[0])
        overrides[n++] = (struct cfg_override){"socket", options->socket};
    if (options->shared_dir && options->shared_dir[0])
        overrides[n++] = (struct cfg_override){"cache_dir", options->shared_dir};
    if (options->local_dir && options->local_dir[0])
        overrides[n++] = (struct cfg_override){"local_dir", options->local_dir};
    r = cfg_load(&(struct cfg_sources){.program = "libneffd", .overrides = overrides}, &cfg, err);
    if (r < 0)
        return r;

    neffd_client *c = nf_alloc(sizeof(*c));
    c->socket = nf_strdup(cfg->socket);
    c->shared_dir = nf_strdup(cfg->cache_dir);
    c->local_dir = nf_strdup(cfg->local_dir);
    c->shared_given = is_set(cfg, CFG_ID_cache_dir);
    c->local_given = is_set(cfg, CFG_ID_local_dir);
    c->tool = nf_strdup(tool ? tool : "libneffd " NEFFD_VERSION);
    c->namespace_default = nf_strdup(cfg->cache_namespace);
    c->record_dir = cfg->record_dir[0] ? nf_strdup(cfg->record_dir) : NULL;
    c->daemon_program = cfg->daemon[0] ? nf_strdup(cfg->daemon) : NULL;
    c->target_override = cfg->target[0] ? nf_strdup(cfg->target) : NULL;
    c->cpu_threads = (uint32_t)cfg->cpu_threads;
    c->libnrt = cfg->libnrt[0] ? nf_strdup(cfg->libnrt) : NULL;
    c->neff_features = strtoull(cfg->neff_features, NULL, 0);
    c->compile_only = cfg->compile_only;
    c->lock_timeout_ms = is_set(cfg, CFG_ID_lock_timeout) ? (uint64_t)NF_MAX(cfg->lock_timeout_ns / NF_MS, 1) : 0;
    c->compile_timeout_ms = is_set(cfg, CFG_ID_compile_timeout) ? (uint64_t)(cfg->compile_timeout_ns / NF_MS) : 0;
    c->disable_cache = cfg->disable_cache;
    c->cache_only = cfg->cache_only;
    c->start_daemon = options->start_daemon || cfg->start;
    c->offline = options->offline;
    c->socket_owner = (uid_t)-1;

    c->bad_address = cl_channel_new(c->socket, &c->channel, &c->bad_address_error);
    if (c->channel && cfg->connect_timeout_ns > 0)
        cl_channel_set_connect_limit(c->channel, cfg->connect_timeout_ns);
    const char *path = c->channel ? cl_channel_unix_path(c->channel) : NULL;
    struct stat st;
    if (path && stat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        c->socket_owner = st.st_uid;
    struct cache_reader_options reader = {
        .local_dir = c->local_dir,
        .shared_dir = c->shared_dir,
        .trusted_uids = &c->socket_owner,
        .trusted_count = c->socket_owner == (uid_t)-1 ? 0 : 1,
        .verify_always = cfg->verify == CFG_VERIFY_ALWAYS,
    };
    cfg_free(cfg);
    r = cache_reader_open(&reader, &c->reader, err);
    if (r < 0) {
        neffd_client_close(c);
        return r;
    }
    *ret_client = c;
    return NF_OK;
}

int cl_client_channel(neffd_client *client, struct cl_channel **ret_channel, struct nf_error *err)
{
    if (!client->channel) {
        if (err)
            *err = client->bad_address_error;
        return client->bad_address;
    }
    *ret_channel = client->channel;
    return NF_OK;
}

uid_t cl_client_daemon_uid(neffd_client *client)
{
    uint32_t peer = client->channel ? cl_channel_peer_uid(client->channel) : UINT32_MAX;
    return peer != UINT32_MAX ? (uid_t)peer : client->socket_owner;
}

CL_EXPORT int neffd_client_open(const neffd_client_options *options, neffd_client **ret_client, neffd_error *out)
{
    struct nf_error err = {0};
    int r = ret_client ? cl_client_open(options, NULL, ret_client, &err) : nf_fail(&err, NF_EINVAL, "ret_client is NULL");
    return r < 0 ? cl_error_out(&err, out) : NF_OK;
}

CL_EXPORT void neffd_client_close(neffd_client *client)
{
    if (!client)
        return;
    cache_reader_close(client->reader);
    cl_channel_free(client->channel);
    free(client->socket);
    free(client->shared_dir);
    free(client->local_dir);
    free(client->tool);
    free(client->namespace_default);
    free(client->record_dir);
    free(client->daemon_program);
    free(client->libnrt);
    free(client->target_override);
    free(client);
}
