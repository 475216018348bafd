/* Several devices: processes on threads that meet in collectives, and the operations that make such grids.
 *
 * A rendezvous is named by what meets (kind of operation, channel, group of processes); processes that arrive while one of that name
 * is not full join it. One mutex (grid->lock, a leaf) guards the grid; a process that waits is counted, so that the last one to stop
 * running sees at once that nobody can go on, and ends the run with an error. */
#include "pipeline/hlo/eval_internal.h"
#include "pipeline/hlo/mesh.h"

#include <stdlib.h>

struct rdv {
    struct rdv *next;
    uint16_t kind;              /* operation id */
    int64_t channel;
    uint32_t n, k;              /* processes, values of each */
    uint32_t *group;            /* their ids, in the group's order */
    uint32_t arrived, left;
    bool *here;
    struct ev_value **values;   /* n * k, held */
};

struct mail {
    struct mail *next;
    int64_t channel, to;        /* to -1: anybody */
    struct ev_value *tuple;
};

struct receiver {               /* a process that waits for mail */
    struct receiver *next;
    int64_t channel;
    uint32_t id;
    struct ev_value *got;
};

struct ev_grid {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned replicas, partitions;
    uint32_t alive, waiting;
    bool failed;
    int code;
    struct nf_error error;      /* the first one */
    struct rdv *meetings;
    struct mail *mail;
    struct receiver *receivers;
    struct ev_func **infeed;
    size_t n_infeed, next_infeed;
    const struct hlo_mesh *mesh; /* of the manual computation whose devices these are; NULL: there is none */
    bool lasting;               /* a group: members come and go, so one that waits is never stuck for good */
};

static void grid_fail(struct ev_grid *g, int code, const struct nf_error *err)
{
    if (!g->failed) {
        g->failed = true;
        g->code = code;
        if (err)
            g->error = *err;
    }
    pthread_cond_broadcast(&g->moved);
}

/* With the lock: one more process waits; true if that leaves nobody to wake it. */
static bool stuck(struct ev_ctx *c, struct ev_grid *g, struct nf_error *err)
{
    g->waiting++;
    if (g->waiting < g->alive || g->lasting)
        return false;
    ev_fail(c, err, NF_EGRAPH, "all processes wait for each other: not every member of a group runs this operation");
    g->waiting--;
    grid_fail(g, NF_EGRAPH, err);
    return true;
}

static int wait_a_moment(struct ev_ctx *c, struct ev_grid *g, struct nf_error *err)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&g->moved, &g->lock, &until);
    if (g->failed)
        return ev_fail(c, err, NF_ECANCELLED, "another process of the grid failed");
    if (ev_out_of_time(c->f->proc->run))
        return ev_fail(c, err, NF_ETIMEOUT, "evaluating took longer than its time limit");
    return NF_OK;
}

/* A copy that belongs to no run: members of a group outlive each other's runs. */
static struct ev_value *detached(const struct ev_value *v)
{
    struct ev_value *c = NULL;
    if (v->kind == EV_TUPLE) {
        c = ev_tuple_new(0, NULL);
        free(c->parts);
        c->parts = nf_alloc_array(v->n + 1, sizeof(*c->parts));
        for (; c->n < v->n; c->n++)
            c->parts[c->n] = detached(v->parts[c->n]); /* as deep as the type */
        return c;
    }
    if (v->kind != EV_ARRAY)
        return ev_token_new();
    struct nf_error ignored;
    if (ev_array_new(NULL, v->a.dtype, v->a.rank, v->a.dims, &c, &ignored))
        return ev_token_new(); /* no memory: the reader finds that it is no array */
    if (v->a.bytes)
        memcpy(c->a.data, v->a.data, v->a.bytes);
    return c;
}

/* Brings k values; returns once all of the group have, with *ret holding everybody's (ret->values[i * k + j]). */
static int meet(struct ev_ctx *c, int64_t channel, const uint32_t *group, uint32_t n, struct ev_value *const *values, uint32_t k, struct rdv **ret,
                struct nf_error *err)
{
    struct ev_grid *g = c->f->proc->grid;
    uint32_t me = 0;
    int rc = NF_OK;
    while (me < n && group[me] != c->f->proc->id)
        me++;
    pthread_mutex_lock(&g->lock);
    struct rdv *r = g->meetings;
    for (; r; r = r->next)
        if (r->kind == c->op->id && r->channel == channel && r->n == n && r->k == k && memcmp(r->group, group, n * sizeof(*group)) == 0 && r->arrived < n &&
            !r->here[me])
            break;
    if (!r) {
        r = nf_alloc(sizeof(*r));
        r->kind = c->op->id;
        r->channel = channel;
        r->n = n;
        r->k = k;
        r->group = nf_alloc_array(n, sizeof(*r->group));
        memcpy(r->group, group, n * sizeof(*group));
        r->here = nf_alloc_array(n, sizeof(*r->here));
        r->values = nf_alloc_array((size_t)n * k + 1, sizeof(*r->values));
        r->next = g->meetings;
        g->meetings = r;
    }
    for (uint32_t j = 0; j < k; j++)
        r->values[me * k + j] = g->lasting ? detached(values[j]) : ev_ref(values[j]);
    r->here[me] = true;
    r->arrived++;
    if (r->arrived == n) {
        g->waiting -= n - 1; /* those that stand below run again */
        pthread_cond_broadcast(&g->moved);
    } else if (stuck(c, g, err)) {
        rc = NF_EGRAPH;
    } else {
        while (r->arrived < n && !rc)
            rc = wait_a_moment(c, g, err);
        if (rc && r->arrived < n)
            g->waiting--;
        else
            rc = NF_OK;
    }
    if (rc)
        grid_fail(g, rc, err);
    pthread_mutex_unlock(&g->lock);
    *ret = r;
    return rc;
}

static void rdv_free(struct rdv *r)
{
    for (uint32_t i = 0; i < r->n * r->k; i++)
        ev_unref(r->values[i]);
    free(r->group);
    free(r->here);
    free(r->values);
    free(r);
}

static void leave(struct ev_ctx *c, struct rdv *r)
{
    struct ev_grid *g = c->f->proc->grid;
    pthread_mutex_lock(&g->lock);
    if (++r->left == r->n) {
        struct rdv **at = &g->meetings;
        while (*at != r)
            at = &(*at)->next;
        *at = r->next;
        rdv_free(r);
    }
    pthread_mutex_unlock(&g->lock);
}

/* ---- grids ---- */

