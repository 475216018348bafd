/* group.c: see group.h. */
#include "runtime/cpu/group.h"

#include "base/str.h"

#include <pthread.h>

struct cpu_meeting {
    struct cpu_meeting *next;
    int kind;
    int64_t channel;
    uint32_t n, arrived, read, gone;
    bool broken;                /* and no longer in the list */
    int64_t *ids;
    const void **shown;         /* NULL: not there yet */
};

struct parcel {
    struct parcel *next;
    int64_t channel, to;
    uint64_t round;             /* of who sent it */
    void *data;
};

struct receiver {               /* who waits for a parcel */
    struct receiver *next;
    int64_t channel, me;
    void *got;
    bool broken;                /* and no longer in the list */
};

struct member {
    uint64_t round;             /* of its latest turn; 0: it has had none */
    uint64_t doomed;            /* the latest round that failed without it */
};

struct cpu_rendezvous {
    struct cpu_rendezvous *next;
    char *name;
    uint32_t size, users;
    bool closed;                /* made by cpu_group_new */
    pthread_mutex_t lock;       /* guards all below; innermost but for none */
    pthread_cond_t turn;
    uint32_t waiting, running;  /* waiting: for one that has not come, or a parcel that was not sent */
    uint64_t breaks, broken;    /* how often waits were broken up, and the last round that failed */
    uint64_t stuck;             /* the last of the breaks that was because nobody was left who could come; 0: none was */
    struct member *member;      /* by rank */
    struct cpu_meeting *meetings; /* that are not full */
    struct parcel *mail, *fed;
    struct receiver *receivers;
};

static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER; /* guards groups and users; taken before no other */
static struct cpu_rendezvous *groups;

static struct cpu_rendezvous *new_group(const char *name, uint32_t size)
{
    struct cpu_rendezvous *g = nf_alloc(sizeof *g);
    g->name = nf_strdup(name);
    g->size = size;
    g->member = nf_alloc_array((size_t)size + 1, sizeof *g->member);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->turn, NULL);
    return g;
}

static void drop(struct parcel **list)
{
    while (*list) {
        struct parcel *p = *list;
        *list = p->next;
        free(p->data);
        free(p);
    }
}

static void free_group(struct cpu_rendezvous *g)
{
    drop(&g->mail);
    drop(&g->fed);
    pthread_cond_destroy(&g->turn);
    pthread_mutex_destroy(&g->lock);
    free(g->member);
    free(g->name);
    free(g);
}

