/* The reader. Sections are indexed first; attributes and types are decoded when something names them, each once.
 *
 * Every count is held against the bytes that are left before anything is allocated for it (each item takes one byte at
 * least), every index against its table, every nesting against limits.depth. References between attributes or types
 * that go round in a circle are an error (entries carry a "busy" mark while they are decoded). */
#include "pipeline/hlo/bytecode_internal.h"

static const char *const section_names[SEC_MAX] = {"string", "dialect", "attribute", "offset", "IR", "resource", "resource offset", "dialect version", "properties"};

static size_t offset_of(const struct bc *b, const void *at)
{
    return (size_t)((const char *)at - b->file.data);
}

int hlo__bc_fail(struct bc *b, const void *at, int code, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    nf_fail(b->err, code, "%s", text);
    nf_error_location(b->err, "byte %zu", offset_of(b, at));
    return code;
}

/* MLIR's varint: trailing zero bits of the first byte tell how many bytes follow; all eight zero: eight bytes. */
uint64_t hlo__bc_varint(struct nf_reader *r)
{
    uint8_t first = nf_reader_u8(r);
    if (first & 1)
        return first >> 1;
    if (first == 0)
        return nf_reader_u64le(r);
    unsigned more = (unsigned)__builtin_ctz(first);
    struct nf_str rest = nf_reader_bytes(r, more);
    if (r->failed)
        return 0;
    uint64_t v = first;
    for (unsigned i = 0; i < more; i++)
        v |= (uint64_t)(uint8_t)rest.data[i] << (8 * (i + 1));
    return v >> (more + 1);
}

int64_t hlo__bc_svarint(struct nf_reader *r)
{
    uint64_t v = hlo__bc_varint(r);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

/* A count of things of which each takes a byte at least. */
size_t hlo__bc_count(struct nf_reader *r)
{
    uint64_t n = hlo__bc_varint(r);
    if (n > nf_reader_left(r))
        r->failed = true;
    return r->failed ? 0 : (size_t)n;
}

const char *hlo__bc_c_string(struct nf_reader *r, size_t *ret_len)
{
    const void *nul = memchr(r->at, 0, nf_reader_left(r));
    if (!nul) {
        r->failed = true;
        *ret_len = 0;
        return "";
    }
    const char *s = (const char *)r->at;
    *ret_len = (size_t)((const char *)nul - s);
    nf_reader_skip(r, *ret_len + 1);
    return s;
}

/* ---- sections ---- */

static int read_sections(struct bc *b, struct nf_reader *r)
{
    while (nf_reader_left(r) > 0) {
        const uint8_t *at = r->at;
        uint8_t id = nf_reader_u8(r);
        uint64_t len = hlo__bc_varint(r);
        if (id & 0x80) {
            uint64_t align = hlo__bc_varint(r);
            if (r->failed || align == 0 || (align & (align - 1)) || align > 1 << 20)
                return hlo__bc_fail(b, at, NF_EGRAPH, "section with a wrong alignment");
            while (!r->failed && (nf_reader_offset(r) & (align - 1)))
                if (nf_reader_u8(r) != 0xCB)
                    return hlo__bc_fail(b, at, NF_EGRAPH, "wrong padding before a section");
        }
        id &= 0x7f;
        struct nf_str body = len <= nf_reader_left(r) ? nf_reader_bytes(r, (size_t)len) : (r->failed = true, nf_str_n(NULL, 0));
        if (r->failed)
            return hlo__bc_fail(b, at, NF_EGRAPH, "the file ends inside section %u", id);
        if (id >= SEC_MAX)
            return hlo__bc_fail(b, at, NF_EGRAPH, "unknown section %u", id);
        if (b->have[id])
            return hlo__bc_fail(b, at, NF_EGRAPH, "two %s sections", section_names[id]);
        b->have[id] = true;
        b->sections[id] = body;
    }
    static const int needed[] = {SEC_STRING, SEC_DIALECT, SEC_ATTR_TYPE, SEC_OFFSETS, SEC_IR};
    for (size_t i = 0; i < NF_ARRAY_LEN(needed); i++)
        if (!b->have[needed[i]])
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "no %s section", section_names[needed[i]]);
    return 0;
}

