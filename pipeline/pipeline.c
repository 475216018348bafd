#include "pipeline/pipeline.h"

#include "base/file.h"
#include "base/reader.h"
#include "pipeline/hlo/bytecode.h"
#include "pipeline/hlo/hlo.h"
#include "pipeline/hlo/passes.h"
#include "pipeline/hlo/hlo_proto.h"
#include "pipeline/side.h"
#include "pipeline/stages.h"
#include "runtime/neff.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *pipe_kind_name(enum pipe_kind kind)
{
    switch (kind) {
    case PIPE_KIND_STABLEHLO_TEXT: return "stablehlo text";
    case PIPE_KIND_STABLEHLO_BYTECODE: return "stablehlo bytecode";
    case PIPE_KIND_HLO_PROTO: return "hlo protobuf";
    case PIPE_KIND_FX_GRAPH: return "fx graph";
    case PIPE_KIND_UNKNOWN:
    case PIPE_KIND_MAX: break;
    }
    return "unknown";
}

/* ---------------------------------------------------------------------------------------------------------- sniffing */

/* One field of a protobuf message; false at the end or where the bytes are none. */
static bool next_field(struct nf_reader *r, unsigned *ret_number, unsigned *ret_type, struct nf_str *ret_bytes)
{
    if (r->failed || nf_reader_left(r) == 0)
        return false;
    uint64_t tag = nf_reader_varint(r);
    *ret_number = (unsigned)(tag >> 3);
    *ret_type = (unsigned)(tag & 7);
    *ret_bytes = (struct nf_str){0};
    if (tag >> 32 || *ret_number == 0)
        return false;
    switch (*ret_type) {
    case 0: nf_reader_varint(r); break;
    case 1: nf_reader_skip(r, 8); break;
    case 2: {
        uint64_t len = nf_reader_varint(r);
        if (len > nf_reader_left(r))
            return false;
        *ret_bytes = nf_reader_bytes(r, (size_t)len);
        break;
    }
    case 5: nf_reader_skip(r, 4); break;
    default: return false;
    }
    return !r->failed;
}

/* HloModuleProto: name = 1, entry_computation_name = 2, computations = 3, host_program_shape = 4, id = 5 ... up to the twenties. A
 * module has a computation, which is a message that starts with its own name (1). An fx Graph (neffd.fx.v1) has its format
 * version, a varint, in field 1. Serialisers write fields in order, but nothing is relied on except the types. */
static enum pipe_kind sniff_proto(struct nf_str bytes)
{
    struct nf_reader r = nf_reader_of(bytes);
    unsigned number, type;
    struct nf_str field;
    bool first = true, name = false, fx = false;
    for (int i = 0; i < 64 && next_field(&r, &number, &type, &field); i++) {
        if (first && number == 1 && type == 0)
            fx = true;
        if (number == 1 && type == 2)
            name = nf_utf8_valid(field);
        if (!fx && number == 3 && type == 2) {
            struct nf_reader c = nf_reader_of(field);
            struct nf_str inner;
            if (next_field(&c, &number, &type, &inner) && number == 1 && type == 2 && nf_utf8_valid(inner) && name)
                return PIPE_KIND_HLO_PROTO;
        }
        if (fx && type == 2 && nf_reader_left(&r) > 0)
            return PIPE_KIND_FX_GRAPH;
        first = false;
    }
    if (!r.failed && nf_reader_left(&r) == 0 && !first)
        return fx ? PIPE_KIND_FX_GRAPH : name ? PIPE_KIND_HLO_PROTO : PIPE_KIND_UNKNOWN;
    return PIPE_KIND_UNKNOWN;
}

enum pipe_kind pipe_kind_sniff(struct nf_str bytes)
{
    if (bytes.len >= 4 && memcmp(bytes.data, "ML\xefR", 4) == 0)
        return PIPE_KIND_STABLEHLO_BYTECODE;
    /* Text: white space, then a word of MLIR's top level. */
    struct nf_str s = bytes;
    while (s.len > 0) {
        if (strchr(" \t\r\n", s.data[0]) && s.data[0]) {
            s = nf_str_n(s.data + 1, s.len - 1);
        } else if (s.len > 1 && s.data[0] == '/' && s.data[1] == '/') {
            const char *end = memchr(s.data, '\n', s.len);
            size_t skip = end ? (size_t)(end - s.data) + 1 : s.len;
            s = nf_str_n(s.data + skip, s.len - skip);
        } else {
            break;
        }
    }
    static const char *const starts[] = {"module", "func.func", "#", "!", "\"builtin.module\"", "\"func.func\"", "builtin.module",
                                         "stablehlo.", "\"stablehlo.", "{-#", "sdy.", "vhlo."};
    for (size_t i = 0; i < NF_ARRAY_LEN(starts); i++)
        if (nf_str_starts(s, nf_str_c(starts[i])))
            return PIPE_KIND_STABLEHLO_TEXT;
    enum pipe_kind proto = sniff_proto(bytes);
    if (proto != PIPE_KIND_UNKNOWN)
        return proto;
    /* Anything printable is taken for text, so that the parser can say what is wrong with it. */
    size_t look = NF_MIN(bytes.len, (size_t)4096);
    for (size_t i = 0; i < look; i++)
        if (((unsigned char)bytes.data[i] < 32 && !strchr("\t\r\n", bytes.data[i])) || bytes.data[i] == 0)
            return PIPE_KIND_UNKNOWN;
    return s.len > 0 ? PIPE_KIND_STABLEHLO_TEXT : PIPE_KIND_UNKNOWN;
}

