#include "base/arena.h"

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define NF__ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NF__ASAN 1
#endif
#endif

#ifdef NF__ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#define RED_ZONE 16 /* an overrun of one object does not reach the next */
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define RED_ZONE 0
#endif

enum { ALIGN = 16 };
#define FIRST_BLOCK ((size_t)16 << 10)
#define LARGEST_BLOCK ((size_t)2 << 20)

struct block {
    struct block *next;
    size_t bytes; /* of data */
    _Alignas(16) unsigned char data[];
};

struct nf_arena {
    struct block *blocks;
    unsigned char *at, *end; /* free part of the current block */
    size_t limit, obtained, next_block;
};

static _Noreturn void out_of_memory(size_t bytes)
{
    fprintf(stderr, "neffd: out of memory: %zu bytes for an arena\n", bytes);
    abort();
}

struct nf_arena *nf_arena_new(size_t limit_bytes)
{
    struct nf_arena *a = nf_alloc(sizeof(*a));
    a->limit = limit_bytes;
    a->next_block = FIRST_BLOCK;
    return a;
}

void nf_arena_free(struct nf_arena *a)
{
    if (!a)
        return;
    for (struct block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        UNPOISON(b->data, b->bytes);
        free(b);
    }
    free(a);
}

static struct block *add_block(struct nf_arena *a, size_t bytes, bool zeroed)
{
    struct block *b;
    if (!zeroed && sizeof(*b) + bytes == LARGEST_BLOCK) {
        b = aligned_alloc(LARGEST_BLOCK, LARGEST_BLOCK);
        if (b)
            madvise(b, LARGEST_BLOCK, MADV_HUGEPAGE);
    } else {
        b = zeroed ? calloc(1, sizeof(*b) + bytes) : malloc(sizeof(*b) + bytes);
    }
    if (!b)
        out_of_memory(bytes);
    b->bytes = bytes;
    b->next = a->blocks;
    a->blocks = b;
    a->obtained += sizeof(*b) + bytes;
    return b;
}

static void *take(struct nf_arena *a, size_t bytes, bool zeroed)
{
    if (bytes > PTRDIFF_MAX / 2)
        out_of_memory(bytes);
    size_t rounded = (bytes + RED_ZONE + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (rounded == 0)
        rounded = ALIGN;
    if ((size_t)(a->end - a->at) < rounded) {
        if (rounded > LARGEST_BLOCK / 4) { /* a block of its own; the current one stays in use */
            struct block *own = add_block(a, rounded, zeroed);
            POISON(own->data + bytes, rounded - bytes);
            return own->data;
        }
        size_t size = NF_MAX(a->next_block - sizeof(struct block), rounded);
        a->next_block = NF_MIN(a->next_block * 2, LARGEST_BLOCK);
        struct block *b = add_block(a, size, false);
        a->at = b->data;
        a->end = b->data + size;
        POISON(b->data, size);
    }
    unsigned char *p = a->at;
    a->at += rounded;
    UNPOISON(p, bytes);
    if (zeroed)
        memset(p, 0, bytes);
    return p;
}

void *nf_arena_alloc(struct nf_arena *a, size_t bytes) { return take(a, bytes, true); }
void *nf_arena_alloc_raw(struct nf_arena *a, size_t bytes) { return take(a, bytes, false); }

void *nf_arena_alloc_array(struct nf_arena *a, size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        out_of_memory(SIZE_MAX);
    return take(a, total, true);
}

char *nf_arena_strn(struct nf_arena *a, const char *data, size_t len)
{
    if (len == SIZE_MAX)
        out_of_memory(len);
    char *p = take(a, len + 1, false);
    if (len)
        memcpy(p, data, len);
    p[len] = 0;
    return p;
}

struct nf_str nf_arena_str(struct nf_arena *a, struct nf_str s) { return (struct nf_str){nf_arena_strn(a, s.data, s.len), s.len}; }

char *nf_arena_printf(struct nf_arena *a, const char *fmt, ...)
{
    char small[256];
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(small, sizeof(small), fmt, ap);
    va_end(ap);
    char *p;
    if (n < 0) {
        p = nf_arena_strn(a, "", 0);
    } else if ((size_t)n < sizeof(small)) {
        p = nf_arena_strn(a, small, (size_t)n);
    } else {
        p = take(a, (size_t)n + 1, false);
        vsnprintf(p, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    return p;
}

size_t nf_arena_bytes(const struct nf_arena *a) { return a->obtained; }
bool nf_arena_over(const struct nf_arena *a) { return a->limit && a->obtained > a->limit; }
