/* neff.c: neff info, neff check: what a NEFF file says of itself, and whether it holds. */
#include "client/ctl/ctl.h"

#include "base/file.h"
#include "runtime/neff.h"

#include <inttypes.h>

#define INFLATE_LIMIT ((size_t)16 << 30)

const struct ctl_option ctl_options_neff_info[] = {{0}};
const struct ctl_option ctl_options_neff_check[] = {
    {"target", 0, "T", "cpu trn1 trn1n trn2 trn3 inf2", "it must be for this target, where it says"},
    {"lnc", 0, "N", "1 2", "it must be for this size of a logical core, where it says"},
    {"features", 0, "MASK", NULL, "feature bits that the runtime has (0x80000000000000ff); others are a problem"},
    {0},
};

static struct json_object *tensor_json(const struct rt_tensor *t, bool output)
{
    struct json_object *o = json_object_new_object(), *shape = json_object_new_array(), *strides = NULL;
    for (size_t i = 0; i < t->rank; i++)
        json_object_array_add(shape, json_object_new_int64(t->dims[i]));
    if (t->strides) {
        strides = json_object_new_array();
        for (size_t i = 0; i < t->rank; i++)
            json_object_array_add(strides, json_object_new_int64(t->strides[i]));
    }
    json_object_object_add(o, "name", ctl_json_str(t->name));
    json_object_object_add(o, "dtype", ctl_json_str(nf_dtype_name(t->dtype)));
    json_object_object_add(o, "shape", shape);
    json_object_object_add(o, "strides", strides);
    json_object_object_add(o, "bytes", ctl_json_u64(t->bytes));
    if (output)
        json_object_object_add(o, "alias", t->alias >= 0 ? json_object_new_int(t->alias) : NULL);
    return o;
}

static struct json_object *hex_json(const uint8_t *bytes, size_t n)
{
    struct nf_buf b = NF_BUF_INIT;
    nf_buf_add_hex(&b, bytes, n);
    struct json_object *o = ctl_json_str(b.data);
    nf_buf_done(&b);
    return o;
}

static struct json_object *header_json(const struct neff_header *h, const char *hash)
{
    struct json_object *o = json_object_new_object();
    json_object_object_add(o, "pkg_version", ctl_json_u64(h->pkg_version));
    json_object_object_add(o, "header_size", ctl_json_u64(h->header_size));
    json_object_object_add(o, "data_size", ctl_json_u64(h->data_size));
    json_object_object_add(o, "version_major", ctl_json_u64(h->version_major));
    json_object_object_add(o, "version_minor", ctl_json_u64(h->version_minor));
    json_object_object_add(o, "build_version", ctl_json_str(h->build_version));
    json_object_object_add(o, "num_tpb", ctl_json_u64(h->num_tpb));
    json_object_object_add(o, "hash", hex_json(h->hash, sizeof(h->hash)));
    json_object_object_add(o, "hash_kind", ctl_json_str(hash));
    json_object_object_add(o, "uuid", hex_json(h->uuid, sizeof(h->uuid)));
    json_object_object_add(o, "name", ctl_json_str(h->name));
    json_object_object_add(o, "requested_tpb_count", ctl_json_u64(h->requested_tpb_count));
    struct nf_buf bits = NF_BUF_INIT;
    nf_buf_addf(&bits, "0x%" PRIx64, h->feature_bits);
    json_object_object_add(o, "feature_bits", ctl_json_str(bits.data));
    nf_buf_done(&bits);
    json_object_object_add(o, "lnc_size", ctl_json_u64(h->lnc_size));
    return o;
}

static void print_json(const struct neff_header *h, const struct neff *n, const char *const *problems, size_t count, const char *hash)
{
    struct json_object *o = json_object_new_object(), *members = json_object_new_array(), *in = json_object_new_array(), *out = json_object_new_array(),
                       *bad = json_object_new_array();
    json_object_object_add(o, "header", h ? header_json(h, hash) : NULL);
    for (size_t i = 0; n && i < neff_member_count(n); i++) {
        struct nf_str data;
        struct json_object *m = json_object_new_object();
        json_object_object_add(m, "name", ctl_json_str(neff_member_at(n, i, &data)));
        json_object_object_add(m, "size", ctl_json_u64(data.len));
        json_object_array_add(members, m);
    }
    const struct rt_tensor *t;
    size_t k = n ? neff_inputs(n, &t) : 0;
    for (size_t i = 0; i < k; i++)
        json_object_array_add(in, tensor_json(&t[i], false));
    k = n ? neff_outputs(n, &t) : 0;
    for (size_t i = 0; i < k; i++)
        json_object_array_add(out, tensor_json(&t[i], true));
    for (size_t i = 0; i < count; i++)
        json_object_array_add(bad, ctl_json_str(problems[i]));
    json_object_object_add(o, "members", members);
    json_object_object_add(o, "inputs", in);
    json_object_object_add(o, "outputs", out);
    json_object_object_add(o, "target", ctl_json_str(n ? neff_target(n) : ""));
    json_object_object_add(o, "compiler", ctl_json_str(n ? neff_compiler(n) : ""));
    json_object_object_add(o, "isa", ctl_json_str(n ? neff_isa(n) : ""));
    json_object_object_add(o, "compressed", json_object_new_boolean(n && neff_compressed(n)));
    json_object_object_add(o, "valid", json_object_new_boolean(count == 0));
    json_object_object_add(o, "problems", bad);
    ctl_json_print(o);
}

