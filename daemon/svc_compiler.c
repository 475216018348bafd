/* svc_compiler.c: neffd.v1.Compiler: Compile, Lookup, Fetch. */
#include "daemon/daemon.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/hit.h"
#include "daemon/job.h"
#include "daemon/task.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <uv.h>

/* -------------------------------------------------------------------------------------------------------------- Compile */

static void compile_request(struct srv_call *call, struct nf_str message)
{
    struct nf_error err = {0};
    ProtobufCMessage *m = NULL;
    if (rpc_decode(&neffd__v1__compile_request__descriptor, message, &m, &err) < 0) {
        srv_finish(call, &err);
        return;
    }
    Neffd__V1__CompileRequest *r = (Neffd__V1__CompileRequest *)m;
    struct waiter *w = srv_call_user(call);
    if (r->message_case == NEFFD__V1__COMPILE_REQUEST__MESSAGE_START && !w) {
        Neffd__V1__CompileStart *start = r->start;
        r->start = NULL;   /* the request's from here on */
        r->message_case = NEFFD__V1__COMPILE_REQUEST__MESSAGE__NOT_SET;
        job_request(the_daemon, call, start);
    } else if (r->message_case == NEFFD__V1__COMPILE_REQUEST__MESSAGE_CHUNK && w) {
        job_waiter_chunk(w, r->chunk);
    } else if (r->message_case == NEFFD__V1__COMPILE_REQUEST__MESSAGE__NOT_SET) {
        nf_fail(&err, NF_EINVAL, "a message of Compile is neither start nor chunk");
        srv_finish(call, &err);
    } else {
        nf_fail(&err, NF_EINVAL, w ? "start was sent twice" : "the first message of Compile must be start");
        srv_finish(call, &err);
    }
    protobuf_c_message_free_unpacked(m, NULL);
}

static void compile_half_close(struct srv_call *call)
{
    struct waiter *w = srv_call_user(call);
    if (w) {
        job_waiter_half_close(w);
    } else {
        struct nf_error err = {0};
        nf_fail(&err, NF_EINVAL, "Compile was closed without a start");
        srv_finish(call, &err);
    }
}

static void compile_sent(struct srv_call *call)
{
    struct waiter *w = srv_call_user(call);
    if (w)
        job_waiter_sent(w);
}

static void compile_closed(struct srv_call *call, bool cancelled)
{
    struct waiter *w = srv_call_user(call);
    if (w)
        job_waiter_closed(w, cancelled);
}

const struct srv_handler svc_compile = {.on_request = compile_request, .on_half_close = compile_half_close, .on_sent = compile_sent,
                                        .on_closed = compile_closed};

/* --------------------------------------------------------------------------------------------------------------- Lookup */

static bool digest_of(ProtobufCBinaryData b, struct nf_digest *ret)
{
    if (b.len != NF_DIGEST_BYTES)
        return false;
    memcpy(ret->bytes, b.data, NF_DIGEST_BYTES);
    return true;
}

/* Local tier only. NF_OK with a hit; NF_ENOTFOUND, and then *ret_key says whether the canonical key is known. */
static int lookup_local(struct daemon *d, const Neffd__V1__LookupRequest *r, struct cache_hit **ret_hit, struct nf_digest *ret_key, bool *ret_known)
{
    struct nf_digest front;
    *ret_known = digest_of(r->canonical_key, ret_key);
    if (d->verify_always) {
        if (!*ret_known && digest_of(r->front_key, &front))
            *ret_known = cache_reader_alias(d->reader, &front, ret_key, NULL, NULL) == NF_OK;
        return NF_ENOTFOUND;
    }
    if (*ret_known)
        return cache_reader_lookup(d->reader, ret_key, NULL, ret_hit, NULL);
    if (!digest_of(r->front_key, &front))
        return NF_ENOTFOUND;
    int rc = cache_reader_lookup_front(d->reader, &front, ret_hit, NULL);
    if (rc != NF_OK)
        *ret_known = cache_reader_alias(d->reader, &front, ret_key, NULL, NULL) == NF_OK;
    return rc;
}

