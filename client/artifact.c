/* artifact.c: the bytes of an answer: a hit of this host's tier, a file that the daemon named, or bytes fetched from it.
 *
 * A path from the daemon is only believed after a look at the file: a regular file of the daemon's user, root or this
 * process's user, whose footer (or, where it has none, whose SHA-256) is what the answer says. One socket does not mean one
 * mount namespace, so whatever does not hold ends in Fetch, not in an error. Fetched bytes live in a sealed memfd. */
#include "client/client_internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "runtime/neff.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FETCH_ATTEMPTS = 5 };

static neffd_artifact *artifact_new(void)
{
    neffd_artifact *a = nf_alloc(sizeof(*a));
    a->fd = -1;
    a->owner_uid = UINT32_MAX;
    return a;
}

neffd_artifact *cl_artifact_of_hit(struct cache_hit *hit, int outcome)
{
    neffd_artifact *a = artifact_new();
    const struct cache_footer *f = cache_hit_footer(hit);
    a->hit = hit;
    a->owner_uid = cache_hit_owner(hit);
    a->bytes = f->raw_bytes;
    a->sha256 = f->sha256;
    a->path = nf_strdup(cache_hit_path(hit));
    a->outcome = outcome;
    return a;
}

/* ------------------------------------------------------------------------------------------------------------ by path */

static int hash_file(int fd, uint64_t bytes, struct nf_digest *ret_digest)
{
    struct nf_sha256 sha;
    uint64_t at = 0;
    size_t chunk = (size_t)1 << 20;
    char *buf = nf_alloc(chunk);
    int r = NF_OK;
    nf_sha256_init(&sha);
    while (at < bytes && r == NF_OK) {
        size_t n = (size_t)NF_MIN((uint64_t)chunk, bytes - at);
        r = nf_fd_pread_all(fd, buf, n, at);
        nf_sha256_add(&sha, buf, n);
        at += n;
    }
    free(buf);
    *ret_digest = nf_sha256_end(&sha);
    return r;
}

static int open_path(neffd_client *client, const Neffd__V1__Artifact *m, int *ret_fd, uint32_t *ret_owner, struct nf_error *err)
{
    struct stat st;
    struct cache_footer footer;
    struct nf_digest sha, want;
    int fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot open %s", m->path);
    int r = NF_OK;
    memcpy(want.bytes, m->sha256.data, NF_DIGEST_BYTES);
    if (fstat(fd, &st) < 0) {
        r = nf_fail_errno(err, errno, "cannot stat %s", m->path);
    } else if (!S_ISREG(st.st_mode)) {
        r = nf_fail(err, NF_ECORRUPT, "%s is not a regular file", m->path);
    } else if (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != cl_client_daemon_uid(client)) {
        r = nf_fail(err, NF_EPERM, "%s belongs to uid %u, who is neither the daemon's user, root nor this process's", m->path, st.st_uid);
    } else if ((uint64_t)st.st_size < m->size) {
        r = nf_fail(err, NF_ECORRUPT, "%s is shorter than the %llu bytes of the artifact", m->path, (unsigned long long)m->size);
    } else {
        /* Held while in use, so that eviction passes it by. Refused by some file systems: then an unlinked file stays readable. */
        (void)flock(fd, LOCK_SH | LOCK_NB);
        if (cache_footer_read(fd, (uint64_t)st.st_size, &footer, NULL) == NF_OK && footer.encoding == CACHE_RAW) {
            if (!nf_digest_eq(&footer.sha256, &want) || footer.raw_bytes != m->size)
                r = nf_fail(err, NF_ECORRUPT, "%s holds another artifact than the daemon said", m->path);
        } else {
            r = hash_file(fd, m->size, &sha);
            if (r == NF_OK && !nf_digest_eq(&sha, &want))
                r = nf_fail(err, NF_ECORRUPT, "%s does not have the digest that the daemon said", m->path);
            else if (r < 0)
                nf_fail(err, r, "cannot read %s", m->path);
        }
    }
    if (r < 0) {
        close(fd);
        return r;
    }
    *ret_fd = fd;
    *ret_owner = st.st_uid;
    return NF_OK;
}