static int read_strings(struct bc *b)
{
    struct nf_reader r = nf_reader_of(b->sections[SEC_STRING]);
    size_t n = hlo__bc_count(&r);
    b->strings = NF_NEW_ARRAY(b->m->arena, struct nf_str, n);
    uint64_t sum = 0;
    for (size_t i = n; i-- > 0 && !r.failed;) {
        uint64_t size = hlo__bc_varint(&r);
        if (size == 0 || size > nf_reader_left(&r))
            r.failed = true;
        b->strings[i].len = (size_t)size;
        sum += size;
    }
    if (r.failed || sum > nf_reader_left(&r))
        return hlo__bc_fail(b, r.at, NF_EGRAPH, "string section: wrong sizes");
    for (size_t i = 0; i < n; i++) {
        struct nf_str s = nf_reader_bytes(&r, b->strings[i].len);
        if (r.failed || s.data[s.len - 1] != 0)
            return hlo__bc_fail(b, r.at, NF_EGRAPH, "string %zu is not terminated", i);
        b->strings[i] = nf_str_n(s.data, s.len - 1);
    }
    b->num_strings = n;
    return 0;
}

int hlo__bc_string_at(struct bc *b, uint64_t index, const void *at, struct nf_str *ret)
{
    if (index >= b->num_strings)
        return hlo__bc_fail(b, at, NF_EGRAPH, "string %llu of %zu", (unsigned long long)index, b->num_strings);
    *ret = b->strings[index];
    return 0;
}

static int read_dialects(struct bc *b)
{
    struct nf_reader r = nf_reader_of(b->sections[SEC_DIALECT]);
    size_t n = hlo__bc_count(&r);
    int e = 0;
    b->dialects = NF_NEW_ARRAY(b->m->arena, struct nf_str, n);
    for (size_t i = 0; i < n && !r.failed; i++) {
        uint64_t name = hlo__bc_varint(&r);
        if ((e = hlo__bc_string_at(b, name >> 1, r.at, &b->dialects[i])))
            return e;
        if (name & 1) { /* a version section: id, length, bytes */
            uint8_t id = nf_reader_u8(&r);
            uint64_t len = hlo__bc_varint(&r);
            if (id & 0x80 || len > nf_reader_left(&r))
                r.failed = true;
            else
                nf_reader_skip(&r, (size_t)len);
        }
    }
    b->num_dialects = n;
    size_t total = hlo__bc_count(&r);
    b->op_names = NF_NEW_ARRAY(b->m->arena, struct op_name, total);
    while (!r.failed && nf_reader_left(&r) > 0) {
        uint64_t dialect = hlo__bc_varint(&r);
        size_t in_group = hlo__bc_count(&r);
        if (dialect >= n || in_group > total - b->num_op_names)
            r.failed = true;
        for (size_t i = 0; i < in_group && !r.failed; i++) {
            struct op_name *o = &b->op_names[b->num_op_names++];
            o->dialect = b->dialects[dialect];
            if ((e = hlo__bc_string_at(b, hlo__bc_varint(&r) >> 1, r.at, &o->name)))
                return e;
        }
    }
    return r.failed || b->num_op_names != total ? hlo__bc_fail(b, r.at, NF_EGRAPH, "dialect section is cut or inconsistent") : 0;
}

static int read_offsets(struct bc *b)
{
    struct nf_reader r = nf_reader_of(b->sections[SEC_OFFSETS]);
    struct nf_reader data = nf_reader_of(b->sections[SEC_ATTR_TYPE]);
    b->num_attrs = hlo__bc_count(&r);
    b->num_types = hlo__bc_count(&r);
    b->attrs = NF_NEW_ARRAY(b->m->arena, struct entry, b->num_attrs);
    b->types = NF_NEW_ARRAY(b->m->arena, struct entry, b->num_types);
    for (int pass = 0; pass < 2 && !r.failed; pass++) {
        struct entry *table = pass ? b->types : b->attrs;
        size_t n = pass ? b->num_types : b->num_attrs;
        for (size_t done = 0; done < n && !r.failed;) {
            uint64_t dialect = hlo__bc_varint(&r);
            size_t in_group = hlo__bc_count(&r);
            if (dialect >= b->num_dialects || in_group == 0 || in_group > n - done)
                r.failed = true;
            for (size_t i = 0; i < in_group && !r.failed; i++, done++) {
                uint64_t v = hlo__bc_varint(&r), size = v >> 1;
                if (size > nf_reader_left(&data)) {
                    r.failed = true;
                    break;
                }
                table[done] = (struct entry){.bytes = nf_reader_bytes(&data, (size_t)size), .dialect = (uint32_t)dialect, .custom = v & 1};
            }
        }
    }
    return r.failed ? hlo__bc_fail(b, r.at, NF_EGRAPH, "offset section is cut or inconsistent") : 0;
}

