/* compile.c: compile, lookup, explain. */
#include "client/ctl/ctl.h"

#include "base/clock.h"
#include "base/file.h"
#include "client/ctl/canonical.h"
#include "client/ctl/request.h"
#include "client/wire.h"
#include "pipeline/driver/drv_flags.h"
#include "runtime/platform.h"

#include <fcntl.h>
#include <unistd.h>

const struct ctl_option ctl_options_compile[] = {
    {"target", 0, "T", "cpu trn1 trn1n trn2 trn3 inf2", "what to compile for (else the daemon's default)"},
    {"option", 'O', "NAME=VALUE", NULL, "an option of the compiler, without dashes; may be repeated, the last of a name wins"},
    {"name", 0, "N", NULL, "name for people, in lists and explanations; never part of a key"},
    {"namespace", 0, "N", NULL, "cache namespace"},
    {"input-kind", 0, "K", "stablehlo_text stablehlo_bytecode hlo_proto fx_graph", "what FILE is (else told from its bytes)"},
    {"priority", 0, "P", "interactive warmup", "interactive (default) or warmup"},
    {"timeout", 0, "S", NULL, "give up after S seconds; the job goes on for others"},
    {"lock-timeout", 0, "S", NULL, "how long the compile may wait for its lock"},
    {"compile-timeout", 0, "S", NULL, "time limit of the compile itself"},
    {"stop-after", 0, "STAGE", "import fx_passes autodiff stablehlo compile publish", "stop after a stage"},
    {"ignore-cache", 0, NULL, NULL, "compile even if there is an entry; the result replaces it"},
    {"ignore-failures", 0, NULL, NULL, "do not answer from a remembered failure"},
    {"no-publish", 0, NULL, NULL, "compile afresh and store nothing"},
    {"cache-only", 0, NULL, NULL, "never compile: a miss is an error (exit 3) with its explanation"},
    {"detach", 0, NULL, NULL, "the compile goes on even if everyone who waits for it leaves"},
    {"output", 'o', "PATH", "file", "also write the artifact there"},
    {"start", 0, NULL, NULL, "start a daemon if none answers and a compile is needed"},
    {0},
};
const struct ctl_option ctl_options_lookup[] = {
    {"target", 0, "T", "cpu trn1 trn1n trn2 trn3 inf2", "what it would be compiled for"},
    {"option", 'O', "NAME=VALUE", NULL, "an option of the compiler"},
    {"namespace", 0, "N", NULL, "cache namespace"},
    {"input-kind", 0, "K", "stablehlo_text stablehlo_bytecode hlo_proto fx_graph", "what FILE is (else told from its bytes)"},
    {"timeout", 0, "S", NULL, "give up after S seconds"},
    {"output", 'o', "PATH", "file", "also write the artifact there"},
    {0},
};
const struct ctl_option ctl_options_explain[] = {
    {"target", 0, "T", "cpu trn1 trn1n trn2 trn3 inf2", "what it would be compiled for"},
    {"option", 'O', "NAME=VALUE", NULL, "an option of the compiler"},
    {"namespace", 0, "N", NULL, "cache namespace"},
    {"input-kind", 0, "K", "stablehlo_text stablehlo_bytecode hlo_proto fx_graph", "what FILE is (else told from its bytes)"},
    {"timeout", 0, "S", NULL, "give up after S seconds"},
    {0},
};

/* -------------------------------------------------------------------------------------------------------------- requests */

static int enum_value(const ProtobufCEnumDescriptor *d, const char *option, const char *word, int *ret_value, struct nf_error *err)
{
    struct nf_buf names = NF_BUF_INIT;
    char name[64];
    for (unsigned i = 0; i < d->n_values; i++) {
        cl_enum_word(d, d->values[i].value, name, sizeof(name));
        if (d->values[i].value != 0 && strcmp(name, word) == 0) {
            *ret_value = d->values[i].value;
            nf_buf_done(&names);
            return NF_OK;
        }
        if (d->values[i].value != 0)
            nf_buf_addf(&names, "%s%s", names.len ? ", " : "", name);
    }
    nf_fail(err, NF_EUSAGE, "--%s: '%s' is none of %s", option, word, names.data);
    nf_buf_done(&names);
    return NF_EUSAGE;
}

