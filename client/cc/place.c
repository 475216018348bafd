#include "client/cc/place.h"

#include "base/clock.h"
#include "pipeline/driver/drv_cgroup.h"
#include "pipeline/driver/drv_keeper.h"

#include <sched.h>
#include <unistd.h>

#define SLOTS_MAX 256
#define LOOK_NS (200 * NF_MS)
#define NEED_WORD "neffcc, memory "

struct line {
    struct lock_dir *dir;
    size_t slots;
    int64_t patience_ns, since;        /* since: when a place last changed hands */
    uint64_t holders;                  /* a digest of who holds which */
    bool (*stop)(void *user);
    void *user;
};

static size_t slot_count(const struct cfg *cfg)
{
    cpu_set_t set;
    int64_t cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    int64_t n = cfg->compile_slots > 0 ? cfg->compile_slots : cfg->workers > 0 ? cfg->workers : cpus;
    return (size_t)NF_MIN(n, (int64_t)SLOTS_MAX);
}

static const char *name_of(char out[32], const char *what, size_t i)
{
    nf_format(out, 32, "%s-%zu", what, i);
    return out;
}

/* Whether to wait on: as long as somebody else gets somewhere. */
static int go_on(struct line *l, const char *for_what, struct nf_error *err)
{
    if (l->stop && l->stop(l->user))
        return nf_fail(err, NF_ECANCELLED, "ended while waiting for %s", for_what);
    uint64_t now_held = 0;
    struct lock_owner o = {0};
    char name[32];
    for (size_t i = 0; i < l->slots; i++)
        if (lock_host_owner(l->dir, nf_str_c(name_of(name, "slot", i)), &o) == NF_OK)
            now_held = now_held * 31 + (uint64_t)o.pid * 257 + o.epoch + i;
    int64_t now = nf_now_ns();
    if (now_held != l->holders) {
        l->holders = now_held;
        l->since = now;
    }
    if (now - l->since < l->patience_ns)
        return NF_OK;
    return nf_fail(err, NF_ELOCKTIMEOUT, "no %s became free for %lld s; one of %zu is held by pid %d on %s", for_what,
                   (long long)(l->patience_ns / NF_SEC), l->slots, (int)o.pid, o.host);
}

static int take_slot(struct line *l, size_t *ret_number, struct lock_host **ret_slot, struct nf_error *err)
{
    char name[32];
    for (;;) {
        struct nf_error e = {0};
        for (size_t i = 0; i < l->slots; i++) {
            int r = lock_host_try(l->dir, nf_str_c(name_of(name, "slot", i)), "neffcc", ret_slot, &e);
            *ret_number = i;
            if (r == NF_OK)
                return r;
            if (r != NF_EBUSY)
                return err ? *err = e, r : r;
        }
        int r = go_on(l, "slot", err);
        if (r != NF_OK)
            return r;
        /* Whoever waits looks at another one first, so that not all wait for the same. */
        size_t one = ((size_t)getpid() + (size_t)(nf_now_ns() / LOOK_NS)) % l->slots;
        *ret_number = one;
        if (lock_host_acquire(l->dir, nf_str_c(name_of(name, "slot", one)), "neffcc", LOOK_NS, l->stop, l->user, ret_slot, NULL) == NF_OK)
            return NF_OK;
    }
}

static bool fits(const struct line *l, size_t mine, uint64_t need, uint64_t limit)
{
    char name[32];
    uint64_t expected = 0, to_come = 0, total, available;
    size_t others = 0;
    for (size_t i = 0; i < SLOTS_MAX; i++) {         /* more than our slots: others may have been told another number */
        struct lock_owner o;
        if (i == mine || lock_host_owner(l->dir, nf_str_c(name_of(name, "memory", i)), &o) != NF_OK)
            continue;
        uint64_t theirs = 0, has = o.pid > 0 ? drv_tree_rss(o.pid, NULL) : 0;
        struct nf_str what = nf_str_c(o.what);
        if (nf_str_starts(what, NF_STR(NEED_WORD)))
            nf_str_to_u64(nf_str_n(what.data + strlen(NEED_WORD), what.len - strlen(NEED_WORD)), &theirs);
        if (theirs > has)
            to_come += NF_MIN(theirs, limit) - NF_MIN(has, limit);
        expected += NF_MIN(NF_MAX(theirs, has), limit);
        others++;
    }
    if (others == 0)
        return true;
    if (need > limit || expected > limit - need)
        return false;
    drv_memory(&total, &available);
    return available > to_come && available - to_come >= need;
}

int cc_place_take(struct lock_dir *dir, const struct cfg *cfg, uint64_t need_bytes, int64_t patience_ns, bool (*stop)(void *user), void *user,
                  struct cc_place *ret_place, struct nf_error *err)
{
    struct line l = {.dir = dir, .slots = slot_count(cfg), .patience_ns = patience_ns, .since = nf_now_ns(), .stop = stop, .user = user};
    struct cc_place p = {0};
    struct lock_host *turn = NULL;
    uint64_t total, available;
    size_t number = 0;
    char name[32], what[64];
    drv_memory(&total, &available);
    uint64_t limit = cfg->memory_limit ? cfg->memory_limit : total / 4 * 3;
    uint64_t need = need_bytes ? need_bytes : limit / l.slots;
    int r = take_slot(&l, &number, &p.slot, err);
    while (r == NF_OK && !turn) {
        r = lock_host_acquire(dir, NF_STR("admission"), "neffcc", NF_SEC, stop, user, &turn, NULL);
        if (r == NF_ELOCKTIMEOUT || r == NF_ECANCELLED)
            r = go_on(&l, "room in memory", err);
    }
    while (r == NF_OK && !fits(&l, number, need, limit)) {
        r = go_on(&l, "room in memory", err);
        nf_sleep_ns(LOOK_NS);
    }
    nf_format(what, sizeof(what), NEED_WORD "%llu", (unsigned long long)NF_MIN(need, limit));
    if (r == NF_OK)
        r = lock_host_acquire(dir, nf_str_c(name_of(name, "memory", number)), what, 10 * NF_SEC, stop, user, &p.memory, err);
    lock_host_release(turn);
    if (r != NF_OK) {
        cc_place_leave(&p);
        return r;
    }
    *ret_place = p;
    return NF_OK;
}

void cc_place_leave(struct cc_place *p)
{
    lock_host_release(p->memory);
    lock_host_release(p->slot);
    *p = (struct cc_place){0};
}
