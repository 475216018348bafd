#include "base/map.h"

#include "base/file.h"

#include <pthread.h>
#include <xxhash.h>

/* `entries` holds the pairs in insertion order, with holes (value NULL) where one was deleted; `slots` is the open-addressed
 * index: 0 empty, else 1 + position in entries. A deleted pair's slot stays until the next rebuild.
 *     used + holes = entries in the array,  slots >= 2 * (entries in the array) */

struct entry {
    struct nf_str key;
    void *value;
    uint64_t hash;
};

struct nf_map {
    struct entry *entries;
    uint32_t *slots;
    size_t len, filled, cap, slot_count; /* live, with holes, room in entries, a power of two */
    bool copy_keys;
};

static uint64_t seed;
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static void make_seed(void) { nf_random(&seed, sizeof(seed)); }
static uint64_t hash_of(struct nf_str key) { return XXH3_64bits_withSeed(key.len ? key.data : "", key.len, seed); }

struct nf_map *nf_map_new(bool copy_keys)
{
    pthread_once(&seed_once, make_seed);
    struct nf_map *m = nf_alloc(sizeof(*m));
    m->copy_keys = copy_keys;
    return m;
}

static void key_free(const struct nf_map *m, struct nf_str key)
{
    if (m->copy_keys)
        free((void *)(uintptr_t)key.data);
}

void nf_map_free(struct nf_map *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->filled; i++)
        if (m->entries[i].value)
            key_free(m, m->entries[i].key);
    free(m->entries);
    free(m->slots);
    free(m);
}

/* The slot that holds key, or the empty one where the search ended. */
static size_t find(const struct nf_map *m, struct nf_str key, uint64_t hash)
{
    size_t mask = m->slot_count - 1, at = hash & mask;
    while (m->slots[at]) {
        const struct entry *e = &m->entries[m->slots[at] - 1];
        if (e->value && e->hash == hash && nf_str_eq(e->key, key))
            break;
        at = (at + 1) & mask;
    }
    return at;
}

static void rebuild(struct nf_map *m, size_t cap)
{
    size_t slot_count = 16;
    while (slot_count < cap * 2)
        slot_count *= 2;
    struct entry *entries = nf_alloc_array(cap, sizeof(*entries));
    uint32_t *slots = nf_alloc_array(slot_count, sizeof(*slots));
    size_t n = 0;
    for (size_t i = 0; i < m->filled; i++) {
        if (!m->entries[i].value)
            continue;
        size_t at = m->entries[i].hash & (slot_count - 1);
        while (slots[at])
            at = (at + 1) & (slot_count - 1);
        entries[n++] = m->entries[i];
        slots[at] = (uint32_t)n;
    }
    free(m->entries);
    free(m->slots);
    m->entries = entries;
    m->slots = slots;
    m->cap = cap;
    m->filled = n;
    m->slot_count = slot_count;
}

void *nf_map_get(const struct nf_map *m, struct nf_str key)
{
    if (m->len == 0)
        return NULL;
    size_t at = find(m, key, hash_of(key));
    return m->slots[at] ? m->entries[m->slots[at] - 1].value : NULL;
}

void *nf_map_put(struct nf_map *m, struct nf_str key, void *value)
{
    uint64_t hash = hash_of(key);
    if (m->slot_count) {
        size_t at = find(m, key, hash);
        if (m->slots[at]) {
            struct entry *e = &m->entries[m->slots[at] - 1];
            void *old = e->value;
            e->value = value;
            return old;
        }
    }
    if (m->filled == m->cap)
        rebuild(m, NF_MAX((size_t)8, m->len * 2));
    size_t at = find(m, key, hash);
    if (m->copy_keys)
        key.data = nf_strndup(key.data, key.len);
    m->entries[m->filled++] = (struct entry){key, value, hash};
    m->slots[at] = (uint32_t)m->filled;
    m->len++;
    return NULL;
}

void *nf_map_del(struct nf_map *m, struct nf_str key)
{
    if (m->len == 0)
        return NULL;
    size_t at = find(m, key, hash_of(key));
    if (!m->slots[at])
        return NULL;
    struct entry *e = &m->entries[m->slots[at] - 1];
    void *old = e->value;
    e->value = NULL;
    key_free(m, e->key);
    e->key = (struct nf_str){NULL, 0};
    m->len--;
    return old;
}

size_t nf_map_len(const struct nf_map *m) { return m->len; }

bool nf_map_next(const struct nf_map *m, size_t *it, struct nf_str *ret_key, void **ret_value)
{
    for (; *it < m->filled; (*it)++) {
        const struct entry *e = &m->entries[*it];
        if (!e->value)
            continue;
        if (ret_key)
            *ret_key = e->key;
        if (ret_value)
            *ret_value = e->value;
        (*it)++;
        return true;
    }
    return false;
}