/* Pump thread. Leaves to the loop what needs the mount, the index, or an error. */
static bool lookup_inline(void *ctx, struct nf_str message, const struct srv_peer *peer, struct nf_buf *ret_reply)
{
    struct daemon *d = ctx;
    ProtobufCMessage *m = NULL;
    int64_t began = nf_now_ns();
    if (rpc_decode(&neffd__v1__lookup_request__descriptor, message, &m, NULL) < 0)
        return false;
    const Neffd__V1__LookupRequest *r = (const Neffd__V1__LookupRequest *)m;
    bool answered = false, known = false;
    struct nf_digest key, front;
    struct cache_hit *hit;
    bool has_front = digest_of(r->front_key, &front);
    if (has_front || r->canonical_key.len == NF_DIGEST_BYTES) {
        int rc = lookup_local(d, r, &hit, &key, &known);
        struct hit_answer a;
        if (rc == NF_OK) {
            hit_answer_fill(&a, hit, NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL, has_front ? &front : NULL, peer, r->delivery);
            a.times.total_us = (uint64_t)((nf_now_ns() - began) / 1000);
            COUNT(&d->counters, requests, 1);
            COUNT(&d->counters, hits_local, 1);
            COUNT(&d->counters, compile_us_saved, a.info.compile_us);
            if (r->canonical_key.len != NF_DIGEST_BYTES)
                COUNT(&d->counters, front_hits, 1);
            answered = rpc_encode(&a.done.base, ret_reply) == NF_OK;
            cache_hit_close(hit);
        } else if (rc == NF_ENOTFOUND && !known) {   /* a front key that nobody has recorded names nothing, anywhere */
            hit_answer_miss(&a, &front, NULL);
            COUNT(&d->counters, requests, 1);
            COUNT(&d->counters, misses, 1);
            answered = rpc_encode(&a.done.base, ret_reply) == NF_OK;
        }
    }
    protobuf_c_message_free_unpacked(m, NULL);
    return answered;
}

#define LOOKUP_PATIENCE_MS 1000

struct lookup_call {
    struct post_item item;     /* by key */
    struct srv_call *call;     /* NULL: gone or answered */
    struct srv_peer peer;
    Neffd__V1__Delivery delivery;
    struct nf_digest front, key, sha256;
    bool has_front, has_key, found;
    struct cache_found result;
    int rc;
    uv_timer_t timer;          /* a mount that hangs is a miss */
    int refs;                  /* loop: call, timer handle, work */
    int64_t began;
};

static void lookup_unref(struct lookup_call *l)
{
    if (--l->refs == 0)
        free(l);
}

static void lookup_timer_closed(uv_handle_t *h) { lookup_unref(h->data); }

static void lookup_answer(struct lookup_call *l, struct cache_found *found)
{
    struct daemon *d = the_daemon;
    struct srv_call *call = l->call;
    if (call) {
        struct hit_answer a;
        const struct nf_digest *front = l->has_front ? &l->front : NULL;
        if (found && found->hit) {
            bool shared = found->tier == CACHE_TIER_SHARED;
            hit_answer_fill(&a, found->hit, shared ? NEFFD__V1__OUTCOME__OUTCOME_HIT_SHARED : NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL, front,
                            &l->peer, l->delivery);
            COUNT(&d->counters, compile_us_saved, a.info.compile_us);
            if (shared)
                COUNT(&d->counters, hits_shared, 1);
            else
                COUNT(&d->counters, hits_local, 1);
        } else {
            hit_answer_miss(&a, front, l->has_key ? &l->key : NULL);
            COUNT(&d->counters, misses, 1);
        }
        a.times.total_us = (uint64_t)((nf_now_ns() - l->began) / 1000);
        l->call = NULL;
        srv_call_set_user(call, NULL);
        srv_reply(call, &a.done.base);
        lookup_unref(l);
    }
    if (!uv_is_closing((uv_handle_t *)&l->timer))
        uv_close((uv_handle_t *)&l->timer, lookup_timer_closed);
}

static void lookup_timeout(uv_timer_t *t) { lookup_answer(t->data, NULL); }

