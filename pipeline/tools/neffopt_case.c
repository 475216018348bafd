/* neffopt_case.c: judging one case of --check.
 *
 *   with `expected-error` annotations    it must be rejected, and the error's line is one that an annotation names
 *   with check.* calls                   it must evaluate, at least one check must run, and all hold
 *   else                                 it must parse, verify and print to a fixed point
 *
 * Bytecode and HLO protobuf: read, written again and read to the same program. */
#include "pipeline/tools/neffopt.h"

#include "base/clock.h"
#include "base/file.h"
#include "pipeline/hlo/bytecode.h"
#include "pipeline/hlo/eval.h"
#include "pipeline/hlo/hlo_proto.h"

#include <stdlib.h>
#include <unistd.h>

struct expectations {
    unsigned lines[64];
    size_t n;
};

/* "expected-error@+1 {{..}}", "@-2", "@below", "@above", "@12" or none: the line itself */
static void find_expectations(struct nf_str text, unsigned first_line, struct expectations *e)
{
    unsigned line = first_line;
    while (text.len) {
        struct nf_str l = nf_str_cut(&text, '\n');
        const char *at = l.len ? memmem(l.data, l.len, "expected-error", 14) : NULL;
        const char *comment = l.len ? memmem(l.data, l.len, "//", 2) : NULL;
        if (at && comment && comment < at && e->n < NF_ARRAY_LEN(e->lines)) {
            const char *s = at + 14, *end = l.data + l.len;
            unsigned want = line;
            if (end - s >= 3 && memcmp(s, "-re", 3) == 0)
                s += 3;
            while (s < end && *s == ' ')
                s++;
            if (s < end && *s == '@') {
                int sign = 0;
                s++;
                if (end - s >= 5 && (memcmp(s, "below", 5) == 0 || memcmp(s, "above", 5) == 0)) {
                    sign = s[0] == 'b' ? 1 : -1;
                    /* the next line that is no annotation itself */
                    struct nf_str rest = text;
                    want = line + (unsigned)sign;
                    while (sign > 0 && rest.len) {
                        struct nf_str n = nf_str_trim(nf_str_cut(&rest, '\n'));
                        if (!nf_str_starts(n, NF_STR("//")))
                            break;
                        want++;
                    }
                } else {
                    if (s < end && (*s == '+' || *s == '-'))
                        sign = *s++ == '+' ? 1 : -1;
                    unsigned n = 0;
                    for (; s < end && *s >= '0' && *s <= '9'; s++)
                        n = n * 10 + (unsigned)(*s - '0');
                    want = sign == 0 ? n : sign > 0 ? line + n : line - n;
                }
            }
            e->lines[e->n++] = want;
        }
        line++;
    }
}

static unsigned error_line(const struct nf_error *err)
{
    struct nf_str loc = nf_str_c(err->location), line = nf_str_cut(&loc, ':');
    int64_t v;
    return nf_str_to_i64(line, &v) == 0 ? (unsigned)v : 0;
}

static void fail(struct case_result *r, unsigned line, const char *fmt, ...) NF_PRINTF(3, 4);
static void fail(struct case_result *r, unsigned line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    r->verdict = VERDICT_FAIL;
    r->line = line;
    vsnprintf(r->reason, sizeof r->reason, fmt, ap);
    va_end(ap);
}

static void rejected(const struct case_input *in, const struct expectations *e, int rc, const struct nf_error *err, struct case_result *r)
{
    if (!rc) {
        fail(r, e->lines[0], "accepted, but an error is expected on line %u", e->lines[0]);
        return;
    }
    unsigned line = error_line(err);
    for (size_t i = 0; i < e->n; i++)
        if (e->lines[i] == line)
            return;
    (void)in;
    fail(r, line, "rejected on line %u, expected on line %u: %s", line, e->lines[0], err->message);
}

static void first_difference(struct nf_str a, struct nf_str b, char *out, size_t size)
{
    while (a.len && b.len) {
        struct nf_str x = nf_str_cut(&a, '\n'), y = nf_str_cut(&b, '\n');
        if (nf_str_eq(x, y))
            continue;
        x = nf_str_trim(x);
        y = nf_str_trim(y);
        nf_format(out, size, "'%.*s' became '%.*s'", (int)NF_MIN(x.len, (size_t)200), x.data, (int)NF_MIN(y.len, (size_t)200), y.data);
        return;
    }
    nf_format(out, size, "one is longer");
}

