/* upload.c: the bytes that a caller sends, hashed as they come and kept in a private file each.
 *
 * Nothing that the caller says about them is believed: sizes are checked against what was announced, side files against their
 * digest, and the front key is the one that these bytes give. */
#include "daemon/job_internal.h"

#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool upload_started(const struct upload *u) { return u->parts != NULL; }

void upload_done(struct daemon *d, struct upload *u)
{
    for (size_t i = 0; i < u->count; i++) {
        d->jobs->upload_bytes -= u->parts[i].got;
        if (u->parts[i].fd >= 0)
            close(u->parts[i].fd);
        if (u->parts[i].path)
            unlink(u->parts[i].path);
        free(u->parts[i].path);
    }
    free(u->parts);
    u->parts = NULL;
    u->count = 0;
}

static uint64_t announced(const struct request *r, size_t part)
{
    return part == 0 ? r->start->input_bytes : r->start->side_files[part - 1]->size;
}

static void front_parts(const struct request *r, const char *target, const char *toolchain_id, uint32_t uid, uint64_t bytes,
                        struct cache_front_parts *ret)
{
    const Neffd__V1__CompileStart *s = r->start;
    *ret = (struct cache_front_parts){
        .input_kind = (int)s->input_kind,
        .stop_after = (int)s->stop_after,
        .input_bytes = bytes,
        .target = nf_str_c(target),
        .toolchain_id = nf_str_c(toolchain_id),
        .options = r->options,
        .option_count = s->n_options,
        .side_files = r->side_files,
        .side_file_count = s->n_side_files,
        .base_key = nf_str_c(s->base_key),
        .uid = uid,
        .cache_namespace = nf_str_c(s->cache_namespace),
    };
}

static int begin(struct daemon *d, struct upload *u, const struct request *r, const char *target, const char *toolchain_id, uint32_t uid,
                 struct nf_error *err)
{
    (void)d;
    u->count = r->start->n_side_files + 1;
    u->parts = nf_alloc_array(u->count, sizeof *u->parts);
    for (size_t i = 0; i < u->count; i++)
        u->parts[i].fd = -1;
    if (target && r->start->input_bytes) {
        struct cache_front_parts p;
        front_parts(r, target, toolchain_id, uid, r->start->input_bytes, &p);
        int rc = cache_front_begin(&u->front, &p, err);
        if (rc < 0)
            return rc;
        u->hashing = true;
    }
    return NF_OK;
}