static int read_properties(struct bc *b)
{
    if (!b->have[SEC_PROPERTIES])
        return 0;
    struct nf_reader r = nf_reader_of(b->sections[SEC_PROPERTIES]);
    size_t n = hlo__bc_count(&r);
    b->props = NF_NEW_ARRAY(b->m->arena, struct nf_str, n);
    for (size_t i = 0; i < n && !r.failed; i++)
        b->props[i] = nf_reader_bytes(&r, hlo__bc_count(&r));
    b->num_props = n;
    return r.failed ? hlo__bc_fail(b, r.at, NF_EGRAPH, "properties section is cut") : 0;
}

/* ---- operations ---- */

static int set_dictionary(struct bc *b, struct hlo_op *op, const struct hlo_attr *dict, const void *at)
{
    if (dict->kind != HLO_ATTR_DICT)
        return hlo__bc_fail(b, at, NF_EGRAPH, "attributes that are no dictionary");
    for (size_t i = 0; i < dict->dict.n; i++)
        hlo_op_set_named(b->m, op, dict->dict.v[i].name, dict->dict.v[i].attr);
    return 0;
}

static int grow(struct bc *b, struct scope *s, size_t more, const void *at)
{
    if (more > s->cap - s->len) {
        size_t cap = NF_MAX(s->cap * 2, s->len + more);
        struct hlo_value **v = NF_NEW_ARRAY(b->m->arena, struct hlo_value *, cap);
        if (s->len)
            memcpy(v, s->values, s->len * sizeof(*v));
        s->values = v;
        s->cap = cap;
    }
    if (more)
        memset(s->values + s->len, 0, more * sizeof(*s->values));
    s->len += more;
    if (nf_arena_over(b->m->arena)) {
        hlo__bc_fail(b, at, NF_ELIMIT, "the program takes more memory than allowed");
        return hlo_limit_hint(b->limits, "max_graph_memory", b->err);
    }
    return 0;
}

static int skip_use_list(struct nf_reader *r, uint64_t values)
{
    uint64_t n = values > 1 ? hlo__bc_varint(r) : 1;
    for (uint64_t i = 0; i < n && !r->failed; i++) {
        if (values > 1)
            hlo__bc_varint(r);
        uint64_t len = hlo__bc_varint(r) >> 1;
        for (uint64_t k = 0; k < len && !r->failed; k++)
            hlo__bc_varint(r);
    }
    return r->failed ? -1 : 0;
}

static int read_regions(struct bc *b, struct nf_reader *r, struct hlo_op *op, struct scope *s);

