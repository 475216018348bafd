/* run.c: executes a graph or an artifact, compares its results and times it.
 *
 *     artifact: a NEFF file as it is, a key from the cache, anything else compiled (or a hit)
 *     devices:  one, or as many as the inputs' NN.D.npy or the manifest's device_files say; each has its program and thread
 *     a tolerance: --rtol/--atol, else manifest.json beside the expected files, else by element type */
#include "client/ctl/ctl.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/file.h"
#include "client/ctl/request.h"
#include "client/wire.h"
#include "runtime/cpu/cpu.h"
#include "runtime/compare.h"
#include "runtime/neff.h"
#include "runtime/npy.h"

#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

const struct ctl_option ctl_options_run[] = {
    {"inputs", 0, "DIR", "dir", "arguments as DIR/00.npy, 01.npy, ... (several devices: NN.D.npy)"},
    {"expected", 0, "DIR", "dir", "compare the results with DIR/00.npy, ..."},
    {"rtol", 0, "R", NULL, "relative tolerance (else manifest.json's, else by element type)"},
    {"atol", 0, "A", NULL, "absolute tolerance"},
    {"output", 'o', "DIR", "dir", "write the results there"},
    {"repeat", 0, "N", NULL, "execute N times and say the median"},
    {"random", 0, "SEED", NULL, "random arguments"},
    {"threads", 0, "N", NULL, "threads of the cpu device"},
    {"profile", 0, "[FILE]", "file", "time and bytes by step: a table on stderr, with FILE also a Chrome trace there"},
    {"device", 0, "D", NULL, "cpu, evaluator, neuron:0 ... (else what the artifact is for)"},
    {"target", 0, "T", "cpu trn1 trn1n trn2 trn3 inf2", "what to compile for"},
    {"option", 'O', "NAME=VALUE", NULL, "an option of the compiler"},
    {"name", 0, "N", NULL, "name for people"},
    {"namespace", 0, "N", NULL, "cache namespace"},
    {"input-kind", 0, "K", "stablehlo_text stablehlo_bytecode hlo_proto fx_graph", "what FILE is (else told from its bytes)"},
    {"timeout", 0, "S", NULL, "give up the compile after S seconds"},
    {"ignore-cache", 0, NULL, NULL, "compile even if there is an entry"},
    {"cache-only", 0, NULL, NULL, "never compile"},
    {"start", 0, NULL, NULL, "start a daemon if none answers and a compile is needed"},
    {0},
};

enum { DEVICES_MAX = 1024, TENSORS_MAX = 65536 };
#define ARRAY_LIMIT ((size_t)1 << 38)

struct device_run {
    struct run *run;
    neffd_program *program;
    struct rt_array *inputs, *outputs;     /* dense, as in the files */
    void **in, **out;                      /* what the program gets */
    int64_t took_ns;
    neffd_error err;
    int rc;
    pthread_t thread;
    bool started;
};

struct result {
    double max_abs, max_rel;
    int64_t mismatched;
    bool compared;
};

struct run {
    struct ctl *c;
    const char *inputs_dir, *expected_dir, *output_dir;
    struct json_object *manifest;          /* NULL: none */
    char *manifest_dir;
    size_t devices, input_count, output_count;
    const neffd_tensor_desc *input_descs, *output_descs;
    struct device_run *dev;
    struct result *results;
    struct cl_answer answer;
    neffd_artifact *file_artifact;
    bool asked;                       /* for the artifact of a graph; else it was given, by file or key */
    int64_t load_ns, first_ns, median_ns, min_ns;
    double rel_tol, abs_tol;                     /* < 0: not given */
};

/* -------------------------------------------------------------------------------------------------------------- manifest */

static struct json_object *read_json(const char *path)
{
    struct nf_buf b = NF_BUF_INIT;
    struct json_object *o = NULL;
    if (nf_file_read(path, (size_t)64 << 20, &b, NULL) == NF_OK && b.len)
        o = json_tokener_parse(b.data);
    nf_buf_done(&b);
    return o && json_object_is_type(o, json_type_object) ? o : (json_object_put(o), NULL);
}

/* DIR/../manifest.json or DIR/manifest.json. */
static void find_manifest(struct run *r, const char *dir)
{
    if (!dir || r->manifest)
        return;
    for (size_t i = 0; i < 2 && !r->manifest; i++) {
        char *folder = i == 0 ? nf_asprintf("%s/..", dir) : nf_strdup(dir);
        char *path = nf_asprintf("%s/manifest.json", folder);
        r->manifest = read_json(path);
        if (r->manifest)
            r->manifest_dir = folder;
        else
            free(folder);
        free(path);
    }
}

/* list[i] of the manifest, or NULL. */
static struct json_object *manifest_item(const struct run *r, const char *list, size_t i)
{
    struct json_object *l, *item;
    if (!r->manifest || !json_object_object_get_ex(r->manifest, list, &l) || !json_object_is_type(l, json_type_array) || i >= json_object_array_length(l))
        return NULL;
    item = json_object_array_get_idx(l, i);
    return item && json_object_is_type(item, json_type_object) ? item : NULL;
}

