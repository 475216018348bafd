/* cache.c: cache ls, show, verify, gc, rm. */
#include "client/ctl/ctl.h"

#include "base/clock.h"
#include "client/ctl/request.h"
#include "client/wire.h"

#include <inttypes.h>
#include <time.h>

const struct ctl_option ctl_options_cache_ls[] = {
    {"namespace", 0, "N", NULL, "only this cache namespace"},
    {"limit", 0, "N", NULL, "at most N entries, latest used first"},
    {0},
};
const struct ctl_option ctl_options_cache_show[] = {
    {"namespace", 0, "N", NULL, "cache namespace"},
    {0},
};
const struct ctl_option ctl_options_cache_verify[] = {
    {"repair", 0, NULL, NULL, "quarantine what is damaged, so that it is rebuilt"},
    {0},
};
const struct ctl_option ctl_options_cache_gc[] = {
    {"to", 0, "SIZE", NULL, "evict until the cache is no larger (500M, 2G; else the configured limit)"},
    {"dry-run", 'n', NULL, NULL, "only say what would go"},
    {0},
};
const struct ctl_option ctl_options_cache_rm[] = {
    {"failures", 0, NULL, NULL, "remove remembered failures: of the keys given, else all"},
    {"namespace", 0, "N", NULL, "cache namespace"},
    {0},
};

/* -------------------------------------------------------------------------------------------------------------------- ls */

struct listing {
    struct ctl_table table;
    uint64_t count, bytes;
};

static void add_age(struct nf_buf *out, uint64_t epoch_us)
{
    int64_t now = nf_wall_us();
    if (epoch_us == 0)
        nf_buf_add_c(out, "-");
    else
        cl_add_duration_us(out, (int64_t)epoch_us < now ? (uint64_t)now - epoch_us : 0);
}

static int each_entry(struct ctl *c, const ProtobufCMessage *message, void *user, struct nf_error *err)
{
    struct listing *l = user;
    const Neffd__V1__Entry *e = (const Neffd__V1__Entry *)message;
    (void)err;
    if (c->json) {
        ctl_json_print(ctl_json_of_message(message));
        return NF_OK;
    }
    struct nf_buf size = NF_BUF_INIT, took = NF_BUF_INIT, used = NF_BUF_INIT, key = NF_BUF_INIT;
    if (e->artifact)
        cl_add_bytes(&size, e->artifact->size);
    cl_add_duration_us(&took, e->compile_us);
    add_age(&used, e->last_used_us ? e->last_used_us : e->created_us);
    nf_buf_add_hex(&key, e->canonical_key.data, e->canonical_key.len);
    ctl_table_add(&l->table, "%s", key.data ? key.data : "");
    ctl_table_add(&l->table, "%s", e->failure ? "failure" : e->artifact ? e->artifact->kind : "");
    ctl_table_add(&l->table, "%s", e->artifact ? e->artifact->target : "");
    ctl_table_add(&l->table, "%s", size.data ? size.data : "");
    ctl_table_add(&l->table, "%s", took.data);
    ctl_table_add(&l->table, "%s", used.data);
    ctl_table_add(&l->table, "%s%s%s", e->name, e->failure ? ": " : "", e->failure ? e->failure->message : "");
    l->count++;
    l->bytes += e->artifact ? e->artifact->size : 0;
    nf_buf_done(&size);
    nf_buf_done(&took);
    nf_buf_done(&used);
    nf_buf_done(&key);
    return NF_OK;
}