/* One operation, appended to block (NULL: the module's own). *next is the scope's id for the next result. */
static int read_op(struct bc *b, struct nf_reader *r, struct hlo_block *block, struct scope *s, size_t *next)
{
    const uint8_t *at = r->at;
    uint64_t name_index = hlo__bc_varint(r);
    uint8_t mask = nf_reader_u8(r);
    uint64_t loc_index = hlo__bc_varint(r);
    int e;
    if (r->failed || name_index >= b->num_op_names)
        return hlo__bc_fail(b, at, NF_EGRAPH, "operation name %llu of %zu", (unsigned long long)name_index, b->num_op_names);
    if (b->m->num_ops >= b->limits->ops) {
        hlo__bc_fail(b, at, NF_ELIMIT, "more than %u operations", b->limits->ops);
        return hlo_limit_hint(b->limits, "max_ops", b->err);
    }
    const struct op_name *name = &b->op_names[name_index];

    const struct hlo_attr *dict = NULL, *loc;
    if ((e = hlo__bc_attr_at(b, loc_index, at, &loc)))
        return e;
    if (loc->kind != HLO_ATTR_LOCATION)
        return hlo__bc_fail(b, at, NF_EGRAPH, "an operation whose location is none");
    if (mask & 0x01 && (e = hlo__bc_attr_at(b, hlo__bc_varint(r), at, &dict)))
        return e;
    struct nf_str props = {0};
    if (mask & 0x40) {
        uint64_t index = hlo__bc_varint(r);
        if (index >= b->num_props)
            return hlo__bc_fail(b, at, NF_EGRAPH, "properties %llu of %zu", (unsigned long long)index, b->num_props);
        props = b->props[index];
    }
    uint32_t num_results = 0;
    const struct hlo_type **types = NULL;
    if (mask & 0x02 && (e = hlo__bc_type_list(b, r, &num_results, &types)))
        return e;
    size_t num_operands = mask & 0x04 ? hlo__bc_count(r) : 0;
    struct hlo_value **operands = NF_NEW_ARRAY(b->m->arena, struct hlo_value *, num_operands);
    for (size_t i = 0; i < num_operands; i++) {
        uint64_t id = hlo__bc_varint(r);
        if (r->failed || id >= s->len || !s->values[id])
            return hlo__bc_fail(b, at, NF_EGRAPH, "an operand that is not defined before it is used");
        operands[i] = s->values[id];
    }
    if (mask & 0x08)
        return hlo__bc_fail(b, at, NF_EUNSUPPORTED, "%.*s.%.*s: operations with successors", NF_STR_ARG(name->dialect), NF_STR_ARG(name->name));
    if (mask & 0x20 && skip_use_list(r, num_results))
        return hlo__bc_fail(b, at, NF_EGRAPH, "a use-list order is cut");
    uint64_t regions = 0;
    bool isolated = false;
    if (mask & 0x10) {
        uint64_t v = hlo__bc_varint(r);
        regions = v >> 1;
        isolated = v & 1;
    }
    if (r->failed || regions > 4096)
        return hlo__bc_fail(b, at, NF_EGRAPH, "the file ends inside an operation");
    if (num_results > s->len - *next)
        return hlo__bc_fail(b, at, NF_EGRAPH, "more results than the region announced");

    struct vhlo_form form = {0};
    bool portable = nf_str_eq_c(name->dialect, "vhlo");
    struct hlo_op *op;
    if (portable) {
        if (!vhlo_form_find(name->name, &form))
            return hlo__bc_fail(b, at, NF_EUNSUPPORTED, "unknown portable operation %.*s", NF_STR_ARG(name->name));
        if (form.op == HLO_OP_FUNC_RETURN && block && block->region->op->id != HLO_OP_FUNC)
            form.op = HLO_OP_RETURN;
    } else {
        char full[96];
        if (nf_str_eq_c(name->dialect, "builtin") && nf_str_eq_c(name->name, "unrealized_conversion_cast")) {
            /* between portable and ordinary spellings of one type: the value itself */
            if (num_operands != num_results || regions)
                return hlo__bc_fail(b, at, NF_EGRAPH, "a cast of %zu values into %u", num_operands, num_results);
            for (uint32_t i = 0; i < num_results; i++) {
                if (types[i] != operands[i]->type)
                    return hlo__bc_fail(b, at, NF_EGRAPH, "a cast between two different types");
                s->values[(*next)++] = operands[i];
            }
            return 0;
        }
        enum hlo_op_id id = HLO_OP_UNKNOWN;
        if (nf_format(full, sizeof(full), "%.*s.%.*s", (int)NF_MIN(name->dialect.len, 40u), name->dialect.data, (int)NF_MIN(name->name.len, 50u), name->name.data))
            id = hlo_op_find(nf_str_c(full));
        if (id == HLO_OP_UNKNOWN)
            return hlo__bc_fail(b, at, NF_EUNSUPPORTED, "unknown operation %s", full);
        vhlo_form_plain(id, &form);
    }
    const struct hlo_op_info *info = hlo_op_info(form.op);
    if (info->regions >= 0 && regions != (uint64_t)info->regions)
        return hlo__bc_fail(b, at, NF_EGRAPH, "%s with %llu regions", info->name, (unsigned long long)regions);
    if (form.op == HLO_OP_MODULE) {
        if (block)
            return hlo__bc_fail(b, at, NF_EUNSUPPORTED, "a module inside a module");
        op = b->m->op;
    } else {
        if (!block)
            return hlo__bc_fail(b, at, NF_EGRAPH, "the outermost operation is %s, not a module", info->name);
        op = hlo_op_new(b->m, form.op, (uint32_t)num_operands, operands, num_results, types, (uint16_t)regions);
        op->pos = (uint32_t)NF_MIN(offset_of(b, at), UINT32_MAX);
        for (uint32_t i = 0; i < num_results; i++)
            s->values[(*next)++] = &op->results[i];
        hlo_block_append(block, op);
    }
    if (loc->loc->kind != HLO_LOC_UNKNOWN)
        hlo_op_set_loc(b->m, op, loc);
    if ((e = hlo__bc_set_properties(b, op, &form, portable, props, at)) || (dict && (e = set_dictionary(b, op, dict, at))))
        return e;
    if (regions == 0)
        return 0;
    if (b->depth >= b->limits->depth) {
        hlo__bc_fail(b, at, NF_ELIMIT, "regions nest deeper than %u", b->limits->depth);
        return hlo_limit_hint(b->limits, "max_depth", b->err);
    }
    b->depth++;
    if (isolated) {
        uint8_t id = nf_reader_u8(r);
        uint64_t len = hlo__bc_varint(r);
        if (r->failed || id != SEC_IR || len > nf_reader_left(r)) {
            e = hlo__bc_fail(b, at, NF_EGRAPH, "%s: its regions are cut", info->name);
        } else {
            struct nf_reader inner = nf_reader_of(nf_reader_bytes(r, (size_t)len));
            struct scope own = {0};
            e = read_regions(b, &inner, op, &own);
            if (!e && nf_reader_left(&inner))
                e = hlo__bc_fail(b, inner.at, NF_EGRAPH, "%s: bytes left over after its regions", info->name);
        }
    } else {
        e = read_regions(b, r, op, s);
    }
    b->depth--;
    return e;
}

