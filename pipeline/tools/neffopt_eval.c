/* neffopt_eval.c: neffopt FILE --eval: runs a program on the reference evaluator, with arrays from and to .npy files.
 *
 *   inputs DIR     00.npy, 01.npy, ... in argument order; without it the function must take none
 *   expected DIR   the same for results; each must be within its tolerance: rtol and atol of manifest.json beside the folder or
 *                  in it, else by element type
 *   output DIR     where to write the results
 *   A program of several replicas runs once per replica, all at once: files as the manifest's device_files say, or NN.D.npy.
 * Checks inside the program must hold, too. */
#include "base/clock.h"
#include "base/file.h"
#include "pipeline/hlo/eval.h"
#include "pipeline/tools/neffopt.h"
#include "runtime/compare.h"
#include "runtime/npy.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- manifest.json: just enough of JSON to walk into it; what is not well-formed is as if it were not there ---- */

static void skip_space(struct nf_str *s)
{
    while (s->len && strchr(" \t\r\n", s->data[0]))
        s->data++, s->len--;
}

/* The value at the front of *s (as text), cut off it. Nesting is counted, not recursed. */
static struct nf_str json_value(struct nf_str *s)
{
    skip_space(s);
    struct nf_str v = {s->data, 0};
    size_t depth = 0;
    bool string = false;
    while (v.len < s->len) {
        char c = s->data[v.len];
        if (string) {
            v.len += c == '\\' && v.len + 1 < s->len;
            string = c != '"';
        } else if (c == '"') {
            string = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                break;
            depth--;
        } else if (depth == 0 && (c == ',' || c == ':')) {
            break;
        }
        v.len++;
    }
    s->data += v.len;
    s->len -= v.len;
    return nf_str_trim(v);
}

static struct nf_str json_inside(struct nf_str v)
{
    return v.len >= 2 ? nf_str_n(v.data + 1, v.len - 2) : (struct nf_str){NULL, 0};
}

static bool json_take(struct nf_str *s, char c)
{
    skip_space(s);
    if (!s->len || s->data[0] != c)
        return false;
    s->data++, s->len--;
    return true;
}

/* object["key"]; empty when it is not there */
static struct nf_str json_member(struct nf_str object, const char *key)
{
    struct nf_str s = object.len && object.data[0] == '{' ? json_inside(object) : (struct nf_str){NULL, 0};
    while (s.len) {
        struct nf_str k = json_value(&s);
        if (!json_take(&s, ':'))
            break;
        struct nf_str v = json_value(&s);
        if (nf_str_eq(json_inside(k), nf_str_c(key)))
            return v;
        if (!json_take(&s, ','))
            break;
    }
    return (struct nf_str){NULL, 0};
}

static struct nf_str json_item(struct nf_str list, size_t i)
{
    struct nf_str s = list.len && list.data[0] == '[' ? json_inside(list) : (struct nf_str){NULL, 0};
    while (s.len) {
        struct nf_str v = json_value(&s);
        if (i-- == 0)
            return v;
        if (!json_take(&s, ','))
            break;
    }
    return (struct nf_str){NULL, 0};
}

struct place {
    const char *dir;
    const char *list;           /* of the manifest: "inputs" or "outputs" */
    struct nf_str manifest;
    unsigned devices;
};

static char *file_of(const struct place *p, size_t i, unsigned device)
{
    if (p->devices > 1) {
        struct nf_str name = json_inside(json_item(json_member(json_item(json_member(p->manifest, p->list), i), "device_files"), device));
        if (name.len && name.len < 200) {
            while (memchr(name.data, '/', name.len))
                (void)nf_str_cut(&name, '/');
            return nf_asprintf("%s/%.*s", p->dir, NF_STR_ARG(name));
        }
        return nf_asprintf("%s/%02zu.%u.npy", p->dir, i, device);
    }
    return nf_asprintf("%s/%02zu.npy", p->dir, i);
}