int ctl_request_init(struct ctl *c, const char *path, struct ctl_request *q, struct nf_error *err)
{
    const char *v;
    int r;
    *q = (struct ctl_request){.request.struct_size = sizeof(q->request), .ctl = c};
    r = ctl_read_file(path, &q->graph, err);
    if (r < 0)
        return r;
    q->path = path;
    q->request.graph = q->graph.data;
    q->request.graph_bytes = q->graph.len;
    q->request.target = ctl_value(c, "target");
    q->request.cache_namespace = ctl_value(c, "namespace");
    q->request.name = ctl_value(c, "name");
    if (!q->request.name && strcmp(path, "-") != 0) {
        const char *slash = strrchr(path, '/');
        q->request.name = slash ? slash + 1 : path;
        if (strncmp(q->request.name, "module.", 7) == 0 && slash && slash != path) {
            /* "gpt2/module.mlir": the folder says more. */
            const char *from = slash;
            while (from > path && from[-1] != '/')
                from--;
            q->name = nf_strndup(from, (size_t)(slash - from));
            q->request.name = q->name;
        }
        if (!nf_utf8_valid(nf_str_c(q->request.name)))
            q->request.name = NULL;
    }
    /* What neffcc takes from the environment, so that both ask for the same. */
    const char *const *env = drv_env_names();
    size_t env_count = 0;
    while (env[env_count])
        env_count++;
    q->options = nf_alloc_array(c->given_count + env_count + 1, sizeof(*q->options));
    for (size_t i = 0; i < env_count && (!q->request.target || rt_target_is_neuron(nf_str_c(q->request.target))); i++)
        if ((v = getenv(env[i])) && nf_utf8_valid(nf_str_c(v)))
            q->options[q->request.option_count++] = (neffd_option){.name = nf_asprintf("env:%s", env[i]), .value = nf_strdup(v)};
    for (size_t i = 0; i < c->given_count; i++) {
        if (strcmp(c->given[i].name, "option") != 0)
            continue;
        struct nf_str value = nf_str_c(c->given[i].value), name = nf_str_cut(&value, '=');
        if (!value.data || name.len == 0)
            return nf_fail(err, NF_EUSAGE, "-O %s: an option is NAME=VALUE", c->given[i].value);
        while (name.len && name.data[0] == '-') { /* as the compiler's command line has it */
            name.data++;
            name.len--;
        }
        q->options[q->request.option_count++] = (neffd_option){.name = nf_strndup(name.data, name.len), .value = nf_strndup(value.data, value.len)};
    }
    q->request.options = q->options;
    if ((v = ctl_value(c, "input-kind")) && (r = enum_value(&neffd__v1__input_kind__descriptor, "input-kind", v, &q->request.input_kind, err)) < 0)
        return r;
    if ((v = ctl_value(c, "priority")) && (r = enum_value(&neffd__v1__priority__descriptor, "priority", v, &q->request.priority, err)) < 0)
        return r;
    if ((v = ctl_value(c, "stop-after")) && (r = enum_value(&neffd__v1__stage__descriptor, "stop-after", v, &q->request.stop_after, err)) < 0)
        return r;
    if ((r = ctl_value_seconds_ms(c, "timeout", &q->request.timeout_ms, err)) < 0 ||
        (r = ctl_value_seconds_ms(c, "lock-timeout", &q->request.lock_timeout_ms, err)) < 0 ||
        (r = ctl_value_seconds_ms(c, "compile-timeout", &q->request.compile_timeout_ms, err)) < 0)
        return r;
    q->request.ignore_cache = ctl_flag(c, "ignore-cache");
    q->request.ignore_failures = ctl_flag(c, "ignore-failures");
    q->request.no_publish = ctl_flag(c, "no-publish");
    q->request.detach = ctl_flag(c, "detach");
    q->request.on_event = ctl_request_event;
    q->request.user = q;
    return NF_OK;
}