/* Parses text printed by us and prints it in `style`. */
static int again(struct nf_str text, enum hlo_style style, struct nf_buf *out, struct nf_error *err)
{
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m;
    int rc = hlo_parse(text, NULL, arena, &m, err);
    if (!rc)
        rc = hlo_print(m, style, out);
    nf_arena_free(arena);
    return rc;
}

/* print(parse(x)) is a fixed point, through the generic form too. */
static void fixed_point(const struct hlo_module *m, struct case_result *r)
{
    struct nf_buf pretty = NF_BUF_INIT, second = NF_BUF_INIT, generic = NF_BUF_INIT, third = NF_BUF_INIT;
    struct nf_error err = {0};
    char where[440];
    if (hlo_print(m, HLO_PRETTY, &pretty) || hlo_print(m, HLO_GENERIC, &generic))
        fail(r, 0, "printing failed");
    else if (again(nf_buf_str(&pretty), HLO_PRETTY, &second, &err))
        fail(r, 0, "the printed form does not parse: %s: %s", err.location, err.message);
    else if (!nf_str_eq(nf_buf_str(&pretty), nf_buf_str(&second))) {
        first_difference(nf_buf_str(&pretty), nf_buf_str(&second), where, sizeof where);
        fail(r, 0, "printing is no fixed point: %s", where);
    } else if (again(nf_buf_str(&generic), HLO_PRETTY, &third, &err))
        fail(r, 0, "the generic form does not parse: %s: %s", err.location, err.message);
    else if (!nf_str_eq(nf_buf_str(&pretty), nf_buf_str(&third))) {
        first_difference(nf_buf_str(&pretty), nf_buf_str(&third), where, sizeof where);
        fail(r, 0, "the generic form is not the same module: %s", where);
    }
    nf_buf_done(&pretty);
    nf_buf_done(&second);
    nf_buf_done(&generic);
    nf_buf_done(&third);
}

/* The canonical form reads back to a module of the same canonical form. */
static void canonical_point(struct hlo_module *m, struct case_result *r)
{
    struct nf_buf first = NF_BUF_INIT, second = NF_BUF_INIT;
    struct nf_error err = {0};
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *back;
    char where[440];
    if (hlo_canonicalise(m, &err) || hlo_print_canonical(m, &first, NULL))
        fail(r, 0, "no canonical form: %s", err.message);
    else if (hlo_parse(nf_buf_str(&first), NULL, arena, &back, &err) || hlo_verify(back, &err) || hlo_canonicalise(back, &err) || hlo_print_canonical(back, &second, NULL))
        fail(r, 0, "the canonical form does not read back: %s: %s", err.location, err.message);
    else if (!nf_str_eq(nf_buf_str(&first), nf_buf_str(&second))) {
        first_difference(nf_buf_str(&first), nf_buf_str(&second), where, sizeof where);
        fail(r, 0, "the canonical form is no fixed point: %s", where);
    }
    nf_buf_done(&first);
    nf_buf_done(&second);
    nf_arena_free(arena);
}

/* Whether the section asks for an evaluation: a check operation, or a custom call of one. */
static bool has_checks(const struct hlo_module *m)
{
    struct hlo_walk w = hlo_walk_of(m->op);
    for (struct hlo_op *op; (op = hlo_walk_next(&w));) {
        if (hlo_op_info((enum hlo_op_id)op->id)->dialect == HLO_DIALECT_CHECK)
            return true;
        if (op->id == HLO_OP_CUSTOM_CALL && nf_str_starts(hlo_op_string(op, HLO_A_call_target_name), NF_STR("check.")))
            return true;
    }
    return false;
}

struct judge {
    const struct hlo_module *m;
    struct case_result *r;
};

static int on_check(void *user, const struct hlo_eval_check *check)
{
    struct judge *j = user;
    uint32_t line, col;
    j->r->checks++;
    if (!check->passed && j->r->verdict == VERDICT_PASS) {
        struct nf_str name = hlo_op_name(check->op);
        hlo_pos_line(j->m, check->op->pos, &line, &col);
        fail(j->r, line, "%.*s: %s", NF_STR_ARG(name), check->message);
    }
    return NF_OK;
}