int ctl_cmd_cache_ls(struct ctl *c)
{
    static const char *const head[] = {"KEY", "KIND", "TARGET", "SIZE", "COMPILED IN", "USED AGO", "NAME"};
    Neffd__V1__ListEntriesRequest request = NEFFD__V1__LIST_ENTRIES_REQUEST__INIT;
    struct listing l = {.table = {.columns = NF_ARRAY_LEN(head), .align = "lllrrrl"}};
    struct nf_error err = {0};
    uint64_t limit = 0;
    if (ctl_value(c, "namespace"))
        request.cache_namespace = (char *)(uintptr_t)ctl_value(c, "namespace");
    if (c->arg_count)
        request.filter = (char *)(uintptr_t)c->args[0];
    int r = ctl_value_u64(c, "limit", UINT32_MAX, &limit, &err);
    request.limit = (uint32_t)limit;
    if (!c->json)
        for (size_t i = 0; i < NF_ARRAY_LEN(head); i++)
            ctl_table_add(&l.table, "%s", head[i]);
    if (r >= 0)
        r = ctl_stream(c, RPC_LIST_ENTRIES, &request.base, each_entry, &l, &err);
    if (!c->json) {
        if (r < 0 || l.count == 0) {
            for (size_t i = 0; i < l.table.count; i++)
                free(l.table.cells[i]);
            free(l.table.cells);
            if (r >= 0 && !c->quiet)
                puts("no entries");
        } else {
            struct nf_buf t = NF_BUF_INIT;
            ctl_table_print(c, &l.table);
            cl_add_bytes(&t, l.bytes);
            if (!c->quiet)
                printf("%" PRIu64 " entries, %s\n", l.count, t.data);
            nf_buf_done(&t);
        }
    }
    return r < 0 ? ctl_fail(c, &err, NULL) : CTL_OK;
}

/* ------------------------------------------------------------------------------------------------------------------ show */

struct showing {
    struct nf_digest key;
    bool found;
};

static void add_time(struct nf_buf *out, uint64_t epoch_us)
{
    char text[64] = "-";
    time_t t = (time_t)(epoch_us / 1000000);
    struct tm tm;
    if (epoch_us && localtime_r(&t, &tm))
        (void)!strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    nf_buf_add_c(out, text);
}

static void print_entry(const Neffd__V1__Entry *e)
{
    struct nf_buf t = NF_BUF_INIT;
    nf_buf_add_c(&t, "key         ");
    nf_buf_add_hex(&t, e->canonical_key.data, e->canonical_key.len);
    nf_buf_addf(&t, "\nname        %s\n", ctl_clean(e->name));
    if (e->cache_namespace[0])
        nf_buf_addf(&t, "namespace   %s\n", ctl_clean(e->cache_namespace));
    if (e->artifact) {
        nf_buf_addf(&t, "artifact    %s, ", ctl_clean(e->artifact->kind));
        cl_add_bytes(&t, e->artifact->size);
        nf_buf_addf(&t, "\ntarget      %s\ncompiler    %s\nfile        %s\nsha256      ", ctl_clean(e->artifact->target), ctl_clean(e->artifact->compiler),
            ctl_clean(e->artifact->path));
        nf_buf_add_hex(&t, e->artifact->sha256.data, e->artifact->sha256.len);
        nf_buf_add_c(&t, "\n");
    }
    if (e->failure)
        nf_buf_addf(&t, "failure     %s: %s\n", ctl_clean(e->failure->code), ctl_clean(e->failure->message));
    nf_buf_add_c(&t, "created     ");
    add_time(&t, e->created_us);
    if (e->created_by[0])
        nf_buf_addf(&t, " by %s", ctl_clean(e->created_by));
    nf_buf_add_c(&t, "\nlast used   ");
    add_time(&t, e->last_used_us);
    nf_buf_add_c(&t, "\ncompiled in ");
    cl_add_duration_us(&t, e->compile_us);
    puts(t.data);
    nf_buf_done(&t);
}

static int each_shown(struct ctl *c, const ProtobufCMessage *message, void *user, struct nf_error *err)
{
    struct showing *s = user;
    const Neffd__V1__Entry *e = (const Neffd__V1__Entry *)message;
    (void)err;
    if (s->found || !nf_str_eq(rpc_bytes(e->canonical_key), nf_digest_str(&s->key)))
        return NF_OK;
    s->found = true;
    if (c->json)
        ctl_json_print(ctl_json_of_message(message));
    else
        print_entry(e);
    return NF_OK;
}