void ctl_request_done(struct ctl_request *q)
{
    for (size_t i = 0; i < q->request.option_count; i++) {
        free((char *)(uintptr_t)q->options[i].name);
        free((char *)(uintptr_t)q->options[i].value);
    }
    free(q->options);
    free(q->name);
    nf_buf_done(&q->graph);
}

/* The daemon says with a log line of this source why a compile was needed. */
#define EXPLAIN_SOURCE "explain"
enum { EXPLAIN_LINE_MAX = 480 };

int ctl_request_event(void *user, const char *line, const void *event_bytes, size_t event_len)
{
    struct ctl_request *q = user;
    struct ctl *c = q->ctl;
    ProtobufCMessage *base;
    if (rpc_decode(&neffd__v1__compile_event__descriptor, nf_str_n(event_bytes, event_len), &base, NULL) < 0)
        return 0;
    const Neffd__V1__CompileEvent *e = (const Neffd__V1__CompileEvent *)base;
    bool failed = e->event_case == NEFFD__V1__COMPILE_EVENT__EVENT_FAILED, last = failed || e->event_case == NEFFD__V1__COMPILE_EVENT__EVENT_DONE;
    bool log = e->event_case == NEFFD__V1__COMPILE_EVENT__EVENT_LOG;
    if (e->event_case == NEFFD__V1__COMPILE_EVENT__EVENT_PROGRESS)
        q->fraction = e->progress->fraction;
    if (e->event_case == NEFFD__V1__COMPILE_EVENT__EVENT_STAGE)
        (void)cl_enum_word(&neffd__v1__stage__descriptor, (int)e->stage->stage, q->stage, sizeof(q->stage));
    if (log && strcmp(e->log->source, EXPLAIN_SOURCE) == 0) {
        if (!c->quiet) {
            /* One line, not ten of a terminal: what differs in very much is for `explain`. */
            struct nf_str said = nf_str_c(e->log->line);
            size_t cut = said.len;
            if (said.len > EXPLAIN_LINE_MAX)
                for (cut = EXPLAIN_LINE_MAX; cut > 0 && said.data[cut] != ';'; cut--)
                    ;
            char *shown = nf_strndup(said.data, cut ? cut : EXPLAIN_LINE_MAX);
            ctl_bar_clear(c);
            fprintf(stderr, "%smiss:%s %s%s\n", ctl_on(c->color_err, CTL_YELLOW), ctl_off(c->color_err), ctl_clean(shown),
                cut < said.len ? "; and more, see `neffctl explain`" : "");
            free(shown);
        }
    } else if (log && e->log->level <= 1 && !c->quiet && !c->verbose) {
        ctl_bar_clear(c);
        fprintf(stderr, "%s%s:%s %s\n", ctl_on(c->color_err, CTL_YELLOW), e->log->level ? "warning" : "error", ctl_off(c->color_err), ctl_clean(line));
        ctl_shown(c, e->log->line);
    } else if (c->verbose && line[0] && !(failed && c->terminal)) {   /* there the error itself follows at once */
        ctl_bar_clear(c);
        fprintf(stderr, "%s\n", ctl_clean(line));
        if (log)
            ctl_shown(c, e->log->line);
    } else if (!last && line[0]) {
        char text[300];
        bool staged = q->stage[0] && e->event_case != NEFFD__V1__COMPILE_EVENT__EVENT_STAGE;
        (void)nf_format(text, sizeof(text), "%s%s%s", staged ? q->stage : "", staged ? ": " : "", line);
        ctl_bar(c, q->fraction, text);
    }
    protobuf_c_message_free_unpacked(base, NULL);
    return 0;
}