static void lookup_posted(struct post_item *item)
{
    struct lookup_call *l = (struct lookup_call *)((char *)item - offsetof(struct lookup_call, item));
    lookup_answer(l, l->rc == NF_OK ? &l->result : NULL);
    if (l->rc == NF_OK)
        cache_found_done(&l->result);
    lookup_unref(l);
}

static void lookup_found(void *user, int rc, struct cache_found *found, const struct nf_error *err)
{
    struct lookup_call *l = user;
    (void)err;
    l->rc = rc;
    if (rc == NF_OK)
        l->result = *found;
    post_push(the_daemon->post, &l->item);
}

/* The task outlives the call: it has its own memory. */
struct sha_task {
    struct task task;
    struct lookup_call *l;
    struct nf_digest sha256;
    struct cache_found found;
    bool ok;
};

static int sha_run(struct task *t, struct nf_error *err)
{
    struct sha_task *s = (struct sha_task *)t;
    int rc = cache_store_sha256(t->d->store, &s->sha256, &s->found, err);
    s->ok = rc == NF_OK;
    return rc;
}

static void sha_end(struct task *t, int rc, const struct nf_error *err)
{
    struct sha_task *s = (struct sha_task *)t;
    (void)err;
    lookup_answer(s->l, rc == NF_OK && s->ok ? &s->found : NULL);
    lookup_unref(s->l);
}

static void sha_free(struct task *t)
{
    struct sha_task *s = (struct sha_task *)t;
    if (s->ok)
        cache_found_done(&s->found);
    free(s);
}

static void lookup_request(struct srv_call *call, struct nf_str message)
{
    struct daemon *d = the_daemon;
    struct nf_error err = {0};
    ProtobufCMessage *m = NULL;
    if (rpc_decode(&neffd__v1__lookup_request__descriptor, message, &m, &err) < 0) {
        srv_finish(call, &err);
        return;
    }
    const Neffd__V1__LookupRequest *r = (const Neffd__V1__LookupRequest *)m;
    struct lookup_call *l = nf_alloc(sizeof *l);
    COUNT(&d->counters, requests, 1);
    l->began = nf_now_ns();
    l->call = call;
    l->peer = *srv_call_peer(call);
    l->delivery = r->delivery;
    l->item.run = lookup_posted;
    l->has_front = digest_of(r->front_key, &l->front);
    bool has_sha = digest_of(r->sha256, &l->sha256);
    struct cache_hit *hit = NULL;
    int rc = NF_EINVAL;
    if (l->has_front || r->canonical_key.len == NF_DIGEST_BYTES)
        rc = lookup_local(d, r, &hit, &l->key, &l->has_key);
    protobuf_c_message_free_unpacked(m, NULL);
    if (rc == NF_EINVAL && !has_sha) {
        nf_fail(&err, NF_EINVAL, "Lookup needs a front_key, a canonical_key or a sha256 of 32 bytes");
        srv_finish(call, &err);
        free(l);
        return;
    }
    uv_timer_init(d->loop, &l->timer);
    l->timer.data = l;
    l->refs = 2;   /* call, timer */
    srv_call_set_user(call, l);
    if (rc == NF_OK) {
        struct cache_found found = {.hit = hit, .tier = CACHE_TIER_LOCAL};
        lookup_answer(l, &found);
        cache_hit_close(hit);
    } else if (l->has_key) {
        l->refs++;
        uv_timer_start(&l->timer, lookup_timeout, LOOKUP_PATIENCE_MS, 0);
        cache_store_lookup_async(d->store, &l->key, NULL, CACHE_LOOKUP_NO_FAILURES, lookup_found, l);
    } else if (has_sha) {
        struct sha_task *s = nf_alloc(sizeof *s);
        s->task.run = sha_run;
        s->task.end = sha_end;
        s->task.free = sha_free;
        s->l = l;
        s->sha256 = l->sha256;
        l->refs++;
        uv_timer_start(&l->timer, lookup_timeout, LOOKUP_PATIENCE_MS, 0);
        task_start(d, &s->task);
    } else {
        lookup_answer(l, NULL);
    }
}

