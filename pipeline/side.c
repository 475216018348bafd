#include "pipeline/side.h"

#define KERNEL_CALL "AwsNeuronCustomNativeKernel"
#define PATHS_MAX 4096
#define REACH 16384                    /* bytes behind the call's name in which its payload is looked for */

bool pipe_side_name(struct nf_str path, char *ret_name, size_t size)
{
    size_t slash = path.len, before;
    while (slash > 0 && path.data[slash - 1] != '/')
        slash--;
    if (slash < 2 || slash == path.len)
        return false;
    before = slash - 1;
    while (before > 0 && path.data[before - 1] != '/')
        before--;
    return nf_format(ret_name, size, "%.*s", (int)NF_MIN(path.len - before, (size_t)4096), path.data + before) && pipe_side_name_good(ret_name);
}

bool pipe_side_name_good(const char *name)
{
    const char *slash = strchr(name, '/');
    if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/') || strlen(name) > 500)
        return false;
    size_t dir = (size_t)(slash - name);
    return !(dir == 1 && name[0] == '.') && !(dir == 2 && name[0] == '.' && name[1] == '.') && strcmp(slash, "/.") != 0 && strcmp(slash, "/..") != 0;
}

static bool path_char(unsigned char c)
{
    return c > ' ' && c != '"' && c != '\'' && c != '\\' && c != ',' && c != ';' && c != '<' && c != '>' && c != '{' && c != '}' && c < 127;
}

/* The part of a graph behind the call's name that can hold its payload. In text: the rest of the operation's line, without its
 * location. */
static struct nf_str payload(struct nf_str rest)
{
    struct nf_str area = nf_str_n(rest.data, NF_MIN(rest.len, (size_t)REACH));
    static const char *const ends[] = {KERNEL_CALL, "\n", " loc("};
    for (size_t i = 0; i < NF_ARRAY_LEN(ends); i++) {
        const char *end = area.len ? memmem(area.data, area.len, ends[i], strlen(ends[i])) : NULL;
        bool text = ends[i][0] == '\n' && end && !nf_utf8_valid(nf_str_n(area.data, (size_t)(end - area.data)));
        if (end && !text)              /* a newline among bytes that are no text is none */
            area.len = (size_t)(end - area.data);
    }
    return area;
}

/* A path starts with a slash behind something that cannot be part of one, has a directory, and ends where such a thing does.
 * Source files stand in metadata: they are no kernels. Returns the length of the one at i, 0: none. */
static size_t path_at(struct nf_str area, size_t i)
{
    unsigned char before = i > 0 ? (unsigned char)area.data[i - 1] : ' ';
    if (area.data[i] != '/' || (path_char(before) && before != '=' && before != ':') || (i + 1 < area.len && area.data[i + 1] == '/'))
        return 0;
    size_t end = i;
    while (end < area.len && path_char((unsigned char)area.data[end]))
        end++;
    struct nf_str path = nf_str_n(area.data + i, end - i);
    char name[512];
    return !nf_str_ends(path, NF_STR(".py")) && pipe_side_name(path, name, sizeof(name)) ? path.len : 0;
}

size_t pipe_side_paths(struct nf_str graph, struct nf_arena *arena, const struct nf_str **ret_paths)
{
    struct nf_str *v = NULL;
    size_t n = 0, cap = 0;
    struct nf_str rest = graph;
    const char *call;
    while (rest.len && (call = memmem(rest.data, rest.len, KERNEL_CALL, strlen(KERNEL_CALL)))) {
        size_t from = (size_t)(call - rest.data) + strlen(KERNEL_CALL);
        rest = nf_str_n(rest.data + from, rest.len - from);
        struct nf_str area = payload(rest);
        for (size_t i = 0, len; i < area.len && n < PATHS_MAX; i += len ? len : 1) {
            len = path_at(area, i);
            struct nf_str path = nf_str_n(area.data + i, len);
            bool seen = len == 0;
            for (size_t k = 0; k < n && !seen; k++)
                seen = nf_str_eq(v[k], path);
            if (seen)
                continue;
            if (n == cap) {
                cap = cap ? cap * 2 : 8;
                struct nf_str *grown = NF_NEW_ARRAY(arena, struct nf_str, cap);
                if (n)
                    memcpy(grown, v, n * sizeof(*v));
                v = grown;
            }
            v[n++] = path;
        }
    }
    *ret_paths = v;
    return n;
}

bool pipe_side_is_kernel(struct nf_str call_target)
{
    return call_target.len > 0 && memmem(call_target.data, call_target.len, KERNEL_CALL, strlen(KERNEL_CALL)) != NULL;
}

static bool add_stripped(struct nf_str area, struct nf_buf *out)
{
    bool changed = false;
    for (size_t i = 0, len; i < area.len; i += len ? len : 1) {
        char name[512];
        len = path_at(area, i);
        if (len && pipe_side_name(nf_str_n(area.data + i, len), name, sizeof(name))) {
            changed = changed || strlen(name) + 1 != len;
            nf_buf_addf(out, "/%s", name);
        } else {
            nf_buf_add_char(out, area.data[i]);
        }
    }
    return changed;
}

struct nf_str pipe_side_strip_payload(struct nf_str payload_text, struct nf_arena *arena)
{
    struct nf_buf out = NF_BUF_INIT;
    bool changed = add_stripped(payload_text, &out) && !out.failed;
    struct nf_str result = changed ? nf_arena_str(arena, nf_buf_str(&out)) : payload_text;
    nf_buf_done(&out);
    return result;
}

struct nf_str pipe_side_strip(struct nf_str graph, struct nf_arena *arena)
{
    if (!graph.len || !memmem(graph.data, graph.len, KERNEL_CALL, strlen(KERNEL_CALL)))
        return graph;
    struct nf_buf out = NF_BUF_INIT;
    struct nf_str rest = graph;
    const char *call;
    while (rest.len && (call = memmem(rest.data, rest.len, KERNEL_CALL, strlen(KERNEL_CALL)))) {
        size_t from = (size_t)(call - rest.data) + strlen(KERNEL_CALL);
        nf_buf_add(&out, rest.data, from);
        rest = nf_str_n(rest.data + from, rest.len - from);
        struct nf_str area = payload(rest);
        add_stripped(area, &out);
        rest = nf_str_n(rest.data + area.len, rest.len - area.len);
    }
    nf_buf_add_str(&out, rest);
    struct nf_str result = out.failed ? graph : nf_arena_str(arena, nf_buf_str(&out));
    nf_buf_done(&out);
    return result;
}
