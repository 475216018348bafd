/* group.c: see group.h. */
#include "runtime/cpu/group.h"

#include "base/str.h"

#include <pthread.h>

struct cpu_rendezvous {
    struct cpu_rendezvous *next;
    char *name;
    uint32_t size, users;
    pthread_mutex_t lock;       /* guards all below; innermost but for none */
    pthread_cond_t turn;
    uint32_t waiting, running;
    uint64_t round;
    bool broken;
    bool closed, stuck;         /* made by cpu_group_new; nobody is left who could come to the meeting */
    const void **shown;
};

static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER; /* guards groups and users; taken before no other */
static struct cpu_rendezvous *groups;

static struct cpu_rendezvous *new_group(const char *name, uint32_t size)
{
    struct cpu_rendezvous *g = nf_alloc(sizeof *g);
    g->name = nf_strdup(name);
    g->size = size;
    g->shown = nf_alloc_array(size, sizeof *g->shown);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->turn, NULL);
    return g;
}

static void free_group(struct cpu_rendezvous *g)
{
    pthread_cond_destroy(&g->turn);
    pthread_mutex_destroy(&g->lock);
    free(g->shown);
    free(g->name);
    free(g);
}

struct cpu_rendezvous *cpu_group_new(uint32_t size)
{
    struct cpu_rendezvous *g = new_group("", size);
    g->closed = true;
    g->running = size;
    return g;
}

int cpu_group_join(const char *name, uint32_t size, struct cpu_rendezvous **ret_group, struct nf_error *err)
{
    int rc = 0;
    pthread_mutex_lock(&groups_lock);
    struct cpu_rendezvous *g = groups;
    while (g && strcmp(g->name, name) != 0) g = g->next;
    if (!g) {
        g = new_group(name, size);
        g->next = groups;
        groups = g;
    }
    if (g->size != size) rc = nf_fail(err, NF_EINVAL, "the group %s has %u members, not %u", name, g->size, size);
    else g->users++;
    pthread_mutex_unlock(&groups_lock);
    if (!rc) *ret_group = g;
    return rc;
}

void cpu_group_leave(struct cpu_rendezvous *g)
{
    if (!g) return;
    if (g->closed) {
        free_group(g);
        return;
    }
    pthread_mutex_lock(&groups_lock);
    if (--g->users == 0) {
        struct cpu_rendezvous **at = &groups;
        while (*at != g) at = &(*at)->next;
        *at = g->next;
        free_group(g);
    }
    pthread_mutex_unlock(&groups_lock);
}

void cpu_group_begin(struct cpu_rendezvous *g)
{
    pthread_mutex_lock(&g->lock);
    if (g->running == 0) g->broken = false;
    g->running++;
    pthread_mutex_unlock(&g->lock);
}

/* With the lock: of a closed group, those who wait are all that still run. */
static void look_stuck(struct cpu_rendezvous *g)
{
    if (!g->closed || g->broken || !g->waiting || g->running == g->size || g->waiting < g->running) return;
    g->stuck = g->broken = true;
    pthread_cond_broadcast(&g->turn);
}

void cpu_group_end(struct cpu_rendezvous *g, bool failed)
{
    pthread_mutex_lock(&g->lock);
    g->running--;
    if (failed) g->broken = true;
    look_stuck(g);
    pthread_cond_broadcast(&g->turn);
    pthread_mutex_unlock(&g->lock);
}

/* All members come here once before any goes on. Called with the lock. */
static int meet(struct cpu_rendezvous *g, struct nf_error *err)
{
    uint64_t round = g->round;
    if (++g->waiting == g->size) {
        g->waiting = 0;
        g->round++;
        pthread_cond_broadcast(&g->turn);
    }
    look_stuck(g);
    while (g->round == round && !g->broken) pthread_cond_wait(&g->turn, &g->lock);
    if (g->round != round) return 0;
    g->waiting--;
    if (g->stuck) return nf_fail(err, NF_EGRAPH, "devices wait for one that has ended: not every member of a group runs the same collectives");
    if (g->closed) return nf_fail(err, NF_EINTERNAL, "another device failed");
    return nf_fail(err, NF_EINTERNAL, "another member of the group %s failed", g->name);
}

int cpu_group_show(struct cpu_rendezvous *g, uint32_t rank, const void *data, const void *const **ret_all, struct nf_error *err)
{
    pthread_mutex_lock(&g->lock);
    g->shown[rank] = data;
    int rc = meet(g, err);
    pthread_mutex_unlock(&g->lock);
    if (!rc) *ret_all = (const void *const *)g->shown;
    return rc;
}

int cpu_group_release(struct cpu_rendezvous *g, struct nf_error *err)
{
    pthread_mutex_lock(&g->lock);
    int rc = meet(g, err);
    pthread_mutex_unlock(&g->lock);
    return rc;
}

uint32_t cpu_group_size(const struct cpu_rendezvous *g) { return g->size; }
