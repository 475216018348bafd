/* explain.c: what differs between a request and an entry, and nothing else.
 *
 * Components are compared by kind, those of one kind by name or by index. Four kinds of difference follow from another that is
 * already named, and are left out:
 *
 *     types inside the graph          operations are compared without them
 *     numbers that follow a shape     when an input's dimension went from a to b, a number of an operation may go from x to
 *                                     x*b/a (slice limits, iota and reshape sizes)
 *     constants of the same value     with another shape or element type, when an input changed its type
 *     a constant's operation          when constants differ: one that is no longer equal to another stands on its own
 *
 * If nothing differs after that and the keys do, the operations are compared with everything in them, and at last the digests. */
#include "cache/explain.h"

#include "cache/sketch.h"

#define TEXT_MAX 256
#define DIFFERENCES_MAX 64
#define LINE_DIFFERENCES 4        /* a line is to be read at a glance */

struct side {
    const struct cache_component **item[CACHE_COMPONENT_MAX];
    size_t count[CACHE_COMPONENT_MAX];
    const struct cache_component **op;
    size_t ops;
};

/* A dimension of an input that changed. */
struct ratio {
    int64_t from, to;
};

struct differ {
    struct nf_arena *arena;
    struct cache_difference *items;
    size_t count, more;
    size_t equal, total;         /* components, for the similarity */
    struct ratio ratios[64];
    size_t ratio_count;
    bool inputs_differ, target_differs, constants_differ;
};

/* ---------------------------------------------------------------------------------------------------------------- text */

static char *text_keep(struct nf_arena *arena, struct nf_str s)
{
    bool cut = s.len > TEXT_MAX;
    size_t n = NF_MIN(s.len, (size_t)TEXT_MAX);
    if (cut)
        while (n && ((unsigned char)s.data[n] & 0xc0) == 0x80)
            n--;
    char *out = nf_arena_alloc_raw(arena, n + 4);
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)s.data[i] < 0x20 || s.data[i] == 0x7f ? ' ' : s.data[i];
    if (!nf_utf8_valid(nf_str_n(out, n)))
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)out[i] >= 0x80)
                out[i] = '?';
    memcpy(out + n, cut ? "..." : "", cut ? 4 : 1);
    return out;
}

static void add(struct differ *d, const char *component, struct nf_str name, struct nf_str cached, struct nf_str requested, struct nf_str location)
{
    if (d->count == DIFFERENCES_MAX) {
        d->more++;
        return;
    }
    d->items[d->count++] = (struct cache_difference){
        component, text_keep(d->arena, name), text_keep(d->arena, cached), text_keep(d->arena, requested), text_keep(d->arena, location),
    };
}

/* ------------------------------------------------------------------------------------------------------------- gathering */

static void side_of(const struct cache_request_view *v, struct nf_arena *arena, struct side *ret_side)
{
    struct side s = {0};
    for (size_t i = 0; i < v->component_count; i++) {
        int kind = cache_component_kind_of(v->components[i].component);
        if (cache_component_is_op(&v->components[i]))
            s.ops++;
        else if (kind >= 0)
            s.count[kind]++;
    }
    for (int k = 0; k < CACHE_COMPONENT_MAX; k++)
        s.item[k] = NF_NEW_ARRAY(arena, const struct cache_component *, s.count[k] + 1);
    s.op = NF_NEW_ARRAY(arena, const struct cache_component *, s.ops + 1);
    size_t at[CACHE_COMPONENT_MAX] = {0}, op = 0;
    for (size_t i = 0; i < v->component_count; i++) {
        int kind = cache_component_kind_of(v->components[i].component);
        if (cache_component_is_op(&v->components[i]))
            s.op[op++] = &v->components[i];
        else if (kind >= 0)
            s.item[kind][at[kind]++] = &v->components[i];
    }
    *ret_side = s;
}

/* ---------------------------------------------------------------------------------------------- kinds with one component */

