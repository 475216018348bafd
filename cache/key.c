/* key.c: hashing of keys; namespaces; effective options. The toolchain list is in toolchain.c. */
#include "cache/key.h"

#include <stdarg.h>

/* -------------------------------------------------------------------------------------------------------- components */

static const struct {
    const char *word;
    bool once;
} kinds[CACHE_COMPONENT_MAX] = {
#define COMPONENT(sym, word, once) [CACHE_COMPONENT_##sym] = {word, (once) != 0},
#include "cache/components.def"
#undef COMPONENT
};

const char *cache_component_word(enum cache_component_kind kind)
{
    return (unsigned)kind < CACHE_COMPONENT_MAX ? kinds[kind].word : "?";
}

int cache_component_kind_of(struct nf_str word)
{
    for (int k = 0; k < CACHE_COMPONENT_MAX; k++)
        if (nf_str_eq_c(word, kinds[k].word))
            return k;
    return -1;
}

bool cache_component_is_op(const struct cache_component *c)
{
    return nf_str_eq(c->component, NF_STR("structure")) && nf_str_starts(c->name, NF_STR("op "));
}

bool cache_component_hashed(const struct cache_component *c)
{
    int kind = cache_component_kind_of(c->component);
    switch (kind) {
    case CACHE_COMPONENT_INPUT:
    case CACHE_COMPONENT_OUTPUT:
    case CACHE_COMPONENT_CONSTANT:
        return false;
    case CACHE_COMPONENT_STRUCTURE:
        return !cache_component_is_op(c);
    default:
        return true;
    }
}

void cache_components_init(struct cache_components *list, struct nf_arena *arena)
{
    *list = (struct cache_components){.arena = arena};
}

void cache_components_add(struct cache_components *list, enum cache_component_kind kind, struct nf_str name, struct nf_str value,
                          struct nf_str location)
{
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;
        struct cache_component *items = NF_NEW_ARRAY(list->arena, struct cache_component, cap);
        if (list->count)
            memcpy(items, list->items, list->count * sizeof(*items));
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = (struct cache_component){
        .component = nf_str_c(cache_component_word(kind)),
        .name = nf_arena_str(list->arena, name),
        .value = nf_arena_str(list->arena, value),
        .location = nf_arena_str(list->arena, location),
    };
}

/* ----------------------------------------------------------------------------------------------------- canonical key */

static int component_order(const void *a, const void *b)
{
    const struct cache_component *x = *(const struct cache_component *const *)a, *y = *(const struct cache_component *const *)b;
    int order = nf_str_cmp(x->component, y->component);
    return order ? order : nf_str_cmp(x->name, y->name);
}

int cache_key_canonical(const struct cache_component *items, size_t count, struct nf_digest *ret_key, struct nf_error *err)
{
    const struct cache_component **hashed = nf_alloc_array(count ? count : 1, sizeof(*hashed));
    size_t n = 0, seen[CACHE_COMPONENT_MAX] = {0};
    int rc = NF_OK;
    for (size_t i = 0; i < count; i++) {
        if (cache_component_is_op(&items[i])) /* nearly all of them */
            continue;
        int kind = cache_component_kind_of(items[i].component);
        if (kind < 0) {
            rc = nf_fail(err, NF_EINVAL, "a key has no component \"%.*s\"", (int)NF_MIN(items[i].component.len, 40), items[i].component.data);
            goto out;
        }
        if (!cache_component_hashed(&items[i]))
            continue;
        if (seen[kind]++ && kinds[kind].once) {
            rc = nf_fail(err, NF_EINVAL, "a key has more than one component \"%s\"", kinds[kind].word);
            goto out;
        }
        hashed[n++] = &items[i];
    }
    static const enum cache_component_kind required[] = {CACHE_COMPONENT_STRUCTURE, CACHE_COMPONENT_TARGET, CACHE_COMPONENT_COMPILER};
    for (size_t i = 0; i < NF_ARRAY_LEN(required); i++)
        if (!seen[required[i]]) {
            rc = nf_fail(err, NF_EINVAL, "a key needs a component \"%s\"", kinds[required[i]].word);
            goto out;
        }
    qsort(hashed, n, sizeof(*hashed), component_order);

    struct nf_sha256 sha;
    nf_sha256_init(&sha);
    nf_sha256_add_field(&sha, NF_STR("neffd canonical key"));
    nf_sha256_add_u64(&sha, CACHE_KEY_SCHEMA);
    nf_sha256_add_u64(&sha, n);
    for (size_t i = 0; i < n; i++) {
        if (i && component_order(&hashed[i - 1], &hashed[i]) == 0) {
            rc = nf_fail(err, NF_EINVAL, "a key has the component \"%.*s\" \"%.*s\" twice", NF_STR_ARG(hashed[i]->component),
                         (int)NF_MIN(hashed[i]->name.len, 80), hashed[i]->name.data);
            goto out;
        }
        bool once = kinds[cache_component_kind_of(hashed[i]->component)].once;
        nf_sha256_add_field(&sha, hashed[i]->component);
        nf_sha256_add_field(&sha, once ? NF_STR("") : hashed[i]->name);
        nf_sha256_add_field(&sha, hashed[i]->value);
    }
    *ret_key = nf_sha256_end(&sha);
out:
    free(hashed);
    return rc;
}

