/* trees.c: caches that exist already: `cache import` of libneuronxla's and TorchNeuron's trees, `cache export-plain` to TorchNeuron's.
 *
 *     libneuronxla   neuronxcc-<version>/MODULE_<graph>+<flags>/{model.hlo_module.pb, compile_flags.json, model.neff, model.done}
 *                    holds the graph, so it gets the key that a request for it has
 *     TorchNeuron    ab/cd/<key>.neff (32 hex digits) and <sha256>/<sha256>.neff: no graph; reachable by that key
 *                    (32 digits: followed by 32 zeros)
 *
 * Failed, locked and empty entries are reported and not copied; a NEFF that does not hold is neither. */
#include "client/ctl/ctl.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "cache/store.h"
#include "client/wire.h"
#include "pipeline/driver/drv_flags.h"
#include "pipeline/pipeline.h"
#include "runtime/neff.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

const struct ctl_option ctl_options_cache_import[] = {
    {"target", 0, "T", "trn1 trn1n trn2 trn3 inf2", "target of entries whose flags do not name one"},
    {"namespace", 0, "N", NULL, "cache namespace to import into"},
    {"dry-run", 'n', NULL, NULL, "only say what would be imported"},
    {0},
};
const struct ctl_option ctl_options_cache_export_plain[] = {
    {"namespace", 0, "N", NULL, "only this cache namespace"},
    {0},
};

enum fate { IMPORTED, ALREADY, FAILED, LOCKED, EMPTY, BAD, FATES };
static const char *const fate_words[FATES] = {"imported", "already", "failed", "locked", "empty", "bad"};

struct import {
    struct ctl *c;
    struct cache_store *store;
    const char *ns;
    bool dry_run;
    uint64_t counts[FATES], bytes;
};

static void report(struct import *m, enum fate fate, const char *path, const char *why)
{
    m->counts[fate]++;
    if (m->c->json) {
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "path", ctl_json_str(path));
        json_object_object_add(o, "state", ctl_json_str(fate_words[fate]));
        json_object_object_add(o, "detail", ctl_json_str(why));
        json_object_object_add(o, "finished", json_object_new_boolean(false));
        ctl_json_print(o);
    } else if (fate != IMPORTED && fate != ALREADY) {
        fprintf(stderr, "%s: %s%s%s\n", ctl_clean(path), fate_words[fate], why[0] ? ": " : "", ctl_clean(why));
    } else if (m->c->verbose) {
        printf("%s: %s\n", ctl_clean(path), fate_words[fate]);
    }
}

/* --------------------------------------------------------------------------------------------------------------- NEFFs */

static bool neff_holds(int fd, uint64_t *ret_bytes, struct nf_buf *why)
{
    struct stat st;
    struct nf_map_view view = {.fd = -1};
    char path[48];
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        nf_buf_add_c(why, "not a regular file");
        return false;
    }
    nf_format(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (st.st_size == 0 || nf_map_view_open(path, &view, NULL) != NF_OK) {
        nf_buf_add_c(why, st.st_size == 0 ? "the NEFF is empty" : "cannot be read");
        return false;
    }
    struct nf_arena *arena = nf_arena_new(0);
    const char *const *problems;
    size_t n = neff_check(nf_str_n(view.data, view.len), NULL, arena, &problems, NULL);
    if (n)
        nf_buf_add_c(why, problems[0]);
    nf_arena_free(arena);
    nf_map_view_close(&view);
    *ret_bytes = (uint64_t)st.st_size;
    return n == 0;
}

static void publish(struct import *m, const char *path, struct cache_meta *meta)
{
    struct nf_buf why = NF_BUF_INIT;
    uint64_t bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || !neff_holds(fd, &bytes, &why)) {
        report(m, BAD, path, fd < 0 ? strerror(errno) : why.data);
    } else if (m->dry_run) {
        report(m, IMPORTED, path, "");
        m->bytes += bytes;
    } else {
        struct cache_publication p = {.meta = *meta, .artifact_fd = fd};
        struct cache_published out = {0};
        struct nf_error err = {0};
        if (cache_store_publish(m->store, &p, &out, &err) != NF_OK) {
            report(m, BAD, path, err.message);
        } else {
            report(m, out.ours ? IMPORTED : ALREADY, path, "");
            m->bytes += out.ours ? bytes : 0;
            cache_hit_close(out.hit);
        }
    }
    if (fd >= 0)
        close(fd);
    nf_buf_done(&why);
}