static void grid_empty(struct ev_grid *g)
{
    while (g->meetings) {
        struct rdv *r = g->meetings;
        g->meetings = r->next;
        rdv_free(r);
    }
    while (g->mail) {
        struct mail *m = g->mail;
        g->mail = m->next;
        ev_unref(m->tuple);
        free(m);
    }
}


struct worker {
    pthread_t thread;
    bool started;
    struct ev_proc proc;
    const struct ev_func *func;
    /* or a region of a frame that each process has its own copy of */
    const struct ev_block *block;
    struct ev_frame *outer;
    struct ev_value *const *args;
    struct ev_value **rets;
    int rc;
    struct nf_error err;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct ev_grid *g = w->proc.grid;
    if (w->func) {
        w->rc = ev_call(&w->proc, w->func, w->args, w->rets, &w->err);
    } else {
        struct ev_frame f = {.proc = &w->proc, .n_slots = w->outer->n_slots};
        f.slots = nf_alloc_array(f.n_slots ? f.n_slots : 1, sizeof(*f.slots));
        for (uint32_t i = 0; i < f.n_slots; i++)
            f.slots[i] = ev_ref(w->outer->slots[i]);
        w->rc = ev_run_block(&f, w->block, w->args, w->rets, &w->err);
        for (uint32_t i = 0; i < f.n_slots; i++)
            ev_unref(f.slots[i]);
        free(f.slots);
    }
    pthread_mutex_lock(&g->lock);
    g->alive--;
    if (w->rc) {
        grid_fail(g, w->rc, &w->err);
    } else if (g->alive && g->waiting == g->alive) {
        struct nf_error err = {0};
        nf_fail(&err, NF_EGRAPH, "processes wait for one that has ended: not every member of a group runs the same collectives");
        grid_fail(g, NF_EGRAPH, &err);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

static int run_workers(struct ev_run *run, unsigned replicas, unsigned partitions, struct worker *w, struct ev_func **infeed, size_t n_infeed,
                       unsigned depth, const struct hlo_mesh *mesh, uint64_t *draws, struct nf_error *err)
{
    unsigned n = replicas * partitions;
    struct ev_grid g = {.mesh = mesh, .replicas = replicas, .partitions = partitions, .alive = n, .infeed = infeed, .n_infeed = n_infeed};
    pthread_mutex_init(&g.lock, NULL);
    pthread_cond_init(&g.moved, NULL);
    for (unsigned i = 0; i < n; i++)
        w[i].proc = (struct ev_proc){.run = run, .grid = &g, .replica = i / partitions, .partition = i % partitions, .id = i, .depth = depth, .draws = *draws};
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, (size_t)8 << 20);
    for (unsigned i = 1; i < n; i++) {
        int e = pthread_create(&w[i].thread, &attr, work, &w[i]);
        w[i].started = e == 0;
        if (e) {
            pthread_mutex_lock(&g.lock);
            struct nf_error local = {0};
            nf_fail_errno(&local, e, "cannot start a thread for process %u of a grid", i);
            g.alive--;
            w[i].rc = local.code;
            for (uint32_t a = 0; a < (w[i].func ? w[i].func->body->n_args : w[i].block->n_args); a++)
                ev_unref(w[i].args[a]);
            grid_fail(&g, local.code, &local);
            pthread_mutex_unlock(&g.lock);
        }
    }
    work(&w[0]);
    for (unsigned i = 1; i < n; i++)
        if (w[i].started)
            pthread_join(w[i].thread, NULL);
    pthread_attr_destroy(&attr);
    for (unsigned i = 0; i < n; i++)
        *draws = NF_MAX(*draws, w[i].proc.draws);
    int rc = g.failed ? g.code : NF_OK;
    if (rc && err)
        *err = g.error;
    grid_empty(&g);
    pthread_mutex_destroy(&g.lock);
    pthread_cond_destroy(&g.moved);
    return rc;
}

static void drop_results(struct worker *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!w[i].rc)
            for (uint32_t k = 0; k < (w[i].func ? w[i].func->body->n_results : w[i].block->n_results); k++) {
                ev_unref(w[i].rets[k]);
                w[i].rets[k] = NULL;
            }
}

int ev_grid_run(struct ev_run *run, unsigned replicas, unsigned partitions, struct ev_func *const *funcs, struct ev_func **infeed, size_t n_infeed,
                struct ev_value *const *const *args, struct ev_value ***rets, uint64_t *draws, struct nf_error *err)
{
    unsigned n = replicas * partitions;
    struct worker *w = nf_alloc_array(n, sizeof(*w));
    for (unsigned i = 0; i < n; i++) {
        w[i].func = funcs[i];
        w[i].args = args[i];
        w[i].rets = rets[i];
    }
    int rc = run_workers(run, replicas, partitions, w, infeed, n_infeed, 0, NULL, draws, err);
    if (rc)
        drop_results(w, n);
    free(w);
    return rc;
}