/* @main, else every function without arguments; at least one check must run, and all must hold. */
static void evaluate(const struct case_input *in, const struct hlo_module *m, struct case_result *r)
{
    struct judge j = {m, r};
    struct hlo_eval_hooks hooks = {.user = &j, .check = on_check};
    struct hlo_eval_options o = HLO_EVAL_OPTIONS_INIT;
    struct hlo_eval *e;
    struct nf_error err = {0};
    o.hooks = &hooks;
    o.deadline_ns = in->time_limit_s > 0 ? nf_now_ns() + (int64_t)(in->time_limit_s * 1e9) : 0;
    if (hlo_eval_new(m, &o, &e, &err)) {
        fail(r, error_line(&err), "%s", err.message);
        return;
    }
    struct hlo_op *only = hlo_module_func(m, NF_STR("main"));
    HLO_FOR_OPS(op, hlo_module_block(m)) {
        if (op->id != HLO_OP_FUNC || (only && op != only) || !hlo_func_block(op))
            continue;
        struct nf_str name = hlo_func_name(op);
        size_t n = hlo_eval_num_outputs(e, name);
        if (hlo_eval_num_inputs(e, name))
            continue;
        struct rt_array *out = nf_alloc_array(n + 1, sizeof *out);
        int rc = hlo_eval_run(e, name, NULL, 0, out, n, &err);
        for (size_t i = 0; i < n && !rc; i++)
            rt_array_done(&out[i]);
        free(out);
        if (rc && r->verdict == VERDICT_PASS)
            fail(r, error_line(&err), "%s", err.message);
    }
    hlo_eval_free(e);
    if (r->verdict == VERDICT_PASS && !r->checks)
        fail(r, in->first_line, "no check ran");
}

/* The same on target cpu: every function is taken from a module of its own, because checking changes it. What only a dynamic shape
 * could hold is skipped. */
static void evaluate_native(const struct case_input *in, const struct hlo_module *m, struct case_result *r)
{
    struct hlo_op *only = hlo_module_func(m, NF_STR("main"));
    HLO_FOR_OPS(op, hlo_module_block(m)) {
        if (op->id != HLO_OP_FUNC || (only && op != only) || !hlo_func_block(op) || hlo_func_block(op)->num_args || r->verdict != VERDICT_PASS)
            continue;
        struct nf_arena *arena = nf_arena_new(0);
        struct hlo_module *copy;
        struct nf_error err = {0};
        struct judge j = {m, r};
        struct hlo_eval_hooks hooks = {.user = &j, .check = on_check};
        int rc = hlo_parse_section(in->text, in->first_line, NULL, arena, &copy, &err);
        if (!rc)
            rc = neffopt_native(copy, hlo_func_name(op), &hooks, in->time_limit_s, &err);
        if (rc == NF_EUNSUPPORTED && strstr(err.message, "known only at run time")) {
            r->verdict = VERDICT_SKIP;
            (void)nf_format(r->reason, sizeof r->reason, "%s", err.message);
        } else if (rc && r->verdict == VERDICT_PASS) {
            fail(r, error_line(&err), "%s", err.message);
        }
        nf_arena_free(arena);
    }
    if (r->verdict == VERDICT_PASS && !r->checks)
        fail(r, in->first_line, "no check ran");
}

void neffopt_case(const struct case_input *in, struct case_result *r)
{
    struct expectations e = {.n = 0};
    struct nf_error err = {0};
    struct hlo_module *m = NULL;
    *r = (struct case_result){.verdict = VERDICT_PASS};
    find_expectations(in->text, in->first_line, &e);
    struct nf_arena *arena = nf_arena_new(0);
    int rc = hlo_parse_section(in->text, in->first_line, NULL, arena, &m, &err);
    if (!rc)
        rc = hlo_verify(m, &err);
    if (e.n) {
        rejected(in, &e, rc, &err, r);
    } else if (rc) {
        fail(r, error_line(&err), "%s", err.message);
    } else {
        if (has_checks(m)) {
            if (in->cpu)
                evaluate_native(in, m, r);
            else
                evaluate(in, m, r);
        }
        if (r->verdict == VERDICT_PASS)
            fixed_point(m, r);
        if (r->verdict == VERDICT_PASS)
            canonical_point(m, r);
    }
    nf_arena_free(arena);
}

/* The canonical print of a module, so that spelling does not matter. */
static int canonical_of(struct hlo_module *m, struct nf_buf *out, struct nf_error *err)
{
    int rc = hlo_verify(m, err);
    if (!rc)
        rc = hlo_canonicalise(m, err);
    return rc ? rc : hlo_print_canonical(m, out, NULL);
}