static int read_block(struct bc *b, struct nf_reader *r, struct hlo_block *block, struct scope *s, size_t *next)
{
    uint64_t v = hlo__bc_varint(r);
    uint64_t num_ops = v >> 1;
    int e;
    if (v & 1) {
        size_t n = hlo__bc_count(r);
        for (size_t i = 0; i < n; i++) {
            uint64_t t = hlo__bc_varint(r);
            const struct hlo_type *type;
            const struct hlo_attr *loc = NULL;
            if ((e = hlo__bc_type_at(b, t >> 1, r->at, &type)) || (t & 1 && (e = hlo__bc_attr_at(b, hlo__bc_varint(r), r->at, &loc))))
                return e;
            if (*next >= s->len)
                return hlo__bc_fail(b, r->at, NF_EGRAPH, "more arguments than the region announced");
            s->values[(*next)++] = hlo_block_add_arg(b->m, block, type);
            if (loc && loc->kind == HLO_ATTR_LOCATION && loc->loc->kind != HLO_LOC_UNKNOWN) {
                if (!block->arg_locs)
                    block->arg_locs = NF_NEW_ARRAY(b->m->arena, uint32_t, n);
                block->arg_locs[i] = hlo_loc_add(b->m, loc);
            }
        }
        if (nf_reader_u8(r) && skip_use_list(r, n))
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "a use-list order is cut");
    }
    if (r->failed || num_ops > nf_reader_left(r))
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "the file ends inside a block");
    for (uint64_t i = 0; i < num_ops; i++)
        if ((e = read_op(b, r, block, s, next)))
            return e;
    return 0;
}

static int read_regions(struct bc *b, struct nf_reader *r, struct hlo_op *op, struct scope *s)
{
    for (unsigned i = 0; i < op->num_regions; i++) {
        size_t blocks = hlo__bc_count(r);
        int e;
        if (blocks == 0) {
            if (r->failed)
                return hlo__bc_fail(b, r->at, NF_EGRAPH, "the file ends inside a region");
            continue;
        }
        size_t values = hlo__bc_count(r), base = s->len, next = base;
        if (r->failed)
            return hlo__bc_fail(b, r->at, NF_EGRAPH, "a region with more values than the file has bytes");
        if ((e = grow(b, s, values, r->at)))
            return e;
        for (size_t k = 0; k < blocks; k++) {
            struct hlo_block *block = op->regions[i]->first;
            if (op->id != HLO_OP_MODULE || k > 0 || !block)
                block = hlo_block_new(b->m, op->regions[i]);
            if ((e = read_block(b, r, block, s, &next)))
                return e;
        }
        s->len = base;
    }
    return 0;
}