static void lookup_closed(struct srv_call *call, bool cancelled)
{
    struct lookup_call *l = srv_call_user(call);
    (void)cancelled;
    if (!l)
        return;
    l->call = NULL;
    if (!uv_is_closing((uv_handle_t *)&l->timer))
        uv_close((uv_handle_t *)&l->timer, lookup_timer_closed);
    lookup_unref(l);
}

const struct srv_handler svc_lookup = {.on_request = lookup_request, .on_closed = lookup_closed, .inline_answer = lookup_inline};

/* ---------------------------------------------------------------------------------------------------------------- Fetch */

#define FETCH_CHUNK ((size_t)256 << 10)

struct fetch {
    struct srv_call *call;     /* NULL: gone */
    struct nf_digest sha256, key;
    bool has_sha, has_key;
    struct cache_found found;
    bool has_found;
    int fd;                    /* of a loose file, else -1 */
    uint64_t size, offset;
    uv_work_t read;
    char *buffer;
    ssize_t got;
    int refs;                  /* loop: call, task or read under way */
};

static int fetch_fd(const struct fetch *f) { return f->fd >= 0 ? f->fd : cache_hit_fd(f->found.hit); }

static void fetch_unref(struct fetch *f)
{
    if (--f->refs)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->has_found)
        cache_found_done(&f->found);
    free(f->buffer);
    free(f);
}

static void fetch_fail(struct fetch *f, const struct nf_error *err)
{
    struct srv_call *call = f->call;
    if (!call)
        return;
    f->call = NULL;
    srv_call_set_user(call, NULL);
    srv_finish(call, err);
    fetch_unref(f);
}