/* -------------------------------------------------------------------------------------------------------- libneuronxla */

/* compile_flags.json is a list of strings. */
static bool read_flags(const char *path, struct nf_arena *arena, char ***ret_argv, int *ret_argc)
{
    struct nf_buf text = NF_BUF_INIT;
    *ret_argc = 0;
    if (nf_file_read(path, 1 << 20, &text, NULL) != NF_OK)
        return false;
    struct json_object *o = json_tokener_parse(text.data ? text.data : "");
    bool good = json_object_is_type(o, json_type_array);
    size_t n = good ? json_object_array_length(o) : 0;
    char **argv = NF_NEW_ARRAY(arena, char *, n + 4);
    int argc = 0;
    argv[argc++] = nf_arena_printf(arena, "compile");
    for (size_t i = 0; i < n && good; i++) {
        struct json_object *s = json_object_array_get_idx(o, i);
        good = json_object_is_type(s, json_type_string);
        if (good)
            argv[argc++] = nf_arena_printf(arena, "%s", json_object_get_string(s));
    }
    json_object_put(o);
    nf_buf_done(&text);
    *ret_argv = argv;
    *ret_argc = argc;
    return good;
}

static int module_meta(struct import *m, const char *dir, const char *graph_path, const char *version, struct nf_arena *arena, struct cache_meta *meta,
    struct nf_error *err)
{
    char **argv;
    int argc;
    struct drv_call call;
    struct nf_buf graph = NF_BUF_INIT;
    if (!read_flags(nf_arena_printf(arena, "%s/compile_flags.json", dir), arena, &argv, &argc))
        return nf_fail(err, NF_EINVAL, "its compile_flags.json cannot be read");
    argv[argc++] = nf_arena_printf(arena, "%s", graph_path);
    int r = drv_call_parse(argc, argv, arena, &call, err);
    if (r == NF_OK && call.strange)
        r = nf_fail(err, NF_EUNSUPPORTED, "its flags are not understood: %s", call.strange);
    const char *target = call.target ? call.target : ctl_value(m->c, "target");
    if (r == NF_OK && (!target || !rt_target_is_neuron(nf_str_c(target))))
        r = nf_fail(err, NF_EINVAL, "its flags name no target: give --target");
    if (r == NF_OK)
        r = nf_file_read(graph_path, (size_t)1 << 32, &graph, err);
    if (r != NF_OK)
        return r;
    struct nf_str bytes = nf_arena_str(arena, nf_buf_str(&graph));
    nf_buf_done(&graph);
    struct target_id id = {0};
    if (!nf_format(id.target, sizeof(id.target), "%s", target) || !nf_format(id.version, sizeof(id.version), "%s", version) ||
        !nf_format(id.compiler, sizeof(id.compiler), "neuronx-cc %s", version))
        return nf_fail(err, NF_EINVAL, "its compiler version is too long");
    struct pipe_graph *g;
    const struct pipe_option *options;
    const struct pipe_component *parts;
    size_t option_count, count;
    r = pipe_import(bytes, PIPE_KIND_HLO_PROTO, graph_path, NULL, arena, &g, err);
    if (r == NF_OK)
        r = drv_options(&id, call.options, call.option_count, arena, &options, &option_count, err);
    if (r != NF_OK)
        return r;
    pipe_components(g, &id, options, option_count, NULL, 0, nf_str_c(m->ns), (struct nf_str){0}, arena, &parts, &count);
    struct cache_components list;
    cache_components_init(&list, arena);
    for (size_t i = 0; i < count; i++)
        cache_components_add(&list, (enum cache_component_kind)cache_component_kind_of(nf_str_c(parts[i].component)), nf_str_c(parts[i].name),
                             parts[i].value, parts[i].location);
    struct nf_buf toolchain = NF_BUF_INIT;
    pipe_toolchain_id(&id, &toolchain);
    *meta = (struct cache_meta){
        .kind = CACHE_KIND_NEFF, .name = nf_str_c(nf_arena_printf(arena, "%s", strrchr(dir, '/') + 1)), .cache_namespace = nf_str_c(m->ns),
        .target = nf_str_c(nf_arena_printf(arena, "%s", id.target)), .compiler = nf_str_c(nf_arena_printf(arena, "%s", id.compiler)),
        .toolchain_id = nf_arena_str(arena, nf_buf_str(&toolchain)), .created_by = NF_STR("neffctl cache import"), .attempts = 1,
        .components = list.items, .component_count = list.count, .stablehlo = g->module ? g->canonical : (struct nf_str){0},
    };
    nf_buf_done(&toolchain);
    return cache_key_canonical(list.items, list.count, &meta->key, err);
}

