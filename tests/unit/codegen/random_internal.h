/* random_internal.h: what the files of the generator share: a program that is being written, and operations in their generic form. */
#ifndef NEFFD_TESTS_UNIT_CODEGEN_RANDOM_INTERNAL_H
#define NEFFD_TESTS_UNIT_CODEGEN_RANDOM_INTERNAL_H

#include "base/str.h"
#include "runtime/cpu/types.h"

#include <inttypes.h>

enum { VALUES_MAX = 192, RANK_MAX = 4 };

struct value {
    int id, rank;
    enum cpu_dt dt;
    int64_t dims[RANK_MAX];
};
struct maker {
    uint64_t state;
    struct nf_buf *out;
    int replicas, partitions, channels; /* channels: named so far */
    struct value v[VALUES_MAX];
    int n, next;
};

static inline uint64_t random_next(uint64_t *s)
{
    uint64_t z = (*s += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static inline int pick(struct maker *m, int n) { return (int)(random_next(&m->state) % (uint64_t)n); }
/* Elements that come out the same to the last bit. */
static inline bool exact(const struct value *v) { return v->dt <= CPU_U64; }
static inline int64_t count(const struct value *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++) n *= v->dims[d];
    return n;
}

void type(struct maker *m, const struct value *v);
struct value *add(struct maker *m, const struct value *like);
struct value *same_type(struct maker *m, const struct value *v);      /* a value of v's type, often v */
/* "op"(in) <{attrs}> (region): nout new values, of which the first is returned; the others have the ids behind it. */
struct value generic(struct maker *m, const char *op, const char *attrs, const char *region, int nin, const struct value *in, int nout, const struct value *like);
struct value one(struct maker *m, const char *op, const struct value *in, enum cpu_dt dt);
struct value two(struct maker *m, const char *op, const struct value *a, const struct value *b);
struct value weights(struct maker *m, enum cpu_dt dt, int rank, const int64_t *dims); /* numbers between -1 and 1 that nobody computed */
int scalar(struct maker *m, enum cpu_dt t);                             /* a constant's id */
const char *region2(struct nf_buf *b, enum cpu_dt t, const char *op);   /* op of two scalars */
void dense64(struct nf_buf *b, const char *name, const int64_t *v, int n);

/* random_more.c: each appends an operation on v, or nothing if v is not fit for it. */
void more_quantised(struct maker *m, const struct value *v);
void more_select_and_scatter(struct maker *m, const struct value *v);
void more_batch_norm(struct maker *m, const struct value *v);
void more_reduce_of_several(struct maker *m, const struct value *v);
void more_collective(struct maker *m, const struct value *v);

#endif