static const char *item_name(const struct run *r, const char *list, size_t i)
{
    struct json_object *item = manifest_item(r, list, i), *name;
    return item && json_object_object_get_ex(item, "name", &name) ? json_object_get_string(name) : "";
}

/* device_files[d] relative to the manifest, where its last component stands in dir; else NULL. */
static char *device_file(const struct run *r, const char *list, const char *dir, size_t i, size_t d)
{
    struct json_object *item = manifest_item(r, list, i), *files, *f;
    if (!item || !json_object_object_get_ex(item, "device_files", &files) || !json_object_is_type(files, json_type_array) ||
        d >= json_object_array_length(files) || !(f = json_object_array_get_idx(files, d)) || !json_object_is_type(f, json_type_string))
        return NULL;
    const char *name = json_object_get_string(f), *slash = strrchr(name, '/');
    return nf_asprintf("%s/%s", dir, slash ? slash + 1 : name);
}

/* The file of tensor i on device d: the manifest's, NN.D.npy, or NN.npy that all devices share. */
static char *tensor_file(const struct run *r, const char *list, const char *dir, size_t i, size_t d)
{
    if (r->devices > 1) {
        char *path = device_file(r, list, dir, i, d);
        if (path && access(path, F_OK) == 0)
            return path;
        free(path);
        path = nf_asprintf("%s/%02zu.%zu.npy", dir, i, d);
        if (access(path, F_OK) == 0)
            return path;
        free(path);
    }
    return nf_asprintf("%s/%02zu.npy", dir, i);
}

/* The file of a tensor that the program does not have, or NULL: the directory is another program's. */
static char *one_more(const struct run *r, const char *list, const char *dir, size_t count)
{
    char *path = tensor_file(r, list, dir, count, 0);
    if (access(path, F_OK) == 0)
        return path;
    free(path);
    return NULL;
}

/* Whether list[i]'s `field` is the tensor's shape. */
static bool manifest_shape_is(const struct run *r, const char *list, size_t i, const char *field, const struct rt_tensor *t)
{
    struct json_object *item = manifest_item(r, list, i), *shape;
    if (!item || !json_object_object_get_ex(item, field, &shape) || !json_object_is_type(shape, json_type_array) ||
        json_object_array_length(shape) != t->rank)
        return false;
    for (size_t k = 0; k < t->rank; k++)
        if (json_object_get_int64(json_object_array_get_idx(shape, k)) != t->dims[k])
            return false;
    return true;
}

/* A program of several partitions may take the whole arrays (it shards them itself): then it is one program on one device. What cannot be read
 * is said when it is loaded. */
static bool takes_whole_arrays(const struct run *r, neffd_artifact *artifact)
{
    const void *data;
    neffd_error ignored;
    struct neff *neff;
    const struct rt_tensor *in;
    bool whole = false;
    if (neffd_artifact_map(artifact, &data, &ignored) < 0 || neff_open(nf_str_n(data, neffd_artifact_bytes(artifact)), &neff, NULL) != NF_OK)
        return false;
    size_t n = neff_inputs(neff, &in);
    for (size_t i = 0; i < n && !whole; i++) {
        struct json_object *item = manifest_item(r, "inputs", i), *file;
        whole = item && json_object_object_get_ex(item, "file", &file) && manifest_shape_is(r, "inputs", i, "shape", &in[i]) &&
                !manifest_shape_is(r, "inputs", i, "device_shape", &in[i]);
    }
    neff_close(neff);
    return whole;
}

static size_t count_devices(const struct run *r)
{
    size_t n = 0;
    const char *dirs[] = {r->inputs_dir, r->expected_dir};
    for (size_t k = 0; k < 2; k++) {
        if (!dirs[k])
            continue;
        for (size_t d = 0; d < DEVICES_MAX; d++) {
            char *path = nf_asprintf("%s/00.%zu.npy", dirs[k], d);
            bool there = access(path, F_OK) == 0;
            free(path);
            if (!there)
                break;
            n = NF_MAX(n, d + 1);
        }
        struct json_object *item = manifest_item(r, k ? "outputs" : "inputs", 0), *files;
        if (item && json_object_object_get_ex(item, "device_files", &files) && json_object_is_type(files, json_type_array))
            n = NF_MAX(n, NF_MIN(json_object_array_length(files), (size_t)DEVICES_MAX));
    }
    return n ? n : 1;
}

/* ----------------------------------------------------------------------------------------------------------------- arrays */

static int desc_array(const neffd_tensor_desc *desc, struct rt_array *ret_array, struct nf_error *err)
{
    enum nf_dtype dtype = nf_dtype_from_name(nf_str_c(desc->dtype));
    if (dtype == NF_DT_NONE)
        return nf_fail(err, NF_EUNSUPPORTED, "tensors of type %s cannot be run from here", desc->dtype);
    if (desc->rank > RT_ARRAY_RANK_MAX)
        return nf_fail(err, NF_EUNSUPPORTED, "tensors of rank %zu cannot be run from here", desc->rank);
    return rt_array_alloc(dtype, (int)desc->rank, desc->dims, ARRAY_LIMIT, ret_array, err);
}

