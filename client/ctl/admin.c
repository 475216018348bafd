/* admin.c: status, stats, config, ping, drain. */
#include "client/ctl/ctl.h"

#include "base/clock.h"
#include "client/wire.h"

const struct ctl_option ctl_options_status[] = {{0}};
const struct ctl_option ctl_options_stats[] = {{0}};
const struct ctl_option ctl_options_config[] = {
    {"changed", 0, NULL, NULL, "only what does not have its default"},
    {0},
};
const struct ctl_option ctl_options_ping[] = {
    {"wait", 0, "S", NULL, "wait up to S seconds until it serves"},
    {0},
};
const struct ctl_option ctl_options_drain[] = {
    {"timeout", 0, "S", NULL, "how long running jobs may take (else the daemon's drain_timeout)"},
    {0},
};

/* Answers that need no work must come soon, or something is wrong. */
enum { ADMIN_TIMEOUT_MS = 20000 };

static int get_status(struct ctl *c, Neffd__V1__StatusReply **ret_status, struct nf_error *err)
{
    Neffd__V1__StatusRequest request = NEFFD__V1__STATUS_REQUEST__INIT;
    ProtobufCMessage *reply;
    int r = ctl_call(c, RPC_STATUS, &request.base, ADMIN_TIMEOUT_MS, &reply, err);
    if (r >= 0)
        *ret_status = (Neffd__V1__StatusReply *)reply;
    return r;
}

int ctl_cmd_status(struct ctl *c)
{
    struct nf_error err = {0};
    Neffd__V1__StatusReply *s;
    struct nf_buf t = NF_BUF_INIT;
    int r = get_status(c, &s, &err);
    if (r < 0)
        return ctl_fail(c, &err, NULL);
    if (c->json) {
        ctl_json_print(ctl_json_of_message(&s->base));
    } else {
        nf_buf_addf(&t, "neffd %s, pid %u, %s%s%s since ", ctl_clean(s->version), s->pid, ctl_on(c->color_out, s->draining ? CTL_YELLOW : CTL_GREEN),
            s->draining ? "draining" : "serving", ctl_off(c->color_out));
        cl_add_duration_us(&t, s->uptime_us);
        nf_buf_add_c(&t, ", ");
        cl_add_bytes(&t, s->rss_bytes);
        nf_buf_addf(&t, "\n  jobs      %u running, %u queued, %u requests wait, %u workers\n", s->jobs_running, s->jobs_queued, s->waiters, s->workers);
        if (s->counters) {
            const Neffd__V1__Counters *k = s->counters;
            nf_buf_addf(&t, "  since start  %llu requests: %llu hits (%llu here, %llu shared), %llu joined, %llu compiles, %llu failed\n",
                (unsigned long long)k->requests, (unsigned long long)(k->hits_local + k->hits_shared), (unsigned long long)k->hits_local,
                (unsigned long long)k->hits_shared, (unsigned long long)k->joined, (unsigned long long)k->compiles,
                (unsigned long long)(k->failures_user + k->failures_transient + k->failures_environment + k->failures_internal));
            nf_buf_add_c(&t, "  saved     ");
            cl_add_duration_us(&t, k->compile_us_saved);
            nf_buf_add_c(&t, " of compiling\n");
        }
        if (s->cache) {
            nf_buf_addf(&t, "  cache     %s%s, %llu entries, ", ctl_clean(s->cache->shared_dir), s->cache->shared_writable ? "" : " (read-only)",
                (unsigned long long)s->cache->entries);
            cl_add_bytes(&t, s->cache->bytes);
            if (s->cache->limit_bytes) {
                nf_buf_add_c(&t, " of ");
                cl_add_bytes(&t, s->cache->limit_bytes);
            }
            nf_buf_addf(&t, "\n  this host %s, ", ctl_clean(s->cache->local_dir));
            cl_add_bytes(&t, s->cache->local_bytes);
            nf_buf_add_c(&t, "\n");
            if (s->cache->trouble[0])
                nf_buf_addf(&t, "  %strouble%s   %s\n", ctl_on(c->color_out, CTL_RED), ctl_off(c->color_out), ctl_clean(s->cache->trouble));
        }
        nf_buf_add_c(&t, "  targets   ");
        for (size_t i = 0; i < s->n_targets; i++)
            nf_buf_addf(&t, "%s%s%s", i ? ", " : "", ctl_clean(s->targets[i]), strcmp(s->targets[i], s->default_target) == 0 ? " (default)" : "");
        nf_buf_add_c(&t, "\n");
        for (size_t i = 0; i < s->n_remarks; i++)
            nf_buf_addf(&t, "  %sremark%s    %s\n", ctl_on(c->color_out, CTL_YELLOW), ctl_off(c->color_out), ctl_clean(s->remarks[i]));
        fputs(t.data, stdout);
        nf_buf_done(&t);
    }
    neffd__v1__status_reply__free_unpacked(s, NULL);
    return CTL_OK;
}