int hlo_e_run_parallel(struct ev_ctx *c, struct nf_error *err)
{
    struct hlo_eval *e = c->f->proc->run->eval;
    const struct hlo_attr *rows = hlo_op_attr(c->op, HLO_A_programs), *feed = hlo_op_attr(c->op, HLO_A_infeed);
    unsigned replicas = 0, partitions = 0;
    if (!rows || rows->kind != HLO_ATTR_ARRAY || !rows->array.n || rows->array.v[0]->kind != HLO_ATTR_ARRAY)
        return ev_fail(c, err, NF_EGRAPH, "programs is not a list of lists of functions");
    replicas = (unsigned)rows->array.n;
    partitions = (unsigned)rows->array.v[0]->array.n;
    if (!partitions || replicas > 1024 || partitions > 1024 || replicas * partitions > 1024)
        return ev_fail(c, err, NF_ELIMIT, "a grid of %u replicas and %u partitions is not supported", replicas, partitions);
    unsigned n = replicas * partitions;
    struct ev_func **funcs = nf_alloc_array(n, sizeof(*funcs)), **infeed = NULL;
    struct ev_value ***args = nf_alloc_array(n, sizeof(*args)), ***rets = nf_alloc_array(n, sizeof(*rets));
    size_t n_infeed = 0;
    uint32_t at = 0, out = 0;
    int rc = NF_OK;
    for (unsigned i = 0; i < n && !rc; i++) {
        const struct hlo_attr *row = rows->array.v[i / partitions];
        const struct hlo_attr *sym = row->kind == HLO_ATTR_ARRAY && row->array.n == partitions ? row->array.v[i % partitions] : NULL;
        funcs[i] = sym && sym->kind == HLO_ATTR_SYMBOL ? ev_func_find(e, sym->str) : NULL;
        if (!funcs[i] || at + funcs[i]->body->n_args > c->n_in || out + funcs[i]->body->n_results > c->n_out) {
            rc = ev_fail(c, err, NF_EGRAPH, "programs do not fit the operands and results");
            break;
        }
        args[i] = nf_alloc_array(funcs[i]->body->n_args + 1, sizeof(**args));
        for (uint32_t k = 0; k < funcs[i]->body->n_args; k++)
            args[i][k] = ev_ref(c->in[at++]);
        rets[i] = &c->out[out];
        out += funcs[i]->body->n_results;
    }
    if (!rc && (at != c->n_in || out != c->n_out))
        rc = ev_fail(c, err, NF_EGRAPH, "programs do not fit the operands and results");
    if (!rc && feed && feed->kind == HLO_ATTR_ARRAY && feed->array.n) {
        infeed = nf_alloc_array(feed->array.n, sizeof(*infeed));
        for (; n_infeed < feed->array.n && !rc; n_infeed++) {
            const struct hlo_attr *sym = feed->array.v[n_infeed];
            infeed[n_infeed] = sym->kind == HLO_ATTR_SYMBOL ? ev_func_find(e, sym->str) : NULL;
            if (!infeed[n_infeed] || infeed[n_infeed]->body->n_args)
                rc = ev_fail(c, err, NF_EGRAPH, "infeed is not a list of functions without arguments");
        }
    }
    if (rc) {
        for (unsigned i = 0; i < n; i++)
            for (uint32_t k = 0; args[i] && k < funcs[i]->body->n_args; k++)
                ev_unref(args[i][k]);
    } else {
        rc = ev_grid_run(c->f->proc->run, replicas, partitions, funcs, infeed, n_infeed, (struct ev_value *const *const *)args, rets, &c->f->proc->draws, err);
        if (rc)
            memset(c->out, 0, c->n_out * sizeof(*c->out));
    }
    for (unsigned i = 0; i < n; i++)
        free(args[i]);
    free(args);
    free(rets);
    free(funcs);
    free(infeed);
    return rc;
}

/* ---- groups of runs ---- */

struct hlo_eval_group {
    struct hlo_eval_group *next;
    char *name;
    struct ev_grid grid;
    uint32_t members;
    bool *taken;
    bool closing;               /* a member has left: nobody joins any more */
};

/* Guards the list, members and taken; taken before a grid's lock. */
static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hlo_eval_group *groups;

int hlo_eval_group_join(const char *name, uint32_t replicas, uint32_t partitions, uint32_t rank, struct hlo_eval_group **ret_group, struct nf_error *err)
{
    if (!replicas || !partitions || replicas > 1024 || partitions > 1024 || replicas * partitions > 1024 || rank >= replicas * partitions)
        return nf_fail(err, NF_EINVAL, "rank %u of a grid of %u replicas and %u partitions", rank, replicas, partitions);
    int rc = NF_OK;
    pthread_mutex_lock(&groups_lock);
    struct hlo_eval_group *g = groups;
    for (; g; g = g->next) {
        bool same = g->grid.replicas == replicas && g->grid.partitions == partitions;
        if (!g->closing && strcmp(g->name, name) == 0 && !(same && g->taken[rank]))
            break; /* where the rank is taken, a second group of that name begins */
    }
    if (g && (g->grid.replicas != replicas || g->grid.partitions != partitions)) {
        rc = nf_fail(err, NF_EINVAL, "group %s is a grid of %u replicas and %u partitions", name, g->grid.replicas, g->grid.partitions);
    } else if (!g) {
        g = nf_alloc(sizeof(*g));
        g->name = nf_strdup(name);
        g->taken = nf_alloc_array((size_t)replicas * partitions, sizeof(bool));
        g->grid = (struct ev_grid){.replicas = replicas, .partitions = partitions, .alive = replicas * partitions, .lasting = true};
        pthread_mutex_init(&g->grid.lock, NULL);
        pthread_cond_init(&g->grid.moved, NULL);
        g->next = groups;
        groups = g;
    }
    if (!rc) {
        g->taken[rank] = true;
        g->members++;
        *ret_group = g;
    }
    pthread_mutex_unlock(&groups_lock);
    return rc;
}

void hlo_eval_group_leave(struct hlo_eval_group *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&groups_lock);
    g->closing = true;
    struct nf_error left = {0};
    nf_fail(&left, NF_ECANCELLED, "a member of the group was unloaded");
    pthread_mutex_lock(&g->grid.lock);
    grid_fail(&g->grid, NF_ECANCELLED, &left);
    pthread_mutex_unlock(&g->grid.lock);
    if (--g->members == 0) {
        struct hlo_eval_group **at = &groups;
        while (*at != g)
            at = &(*at)->next;
        *at = g->next;
        grid_empty(&g->grid);
        pthread_mutex_destroy(&g->grid.lock);
        pthread_cond_destroy(&g->grid.moved);
        free(g->taken);
        free(g->name);
        free(g);
    }
    pthread_mutex_unlock(&groups_lock);
}

void ev_grid_enter(struct ev_grid *g, uint32_t rank, struct ev_proc *p)
{
    p->grid = g;
    p->id = rank;
    p->replica = rank / g->partitions;
    p->partition = rank % g->partitions;
}

void ev_grid_exit(struct ev_grid *g, int rc, const struct nf_error *err)
{
    if (!rc)
        return;
    pthread_mutex_lock(&g->lock);
    grid_fail(g, rc, err);
    pthread_mutex_unlock(&g->lock);
}

int hlo_eval_run_member(struct hlo_eval *e, struct hlo_eval_group *group, uint32_t rank, const struct rt_array *inputs, size_t n_inputs,
                        struct rt_array *outputs, size_t n_outputs, struct nf_error *err)
{
    return ev_run_with(e, NF_STR(""), &group->grid, rank, 1, 1, inputs, n_inputs, outputs, n_outputs, err);
}

/* ---- which processes form a group ---- */

enum grouping { CROSS_REPLICA, CROSS_PARTITION, CROSS_BOTH, FLATTENED };

static void grid_size(const struct ev_ctx *c, unsigned *replicas, unsigned *partitions)
{
    const struct ev_grid *g = c->f->proc->grid;
    *replicas = g ? g->replicas : 1;
    *partitions = g ? g->partitions : 1;
}

