/* counters.c: see counters.h. */
#include "daemon/counters.h"

#include "cache/store.h"

void counters_from_store(struct counters *c, struct cache_store *store)
{
    struct cache_store_counters s;
    cache_store_counters(store, &s);
    atomic_store_explicit(&c->quarantined, s.quarantined, memory_order_relaxed);
    atomic_store_explicit(&c->evicted, s.evicted, memory_order_relaxed);
}

void counters_save(struct counters *c, struct cache_store *store)
{
    counters_from_store(c, store);
#define COUNTER(field)                                                                   \
    do {                                                                                 \
        uint64_t now = atomic_load_explicit(&c->field, memory_order_relaxed);            \
        if (now > c->saved.field)                                                        \
            cache_store_lifetime_add(store, #field, now - c->saved.field);               \
        c->saved.field = now;                                                            \
    } while (0);
#include "daemon/counters.def"
#undef COUNTER
}

void counters_fill(const struct counters *c, Neffd__V1__Counters *ret_message)
{
#define COUNTER(field) ret_message->field = atomic_load_explicit(&c->field, memory_order_relaxed);
#include "daemon/counters.def"
#undef COUNTER
}

void counters_read_lifetime(struct cache_store *store, Neffd__V1__Counters *ret_message)
{
#define COUNTER(field) ret_message->field = cache_store_lifetime_get(store, #field);
#include "daemon/counters.def"
#undef COUNTER
}

/* The store shows `before` plus what it has applied of what it was told, which is anything between nothing and all: so what it
 * shows less what it was told is at most `before`, and the largest that was seen is the best guess. */
void counters_complete_lifetime(struct counters *c, Neffd__V1__Counters *lifetime)
{
#define COUNTER(field)                                                                                   \
    do {                                                                                                 \
        uint64_t shown = lifetime->field, told = c->saved.field;                                         \
        uint64_t now = atomic_load_explicit(&c->field, memory_order_relaxed);                            \
        if (shown > told && shown - told > c->before.field)                                              \
            c->before.field = shown - told;                                                              \
        lifetime->field = NF_MAX(shown, c->before.field + now);                                          \
    } while (0);
#include "daemon/counters.def"
#undef COUNTER
}
