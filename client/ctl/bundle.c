/* bundle.c: bundle export, bundle import: entries as one file (cache/bundle.h). */
#include "client/ctl/ctl.h"

#include "base/file.h"
#include "cache/bundle.h"
#include "client/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

const struct ctl_option ctl_options_bundle_export[] = {
    {"key", 0, "KEY", NULL, "only this entry; may be repeated"},
    {"name", 0, "TEXT", NULL, "only entries whose name holds TEXT"},
    {"target", 0, "T", "cpu trn1 trn1n trn2 trn3 inf2", "only this target"},
    {"namespace", 0, "N", NULL, "only this cache namespace"},
    {0},
};
const struct ctl_option ctl_options_bundle_import[] = {
    {"dry-run", 'n', NULL, NULL, "only check the bundle and say what is in it"},
    {0},
};

/* ----------------------------------------------------------------------------------------------------------------- export */

struct export {
    struct ctl *c;
    neffd_client *client;
    struct cache_bundle_writer writer;
    uint64_t bad;
};

static bool wanted_key(const struct ctl *c, const struct nf_digest *key)
{
    bool any = false;
    for (size_t i = 0; i < c->given_count; i++) {
        struct nf_digest k;
        if (strcmp(c->given[i].name, "key") != 0)
            continue;
        any = true;
        if (ctl_is_key(c->given[i].value, &k) && nf_digest_eq(&k, key))
            return true;
    }
    return !any;
}

static bool wanted(struct export *x, struct cache_hit *hit)
{
    const char *name = ctl_value(x->c, "name"), *target = ctl_value(x->c, "target");
    struct cache_meta meta;
    bool fits = true;
    if (!name && !target)
        return true;
    struct nf_arena *arena = nf_arena_new(0);
    if (cache_hit_meta(hit, arena, &meta, NULL) < 0) {
        fits = false;
    } else {
        if (target)
            fits = nf_str_eq_c(meta.target, target);
        if (name && fits)
            fits = meta.name.len && strstr(nf_arena_strn(arena, meta.name.data, meta.name.len), name);
    }
    nf_arena_free(arena);
    return fits;
}

static void export_one(void *user, const struct nf_digest *key, const char *ns)
{
    struct export *x = user;
    struct cache_hit *hit = NULL;
    struct nf_error err = {0};
    char hex[NF_DIGEST_HEX];
    if (!wanted_key(x->c, key) || x->writer.failed)
        return;
    if (cache_reader_lookup(x->client->reader, key, ns, &hit, NULL) < 0 && cache_reader_lookup_shared(x->client->reader, key, ns, &hit, &err) < 0) {
        x->bad++;
        fprintf(stderr, "neffctl: bundle export: %s: %s\n", nf_digest_hex(key, hex), err.message);
        return;
    }
    if (wanted(x, hit) && cache_bundle_add(&x->writer, hit, &err) < 0) {
        x->bad++;
        fprintf(stderr, "neffctl: bundle export: %s: %s\n", nf_digest_hex(key, hex), err.message);
    }
    cache_hit_close(hit);
}

int ctl_cmd_bundle_export(struct ctl *c)
{
    struct export x = {.c = c};
    struct nf_error err = {0};
    char *path = NULL, *tmp = nf_output_is_stream(c->args[0], &path) ? NULL : nf_asprintf("%s.tmp-%d", path, (int)getpid());
    int fd = -1, r = ctl_client(c, &x.client, &err);
    for (size_t i = 0; i < c->given_count && r >= 0; i++) {
        struct nf_digest k;
        if (strcmp(c->given[i].name, "key") == 0 && !ctl_is_key(c->given[i].value, &k))
            r = nf_fail(&err, NF_EUSAGE, "--key: '%s' is not a key", c->given[i].value);
    }
    if (r >= 0 && !tmp)
        r = fd = nf_output_open(c->args[0], &err);
    else if (r >= 0 && (fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) < 0)
        r = nf_output_status(nf_fail_errno(&err, errno, "cannot write %s", c->args[0]), &err);
    if (r >= 0) {
        cache_bundle_begin(&x.writer, fd);
        ctl_each_entry(x.client, ctl_value(c, "namespace"), export_one, &x);
        r = cache_bundle_end(&x.writer, &err);
        if (r >= 0 && tmp && (fsync(fd) < 0 || rename(tmp, path) < 0))
            r = nf_output_status(nf_fail_errno(&err, errno, "cannot write %s", c->args[0]), &err);
    }
    if (fd >= 0 && r >= 0 && !tmp)
        r = nf_output_close(fd, c->args[0], &err);
    else if (fd >= 0)
        close(fd);
    if (r < 0 && fd >= 0 && tmp)
        (void)unlink(tmp);
    free(tmp);
    free(path);
    if (r < 0)
        return ctl_fail(c, &err, NULL);
    if (c->json) {
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "exported", ctl_json_u64(x.writer.count));
        json_object_object_add(o, "bad", ctl_json_u64(x.bad));
        json_object_object_add(o, "bytes", ctl_json_u64(x.writer.bytes));
        json_object_object_add(o, "finished", json_object_new_boolean(1));
        ctl_json_print(o);
    } else if (!c->quiet) {
        struct nf_buf t = NF_BUF_INIT;
        cl_add_bytes(&t, x.writer.bytes);
        printf("%" PRIu64 " entries, %s, in %s\n", x.writer.count, t.data, c->args[0]);
        nf_buf_done(&t);
    }
    return x.bad ? CTL_WRONG : CTL_OK;
}

