/* sketch.c: what the index keeps of a key, and the likeness of two. */
#include "cache/sketch.h"

/* -------------------------------------------------------------------------------------------------- operations without types */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool opens_elided(struct nf_str word)
{
    static const char *const words[] = {"tensor", "dense", "dense_resource", "complex", "tuple", "vector", "memref"};
    for (size_t i = 0; i < NF_ARRAY_LEN(words); i++)
        if (nf_str_eq_c(word, words[i]))
            return true;
    return false;
}

/* at stands on '<'; one past its '>', or the end of the line. Strings are skipped whole; `->` closes nothing. */
static size_t skip_angles(struct nf_str line, size_t at)
{
    size_t depth = 0;
    for (; at < line.len; at++) {
        char c = line.data[at];
        if (c == '"') {
            for (at++; at < line.len && line.data[at] != '"'; at++)
                at += line.data[at] == '\\';
        } else if (c == '<') {
            depth++;
        } else if (c == '>' && line.data[at - 1] != '-' && --depth == 0) {
            return at + 1;
        }
    }
    return line.len;
}

void cache_op_strip(struct nf_str line, struct nf_buf *out)
{
    size_t at = 0;
    while (at < line.len) {
        size_t begin = at;
        if (line.data[at] == '"') {
            for (at++; at < line.len && line.data[at] != '"'; at++)
                at += line.data[at] == '\\';
            at = NF_MIN(at + 1, line.len);
            nf_buf_add(out, line.data + begin, at - begin);
        } else if (is_word(line.data[at])) {
            while (at < line.len && is_word(line.data[at]))
                at++;
            nf_buf_add(out, line.data + begin, at - begin);
            if (at < line.len && line.data[at] == '<' && opens_elided(nf_str_n(line.data + begin, at - begin)))
                at = skip_angles(line, at);
        } else {
            nf_buf_add_char(out, line.data[at++]);
        }
    }
}

uint64_t cache_op_hash(struct nf_str line, struct nf_buf *scratch)
{
    nf_buf_clear(scratch);
    cache_op_strip(line, scratch);
    size_t n = 0;
    for (size_t at = 0; at < scratch->len; at++) {
        char c = scratch->data[at];
        if (c == '%')
            while (at + 1 < scratch->len && (is_word(scratch->data[at + 1]) || scratch->data[at + 1] == '#'))
                at++;
        scratch->data[n++] = c;
    }
    return nf_xxh3(scratch->data ? scratch->data : "", n);
}

/* ------------------------------------------------------------------------------------------------------------- making */

static int group_of(const struct cache_component *c)
{
    switch (cache_component_kind_of(c->component)) {
    case CACHE_COMPONENT_OPTION: return CACHE_GROUP_OPTIONS;
    case CACHE_COMPONENT_COMPILER: return CACHE_GROUP_COMPILER;
    case CACHE_COMPONENT_TARGET: return CACHE_GROUP_TARGET;
    case CACHE_COMPONENT_NAMESPACE: return CACHE_GROUP_NAMESPACE;
    case CACHE_COMPONENT_SIDE_FILE: return CACHE_GROUP_SIDE_FILES;
    case CACHE_COMPONENT_INPUT: return CACHE_GROUP_INPUTS;
    case CACHE_COMPONENT_OUTPUT: return CACHE_GROUP_OUTPUTS;
    case CACHE_COMPONENT_CONSTANT: return CACHE_GROUP_CONSTANTS;
    default: return -1;
    }
}