static bool there(const char *dir, const char *name)
{
    char *path = nf_asprintf("%s/%s", dir, name);
    bool yes = access(path, F_OK) == 0;
    free(path);
    return yes;
}

static bool any_lock(const char *dir)
{
    bool found = false;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        found = found || nf_str_ends(nf_str_c(e->d_name), NF_STR(".lock"));
    if (d)
        closedir(d);
    return found;
}

static void import_module(struct import *m, const char *dir, const char *version)
{
    static const char *const graphs[] = {"model.hlo_module.pb", "model.hlo.pb"};
    if (!there(dir, "model.neff")) {
        report(m, there(dir, "model.log") ? FAILED : any_lock(dir) ? LOCKED : EMPTY, dir, there(dir, "model.log") ? "a remembered failure" : "");
        return;
    }
    if (any_lock(dir) && !there(dir, "model.done")) {
        report(m, LOCKED, dir, "somebody writes it");
        return;
    }
    const char *graph = there(dir, graphs[0]) ? graphs[0] : there(dir, graphs[1]) ? graphs[1] : NULL;
    if (!graph) {
        report(m, BAD, dir, "it has no graph");
        return;
    }
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_meta meta;
    struct nf_error err = {0};
    if (module_meta(m, dir, nf_arena_printf(arena, "%s/%s", dir, graph), version, arena, &meta, &err) != NF_OK)
        report(m, BAD, dir, err.message);
    else
        publish(m, nf_arena_printf(arena, "%s/model.neff", dir), &meta);
    nf_arena_free(arena);
}

/* --------------------------------------------------------------------------------------------------------- TorchNeuron */

static bool all_hex(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") >= n;
}

static void import_plain(struct import *m, const char *path, const char *name)
{
    struct nf_arena *arena = nf_arena_new(0);
    char hex[65] = "0000000000000000000000000000000000000000000000000000000000000000";
    size_t n = strspn(name, "0123456789abcdef");
    memcpy(hex, name, NF_MIN(n, (size_t)64));
    struct cache_components list;
    cache_components_init(&list, arena);
    cache_components_add(&list, CACHE_COMPONENT_STRUCTURE, NF_STR("foreign key"), nf_str_n(name, n), (struct nf_str){0});
    struct cache_meta meta = {
        .kind = CACHE_KIND_NEFF, .name = nf_str_c(name), .cache_namespace = nf_str_c(m->ns), .target = nf_str_c(ctl_value(m->c, "target") ? ctl_value(m->c, "target") : ""),
        .compiler = NF_STR("unknown"), .toolchain_id = NF_STR("unknown"), .created_by = NF_STR("neffctl cache import"), .attempts = 1,
        .components = list.items, .component_count = list.count,
    };
    if (nf_digest_parse(nf_str_n(hex, 64), &meta.key) == NF_OK)
        publish(m, path, &meta);
    nf_arena_free(arena);
}