void neffopt_case_bytecode(const char *path, struct case_result *r)
{
    struct nf_buf bytes = NF_BUF_INIT, text = NF_BUF_INIT, a = NF_BUF_INIT, b = NF_BUF_INIT, back = NF_BUF_INIT;
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m = NULL, *beside = NULL;
    struct nf_error err = {0};
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    bool invalid = strncmp(base, "invalid_", 8) == 0;
    *r = (struct case_result){.verdict = VERDICT_PASS};
    int rc = nf_file_read(path, UINT32_MAX, &bytes, &err);
    if (!rc)
        rc = hlo_bytecode_read(nf_buf_str(&bytes), NULL, arena, &m, &err);
    if (!rc)
        rc = hlo_verify(m, &err);
    if (invalid) {
        if (!rc)
            fail(r, 0, "accepted, but it must be rejected");
        goto out;
    }
    if (rc == NF_EUNSUPPORTED && strstr(err.message, "bytecode format")) {
        r->verdict = VERDICT_SKIP; /* before 0.15: the format that is read begins there */
        nf_format(r->reason, sizeof r->reason, "%s", err.message);
        goto out;
    }
    if (rc) {
        fail(r, 0, "%s (%s)", err.message, err.location);
        goto out;
    }
    /* written again by us, it reads to the same program */
    if (!hlo_print(m, HLO_GENERIC, &a)) {
        struct hlo_module *again_m = NULL;
        if (hlo_bytecode_write(m, NULL, true, &back, &err) || hlo_bytecode_read(nf_buf_str(&back), NULL, arena, &again_m, &err) || hlo_print(again_m, HLO_GENERIC, &b))
            fail(r, 0, "written again: %s (%s)", err.message, err.location);
        else if (!nf_str_eq(nf_buf_str(&a), nf_buf_str(&b)))
            first_difference(nf_buf_str(&a), nf_buf_str(&b), r->reason, sizeof r->reason), r->verdict = VERDICT_FAIL;
        if (r->verdict == VERDICT_FAIL)
            goto out;
    }
    /* X.bc.mlir is exactly what X.mlir.bc, X.debug.mlir.bc and X.v1_2_3.mlir.bc hold, where it stands there; else the text of the same name */
    const char *first_dot = strchr(base, '.');
    char *text_path = nf_asprintf("%.*s.bc.mlir", (int)(first_dot - path), path);
    if (access(text_path, R_OK) != 0) {
        free(text_path);
        text_path = nf_strndup(path, strlen(path) - 3);
    }
    bool has_text = access(text_path, R_OK) == 0;
    if (has_text && nf_file_read(text_path, UINT32_MAX, &text, &err)) {
        fail(r, 0, "%s", err.message);
    } else if (has_text) {
        nf_buf_clear(&a);
        nf_buf_clear(&b);
        if (hlo_parse(nf_buf_str(&text), NULL, arena, &beside, &err) || canonical_of(beside, &b, &err))
            fail(r, 0, "the text beside it: %s (%s)", err.message, err.location);
        else if (canonical_of(m, &a, &err))
            fail(r, 0, "%s (%s)", err.message, err.location);
        else if (!nf_str_eq(nf_buf_str(&a), nf_buf_str(&b)))
            first_difference(nf_buf_str(&b), nf_buf_str(&a), r->reason, sizeof r->reason), r->verdict = VERDICT_FAIL;
    }
    free(text_path);
out:
    nf_buf_done(&bytes);
    nf_buf_done(&text);
    nf_buf_done(&a);
    nf_buf_done(&b);
    nf_buf_done(&back);
    nf_arena_free(arena);
}

void neffopt_case_hlo(const char *path, struct case_result *r)
{
    struct nf_buf bytes = NF_BUF_INIT, a = NF_BUF_INIT, b = NF_BUF_INIT, written = NF_BUF_INIT;
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m = NULL, *back = NULL;
    struct nf_error err = {0};
    *r = (struct case_result){.verdict = VERDICT_PASS};
    if (nf_file_read(path, UINT32_MAX, &bytes, &err) || hlo_proto_read(nf_buf_str(&bytes), NULL, arena, &m, &err) || hlo_verify(m, &err))
        fail(r, 0, "%s (%s)", err.message, err.location);
    else if (hlo_proto_write(m, &written, &err) || hlo_proto_read(nf_buf_str(&written), NULL, arena, &back, &err))
        fail(r, 0, "written again: %s (%s)", err.message, err.location);
    else if (canonical_of(m, &a, &err) || canonical_of(back, &b, &err))
        fail(r, 0, "no canonical form: %s (%s)", err.message, err.location);
    else if (!nf_str_eq(nf_buf_str(&a), nf_buf_str(&b)))
        first_difference(nf_buf_str(&a), nf_buf_str(&b), r->reason, sizeof r->reason), r->verdict = VERDICT_FAIL;
    nf_buf_done(&bytes);
    nf_buf_done(&a);
    nf_buf_done(&b);
    nf_buf_done(&written);
    nf_arena_free(arena);
}