/* ------------------------------------------------------------------------------------------------------------ import */

int pipe_read(struct nf_str bytes, enum pipe_kind kind, const struct hlo_limits *limits, struct nf_arena *arena,
              struct hlo_module **ret_module, struct nf_error *err)
{
    if (kind == PIPE_KIND_UNKNOWN)
        kind = pipe_kind_sniff(bytes);
    switch (kind) {
    case PIPE_KIND_STABLEHLO_TEXT: return hlo_parse(bytes, limits, arena, ret_module, err);
    case PIPE_KIND_STABLEHLO_BYTECODE: return hlo_bytecode_read(bytes, limits, arena, ret_module, err);
    case PIPE_KIND_HLO_PROTO: return hlo_proto_read(bytes, limits, arena, ret_module, err);
    case PIPE_KIND_FX_GRAPH:
        nf_fail(err, NF_EUNSUPPORTED, "FX graphs cannot be compiled by this version");
        nf_error_hint(err, "give StableHLO or HLO");
        return NF_EUNSUPPORTED;
    case PIPE_KIND_UNKNOWN:
    case PIPE_KIND_MAX: break;
    }
    nf_fail(err, NF_EGRAPH, "the input is neither StableHLO (text or bytecode) nor HLO protobuf nor an FX graph");
    nf_error_location(err, "byte 0");
    return NF_EGRAPH;
}

/* Of a kind that was not read, but can be keyed: equal bytes are equal graphs, and an external compiler takes them as they are. */
static struct pipe_graph *raw_graph(struct nf_str bytes, enum pipe_kind kind, const struct nf_error *why, struct nf_arena *arena)
{
    struct pipe_graph *g = NF_NEW(arena, struct pipe_graph);
    struct nf_error *copy = NF_NEW(arena, struct nf_error);
    *copy = *why;
    struct nf_sha256 sha;
    nf_sha256_init(&sha);
    nf_sha256_add_field(&sha, nf_str_c(pipe_kind_name(kind)));
    nf_sha256_add_field(&sha, pipe_side_strip(bytes, arena));
    *g = (struct pipe_graph){.kind = kind, .canonical = bytes, .key = nf_sha256_end(&sha), .original = bytes, .arena = arena, .unread = copy};
    return g;
}

static const struct hlo_attr *strip_attr(struct hlo_module *m, const struct hlo_attr *a)
{
    if (!a || a->kind != HLO_ATTR_STRING)
        return a;
    struct nf_str text = pipe_side_strip_payload(a->str, m->arena);
    return text.data == a->str.data ? a : hlo_attr_string(m, text);
}

/* Kernel files enter by content: their paths leave the graph (side.h). */
static void strip_kernel_paths(struct hlo_module *m)
{
    if (!m->made[HLO_OP_CUSTOM_CALL])
        return;
    struct hlo_walk w = hlo_walk_of(m->op);
    struct hlo_op *op;
    while ((op = hlo_walk_next(&w))) {
        if (op->id != HLO_OP_CUSTOM_CALL || !pipe_side_is_kernel(hlo_op_string(op, HLO_A_call_target_name)))
            continue;
        const struct hlo_attr *config = hlo_op_attr(op, HLO_A_backend_config);
        const struct hlo_attr *stripped = strip_attr(m, config);
        if (stripped != config)
            hlo_op_set_attr(op, HLO_A_backend_config, stripped);
        for (uint32_t i = 0; i < op->num_dict; i++)
            op->dict[i].attr = strip_attr(m, op->dict[i].attr);
    }
}