/* depth bounds the walk; what a directory is follows from its name. */
static void walk(struct import *m, const char *dir, const char *version, int depth)
{
    DIR *d = depth > 0 ? opendir(dir) : NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        const char *name = e->d_name;
        if (name[0] == '.')
            continue;                          /* also TorchNeuron's temporaries */
        char *path = nf_asprintf("%s/%s", dir, name);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            if (strncmp(name, "MODULE_", 7) == 0 && version)
                import_module(m, path, version);
            else if (strncmp(name, "neuronxcc-", 10) == 0)
                walk(m, path, name + 10, depth - 1);
            else
                walk(m, path, version, depth - 1);
        } else if (S_ISREG(st.st_mode)) {
            size_t n = strlen(name);
            bool plain = (n == 32 + 5 || n == 64 + 5) && all_hex(name, n - 5) && strcmp(name + n - 5, ".neff") == 0;
            if (plain)
                import_plain(m, path, name);
        }
        free(path);
    }
    if (d)
        closedir(d);
}

int ctl_cmd_cache_import(struct ctl *c)
{
    struct import m = {.c = c, .ns = ctl_value(c, "namespace") ? ctl_value(c, "namespace") : "", .dry_run = ctl_flag(c, "dry-run")};
    struct nf_error err = {0};
    neffd_client *client;
    struct stat st;
    int r = cache_namespace_check(nf_str_c(m.ns), &err);
    if (r == NF_OK)
        r = ctl_client(c, &client, &err);
    if (r == NF_OK && (stat(c->args[0], &st) < 0 || !S_ISDIR(st.st_mode)))
        r = nf_fail(&err, NF_EINVAL, "%s is not a directory", c->args[0]);
    if (r == NF_OK) {
        struct cache_store_options o = {.local_dir = client->local_dir, .shared_dir = client->shared_dir, .no_index = true, .file_mode = 0644};
        r = cache_store_open(&o, &m.store, &err);
    }
    if (r != NF_OK)
        return ctl_fail(c, &err, NULL);
    walk(&m, c->args[0], NULL, 6);
    cache_store_close(m.store);
    if (c->json) {
        struct json_object *sum = json_object_new_object();
        for (int i = 0; i < FATES; i++)
            json_object_object_add(sum, fate_words[i], ctl_json_u64(m.counts[i]));
        json_object_object_add(sum, "bytes", ctl_json_u64(m.bytes));
        json_object_object_add(sum, "finished", json_object_new_boolean(true));
        ctl_json_print(sum);
    } else if (!c->quiet) {
        struct nf_buf t = NF_BUF_INIT;
        cl_add_bytes(&t, m.bytes);
        printf("%s%llu entries (%s), %llu were there already; not copied: %llu failed, %llu locked, %llu empty, %llu bad\n", m.dry_run ? "would import " : "imported ",
               (unsigned long long)m.counts[IMPORTED], t.data, (unsigned long long)m.counts[ALREADY], (unsigned long long)m.counts[FAILED],
               (unsigned long long)m.counts[LOCKED], (unsigned long long)m.counts[EMPTY], (unsigned long long)m.counts[BAD]);
        nf_buf_done(&t);
    }
    return m.counts[BAD] ? CTL_WRONG : CTL_OK;
}

/* -------------------------------------------------------------------------------------------------------------- export */

struct export {
    struct ctl *c;
    neffd_client *client;
    struct cache_reader *reader;
    const char *to;
    uint64_t written, already, bad, bytes;
};

static void export_one(void *user, const struct nf_digest *key, const char *ns)
{
    struct export *x = user;
    struct cache_hit *hit = NULL;
    struct nf_error err = {0};
    char hex[NF_DIGEST_HEX], name[80];
    nf_digest_hex(key, hex);
    /* A key that came from TorchNeuron goes back under its own name. */
    bool foreign = strspn(hex + 32, "0") == 32;
    nf_format(name, sizeof(name), "%.*s.neff", foreign ? 32 : 64, hex);
    char *dir = nf_asprintf("%s/%.2s/%.2s", x->to, hex, hex + 2), *path = nf_asprintf("%s/%s", dir, name);
    const void *data;
    struct stat st;
    if (cache_reader_lookup(x->reader, key, ns, &hit, NULL) != NF_OK && cache_reader_lookup_shared(x->reader, key, ns, &hit, &err) != NF_OK) {
        x->bad++;
        fprintf(stderr, "%s: %s\n", hex, err.message);
    } else if (cache_hit_footer(hit)->kind == CACHE_KIND_NEFF) {
        uint64_t bytes = cache_hit_footer(hit)->raw_bytes;
        if (stat(path, &st) == 0 && (uint64_t)st.st_size == bytes) {
            x->already++;
        } else if (nf_mkdir_p(dir, 0755, &err) == NF_OK && cache_hit_map(hit, &data, &err) == NF_OK &&
                   nf_file_replace(path, nf_str_n(data, bytes), 0644, &err) == NF_OK) {
            x->written++;
            x->bytes += bytes;
        } else {
            x->bad++;
            fprintf(stderr, "%s: %s\n", path, err.message);
        }
    }
    cache_hit_close(hit);
    free(dir);
    free(path);
}

