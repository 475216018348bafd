/* device.c: the cpu device: loads artifacts with a plan and runs them in the caller's memory.
 *
 * Code is mapped from the artifact's file, private and executable, so that all processes share its pages. Before that the
 * owner is checked: running a file means running its author's code, so it must be this user's, root's or the daemon's. Where
 * the file system forbids execution, or there is no file, the code is copied into a sealed anonymous file.
 *
 * A program may be executed by several threads at once: each takes an instance (arena, value pointers, scratch) from the
 * program's list, and puts it back. Lock: program->lock guards that list and the totals of the profile; innermost. */
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/group.h"
#include "runtime/cpu/steps.h"
#include "runtime/neff.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct instance {
    struct instance *next;
    char *arena;
    size_t arena_bytes;
    void **ptr;
    char *scratch;
    size_t scratch_bytes;
    int threads;
    int64_t *profile;
};

struct cpu_program {
    struct rt_program base;
    struct nf_arena *mem;
    struct neff *neff;
    struct plan *plan;
    const char *constants;
    void *image;
    size_t image_bytes, image_into; /* image_into: where the image begins in what is mapped for it */
    size_t scratch_stride;
    struct cpu_rendezvous *group;
    uint32_t replicas, partitions, rank;
    bool profiling;
    void (*print)(void *user, struct nf_str text);
    void *print_user;
    uint32_t steps, *profile_base;
    pthread_mutex_t lock;      /* see the head */
    struct instance *free;
    int64_t *profile;          /* ns by step */
    int64_t runs, run_ns;
};

struct cpu_device {
    struct rt_device base;
    uint32_t threads;
    pthread_mutex_t lock;          /* guards evaluator; innermost */
    struct rt_device *evaluator;   /* runs artifacts without a plan; opened for the first of them */
};

static int open_device(const struct rt_device_config *config, struct rt_device **ret_device, struct nf_error *err)
{
    if (config && config->index) return nf_fail(err, NF_ENODEVICE, "there is one cpu device, cpu:%u does not exist", config->index);
    struct cpu_device *d = nf_alloc(sizeof *d);
    d->base.ops = &cpu_device_ops;
    d->threads = config ? config->threads : 0;
    pthread_mutex_init(&d->lock, NULL);
    cpu_pool_set_threads((int)d->threads);
    *ret_device = &d->base;
    return 0;
}

