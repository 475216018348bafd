/* hit.h: from an entry of the cache to the answer that a caller gets. Any thread: the pump answers hits in the local tier itself.
 *
 * What an answer says beyond the footer (target, compiler, provenance) stands in the entry's metadata; the last thousand
 * are remembered, so that a repeated hit costs no second read. */
#ifndef NEFFD_DAEMON_HIT_H
#define NEFFD_DAEMON_HIT_H

#include "cache/read.h"
#include "daemon/server.h"

struct hit_info {
    char target[64], compiler[256], host[128], compile_id[64], name[128];
    uint32_t pid, attempts;
    uint64_t started_us, compile_us;
};

/* A Done with all that it points to. In place, then hit_answer_x, then pack or send; nothing in it is freed. */
struct hit_answer {
    Neffd__V1__Done done;
    Neffd__V1__Artifact artifact;
    Neffd__V1__Times times;
    Neffd__V1__Provenance provenance;
    struct hit_info info;
    struct nf_digest front, key, sha256;
    char path[4352];
};

/* PATH needs a Unix socket, a wish that is not FETCH, and a file that the caller's uid may read; else the path is left out. */
bool hit_path_fits(const struct srv_peer *peer, Neffd__V1__Delivery delivery, int fd);
void hit_answer_fill(struct hit_answer *a, struct cache_hit *hit, Neffd__V1__Outcome outcome, const struct nf_digest *front,
                     const struct srv_peer *peer, Neffd__V1__Delivery delivery);
void hit_answer_miss(struct hit_answer *a, const struct nf_digest *front, const struct nf_digest *key);
/* Called once before any thread starts. */
void hit_init(void);
void hit_done(void);

#endif
