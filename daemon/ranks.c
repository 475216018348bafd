#include "daemon/ranks.h"

#include "base/map.h"

#define ASKED_MAX 4096            /* then all is forgotten: jobs come and go, and a warning missed is no harm */
#define WARNED UINT32_MAX         /* the ordinal under which it is kept that a job has been warned */

struct asked {
    struct nf_digest key;
    char rank[32], name[96];
};

struct ranks {
    struct nf_map *asked;         /* uid, ordinal, job -> struct asked */
};

struct ranks *ranks_new(void)
{
    struct ranks *r = nf_alloc(sizeof *r);
    r->asked = nf_map_new(true);
    return r;
}

static void forget(struct ranks *r)
{
    struct nf_str key;
    void *value;
    for (size_t it = 0; nf_map_next(r->asked, &it, &key, &value);)
        free(value);
    nf_map_free(r->asked);
}

void ranks_free(struct ranks *r)
{
    if (!r)
        return;
    forget(r);
    free(r);
}

static struct nf_str place(char out[160], uint32_t uid, uint32_t ordinal, const char *job)
{
    nf_format(out, 160, "%u %u %.120s", uid, ordinal, job);
    return nf_str_c(out);
}

static void keep(struct ranks *r, struct nf_str at, const struct nf_digest *key, const char *rank, const char *name)
{
    if (nf_map_len(r->asked) >= ASKED_MAX) {
        forget(r);
        r->asked = nf_map_new(true);
    }
    struct asked *a = nf_alloc(sizeof *a);
    a->key = *key;
    nf_format(a->rank, sizeof a->rank, "%.31s", rank);
    nf_format(a->name, sizeof a->name, "%.95s", name);
    nf_map_put(r->asked, at, a);
}

bool ranks_note(struct ranks *r, uint32_t uid, const Neffd__V1__ClientInfo *who, const struct nf_digest *key, const char *name,
                char *ret_text, size_t text_bytes, struct nf_digest *ret_other)
{
    char at[160], mine[NF_DIGEST_HEX], theirs[NF_DIGEST_HEX];
    if (!who || !who->job_id[0] || !who->rank[0] || who->ordinal == WARNED || strncmp(who->tool, "neffcc", 6) == 0)
        return false;
    struct nf_str here = place(at, uid, who->ordinal, who->job_id);
    const struct asked *first = nf_map_get(r->asked, here);
    if (!first) {
        keep(r, here, key, who->rank, name);
        return false;
    }
    if (nf_digest_eq(&first->key, key) || strcmp(first->rank, who->rank) == 0)
        return false;
    struct asked other = *first;
    struct nf_str warned = place(at, uid, WARNED, who->job_id);
    if (nf_map_get(r->asked, warned))
        return false;
    keep(r, warned, key, "", "");
    nf_format(ret_text, text_bytes, "the ranks of job %.64s have drifted apart: as its graph number %u rank %.31s asks for %.95s (%.12s), rank %s asked for %s (%.12s)",
              who->job_id, who->ordinal + 1, who->rank, name[0] ? name : "an unnamed one", nf_digest_hex(key, mine), other.rank,
              other.name[0] ? other.name : "an unnamed one", nf_digest_hex(&other.key, theirs));
    *ret_other = other.key;
    return true;
}