/* The group that this process belongs to: *ret_n ids (0: none). Memory of the caller to free. */
static int my_group(struct ev_ctx *c, enum grouping how, uint32_t **ret, uint32_t *ret_n, struct nf_error *err)
{
    const struct hlo_attr *a = hlo_op_attr(c->op, HLO_A_replica_groups);
    unsigned replicas, partitions;
    grid_size(c, &replicas, &partitions);
    unsigned me = c->f->proc->id, r = c->f->proc->replica, p = c->f->proc->partition, n = replicas * partitions;
    int64_t rows = 0, cols = 0, *table = NULL;
    uint64_t count = 0;
    struct nf_arena *arena = nf_arena_new(0);
    if (a && a->kind == HLO_ATTR_MESH_AXES) {
        if (!hlo_mesh_groups(c->f->proc->run->eval->module, &a->mesh_axes, arena, &rows, &cols, &table)) {
            nf_arena_free(arena);
            return ev_fail(c, err, NF_EUNSUPPORTED, "the mesh axes of its replica groups cannot be evaluated");
        }
        count = (uint64_t)(rows * cols);
    } else if (a && a->kind == HLO_ATTR_DENSE && hlo_type_count(a->type, &count) && count && a->type->rank == 2) {
        rows = a->type->dims[0];
        cols = (int64_t)count / rows;
    }
    uint32_t *ids = nf_alloc_array(n + 1, sizeof(*ids));
    int rc = NF_OK;
    if (!count) { /* no groups: all in one */
        rows = 1;
        cols = how == CROSS_REPLICA || how == CROSS_BOTH ? replicas : how == CROSS_PARTITION ? partitions : n;
    }
    bool found = false;
    uint32_t k = 0;
    for (int64_t row = 0; row < rows && !found && !rc; row++) {
        k = 0;
        unsigned repeat = how == CROSS_BOTH ? partitions : 1;
        for (unsigned q = 0; q < repeat && !rc; q++)
            for (int64_t col = 0; col < cols && !rc; col++) {
                int64_t v = table ? table[row * cols + col] : count ? hlo_attr_dense_int_at(a, (size_t)(row * cols + col)) : col;
                if (v < 0)
                    continue; /* padding of ragged groups */
                int64_t limit = how == CROSS_PARTITION ? partitions : how == FLATTENED ? n : replicas;
                if (v >= limit || k >= n) {
                    rc = ev_fail(c, err, NF_EGRAPH, "replica group %lld names %lld, which the grid of %u x %u does not have", (long long)row, (long long)v,
                        replicas, partitions);
                    break;
                }
                uint32_t id = how == CROSS_REPLICA ? (uint32_t)v * partitions + p : how == CROSS_PARTITION ? r * partitions + (uint32_t)v
                                                                            : how == CROSS_BOTH ? (uint32_t)v * partitions + q : (uint32_t)v;
                for (uint32_t z = 0; z < k && !rc; z++)
                    if (ids[z] == id)
                        rc = ev_fail(c, err, NF_EGRAPH, "replica group %lld names a process twice", (long long)row);
                ids[k++] = id;
                found = found || id == me;
            }
    }
    nf_arena_free(arena);
    if (rc) {
        free(ids);
        return rc;
    }
    *ret_n = found ? k : 0;
    *ret = ids;
    return NF_OK;
}

static int64_t channel_of(const struct ev_ctx *c)
{
    const struct hlo_attr *a = hlo_op_attr(c->op, HLO_A_channel_handle);
    return a && a->kind == HLO_ATTR_CHANNEL ? a->channel.handle : 0;
}

static enum grouping by_channel(const struct ev_ctx *c)
{
    if (channel_of(c) <= 0)
        return CROSS_REPLICA;
    return hlo_op_bool(c->op, HLO_A_use_global_device_ids, false) ? FLATTENED : CROSS_BOTH;
}
static enum grouping replica_or_partition(const struct ev_ctx *c) { return channel_of(c) > 0 ? CROSS_PARTITION : CROSS_REPLICA; }

/* A grid of one for programs that run alone. */
struct alone {
    struct ev_grid g;
    bool used;
};
static void enter_alone(struct ev_ctx *c, struct alone *a)
{
    if (c->f->proc->grid)
        return;
    a->used = true;
    a->g = (struct ev_grid){.replicas = 1, .partitions = 1, .alive = 1};
    pthread_mutex_init(&a->g.lock, NULL);
    pthread_cond_init(&a->g.moved, NULL);
    c->f->proc->grid = &a->g;
}
static void leave_alone(struct ev_ctx *c, struct alone *a)
{
    if (!a->used)
        return;
    grid_empty(&a->g);
    pthread_mutex_destroy(&a->g.lock);
    pthread_cond_destroy(&a->g.moved);
    c->f->proc->grid = NULL;
}

/* Meets the group with the k first operands. *ret NULL with NF_OK: this process is in no group. */
static int gather_group(struct ev_ctx *c, enum grouping how, uint32_t k, struct alone *a, struct rdv **ret, uint32_t *ret_me, struct nf_error *err)
{
    uint32_t *ids = NULL, n = 0;
    enter_alone(c, a);
    *ret = NULL;
    int rc = my_group(c, how, &ids, &n, err);
    if (!rc && n) {
        rc = meet(c, channel_of(c), ids, n, c->in, k, ret, err);
        for (*ret_me = 0; ids[*ret_me] != c->f->proc->id; ++*ret_me)
            ;
    }
    free(ids);
    if (rc)
        *ret = NULL;
    for (uint32_t i = 1; !rc && *ret && i < n; i++)
        for (uint32_t j = 0; j < k && !rc; j++) {
            const struct ev_value *v = (*ret)->values[i * k + j], *first = (*ret)->values[j];
            if (v->kind != EV_ARRAY || first->kind != EV_ARRAY || v->a.dtype != first->a.dtype || !rt_array_same_shape(&v->a, &first->a))
                rc = ev_fail(c, err, NF_EGRAPH, "members of the group bring arrays of different types");
        }
    if (rc && *ret) {
        leave(c, *ret);
        *ret = NULL;
    }
    return rc;
}

/* ---- collectives ---- */

int hlo_e_replica_id(struct ev_ctx *c, struct nf_error *err)
{
    int rc = ev_out_new(c, 0, err);
    uint32_t v = c->f->proc->replica;
    if (!rc)
        ev_convert(1, c->out[0]->a.dtype, c->out[0]->a.data, NF_DT_U32, &v);
    return rc;
}

