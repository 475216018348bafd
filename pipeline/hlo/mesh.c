/* Device meshes. See mesh.h. */
#include "pipeline/hlo/mesh.h"

/* Cuts the text up to `ch`, and it; all of it is cut where there is none. */
static void skip_past(struct nf_str *s, char ch)
{
    const char *at = s->len ? memchr(s->data, ch, s->len) : NULL;
    size_t n = at ? (size_t)(at - s->data) + 1 : s->len;
    s->data += n;
    s->len -= n;
}

static void skip_space(struct nf_str *s)
{
    while (s->len && s->data[0] == ' ') {
        s->data++;
        s->len--;
    }
}

static bool take_number(struct nf_str *s, int64_t *ret)
{
    int64_t v = 0;
    skip_space(s);
    if (!s->len || s->data[0] < '0' || s->data[0] > '9')
        return false;
    while (s->len && s->data[0] >= '0' && s->data[0] <= '9') {
        v = v * 10 + (s->data[0] - '0');
        if (v > HLO_MESH_DEVICES_MAX)
            return false;
        s->data++;
        s->len--;
    }
    *ret = v;
    return true;
}

/* The list of numbers in device_ids = [..] or dense<[..]>: each device once, or one device where there are no axes. */
static bool read_ids(struct nf_str s, struct hlo_mesh *m, struct nf_arena *arena)
{
    uint8_t *seen = nf_arena_alloc(arena, (size_t)m->devices);
    skip_past(&s, '[');
    for (int64_t i = 0; i < m->devices; i++) {
        int64_t id;
        if (!take_number(&s, &id) || (m->n && (id >= m->devices || seen[id])))
            return false;
        if (m->n)
            seen[id] = 1;
        m->device_at[i] = id;
        skip_space(&s);
        if (s.len && s.data[0] == ',') {
            s.data++;
            s.len--;
        }
    }
    skip_space(&s);
    return s.len && s.data[0] == ']';
}

bool hlo_mesh_of(const struct hlo_module *m, const struct hlo_attr *mesh, struct nf_arena *arena, struct hlo_mesh *ret)
{
    if (mesh && mesh->kind == HLO_ATTR_SYMBOL) {
        struct nf_str name = mesh->str;
        mesh = NULL;
        HLO_FOR_OPS(op, hlo_module_block(m))
            if (op->id == HLO_OP_SDY_MESH && nf_str_eq(hlo_op_string(op, HLO_A_sym_name), name))
                mesh = hlo_op_attr(op, HLO_A_mesh);
    }
    if (!mesh || mesh->kind != HLO_ATTR_OPAQUE)
        return false;
    struct nf_str s = mesh->str, ids = {0};
    const char *at = memmem(s.data, s.len, "device_ids", 10);
    if (at) {
        ids = nf_str_n(at, (size_t)(s.data + s.len - at));
        s.len = (size_t)(at - s.data);
    }
    *ret = (struct hlo_mesh){.devices = 1};
    for (skip_past(&s, '"'); s.len; skip_past(&s, '"')) {
        struct nf_str name = nf_str_cut(&s, '"');
        int64_t size;
        skip_past(&s, '=');
        if (ret->n == HLO_MESH_AXES_MAX || !take_number(&s, &size) || size < 1 || ret->devices * size > HLO_MESH_DEVICES_MAX)
            return false;
        ret->name[ret->n] = name;
        ret->size[ret->n++] = size;
        ret->devices *= size;
    }
    int64_t stride = 1;
    for (unsigned i = ret->n; i-- > 0; stride *= ret->size[i])
        ret->stride[i] = stride;
    ret->device_at = NF_NEW_ARRAY(arena, int64_t, (size_t)ret->devices);
    for (int64_t i = 0; i < ret->devices; i++)
        ret->device_at[i] = i;
    return !ids.len || read_ids(ids, ret, arena);
}

bool hlo_mesh_part(const struct hlo_mesh *mesh, struct nf_str name, int64_t pre, int64_t size, struct hlo_mesh_part *ret)
{
    for (unsigned i = 0; i < mesh->n; i++) {
        if (!nf_str_eq(mesh->name[i], name))
            continue;
        if (!size) {
            *ret = (struct hlo_mesh_part){mesh->size[i], mesh->stride[i]};
            return true;
        }
        if (pre < 1 || mesh->size[i] % (pre * size))
            return false;
        *ret = (struct hlo_mesh_part){size, mesh->stride[i] * (mesh->size[i] / (pre * size))};
        return true;
    }
    return false;
}