/* Without a daemon: what the file itself says. */
static bool show_from_file(struct ctl *c, const struct nf_digest *key)
{
    neffd_client *client;
    struct cache_hit *hit = NULL;
    struct cache_meta meta;
    const char *ns = ctl_value(c, "namespace");
    if (ctl_client(c, &client, NULL) < 0 ||
        (cache_reader_lookup(client->reader, key, ns, &hit, NULL) < 0 && cache_reader_lookup_shared(client->reader, key, ns, &hit, NULL) < 0))
        return false;
    struct nf_arena *arena = nf_arena_new(0);
    const struct cache_footer *f = cache_hit_footer(hit);
    Neffd__V1__Done *done = cl_done_of_hit(hit, NULL, NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL, 0);
    Neffd__V1__Entry e = NEFFD__V1__ENTRY__INIT;
    e.canonical_key = done->canonical_key;
    e.artifact = done->artifact;
    e.created_us = f->created_us > 0 ? (uint64_t)f->created_us : 0;
    e.compile_us = f->compile_us;
    if (cache_hit_meta(hit, arena, &meta, NULL) == NF_OK) {
        e.name = nf_arena_strn(arena, meta.name.data, meta.name.len);
        e.cache_namespace = nf_arena_strn(arena, meta.cache_namespace.data, meta.cache_namespace.len);
        e.created_by = nf_arena_strn(arena, meta.created_by.data, meta.created_by.len);
    }
    if (c->json)
        ctl_json_print(ctl_json_of_message(&e.base));
    else
        print_entry(&e);
    neffd__v1__done__free_unpacked(done, NULL);
    cache_hit_close(hit);
    nf_arena_free(arena);
    return true;
}

int ctl_cmd_cache_show(struct ctl *c)
{
    Neffd__V1__ListEntriesRequest request = NEFFD__V1__LIST_ENTRIES_REQUEST__INIT;
    struct showing s = {0};
    struct nf_error err = {0};
    if (!ctl_is_key(c->args[0], &s.key))
        return ctl_usage(c, "'%s' is not a key: 64 hex digits, as `neffctl cache ls` shows", c->args[0]);
    request.filter = (char *)(uintptr_t)c->args[0];
    if (ctl_value(c, "namespace"))
        request.cache_namespace = (char *)(uintptr_t)ctl_value(c, "namespace");
    int r = ctl_stream(c, RPC_LIST_ENTRIES, &request.base, each_shown, &s, &err);
    if (s.found || ((r == NF_ENODAEMON || r >= 0) && show_from_file(c, &s.key)))
        return CTL_OK;
    if (r >= 0 || r == NF_ENODAEMON)
        nf_fail(&err, NF_ENOTFOUND, "there is no entry %s", c->args[0]);
    return ctl_fail(c, &err, NULL);
}

/* ------------------------------------------------------------------------------------------------------------ verify, gc */

static int each_progress(struct ctl *c, const ProtobufCMessage *message, void *user, struct nf_error *err)
{
    Neffd__V1__CacheProgress *last = user;
    const Neffd__V1__CacheProgress *p = (const Neffd__V1__CacheProgress *)message;
    (void)err;
    last->done = p->done;
    last->total = p->total;
    last->bad = p->bad;
    last->removed = p->removed;
    last->bytes_freed = p->bytes_freed;
    last->finished = p->finished;
    if (c->json) {
        ctl_json_print(ctl_json_of_message(message));
        return NF_OK;
    }
    if (p->note[0] && !c->quiet) {
        ctl_bar_clear(c);
        puts(ctl_clean(p->note));
    }
    char text[64];
    (void)nf_format(text, sizeof(text), "%" PRIu64 " of %" PRIu64, p->done, p->total);
    ctl_bar(c, p->total ? (double)p->done / (double)p->total : -1, text);
    return NF_OK;
}

static int progress_command(struct ctl *c, enum rpc_method_id method, const ProtobufCMessage *request, Neffd__V1__CacheProgress *ret_last)
{
    struct nf_error err = {0};
    int r = ctl_stream(c, method, request, each_progress, ret_last, &err);
    ctl_bar_clear(c);
    if (r >= 0 && !ret_last->finished)
        r = nf_fail(&err, NF_EDISCONNECTED, "the daemon ended before it had finished");
    return r < 0 ? ctl_fail(c, &err, NULL) : CTL_OK;
}