int pipe_import(struct nf_str bytes, enum pipe_kind kind, const char *file_name, const struct hlo_limits *limits,
                struct nf_arena *arena, struct pipe_graph **ret_graph, struct nf_error *err)
{
    if (bytes.len == 0) {
        nf_fail(err, NF_EGRAPH, "the graph is empty");
        goto failed;
    }
    if (kind == PIPE_KIND_UNKNOWN)
        kind = pipe_kind_sniff(bytes); /* kept in the graph */
    struct hlo_module *m = NULL;
    struct nf_error own = {0};
    struct nf_error *why = err ? err : &own;
    int r = pipe_read(bytes, kind, limits, arena, &m, why);
    if (r == NF_EUNSUPPORTED && kind == PIPE_KIND_HLO_PROTO) {
        *ret_graph = raw_graph(bytes, kind, why, arena);
        return NF_OK;
    }
    if (r == NF_OK)
        strip_kernel_paths(m);
    if (r == NF_OK)
        r = hlo_verify(m, err);
    if (r == NF_OK)
        r = hlo_pass_legalise(m, err); /* deprecated operations: compilers need not know them, and both spellings share a key */
    if (r == NF_OK)
        r = hlo_canonicalise(m, err);
    if (r != NF_OK)
        goto failed;
    struct nf_buf text = NF_BUF_INIT;
    struct nf_digest key;
    r = hlo_print_canonical(m, &text, &key);
    if (r != NF_OK || text.failed) {
        nf_buf_done(&text);
        nf_fail(err, r != NF_OK ? r : NF_ENOMEM, "cannot print the canonical form");
        goto failed;
    }
    struct pipe_graph *g = NF_NEW(arena, struct pipe_graph);
    *g = (struct pipe_graph){.kind = kind, .module = m, .canonical = nf_arena_str(arena, nf_buf_str(&text)), .key = key, .original = bytes, .arena = arena};
    nf_buf_done(&text);
    *ret_graph = g;
    return NF_OK;
failed:
    if (err) {
        err->stage = PIPE_STAGE_IMPORT;
        if (file_name && file_name[0] && err->location[0]) {
            char place[256];
            nf_format(place, sizeof(place), "%s", err->location);
            nf_error_location(err, "%s:%s", file_name, place);
        }
        return err->code;
    }
    return NF_EGRAPH;
}

/* -------------------------------------------------------------------------------------------------------- components */

void pipe_toolchain_id(const struct target_id *id, struct nf_buf *out)
{
    nf_buf_add_c(out, id->compiler);
    if (id->isa[0])
        nf_buf_addf(out, " %s", id->isa);
}

struct list {
    struct nf_arena *arena;
    struct pipe_component *v;
    size_t count;
};

static void add(struct list *l, const char *component, const char *name, struct nf_str value, struct nf_str location)
{
    l->v[l->count++] = (struct pipe_component){component, name, value, location};
}

/* "op 412"; there are as many as operations, each formatted by hand. */
static const char *numbered(struct nf_arena *arena, const char *what, size_t number)
{
    size_t at = strlen(what), digits = 1;
    for (size_t n = number; n >= 10; n /= 10)
        digits++;
    char *text = nf_arena_alloc_raw(arena, at + digits + 1);
    memcpy(text, what, at);
    text[at + digits] = 0;
    for (; digits; number /= 10)
        text[at + --digits] = (char)('0' + number % 10);
    return text;
}

static struct nf_str hex_of(struct nf_arena *arena, const struct nf_digest *d)
{
    char hex[NF_DIGEST_HEX];
    return nf_str_c(nf_arena_strn(arena, nf_digest_hex(d, hex), NF_DIGEST_HEX - 1));
}