/* -------------------------------------------------------------------------------------------------------------- fetch */

static int fetch_from(struct cl_channel *channel, const Neffd__V1__Artifact *m, int fd, uint64_t *at, struct nf_sha256 *sha,
    int64_t deadline_ns, struct nf_error *err)
{
    Neffd__V1__FetchRequest ask = NEFFD__V1__FETCH_REQUEST__INIT;
    struct nf_buf out = NF_BUF_INIT;
    struct cl_call *call = NULL;
    struct nf_str bytes;
    ask.sha256 = m->sha256;
    ask.offset = *at;
    int r = rpc_encode(&ask.base, &out);
    if (r >= 0)
        r = cl_call_start(channel, rpc_method(RPC_FETCH)->path, deadline_ns, &call, err);
    if (r >= 0)
        r = cl_call_send(call, out.data, out.len, true, err);
    while (r >= 0 && (r = cl_call_recv(call, &bytes, err)) == 1) {
        ProtobufCMessage *base;
        r = rpc_decode(&neffd__v1__fetch_chunk__descriptor, bytes, &base, err);
        if (r < 0)
            break;
        const Neffd__V1__FetchChunk *chunk = (const Neffd__V1__FetchChunk *)base;
        if (chunk->offset != *at || chunk->data.len > m->size - *at)
            r = nf_fail(err, NF_EPROTOCOL, "the daemon sent bytes at %llu where %llu were due", (unsigned long long)chunk->offset, (unsigned long long)*at);
        else if ((r = nf_fd_write_all(fd, chunk->data.data, chunk->data.len)) < 0)
            nf_fail(err, r, "no room for the artifact's bytes");
        if (r >= 0) {
            nf_sha256_add(sha, chunk->data.data, chunk->data.len);
            *at += chunk->data.len;
        }
        protobuf_c_message_free_unpacked(base, NULL);
    }
    if (r == NF_OK && *at < m->size)
        r = nf_fail(err, NF_EDISCONNECTED, "the daemon ended the transfer after %llu of %llu bytes", (unsigned long long)*at, (unsigned long long)m->size);
    cl_call_free(call);
    nf_buf_done(&out);
    return r;
}