bool hlo_mesh_next_part(const struct hlo_mesh *mesh, struct nf_str *text, char end, struct hlo_mesh_part *ret, bool *ret_bad)
{
    size_t at = 0;
    while (at < text->len && text->data[at] != '"' && text->data[at] != end)
        at++;
    *ret_bad = false;
    if (at == text->len || text->data[at] != '"')
        return false;
    struct nf_str s = nf_str_n(text->data + at + 1, text->len - at - 1), name = nf_str_cut(&s, '"');
    int64_t pre = 1, size = 0;
    struct nf_str rest = s;
    if (rest.len && (rest.data[0] == ':' || nf_str_starts(rest, NF_STR(", sub_axis_info")))) {
        skip_past(&rest, '(');
        if (!take_number(&rest, &pre) || !rest.len || rest.data[0] != ')') {
            *ret_bad = true;
            return false;
        }
        skip_past(&rest, ')');
        *ret_bad = !take_number(&rest, &size) || !size;
        s = rest;
    }
    *ret_bad = *ret_bad || !hlo_mesh_part(mesh, name, pre, size, ret);
    *text = s;
    return !*ret_bad;
}

bool hlo_mesh_next_cut(const struct hlo_mesh *mesh, struct nf_str *text, struct hlo_mesh_cut *ret)
{
    struct nf_str s = *text;
    *ret = (struct hlo_mesh_cut){0};
    skip_past(&s, '<');
    skip_past(&s, '[');
    while (s.len && s.data[0] != ']') {
        if (s.data[0] == '{') {
            bool bad;
            if (ret->rank == HLO_MESH_RANK_MAX)
                return false;
            unsigned *n = &ret->n_parts[ret->rank++];
            for (struct hlo_mesh_part part; hlo_mesh_next_part(mesh, &s, '}', &part, &bad); ret->parts[ret->rank - 1][(*n)++] = part)
                if (*n == NF_ARRAY_LEN(ret->parts[0]))
                    return false;
            if (bad)
                return false;
            skip_past(&s, '}');
        } else {
            s.data++;
            s.len--;
        }
    }
    if (!s.len)
        return false;
    skip_past(&s, '>');
    *text = s;
    return true;
}

int64_t hlo_mesh_pieces(const struct hlo_mesh_cut *cut, int d)
{
    int64_t n = 1;
    for (unsigned k = 0; k < cut->n_parts[d]; k++)
        n *= cut->parts[d][k].size;
    return n;
}

/* Keeps the parts of the axes that are manual; false: two of them overlap. */
static bool keep_manual(struct hlo_mesh_cut *cut, const struct hlo_mesh_part *manual, size_t n)
{
    struct hlo_mesh_part seen[HLO_MESH_RANK_MAX * 8];
    size_t n_seen = 0;
    for (int d = 0; d < cut->rank; d++) {
        unsigned kept = 0;
        for (unsigned k = 0; k < cut->n_parts[d]; k++) {
            struct hlo_mesh_part part = cut->parts[d][k];
            bool keep = false;
            for (size_t i = 0; i < n; i++)
                keep = keep || (manual[i].stride <= part.stride && part.stride < manual[i].stride * manual[i].size);
            if (!keep || part.size == 1)
                continue;
            for (size_t i = 0; i < n_seen; i++)
                if (part.stride < seen[i].stride * seen[i].size && seen[i].stride < part.stride * part.size)
                    return false;
            seen[n_seen++] = part;
            cut->parts[d][kept++] = part;
        }
        cut->n_parts[d] = kept;
    }
    return true;
}

/* The mesh that the first sharding of the list names. */
static bool first_mesh(const struct hlo_module *m, struct nf_str s, struct nf_arena *arena, struct hlo_mesh *ret)
{
    skip_past(&s, '@');
    bool quoted = s.len && s.data[0] == '"';
    size_t n = quoted;
    while (n < s.len && !strchr(quoted ? "\"" : ", >]", s.data[n]))
        n++;
    struct hlo_attr symbol = {.kind = HLO_ATTR_SYMBOL, .str = nf_str_n(s.data + quoted, n - quoted)};
    return n > quoted && hlo_mesh_of(m, &symbol, arena, ret) && ret->devices <= HLO_MESH_MANUAL_MAX && (ret->n || ret->devices == 1);
}