int hlo_e_partition_id(struct ev_ctx *c, struct nf_error *err)
{
    int rc = ev_out_new(c, 0, err);
    uint32_t v = c->f->proc->partition;
    if (!rc)
        ev_convert(1, c->out[0]->a.dtype, c->out[0]->a.data, NF_DT_U32, &v);
    return rc;
}

/* Result i zero: of processes that no group names. */
static int all_zero(struct ev_ctx *c, struct nf_error *err)
{
    int rc = NF_OK;
    for (uint32_t i = 0; i < c->n_out && !rc; i++)
        if (!c->out[i])
            rc = ev_out_shaped(c, i, c->in[i]->a.rank, c->in[i]->a.dims, err);
    return rc;
}

int hlo_e_all_gather(struct ev_ctx *c, struct nf_error *err)
{
    struct alone a = {0};
    struct rdv *r;
    uint32_t me;
    int64_t d = hlo_op_i64(c->op, HLO_A_all_gather_dim, 0);
    int rc = gather_group(c, by_channel(c), c->n_in, &a, &r, &me, err);
    for (uint32_t j = 0; j < c->n_in && !rc; j++) {
        int64_t dims[RT_ARRAY_RANK_MAX], start[RT_ARRAY_RANK_MAX] = {0};
        memcpy(dims, c->in[j]->a.dims, sizeof(dims));
        uint32_t n = r ? r->n : 1;
        dims[d] *= n;
        rc = ev_out_shaped(c, j, c->in[j]->a.rank, dims, err);
        for (uint32_t i = 0; i < n && !rc && r; i++) {
            ev_update(&c->out[j]->a, start, &r->values[i * r->k + j]->a);
            start[d] += c->in[j]->a.dims[d];
        }
    }
    if (r)
        leave(c, r);
    leave_alone(c, &a);
    return rc;
}

/* Value j of all members, reduced in the group's order, into a new array. */
static int reduce_group(struct ev_ctx *c, struct rdv *r, uint32_t j, struct ev_value **ret, struct nf_error *err)
{
    const struct rt_array *first = &r->values[j]->a;
    struct ev_body b;
    int rc = ev_array_new(c->f->proc->run, first->dtype, first->rank, first->dims, ret, err);
    if (rc)
        return rc;
    if (first->bytes)
        memcpy((*ret)->a.data, first->data, first->bytes);
    if ((rc = ev_body_init(c, 0, &b, err)))
        return rc;
    size_t w = nf_dtype_bytes(first->dtype);
    int64_t n = rt_array_count(first);
    if (b.block->n_args != 2 || b.block->n_results != 1 || b.out_width[0] != w)
        rc = ev_fail(c, err, NF_EUNSUPPORTED, "the region does not combine two elements of the operand's type");
    for (uint32_t i = 1; i < r->n && !rc; i++)
        for (int64_t at = 0; at < n && !rc; at += EV_CHUNK) {
            char *acc = (char *)(*ret)->a.data + (size_t)at * w;
            const void *args[2] = {acc, (const char *)r->values[i * r->k + j]->a.data + (size_t)at * w};
            void *res[1] = {acc};
            rc = ev_body_call(&b, NF_MIN((int64_t)EV_CHUNK, n - at), args, res, err);
        }
    ev_body_done(&b);
    return rc;
}

int hlo_e_all_reduce(struct ev_ctx *c, struct nf_error *err)
{
    struct alone a = {0};
    struct rdv *r;
    uint32_t me;
    enum grouping how = c->op->id == HLO_OP_CROSS_REPLICA_SUM ? CROSS_REPLICA : by_channel(c);
    int rc = gather_group(c, how, c->n_in, &a, &r, &me, err);
    for (uint32_t j = 0; j < c->n_in && !rc; j++)
        rc = r ? reduce_group(c, r, j, &c->out[j], err) : ev_out_shaped(c, j, c->in[j]->a.rank, c->in[j]->a.dims, err);
    if (r)
        leave(c, r);
    leave_alone(c, &a);
    return rc;
}

int hlo_e_reduce_scatter(struct ev_ctx *c, struct nf_error *err)
{
    struct alone a = {0};
    struct rdv *r;
    uint32_t me = 0;
    int64_t d = hlo_op_i64(c->op, HLO_A_scatter_dimension, 0);
    int rc = gather_group(c, by_channel(c), c->n_in, &a, &r, &me, err);
    for (uint32_t j = 0; j < c->n_in && !rc; j++) {
        struct ev_value *sum = NULL;
        int64_t dims[RT_ARRAY_RANK_MAX], start[RT_ARRAY_RANK_MAX] = {0};
        memcpy(dims, c->in[j]->a.dims, sizeof(dims));
        if (!r || dims[d] % r->n) {
            rc = ev_fail(c, err, NF_EGRAPH, "dimension %lld does not split over the group", (long long)d);
            break;
        }
        dims[d] /= r->n;
        start[d] = dims[d] * me;
        rc = reduce_group(c, r, j, &sum, err);
        rc = rc ? rc : ev_out_shaped(c, j, c->in[j]->a.rank, dims, err);
        if (!rc)
            ev_slice(&sum->a, start, NULL, &c->out[j]->a);
        ev_unref(sum);
    }
    if (r)
        leave(c, r);
    leave_alone(c, &a);
    return rc;
}

int hlo_e_all_to_all(struct ev_ctx *c, struct nf_error *err)
{
    struct alone a = {0};
    struct rdv *r;
    uint32_t me = 0;
    int64_t split = hlo_op_i64(c->op, HLO_A_split_dimension, 0), concat = hlo_op_i64(c->op, HLO_A_concat_dimension, 0),
            count = hlo_op_i64(c->op, HLO_A_split_count, 1);
    int rc = gather_group(c, replica_or_partition(c), c->n_in, &a, &r, &me, err);
    for (uint32_t j = 0; j < c->n_in && !rc; j++) {
        int64_t dims[RT_ARRAY_RANK_MAX], start[RT_ARRAY_RANK_MAX] = {0}, put[RT_ARRAY_RANK_MAX] = {0};
        memcpy(dims, c->in[j]->a.dims, sizeof(dims));
        if (!r || (int64_t)r->n != count || dims[split] % count) {
            rc = ev_fail(c, err, NF_EGRAPH, "split count %lld does not fit the group or dimension %lld", (long long)count, (long long)split);
            break;
        }
        struct ev_value *part = NULL;
        dims[split] /= count;
        start[split] = dims[split] * me;
        rc = ev_array_new(c->f->proc->run, c->in[j]->a.dtype, c->in[j]->a.rank, dims, &part, err);
        int64_t piece = dims[concat];
        dims[concat] *= count;
        rc = rc ? rc : ev_out_shaped(c, j, c->in[j]->a.rank, dims, err);
        for (uint32_t i = 0; i < r->n && !rc; i++) {
            ev_slice(&r->values[i * r->k + j]->a, start, NULL, &part->a);
            ev_update(&c->out[j]->a, put, &part->a);
            put[concat] += piece;
        }
        ev_unref(part);
    }
    if (r)
        leave(c, r);
    leave_alone(c, &a);
    return rc;
}