void cache_sketch_make(const struct cache_component *components, size_t count, struct cache_sketch *ret_sketch)
{
    uint64_t group[CACHE_GROUP_MAX] = {0}, least[CACHE_SKETCH_OPS];
    struct nf_buf scratch = NF_BUF_INIT;
    struct cache_sketch s = {0};
    size_t ops = 0;
    memset(least, 0xff, sizeof(least));
    for (size_t i = 0; i < count; i++) {
        const struct cache_component *c = &components[i];
        if (cache_component_is_op(c)) {
            uint64_t h = cache_op_hash(c->value, &scratch);
            size_t slot = h % CACHE_SKETCH_OPS;
            least[slot] = NF_MIN(least[slot], h / CACHE_SKETCH_OPS);
            uint64_t link[2] = {group[CACHE_GROUP_STRUCTURE], h};
            group[CACHE_GROUP_STRUCTURE] = nf_xxh3(link, sizeof(link)); /* in order */
            ops++;
            continue;
        }
        int g = group_of(c);
        if (g < 0)
            continue;
        uint64_t link[2] = {nf_xxh3(c->name.data ? c->name.data : "", c->name.len), nf_xxh3(c->value.data ? c->value.data : "", c->value.len)};
        if (g == CACHE_GROUP_COMPILER)
            link[0] = 0; /* its name is for people */
        group[g] += nf_xxh3(link, sizeof(link)); /* in any order */
    }
    if (!ops) /* a base key stands for the graph */
        for (size_t i = 0; i < count; i++)
            if (cache_component_kind_of(components[i].component) == CACHE_COMPONENT_STRUCTURE)
                group[CACHE_GROUP_STRUCTURE] = nf_xxh3(components[i].value.data ? components[i].value.data : "", components[i].value.len);
    for (int g = 0; g < CACHE_GROUP_MAX; g++)
        s.group[g] = (uint32_t)group[g];
    for (int k = 0; k < CACHE_SKETCH_OPS; k++)
        s.ops[k] = (uint16_t)(least[k] == UINT64_MAX ? 0 : NF_MAX(least[k] & 0xffff, (uint64_t)1));
    nf_buf_done(&scratch);
    *ret_sketch = s;
}

double cache_sketch_similarity(const struct cache_sketch *a, const struct cache_sketch *b)
{
    static const uint8_t weight[CACHE_GROUP_MAX] = {
        [CACHE_GROUP_OPTIONS] = 2, [CACHE_GROUP_COMPILER] = 2, [CACHE_GROUP_TARGET] = 2,    [CACHE_GROUP_NAMESPACE] = 1, [CACHE_GROUP_SIDE_FILES] = 1,
        [CACHE_GROUP_INPUTS] = 2,  [CACHE_GROUP_OUTPUTS] = 1,  [CACHE_GROUP_CONSTANTS] = 1, [CACHE_GROUP_STRUCTURE] = 2,
    };
    double score = 0, total = 0;
    for (int g = 0; g < CACHE_GROUP_MAX; g++) {
        total += weight[g];
        score += a->group[g] == b->group[g] ? weight[g] : 0;
    }
    size_t equal = 0, used = 0;
    for (int k = 0; k < CACHE_SKETCH_OPS; k++) {
        used += a->ops[k] || b->ops[k];
        equal += a->ops[k] && a->ops[k] == b->ops[k];
    }
    double graph = a->group[CACHE_GROUP_STRUCTURE] == b->group[CACHE_GROUP_STRUCTURE] ? 1.0 : used ? (double)equal / (double)used : 0.0;
    return (score / total + graph) / 2;
}

void cache_sketch_encode(const struct cache_sketch *s, uint8_t out[CACHE_SKETCH_BYTES])
{
    uint8_t *p = out;
    for (int g = 0; g < CACHE_GROUP_MAX; g++)
        for (int i = 0; i < 4; i++)
            *p++ = (uint8_t)(s->group[g] >> (8 * i));
    for (int k = 0; k < CACHE_SKETCH_OPS; k++)
        for (int i = 0; i < 2; i++)
            *p++ = (uint8_t)(s->ops[k] >> (8 * i));
}

void cache_sketch_decode(const uint8_t in[CACHE_SKETCH_BYTES], struct cache_sketch *ret_sketch)
{
    struct cache_sketch s = {0};
    const uint8_t *p = in;
    for (int g = 0; g < CACHE_GROUP_MAX; g++)
        for (int i = 0; i < 4; i++)
            s.group[g] |= (uint32_t)*p++ << (8 * i);
    for (int k = 0; k < CACHE_SKETCH_OPS; k++)
        for (int i = 0; i < 2; i++)
            s.ops[k] = (uint16_t)(s.ops[k] | (unsigned)*p++ << (8 * i));
    *ret_sketch = s;
}