/* ---- the file ---- */

bool hlo_bytecode_magic(struct nf_str bytes)
{
    return bytes.len >= 4 && memcmp(bytes.data, "ML\xEFR", 4) == 0;
}

static bool parse_version(const char *s, size_t len, struct vhlo_version *ret)
{
    const struct nf_str prefix = NF_STR("StableHLO_v");
    struct nf_str rest = nf_str_n(s, len);
    if (!nf_str_starts(rest, prefix))
        return false;
    rest = nf_str_n(s + prefix.len, len - prefix.len);
    uint64_t v[3];
    for (int i = 0; i < 3; i++)
        if (nf_str_to_u64(nf_str_cut(&rest, '.'), &v[i]) || v[i] > 10000)
            return false;
    *ret = (struct vhlo_version){(unsigned)v[0], (unsigned)v[1], (unsigned)v[2]};
    return rest.data == NULL;
}

static int read_header(struct bc *b, struct nf_reader *r)
{
    if (!hlo_bytecode_magic(b->file))
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "not MLIR bytecode: it does not begin with ML\\xEFR");
    nf_reader_skip(r, 4);
    uint64_t format = hlo__bc_varint(r);
    size_t len;
    const char *producer = hlo__bc_c_string(r, &len);
    if (r->failed)
        return hlo__bc_fail(b, r->at, NF_EGRAPH, "the file ends inside its header");
    bool known = parse_version(producer, len, &b->version);
    if (known && b->version.major > VHLO_CURRENT.major) {
        int e = hlo__bc_fail(b, r->at, NF_EUNSUPPORTED, "written for StableHLO %u.%u.%u; this reader knows versions up to %u.x", b->version.major, b->version.minor, b->version.patch, VHLO_CURRENT.major);
        nf_error_hint(b->err, "serialize it for an older target version");
        return e;
    }
    if (format != 6) {
        int e = hlo__bc_fail(b, r->at, NF_EUNSUPPORTED, "bytecode format %llu (%.*s); only format 6 is read, that is StableHLO 0.15.0 and newer", (unsigned long long)format, (int)NF_MIN(len, 40u), producer);
        nf_error_hint(b->err, "export the program again with a current version of its framework");
        return e;
    }
    if (!known)
        return hlo__bc_fail(b, r->at, NF_EUNSUPPORTED, "bytecode of producer \"%.*s\", not a portable StableHLO artifact", (int)NF_MIN(len, 60u), producer);
    return 0;
}

int hlo_bytecode_read(struct nf_str bytes, const struct hlo_limits *limits, struct nf_arena *arena,
                      struct hlo_module **ret_module, struct nf_error *err)
{
    struct bc b = {.limits = limits ? limits : &hlo_limits_default, .err = err, .file = bytes};
    struct nf_reader r = nf_reader_of(bytes);
    if (bytes.len > b.limits->input_bytes)
        return hlo__bc_fail(&b, bytes.data, NF_ELIMIT, "input of %zu bytes, more than %zu", bytes.len, b.limits->input_bytes);
    b.m = hlo_module_new(arena);
    b.m->source = HLO_SOURCE_BYTES;
    b.m->text = bytes;
    int e = read_header(&b, &r);
    if (e || (e = read_sections(&b, &r)) || (e = read_strings(&b)) || (e = read_dialects(&b)) || (e = read_offsets(&b)) ||
        (e = read_properties(&b)))
        return e;
    /* The IR section is one block that holds the module. */
    struct nf_reader ir = nf_reader_of(b.sections[SEC_IR]);
    uint64_t head = hlo__bc_varint(&ir);
    if (ir.failed || head != 2)
        return hlo__bc_fail(&b, ir.at, NF_EGRAPH, "the IR section does not hold exactly one operation");
    struct scope s = {0};
    size_t next = 0;
    if ((e = read_op(&b, &ir, NULL, &s, &next)))
        return e;
    if (nf_reader_left(&ir))
        return hlo__bc_fail(&b, ir.at, NF_EGRAPH, "bytes left over after the module");
    hlo_module_symbols_changed(b.m);
    *ret_module = b.m;
    return 0;
}
