/* details.c: see details.h. Strings stay where the unpacked message has them until they have been copied. */
#include "daemon/details.h"

#include "base/file.h"
#include "proto/rpc.h"
#include "proto/worker.pb-c.h"

int details_read(const char *work_dir, uint64_t max_text_bytes, struct nf_arena *arena, struct details *ret_details, struct nf_error *err)
{
    struct nf_map_view view = {0};
    ProtobufCMessage *message = NULL;
    char *path = nf_arena_printf(arena, "%s/" DETAILS_FILE, work_dir);
    int rc = nf_map_view_open(path, &view, err);
    if (rc < 0)
        return rc;
    rc = rpc_decode_limited(&neffd__worker__v1__details__descriptor, nf_str_n(view.data, view.len), DETAILS_MAX_BYTES, &message, err);
    nf_map_view_close(&view);
    if (rc < 0)
        return nf_error_prefix(err, "%s", path);
    const Neffd__Worker__V1__Details *m = (const Neffd__Worker__V1__Details *)message;
    struct details d = {0};
    struct cache_component *components = NF_NEW_ARRAY(arena, struct cache_component, m->n_components + 1);
    for (size_t i = 0; i < m->n_components; i++) {
        const Neffd__Worker__V1__Component *c = m->components[i];
        components[i] = (struct cache_component){
            .component = nf_arena_str(arena, nf_str_c(c->component)), .name = nf_arena_str(arena, nf_str_c(c->name)),
            .value = nf_arena_str(arena, nf_str_c(c->value)), .location = nf_arena_str(arena, nf_str_c(c->location)),
        };
    }
    d.components = components;
    d.component_count = m->n_components;
    protobuf_c_message_free_unpacked(message, NULL);
    path = nf_arena_printf(arena, "%s/" DETAILS_TEXT, work_dir);
    if (nf_map_view_open(path, &view, NULL) == NF_OK) {
        if (view.len <= max_text_bytes)
            d.stablehlo = nf_arena_str(arena, nf_str_n(view.data, view.len));
        nf_map_view_close(&view);
    }
    *ret_details = d;
    return NF_OK;
}