/* entries/<namespace or _>/ab/cd/<key>.neff of a tier. */
static void each_of_tier(const char *tier, const char *only, struct nf_map *seen, ctl_entry_fn *fn, void *user)
{
    char *entries = nf_asprintf("%s/entries", tier);
    DIR *d = opendir(entries);
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *ns = strcmp(e->d_name, "_") == 0 ? "" : e->d_name;
        if (e->d_name[0] == '.' || (only && strcmp(only, ns) != 0))
            continue;
        for (unsigned shard = 0; shard < 65536; shard++) {
            char *dir = nf_asprintf("%s/%s/%02x/%02x", entries, e->d_name, shard >> 8, shard & 255);
            DIR *leaf = opendir(dir);
            if (!leaf && (shard & 255) == 0) {   /* no such first half: skip its second halves */
                char *half = nf_asprintf("%s/%s/%02x", entries, e->d_name, shard >> 8);
                if (access(half, F_OK) < 0)
                    shard |= 255;
                free(half);
            }
            free(dir);
            for (struct dirent *f; leaf && (f = readdir(leaf));) {
                struct nf_digest key;
                if (strlen(f->d_name) != 64 + 5 || strcmp(f->d_name + 64, ".neff") != 0 || nf_digest_parse(nf_str_n(f->d_name, 64), &key) != NF_OK)
                    continue;
                if (nf_map_put(seen, nf_digest_str(&key), seen) == NULL)
                    fn(user, &key, ns);
            }
            if (leaf)
                closedir(leaf);
        }
    }
    if (d)
        closedir(d);
    free(entries);
}

void ctl_each_entry(neffd_client *client, const char *only_namespace, ctl_entry_fn *fn, void *user)
{
    struct nf_map *seen = nf_map_new(true);
    each_of_tier(client->local_dir, only_namespace, seen, fn, user);
    if (client->shared_dir)
        each_of_tier(client->shared_dir, only_namespace, seen, fn, user);
    nf_map_free(seen);
}

int ctl_cmd_cache_export_plain(struct ctl *c)
{
    struct export x = {.c = c, .to = c->args[0]};
    struct nf_error err = {0};
    int r = ctl_client(c, &x.client, &err);
    if (r == NF_OK)
        r = nf_output_status(nf_mkdir_p(x.to, 0755, &err), &err);
    if (r == NF_OK) {
        uid_t daemon = cl_client_daemon_uid(x.client);
        struct cache_reader_options o = {.local_dir = x.client->local_dir, .shared_dir = x.client->shared_dir, .trusted_uids = &daemon, .trusted_count = daemon != (uid_t)-1};
        r = cache_reader_open(&o, &x.reader, &err);
    }
    if (r != NF_OK)
        return ctl_fail(c, &err, NULL);
    ctl_each_entry(x.client, ctl_value(c, "namespace"), export_one, &x);
    cache_reader_close(x.reader);
    if (c->json) {
        struct json_object *o = json_object_new_object();
        json_object_object_add(o, "exported", ctl_json_u64(x.written));
        json_object_object_add(o, "already", ctl_json_u64(x.already));
        json_object_object_add(o, "bad", ctl_json_u64(x.bad));
        json_object_object_add(o, "bytes", ctl_json_u64(x.bytes));
        json_object_object_add(o, "finished", json_object_new_boolean(true));
        ctl_json_print(o);
    } else if (!c->quiet) {
        printf("exported %llu entries, %llu were there already, %llu could not be\n", (unsigned long long)x.written, (unsigned long long)x.already,
               (unsigned long long)x.bad);
    }
    return x.bad ? CTL_WRONG : CTL_OK;
}