static void close_device(struct rt_device *device)
{
    struct cpu_device *d = (struct cpu_device *)device;
    if (!d) return;
    if (d->evaluator) rt_device_close(d->evaluator);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* An artifact without a plan is of the target's other form: the device that interprets modules takes it, where the program has
 * registered one. What comes back is that device's program. */
static int load_elsewhere(struct cpu_device *d, struct nf_str bytes, const struct rt_load_options *o, struct rt_program **ret_program, struct nf_error *err)
{
    int rc = 0;
    if (!rt_device_find(NF_STR("evaluator"))) return nf_fail(err, NF_EUNSUPPORTED, "the artifact has no plan for cpu");
    pthread_mutex_lock(&d->lock);
    if (!d->evaluator) rc = rt_device_open("evaluator", NULL, &d->evaluator, err);
    pthread_mutex_unlock(&d->lock);
    return rc ? rc : rt_program_load(d->evaluator, bytes, o, ret_program, err);
}

bool cpu_artifact(const struct neff *n)
{
    struct nf_str plan;
    return neff_member(n, CPU_MEMBER_PLAN, &plan);
}

/* --------------------------------------------------------------------------------------------------------------- code */

static int map_copy(struct nf_str code, void **ret_image, struct nf_error *err)
{
    int fd = memfd_create("neffd-cpu-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return nf_fail_errno(err, errno, "no memory file for the program's code");
    int rc = 0;
    for (size_t at = 0; at < code.len && !rc;) {
        ssize_t n = write(fd, code.data + at, code.len - at);
        if (n < 0 && errno != EINTR) rc = nf_fail_errno(err, errno, "cannot copy the program's code");
        if (n > 0) at += (size_t)n;
    }
    if (!rc && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) rc = nf_fail_errno(err, errno, "cannot seal the program's code");
    if (!rc) {
        void *p = mmap(NULL, code.len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) rc = nf_fail_errno(err, errno, "cannot map the program's code");
        else *ret_image = p;
    }
    close(fd);
    return rc;
}

/* The image lies in a file at a multiple of NEFF_PAGE, which its code relies on. Pages may be larger (of 64 KiB on some aarch64 systems): then
 * what is before the image in its page is mapped with it. *ret_into: how much that is. */
static int map_image(struct nf_str file, struct nf_str code, const struct rt_load_options *o, void **ret_image, size_t *ret_into, struct nf_error *err)
{
    if (o->file_fd >= 0) {
        uid_t owner = (uid_t)o->owner_uid;
        struct stat st;
        if (fstat(o->file_fd, &st) == 0) owner = st.st_uid;
        if (owner != 0 && owner != geteuid() && (o->trusted_uid == (uint32_t)-1 || owner != o->trusted_uid)) {
            nf_fail(err, NF_EPERM, "the artifact belongs to user %u, and a program for cpu is code that would run as you", (unsigned)owner);
            nf_error_hint(err, "compile it yourself, or run the daemon as a user that you trust");
            return NF_EPERM;
        }
        size_t offset = (size_t)(code.data - file.data), into = offset % (size_t)sysconf(_SC_PAGESIZE);
        if (offset % NEFF_PAGE == 0) {
            char *p = mmap(NULL, code.len + into, PROT_READ | PROT_EXEC, MAP_PRIVATE, o->file_fd, (off_t)(offset - into));
            if (p != MAP_FAILED) {
                *ret_image = p + into;
                *ret_into = into;
                return 0;
            }
        }
    }
    *ret_into = 0;
    return map_copy(code, ret_image, err);
}

/* --------------------------------------------------------------------------------------------------------------- load */

static void unload(struct rt_program *program)
{
    struct cpu_program *p = (struct cpu_program *)program;
    if (!p) return;
    while (p->free) {
        struct instance *i = p->free;
        p->free = i->next;
        if (i->arena) munmap(i->arena, i->arena_bytes);
        if (i->scratch) munmap(i->scratch, i->scratch_bytes);
        free(i->profile);
        free(i->ptr);
        free(i);
    }
    if (p->image) munmap((char *)p->image - p->image_into, p->image_into + p->image_bytes);
    cpu_group_leave(p->group);
    neff_close(p->neff);
    pthread_mutex_destroy(&p->lock);
    free(p->profile);
    nf_arena_free(p->mem);
    free(p);
}

static bool uses_gemm(const struct plan *p)
{
    for (uint32_t b = 0; b < p->nblocks; b++)
        for (uint32_t i = 0; i < p->block[b].nstep; i++)
            if (p->block[b].step[i].op == PLAN_DOT) return true;
    return false;
}

/* Whether it sends or receives: a group of one has mail too. */
static bool has_mail(const struct plan *p)
{
    for (uint32_t b = 0; b < p->nblocks; b++)
        for (uint32_t i = 0; i < p->block[b].nstep; i++)
            if (p->block[b].step[i].op == PLAN_SEND || p->block[b].step[i].op == PLAN_RECV || p->block[b].step[i].op == PLAN_INFEED) return true;
    return false;
}

static int check_features(uint64_t wanted, struct nf_error *err)
{
    uint64_t missing = wanted & ~cpu_features();
    if (!missing) return 0;
    struct nf_buf b = NF_BUF_INIT;
    cpu_features_print(missing, &b);
    nf_fail(err, NF_EUNSUPPORTED, "the artifact's code needs processor features that this machine lacks: %s", b.data);
    nf_error_hint(err, "compile it on this machine");
    nf_buf_done(&b);
    return NF_EUNSUPPORTED;
}

static int load(struct rt_device *device, struct nf_str bytes, const struct rt_load_options *options, struct rt_program **ret_program, struct nf_error *err)
{
    static const struct rt_load_options none = {.file_fd = -1, .owner_uid = (uint32_t)-1, .trusted_uid = (uint32_t)-1};
    const struct rt_load_options *o = options ? options : &none;
    struct cpu_program *p = nf_alloc(sizeof *p);
    struct nf_str plan, constants = {0}, image = {0};
    int rc;
    pthread_mutex_init(&p->lock, NULL);
    p->mem = nf_arena_new(0);
    p->base.device = device;
    p->profiling = o->profile;
    p->print = o->print;
    p->print_user = o->print_user;
    if ((rc = neff_open(bytes, &p->neff, err))) goto out;
    if (!neff_member(p->neff, CPU_MEMBER_PLAN, &plan)) {
        rc = load_elsewhere((struct cpu_device *)device, bytes, o, ret_program, err);
        goto out;
    }
    neff_member(p->neff, CPU_MEMBER_CONSTANTS, &constants);
    neff_member(p->neff, CPU_MEMBER_IMAGE, &image);
    p->base.input_count = neff_inputs(p->neff, &p->base.inputs);
    p->base.output_count = neff_outputs(p->neff, &p->base.outputs);
    struct plan_sizes z = {.nargs = (uint32_t)p->base.input_count, .nouts = (uint32_t)p->base.output_count, .const_bytes = constants.len, .image_bytes = image.len};
    uint64_t *in = nf_arena_alloc_array(p->mem, p->base.input_count + p->base.output_count + 1, 8), *out = in + p->base.input_count;
    for (size_t i = 0; i < p->base.input_count; i++) in[i] = p->base.inputs[i].bytes;
    for (size_t i = 0; i < p->base.output_count; i++) out[i] = p->base.outputs[i].bytes;
    z.arg_bytes = in;
    z.out_bytes = out;
    if ((rc = plan_read(plan, &z, p->mem, &p->plan, err))) goto out;
    if ((rc = check_features(p->plan->features, err))) goto out;
    p->constants = constants.data;
    if (image.len) {
        if ((rc = map_image(bytes, image, o, &p->image, &p->image_into, err))) goto out;
        p->image_bytes = image.len;
    }
    p->scratch_stride = (size_t)p->plan->scratch_bytes;
    if (uses_gemm(p->plan)) p->scratch_stride = NF_MAX(p->scratch_stride, gemm_scratch());
    p->scratch_stride = (p->scratch_stride + 4096 + 63) & ~(size_t)63;
    p->replicas = p->partitions = 1;
    const char *note = neff_note(p->neff, CPU_NOTE_PROCESSES);
    if (note && sscanf(note, "%u %u", &p->replicas, &p->partitions) == 2 && (uint64_t)p->replicas * p->partitions > 1) {
        uint32_t world = o->world_size ? o->world_size : 1;
        if ((uint64_t)p->replicas * p->partitions != world || o->rank >= world || world > 65536) {
            rc = nf_fail(err, NF_EINVAL, "the program runs on %u x %u devices together, it was loaded as number %u of %u", p->replicas, p->partitions, o->rank, world);
            goto out;
        }
        p->rank = o->rank;
        if ((rc = cpu_group_join(o->group ? o->group : "", world, &p->group, err))) goto out;
    } else {
        p->replicas = p->partitions = 1;
        if (o->group && o->world_size <= 1 && has_mail(p->plan) && (rc = cpu_group_join(o->group, 1, &p->group, err))) goto out;
    }
    if (o->threads) cpu_pool_set_threads((int)o->threads);
    p->profile_base = nf_arena_alloc_array(p->mem, p->plan->nblocks, sizeof *p->profile_base);
    for (uint32_t b = 0; b < p->plan->nblocks; b++) {
        p->profile_base[b] = p->steps;
        p->steps += p->plan->block[b].nstep;
    }
    if (p->profiling) p->profile = nf_alloc_array(p->steps + 1, sizeof *p->profile);
    *ret_program = &p->base;
    p = NULL;
out:
    unload((struct rt_program *)p);
    return rc;
}

/* ------------------------------------------------------------------------------------------------------------ execute */

void *cpu_map_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (bytes >= (size_t)4 << 20) madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

static int take_instance(struct cpu_program *p, struct instance **ret, struct nf_error *err)
{
    int threads = cpu_pool_threads();
    pthread_mutex_lock(&p->lock);
    struct instance *i = p->free;
    if (i) p->free = i->next;
    pthread_mutex_unlock(&p->lock);
    if (!i) {
        i = nf_alloc(sizeof *i);
        i->ptr = nf_alloc_array(p->plan->nvalues + 1, sizeof *i->ptr);
        i->arena_bytes = (size_t)p->plan->arena_bytes + 64;
        i->arena = cpu_map_memory(i->arena_bytes);
        if (!i->arena) {
            free(i->ptr);
            free(i);
            return nf_fail(err, NF_ENOMEM, "no memory for the %" PRIu64 " bytes that the program works in", p->plan->arena_bytes);
        }
        for (uint32_t v = 0; v < p->plan->nvalues; v++) {
            const struct plan_value *pv = &p->plan->value[v];
            if (pv->where == PLAN_ARENA) i->ptr[v] = i->arena + pv->offset;
            else if (pv->where == PLAN_CONST) i->ptr[v] = (void *)(uintptr_t)(p->constants + pv->offset);
        }
        if (p->profiling) i->profile = nf_alloc_array(p->steps + 1, sizeof *i->profile);
    }
    if (i->threads < threads) { /* one more than the pool has: a caller whose loop runs alone is thread 0 of its own scratch */
        if (i->scratch) munmap(i->scratch, i->scratch_bytes);
        i->scratch_bytes = p->scratch_stride * (size_t)threads;
        i->scratch = cpu_map_memory(i->scratch_bytes);
        i->threads = i->scratch ? threads : 0;
        if (!i->scratch) {
            pthread_mutex_lock(&p->lock);
            i->next = p->free;
            p->free = i;
            pthread_mutex_unlock(&p->lock);
            return nf_fail(err, NF_ENOMEM, "no memory for the threads of a program");
        }
    }
    *ret = i;
    return 0;
}

static int run_instance(struct cpu_program *p, struct instance *i, const struct cpu_turn *turn, const void *const *inputs, void *const *outputs, const struct cpu_watch *watch,
                        struct nf_error *err)
{
    int rc;
    for (uint32_t v = 0; v < p->plan->nvalues; v++) {
        const struct plan_value *pv = &p->plan->value[v];
        if (pv->where == PLAN_ARG) i->ptr[v] = (char *)(uintptr_t)inputs[pv->index] + pv->offset;
        else if (pv->where == PLAN_OUT) i->ptr[v] = (char *)outputs[pv->index] + pv->offset;
    }
    struct cpu_run of = {.lock = PTHREAD_MUTEX_INITIALIZER, .print = p->print, .print_user = p->print_user};
    struct cpu_exec x = {.plan = p->plan, .run = &of, .image = p->image, .ptr = i->ptr, .scratch = i->scratch, .scratch_stride = p->scratch_stride, .profile = i->profile,
                         .profile_base = p->profile_base, .group = p->group, .turn = *turn, .replica = p->rank / p->partitions, .partition = p->rank % p->partitions,
                         .replicas = p->replicas, .partitions = p->partitions};
    if (watch) rc = cpu_exec_watch(&x, watch->seen, watch->user, err);
    else rc = cpu_exec_block(&x, 0, err);
    if (p->group) cpu_group_end(p->group, turn, rc != 0);
    if (!rc && of.unmet.code) {
        rc = of.unmet.code;
        if (err) *err = of.unmet;
    }
    cpu_run_done(&of);
    return rc;
}

static int run(struct cpu_program *p, const void *const *inputs, void *const *outputs, const struct cpu_watch *watch, struct nf_error *err)
{
    struct instance *i = NULL;
    struct cpu_turn turn = {0};
    if (p->group) cpu_group_begin(p->group, p->rank, &turn);
    int rc = take_instance(p, &i, err);
    if (rc) {
        if (p->group) cpu_group_end(p->group, &turn, true); /* the others would wait */
        return rc;
    }
    int64_t start = p->profiling ? nf_now_ns() : 0;
    rc = run_instance(p, i, &turn, inputs, outputs, watch, err);
    pthread_mutex_lock(&p->lock);
    if (p->profiling) {
        p->runs++;
        p->run_ns += nf_now_ns() - start;
        for (uint32_t k = 0; k < p->steps; k++) {
            p->profile[k] += i->profile[k];
            i->profile[k] = 0;
        }
    }
    i->next = p->free;
    p->free = i;
    pthread_mutex_unlock(&p->lock);
    return rc;
}

static int execute(struct rt_program *program, struct rt_stream *stream, struct rt_buffer *const *in, struct rt_buffer *const *out, struct rt_event **ret_event,
                   struct nf_error *err)
{
    (void)stream; /* every execution runs to its end inside the call, which keeps the order of any stream */
    struct cpu_program *p = (struct cpu_program *)program;
    size_t n = program->input_count + program->output_count;
    void *small[64], **ptr = n <= 64 ? small : nf_alloc_array(n, sizeof *ptr);
    for (size_t i = 0; i < program->input_count; i++) ptr[i] = in[i]->host;
    for (size_t i = 0; i < program->output_count; i++) ptr[program->input_count + i] = out[i]->host;
    int rc = run(p, (const void *const *)ptr, ptr + program->input_count, NULL, err);
    if (ptr != small) free(ptr);
    if (!rc && ret_event) *ret_event = NULL;
    return rc;
}

int cpu_program_watch(struct rt_program *program, const void *const *inputs, void *const *outputs, const struct cpu_watch *watch, struct nf_error *err)
{
    return run((struct cpu_program *)program, inputs, outputs, watch, err);
}

const struct plan *cpu_program_plan(const struct rt_program *program) { return ((const struct cpu_program *)program)->plan; }

int cpu_program_feed(struct rt_program *program, const struct rt_array *values, size_t n, struct nf_error *err)
{
    struct cpu_program *p = (struct cpu_program *)program;
    void *parcel = p->group ? cpu_parcel_of(values, n) : NULL;
    if (!p->group) return nf_fail(err, NF_EINVAL, "the program runs alone, without a queue of inputs: load it with the name of a group");
    if (!parcel) return nf_fail(err, NF_ENOMEM, "no memory for what goes into the queue of inputs");
    cpu_group_feed(p->group, parcel);
    return 0;
}

static int execute_host(struct rt_program *program, const void *const *inputs, void *const *outputs, struct nf_error *err)
{
    return run((struct cpu_program *)program, inputs, outputs, NULL, err);
}

/* ------------------------------------------------------------------------------------------------------------ buffers */

static int new_buffer(struct rt_device *device, size_t bytes, struct rt_buffer **ret, struct nf_error *err)
{
    size_t room = (bytes + 63 + 64) & ~(size_t)63;
    void *p = aligned_alloc(64, room);
    if (!p || room < bytes) {
        free(p);
        return nf_fail(err, NF_ENOMEM, "no memory for a buffer of %zu bytes", bytes);
    }
    memset(p, 0, room);
    struct rt_buffer *b = nf_alloc(sizeof *b);
    *b = (struct rt_buffer){device, bytes, p, true};
    *ret = b;
    return 0;
}
static int wrap_buffer(struct rt_device *device, void *host, size_t bytes, struct rt_buffer **ret, struct nf_error *err)
{
    (void)err;
    struct rt_buffer *b = nf_alloc(sizeof *b);
    *b = (struct rt_buffer){device, bytes, host, false};
    *ret = b;
    return 0;
}
static void free_buffer(struct rt_buffer *b)
{
    if (b && b->owned) free(b->host);
    free(b);
}
static int write_buffer(struct rt_buffer *b, size_t offset, const void *data, size_t bytes, struct nf_error *err)
{
    if (offset > b->bytes || bytes > b->bytes - offset) return nf_fail(err, NF_EINVAL, "write of %zu bytes at %zu of a buffer of %zu", bytes, offset, b->bytes);
    if (bytes) memcpy((char *)b->host + offset, data, bytes);
    return 0;
}
static int read_buffer(const struct rt_buffer *b, size_t offset, void *data, size_t bytes, struct nf_error *err)
{
    if (offset > b->bytes || bytes > b->bytes - offset) return nf_fail(err, NF_EINVAL, "read of %zu bytes at %zu of a buffer of %zu", bytes, offset, b->bytes);
    if (bytes) memcpy(data, (const char *)b->host + offset, bytes);
    return 0;
}
static int wait_event(struct rt_event *event, int64_t timeout_ns, struct nf_error *err)
{
    (void)event;
    (void)timeout_ns;
    (void)err;
    return 0;
}
static void free_event(struct rt_event *event) { free(event); }

/* ------------------------------------------------------------------------------------------------------------ profile */

static int64_t step_bytes(const struct plan *p, const struct plan_step *s)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < s->nin; i++) n += p->value[s->in[i]].bytes;
    for (uint32_t i = 0; i < s->nout; i++) n += p->value[s->out[i]].bytes;
    return n;
}