struct cpu_rendezvous *cpu_group_new(uint32_t size)
{
    struct cpu_rendezvous *g = new_group("", size);
    g->closed = true;
    g->running = size;
    for (uint32_t i = 0; i < size; i++) g->member[i].round = 1;
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

static void *take(struct parcel **at)
{
    struct parcel *p = *at;
    void *data = p ? p->data : NULL;
    if (p) *at = p->next;
    free(p);
    return data;
}

/* With the lock. */
static bool is_broken(const struct cpu_rendezvous *g, const struct cpu_turn *t) { return t->doomed || g->breaks != t->breaks; }

/* With the lock: everybody who waits gets an error, and nobody who comes later meets them. */
static void break_up(struct cpu_rendezvous *g)
{
    g->breaks++;
    for (struct cpu_meeting *m = g->meetings; m; m = m->next) m->broken = true;
    for (struct receiver *r = g->receivers; r; r = r->next) r->broken = true;
    g->meetings = NULL;
    g->receivers = NULL;
    g->waiting = 0;
    pthread_cond_broadcast(&g->turn);
}

void cpu_group_begin(struct cpu_rendezvous *g, uint32_t rank, struct cpu_turn *ret_turn)
{
    pthread_mutex_lock(&g->lock);
    struct member *m = &g->member[rank];
    g->running++;
    m->round++;
    *ret_turn = (struct cpu_turn){rank, m->round <= m->doomed, g->breaks};
    pthread_mutex_unlock(&g->lock);
}

/* With the lock: those who wait are all that run, and nobody else can begin. Where members come and go, a wait lasts until somebody comes. */
static void look_stuck(struct cpu_rendezvous *g)
{
    if ((!g->closed && g->size > 1) || !g->waiting || g->waiting < g->running) return;
    drop(&g->mail);
    break_up(g);
    g->stuck = g->breaks;
}

void cpu_group_end(struct cpu_rendezvous *g, const struct cpu_turn *t, bool failed)
{
    pthread_mutex_lock(&g->lock);
    uint64_t round = g->member[t->rank].round;
    g->running--;
    if (failed && (!is_broken(g, t) || (g->size > 1 && round > g->broken && !t->doomed))) { /* else it failed because its round had */
        g->broken = round;
        for (uint32_t i = 0; i < g->size; i++)
            if (g->member[i].round < round) g->member[i].doomed = round;
        for (struct parcel **at = &g->mail; *at;)
            if ((*at)->round > round) at = &(*at)->next;
            else free(take(at));
        break_up(g);
    }
    look_stuck(g);
    pthread_mutex_unlock(&g->lock);
}

/* A turn from before a break has ended before a later one is for want of who could come. */
static int broken(const struct cpu_rendezvous *g, const struct cpu_turn *t, struct nf_error *err)
{
    if (g->stuck > t->breaks) return nf_fail(err, NF_EGRAPH, "devices wait for one another or for one that has ended: not every member of a group runs the same collectives");
    if (g->closed) return nf_fail(err, NF_EINTERNAL, "another device failed");
    return nf_fail(err, NF_EINTERNAL, "another member of the group %s failed", g->name);
}

static void unlink_meeting(struct cpu_rendezvous *g, struct cpu_meeting *m)
{
    struct cpu_meeting **at = &g->meetings;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
}

static void free_meeting(struct cpu_meeting *m)
{
    free(m->ids);
    free(m->shown);
    free(m);
}

/* With the lock: who meets is in the same round, which is the latest that one of them counted. */
static void same_round(struct cpu_rendezvous *g, const struct cpu_meeting *m)
{
    uint64_t round = 0;
    for (uint32_t i = 0; i < m->n; i++)
        if (m->ids[i] < g->size) round = NF_MAX(round, g->member[m->ids[i]].round);
    for (uint32_t i = 0; i < m->n; i++)
        if (m->ids[i] < g->size) g->member[m->ids[i]].round = round;
}

int cpu_group_meet(struct cpu_rendezvous *g, const struct cpu_turn *t, int kind, int64_t channel, const int64_t *ids, uint32_t n, uint32_t me, const void *data,
                   struct cpu_meeting **ret_meeting, struct nf_error *err)
{
    int rc = 0;
    pthread_mutex_lock(&g->lock);
    if (is_broken(g, t)) {
        rc = broken(g, t, err);
        pthread_mutex_unlock(&g->lock);
        return rc;
    }
    struct cpu_meeting *m = g->meetings;
    while (m && (m->kind != kind || m->channel != channel || m->n != n || m->shown[me] || memcmp(m->ids, ids, n * sizeof *ids) != 0)) m = m->next;
    if (!m) {
        m = nf_alloc(sizeof *m);
        *m = (struct cpu_meeting){.next = g->meetings, .kind = kind, .channel = channel, .n = n, .ids = nf_alloc_array(n, sizeof *ids), .shown = nf_alloc_array(n, sizeof *m->shown)};
        memcpy(m->ids, ids, n * sizeof *ids);
        g->meetings = m;
    }
    m->shown[me] = data;
    if (++m->arrived == n) {
        unlink_meeting(g, m);
        same_round(g, m);
        g->waiting -= n - 1;
        pthread_cond_broadcast(&g->turn);
    } else {
        g->waiting++;
        look_stuck(g);
        while (m->arrived < n && !m->broken) pthread_cond_wait(&g->turn, &g->lock);
        if (m->broken) {
            if (--m->arrived == 0) free_meeting(m);
            m = NULL;
            rc = broken(g, t, err);
        }
    }
    pthread_mutex_unlock(&g->lock);
    if (!rc) *ret_meeting = m;
    return rc;
}

const void *cpu_meeting_shown(const struct cpu_meeting *m, uint32_t i) { return m->shown[i]; }

void cpu_group_part(struct cpu_rendezvous *g, struct cpu_meeting *m)
{
    pthread_mutex_lock(&g->lock);
    if (++m->read == m->n) pthread_cond_broadcast(&g->turn);
    while (m->read < m->n) pthread_cond_wait(&g->turn, &g->lock); /* they only compute meanwhile, and come */
    if (++m->gone == m->n) free_meeting(m);
    pthread_mutex_unlock(&g->lock);
}

static void append(struct parcel **list, int64_t channel, int64_t to, uint64_t round, void *data)
{
    struct parcel *p = nf_alloc(sizeof *p);
    *p = (struct parcel){.channel = channel, .to = to, .round = round, .data = data};
    while (*list) list = &(*list)->next;
    *list = p;
}

void cpu_group_send(struct cpu_rendezvous *g, const struct cpu_turn *t, int64_t channel, int64_t to, void *parcel)
{
    pthread_mutex_lock(&g->lock);
    struct receiver *r = g->receivers;
    bool lost = is_broken(g, t);
    while (r && !lost && (r->channel != channel || r->got || (to >= 0 && r->me != to))) r = r->next;
    if (lost) {
        free(parcel);
    } else if (r) {
        r->got = parcel;
        g->waiting--;
        pthread_cond_broadcast(&g->turn);
    } else {
        append(&g->mail, channel, to, g->member[t->rank].round, parcel);
    }
    pthread_mutex_unlock(&g->lock);
}

int cpu_group_receive(struct cpu_rendezvous *g, const struct cpu_turn *t, int64_t channel, int64_t me, void **ret_parcel, struct nf_error *err)
{
    struct receiver r = {.channel = channel, .me = me};
    int rc = 0;
    pthread_mutex_lock(&g->lock);
    if (is_broken(g, t)) {
        rc = broken(g, t, err);
        pthread_mutex_unlock(&g->lock);
        return rc;
    }
    struct parcel **at = &g->mail;
    while (*at && ((*at)->channel != channel || ((*at)->to >= 0 && (*at)->to != me))) at = &(*at)->next;
    r.got = take(at);
    if (!r.got) {
        struct receiver **end = &g->receivers;
        while (*end) end = &(*end)->next; /* who came first is served first */
        *end = &r;
        g->waiting++;
        look_stuck(g);
        while (!r.got && !r.broken) pthread_cond_wait(&g->turn, &g->lock);
        if (!r.got) rc = broken(g, t, err);
        if (!r.broken) {
            for (end = &g->receivers; *end != &r;) end = &(*end)->next;
            *end = r.next;
        }
    }
    pthread_mutex_unlock(&g->lock);
    if (!rc) *ret_parcel = r.got;
    return rc;
}

void cpu_group_feed(struct cpu_rendezvous *g, void *parcel)
{
    pthread_mutex_lock(&g->lock);
    append(&g->fed, 0, -1, 0, parcel);
    pthread_mutex_unlock(&g->lock);
}

void *cpu_group_fed(struct cpu_rendezvous *g)
{
    pthread_mutex_lock(&g->lock);
    void *parcel = take(&g->fed);
    pthread_mutex_unlock(&g->lock);
    return parcel;
}

uint32_t cpu_group_size(const struct cpu_rendezvous *g) { return g->size; }