static void find_manifest(const char *dir, struct nf_buf *out)
{
    for (int up = 1; up >= 0 && dir && !out->len; up--) {
        char *path = nf_asprintf(up ? "%s/../manifest.json" : "%s/manifest.json", dir);
        struct nf_error ignored;
        (void)nf_file_read(path, (size_t)64 << 20, out, &ignored);
        free(path);
    }
}

static void tolerance(const struct place *p, size_t i, enum nf_dtype dt, double *rel_tol, double *abs_tol)
{
    struct nf_str item = json_item(json_member(p->manifest, "outputs"), i);
    enum nf_dtype part = nf_dtype_part(dt);
    const struct nf_float_format *f = nf_dtype_float_format(part);
    *rel_tol = !nf_dtype_is_float(part) ? 0 : part == NF_DT_F64 ? 1e-9 : part == NF_DT_F32 ? 1e-4 : 4.0 / (double)(1u << f->man_bits);
    *abs_tol = *rel_tol / 10;
    (void)nf_str_to_double(json_member(item, "rtol"), rel_tol);
    (void)nf_str_to_double(json_member(item, "atol"), abs_tol);
}

struct tally {
    uint64_t checks;
    FILE *out;
};

static int on_check(void *user, const struct hlo_eval_check *check)
{
    ((struct tally *)user)->checks++;
    (void)check;
    return NF_OK;
}

static void on_print(void *user, struct nf_str text) { fwrite(text.data, 1, text.len, ((struct tally *)user)->out); }

/* Without --expected and --output: the results as text, the first elements of each. */
static void show(const struct rt_array *a, size_t number)
{
    struct nf_buf b = NF_BUF_INIT;
    size_t w = nf_dtype_bytes(a->dtype), part = nf_dtype_bytes(nf_dtype_part(a->dtype)), count = w ? a->bytes / w : 0;
    nf_buf_addf(&b, "output %zu: ", number);
    rt_shape_print(a->dtype, a->rank, a->dims, &b);
    for (size_t i = 0; i < NF_MIN(count, (size_t)16); i++)
        for (size_t p = 0; p < w; p += part)
            nf_buf_addf(&b, nf_dtype_is_float(nf_dtype_part(a->dtype)) ? "%s%.9g" : "%s%.0f", p ? "+i" : " ",
                nf_elem_to_double(nf_dtype_part(a->dtype), (const char *)a->data + i * w + p));
    printf("%s%s\n", b.data ? b.data : "", count > 16 ? " ..." : "");
    nf_buf_done(&b);
}

static int compare_all(const struct place *p, const struct rt_array *out, size_t n_out, struct nf_error *err)
{
    int rc = NF_OK;
    for (unsigned d = 0; d < p->devices; d++)
        for (size_t i = 0; i < n_out; i++) {
            const struct rt_array *a = &out[d * n_out + i];
            char *path = file_of(p, i, d);
            struct rt_array want;
            struct rt_difference diff;
            struct nf_error why = {0};
            double rel_tol, abs_tol;
            int one = rt_npy_read(path, a->dtype, 0, &want, &why);
            if (!one) {
                tolerance(p, i, a->dtype, &rel_tol, &abs_tol);
                one = rt_compare(a, &want, rel_tol, abs_tol, &diff, &why);
                printf("output %zu%s%.0u: %s, max_abs %.3g, max_rel %.3g, mismatched %lld\n", i, d ? " of device " : "", d, one ? "differs" : "ok",
                    diff.max_abs, diff.max_rel, (long long)diff.mismatched);
                rt_array_done(&want);
            }
            if (one && !rc) {
                rc = one;
                *err = why;
                nf_error_prefix(err, "output %zu (%s)", i, path);
            }
            free(path);
        }
    return rc;
}