/* --------------------------------------------------------------------------------------------------------------- results */

static int write_output(const char *path, const neffd_artifact *artifact, struct nf_error *err)
{
    const void *data;
    neffd_error why;
    int r = neffd_artifact_map((neffd_artifact *)(uintptr_t)artifact, &data, &why);
    if (r < 0)
        return nf_fail(err, r, "%s", why.message);
    if (strcmp(path, "-") == 0) {
        r = nf_fd_write_all(1, data, neffd_artifact_bytes(artifact));
        return r < 0 ? nf_fail(err, r, "cannot write the artifact to standard output") : NF_OK;
    }
    return nf_output_write(path, nf_str_n(data, neffd_artifact_bytes(artifact)), 0644, err);
}

void ctl_print_done(struct ctl *c, const Neffd__V1__Done *done, const char *output)
{
    struct nf_buf t = NF_BUF_INIT;
    char word[32];
    cl_enum_word(&neffd__v1__outcome__descriptor, (int)done->outcome, word, sizeof(word));
    for (char *p = word; (p = strchr(p, '_')); )
        *p = ' ';
    nf_buf_addf(&t, "%s%s%s in ", ctl_on(c->color_out, done->outcome == NEFFD__V1__OUTCOME__OUTCOME_MISS ? CTL_YELLOW : CTL_GREEN), word, ctl_off(c->color_out));
    cl_add_duration_us(&t, done->times ? done->times->total_us : 0);
    if (done->times && done->times->compile_us) {
        nf_buf_add_c(&t, " (compile ");
        cl_add_duration_us(&t, done->times->compile_us);
        nf_buf_add_c(&t, ")");
    } else if (done->provenance && done->provenance->compile_us) {
        nf_buf_add_c(&t, " (its compile took ");
        cl_add_duration_us(&t, done->provenance->compile_us);
        nf_buf_add_c(&t, ")");
    }
    nf_buf_add_c(&t, "\n");
    if (done->canonical_key.len) {
        nf_buf_add_c(&t, "  key       ");
        nf_buf_add_hex(&t, done->canonical_key.data, done->canonical_key.len);
        nf_buf_add_c(&t, "\n");
    }
    if (done->artifact) {
        nf_buf_addf(&t, "  artifact  %s, ", done->artifact->kind[0] ? done->artifact->kind : "neff");
        cl_add_bytes(&t, done->artifact->size);
        if (done->artifact->target[0])
            nf_buf_addf(&t, ", for %s", ctl_clean(done->artifact->target));
        if (done->artifact->compiler[0])
            nf_buf_addf(&t, ", by %s", ctl_clean(done->artifact->compiler));
        nf_buf_add_c(&t, "\n");
        if (done->artifact->path[0])
            nf_buf_addf(&t, "  file      %s\n", ctl_clean(done->artifact->path));
    }
    if (output && strcmp(output, "-") != 0)
        nf_buf_addf(&t, "  written   %s\n", ctl_clean(output));
    if (!(output && strcmp(output, "-") == 0))
        fputs(t.data ? t.data : "", stdout);
    nf_buf_done(&t);
}

static void print_explanation(struct ctl *c, const Neffd__V1__Done *done)
{
    (void)c;
    struct nf_buf t = NF_BUF_INIT;
    cl_explanation_text(done->explanation, &t);
    for (struct nf_str rest = nf_buf_str(&t); rest.len;) {
        struct nf_str line = nf_str_cut(&rest, '\n');
        char *copy = nf_strndup(line.data, line.len);
        puts(ctl_clean(copy));
        free(copy);
    }
    nf_buf_done(&t);
}