static void diff_single(struct differ *d, enum cache_component_kind kind, const struct side *cached, const struct side *requested)
{
    const struct cache_component *c = cached->count[kind] ? cached->item[kind][0] : NULL;
    const struct cache_component *r = requested->count[kind] ? requested->item[kind][0] : NULL;
    if (!c && !r)
        return;
    d->total++;
    struct nf_str none = {0}, cv = c ? c->value : none, rv = r ? r->value : none;
    if (nf_str_eq(cv, rv)) {
        d->equal++;
        return;
    }
    d->target_differs |= kind == CACHE_COMPONENT_TARGET;
    struct nf_str cn = c ? c->name : none, rn = r ? r->name : none;
    /* What people call it, where that tells the two apart; its id where it does not. */
    bool named = kind == CACHE_COMPONENT_COMPILER && cn.len && rn.len && !nf_str_eq(cn, rn);
    add(d, cache_component_word(kind), none, named ? cn : cv, named ? rn : rv, none);
}

/* ----------------------------------------------------------------------------------------------------------- kinds by name */

static const struct cache_component *find(const struct side *s, enum cache_component_kind kind, struct nf_str name)
{
    for (size_t i = 0; i < s->count[kind]; i++)
        if (nf_str_eq(s->item[kind][i]->name, name))
            return s->item[kind][i];
    return NULL;
}

static void diff_named(struct differ *d, enum cache_component_kind kind, const struct side *cached, const struct side *requested)
{
    struct nf_str none = {0};
    for (size_t i = 0; i < cached->count[kind]; i++) {
        const struct cache_component *c = cached->item[kind][i], *r = find(requested, kind, c->name);
        d->total++;
        if (r && nf_str_eq(c->value, r->value))
            d->equal++;
        else if (r || !(kind == CACHE_COMPONENT_OPTION && d->target_differs)) /* another target has other options */
            add(d, cache_component_word(kind), c->name, c->value, r ? r->value : none, none);
    }
    for (size_t i = 0; i < requested->count[kind]; i++) {
        const struct cache_component *r = requested->item[kind][i];
        if (find(cached, kind, r->name))
            continue;
        d->total++;
        if (!(kind == CACHE_COMPONENT_OPTION && d->target_differs))
            add(d, cache_component_word(kind), r->name, none, r->value, none);
    }
}

/* ---------------------------------------------------------------------------------------------------------- types by index */

/* The dimensions of "tensor<8x?x128xbf16...>"; false when it is something else or too long. */
static bool type_dims(struct nf_str type, int64_t dims[16], size_t *ret_rank)
{
    struct nf_str prefix = NF_STR("tensor<");
    if (!nf_str_starts(type, prefix))
        return false;
    size_t at = prefix.len, rank = 0;
    while (at < type.len && rank < 16) {
        size_t begin = at;
        int64_t v = 0;
        bool dynamic = type.data[at] == '?';
        if (dynamic)
            at++;
        for (; !dynamic && at < type.len && type.data[at] >= '0' && type.data[at] <= '9' && v < INT64_MAX / 10 - 9; at++)
            v = v * 10 + (type.data[at] - '0');
        if (at == begin || at >= type.len || type.data[at] != 'x')
            break;
        dims[rank++] = dynamic ? -1 : v;
        at++;
    }
    *ret_rank = rank;
    return true;
}

static void ratio_add(struct differ *d, int64_t from, int64_t to)
{
    if (from <= 0 || to <= 0 || from == to || d->ratio_count == NF_ARRAY_LEN(d->ratios))
        return;
    for (size_t i = 0; i < d->ratio_count; i++)
        if (d->ratios[i].from == from && d->ratios[i].to == to)
            return;
    d->ratios[d->ratio_count++] = (struct ratio){from, to};
}