/* The attribute's text, in the arena. */
static struct nf_str text_of(const struct hlo_attr *a, struct nf_arena *arena)
{
    struct nf_buf b = NF_BUF_INIT;
    if (a)
        hlo_attr_print(a, &b);
    struct nf_str s = nf_arena_str(arena, nf_buf_str(&b));
    nf_buf_done(&b);
    return s;
}

static int check_pieces(const struct hlo_mesh_cut *cut, const struct hlo_type *whole, const struct hlo_type *part, const char *what, uint32_t i, struct nf_error *err)
{
    if (whole->kind != HLO_TYPE_TENSOR || part->kind != HLO_TYPE_TENSOR || whole->rank != (uint32_t)cut->rank || part->rank != whole->rank)
        return nf_fail(err, NF_EUNSUPPORTED, "%s %u is not an array of its sharding's rank", what, i);
    for (int d = 0; d < cut->rank; d++) {
        int64_t n = hlo_mesh_pieces(cut, d);
        if (whole->dims[d] == HLO_DYNAMIC || part->dims[d] == HLO_DYNAMIC)
            continue;
        if (whole->dims[d] % n)
            return nf_fail(err, NF_EUNSUPPORTED, "dimension %d of %s %u does not divide by %lld", d, what, i, (long long)n);
        if (whole->dims[d] / n != part->dims[d])
            return nf_fail(err, NF_EUNSUPPORTED, "dimension %d of %s %u is %lld in the region, its manual axes make it %lld", d, what, i, (long long)part->dims[d],
                (long long)(whole->dims[d] / n));
    }
    return NF_OK;
}

int hlo_mesh_manual(const struct hlo_module *m, const struct hlo_op *op, struct nf_arena *arena, struct hlo_mesh *ret_mesh, struct hlo_mesh_cut **ret_cuts,
                    struct nf_error *err)
{
    const struct hlo_block *b = hlo_op_body(op, 0);
    struct hlo_mesh mesh = {.devices = 1};
    struct hlo_mesh_part manual[HLO_MESH_AXES_MAX];
    size_t n_manual = 0;
    uint32_t n_in = op->num_operands, n_out = op->num_results;
    struct hlo_mesh_cut *cuts = NF_NEW_ARRAY(arena, struct hlo_mesh_cut, (size_t)n_in + n_out + 1);
    struct nf_str in = text_of(hlo_op_attr(op, HLO_A_in_shardings), arena), out = text_of(hlo_op_attr(op, HLO_A_out_shardings), arena);
    struct nf_str axes = text_of(hlo_op_attr(op, HLO_A_manual_axes), arena);
    if (!b || !b->last || b->num_args != n_in || b->last->num_operands != n_out)
        return nf_fail(err, NF_EUNSUPPORTED, "its region does not fit operands and results");
    if (memmem(in.data, in.len, "unreduced=", 10) || memmem(out.data, out.len, "unreduced=", 10))
        return nf_fail(err, NF_EUNSUPPORTED, "its shardings have unreduced axes");
    bool bad = false, ok = first_mesh(m, n_in ? in : out, arena, &mesh);
    while (ok && n_manual < HLO_MESH_AXES_MAX && hlo_mesh_next_part(&mesh, &axes, '}', &manual[n_manual], &bad))
        n_manual++;
    for (uint32_t i = 0; i < n_in + n_out && ok && !bad; i++)
        ok = hlo_mesh_next_cut(&mesh, i < n_in ? &in : &out, &cuts[i]) && keep_manual(&cuts[i], manual, n_manual);
    if (!ok || bad)
        return nf_fail(err, NF_EUNSUPPORTED, "its mesh, shardings or axes are not understood");
    for (uint32_t i = 0; i < n_in + n_out; i++) {
        int rc = i < n_in ? check_pieces(&cuts[i], hlo_op_operand(op, i)->type, b->args[i]->type, "operand", i, err)
                          : check_pieces(&cuts[i], op->results[i - n_in].type, hlo_op_operand(b->last, i - n_in)->type, "result", i - n_in, err);
        if (rc)
            return rc;
    }
    mesh.n_manual = (unsigned)n_manual;
    memcpy(mesh.manual, manual, n_manual * sizeof(*manual));
    *ret_mesh = mesh;
    *ret_cuts = cuts;
    return NF_OK;
}

bool hlo_mesh_uncut(const struct hlo_mesh_cut *cuts, uint32_t n)
{
    bool cut = false;
    for (uint32_t i = 0; i < n; i++)
        for (int d = 0; d < cuts[i].rank; d++)
            cut = cut || cuts[i].n_parts[d];
    return !cut;
}