static int fetch(neffd_client *client, const Neffd__V1__Artifact *m, int64_t deadline_ns, int *ret_fd, struct nf_error *err)
{
    struct cl_channel *channel;
    struct nf_sha256 sha;
    struct nf_digest got, want;
    uint64_t at = 0;
    int r = cl_client_channel(client, &channel, err);
    if (r < 0)
        return r;
    if (m->size > (uint64_t)INT64_MAX)
        return nf_fail(err, NF_EPROTOCOL, "the daemon names an artifact of %llu bytes", (unsigned long long)m->size);
    int fd = memfd_create("neffd-artifact", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return nf_fail_errno(err, errno, "no memory for the artifact");
    memcpy(want.bytes, m->sha256.data, NF_DIGEST_BYTES);
    nf_sha256_init(&sha);
    for (int attempt = 1;; attempt++) {
        uint64_t before = at;
        r = fetch_from(channel, m, fd, &at, &sha, deadline_ns, err);
        if (r >= 0 || r != NF_EDISCONNECTED || (at == before && attempt >= FETCH_ATTEMPTS))
            break;
        if (at != before)
            attempt = 0; /* it gets on: as often as it takes */
        else
            nf_sleep_ns((int64_t)attempt * 50 * NF_MS);
    }
    if (r >= 0) {
        got = nf_sha256_end(&sha);
        if (!nf_digest_eq(&got, &want))
            r = nf_fail(err, NF_ECORRUPT, "the bytes that the daemon sent do not have the digest that it said");
        else if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
            r = nf_fail_errno(err, errno, "cannot seal the artifact's memory");
    }
    if (r < 0) {
        close(fd);
        return r;
    }
    *ret_fd = fd;
    return NF_OK;
}

int cl_artifact_of_message(neffd_client *client, const Neffd__V1__Artifact *m, int outcome, int64_t deadline_ns,
    neffd_artifact **ret_artifact, struct nf_error *err)
{
    struct nf_error why = {0};
    uint32_t owner = geteuid();
    int fd = -1, r = NF_ENOTFOUND;
    if (m->sha256.len != NF_DIGEST_BYTES)
        return nf_fail(err, NF_EPROTOCOL, "the daemon named an artifact without a digest");
    if (m->path[0] == '/')
        r = open_path(client, m, &fd, &owner, &why);
    bool by_path = r == NF_OK;
    if (!by_path) {
        /* Fetched bytes are what the daemon vouches for: as trustworthy as a file of its user. */
        uid_t daemon = cl_client_daemon_uid(client);
        owner = daemon == (uid_t)-1 ? geteuid() : daemon;
        r = fetch(client, m, deadline_ns, &fd, err);
    }
    if (r < 0) {
        if (why.message[0] && err) {
            char both[sizeof(err->message)];
            (void)nf_format(both, sizeof(both), "%s (it was not read by its path: %s)", err->message, why.message);
            (void)nf_format(err->message, sizeof(err->message), "%s", both);
        }
        return r;
    }
    neffd_artifact *a = artifact_new();
    a->fd = fd;
    a->owner_uid = owner;
    a->bytes = m->size;
    memcpy(a->sha256.bytes, m->sha256.data, NF_DIGEST_BYTES);
    a->path = by_path ? nf_strdup(m->path) : nf_asprintf("/proc/%d/fd/%d", (int)getpid(), fd);
    a->outcome = outcome;
    (void)nf_format(a->target, sizeof(a->target), "%s", m->target);
    *ret_artifact = a;
    return NF_OK;
}

int cl_artifact_of_file(const char *path, struct nf_str bytes, neffd_artifact **ret_artifact, struct nf_error *err)
{
    struct stat st;
    struct neff *neff;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int e = errno;
        if (fd >= 0)
            close(fd);
        return nf_fail_errno(err, e, "cannot open %s", path);
    }
    /* An entry of the cache has metadata behind the payload, and a footer that says where it ends. */
    struct cache_footer footer;
    if (cache_footer_read(fd, (uint64_t)st.st_size, &footer, NULL) == NF_OK && footer.encoding == CACHE_RAW && footer.raw_bytes <= bytes.len)
        bytes.len = footer.raw_bytes;
    int r = neff_open(bytes, &neff, err);
    if (r >= 0 && (r = neff_check_hash(neff, bytes, err)) < 0)
        neff_close(neff);
    if (r < 0) {
        close(fd);
        return nf_error_prefix(err, "%s", path), r;
    }
    neffd_artifact *a = artifact_new();
    a->fd = fd;
    a->owner_uid = st.st_uid;
    a->bytes = bytes.len;
    a->sha256 = nf_digest_of(bytes.data, bytes.len);
    a->path = nf_strdup(path);
    (void)nf_format(a->target, sizeof(a->target), "%s", neff_target(neff));
    neff_close(neff);
    *ret_artifact = a;
    return NF_OK;
}

/* ------------------------------------------------------------------------------------------------- Done without an RPC */

static ProtobufCBinaryData copy_bytes(const void *data, size_t len)
{
    ProtobufCBinaryData b = {len, malloc(len ? len : 1)};
    if (b.data)
        memcpy(b.data, data, len);
    else
        b.len = 0;
    return b;
}

/* protobuf_c_message_free_unpacked frees every string that is not the default, so these are malloc's. */
static char *copy_str(struct nf_str s) { return s.len ? nf_strndup(s.data, s.len) : (char *)(uintptr_t)protobuf_c_empty_string; }