static void diff_types(struct differ *d, enum cache_component_kind kind, const struct side *cached, const struct side *requested)
{
    struct nf_str none = {0};
    size_t n = NF_MAX(cached->count[kind], requested->count[kind]);
    for (size_t i = 0; i < n; i++) {
        const struct cache_component *c = i < cached->count[kind] ? cached->item[kind][i] : NULL;
        const struct cache_component *r = i < requested->count[kind] ? requested->item[kind][i] : NULL;
        d->total++;
        if (c && r && nf_str_eq(c->value, r->value)) {
            d->equal++;
            continue;
        }
        add(d, cache_component_word(kind), r ? r->name : c->name, c ? c->value : none, r ? r->value : none, none);
        if (kind != CACHE_COMPONENT_INPUT)
            continue;
        d->inputs_differ = true;
        int64_t from[16], to[16];
        size_t from_rank, to_rank;
        if (c && r && type_dims(c->value, from, &from_rank) && type_dims(r->value, to, &to_rank) && from_rank == to_rank)
            for (size_t k = 0; k < from_rank; k++)
                ratio_add(d, from[k], to[k]);
    }
}

/* --------------------------------------------------------------------------------------------------------------- constants */

static bool same_without_types(struct nf_str a, struct nf_str b)
{
    struct nf_buf x = NF_BUF_INIT, y = NF_BUF_INIT;
    /* Types go; what is left of "tensor<4xf32> sha256:..." is the value. "dense<...>" is the value itself. */
    for (int i = 0; i < 2; i++) {
        struct nf_str s = i ? b : a;
        struct nf_buf *out = i ? &y : &x;
        for (size_t at = 0; at < s.len;) {
            struct nf_str rest = nf_str_n(s.data + at, s.len - at);
            if (nf_str_starts(rest, NF_STR("tensor<"))) {
                const char *end = memchr(rest.data, '>', rest.len);
                at += end ? (size_t)(end - rest.data) + 1 : rest.len;
            } else {
                nf_buf_add_char(out, s.data[at++]);
            }
        }
    }
    bool same = nf_str_eq(nf_buf_str(&x), nf_buf_str(&y));
    nf_buf_done(&x);
    nf_buf_done(&y);
    return same;
}

static bool constants_match(const struct differ *d, struct nf_str a, struct nf_str b)
{
    return nf_str_eq(a, b) || (d->inputs_differ && same_without_types(a, b));
}

/* One constant more or less moves all that follow: equal heads and tails are taken off, what is between is compared in order. */
static void diff_constants(struct differ *d, const struct side *cached, const struct side *requested)
{
    struct nf_str none = {0};
    const struct cache_component **c = cached->item[CACHE_COMPONENT_CONSTANT], **r = requested->item[CACHE_COMPONENT_CONSTANT];
    size_t cn = cached->count[CACHE_COMPONENT_CONSTANT], rn = requested->count[CACHE_COMPONENT_CONSTANT], head = 0, tail = 0;
    while (head < cn && head < rn && constants_match(d, c[head]->value, r[head]->value))
        head++;
    while (tail < cn - head && tail < rn - head && constants_match(d, c[cn - 1 - tail]->value, r[rn - 1 - tail]->value))
        tail++;
    d->total += head + tail;
    d->equal += head + tail;
    size_t middle = NF_MAX(cn, rn) - head - tail;
    for (size_t i = 0; i < middle; i++) {
        const struct cache_component *a = head + i < cn - tail ? c[head + i] : NULL, *b = head + i < rn - tail ? r[head + i] : NULL;
        d->total++;
        if (a && b && constants_match(d, a->value, b->value))
            d->equal++;
        else {
            add(d, "constant", b ? b->name : a->name, a ? a->value : none, b ? b->value : none, none);
            d->constants_differ = true;
        }
    }
}

/* --------------------------------------------------------------------------------------------------------------- structure */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return c == '%' || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool number_follows(const struct differ *d, int64_t from, int64_t to)
{
    if (from == to)
        return true;
    for (size_t i = 0; i < d->ratio_count; i++) {
        const struct ratio *q = &d->ratios[i];
        if (from < ((int64_t)1 << 31) && to < ((int64_t)1 << 31) && q->from < ((int64_t)1 << 31) && q->to < ((int64_t)1 << 31) &&
            (from * q->to == to * q->from || (from == q->from - 1 && to == q->to - 1)))
            return true;
    }
    return false;
}