bool hlo_mesh_groups(const struct hlo_module *m, const struct hlo_mesh_axes *axes, struct nf_arena *arena, int64_t *ret_rows, int64_t *ret_cols, int64_t **ret_ids)
{
    struct hlo_mesh mesh;
    struct hlo_mesh_part parts[HLO_MESH_AXES_MAX];
    size_t n = 0;
    int64_t cols = 1, rows = 0;
    if (!hlo_mesh_of(m, axes->mesh, arena, &mesh) || axes->axes->kind != HLO_ATTR_ARRAY || axes->axes->array.n > HLO_MESH_AXES_MAX)
        return false;
    for (; n < axes->axes->array.n; n++) {
        const struct hlo_attr *a = axes->axes->array.v[n];
        struct nf_str s = a->kind == HLO_ATTR_OPAQUE ? a->str : nf_str_n("", 0);
        bool bad;
        if (!hlo_mesh_next_part(&mesh, &s, '\0', &parts[n], &bad) || cols * parts[n].size > mesh.devices)
            return false;
        cols *= parts[n].size;
    }
    if (mesh.devices % cols)
        return false;
    int64_t *ids = NF_NEW_ARRAY(arena, int64_t, (size_t)mesh.devices), *row_of = NF_NEW_ARRAY(arena, int64_t, (size_t)mesh.devices);
    memset(ids, 0xff, (size_t)mesh.devices * sizeof(*ids));
    for (int64_t pos = 0; pos < mesh.devices; pos++) {
        int64_t first = pos, member = 0; /* the group's member whose named digits are all 0, and this one's place behind it */
        for (size_t i = 0; i < n; i++) {
            int64_t digit = pos / parts[i].stride % parts[i].size;
            first -= digit * parts[i].stride;
            member = member * parts[i].size + digit;
        }
        if (first < 0)
            return false; /* a part named twice */
        if (first == pos && rows < mesh.devices / cols)
            row_of[pos] = rows++;
        int64_t *slot = &ids[row_of[first] * cols + member];
        if (*slot >= 0)
            return false;
        *slot = mesh.device_at[pos];
    }
    *ret_rows = rows;
    *ret_cols = cols;
    *ret_ids = ids;
    return true;
}

bool hlo_mesh_nest(struct hlo_mesh *outer, const struct hlo_mesh *inner)
{
    if (outer->devices != inner->devices || !outer->n || !inner->n || outer->n_manual + inner->n_manual > HLO_MESH_AXES_MAX)
        return false;
    for (int64_t i = 0; i < outer->devices; i++)
        if (outer->device_at[i] != inner->device_at[i])
            return false;
    for (unsigned i = 0; i < outer->n_manual; i++)
        for (unsigned k = 0; k < inner->n_manual; k++) {
            const struct hlo_mesh_part *a = &outer->manual[i], *b = &inner->manual[k];
            if (a->size > 1 && b->size > 1 && a->stride < b->stride * b->size && b->stride < a->stride * a->size)
                return false;
        }
    memcpy(outer->manual + outer->n_manual, inner->manual, inner->n_manual * sizeof(*inner->manual));
    outer->n_manual += inner->n_manual;
    return true;
}

void hlo_mesh_start(const struct hlo_mesh_cut *cut, int64_t pos, const int64_t *piece, int64_t *ret_start)
{
    for (int d = 0; d < cut->rank; d++) {
        int64_t at = 0;
        for (unsigned k = 0; k < cut->n_parts[d]; k++)
            at = at * cut->parts[d][k].size + pos / cut->parts[d][k].stride % cut->parts[d][k].size;
        ret_start[d] = at * piece[d];
    }
}

int64_t hlo_mesh_pieces_of(const struct hlo_mesh_cut *cut, int64_t pos, int64_t *ret)
{
    int64_t n = 1;
    ret[0] = pos;
    for (int d = 0; d < cut->rank; d++)
        for (unsigned k = 0; k < cut->n_parts[d]; k++) {
            const struct hlo_mesh_part *p = &cut->parts[d][k];
            for (int64_t i = n * p->size; i-- > 0;) { /* from behind: each becomes `size`, one digit further */
                int64_t from = ret[i / p->size];
                ret[i] = from + (i % p->size - from / p->stride % p->size) * p->stride;
            }
            n *= p->size;
        }
    return n;
}