/* Between a dense array and the program's layout. */
static void copy_strided(const neffd_tensor_desc *desc, char *dense, char *strided, size_t width, bool to_strided)
{
    int64_t index[RT_ARRAY_RANK_MAX] = {0};
    size_t count = 1;
    for (size_t k = 0; k < desc->rank; k++)
        count *= (size_t)desc->dims[k];
    for (size_t n = 0; n < count; n++) {
        int64_t at = 0;
        for (size_t k = 0; k < desc->rank; k++)
            at += index[k] * desc->strides[k];
        if (to_strided)
            memcpy(strided + (size_t)at * width, dense + n * width, width);
        else
            memcpy(dense + n * width, strided + (size_t)at * width, width);
        for (size_t k = desc->rank; k-- > 0;) {
            if (++index[k] < desc->dims[k])
                break;
            index[k] = 0;
        }
    }
}

/* The program's buffer: the array's own memory where the layouts agree. */
static int program_buffer(const neffd_tensor_desc *desc, struct rt_array *a, bool fill, void **ret_buffer, struct nf_error *err)
{
    if (!desc->strides && desc->bytes <= a->bytes) {
        *ret_buffer = a->data;
        return NF_OK;
    }
    void *p = NULL;
    if (posix_memalign(&p, 64, desc->bytes ? desc->bytes : 1) != 0)
        return nf_fail(err, NF_ENOMEM, "no memory for a tensor of %zu bytes", desc->bytes);
    memset(p, 0, desc->bytes);
    if (fill && desc->strides)
        copy_strided(desc, a->data, p, nf_dtype_bytes(a->dtype), true);
    else if (fill)
        memcpy(p, a->data, NF_MIN(a->bytes, desc->bytes));
    *ret_buffer = p;
    return NF_OK;
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* Floats in [-1, 1), integers in [0, 8), booleans. The same for one seed everywhere. */
static void fill_random(struct rt_array *a, uint64_t *state)
{
    enum nf_dtype part = nf_dtype_part(a->dtype);
    size_t width = nf_dtype_bytes(part), n = width ? a->bytes / width : 0;
    char *at = a->data;
    for (size_t i = 0; i < n; i++, at += width) {
        uint64_t bits = next_random(state);
        double v = (double)(bits >> 11) / (double)(1ull << 52) - 1.0;
        if (part == NF_DT_F64) {
            memcpy(at, &v, 8);
        } else if (part == NF_DT_F32) {
            float f = (float)v;
            memcpy(at, &f, 4);
        } else if (nf_dtype_is_float(part)) {
            uint16_t small = nf_small_from_double(part, v);
            memcpy(at, &small, width); /* little-endian: the low byte for 8-bit types */
        } else {
            uint64_t small = nf_dtype_class(part) == NF_DTC_BOOL ? bits >> 63 : nf_dtype_bits(part) < 4 ? bits >> 63 : bits >> 61;
            memcpy(at, &small, width);
        }
    }
}

static int read_tensor(const char *path, const char *what, size_t i, const neffd_tensor_desc *desc, struct rt_array *ret_array, struct nf_error *err)
{
    struct nf_buf want = NF_BUF_INIT, got = NF_BUF_INIT;
    int64_t dims[RT_ARRAY_RANK_MAX];
    enum nf_dtype dtype = nf_dtype_from_name(nf_str_c(desc->dtype));
    if (dtype == NF_DT_NONE || desc->rank > RT_ARRAY_RANK_MAX)
        return nf_fail(err, NF_EUNSUPPORTED, "%s %zu: tensors of type %s and rank %zu cannot be run from here", what, i, desc->dtype, desc->rank);
    int r = ctl_wrong_path(path, rt_npy_read(path, dtype, ARRAY_LIMIT, ret_array, err), err);
    if (r < 0) {
        nf_error_file(err, path);
        nf_error_prefix(err, "%s %zu", what, i);
        return r;
    }
    bool same = ret_array->dtype == dtype && (size_t)ret_array->rank == desc->rank;
    for (size_t k = 0; k < desc->rank; k++) {
        dims[k] = desc->dims[k];
        same = same && ret_array->dims[k] == desc->dims[k];
    }
    if (!same) {
        rt_shape_print(dtype, (int)desc->rank, dims, &want);
        rt_shape_print(ret_array->dtype, ret_array->rank, ret_array->dims, &got);
        nf_fail(err, NF_EINVAL, "%s %zu is %s, but %s holds %s", what, i, want.data, path, got.data);
        rt_array_done(ret_array);
        nf_buf_done(&want);
        nf_buf_done(&got);
        return NF_EINVAL;
    }
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------------------ preparation */

static bool is_neff(struct nf_str bytes)
{
    uint64_t version, header;
    if (bytes.len < 16)
        return false;
    memcpy(&version, bytes.data, 8);
    memcpy(&header, bytes.data + 8, 8);
    return version >= 1 && version < 256 && header == NEFF_HEADER_BYTES;
}

/* A damaged file was given; nothing of ours is damaged. */
static int wrong_neff(const char *path, int rc, struct nf_error *err)
{
    if (rc != NF_ECORRUPT)
        return rc;
    err->code = NF_EINVAL;
    nf_error_hint(err, "neffctl neff check %s says more; compile the graph again", path);
    return NF_EINVAL;
}

static int get_artifact(struct run *r, struct ctl_request *q, neffd_client *client, neffd_artifact **ret_artifact, const Neffd__V1__Error **ret_failed,
    struct nf_error *err)
{
    struct nf_digest key;
    int rc;
    const char *arg = r->c->args[0];
    if (ctl_is_key(arg, &key) && access(arg, F_OK) != 0) {
        rc = ctl_lookup_key(r->c, &key, &r->answer, err);
        if (rc >= 0 && !r->answer.artifact)
            rc = nf_fail(err, NF_ENOTFOUND, "there is no entry %s", arg);
    } else {
        rc = ctl_request_init(r->c, arg, q, err);
        if (rc < 0)
            return rc;
        if (is_neff(nf_buf_str(&q->graph))) {
            rc = wrong_neff(arg, cl_artifact_of_file(arg, nf_buf_str(&q->graph), &r->file_artifact, err), err);
            *ret_artifact = r->file_artifact;
            return rc;
        }
        q->fraction = -1;
        r->asked = true;
        rc = cl_ask(client, &q->request, CL_COMPILE, &r->answer, err);
        ctl_bar_clear(r->c);
        *ret_failed = r->answer.failed;
        if (rc >= 0 && r->answer.done->outcome == NEFFD__V1__OUTCOME__OUTCOME_MISS) {
            struct nf_buf line = NF_BUF_INIT;
            cl_explanation_line(r->answer.done->explanation, 8, &line);
            rc = nf_fail(err, NF_ENOTFOUND, "%s is not in the cache; %s", arg, line.data);
            nf_buf_done(&line);
        }
    }
    if (rc >= 0)
        *ret_artifact = r->answer.artifact;
    return rc;
}

static int prepare_device(struct run *r, size_t d, uint64_t seed, bool random, struct nf_error *err)
{
    struct device_run *v = &r->dev[d];
    int rc;
    uint64_t state = seed * 1000003 + d;
    v->inputs = nf_alloc_array(r->input_count + 1, sizeof(*v->inputs));
    v->outputs = nf_alloc_array(r->output_count + 1, sizeof(*v->outputs));
    v->in = nf_alloc_array(r->input_count + 1, sizeof(*v->in));
    v->out = nf_alloc_array(r->output_count + 1, sizeof(*v->out));
    for (size_t i = 0; i < r->input_count; i++) {
        if (random) {
            rc = desc_array(&r->input_descs[i], &v->inputs[i], err);
            if (rc >= 0)
                fill_random(&v->inputs[i], &state);
        } else {
            char *path = tensor_file(r, "inputs", r->inputs_dir, i, d);
            rc = read_tensor(path, "argument", i, &r->input_descs[i], &v->inputs[i], err);
            free(path);
        }
        if (rc >= 0)
            rc = program_buffer(&r->input_descs[i], &v->inputs[i], true, &v->in[i], err);
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < r->output_count; i++) {
        rc = desc_array(&r->output_descs[i], &v->outputs[i], err);
        if (rc >= 0)
            rc = program_buffer(&r->output_descs[i], &v->outputs[i], false, &v->out[i], err);
        if (rc < 0)
            return rc;
    }
    return NF_OK;
}

static void device_done(struct run *r, struct device_run *v)
{
    for (size_t i = 0; v->in && i < r->input_count; i++) {
        if (v->in[i] != v->inputs[i].data)
            free(v->in[i]);
        rt_array_done(&v->inputs[i]);
    }
    for (size_t i = 0; v->out && i < r->output_count; i++) {
        if (v->out[i] != v->outputs[i].data)
            free(v->out[i]);
        rt_array_done(&v->outputs[i]);
    }
    free(v->inputs);
    free(v->outputs);
    free(v->in);
    free(v->out);
    neffd_program_unload(v->program);
}

/* -------------------------------------------------------------------------------------------------------------- execution */

static void *execute_one(void *user)
{
    struct device_run *v = user;
    int64_t begin = nf_now_ns();
    v->rc = neffd_program_execute(v->program, (const void *const *)v->in, v->out, &v->err);
    v->took_ns = nf_now_ns() - begin;
    return NULL;
}

/* All devices once; the time is that of the slowest. */
static int execute_all(struct run *r, int64_t *ret_ns, struct nf_error *err)
{
    int rc = NF_OK;
    *ret_ns = 0;
    for (size_t d = 1; d < r->devices; d++)
        r->dev[d].started = pthread_create(&r->dev[d].thread, NULL, execute_one, &r->dev[d]) == 0;
    bool all = true;
    for (size_t d = 1; d < r->devices; d++)
        all = all && r->dev[d].started;
    if (all)
        execute_one(&r->dev[0]);
    for (size_t d = 1; d < r->devices; d++)
        if (r->dev[d].started)
            pthread_join(r->dev[d].thread, NULL);
    if (!all)
        return nf_fail(err, NF_ENOMEM, "cannot start a thread for each of %zu devices", r->devices);
    for (size_t d = 0; d < r->devices; d++) {
        *ret_ns = NF_MAX(*ret_ns, r->dev[d].took_ns);
        if (r->dev[d].rc < 0 && rc >= 0) {
            rc = nf_fail(err, r->dev[d].rc, "%s", r->dev[d].err.message);
            nf_error_location(err, "%s", r->dev[d].err.location);
            nf_error_hint(err, "%s", r->dev[d].err.hint);
        }
    }
    return rc;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int execute(struct run *r, uint64_t repeat, struct nf_error *err)
{
    int rc = execute_all(r, &r->first_ns, err);
    if (rc < 0)
        return rc;
    uint64_t n = repeat > 1 ? repeat - 1 : 0;
    int64_t *times = nf_alloc_array(n + 1, sizeof(*times));
    for (uint64_t i = 0; i < n && rc >= 0; i++)
        rc = execute_all(r, &times[i], err);
    if (n == 0)
        times[n++] = r->first_ns;
    qsort(times, n, sizeof(*times), by_time);
    r->median_ns = times[n / 2];
    r->min_ns = times[0];
    free(times);
    for (size_t d = 0; d < r->devices && rc >= 0; d++) {
        struct device_run *v = &r->dev[d];
        for (size_t i = 0; i < r->output_count; i++) {
            const neffd_tensor_desc *desc = &r->output_descs[i];
            if (desc->strides)
                copy_strided(desc, v->outputs[i].data, v->out[i], nf_dtype_bytes(v->outputs[i].dtype), false);
            else if (v->out[i] != v->outputs[i].data)
                memcpy(v->outputs[i].data, v->out[i], NF_MIN(v->outputs[i].bytes, desc->bytes));
        }
    }
    return rc;
}

/* ------------------------------------------------------------------------------------------------------------- comparison */

static double element_abs(const struct rt_array *a, int64_t i)
{
    enum nf_dtype part = nf_dtype_part(a->dtype);
    const char *at = (const char *)a->data + (size_t)i * nf_dtype_bytes(part);
    double v = 0;
    if (part == NF_DT_F64) {
        memcpy(&v, at, 8);
    } else if (part == NF_DT_F32) {
        float f;
        memcpy(&f, at, 4);
        v = (double)f;
    } else if (nf_dtype_is_float(part)) {
        uint16_t bits = 0;
        memcpy(&bits, at, nf_dtype_bytes(part));
        v = nf_small_to_double(part, bits);
    }
    return isfinite(v) ? fabs(v) : 0;
}

/* What the element type can give; the absolute part follows the largest expected magnitude. */
static void default_tolerance(const struct rt_array *expected, double *ret_rtol, double *ret_atol)
{
    enum nf_dtype part = nf_dtype_part(expected->dtype);
    double rel_tol = 0, scale = 0, max = 0;
    if (!nf_dtype_is_float(part)) {
        *ret_rtol = *ret_atol = 0;
        return;
    }
    if (part == NF_DT_F64) {
        rel_tol = 1e-9;
        scale = 1e-10;
    } else if (part == NF_DT_F32) {
        rel_tol = 1e-4;
        scale = 1e-5;
    } else if (part == NF_DT_F16) {
        rel_tol = scale = 1.0 / 256;
    } else if (part == NF_DT_BF16) {
        rel_tol = scale = 1.0 / 32;
    } else {
        rel_tol = scale = 1.0 / 4;
    }
    size_t width = nf_dtype_bytes(part);
    int64_t n = width ? (int64_t)(expected->bytes / width) : 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, element_abs(expected, i));
    *ret_rtol = rel_tol;
    *ret_atol = scale * max;
}

static void tolerance(const struct run *r, size_t i, const struct rt_array *expected, double *ret_rtol, double *ret_atol)
{
    struct json_object *item = manifest_item(r, "outputs", i), *v;
    default_tolerance(expected, ret_rtol, ret_atol);
    if (item && json_object_object_get_ex(item, "rtol", &v))
        *ret_rtol = json_object_get_double(v);
    if (item && json_object_object_get_ex(item, "atol", &v))
        *ret_atol = json_object_get_double(v);
    if (r->rel_tol >= 0)
        *ret_rtol = r->rel_tol;
    if (r->abs_tol >= 0)
        *ret_atol = r->abs_tol;
}

/* "[3, 4]" of a row-major index. */
static void add_index(struct nf_buf *out, const struct rt_array *a, int64_t at)
{
    int64_t index[RT_ARRAY_RANK_MAX];
    for (int k = a->rank; k-- > 0;) {
        index[k] = a->dims[k] ? at % a->dims[k] : 0;
        at = a->dims[k] ? at / a->dims[k] : 0;
    }
    nf_buf_add_c(out, "[");
    for (int k = 0; k < a->rank; k++)
        nf_buf_addf(out, "%s%lld", k ? ", " : "", (long long)index[k]);
    nf_buf_add_c(out, "]");
}

static int compare_output(struct run *r, size_t d, size_t i, struct nf_error *err)
{
    struct rt_array expected;
    struct rt_difference diff = {0};
    struct nf_error why = {0};
    double rel_tol, abs_tol;
    struct rt_array *actual = &r->dev[d].outputs[i];
    char *path = tensor_file(r, "outputs", r->expected_dir, i, d);
    int rc = read_tensor(path, "result", i, &r->output_descs[i], &expected, err);
    if (rc < 0) {
        free(path);
        return rc;
    }
    tolerance(r, i, &expected, &rel_tol, &abs_tol);
    rc = rt_compare(actual, &expected, rel_tol, abs_tol, &diff, &why);
    struct result *s = &r->results[i];
    s->compared = true;
    s->max_abs = fmax(s->max_abs, diff.max_abs);
    s->max_rel = fmax(s->max_rel, diff.max_rel);
    s->mismatched += diff.mismatched;
    if (rc < 0) {
        struct nf_buf t = NF_BUF_INIT;
        const char *name = item_name(r, "outputs", i);
        if (!name[0])
            name = r->output_descs[i].name;
        nf_buf_addf(&t, "result %zu%s%s%s", i, name[0] ? " (" : "", name, name[0] ? ")" : "");
        if (r->devices > 1)
            nf_buf_addf(&t, " of device %zu", d);
        if (diff.count)
            nf_buf_addf(&t, ": %lld of %lld elements differ from %s", (long long)diff.mismatched, (long long)diff.count, path);
        else
            nf_buf_addf(&t, ": %s", why.message);
        if (diff.worst_index >= 0 && diff.count) {
            nf_buf_add_c(&t, "; most at ");
            add_index(&t, actual, diff.worst_index);
            nf_buf_addf(&t, ": %.9g, expected %.9g (rtol %.3g, atol %.3g)", diff.worst_actual, diff.worst_expected, rel_tol, abs_tol);
        }
        if (s->mismatched == 0)
            s->mismatched = actual->bytes ? (int64_t)1 : 0;
        fprintf(stderr, "%sneffctl:%s run: %s\n", ctl_on(r->c->color_err, CTL_RED), ctl_off(r->c->color_err), ctl_clean(t.data));
        nf_buf_done(&t);
    }
    rt_array_done(&expected);
    free(path);
    return rc == NF_EMISMATCH ? NF_OK : rc;
}

/* More expected files than results are a mismatch too. */
static int check_no_more(const struct run *r, struct nf_error *err)
{
    char *path = one_more(r, "outputs", r->expected_dir, r->output_count);
    int rc = path ? nf_fail(err, NF_EMISMATCH, "the program has %zu results, but there is %s", r->output_count, path) : NF_OK;
    free(path);
    return rc;
}

static int write_outputs(struct run *r, struct nf_error *err)
{
    int rc = nf_output_status(nf_mkdir_p(r->output_dir, 0755, err), err);
    for (size_t d = 0; d < r->devices && rc >= 0; d++) {
        for (size_t i = 0; i < r->output_count && rc >= 0; i++) {
            char *path = r->devices > 1 ? nf_asprintf("%s/%02zu.%zu.npy", r->output_dir, i, d) : nf_asprintf("%s/%02zu.npy", r->output_dir, i);
            rc = rt_npy_write(path, &r->dev[d].outputs[i], err);
            free(path);
        }
    }
    return rc;
}

/* ----------------------------------------------------------------------------------------------------------------- report */

static uint64_t peak_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

static void report(struct run *r, const char *device)
{
    char outcome[32] = "unspecified";
    const Neffd__V1__Done *done = r->answer.done;
    uint64_t compile_us = 0;
    struct ctl *c = r->c;
    if (done) {
        cl_enum_word(&neffd__v1__outcome__descriptor, (int)done->outcome, outcome, sizeof(outcome));
        if (done->times && (done->outcome == NEFFD__V1__OUTCOME__OUTCOME_COMPILED || done->outcome == NEFFD__V1__OUTCOME__OUTCOME_JOINED))
            compile_us = done->times->compile_us;
    }
    if (c->json) {
        struct json_object *o = json_object_new_object(), *outputs = json_object_new_array(), *times = json_object_new_object();
        json_object_object_add(o, "outcome", ctl_json_str(outcome));
        json_object_object_add(o, "device", ctl_json_str(device));
        for (size_t i = 0; i < r->output_count; i++) {
            struct json_object *t = json_object_new_object(), *shape = json_object_new_array();
            for (size_t k = 0; k < r->output_descs[i].rank; k++)
                json_object_array_add(shape, json_object_new_int64(r->output_descs[i].dims[k]));
            json_object_object_add(t, "dtype", ctl_json_str(r->output_descs[i].dtype));
            json_object_object_add(t, "shape", shape);
            json_object_object_add(t, "max_abs_err", ctl_json_double(r->results[i].max_abs));
            json_object_object_add(t, "max_rel_err", ctl_json_double(r->results[i].max_rel));
            json_object_object_add(t, "mismatched", json_object_new_int64(r->results[i].mismatched));
            json_object_object_add(t, "matches", r->results[i].compared ? json_object_new_boolean(r->results[i].mismatched == 0) : NULL);
            json_object_array_add(outputs, t);
        }
        json_object_object_add(o, "outputs", outputs);
        json_object_object_add(times, "compile_us", ctl_json_u64(compile_us));
        json_object_object_add(times, "load_us", ctl_json_u64((uint64_t)r->load_ns / 1000));
        json_object_object_add(times, "first_us", ctl_json_u64((uint64_t)r->first_ns / 1000));
        json_object_object_add(times, "median_us", ctl_json_u64((uint64_t)r->median_ns / 1000));
        json_object_object_add(times, "min_us", ctl_json_u64((uint64_t)r->min_ns / 1000));
        json_object_object_add(o, "times", times);
        json_object_object_add(o, "peak_bytes", ctl_json_u64(peak_bytes()));
        ctl_json_print(o);
        return;
    }
    struct nf_buf t = NF_BUF_INIT;
    if (done) {
        for (char *p = outcome; (p = strchr(p, '_')); )
            *p = ' ';
        nf_buf_addf(&t, "%s", outcome);
        if (compile_us) {
            nf_buf_add_c(&t, " in ");
            cl_add_duration_us(&t, compile_us);
        }
        nf_buf_add_c(&t, ", ");
    }
    nf_buf_addf(&t, "executed on %s", device);
    if (r->devices > 1)
        nf_buf_addf(&t, " x %zu", r->devices);
    nf_buf_add_c(&t, ": load ");
    cl_add_duration_us(&t, (uint64_t)r->load_ns / 1000);
    nf_buf_add_c(&t, ", first ");
    cl_add_duration_us(&t, (uint64_t)r->first_ns / 1000);
    if (r->median_ns != r->first_ns || r->min_ns != r->first_ns) {
        nf_buf_add_c(&t, ", median ");
        cl_add_duration_us(&t, (uint64_t)r->median_ns / 1000);
        nf_buf_add_c(&t, ", best ");
        cl_add_duration_us(&t, (uint64_t)r->min_ns / 1000);
    }
    nf_buf_add_c(&t, "\n");
    for (size_t i = 0; i < r->output_count; i++) {
        const char *name = item_name(r, "outputs", i);
        enum nf_dtype dtype = nf_dtype_from_name(nf_str_c(r->output_descs[i].dtype));
        nf_buf_addf(&t, "  result %zu  ", i);
        rt_shape_print(dtype, (int)r->output_descs[i].rank, r->output_descs[i].dims, &t);
        if (name[0])
            nf_buf_addf(&t, "  %s", ctl_clean(name));
        if (r->results[i].compared)
            nf_buf_addf(&t, "  %s%s%s (largest difference %.3g, relative %.3g)", ctl_on(c->color_out, r->results[i].mismatched ? CTL_RED : CTL_GREEN),
                r->results[i].mismatched ? "DIFFERS" : "matches", ctl_off(c->color_out), r->results[i].max_abs, r->results[i].max_rel);
        nf_buf_add_c(&t, "\n");
    }
    fputs(t.data, stdout);
    nf_buf_done(&t);
}

/* Beside the results, which may be JSON. Executions call it at once; stdio's lock keeps the text of one call together. */
static void on_print(void *user, struct nf_str text)
{
    (void)user;
    fwrite(text.data, 1, text.len, stderr);
}

static int load(struct run *r, neffd_client *client, neffd_artifact *artifact, const char *device, uint64_t threads, struct nf_error *err)
{
    neffd_error why;
    char group[32];
    int64_t begin = nf_now_ns();
    (void)nf_format(group, sizeof(group), "neffctl-%d", (int)getpid());
    if (r->devices > 1 && takes_whole_arrays(r, artifact))
        r->devices = 1;
    for (size_t d = 0; d < r->devices; d++) {
        neffd_load_options options = {.struct_size = sizeof(options), .device = device, .threads = (uint32_t)threads};
        if (r->devices > 1) {
            options.rank = (uint32_t)d;
            options.world_size = (uint32_t)r->devices;
            options.group = group;
        }
        int rc = neffd_program_load(client, artifact, &options, &r->dev[d].program, &why);
        if (rc < 0) {
            nf_fail(err, rc, "%s", why.message);
            nf_error_location(err, "%s", why.location);
            nf_error_hint(err, "%s", why.hint);
            return rc;
        }
    }
    r->input_count = neffd_program_inputs(r->dev[0].program, &r->input_descs);
    r->output_count = neffd_program_outputs(r->dev[0].program, &r->output_descs);
    r->load_ns = nf_now_ns() - begin;
    if (r->input_count > TENSORS_MAX || r->output_count > TENSORS_MAX)
        return nf_fail(err, NF_ELIMIT, "the program has more than %d tensors", TENSORS_MAX);
    return NF_OK;
}

/* What the device measured, over all executions. */
static int write_profile(const struct run *r, const char *path, struct nf_error *err)
{
    struct rt_program *p = cl_program_rt(r->dev[0].program);
    struct nf_buf table = NF_BUF_INIT, trace = NF_BUF_INIT;
    int rc = p->device->ops->profile ? p->device->ops->profile(p, &table, err)
                                     : nf_fail(err, NF_EUNSUPPORTED, "the device %s measures no steps", p->device->ops->name);
    if (rc >= 0)
        fputs(table.data ? table.data : "", stderr);
    if (rc >= 0 && path[0] && strcmp(path, "-") != 0) {
        if (p->device->ops == &cpu_device_ops)
            cpu_program_trace(p, &trace);
        rc = nf_output_write(path, nf_buf_str(&trace), 0644, err);
    }
    nf_buf_done(&table);
    nf_buf_done(&trace);
    return rc;
}

int ctl_cmd_run(struct ctl *c)
{
    struct run r = {.c = c, .rel_tol = -1, .abs_tol = -1};
    struct ctl_request q = {0};
    struct nf_error err = {0};
    const Neffd__V1__Error *failed = NULL;
    neffd_client *client;
    neffd_artifact *artifact = NULL;
    uint64_t seed = 0, repeat = 1, threads = 0;
    int code = CTL_OK;
    bool random = ctl_flag(c, "random");
    r.inputs_dir = ctl_value(c, "inputs");
    r.expected_dir = ctl_value(c, "expected");
    r.output_dir = ctl_value(c, "output");
    if (random && r.inputs_dir)
        return ctl_usage(c, "--inputs and --random exclude each other");
    if (!r.expected_dir && (ctl_flag(c, "rtol") || ctl_flag(c, "atol")))
        return ctl_usage(c, "--%s says how closely results match: of what, says --expected DIR", ctl_flag(c, "rtol") ? "rtol" : "atol");
    int rc = ctl_value_u64(c, "random", UINT64_MAX, &seed, &err);
    if (rc < 0 || (rc = ctl_value_u64(c, "repeat", 100000000, &repeat, &err)) < 0 || (rc = ctl_value_u64(c, "threads", 4096, &threads, &err)) < 0 ||
        (rc = ctl_value_double(c, "rtol", &r.rel_tol, &err)) < 0 || (rc = ctl_value_double(c, "atol", &r.abs_tol, &err)) < 0)
        return ctl_fail(c, &err, NULL);
    rc = ctl_client(c, &client, &err);
    if (rc >= 0)
        rc = get_artifact(&r, &q, client, &artifact, &failed, &err);
    if (rc < 0) {
        nf_error_file(&err, c->args[0]);
        code = ctl_fail(c, &err, failed);
        goto out;
    }
    bool target = ctl_flag(c, "target"), option = ctl_flag(c, "option");
    if (!r.asked && (target || option) && !c->quiet)
        fprintf(stderr, "neffctl: run: %s is compiled already, without effect: %s%s%s\n", ctl_clean(c->args[0]), target ? "--target" : "", target && option ? ", " : "", option ? "-O" : "");
    find_manifest(&r, r.expected_dir);
    find_manifest(&r, r.inputs_dir);
    r.devices = count_devices(&r);
    r.dev = nf_alloc_array(r.devices, sizeof(*r.dev));
    const char *device = ctl_value(c, "device"), *profile = ctl_value(c, "profile");
    cl_profile_programs(profile != NULL);
    cl_print_programs(on_print, NULL);
    rc = load(&r, client, artifact, device, threads, &err);
    if (rc < 0 && r.file_artifact)
        rc = wrong_neff(c->args[0], rc, &err);
    if (rc >= 0 && r.input_count && !r.inputs_dir && !random) {
        code = ctl_usage(c, "the program takes %zu arguments: give --inputs DIR or --random SEED", r.input_count);
        goto out;
    }
    char *more = rc >= 0 && r.inputs_dir ? one_more(&r, "inputs", r.inputs_dir, r.input_count) : NULL;
    if (more)
        rc = nf_fail(&err, NF_EINVAL, "the program takes %zu arguments, but there is %s", r.input_count, more);
    free(more);
    for (size_t d = 0; d < r.devices && rc >= 0; d++)
        rc = prepare_device(&r, d, seed, random, &err);
    if (rc >= 0)
        rc = execute(&r, repeat, &err);
    r.results = nf_alloc_array(r.output_count + 1, sizeof(*r.results));
    if (rc >= 0 && r.output_dir)
        rc = write_outputs(&r, &err);
    for (size_t d = 0; d < r.devices && rc >= 0 && r.expected_dir; d++)
        for (size_t i = 0; i < r.output_count && rc >= 0; i++)
            rc = compare_output(&r, d, i, &err);
    if (rc >= 0 && r.expected_dir)
        rc = check_no_more(&r, &err);
    if (rc < 0) {
        code = ctl_fail(c, &err, NULL);
        goto out;
    }
    if (profile && (rc = write_profile(&r, profile, &err)) < 0) {
        code = ctl_fail(c, &err, NULL);
        goto out;
    }
    report(&r, cl_program_device(r.dev[0].program));
    for (size_t i = 0; i < r.output_count; i++)
        if (r.results[i].mismatched)
            code = CTL_WRONG;
out:
    for (size_t d = 0; r.dev && d < r.devices; d++)
        device_done(&r, &r.dev[d]);
    free(r.dev);
    free(r.results);
    json_object_put(r.manifest);
    free(r.manifest_dir);
    neffd_artifact_unref(r.file_artifact);
    cl_answer_done(&r.answer);
    ctl_request_done(&q);
    return code;
}