/* Two operations without types: equal, or different only in numbers that follow the inputs' shapes. */
static bool ops_match(const struct differ *d, struct nf_str a, struct nf_str b)
{
    if (nf_str_eq(a, b))
        return true;
    if (!d->ratio_count)
        return false;
    size_t i = 0, k = 0;
    while (i < a.len && k < b.len) {
        bool word = i && is_name(a.data[i - 1]); /* a name's digits */
        if (is_digit(a.data[i]) && is_digit(b.data[k]) && !word) {
            int64_t from = 0, to = 0;
            for (; i < a.len && is_digit(a.data[i]); i++)
                from = from < INT64_MAX / 10 - 9 ? from * 10 + (a.data[i] - '0') : from;
            for (; k < b.len && is_digit(b.data[k]); k++)
                to = to < INT64_MAX / 10 - 9 ? to * 10 + (b.data[k] - '0') : to;
            if (!number_follows(d, from, to))
                return false;
        } else if (a.data[i++] != b.data[k++]) {
            return false;
        }
    }
    return i == a.len && k == b.len;
}

/* Values by what they stand for, for graphs whose constants differ: values are numbered in order, so that a constant more, which is
 * named already, renumbers all that follow. What counts is how many values before it are no constants. */
struct naming {
    uint64_t *constants;         /* their numbers, ascending */
    size_t count;
};

/* "%12" at `at`: its number, and past it. */
static bool value_at(struct nf_str line, size_t *at, uint64_t *ret_id)
{
    size_t k = *at + 1;
    uint64_t id = 0;
    if (*at >= line.len || line.data[*at] != '%' || k >= line.len || !is_digit(line.data[k]))
        return false;
    for (; k < line.len && is_digit(line.data[k]) && id < 1000000000000; k++)
        id = id * 10 + (uint64_t)(line.data[k] - '0');
    *at = k;
    *ret_id = id;
    return true;
}