static void fetch_read(uv_work_t *w)
{
    struct fetch *f = w->data;
    size_t want = (size_t)NF_MIN((uint64_t)FETCH_CHUNK, f->size - f->offset);
    size_t n = 0;
    f->got = 0;
    while (n < want) {
        ssize_t got = pread(fetch_fd(f), f->buffer + n, want - n, (off_t)(f->offset + n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            f->got = -1;
            return;
        }
        n += (size_t)got;
    }
    f->got = (ssize_t)n;
}

static void fetch_read_done(uv_work_t *w, int status);

static void fetch_next(struct fetch *f)
{
    if (!f->call)
        return;
    f->refs++;
    f->read.data = f;
    uv_queue_work(the_daemon->loop, &f->read, fetch_read, fetch_read_done);
}

static void fetch_read_done(uv_work_t *w, int status)
{
    struct fetch *f = w->data;
    (void)status;
    if (f->call && f->got < 0) {
        struct nf_error err = {0};
        nf_fail(&err, NF_ECORRUPT, "the artifact cannot be read to its end");
        fetch_fail(f, &err);
    } else if (f->call) {
        Neffd__V1__FetchChunk m = NEFFD__V1__FETCH_CHUNK__INIT;
        m.sha256 = rpc_binary(f->sha256.bytes, NF_DIGEST_BYTES);
        m.size = f->size;
        m.offset = f->offset;
        struct nf_buf head = NF_BUF_INIT;
        rpc_encode(&m.base, &head);
        if (f->got) {   /* field 4, written by hand: the bytes are then copied once */
            nf_buf_add_varint(&head, 4 << 3 | 2);
            nf_buf_add_varint(&head, (uint64_t)f->got);
        }
        srv_send_bytes(f->call, head.data, head.len, f->buffer, (size_t)f->got);
        nf_buf_done(&head);
        f->offset += (uint64_t)f->got;
        if (f->offset >= f->size)
            fetch_fail(f, NULL);   /* status OK, after the chunk */
    }
    fetch_unref(f);
}

static void fetch_begin(struct fetch *f)
{
    struct nf_error err = {0};
    if (f->offset > f->size) {
        nf_fail(&err, NF_EINVAL, "offset %llu is behind the artifact's %llu bytes", (unsigned long long)f->offset, (unsigned long long)f->size);
        fetch_fail(f, &err);
        return;
    }
    f->buffer = nf_alloc(FETCH_CHUNK);
    fetch_next(f);   /* also of an empty rest: one chunk that says digest and size */
}

struct fetch_task {
    struct task task;
    struct fetch *f;
    bool has_sha;
    struct nf_digest sha256, key;
    struct cache_found found;
    bool ok;
};

static int fetch_run(struct task *t, struct nf_error *err)
{
    struct fetch_task *x = (struct fetch_task *)t;
    int rc = x->has_sha ? cache_store_sha256(t->d->store, &x->sha256, &x->found, err)
                        : cache_store_lookup(t->d->store, &x->key, NULL, CACHE_LOOKUP_NO_FAILURES, &x->found, err);
    x->ok = rc == NF_OK;
    return rc;
}

static void fetch_end(struct task *t, int rc, const struct nf_error *err)
{
    struct fetch_task *x = (struct fetch_task *)t;
    struct fetch *f = x->f;
    if (rc == NF_OK && x->ok && x->found.hit) {
        f->found = x->found;
        f->has_found = true;
        x->ok = false;
        const struct cache_footer *footer = cache_hit_footer(f->found.hit);
        f->sha256 = footer->sha256;
        f->size = footer->raw_bytes;
        if (f->call)
            fetch_begin(f);
    } else {
        struct nf_error e = *err;
        if (rc == NF_OK || rc == NF_ENOTFOUND || !e.code)
            nf_fail(&e, rc == NF_OK ? NF_ENOTFOUND : rc, "there is no such artifact");
        fetch_fail(f, &e);
    }
    fetch_unref(f);
}

static void fetch_task_free(struct task *t)
{
    struct fetch_task *x = (struct fetch_task *)t;
    if (x->ok)
        cache_found_done(&x->found);
    free(x);
}

static void fetch_request(struct srv_call *call, struct nf_str message)
{
    struct daemon *d = the_daemon;
    struct nf_error err = {0};
    ProtobufCMessage *m = NULL;
    if (rpc_decode(&neffd__v1__fetch_request__descriptor, message, &m, &err) < 0) {
        srv_finish(call, &err);
        return;
    }
    const Neffd__V1__FetchRequest *r = (const Neffd__V1__FetchRequest *)m;
    struct fetch *f = nf_alloc(sizeof *f);
    f->fd = -1;
    f->has_sha = digest_of(r->sha256, &f->sha256);
    f->has_key = digest_of(r->canonical_key, &f->key);
    f->offset = r->offset;
    protobuf_c_message_free_unpacked(m, NULL);
    if (!f->has_sha && !f->has_key) {
        nf_fail(&err, NF_EINVAL, "Fetch needs a sha256 or a canonical_key of 32 bytes");
        srv_finish(call, &err);
        free(f);
        return;
    }
    f->call = call;
    f->refs = 1;
    srv_call_set_user(call, f);
    const struct loose_file *loose = f->has_sha ? scratch_find(d->scratch, &f->sha256) : NULL;
    if (loose) {
        f->fd = open(loose->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (f->fd < 0) {
            nf_fail_errno(&err, errno, "cannot open %s", loose->path);
            fetch_fail(f, &err);
            return;
        }
        f->size = loose->size;
        fetch_begin(f);
        return;
    }
    struct fetch_task *x = nf_alloc(sizeof *x);
    x->task.run = fetch_run;
    x->task.end = fetch_end;
    x->task.free = fetch_task_free;
    x->f = f;
    x->has_sha = f->has_sha;
    x->sha256 = f->sha256;
    x->key = f->key;
    f->refs++;
    task_start(d, &x->task);
}

static void fetch_sent(struct srv_call *call)
{
    struct fetch *f = srv_call_user(call);
    if (f)
        fetch_next(f);
}

static void fetch_closed(struct srv_call *call, bool cancelled)
{
    struct fetch *f = srv_call_user(call);
    (void)cancelled;
    if (!f)
        return;
    f->call = NULL;
    fetch_unref(f);
}

const struct srv_handler svc_fetch = {.on_request = fetch_request, .on_sent = fetch_sent, .on_closed = fetch_closed};
