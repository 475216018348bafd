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
