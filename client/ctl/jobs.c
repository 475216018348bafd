/* jobs.c: jobs, cancel. */
#include "client/ctl/ctl.h"

#include "client/wire.h"

const struct ctl_option ctl_options_jobs[] = {
    {"watch", 'w', NULL, NULL, "again at each change, until interrupted"},
    {0},
};
const struct ctl_option ctl_options_cancel[] = {{0}};

static void add_job(struct ctl_table *t, const Neffd__V1__Job *j)
{
    char stage[32], key[17] = "", word[32];
    struct nf_buf age = NF_BUF_INIT, eta = NF_BUF_INIT, rss = NF_BUF_INIT, who = NF_BUF_INIT;
    cl_enum_word(&neffd__v1__stage__descriptor, (int)j->stage, stage, sizeof(stage));
    cl_enum_word(&neffd__v1__priority__descriptor, (int)j->priority, word, sizeof(word));
    for (size_t i = 0; i < j->canonical_key.len && i < 6; i++)
        (void)nf_format(key + 2 * i, 3, "%02x", j->canonical_key.data[i]);
    cl_add_duration_us(&age, j->age_us);
    if (j->eta_p50_ms)
        cl_add_duration_us(&eta, j->eta_p50_ms * 1000);
    if (j->rss_bytes)
        cl_add_bytes(&rss, j->rss_bytes);
    if (j->leader)
        nf_buf_addf(&who, "%s%s%u", j->leader->rank[0] ? j->leader->rank : "", j->leader->rank[0] ? "/" : "", j->leader->pid);
    ctl_table_add(t, "%llu", (unsigned long long)j->id);
    ctl_table_add(t, "%s", j->state);
    ctl_table_add(t, "%s", j->stage ? stage : "");
    if (j->fraction > 0)
        ctl_table_add(t, "%.0f%%", j->fraction * 100);
    else
        ctl_table_add(t, "%s", "");
    ctl_table_add(t, "%s", eta.data ? eta.data : "");
    ctl_table_add(t, "%s", age.data);
    ctl_table_add(t, "%u", j->waiters);
    ctl_table_add(t, "%s", rss.data ? rss.data : "");
    ctl_table_add(t, "%s", j->target);
    ctl_table_add(t, "%s", j->priority ? word : "");
    ctl_table_add(t, "%s", who.data ? who.data : "");
    ctl_table_add(t, "%s", key);
    ctl_table_add(t, "%s", j->name);
    nf_buf_done(&age);
    nf_buf_done(&eta);
    nf_buf_done(&rss);
    nf_buf_done(&who);
}

static int each_jobs(struct ctl *c, const ProtobufCMessage *message, void *user, struct nf_error *err)
{
    static const char *const head[] = {"ID", "STATE", "STAGE", "DONE", "LEFT", "AGE", "WAITERS", "MEMORY", "TARGET", "PRIORITY", "BY", "KEY", "NAME"};
    const Neffd__V1__JobsReply *reply = (const Neffd__V1__JobsReply *)message;
    bool *again = user;
    (void)err;
    if (c->json) {
        ctl_json_print(ctl_json_of_message(message));
        return NF_OK;
    }
    if (*again && c->color_out)
        fputs("\033[H\033[2J", stdout);
    else if (*again)
        putchar('\n');
    *again = true;
    if (reply->n_jobs == 0) {
        if (!c->quiet)
            puts("no jobs");
        fflush(stdout);
        return NF_OK;
    }
    struct ctl_table t = {.columns = NF_ARRAY_LEN(head), .align = "rlllrrrrllrll"};
    for (size_t i = 0; i < NF_ARRAY_LEN(head); i++)
        ctl_table_add(&t, "%s", head[i]);
    for (size_t i = 0; i < reply->n_jobs; i++)
        add_job(&t, reply->jobs[i]);
    ctl_table_print(c, &t);
    fflush(stdout);
    return NF_OK;
}

int ctl_cmd_jobs(struct ctl *c)
{
    Neffd__V1__JobsRequest request = NEFFD__V1__JOBS_REQUEST__INIT;
    struct nf_error err = {0};
    bool again = false;
    request.watch = ctl_flag(c, "watch");
    int r = ctl_stream(c, RPC_JOBS, &request.base, each_jobs, &again, &err);
    return r < 0 ? ctl_fail(c, &err, NULL) : CTL_OK;
}

int ctl_cmd_cancel(struct ctl *c)
{
    Neffd__V1__CancelJobRequest request = NEFFD__V1__CANCEL_JOB_REQUEST__INIT;
    struct nf_error err = {0};
    ProtobufCMessage *reply;
    if (nf_str_to_u64(nf_str_c(c->args[0]), &request.id) < 0 || request.id == 0)
        return ctl_usage(c, "'%s' is not the number of a job (neffctl jobs lists them)", c->args[0]);
    int r = ctl_call(c, RPC_CANCEL_JOB, &request.base, 0, &reply, &err);
    if (r < 0)
        return ctl_fail(c, &err, NULL);
    bool found = ((Neffd__V1__CancelJobReply *)reply)->found;
    if (c->json)
        ctl_json_print(ctl_json_of_message(reply));
    protobuf_c_message_free_unpacked(reply, NULL);
    if (found) {
        if (!c->json && !c->quiet)
            printf("job %llu is cancelled\n", (unsigned long long)request.id);
        return CTL_OK;
    }
    if (!c->json) {
        nf_fail(&err, NF_ENOTFOUND, "there is no job %llu", (unsigned long long)request.id);
        nf_error_hint(&err, "neffctl jobs lists them");
        return ctl_fail(c, &err, NULL);
    }
    return CTL_NOT_FOUND;
}