int hlo_e_collective_permute(struct ev_ctx *c, struct nf_error *err)
{
    const struct hlo_attr *pairs = hlo_op_attr(c->op, HLO_A_source_target_pairs);
    struct alone a = {0};
    enter_alone(c, &a);
    unsigned replicas, partitions;
    grid_size(c, &replicas, &partitions);
    bool part = channel_of(c) > 0;
    /* everybody of the row (column) meets: the simplest rule that needs no order */
    uint32_t n = part ? partitions : replicas, *ids = nf_alloc_array(n, sizeof(*ids)), mine = part ? c->f->proc->partition : c->f->proc->replica;
    for (uint32_t i = 0; i < n; i++)
        ids[i] = part ? c->f->proc->replica * partitions + i : i * partitions + c->f->proc->partition;
    struct rdv *r = NULL;
    int rc = meet(c, channel_of(c), ids, n, c->in, 1, &r, err);
    uint64_t count = 0;
    if (!rc && pairs && pairs->kind == HLO_ATTR_DENSE && hlo_type_count(pairs->type, &count))
        for (uint64_t i = 0; i + 1 < count && !rc; i += 2) {
            int64_t from = hlo_attr_dense_int_at(pairs, i), to = hlo_attr_dense_int_at(pairs, i + 1);
            if (from < 0 || from >= n || to < 0 || to >= n)
                rc = ev_fail(c, err, NF_EGRAPH, "the grid does not have the pair [%lld, %lld]", (long long)from, (long long)to);
            else if (to == mine && !c->out[0])
                c->out[0] = ev_ref(r->values[from]);
        }
    if (!rc && !c->out[0])
        rc = ev_out_shaped(c, 0, c->in[0]->a.rank, c->in[0]->a.dims, err);
    if (r && r->arrived == r->n)
        leave(c, r);
    free(ids);
    leave_alone(c, &a);
    return rc;
}

/* Index in the group of the member that value j comes from or goes to. */
static int root_of(struct ev_ctx *c, struct rdv *r, uint32_t data, uint32_t j, uint32_t *ret, struct nf_error *err)
{
    *ret = 0;
    if (!hlo_op_bool(c->op, HLO_A_has_dynamic_root, false))
        return NF_OK;
    const struct rt_array *roots = &c->in[data]->a;
    int64_t root = rt_array_count(roots) > j ? ev_int_at(roots->dtype, roots->data, j) : -1;
    if (root < 0 || root >= r->n)
        return ev_fail(c, err, NF_EGRAPH, "root %lld is not in the group of %u", (long long)root, r->n);
    *ret = (uint32_t)root;
    return NF_OK;
}

int hlo_e_collective_broadcast(struct ev_ctx *c, struct nf_error *err)
{
    struct alone a = {0};
    struct rdv *r;
    uint32_t me, root = 0, data = c->n_in - hlo_op_bool(c->op, HLO_A_has_dynamic_root, false);
    int rc = gather_group(c, replica_or_partition(c), data, &a, &r, &me, err);
    for (uint32_t j = 0; j < data && !rc && r; j++)
        if (!(rc = root_of(c, r, data, j, &root, err)))
            c->out[j] = ev_ref(r->values[root * r->k + j]);
    rc = rc ? rc : all_zero(c, err);
    if (r)
        leave(c, r);
    leave_alone(c, &a);
    return rc;
}

int hlo_e_collective_reduce(struct ev_ctx *c, struct nf_error *err)
{
    struct alone a = {0};
    struct rdv *r;
    uint32_t me = 0, root = 0, data = c->n_in - hlo_op_bool(c->op, HLO_A_has_dynamic_root, false);
    enum grouping how = hlo_op_bool(c->op, HLO_A_use_global_device_ids, false) ? by_channel(c) : replica_or_partition(c);
    int rc = gather_group(c, how, data, &a, &r, &me, err);
    for (uint32_t j = 0; j < data && !rc && r; j++)
        if (!(rc = root_of(c, r, data, j, &root, err)) && root == me)
            rc = reduce_group(c, r, j, &c->out[j], err);
    rc = rc ? rc : all_zero(c, err);
    if (r)
        leave(c, r);
    leave_alone(c, &a);
    return rc;
}

/* ---- between two processes, and with the host ---- */

/* Partner of this process among source_target_pairs; -1: none. Without pairs: -2. */
static int64_t partner(struct ev_ctx *c, bool sending)
{
    const struct hlo_attr *p = hlo_op_attr(c->op, HLO_A_source_target_pairs);
    uint64_t count = 0;
    if (!p || p->kind != HLO_ATTR_DENSE || !hlo_type_count(p->type, &count) || !count)
        return -2;
    for (uint64_t i = 0; i + 1 < count; i += 2) {
        int64_t from = hlo_attr_dense_int_at(p, i), to = hlo_attr_dense_int_at(p, i + 1);
        if ((sending ? from : to) == c->f->proc->id)
            return sending ? to : from;
    }
    return -1;
}

int hlo_e_send(struct ev_ctx *c, struct nf_error *err)
{
    struct ev_grid *g = c->f->proc->grid;
    if (!g)
        return ev_fail(c, err, NF_EUNSUPPORTED, "there is nobody to receive: the program runs alone");
    int64_t to = partner(c, true), channel = channel_of(c);
    c->out[0] = ev_token_new();
    if (to == -1)
        return NF_OK;
    struct ev_value *tuple = ev_tuple_new(c->n_in ? c->n_in - 1 : 0, c->in);
    if (g->lasting) {
        struct ev_value *own = detached(tuple);
        ev_unref(tuple);
        tuple = own;
    }
    pthread_mutex_lock(&g->lock);
    struct receiver **at = &g->receivers;
    while (*at && ((*at)->channel != channel || (*at)->got || (to >= 0 && (*at)->id != to)))
        at = &(*at)->next;
    if (*at) {
        (*at)->got = tuple;
        g->waiting--;
        pthread_cond_broadcast(&g->moved);
    } else {
        struct mail *m = nf_alloc(sizeof(*m)), **end = &g->mail;
        *m = (struct mail){.channel = channel, .to = to >= 0 ? to : -1, .tuple = tuple};
        while (*end)
            end = &(*end)->next;
        *end = m;
    }
    pthread_mutex_unlock(&g->lock);
    return NF_OK;
}