/* A miss of --cache-only: an error that carries the explanation. */
static int cache_only_miss(struct ctl *c, const struct ctl_request *q, const Neffd__V1__Done *done)
{
    struct nf_error err;
    struct nf_buf line = NF_BUF_INIT;
    cl_explanation_line(done->explanation, 8, &line);
    nf_fail(&err, NF_ENOTFOUND, "%s is not in the cache; %s", q->path, line.data);
    nf_error_hint(&err, "`neffctl explain %s` says more; without --cache-only (NEFFD_CACHE_ONLY) it would be compiled", q->path);
    nf_buf_done(&line);
    if (!c->json)
        return ctl_fail(c, &err, NULL);
    Neffd__V1__Error message = NEFFD__V1__ERROR__INIT;
    rpc_error_to_message(&err, &message);
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "error", ctl_json_of_message(&message.base));
    json_object_object_add(o, "explanation", done->explanation ? ctl_json_of_message(&done->explanation->base) : NULL);
    ctl_json_print(o);
    return CTL_NOT_FOUND;
}

/* The front key told nothing and nobody can be asked: a renamed twin may still be in a tier. */
static int without_daemon(neffd_client *client, const struct ctl_request *q, enum cl_action action, int r, struct cl_answer *answer, struct nf_error *err)
{
    struct nf_error why = {0};
    int found = action == CL_COMPILE && (q->request.ignore_cache || q->request.no_publish)
        ? NF_EUNSUPPORTED
        : ctl_canonical_lookup(client, &q->request, strcmp(q->path, "-") == 0 ? "" : q->path, answer, &why);
    if (found == NF_OK)
        return NF_OK;
    if (nf_status_class(found) == NF_CLASS_USER && found != NF_EUNSUPPORTED) { /* a graph that no daemon would take either */
        *err = why;
        return found;
    }
    if (found == NF_ENOTFOUND && action == CL_LOOKUP) { /* both tiers were looked at: that is the answer */
        answer->done = nf_alloc(sizeof(*answer->done));
        neffd__v1__done__init(answer->done);
        answer->done->outcome = NEFFD__V1__OUTCOME__OUTCOME_MISS;
        return NF_OK;
    }
    return r;
}

static int ask(struct ctl *c, enum cl_action action)
{
    struct ctl_request q;
    struct cl_answer answer = {0};
    struct nf_error err = {0};
    neffd_client *client = NULL;
    int rc = CTL_OK;
    const char *output = ctl_value(c, "output");
    if (output && strcmp(output, "-") == 0 && c->json)
        return ctl_usage(c, "--output - and --json both want standard output");
    int r = ctl_request_init(c, c->args[0], &q, &err);
    q.fraction = -1;
    if (r >= 0)
        r = ctl_client(c, &client, &err);
    if (r >= 0)
        r = cl_ask(client, &q.request, action, &answer, &err);
    ctl_bar_clear(c);
    if (r < 0 && client && q.graph.len && (err.code == NF_ENODAEMON || (client->cache_only && err.code == NF_ENOTFOUND)))
        r = without_daemon(client, &q, action, r, &answer, &err);
    bool miss = r >= 0 && answer.done->outcome == NEFFD__V1__OUTCOME__OUTCOME_MISS;
    if (r >= 0 && !miss && output && answer.artifact)
        r = write_output(output, answer.artifact, &err);
    if (r < 0) {
        nf_error_file(&err, c->args[0]);
        rc = ctl_fail(c, &err, answer.failed);
    } else if (miss && action == CL_COMPILE) {
        rc = cache_only_miss(c, &q, answer.done);
    } else {
        if (c->json)
            ctl_json_print(ctl_json_of_message(&answer.done->base));
        else if (action == CL_EXPLAIN && miss)
            print_explanation(c, answer.done);
        else
            ctl_print_done(c, answer.done, miss ? NULL : output);
        bool near = answer.done->explanation && answer.done->explanation->found;
        rc = miss && !(action == CL_EXPLAIN && near) ? CTL_NOT_FOUND : CTL_OK;
    }
    cl_answer_done(&answer);
    ctl_request_done(&q);
    return rc;
}