int neffopt_eval(const struct hlo_module *m, const struct eval_options *o, struct nf_error *err)
{
    struct tally t = {.out = stdout};
    struct hlo_eval_hooks hooks = {.user = &t, .check = on_check, .print = on_print};
    struct hlo_eval_options options = HLO_EVAL_OPTIONS_INIT;
    struct hlo_eval *e = NULL;
    struct nf_buf manifest = NF_BUF_INIT;
    options.hooks = &hooks;
    options.deadline_ns = o->time_limit_s > 0 ? nf_now_ns() + (int64_t)(o->time_limit_s * 1e9) : 0;
    int rc = hlo_eval_new(m, &options, &e, err);
    if (rc)
        return rc;
    struct nf_str name = nf_str_c(o->function ? o->function : "");
    const struct hlo_op *func = name.len ? hlo_module_func(m, name) : hlo_module_entry(m);
    const struct hlo_attr *replicas = hlo_op_discardable(m->op, NF_STR("mhlo.num_replicas"));
    unsigned devices = replicas && replicas->kind == HLO_ATTR_INT && replicas->i > 0 && replicas->i <= 1024 ? (unsigned)replicas->i : 1;
    size_t n_in = hlo_eval_num_inputs(e, name), n_out = hlo_eval_num_outputs(e, name);
    struct rt_array *in = nf_alloc_array(n_in * devices + 1, sizeof(*in)), *out = nf_alloc_array(n_out * devices + 1, sizeof(*out));
    bool ran = false;
    find_manifest(o->inputs ? o->inputs : o->expected, &manifest);
    struct place inputs = {o->inputs, "inputs", nf_str_trim(nf_buf_str(&manifest)), devices};
    struct place expected = {o->expected, "outputs", nf_str_trim(nf_buf_str(&manifest)), devices}, output = {o->output, "outputs", {NULL, 0}, devices};
    if (!func || !hlo_func_block(func))
        rc = nf_fail(err, NF_ENOTFOUND, "there is no function @%s with a body", name.len ? o->function : "main");
    else if (n_in && !o->inputs)
        rc = nf_fail(err, NF_EINVAL, "the function takes %zu inputs: give --inputs DIR", n_in);
    for (unsigned d = 0; d < devices && !rc; d++)
        for (size_t i = 0; i < n_in && !rc; i++) {
            char *path = file_of(&inputs, i, d);
            rc = rt_npy_read(path, hlo_eval_dtype(hlo_func_type(func)->types[i]), 0, &in[d * n_in + i], err);
            free(path);
        }
    int64_t t0 = nf_now_ns();
    if (!rc) {
        rc = hlo_eval_run_grid(e, name, devices, 1, in, n_in, out, n_out, err);
        ran = !rc;
    }
    if (o->stats) {
        struct hlo_eval_stats s = hlo_eval_stats(e);
        fprintf(stderr, "neffopt: evaluated %llu operations, %llu checks, in %.2f ms, at most %zu bytes of arrays\n", (unsigned long long)s.ops,
            (unsigned long long)s.checks, (double)(nf_now_ns() - t0) / 1e6, s.peak_bytes);
    }
    for (unsigned d = 0; d < devices && !rc && o->output; d++)
        for (size_t i = 0; i < n_out && !rc; i++) {
            if ((rc = nf_mkdir_p(o->output, 0777, err)))
                break;
            char *path = file_of(&output, i, d);
            rc = rt_npy_write(path, &out[d * n_out + i], err);
            free(path);
        }
    for (size_t i = 0; i < n_out * devices && !rc && !o->output && !o->expected; i++)
        show(&out[i], i);
    if (!rc && o->expected)
        rc = compare_all(&expected, out, n_out, err);
    for (size_t i = 0; i < n_in * devices; i++)
        rt_array_done(&in[i]);
    for (size_t i = 0; i < n_out * devices && ran; i++)
        rt_array_done(&out[i]);
    free(in);
    free(out);
    nf_buf_done(&manifest);
    hlo_eval_free(e);
    return rc;
}