/* "%12 = stablehlo.constant ..." */
static bool constant_id(const struct cache_component *op, uint64_t *ret_id)
{
    struct nf_str line = op->value;
    size_t at = 0;
    return value_at(line, &at, ret_id) && nf_str_starts(nf_str_n(line.data + at, line.len - at), NF_STR(" = stablehlo.constant"));
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static struct naming naming_of(struct nf_arena *arena, const struct side *s)
{
    struct naming n = {.constants = NF_NEW_ARRAY(arena, uint64_t, s->ops + 1)};
    for (size_t i = 0; i < s->ops; i++)
        n.count += constant_id(s->op[i], &n.constants[n.count]);
    if (n.count)
        qsort(n.constants, n.count, sizeof(*n.constants), by_number);
    return n;
}

static void line_named(const struct naming *n, struct nf_str line, struct nf_buf *out)
{
    nf_buf_clear(out);
    for (size_t at = 0; at < line.len;) {
        uint64_t id;
        if (!value_at(line, &at, &id)) {
            nf_buf_add_char(out, line.data[at++]);
            continue;
        }
        size_t low = 0, high = n->count; /* constants before it */
        while (low < high) {
            size_t mid = (low + high) / 2;
            if (n->constants[mid] < id)
                low = mid + 1;
            else
                high = mid;
        }
        if (low < n->count && n->constants[low] == id)
            nf_buf_add_c(out, "%constant");
        else
            nf_buf_addf(out, "%%%llu", (unsigned long long)(id - low));
    }
}

static struct nf_str strip(struct nf_str line, struct nf_buf *out)
{
    nf_buf_clear(out);
    cache_op_strip(line, out);
    return nf_buf_str(out);
}

/* True when the operations are the same but for constants. */
static bool same_but_constants(struct differ *d, const struct side *cached, const struct side *requested)
{
    struct naming c = naming_of(d->arena, cached), r = naming_of(d->arena, requested);
    struct nf_buf x = NF_BUF_INIT, y = NF_BUF_INIT, cx = NF_BUF_INIT, ry = NF_BUF_INIT;
    bool same = c.count && r.count && cached->ops - c.count == requested->ops - r.count;
    for (size_t i = 0, k = 0; same;) {
        uint64_t id;
        while (i < cached->ops && constant_id(cached->op[i], &id))
            i++;
        while (k < requested->ops && constant_id(requested->op[k], &id))
            k++;
        if (i == cached->ops || k == requested->ops)
            break;
        line_named(&c, strip(cached->op[i++]->value, &x), &cx);
        line_named(&r, strip(requested->op[k++]->value, &y), &ry);
        same = ops_match(d, nf_buf_str(&cx), nf_buf_str(&ry));
    }
    nf_buf_done(&x);
    nf_buf_done(&y);
    nf_buf_done(&cx);
    nf_buf_done(&ry);
    return same;
}

/* Adds the first operation that differs, if one does. */
static bool diff_ops(struct differ *d, const struct side *cached, const struct side *requested, bool with_types)
{
    struct nf_str none = {0};
    struct nf_buf x = NF_BUF_INIT, y = NF_BUF_INIT;
    size_t n = NF_MAX(cached->ops, requested->ops), i = 0;
    bool differ = false;
    for (; i < n && !differ; i++) {
        const struct cache_component *c = i < cached->ops ? cached->op[i] : NULL, *r = i < requested->ops ? requested->op[i] : NULL;
        if (!c || !r)
            differ = true;
        else if (!nf_str_eq(c->value, r->value))
            differ = with_types || !ops_match(d, strip(c->value, &x), strip(r->value, &y));
        if (differ) {
            struct nf_str at = r ? r->location : requested->ops ? requested->op[requested->ops - 1]->location : none;
            add(d, "structure", r ? r->name : c->name, c ? c->value : none, r ? r->value : none, at);
        }
    }
    nf_buf_done(&x);
    nf_buf_done(&y);
    return differ;
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t *hashes_of(struct nf_arena *arena, const struct side *s)
{
    struct nf_buf scratch = NF_BUF_INIT;
    uint64_t *h = NF_NEW_ARRAY(arena, uint64_t, s->ops + 1);
    for (size_t i = 0; i < s->ops; i++)
        h[i] = cache_op_hash(s->op[i]->value, &scratch);
    nf_buf_done(&scratch);
    if (s->ops)
        qsort(h, s->ops, sizeof(*h), by_hash);
    return h;
}

/* The share of operations that both have, wherever they stand. */
static double ops_alike(const struct differ *d, const struct side *cached, const struct side *requested)
{
    uint64_t *x = hashes_of(d->arena, cached), *y = hashes_of(d->arena, requested);
    size_t i = 0, k = 0, both = 0, most = NF_MAX(cached->ops, requested->ops);
    while (i < cached->ops && k < requested->ops) {
        both += x[i] == y[k];
        bool i_on = x[i] <= y[k], k_on = y[k] <= x[i];
        i += i_on;
        k += k_on;
    }
    return (double)both / (double)(most + 1); /* one for all that no line shows */
}

static void diff_structure(struct differ *d, const struct side *cached, const struct side *requested, double *ret_alike)
{
    const struct cache_component *c = cached->count[CACHE_COMPONENT_STRUCTURE] ? cached->item[CACHE_COMPONENT_STRUCTURE][0] : NULL;
    const struct cache_component *r = requested->count[CACHE_COMPONENT_STRUCTURE] ? requested->item[CACHE_COMPONENT_STRUCTURE][0] : NULL;
    if (c && r && nf_str_eq(c->value, r->value)) {
        *ret_alike = 1;
        return;
    }
    *ret_alike = ops_alike(d, cached, requested);
    if (d->constants_differ && same_but_constants(d, cached, requested))
        return;
    if (diff_ops(d, cached, requested, false) || d->count)
        return;
    /* Nothing that was named accounts for it: a type inside, or what op lines do not show. */
    if (!diff_ops(d, cached, requested, true)) {
        struct nf_str none = {0};
        add(d, "structure", none, c ? c->value : none, r ? r->value : none, none);
    }
}

/* --------------------------------------------------------------------------------------------------------------------- api */

void cache_explain_diff(const struct cache_request_view *cached, const struct cache_request_view *requested, struct nf_arena *arena,
                        struct cache_explanation *ret_explanation)
{
    struct side c, r;
    struct differ d = {.arena = arena, .items = NF_NEW_ARRAY(arena, struct cache_difference, DIFFERENCES_MAX + 1)};
    side_of(cached, arena, &c);
    side_of(requested, arena, &r);
    diff_single(&d, CACHE_COMPONENT_TARGET, &c, &r);
    diff_single(&d, CACHE_COMPONENT_COMPILER, &c, &r);
    diff_single(&d, CACHE_COMPONENT_NAMESPACE, &c, &r);
    diff_named(&d, CACHE_COMPONENT_FORMAT, &c, &r);
    diff_named(&d, CACHE_COMPONENT_OPTION, &c, &r);
    diff_named(&d, CACHE_COMPONENT_SIDE_FILE, &c, &r);
    diff_types(&d, CACHE_COMPONENT_INPUT, &c, &r);
    diff_types(&d, CACHE_COMPONENT_OUTPUT, &c, &r);
    diff_constants(&d, &c, &r);
    double alike = 1;
    diff_structure(&d, &c, &r, &alike);
    if (d.more)
        d.items[DIFFERENCES_MAX - 1] = (struct cache_difference){
            d.items[DIFFERENCES_MAX - 1].component, nf_arena_printf(arena, "and %zu more", d.more + 1), "", "", "",
        };
    *ret_explanation = (struct cache_explanation){
        .found = true,
        .nearest_name = "",
        .similarity = ((double)d.equal + alike) / (double)(d.total + 1),
        .ops_alike = alike,
        .differences = d.items,
        .difference_count = d.count,
    };
}

static void line_text(struct nf_buf *out, const char *s)
{
    size_t len = strlen(s), n = NF_MIN(len, (size_t)72);
    while (n && n < len && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    nf_buf_add(out, s, n);
    if (n < len)
        nf_buf_add_c(out, "...");
}

void cache_explain_line(const struct cache_explanation *e, struct nf_buf *out)
{
    if (!e->found) {
        nf_buf_add_c(out, "no entry is near");
        return;
    }
    char hex[NF_DIGEST_HEX];
    nf_digest_hex(&e->nearest_key, hex);
    nf_buf_add_c(out, "nearest: ");
    if (e->nearest_name[0]) {
        nf_buf_add_char(out, '"');
        line_text(out, e->nearest_name);
        nf_buf_addf(out, "\" (%.8s): ", hex);
    } else {
        nf_buf_addf(out, "%.8s: ", hex);
    }
    if (!e->difference_count)
        nf_buf_add_c(out, "nothing differs");
    size_t shown = NF_MIN(e->difference_count, (size_t)LINE_DIFFERENCES);
    for (size_t i = 0; i < shown; i++) {
        const struct cache_difference *d = &e->differences[i];
        if (i)
            nf_buf_add_c(out, "; ");
        /* "input 3" says its kind itself */
        bool says = strncmp(d->name, d->component, strlen(d->component)) == 0;
        if (!says)
            nf_buf_add_c(out, d->component);
        if (d->name[0]) {
            nf_buf_add_c(out, says ? "" : " ");
            line_text(out, d->name);
        }
        if (d->location[0]) {
            nf_buf_add_c(out, " at ");
            line_text(out, d->location);
        }
        if (!d->cached[0] && !d->requested[0])
            continue;
        nf_buf_add_c(out, ": ");
        line_text(out, d->cached[0] ? d->cached : "none");
        nf_buf_add_c(out, " -> ");
        line_text(out, d->requested[0] ? d->requested : "none");
    }
    if (e->difference_count == DIFFERENCES_MAX)
        nf_buf_addf(out, "; and over %d more", DIFFERENCES_MAX - LINE_DIFFERENCES - 1);
    else if (shown < e->difference_count)
        nf_buf_addf(out, "; and %zu more", e->difference_count - shown);
}