int ctl_cmd_cache_verify(struct ctl *c)
{
    Neffd__V1__VerifyCacheRequest request = NEFFD__V1__VERIFY_CACHE_REQUEST__INIT;
    Neffd__V1__CacheProgress last = NEFFD__V1__CACHE_PROGRESS__INIT;
    request.repair = ctl_flag(c, "repair");
    int rc = progress_command(c, RPC_VERIFY_CACHE, &request.base, &last);
    if (rc != CTL_OK)
        return rc;
    if (!c->json && !c->quiet)
        printf("%" PRIu64 " checked, %" PRIu64 " damaged%s\n", last.done, last.bad, last.bad && request.repair ? ", quarantined" : "");
    return last.bad && !request.repair ? CTL_WRONG : CTL_OK;
}

int ctl_cmd_cache_gc(struct ctl *c)
{
    Neffd__V1__CollectGarbageRequest request = NEFFD__V1__COLLECT_GARBAGE_REQUEST__INIT;
    Neffd__V1__CacheProgress last = NEFFD__V1__CACHE_PROGRESS__INIT;
    struct nf_error err = {0};
    if (ctl_value_size(c, "to", &request.target_bytes, &err) < 0)
        return ctl_fail(c, &err, NULL);
    if (ctl_value(c, "to") && request.target_bytes == 0)
        request.target_bytes = 1; /* 0 on the wire is "not given" */
    request.dry_run = ctl_flag(c, "dry-run");
    int rc = progress_command(c, RPC_COLLECT_GARBAGE, &request.base, &last);
    if (rc == CTL_OK && !c->json && !c->quiet) {
        struct nf_buf t = NF_BUF_INIT;
        cl_add_bytes(&t, last.bytes_freed);
        printf("%s%" PRIu64 " entries, %s\n", request.dry_run ? "would remove " : "removed ", last.removed, t.data);
        nf_buf_done(&t);
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------------------------------- rm */

int ctl_cmd_cache_rm(struct ctl *c)
{
    Neffd__V1__RemoveEntriesRequest request = NEFFD__V1__REMOVE_ENTRIES_REQUEST__INIT;
    struct nf_error err = {0};
    ProtobufCMessage *reply;
    request.failures_only = ctl_flag(c, "failures");
    if (c->arg_count == 0 && !request.failures_only)
        return ctl_usage(c, "name the keys to remove, or --failures");
    struct nf_digest *keys = nf_alloc_array(c->arg_count + 1, sizeof(*keys));
    ProtobufCBinaryData *list = nf_alloc_array(c->arg_count + 1, sizeof(*list));
    int rc = CTL_OK;
    for (size_t i = 0; i < c->arg_count && rc == CTL_OK; i++) {
        if (!ctl_is_key(c->args[i], &keys[i]))
            rc = ctl_usage(c, "'%s' is not a key: 64 hex digits, as `neffctl cache ls` shows", c->args[i]);
        list[i] = rpc_binary(keys[i].bytes, NF_DIGEST_BYTES);
    }
    if (rc == CTL_OK) {
        request.n_canonical_keys = c->arg_count;
        request.canonical_keys = list;
        if (ctl_value(c, "namespace"))
            request.cache_namespace = (char *)(uintptr_t)ctl_value(c, "namespace");
        int r = ctl_call(c, RPC_REMOVE_ENTRIES, &request.base, 0, &reply, &err);
        if (r < 0) {
            rc = ctl_fail(c, &err, NULL);
        } else {
            uint64_t removed = ((Neffd__V1__RemoveEntriesReply *)reply)->removed;
            if (c->json)
                ctl_json_print(ctl_json_of_message(reply));
            else if (!c->quiet)
                printf("removed %" PRIu64 "\n", removed);
            protobuf_c_message_free_unpacked(reply, NULL);
            if (c->arg_count && removed == 0)
                rc = CTL_NOT_FOUND;
        }
    }
    free(keys);
    free(list);
    return rc;
}
