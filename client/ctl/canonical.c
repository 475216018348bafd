#include "client/ctl/canonical.h"

#include "base/clock.h"
#include "pipeline/pipeline.h"

static int key_of(neffd_client *client, const neffd_request *request, const char *file_name, struct nf_arena *arena, struct nf_digest *ret_key,
    struct nf_error *err)
{
    char target[RT_TARGET_MAX];
    struct cache_toolchain toolchain;
    struct pipe_graph *graph;
    struct target_id id = {0};
    const struct pipe_option *effective;
    const struct pipe_component *parts;
    size_t option_count, count;
    int r = cl_target(client, request, target, err);
    if (r < 0)
        return r;
    const struct target_ops *ops = target_find(nf_str_c(target));
    if (!ops || request->base_key || request->side_file_count)
        return nf_fail(err, NF_EUNSUPPORTED, "the key of a graph for %s needs a daemon", target);
    r = cache_toolchain_read(client->local_dir, target, &toolchain, err);
    if (r < 0)
        return r == NF_ENOTFOUND ? nf_fail(err, NF_EUNSUPPORTED, "this host has no list of toolchains yet") : r;
    (void)nf_format(id.target, sizeof(id.target), "%s", target);
    struct pipe_option *given = NF_NEW_ARRAY(arena, struct pipe_option, request->option_count + 1);
    for (size_t i = 0; i < request->option_count; i++)
        given[i] = (struct pipe_option){request->options[i].name, nf_str_c(request->options[i].value)};
    r = ops->options(&id, given, request->option_count, arena, &effective, &option_count, err);
    if (r < 0)
        return r;
    r = pipe_import(nf_str_n(request->graph, request->graph_bytes), (enum pipe_kind)request->input_kind, file_name, NULL, arena, &graph, err);
    if (r < 0)
        return r;
    pipe_components(graph, &id, effective, option_count, NULL, 0, nf_str_c(request->cache_namespace ? request->cache_namespace : client->namespace_default),
                    (struct nf_str){0}, arena, &parts, &count);
    struct cache_component *items = NF_NEW_ARRAY(arena, struct cache_component, count + 1);
    for (size_t i = 0; i < count; i++) {
        items[i] = (struct cache_component){nf_str_c(parts[i].component), nf_str_c(parts[i].name), parts[i].value, parts[i].location};
        /* Who compiles is what the list says: only its writer knows the compiler. */
        if (strcmp(parts[i].component, cache_component_word(CACHE_COMPONENT_COMPILER)) == 0)
            items[i].value = nf_arena_str(arena, nf_str_c(toolchain.id));
    }
    return cache_key_canonical(items, count, ret_key, err);
}

int ctl_canonical_key(neffd_client *client, const neffd_request *request, const char *file_name, struct nf_digest *ret_key, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    int r = key_of(client, request, file_name, arena, ret_key, err);
    nf_arena_free(arena);
    return r;
}

int ctl_canonical_lookup(neffd_client *client, const neffd_request *request, const char *file_name, struct cl_answer *ret_answer, struct nf_error *err)
{
    struct nf_digest key;
    struct cache_hit *hit = NULL;
    int64_t begin = nf_now_ns();
    const char *ns = request->cache_namespace ? request->cache_namespace : client->namespace_default;
    int outcome = NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL;
    int r = ctl_canonical_key(client, request, file_name, &key, err);
    if (r < 0)
        return r;
    if (cache_reader_lookup(client->reader, &key, ns, &hit, NULL) < 0) {
        outcome = NEFFD__V1__OUTCOME__OUTCOME_HIT_SHARED;
        if (cache_reader_lookup_shared(client->reader, &key, ns, &hit, NULL) < 0)
            return nf_fail(err, NF_ENOTFOUND, "neither tier has it");
    }
    ret_answer->done = cl_done_of_hit(hit, NULL, outcome, (uint64_t)(nf_now_ns() - begin) / 1000);
    ret_answer->artifact = cl_artifact_of_hit(hit, outcome);
    return NF_OK;
}
