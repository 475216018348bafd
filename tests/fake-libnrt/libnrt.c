/* A libnrt that keeps the documented contract and ends the process on misuse (double unload, use after free, calls in the wrong order).
 * A program adds 1 to every element of its input, f32 [4], tensor names "input0" and "output0". What it is told:
 *     FAKE_NRT_INIT, FAKE_NRT_LOAD, FAKE_NRT_EXECUTE=number   that call returns it
 *     FAKE_NRT_CORES=n          visible cores (2)
 *     FAKE_NRT_FEATURES=mask    features of NEFFs that it has (0xff)
 *     FAKE_NRT_MAJOR=n          its version (2)
 *     FAKE_NRT_TRACE=path       one line a call */
#include <stdatomic.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define MAGIC_MODEL 0x4d4f444cu
#define MAGIC_TENSOR 0x54454e53u
#define MAGIC_SET 0x53455454u

struct nrt_model { uint32_t magic; unsigned infos; };
struct nrt_tensor { uint32_t magic; size_t bytes; unsigned char *data; unsigned sets; };
struct set { uint32_t magic; struct { char name[256]; struct nrt_tensor *t; } items[8]; int count; };
struct info { char name[256]; int usage; size_t size; int dtype; uint32_t *shape; uint32_t ndim; };
struct infos { uint64_t count; struct info v[]; };
struct version { uint64_t n[4]; char detail[128], hash[64]; };

static enum { BEFORE, OPEN, CLOSED } state;
static atomic_uint models, tensors; /* threads load, allocate and free at once */
static pid_t owner;

/* Declared as libnrt's own header would. */
EXPORT int nrt_init(int framework, const char *fw, const char *fal);
EXPORT void nrt_close(void);
EXPORT int nrt_load(const void *neff, size_t bytes, int32_t vnc, int32_t count, struct nrt_model **ret);
EXPORT int nrt_load_collectives(const void *neff, size_t bytes, int32_t vnc, int32_t count, uint32_t id, uint32_t n, struct nrt_model **ret);
EXPORT int nrt_unload(struct nrt_model *m);
EXPORT int nrt_get_visible_vnc_count(uint32_t *ret);
EXPORT int nrt_allocate_tensor_set(void **ret);
EXPORT void nrt_destroy_tensor_set(void **set);
EXPORT int nrt_add_tensor_to_tensor_set(void *set, const char *name, struct nrt_tensor *t);
EXPORT int nrt_execute(struct nrt_model *m, const void *in, void *out);
EXPORT int nrt_tensor_allocate(int placement, int vnc, size_t bytes, const char *name, struct nrt_tensor **ret);
EXPORT void nrt_tensor_free(struct nrt_tensor **t);
EXPORT int nrt_tensor_read(const struct nrt_tensor *t, void *to, size_t at, size_t n);
EXPORT int nrt_tensor_write(struct nrt_tensor *t, const void *from, size_t at, size_t n);
EXPORT int nrt_get_version(struct version *ret, size_t size);
EXPORT int nrt_get_model_tensor_info(struct nrt_model *m, struct infos **ret);
EXPORT int nrt_free_model_tensor_info(struct infos *info);

__attribute__((format(printf, 1, 2))) static void trace(const char *fmt, ...)
{
    const char *path = getenv("FAKE_NRT_TRACE");
    FILE *f = path ? fopen(path, "ae") : NULL;
    if (!f)
        return;
    va_list ap;
    va_start(ap, fmt);
    vfprintf(f, fmt, ap);
    va_end(ap);
    putc('\n', f);
    fclose(f);
}

static void must(bool held, const char *what)
{
    if (held)
        return;
    fprintf(stderr, "fake libnrt: misuse: %s\n", what);
    trace("misuse: %s", what);
    abort();
}

static long told(const char *name, long standard)
{
    const char *v = getenv(name);
    return v ? strtol(v, NULL, 0) : standard;
}