/* Open only while something is written: hundreds of callers may be sending at once, and descriptors are for connections. */
static int open_part(struct daemon *d, struct upload_part *p, struct nf_error *err)
{
    if (!p->path) {
        nf_sha256_init(&p->sha);
        return scratch_file(d->scratch, &p->path, &p->fd, err);
    }
    p->fd = open(p->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    return p->fd >= 0 ? NF_OK : nf_fail_errno(err, errno, "cannot open %s", p->path);
}

static void close_part(struct upload_part *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

static int end_part(struct daemon *d, struct upload *u, const struct request *r, size_t i, struct nf_error *err)
{
    struct upload_part *p = &u->parts[i];
    int rc = p->path ? NF_OK : open_part(d, p, err);   /* an empty part is a file, too */
    if (rc < 0)
        return rc;
    close_part(p);
    p->sha256 = nf_sha256_end(&p->sha);
    if (i == 0)
        return NF_OK;
    if (!nf_digest_eq(&p->sha256, &r->side_files[i - 1].sha256))
        return nf_fail(err, NF_EINVAL, "side file %s is not what its sha256 says", r->start->side_files[i - 1]->name);
    return NF_OK;
}

/* The front key from the file: for callers who did not say how long the graph is, or who were faster than the list of compilers. */
static int hash_again(struct upload *u, const struct request *r, const char *target, const char *toolchain_id, uint32_t uid, struct nf_error *err)
{
    struct nf_map_view v;
    struct cache_front_parts p;
    front_parts(r, target, toolchain_id, uid, u->parts[0].got, &p);
    int rc = cache_front_begin(&u->front, &p, err);
    if (rc < 0)
        return rc;
    rc = nf_map_view_open(u->parts[0].path, &v, err);
    if (rc < 0)
        return rc;
    cache_front_add(&u->front, v.data, v.len);
    nf_map_view_close(&v);
    return NF_OK;
}

static int complete(struct upload *u, const struct request *r, const char *target, const char *toolchain_id, uint32_t uid, struct nf_error *err)
{
    int rc = NF_OK;
    if (!u->hashing)
        rc = hash_again(u, r, target, toolchain_id, uid, err);
    if (rc == NF_OK)
        rc = cache_front_end(&u->front, &u->front_key, err);
    u->complete = rc == NF_OK;
    u->failed = rc != NF_OK;
    return rc;
}

int upload_chunk(struct daemon *d, struct upload *u, const struct request *r, const char *target, const char *toolchain_id, uint32_t uid,
                 const Neffd__V1__Chunk *chunk, struct nf_error *err)
{
    int rc = NF_OK;
    if (!upload_started(u) && (rc = begin(d, u, r, target, toolchain_id, uid, err)) < 0)
        goto out;
    if (chunk->part >= u->count || chunk->part < u->at || (chunk->part > u->at + 1 && chunk->data.len)) {
        rc = nf_fail(err, NF_EINVAL, "chunk of part %u out of order (parts are sent in order, this request has %zu)", chunk->part, u->count);
        goto out;
    }
    while (u->at < chunk->part) {   /* the part before is over */
        if (u->at > 0 && u->parts[u->at].got != announced(r, u->at)) {
            rc = nf_fail(err, NF_EINVAL, "part %zu ended after %llu of %llu bytes", u->at, (unsigned long long)u->parts[u->at].got,
                         (unsigned long long)announced(r, u->at));
            goto out;
        }
        if ((rc = end_part(d, u, r, u->at, err)) < 0)
            goto out;
        u->at++;
    }
    struct upload_part *p = &u->parts[u->at];
    uint64_t limit = announced(r, u->at);
    if (!limit && u->at == 0)
        limit = d->cfg->max_input;
    if (chunk->data.len > limit - p->got) {
        rc = nf_fail(err, announced(r, u->at) ? NF_EINVAL : NF_ELIMIT, "part %zu has more than the %llu bytes that were announced or allowed",
                     u->at, (unsigned long long)limit);
        goto out;
    }
    if (d->jobs->upload_bytes + chunk->data.len > d->cfg->max_uploads) {
        rc = nf_fail(err, NF_EOVERLOADED, "graphs of %llu bytes are being received, the limit is %llu (max_uploads)",
                     (unsigned long long)d->jobs->upload_bytes, (unsigned long long)d->cfg->max_uploads);
        err->retry_after_ms = 1000;
        goto out;
    }
    if ((rc = open_part(d, p, err)) < 0)
        goto out;
    rc = nf_fd_write_all(p->fd, chunk->data.data, chunk->data.len);
    close_part(p);
    if (rc < 0) {
        nf_fail(err, rc, "cannot write %s", p->path);
        scratch_avoid(d->scratch, p->path);
        goto out;
    }
    nf_sha256_add(&p->sha, chunk->data.data, chunk->data.len);
    if (u->at == 0 && u->hashing)
        cache_front_add(&u->front, chunk->data.data, chunk->data.len);
    p->got += chunk->data.len;
    d->jobs->upload_bytes += chunk->data.len;
    /* Complete as soon as the last byte is there: callers may keep their side of the stream open. */
    bool known = true;
    for (size_t i = 0; i < u->count && known; i++)
        known = u->parts[i].got == announced(r, i) && (i > 0 || announced(r, 0) > 0);
    if (known && target) {
        for (size_t i = u->at; i < u->count && rc == NF_OK; i++)
            rc = end_part(d, u, r, i, err);
        if (rc == NF_OK)
            rc = complete(u, r, target, toolchain_id, uid, err);
    }
out:
    if (rc < 0)
        u->failed = true;
    return rc;
}

int upload_end(struct daemon *d, struct upload *u, const struct request *r, const char *target, const char *toolchain_id, uint32_t uid,
               struct nf_error *err)
{
    int rc = NF_OK;
    if (!upload_started(u) && (rc = begin(d, u, r, target, toolchain_id, uid, err)) < 0)
        goto out;
    uint64_t said = announced(r, 0);
    if (u->parts[0].got == 0) {
        rc = nf_fail(err, NF_EGRAPH, "the graph is empty");
        goto out;
    }
    if (said && u->parts[0].got != said) {
        rc = nf_fail(err, NF_EINVAL, "the graph ended after %llu of %llu bytes", (unsigned long long)u->parts[0].got, (unsigned long long)said);
        goto out;
    }
    for (size_t i = u->at; i < u->count; i++) {
        if (i > 0 && u->parts[i].got != announced(r, i)) {
            rc = nf_fail(err, NF_EINVAL, "side file %s ended after %llu of %llu bytes", r->start->side_files[i - 1]->name,
                         (unsigned long long)u->parts[i].got, (unsigned long long)announced(r, i));
            goto out;
        }
        if ((rc = end_part(d, u, r, i, err)) < 0)
            goto out;
    }
    rc = complete(u, r, target, toolchain_id, uid, err);
out:
    if (rc < 0)
        u->failed = true;
    return rc;
}