Neffd__V1__Done *cl_done_of_hit(struct cache_hit *hit, const struct nf_digest *front_key, int outcome, uint64_t total_us)
{
    const struct cache_footer *f = cache_hit_footer(hit);
    struct nf_arena *arena = nf_arena_new(0);
    struct cache_meta meta;
    bool have_meta = cache_hit_meta(hit, arena, &meta, NULL) == NF_OK;

    Neffd__V1__Done *done = nf_alloc(sizeof(*done));
    neffd__v1__done__init(done);
    done->outcome = (Neffd__V1__Outcome)outcome;
    if (front_key)
        done->front_key = copy_bytes(front_key->bytes, NF_DIGEST_BYTES);
    done->canonical_key = copy_bytes(f->key.bytes, NF_DIGEST_BYTES);
    done->artifact = nf_alloc(sizeof(*done->artifact));
    neffd__v1__artifact__init(done->artifact);
    done->artifact->kind = nf_strdup(cache_kind_word(f->kind));
    /* An entry that was unpacked into memory has no path that means anything to others. */
    const char *path = cache_hit_path(hit);
    if (strncmp(path, "/proc/", 6) != 0)
        done->artifact->path = nf_strdup(path);
    done->artifact->sha256 = copy_bytes(f->sha256.bytes, NF_DIGEST_BYTES);
    done->artifact->size = f->raw_bytes;
    done->artifact->owner_uid = cache_hit_owner(hit);
    done->times = nf_alloc(sizeof(*done->times));
    neffd__v1__times__init(done->times);
    done->times->total_us = total_us;
    done->provenance = nf_alloc(sizeof(*done->provenance));
    neffd__v1__provenance__init(done->provenance);
    done->provenance->compile_us = f->compile_us;
    if (have_meta) {
        done->artifact->target = copy_str(meta.target);
        done->artifact->compiler = copy_str(meta.compiler);
        done->provenance->host = copy_str(meta.host);
        done->provenance->pid = meta.pid;
        done->provenance->started_us = meta.started_us > 0 ? (uint64_t)meta.started_us : 0;
        done->provenance->compile_id = copy_str(meta.compile_id);
        done->provenance->attempts = meta.attempts;
    }
    nf_arena_free(arena);
    return done;
}

/* ------------------------------------------------------------------------------------------------------- public calls */

CL_EXPORT const char *neffd_artifact_path(const neffd_artifact *artifact) { return artifact ? artifact->path : NULL; }
CL_EXPORT const uint8_t *neffd_artifact_sha256(const neffd_artifact *artifact) { return artifact ? artifact->sha256.bytes : NULL; }
CL_EXPORT size_t neffd_artifact_bytes(const neffd_artifact *artifact) { return artifact ? artifact->bytes : 0; }
CL_EXPORT int neffd_artifact_outcome(const neffd_artifact *artifact) { return artifact ? artifact->outcome : 0; }

CL_EXPORT int neffd_artifact_map(neffd_artifact *artifact, const void **ret_data, neffd_error *out)
{
    struct nf_error err = {0};
    int r = NF_OK;
    if (!artifact || !ret_data) {
        r = nf_fail(&err, NF_EINVAL, "no artifact was given");
    } else if (artifact->hit) {
        r = cache_hit_map(artifact->hit, ret_data, &err);
    } else {
        if (!artifact->map) {
            static const char nothing[1];
            void *p = artifact->bytes ? mmap(NULL, artifact->bytes, PROT_READ, MAP_SHARED, artifact->fd, 0) : (void *)(uintptr_t)nothing;
            if (p == MAP_FAILED)
                r = nf_fail_errno(&err, errno, "cannot map %s", artifact->path);
            else
                artifact->map = p;
        }
        if (r == NF_OK)
            *ret_data = artifact->map;
    }
    return r < 0 ? cl_error_out(&err, out) : NF_OK;
}

CL_EXPORT void neffd_artifact_unref(neffd_artifact *artifact)
{
    if (!artifact)
        return;
    cache_hit_close(artifact->hit);
    if (artifact->map && artifact->bytes)
        munmap(artifact->map, artifact->bytes);
    if (artifact->fd >= 0)
        close(artifact->fd);
    free(artifact->path);
    free(artifact);
}