/* 0, or what a call answers that needs an open runtime. */
static int open_state(void)
{
    must(state != OPEN || owner == getpid(), "a call in a forked child");
    return state == BEFORE ? 13 : state == CLOSED ? 14 : 0;
}

int nrt_init(int framework, const char *fw, const char *fal)
{
    must(fw && fal && framework >= 1 && framework <= 5, "nrt_init with wrong arguments");
    must(state != OPEN, "nrt_init twice");
    trace("init");
    if (state == CLOSED)
        return 14;
    int r = (int)told("FAKE_NRT_INIT", 0);
    if (r == 0) {
        state = OPEN;
        owner = getpid();
    }
    return r;
}

void nrt_close(void)
{
    must(state == OPEN && owner == getpid(), "nrt_close of what is not open");
    must(models == 0 && tensors == 0, "nrt_close with models or tensors left");
    trace("close");
    state = CLOSED;
}

static int load(const void *neff, size_t bytes, int32_t vnc, struct nrt_model **ret)
{
    int r = open_state();
    if (r)
        return r;
    uint64_t header_size, data_size, features;
    if (bytes < 1024)
        return 2;
    memcpy(&header_size, (const char *)neff + 8, 8);
    memcpy(&data_size, (const char *)neff + 16, 8);
    memcpy(&features, (const char *)neff + 544, 8);
    must(header_size == 1024 && data_size == bytes - 1024, "a NEFF that is none was loaded");
    if (vnc >= told("FAKE_NRT_CORES", 2))
        return 9;
    if (features & ~(uint64_t)told("FAKE_NRT_FEATURES", 0xff))
        return 10;
    r = (int)told("FAKE_NRT_LOAD", 0);
    if (r)
        return r;
    struct nrt_model *m = calloc(1, sizeof(*m));
    m->magic = MAGIC_MODEL;
    models++;
    *ret = m;
    return 0;
}

int nrt_load(const void *neff, size_t bytes, int32_t vnc, int32_t count, struct nrt_model **ret)
{
    must(count == -1, "nrt_load with a core count");
    trace("load %d", vnc);
    return load(neff, bytes, vnc, ret);
}

int nrt_load_collectives(const void *neff, size_t bytes, int32_t vnc, int32_t count, uint32_t id, uint32_t n, struct nrt_model **ret)
{
    must(count == -1 && id < n, "nrt_load_collectives with wrong ranks");
    trace("load_collectives %d %u/%u", vnc, id, n);
    return load(neff, bytes, vnc, ret);
}

int nrt_unload(struct nrt_model *m)
{
    must(state == OPEN && m && m->magic == MAGIC_MODEL, "unload of what is no model (twice?)");
    must(m->infos == 0, "unload with tensor info not freed");
    trace("unload");
    m->magic = 0;
    free(m);
    models--;
    return 0;
}

int nrt_get_visible_vnc_count(uint32_t *ret)
{
    *ret = (uint32_t)told("FAKE_NRT_CORES", 2);
    return 0;
}

int nrt_allocate_tensor_set(void **ret)
{
    int r = open_state();
    if (r)
        return r;
    struct set *s = calloc(1, sizeof(*s));
    s->magic = MAGIC_SET;
    *ret = s;
    return 0;
}

void nrt_destroy_tensor_set(void **set)
{
    struct set *s = *set;
    must(s && s->magic == MAGIC_SET, "destroy of what is no tensor set");
    for (int i = 0; i < s->count; i++)
        s->items[i].t->sets--;
    s->magic = 0;
    free(s);
    *set = NULL;
}

int nrt_add_tensor_to_tensor_set(void *set, const char *name, struct nrt_tensor *t)
{
    struct set *s = set;
    must(s && s->magic == MAGIC_SET && t && t->magic == MAGIC_TENSOR && name, "add with wrong handles");
    if (s->count == 8)
        return 4;
    snprintf(s->items[s->count].name, sizeof(s->items[0].name), "%s", name);
    s->items[s->count++].t = t;
    t->sets++;
    return 0;
}

static struct nrt_tensor *find(const struct set *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->items[i].name, name) == 0)
            return s->items[i].t;
    return NULL;
}