/* By key: this host's tier, else the daemon. */
int ctl_lookup_key(struct ctl *c, const struct nf_digest *key, struct cl_answer *ret_answer, struct nf_error *err)
{
    neffd_client *client;
    struct cache_hit *hit;
    ProtobufCMessage *reply;
    uint64_t timeout_ms = 0;
    int64_t begin = nf_now_ns();
    int r = ctl_client(c, &client, err);
    if (r >= 0)
        r = ctl_value_seconds_ms(c, "timeout", &timeout_ms, err);
    if (r < 0)
        return r;
    if (cache_reader_lookup(client->reader, key, ctl_value(c, "namespace"), &hit, NULL) == NF_OK) {
        ret_answer->done = cl_done_of_hit(hit, NULL, NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL, (uint64_t)(nf_now_ns() - begin) / 1000);
        ret_answer->artifact = cl_artifact_of_hit(hit, NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL);
        return NF_OK;
    }
    Neffd__V1__LookupRequest request = NEFFD__V1__LOOKUP_REQUEST__INIT;
    request.canonical_key = rpc_binary(key->bytes, NF_DIGEST_BYTES);
    r = ctl_call(c, RPC_LOOKUP, &request.base, timeout_ms, &reply, err);
    if (r >= 0) {
        ret_answer->done = (Neffd__V1__Done *)reply;
        ret_answer->asked_daemon = true;
        if (ret_answer->done->artifact && ret_answer->done->outcome != NEFFD__V1__OUTCOME__OUTCOME_MISS)
            r = cl_artifact_of_message(client, ret_answer->done->artifact, (int)ret_answer->done->outcome, cl_deadline(timeout_ms), &ret_answer->artifact, err);
    } else if (r == NF_ENODAEMON && cache_reader_lookup_shared(client->reader, key, ctl_value(c, "namespace"), &hit, NULL) == NF_OK) {
        ret_answer->done = cl_done_of_hit(hit, NULL, NEFFD__V1__OUTCOME__OUTCOME_HIT_SHARED, (uint64_t)(nf_now_ns() - begin) / 1000);
        ret_answer->artifact = cl_artifact_of_hit(hit, NEFFD__V1__OUTCOME__OUTCOME_HIT_SHARED);
        r = NF_OK;
    } else if (r == NF_ENODAEMON) {
        /* Both tiers were looked at: the answer is known. */
        ret_answer->done = nf_alloc(sizeof(*ret_answer->done));
        neffd__v1__done__init(ret_answer->done);
        ret_answer->done->outcome = NEFFD__V1__OUTCOME__OUTCOME_MISS;
        r = NF_OK;
    }
    return r;
}

int ctl_cmd_compile(struct ctl *c) { return ask(c, CL_COMPILE); }

int ctl_cmd_explain(struct ctl *c) { return ask(c, CL_EXPLAIN); }

int ctl_cmd_lookup(struct ctl *c)
{
    struct nf_digest key;
    if (!ctl_is_key(c->args[0], &key) || access(c->args[0], F_OK) == 0)
        return ask(c, CL_LOOKUP);
    struct cl_answer answer = {0};
    struct nf_error err = {0};
    const char *output = ctl_value(c, "output");
    int rc;
    int r = ctl_lookup_key(c, &key, &answer, &err);
    bool miss = r >= 0 && answer.done->outcome == NEFFD__V1__OUTCOME__OUTCOME_MISS;
    if (r >= 0 && !miss && output && answer.artifact)
        r = write_output(output, answer.artifact, &err);
    if (r < 0) {
        rc = ctl_fail(c, &err, NULL);
    } else {
        if (c->json)
            ctl_json_print(ctl_json_of_message(&answer.done->base));
        else
            ctl_print_done(c, answer.done, miss ? NULL : output);
        rc = miss ? CTL_NOT_FOUND : CTL_OK;
    }
    cl_answer_done(&answer);
    return rc;
}