void pipe_components(const struct pipe_graph *graph, const struct target_id *id, const struct pipe_option *effective_options,
                     size_t option_count, const struct pipe_side_file *side_files, size_t side_file_count, struct nf_str cache_namespace,
                     struct nf_str base_key, struct nf_arena *arena, const struct pipe_component **ret_components, size_t *ret_count)
{
    struct hlo_components c = {0};
    if (graph->module)
        hlo_components(graph->module, &c);
    struct list l = {.arena = arena};
    l.v = NF_NEW_ARRAY(arena, struct pipe_component, 8 + option_count + side_file_count + c.num_inputs + c.num_outputs + c.num_constants + c.num_ops);
    struct nf_str none = {0};
    struct nf_buf toolchain = NF_BUF_INIT;
    pipe_toolchain_id(id, &toolchain);
    add(&l, "format", "artifact", NF_STR(PIPE_ARTIFACT_FORMAT), none);
    add(&l, "target", "", nf_arena_str(arena, nf_str_c(id->target)), none);
    add(&l, "compiler", nf_arena_printf(arena, "%s", id->compiler), nf_arena_str(arena, nf_buf_str(&toolchain)), none);
    nf_buf_done(&toolchain);
    if (cache_namespace.len > 0)
        add(&l, "namespace", "", nf_arena_str(arena, cache_namespace), none);
    for (size_t i = 0; i < option_count; i++)
        add(&l, "option", effective_options[i].name, effective_options[i].value, none);
    for (size_t i = 0; i < side_file_count; i++)
        add(&l, "side_file", nf_arena_printf(arena, "%s", side_files[i].name), hex_of(arena, &side_files[i].sha256), none);
    add(&l, "structure", "", base_key.len > 0 ? nf_arena_str(arena, base_key) : hex_of(arena, &graph->key), none);
    for (size_t i = 0; i < c.num_inputs; i++)
        add(&l, "input", numbered(arena, "input ", i), c.inputs[i].text, none);
    for (size_t i = 0; i < c.num_outputs; i++)
        add(&l, "output", numbered(arena, "output ", i), c.outputs[i].text, none);
    for (size_t i = 0; i < c.num_constants; i++) {
        char hex[NF_DIGEST_HEX];
        struct nf_str type = c.constants[i].text, literal = c.constants[i].literal;
        int len = (int)NF_MIN(type.len, (size_t)4096);
        const char *text = literal.len ? nf_arena_printf(arena, "%.*s : %.*s", NF_STR_ARG(literal), len, type.data)
                                       : nf_arena_printf(arena, "sha256:%s : %.*s", nf_digest_hex(&c.constants[i].digest, hex), len, type.data ? type.data : "");
        add(&l, "constant", numbered(arena, "constant ", i), nf_str_c(text), none);
    }
    for (size_t i = 0; i < c.num_ops; i++)
        add(&l, "structure", numbered(arena, "op ", i), c.ops[i].line, c.ops[i].location);
    *ret_components = l.v;
    *ret_count = l.count;
}

/* ----------------------------------------------------------------------------------------------------------- compile */

/* Stands between a target and the caller's sink, and remembers the artifact. */
struct watched {
    struct compile_sink *real;
    char *neff;
};

static void on_stage(void *user, int stage, const char *detail) { sink_stage(((struct watched *)user)->real, stage, detail); }
static void on_progress(void *user, double fraction) { sink_progress(((struct watched *)user)->real, fraction); }
static void on_log(void *user, int level, const char *source, struct nf_str line) { sink_log(((struct watched *)user)->real, level, source, line); }
static bool on_cancelled(void *user) { return sink_cancelled(((struct watched *)user)->real); }

static void on_artifact(void *user, const char *kind, const char *path)
{
    struct watched *w = user;
    if (strcmp(kind, "neff") == 0) {
        free(w->neff);
        w->neff = nf_strdup(path);
    } else {
        sink_artifact(w->real, kind, path);
    }
}

static int check_artifact(const char *path, const struct compile_input *input, struct nf_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot open the artifact %s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < NEFF_HEADER_BYTES) {
        close(fd);
        return nf_fail(err, NF_ECOMPILERCRASH, "the artifact %s is not a NEFF", path);
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return nf_fail_errno(err, errno, "cannot map the artifact %s", path);
    struct nf_arena *arena = nf_arena_new(0);
    const char *const *problems;
    struct neff_expect expect = {.target = input->target};
    int r = NF_OK;
    if (neff_check(nf_str_n(p, (size_t)st.st_size), &expect, arena, &problems, NULL) > 0)
        r = nf_fail(err, NF_ECOMPILERCRASH, "the compiler for %s wrote a bad NEFF: %s", input->target, problems[0]);
    nf_arena_free(arena);
    munmap(p, (size_t)st.st_size);
    return r;
}

int pipe_compile(const struct compile_input *input, struct compile_sink *sink, struct nf_error *err)
{
    const struct target_ops *t = target_find(nf_str_c(input->target));
    if (!t)
        return nf_fail(err, NF_EUNSUPPORTED, "this program has no compiler for target %s", input->target);
    struct watched w = {.real = sink};
    struct compile_sink mine = {.user = &w, .stage = on_stage, .progress = on_progress, .log = on_log, .artifact = on_artifact, .cancelled = on_cancelled};
    struct nf_error own = {0};
    struct nf_error *e = err ? err : &own;
    sink_stage(sink, PIPE_STAGE_COMPILE, t->name);
    int r = t->compile(input, &mine, e);
    if (r == NF_OK && !w.neff)
        r = nf_fail(e, NF_EINTERNAL, "the compiler for %s ended without an artifact", t->name);
    if (r == NF_OK)
        r = check_artifact(w.neff, input, e);
    if (sink)
        sink->peak_rss_bytes = mine.peak_rss_bytes;
    if (r == NF_OK)
        sink_artifact(sink, "neff", w.neff);
    else if (e->stage == 0)
        e->stage = PIPE_STAGE_COMPILE;
    free(w.neff);
    return r;
}