int hlo_e_recv(struct ev_ctx *c, struct nf_error *err)
{
    struct ev_grid *g = c->f->proc->grid;
    uint32_t n = c->n_out - 1;
    if (!g)
        return ev_fail(c, err, NF_EUNSUPPORTED, "there is nobody to send: the program runs alone");
    if (partner(c, false) == -1) {
        int rc = NF_OK;
        for (uint32_t i = 0; i < n && !rc; i++)
            rc = ev_out_new(c, i, err);
        c->out[n] = ev_token_new();
        return rc;
    }
    struct receiver me = {.channel = channel_of(c), .id = c->f->proc->id};
    int rc = NF_OK;
    pthread_mutex_lock(&g->lock);
    struct mail **at = &g->mail;
    while (*at && ((*at)->channel != me.channel || ((*at)->to >= 0 && (*at)->to != me.id)))
        at = &(*at)->next;
    if (*at) {
        struct mail *m = *at;
        *at = m->next;
        me.got = m->tuple;
        free(m);
    } else {
        me.next = g->receivers;
        g->receivers = &me;
        if (stuck(c, g, err))
            rc = NF_EGRAPH;
        while (!me.got && !rc)
            if ((rc = wait_a_moment(c, g, err)) && !me.got)
                g->waiting--;
        struct receiver **r = &g->receivers;
        while (*r != &me)
            r = &(*r)->next;
        *r = me.next;
        if (me.got)
            rc = NF_OK;
    }
    pthread_mutex_unlock(&g->lock);
    if (rc)
        return rc;
    if (me.got->n != n) {
        rc = ev_fail(c, err, NF_EGRAPH, "%u values were sent where %u are received", me.got->n, n);
    } else {
        for (uint32_t i = 0; i < n; i++)
            c->out[i] = ev_ref(me.got->parts[i]);
        c->out[n] = ev_token_new();
    }
    ev_unref(me.got);
    return rc;
}

int hlo_e_infeed(struct ev_ctx *c, struct nf_error *err)
{
    struct ev_grid *g = c->f->proc->grid;
    uint32_t n = c->n_out - 1;
    struct ev_func *f = NULL;
    if (g) {
        pthread_mutex_lock(&g->lock);
        f = g->next_infeed < g->n_infeed ? g->infeed[g->next_infeed++] : NULL;
        pthread_mutex_unlock(&g->lock);
    }
    if (!f)
        return ev_fail(c, err, NF_EUNSUPPORTED, "the queue of inputs is empty");
    if (f->body->n_results != n)
        return ev_fail(c, err, NF_EGRAPH, "the queue gives %u values where %u are taken", f->body->n_results, n);
    int rc = ev_call(c->f->proc, f, NULL, c->out, err);
    if (!rc)
        c->out[n] = ev_token_new();
    return rc;
}

int hlo_e_outfeed(struct ev_ctx *c, struct nf_error *err) { return hlo_e_token(c, err); }

/* ---- sdy.manual_computation: the region once per device of the mesh ---- */

static size_t device(const struct hlo_mesh *m, unsigned pos) { return m->n ? (size_t)m->device_at[pos] : 0; }

/* Piece of an operand, on a device that has the whole. */
static int piece_of(struct ev_ctx *c, const struct ev_value *v, const struct hlo_mesh_cut *cut, int64_t pos, struct ev_value **ret, struct nf_error *err)
{
    int64_t dims[RT_ARRAY_RANK_MAX], start[RT_ARRAY_RANK_MAX] = {0};
    for (int k = 0; k < cut->rank; k++) {
        dims[k] = v->a.dims[k] / hlo_mesh_pieces(cut, k);
        if (dims[k] * hlo_mesh_pieces(cut, k) != v->a.dims[k])
            return ev_fail(c, err, NF_EUNSUPPORTED, "dimension %d of an operand does not divide by %lld", k, (long long)hlo_mesh_pieces(cut, k));
    }
    int rc = ev_array_new(c->f->proc->run, v->a.dtype, v->a.rank, dims, ret, err);
    if (rc)
        return rc;
    hlo_mesh_start(cut, pos, dims, start);
    ev_slice(&v->a, start, NULL, &(*ret)->a);
    return NF_OK;
}

/* The array that the pieces of the devices which differ in its digits make up. */
static int whole_of(struct ev_ctx *c, const struct hlo_mesh *m, struct ev_value *piece, const struct hlo_mesh_cut *cut, int64_t pos, uint32_t i, struct nf_error *err)
{
    int64_t dims[RT_ARRAY_RANK_MAX], start[RT_ARRAY_RANK_MAX] = {0}, *at = nf_alloc_array((size_t)m->devices, sizeof(*at));
    uint32_t n = (uint32_t)hlo_mesh_pieces_of(cut, pos, at), *ids = nf_alloc_array(n, sizeof(*ids));
    struct rdv *r = NULL;
    for (uint32_t k = 0; k < n; k++)
        ids[k] = (uint32_t)m->device_at[at[k]];
    for (int d = 0; d < cut->rank; d++)
        dims[d] = piece->a.dims[d] * hlo_mesh_pieces(cut, d);
    int rc = meet(c, -1, ids, n, &piece, 1, &r, err);
    bool met = rc == NF_OK;
    rc = rc ? rc : ev_out_shaped(c, i, cut->rank, dims, err);
    for (uint32_t k = 0; k < n && !rc; k++) {
        if (r->values[k]->kind != EV_ARRAY || r->values[k]->a.dtype != piece->a.dtype || !rt_array_same_shape(&r->values[k]->a, &piece->a)) {
            rc = ev_fail(c, err, NF_EGRAPH, "devices bring pieces of different types");
            break;
        }
        hlo_mesh_start(cut, at[k], piece->a.dims, start);
        ev_update(&c->out[i]->a, start, &r->values[k]->a);
    }
    if (met)
        leave(c, r);
    free(at);
    free(ids);
    return rc;
}