static int by_time(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return x[0] < y[0] ? 1 : x[0] > y[0] ? -1 : x[1] < y[1] ? -1 : x[1] > y[1];
}

/* A table: time by step, most expensive first, bytes touched (as if each operand were read once) and the source. */
static int profile(struct rt_program *program, struct nf_buf *text, struct nf_error *err)
{
    struct cpu_program *p = (struct cpu_program *)program;
    (void)err;
    if (!p->profiling) return 0;
    pthread_mutex_lock(&p->lock);
    int64_t (*order)[2] = nf_alloc_array(p->steps + 1, sizeof *order), runs = p->runs ? p->runs : 1;
    for (uint32_t i = 0; i < p->steps; i++) {
        order[i][0] = p->profile[i];
        order[i][1] = i;
    }
    qsort(order, p->steps, sizeof *order, by_time);
    nf_buf_addf(text, "%" PRId64 " run%s, %.1f us each, %d threads\n", p->runs, p->runs == 1 ? "" : "s", (double)p->run_ns / 1e3 / (double)runs, cpu_pool_threads());
    nf_buf_addf(text, "%10s %6s %10s %8s  %-20s %s\n", "us a run", "share", "MB a run", "GB/s", "step", "source");
    for (uint32_t i = 0; i < p->steps && order[i][0] > 0; i++) {
        uint32_t at = (uint32_t)order[i][1], b = 0;
        while (b + 1 < p->plan->nblocks && p->profile_base[b + 1] <= at) b++;
        const struct plan_step *s = &p->plan->block[b].step[at - p->profile_base[b]];
        double us = (double)order[i][0] / 1e3 / (double)runs, mb = (double)step_bytes(p->plan, s) / 1e6;
        struct nf_str label = s->label == PLAN_NO_LABEL ? NF_STR("") : p->plan->label[s->label];
        nf_buf_addf(text, "%10.1f %5.1f%% %10.3f %8.1f  %-20s %.*s\n", us, p->run_ns ? 100.0 * (double)order[i][0] / (double)p->run_ns : 0.0, mb, us > 0 ? mb * 1e3 / us : 0.0,
                    plan_op_name((enum plan_op)s->op), (int)NF_MIN(label.len, (size_t)200), label.data);
    }
    free(order);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

void cpu_program_trace(const struct rt_program *program, struct nf_buf *out)
{
    const struct cpu_program *p = (const struct cpu_program *)program;
    double at = 0, runs = p->runs ? (double)p->runs : 1;
    nf_buf_add_c(out, "{\"traceEvents\":[");
    for (uint32_t b = 0, k = 0; p->profiling && b < p->plan->nblocks; b++)
        for (uint32_t i = 0; i < p->plan->block[b].nstep; i++, k++) {
            const struct plan_step *s = &p->plan->block[b].step[i];
            double us = (double)p->profile[k] / 1e3 / runs;
            nf_buf_addf(out, "%s\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"bytes\":%" PRId64 ",\"source\":\"", k ? "," : "",
                        plan_op_name((enum plan_op)s->op), b, at, us, step_bytes(p->plan, s));
            struct nf_str label = s->label == PLAN_NO_LABEL ? NF_STR("") : p->plan->label[s->label];
            for (size_t c = 0; c < label.len; c++) { /* plain JSON: what needs an escape is written as one */
                unsigned char ch = (unsigned char)label.data[c];
                if (ch < 32 || ch == '"' || ch == '\\') nf_buf_addf(out, "\\u%04x", ch);
                else nf_buf_add_char(out, (char)ch);
            }
            nf_buf_add_c(out, "\"}}");
            if (b == 0) at += us;
        }
    nf_buf_add_c(out, "\n],\"displayTimeUnit\":\"ms\"}\n");
}

const struct rt_device_ops cpu_device_ops = {
    .name = "cpu",
    .open = open_device,
    .close = close_device,
    .load = load,
    .unload = unload,
    .buffer = new_buffer,
    .wrap = wrap_buffer,
    .buffer_free = free_buffer,
    .write = write_buffer,
    .read = read_buffer,
    .execute = execute,
    .execute_host = execute_host,
    .wait = wait_event,
    .event_free = free_event,
    .profile = profile,
};