static void print_tensors(const char *what, const struct rt_tensor *t, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf("%-12s%zu  ", i ? "" : what, i);
        for (size_t d = 0; d < t[i].rank; d++)
            printf("%" PRId64 "x", t[i].dims[d]);
        printf("%s%s%s", nf_dtype_name(t[i].dtype), t[i].name[0] ? "  " : "", ctl_clean(t[i].name));
        if (t[i].alias >= 0)
            printf("  (may take input %d's memory)", t[i].alias);
        putchar('\n');
    }
}

static void print_text(const struct neff_header *h, const struct neff *n, enum neff_hash hash)
{
    printf("version     %" PRIu64 ".%" PRIu64 ", written by %s\n", h->version_major, h->version_minor, h->build_version[0] ? ctl_clean(h->build_version) : "?");
    if (h->name[0])
        printf("name        %s\n", ctl_clean(h->name));
    printf("features    0x%" PRIx64 "\ncores       %u, logical core size %u\n", h->feature_bits, h->requested_tpb_count, h->lnc_size);
    printf("hash        %s\n", neff_hash_name(hash));
    if (!n)
        return;
    if (neff_target(n)[0])
        printf("target      %s%s%s\n", ctl_clean(neff_target(n)), neff_isa(n)[0] ? ", " : "", ctl_clean(neff_isa(n)));
    if (neff_compiler(n)[0])
        printf("compiler    %s\n", ctl_clean(neff_compiler(n)));
    const struct rt_tensor *t;
    size_t k = neff_inputs(n, &t);
    print_tensors("inputs", t, k);
    k = neff_outputs(n, &t);
    print_tensors("outputs", t, k);
    for (size_t i = 0; i < neff_member_count(n); i++) {
        struct nf_str data;
        const char *name = neff_member_at(n, i, &data);
        printf("%-12s%12zu  %s\n", i ? "" : neff_compressed(n) ? "members (gz)" : "members", data.len, ctl_clean(name));
    }
}

static int look(struct ctl *c, bool check)
{
    struct nf_map_view view;
    struct nf_error err = {0};
    struct neff_expect expect = {.members = true, .hash = true};
    uint64_t lnc = 0;
    if (check) {
        expect.target = ctl_value(c, "target");
        if (ctl_value_u64(c, "lnc", 2, &lnc, &err) < 0)
            return ctl_fail(c, &err, NULL);
        expect.lnc_size = (uint32_t)lnc;
        const char *mask = ctl_value(c, "features");
        if (mask) {
            char *end = NULL;
            expect.feature_mask = strtoull(mask, &end, 0);
            if (*mask < '0' || *mask > '9' || *end || expect.feature_mask == 0)
                return ctl_usage(c, "--features: '%s' is not a mask of bits", mask);
        }
    }
    int r = nf_map_view_open(c->args[0], &view, &err);
    if (r < 0) {
        (void)ctl_wrong_path(c->args[0], r, &err);
        return ctl_fail(c, &err, NULL);
    }
    struct nf_arena *arena = nf_arena_new(0);
    struct nf_str bytes = nf_str_n(view.data, view.len);
    const char *const *problems = NULL;
    enum neff_hash hash;
    size_t count = neff_check(bytes, &expect, arena, &problems, &hash);
    struct neff_header header;
    struct neff *n = NULL;
    bool has_header = neff_header_peek(bytes, &header);
    if (neff_open_inflated(bytes, INFLATE_LIMIT, &n, NULL) != NF_OK)
        n = NULL;
    if (c->json) {
        print_json(has_header ? &header : NULL, n, problems, count, neff_hash_name(hash));
    } else {
        if (!check && has_header)
            print_text(&header, n, hash);
        for (size_t i = 0; i < count; i++)
            printf("problem     %s\n", ctl_clean(problems[i]));
        if (check && count == 0 && !c->quiet)
            printf("valid: %zu members, hash %s\n", n ? neff_member_count(n) : 0, neff_hash_name(hash));
    }
    neff_close(n);
    nf_arena_free(arena);
    nf_map_view_close(&view);
    return count ? CTL_WRONG : CTL_OK;
}

int ctl_cmd_neff_info(struct ctl *c)
{
    return look(c, false);
}

int ctl_cmd_neff_check(struct ctl *c)
{
    return look(c, true);
}