int ctl_cmd_stats(struct ctl *c)
{
    struct nf_error err = {0};
    Neffd__V1__StatusReply *s;
    int r = get_status(c, &s, &err);
    if (r < 0)
        return ctl_fail(c, &err, NULL);
    Neffd__V1__Counters zero = NEFFD__V1__COUNTERS__INIT;
    const Neffd__V1__Counters *now = s->counters ? s->counters : &zero, *life = s->counters_lifetime ? s->counters_lifetime : &zero;
    if (c->json) {
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "since_start", ctl_json_of_message(&now->base));
        json_object_object_add(o, "lifetime", ctl_json_of_message(&life->base));
        ctl_json_print(o);
    } else {
        struct ctl_table t = {.columns = 3, .align = "lrr"};
        ctl_table_add(&t, "COUNTER");
        ctl_table_add(&t, "SINCE START");
        ctl_table_add(&t, "LIFETIME");
        const ProtobufCMessageDescriptor *d = &neffd__v1__counters__descriptor;
        for (unsigned i = 0; i < d->n_fields; i++) { /* all are uint64 */
            ctl_table_add(&t, "%s", d->fields[i].name);
            ctl_table_add(&t, "%llu", (unsigned long long)*(const uint64_t *)((const char *)now + d->fields[i].offset));
            ctl_table_add(&t, "%llu", (unsigned long long)*(const uint64_t *)((const char *)life + d->fields[i].offset));
        }
        ctl_table_print(c, &t);
    }
    neffd__v1__status_reply__free_unpacked(s, NULL);
    return CTL_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- config */

static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if (*a != *b && !(*a == '-' && *b == '_'))
            return false;
    return *a == *b;
}

static void print_setting(struct ctl *c, const Neffd__V1__Setting *s)
{
    printf("%s%s%s = %s\n", ctl_on(c->color_out, CTL_BOLD), ctl_clean(s->name), ctl_off(c->color_out), ctl_clean(s->value));
    printf("  %s\n  from %s; default %s; scope %s%s\n", ctl_clean(s->help), ctl_clean(s->source), s->default_value[0] ? ctl_clean(s->default_value) : "(empty)",
        ctl_clean(s->scope), s->in_effect ? "" : "; not in effect: its area is not there yet");
    for (size_t i = 0; i < s->n_env; i++)
        printf("%s%s%s", i ? ", " : "  environment: ", ctl_clean(s->env[i]), i + 1 == s->n_env ? "\n" : "");
}