/* --------------------------------------------------------------------------------------------------------- front key */

static bool overridden(const struct cache_option *options, size_t count, size_t i)
{
    for (size_t j = i + 1; j < count; j++)
        if (nf_str_eq(options[i].name, options[j].name))
            return true;
    return false;
}

size_t cache_options_effective(const struct cache_option *options, size_t count, struct cache_option *out)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (!overridden(options, count, i))
            out[n++] = options[i];
    return n;
}

void cache_base_key_scope(struct nf_str base_key, uid_t uid, struct nf_str cache_namespace, char out[NF_DIGEST_HEX])
{
    struct nf_sha256 sha;
    nf_sha256_init(&sha);
    nf_sha256_add_field(&sha, NF_STR("neffd base key"));
    nf_sha256_add_u64(&sha, (uint64_t)uid);
    nf_sha256_add_field(&sha, cache_namespace);
    nf_sha256_add_field(&sha, base_key);
    struct nf_digest d = nf_sha256_end(&sha);
    nf_digest_hex(&d, out);
}

int cache_front_begin(struct cache_front_hash *h, const struct cache_front_parts *parts, struct nf_error *err)
{
    if (!parts->target.len)
        return nf_fail(err, NF_EINVAL, "a front key needs the resolved target");
    if (!parts->toolchain_id.len)
        return nf_fail(err, NF_EINVAL, "a front key needs the toolchain id of target %.*s", NF_STR_ARG(parts->target));
    struct nf_sha256 sha;
    nf_sha256_init(&sha);
    nf_sha256_add_field(&sha, NF_STR("neffd front key"));
    nf_sha256_add_u64(&sha, CACHE_KEY_SCHEMA);
    nf_sha256_add_u64(&sha, (uint64_t)(int64_t)parts->input_kind);
    nf_sha256_add_u64(&sha, (uint64_t)(int64_t)parts->stop_after);
    nf_sha256_add_field(&sha, parts->target);
    nf_sha256_add_field(&sha, parts->toolchain_id);
    nf_sha256_add_field(&sha, parts->cache_namespace);
    size_t effective = 0;
    for (size_t i = 0; i < parts->option_count; i++)
        effective += !overridden(parts->options, parts->option_count, i);
    nf_sha256_add_u64(&sha, effective);
    for (size_t i = 0; i < parts->option_count; i++) {
        if (overridden(parts->options, parts->option_count, i))
            continue;
        nf_sha256_add_field(&sha, parts->options[i].name);
        nf_sha256_add_field(&sha, parts->options[i].value);
    }
    nf_sha256_add_u64(&sha, parts->side_file_count);
    for (size_t i = 0; i < parts->side_file_count; i++) {
        nf_sha256_add_field(&sha, parts->side_files[i].name);
        nf_sha256_add_field(&sha, nf_digest_str(&parts->side_files[i].sha256));
        nf_sha256_add_u64(&sha, parts->side_files[i].size);
    }
    char scope[NF_DIGEST_HEX] = "";
    if (parts->base_key.len)
        cache_base_key_scope(parts->base_key, parts->uid, parts->cache_namespace, scope);
    nf_sha256_add_field(&sha, nf_str_c(scope));
    nf_sha256_add_u64(&sha, parts->input_bytes); /* the input is the last field: its bytes may come in pieces */
    *h = (struct cache_front_hash){.sha = sha, .left = parts->input_bytes};
    return NF_OK;
}

void cache_front_add(struct cache_front_hash *h, const void *data, size_t len)
{
    if (len > h->left) {
        h->over = true;
        return;
    }
    h->left -= len;
    nf_sha256_add(&h->sha, data, len);
}

int cache_front_end(struct cache_front_hash *h, struct nf_digest *ret_key, struct nf_error *err)
{
    if (h->over)
        return nf_fail(err, NF_EINVAL, "the input is longer than was announced");
    if (h->left)
        return nf_fail(err, NF_EINVAL, "the input is %llu bytes shorter than was announced", (unsigned long long)h->left);
    *ret_key = nf_sha256_end(&h->sha);
    return NF_OK;
}

int cache_key_front(const struct cache_front_parts *parts, struct nf_str input, struct nf_digest *ret_key, struct nf_error *err)
{
    struct cache_front_parts whole = *parts;
    whole.input_bytes = input.len;
    struct cache_front_hash h;
    int rc = cache_front_begin(&h, &whole, err);
    if (rc)
        return rc;
    cache_front_add(&h, input.data, input.len);
    return cache_front_end(&h, ret_key, err);
}

/* -------------------------------------------------------------------------------------------------------- namespaces */

int cache_namespace_check(struct nf_str name, struct nf_error *err)
{
    bool ok = name.len <= 64 && !(name.len && name.data[0] == '.') && !nf_str_eq_c(name, "_");
    for (size_t i = 0; ok && i < name.len; i++) {
        char c = name.data[i];
        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    }
    if (ok)
        return NF_OK;
    int rc = nf_fail(err, NF_EINVAL, "\"%.*s\" is not a cache namespace", (int)NF_MIN(name.len, 80), name.data);
    nf_error_hint(err, "use 1 to 64 of letters, digits, dot, dash and underscore, not a leading dot");
    return rc;
}