/* On a device that runs already: the region takes its pieces of what is there, and what it gives is put together from the devices that have the rest. */
static int run_inside(struct ev_ctx *c, const struct ev_block *b, const struct hlo_mesh *m, const struct hlo_mesh_cut *cuts, struct nf_error *err)
{
    const struct ev_grid *g = c->f->proc->grid;
    struct ev_value **args = nf_alloc_array(c->n_in + 1, sizeof(*args)), **rets = nf_alloc_array(c->n_out + 1, sizeof(*rets));
    bool cut = !hlo_mesh_uncut(cuts, c->n_in + c->n_out);
    struct hlo_mesh both = g->mesh ? *g->mesh : (struct hlo_mesh){0};
    int64_t pos = 0;
    int rc = NF_OK;
    if (cut && !g->mesh)
        rc = ev_fail(c, err, NF_EUNSUPPORTED, "cuts arrays inside a grid of several partitions");
    else if (cut && !hlo_mesh_nest(&both, m))
        rc = ev_fail(c, err, NF_EUNSUPPORTED, "cuts arrays inside another by its axes, or over another mesh");
    while (cut && !rc && m->device_at[pos] != c->f->proc->id)
        pos++;
    for (uint32_t i = 0; i < c->n_in && !rc; i++) {
        if (hlo_mesh_uncut(&cuts[i], 1))
            args[i] = ev_ref(c->in[i]);
        else
            rc = piece_of(c, c->in[i], &cuts[i], pos, &args[i], err);
    }
    if (rc) {
        for (uint32_t i = 0; i < c->n_in; i++)
            ev_unref(args[i]);
    } else {
        rc = ev_run_block(c->f, b, args, rets, err);
        for (uint32_t i = 0; i < c->n_out && !rc; i++) {
            if (hlo_mesh_uncut(&cuts[c->n_in + i], 1))
                c->out[i] = ev_ref(rets[i]);
            else
                rc = whole_of(c, m, rets[i], &cuts[c->n_in + i], pos, i, err);
        }
        for (uint32_t i = 0; i < c->n_out; i++)
            ev_unref(rets[i]);
    }
    free(args);
    free(rets);
    return rc;
}

int hlo_e_manual_computation(struct ev_ctx *c, struct nf_error *err)
{
    const struct ev_block *b = c->inst->regions[0];
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_mesh m = {.devices = 1};
    struct hlo_mesh_cut *cuts = NULL;
    struct nf_error why = {0};
    int rc = NF_OK;
    bool inside = c->f->proc->grid && c->f->proc->grid->partitions > 1;
    if (hlo_mesh_manual(c->f->proc->run->eval->module, c->op, arena, &m, &cuts, &why))
        rc = ev_fail(c, err, NF_EUNSUPPORTED, "%s", why.message);
    else if (inside)
        rc = run_inside(c, b, &m, cuts, err);
    if (rc || inside) {
        nf_arena_free(arena);
        return rc;
    }
    for (uint32_t i = 0; i < c->n_in && !rc; i++)
        if (c->in[i]->kind != EV_ARRAY || cuts[i].rank != c->in[i]->a.rank)
            rc = ev_fail(c, err, NF_EUNSUPPORTED, "operand %u is not an array of its sharding's rank", i);
    unsigned n = (unsigned)m.devices;
    struct worker *w = nf_alloc_array(n, sizeof(*w));
    struct ev_value **args = nf_alloc_array((size_t)n * c->n_in + 1, sizeof(*args)), **rets = nf_alloc_array((size_t)n * c->n_out + 1, sizeof(*rets));
    for (unsigned d = 0; d < n && !rc; d++)
        for (uint32_t i = 0; i < c->n_in && !rc; i++) {
            int64_t dims[RT_ARRAY_RANK_MAX], start[RT_ARRAY_RANK_MAX] = {0};
            for (int k = 0; k < cuts[i].rank && !rc; k++) {
                int64_t p = hlo_mesh_pieces(&cuts[i], k);
                dims[k] = c->in[i]->a.dims[k] / p;
                if (dims[k] * p != c->in[i]->a.dims[k])
                    rc = ev_fail(c, err, NF_EUNSUPPORTED, "dimension %d of operand %u does not divide by %lld", k, i, (long long)p);
            }
            struct ev_value *arg = NULL; /* process i of the grid is device i, wherever that stands in the mesh */
            rc = rc ? rc : ev_array_new(c->f->proc->run, c->in[i]->a.dtype, c->in[i]->a.rank, dims, &arg, err);
            if (!rc) {
                args[device(&m, d) * c->n_in + i] = arg;
                hlo_mesh_start(&cuts[i], d, dims, start);
                ev_slice(&c->in[i]->a, start, NULL, &arg->a);
            }
        }
    if (rc) {
        for (size_t i = 0; i < (size_t)n * c->n_in; i++)
            ev_unref(args[i]);
    } else {
        for (unsigned d = 0; d < n; d++) {
            w[d].block = b;
            w[d].outer = c->f;
            w[d].args = args + d * c->n_in;
            w[d].rets = rets + d * c->n_out;
        }
        rc = run_workers(c->f->proc->run, 1, n, w, NULL, 0, c->f->proc->depth, &m, &c->f->proc->draws, err);
        for (uint32_t i = 0; i < c->n_out && !rc; i++) {
            const struct rt_array *p = &rets[i]->a;
            const struct hlo_mesh_cut *k = &cuts[c->n_in + i];
            int64_t dims[RT_ARRAY_RANK_MAX], start[RT_ARRAY_RANK_MAX] = {0};
            if (rets[i]->kind != EV_ARRAY || k->rank != p->rank) {
                rc = ev_fail(c, err, NF_EUNSUPPORTED, "result %u is not an array of its sharding's rank", i);
                break;
            }
            for (int q = 0; q < p->rank; q++)
                dims[q] = p->dims[q] * hlo_mesh_pieces(k, q);
            rc = ev_out_shaped(c, i, p->rank, dims, err);
            for (unsigned d = n; d-- > 0 && !rc;) { /* device 0 last: its copy of what is replicated is the result */
                hlo_mesh_start(k, d, p->dims, start);
                ev_update(&c->out[i]->a, start, &rets[device(&m, d) * c->n_out + i]->a);
            }
        }
        drop_results(w, n);
    }
    free(w);
    free(args);
    free(rets);
    nf_arena_free(arena);
    return rc;
}