int ctl_cmd_config(struct ctl *c)
{
    Neffd__V1__GetConfigRequest request = NEFFD__V1__GET_CONFIG_REQUEST__INIT;
    struct nf_error err = {0};
    ProtobufCMessage *base;
    int rc = CTL_OK;
    int r = ctl_call(c, RPC_GET_CONFIG, &request.base, ADMIN_TIMEOUT_MS, &base, &err);
    if (r < 0)
        return ctl_fail(c, &err, NULL);
    Neffd__V1__GetConfigReply *reply = (Neffd__V1__GetConfigReply *)base;
    if (c->arg_count) {
        const Neffd__V1__Setting *found = NULL;
        const char *near = NULL;
        size_t near_d = 4;
        for (size_t i = 0; i < reply->n_settings; i++) {
            if (same_name(c->args[0], reply->settings[i]->name))
                found = reply->settings[i];
            size_t d = nf_edit_distance(nf_str_c(c->args[0]), nf_str_c(reply->settings[i]->name));
            if (d < near_d) {
                near_d = d;
                near = reply->settings[i]->name;
            }
        }
        if (!found) {
            nf_fail(&err, NF_ENOTFOUND, "there is no setting %s", c->args[0]);
            if (near)
                nf_error_hint(&err, "did you mean %s?", near);
            else
                nf_error_hint(&err, "neffctl config lists them");
            rc = ctl_fail(c, &err, NULL);
        } else if (c->json) {
            ctl_json_print(ctl_json_of_message(&found->base));
        } else {
            print_setting(c, found);
        }
    } else if (c->json) {
        ctl_json_print(ctl_json_of_message(base));
    } else {
        struct ctl_table t = {.columns = 4, .align = "llll"};
        ctl_table_add(&t, "NAME");
        ctl_table_add(&t, "VALUE");
        ctl_table_add(&t, "FROM");
        ctl_table_add(&t, "DEFAULT");
        for (size_t i = 0; i < reply->n_settings; i++) {
            const Neffd__V1__Setting *s = reply->settings[i];
            bool is_default = strcmp(s->source, "default") == 0;
            if (ctl_flag(c, "changed") && is_default)
                continue;
            ctl_table_add(&t, "%s", s->name);
            ctl_table_add(&t, "%s", s->value);
            ctl_table_add(&t, "%s", s->source);
            ctl_table_add(&t, "%s", is_default ? "" : s->default_value);
        }
        ctl_table_print(c, &t);
    }
    neffd__v1__get_config_reply__free_unpacked(reply, NULL);
    return rc;
}

/* ----------------------------------------------------------------------------------------------------------- ping, drain */

int ctl_cmd_ping(struct ctl *c)
{
    struct nf_error err = {0};
    neffd_client *client;
    uint64_t wait_ms = 0;
    int64_t begin = nf_now_ns();
    int r = ctl_value_seconds_ms(c, "wait", &wait_ms, &err);
    if (r >= 0)
        r = ctl_client(c, &client, &err);
    if (r >= 0)
        r = wait_ms ? cl_daemon_wait(client, cl_deadline(wait_ms), &err) : cl_daemon_ping(client, cl_deadline(ADMIN_TIMEOUT_MS), &err);
    uint64_t us = (uint64_t)(nf_now_ns() - begin) / 1000;
    if (r < 0) {
        ctl_no_daemon_hint(c, &err);
        return ctl_fail(c, &err, NULL);
    }
    if (c->json) {
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "serving", json_object_new_boolean(1));
        json_object_object_add(o, "us", ctl_json_u64(us));
        ctl_json_print(o);
    } else if (!c->quiet) {
        struct nf_buf t = NF_BUF_INIT;
        cl_add_duration_us(&t, us);
        printf("serving, answered in %s\n", t.data);
        nf_buf_done(&t);
    }
    return CTL_OK;
}

int ctl_cmd_drain(struct ctl *c)
{
    Neffd__V1__DrainRequest request = NEFFD__V1__DRAIN_REQUEST__INIT;
    struct nf_error err = {0};
    ProtobufCMessage *reply;
    int r = ctl_value_seconds_ms(c, "timeout", &request.timeout_ms, &err);
    if (r >= 0)
        r = ctl_call(c, RPC_DRAIN, &request.base, 0, &reply, &err);
    if (r < 0)
        return ctl_fail(c, &err, NULL);
    uint32_t left = ((Neffd__V1__DrainReply *)reply)->jobs_left;
    if (c->json)
        ctl_json_print(ctl_json_of_message(reply));
    else if (!c->quiet)
        left ? printf("stopped with %u jobs unfinished\n", left) : puts("drained");
    protobuf_c_message_free_unpacked(reply, NULL);
    return left ? nf_status_exit(NF_ETIMEOUT) : CTL_OK;
}