int nrt_execute(struct nrt_model *m, const void *in, void *out)
{
    int r = open_state();
    if (r)
        return r;
    const struct set *a = in, *b = out;
    must(m && m->magic == MAGIC_MODEL && a && a->magic == MAGIC_SET && b && b->magic == MAGIC_SET, "execute with wrong handles");
    trace("execute");
    struct nrt_tensor *x = find(a, "input0"), *y = find(b, "output0");
    if (!x || !y || x->bytes < 16 || y->bytes < 16)
        return 1002;
    for (int i = 0; i < 4; i++) {
        float f;
        memcpy(&f, x->data + 4 * i, 4);
        f += 1;
        memcpy(y->data + 4 * i, &f, 4);
    }
    return (int)told("FAKE_NRT_EXECUTE", 0);
}

int nrt_tensor_allocate(int placement, int vnc, size_t bytes, const char *name, struct nrt_tensor **ret)
{
    (void)name, (void)vnc;
    int r = open_state();
    if (r)
        return r;
    must(placement == 0 && bytes > 0, "tensor_allocate with wrong arguments");
    struct nrt_tensor *t = calloc(1, sizeof(*t));
    *t = (struct nrt_tensor){MAGIC_TENSOR, bytes, calloc(1, bytes), 0};
    tensors++;
    *ret = t;
    return 0;
}

void nrt_tensor_free(struct nrt_tensor **t)
{
    must(t && *t && (*t)->magic == MAGIC_TENSOR, "free of what is no tensor (twice?)");
    must((*t)->sets == 0, "free of a tensor that is in a set");
    (*t)->magic = 0;
    free((*t)->data);
    free(*t);
    *t = NULL;
    tensors--;
}

int nrt_tensor_read(const struct nrt_tensor *t, void *to, size_t at, size_t n)
{
    must(t && t->magic == MAGIC_TENSOR && at <= t->bytes && n <= t->bytes - at, "read outside a tensor");
    memcpy(to, t->data + at, n);
    return 0;
}

int nrt_tensor_write(struct nrt_tensor *t, const void *from, size_t at, size_t n)
{
    must(t && t->magic == MAGIC_TENSOR && at <= t->bytes && n <= t->bytes - at, "write outside a tensor");
    memcpy(t->data + at, from, n);
    return 0;
}

int nrt_get_version(struct version *ret, size_t size)
{
    must(size == sizeof(*ret), "get_version with another structure");
    memset(ret, 0, sizeof(*ret));
    ret->n[0] = (uint64_t)told("FAKE_NRT_MAJOR", 2);
    ret->n[1] = 31;
    snprintf(ret->hash, sizeof(ret->hash), "fake");
    return 0;
}

int nrt_get_model_tensor_info(struct nrt_model *m, struct infos **ret)
{
    must(m && m->magic == MAGIC_MODEL, "tensor info of what is no model");
    struct infos *v = calloc(1, sizeof(*v) + 2 * sizeof(v->v[0]) + sizeof(void *));
    v->count = 2;
    for (int i = 0; i < 2; i++) {
        snprintf(v->v[i].name, sizeof(v->v[i].name), "%s", i ? "output0" : "input0");
        v->v[i].usage = i;
        v->v[i].size = 16;
        v->v[i].dtype = 10;
        v->v[i].ndim = 1;
        v->v[i].shape = malloc(4);
        v->v[i].shape[0] = 4;
    }
    memcpy(&v->v[2], &m, sizeof(m));
    m->infos++;
    *ret = v;
    return 0;
}

int nrt_free_model_tensor_info(struct infos *v)
{
    struct nrt_model *m;
    must(v != NULL, "free of no tensor info");
    memcpy(&m, &v->v[2], sizeof(m));
    must(m->magic == MAGIC_MODEL && m->infos > 0, "tensor info freed after its model");
    m->infos--;
    free(v->v[0].shape);
    free(v->v[1].shape);
    free(v);
    return 0;
}