/* ----------------------------------------------------------------------------------------------------------------- import */

struct import {
    struct ctl *c;
    struct cache_store *store;      /* NULL: dry run */
    uint64_t imported, already, bad, bytes, total;
};

static int import_one(void *user, const struct cache_bundle_record *record, struct nf_error *err)
{
    struct import *m = user;
    struct nf_error why = {0};
    char hex[NF_DIGEST_HEX];
    bool is_new = true;
    int r = NF_OK;
    m->total++;
    m->bytes += record->payload.len;
    if (m->store)
        r = cache_bundle_publish(m->store, record, &is_new, &why);
    if (r == NF_ECORRUPT) {
        m->bad++;
        fprintf(stderr, "neffctl: bundle import: %s: %s\n", nf_digest_hex(&record->key, hex), why.message);
        return NF_OK;
    }
    if (r < 0) {
        *err = why;
        return r;
    }
    if (is_new)
        m->imported++;
    else
        m->already++;
    return NF_OK;
}

int ctl_cmd_bundle_import(struct ctl *c)
{
    struct import m = {.c = c};
    struct nf_error err = {0};
    struct nf_map_view view = {.fd = -1};
    neffd_client *client;
    bool dry = ctl_flag(c, "dry-run"), mapped = false;
    int r = ctl_client(c, &client, &err);
    if (r >= 0) {
        r = ctl_wrong_path(c->args[0], nf_map_view_open(c->args[0], &view, &err), &err);
        mapped = r >= 0;
    }
    if (r >= 0 && !dry) {
        struct cache_store_options o = {.local_dir = client->local_dir, .shared_dir = client->shared_dir, .no_index = true, .file_mode = 0644};
        r = cache_store_open(&o, &m.store, &err);
    }
    if (r >= 0)
        r = cache_bundle_read(nf_str_n(view.data, view.len), import_one, &m, &err);
    if (r < 0 && err.code == NF_ECORRUPT) {
        nf_error_file(&err, c->args[0]);
        err.code = NF_EINVAL; /* a wrong file was given; nothing of ours is damaged */
    }
    cache_store_close(m.store);
    if (mapped)
        nf_map_view_close(&view);
    if (r < 0)
        return ctl_fail(c, &err, NULL);
    if (c->json) {
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "imported", ctl_json_u64(dry ? 0 : m.imported));
        json_object_object_add(o, "already", ctl_json_u64(m.already));
        json_object_object_add(o, "bad", ctl_json_u64(m.bad));
        json_object_object_add(o, "total", ctl_json_u64(m.total));
        json_object_object_add(o, "bytes", ctl_json_u64(m.bytes));
        json_object_object_add(o, "finished", json_object_new_boolean(1));
        ctl_json_print(o);
    } else if (!c->quiet) {
        struct nf_buf t = NF_BUF_INIT;
        cl_add_bytes(&t, m.bytes);
        if (dry)
            printf("%" PRIu64 " entries, %s\n", m.total, t.data);
        else
            printf("imported %" PRIu64 " of %" PRIu64 " entries (%s), %" PRIu64 " were there already, %" PRIu64 " do not hold\n", m.imported, m.total, t.data, m.already, m.bad);
        nf_buf_done(&t);
    }
    return m.bad ? CTL_WRONG : CTL_OK;
}
