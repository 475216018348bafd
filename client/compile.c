/* compile.c: the whole life of a request on the client's side.
 *
 *     check -> front key -> local tier -> [daemon: start, upload when asked, events, done | failed] -> artifact
 *                              | hit: no RPC
 *
 * Asking is repeated when the answer was lost and not given: the daemon went away (it is asked anew, started if that is
 * allowed), it drains, or its queue is full and it said when to come back. Equal requests merge, so asking twice is safe. A
 * `failed` event is an answer and never repeated here. */
#include "client/client_internal.h"

#include "base/clock.h"
#include "base/file.h"
#include "client/wire.h"

enum {
    CHUNK_BYTES = (1 << 20) - 64,      /* of a message, less the framing */
    LOST_ATTEMPTS = 8,                 /* in a row without an event in between */
};
#define BACKOFF_MAX_NS (5 * NF_SEC)

void cl_answer_done(struct cl_answer *answer)
{
    if (answer->done)
        neffd__v1__done__free_unpacked(answer->done, NULL);
    if (answer->failed)
        neffd__v1__error__free_unpacked(answer->failed, NULL);
    neffd_artifact_unref(answer->artifact);
    *answer = (struct cl_answer){0};
}

/* ------------------------------------------------------------------------------------------------------- without an RPC */

static void take_hit(struct cache_hit *hit, const struct nf_digest *front_key, int outcome, int64_t begin_ns, struct cl_answer *answer)
{
    uint64_t us = (uint64_t)(nf_now_ns() - begin_ns) / 1000;
    answer->artifact = cl_artifact_of_hit(hit, outcome);
    if (!answer->brief)
        answer->done = cl_done_of_hit(hit, front_key, outcome, us);
}

/* No daemon: the alias may still lead to the mount. */
static bool shared_hit(neffd_client *client, const struct nf_digest *front_key, int64_t begin_ns, struct cl_answer *answer)
{
    struct nf_digest key;
    struct cache_hit *hit;
    char ns[65];
    if (!client->reader || cache_reader_alias(client->reader, front_key, &key, ns, NULL) < 0 ||
        cache_reader_lookup_shared(client->reader, &key, ns, &hit, NULL) < 0)
        return false;
    take_hit(hit, front_key, NEFFD__V1__OUTCOME__OUTCOME_HIT_SHARED, begin_ns, answer);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ one asking */

struct asking {
    neffd_client *client;
    const neffd_request *request;
    struct cl_answer *answer;
    int64_t deadline_ns;
    bool heard;                        /* an event has come */
    bool sent;                         /* the input has been uploaded */
};

/* Uploads the parts; stops early when the server has said something that ends the call's need for them. */
static int upload(struct asking *a, struct cl_call *call, const Neffd__V1__SendInput *what, struct nf_error *err)
{
    struct nf_buf out = NF_BUF_INIT;
    int r = NF_OK;
    for (size_t i = 0; i < what->n_parts && r >= 0; i++) {
        uint32_t part = what->parts[i];
        const uint8_t *data = a->request->graph;
        size_t left = a->request->graph_bytes;
        if (part > a->request->side_file_count) {
            r = nf_fail(err, NF_EPROTOCOL, "the daemon asks for part %u of a request with %zu", part, a->request->side_file_count + 1);
            break;
        }
        if (part > 0) {
            data = a->request->side_files[part - 1].data;
            left = a->request->side_files[part - 1].bytes;
        }
        while (left > 0 && r >= 0) {
            Neffd__V1__CompileRequest message = NEFFD__V1__COMPILE_REQUEST__INIT;
            Neffd__V1__Chunk chunk = NEFFD__V1__CHUNK__INIT;
            size_t n = NF_MIN(left, (size_t)CHUNK_BYTES);
            chunk.part = part;
            chunk.data = rpc_binary(data, n);
            message.message_case = NEFFD__V1__COMPILE_REQUEST__MESSAGE_CHUNK;
            message.chunk = &chunk;
            nf_buf_clear(&out);
            r = rpc_encode(&message.base, &out);
            if (r < 0)
                nf_fail(err, r, "cannot encode a part of the graph");
            else
                r = cl_call_send(call, out.data, out.len, false, err);
            data += n;
            left -= n;
        }
    }
    nf_buf_done(&out);
    if (r >= 0)
        r = cl_call_half_close(call, err);
    a->sent = true;
    return r;
}

static int call_back(struct asking *a, const Neffd__V1__CompileEvent *event, struct nf_str bytes, struct nf_error *err)
{
    struct nf_buf line = NF_BUF_INIT;
    if (!a->request->on_event)
        return NF_OK;
    cl_event_line(event, &line);
    int stop = a->request->on_event(a->request->user, line.data ? line.data : "", bytes.data, bytes.len);
    nf_buf_done(&line);
    return stop ? nf_fail(err, NF_ECANCELLED, "the caller stopped waiting; the job goes on for others") : NF_OK;
}

/* 1: the answer has come (done or failed; err is filled for failed). 0: go on. */
static int on_event(struct asking *a, struct cl_call *call, struct nf_str bytes, struct nf_error *err)
{
    ProtobufCMessage *base;
    int r = rpc_decode(&neffd__v1__compile_event__descriptor, bytes, &base, err);
    if (r < 0) {
        nf_error_prefix(err, "the daemon sent an event that cannot be read");
        if (err)
            err->code = NF_EPROTOCOL;
        return NF_EPROTOCOL;
    }
    Neffd__V1__CompileEvent *event = (Neffd__V1__CompileEvent *)base;
    a->heard = true;
    r = call_back(a, event, bytes, err);
    if (r >= 0) {
        switch (event->event_case) {
        case NEFFD__V1__COMPILE_EVENT__EVENT_SEND_INPUT:
            r = a->sent ? nf_fail(err, NF_EPROTOCOL, "the daemon asked for the graph twice") : upload(a, call, event->send_input, err);
            break;
        case NEFFD__V1__COMPILE_EVENT__EVENT_DONE:
            a->answer->done = event->done;
            event->done = NULL;
            event->event_case = NEFFD__V1__COMPILE_EVENT__EVENT__NOT_SET;
            r = 1;
            break;
        case NEFFD__V1__COMPILE_EVENT__EVENT_FAILED:
            a->answer->failed = event->failed;
            event->failed = NULL;
            event->event_case = NEFFD__V1__COMPILE_EVENT__EVENT__NOT_SET;
            r = 1;
            break;
        case NEFFD__V1__COMPILE_EVENT__EVENT_QUEUED:
        case NEFFD__V1__COMPILE_EVENT__EVENT_JOINED:
        case NEFFD__V1__COMPILE_EVENT__EVENT_STAGE:
        case NEFFD__V1__COMPILE_EVENT__EVENT_PROGRESS:
        case NEFFD__V1__COMPILE_EVENT__EVENT_LOG:
        case NEFFD__V1__COMPILE_EVENT__EVENT__NOT_SET:
        case _NEFFD__V1__COMPILE_EVENT__EVENT__CASE_IS_INT_SIZE:
        default: break; /* a newer daemon's event is for newer clients */
        }
    }
    neffd__v1__compile_event__free_unpacked(event, NULL);
    return r;
}

static int ask_once(struct asking *a, struct cl_channel *channel, struct nf_str start, struct nf_error *err)
{
    struct cl_call *call = NULL;
    struct nf_str bytes;
    a->sent = false;
    int r = cl_call_start(channel, rpc_method(RPC_COMPILE)->path, a->deadline_ns, &call, err);
    if (r >= 0)
        r = cl_call_send(call, start.data, start.len, false, err);
    while (r >= 0) {
        r = cl_call_recv(call, &bytes, err);
        if (r == 0)
            r = nf_fail(err, NF_EPROTOCOL, "the daemon ended the call without an answer");
        if (r < 0)
            break;
        r = on_event(a, call, bytes, err);
        if (r == 1) {
            cl_call_finish(call, 50 * NF_MS); /* only the status is left: taken so that the connection can be used again */
            break;
        }
    }
    cl_call_free(call);
    return r < 0 ? r : NF_OK;
}

/* ---------------------------------------------------------------------------------------------------------------- asking */

static bool worth_again(int code) { return code == NF_EDISCONNECTED || code == NF_EDRAINING || code == NF_EOVERLOADED || code == NF_ENODAEMON; }

/* Waits before the next attempt; false when the deadline comes first. */
static bool pause_before_again(struct asking *a, int attempt, const struct nf_error *why)
{
    int64_t ns = why->retry_after_ms ? (int64_t)NF_MIN(why->retry_after_ms, (uint64_t)3600 * 1000) * NF_MS
                                     : NF_MIN((int64_t)25 * NF_MS << NF_MIN(attempt, 10), BACKOFF_MAX_NS);
    uint8_t jitter; /* so that a fleet does not come back at once */
    nf_random(&jitter, 1);
    ns += ns / 4 * jitter / 256;
    if (a->deadline_ns != CL_NO_DEADLINE && nf_now_ns() + ns >= a->deadline_ns)
        return false;
    nf_sleep_ns(ns);
    return true;
}

static int ask_daemon(struct asking *a, const struct nf_digest *front_key, enum cl_action action, struct nf_error *err)
{
    struct nf_buf start = NF_BUF_INIT;
    struct cl_channel *channel;
    int r = cl_client_channel(a->client, &channel, err);
    if (r >= 0)
        r = cl_request_pack_start(a->client, a->request, action, front_key, &start, err);
    bool met = false; /* a daemon has been there */
    for (int lost = 0; r >= 0;) {
        struct nf_error why = {0};
        a->heard = false;
        r = ask_once(a, channel, nf_buf_str(&start), &why);
        if (r >= 0)
            break;
        met = met || r != NF_ENODAEMON;
        lost = a->heard ? 1 : lost + 1;
        bool starts = r == NF_ENODAEMON && a->client->start_daemon && action == CL_COMPILE;
        if (starts && lost <= 3) {
            r = cl_daemon_start(a->client, a->deadline_ns, err);
            if (r < 0)
                break;
            met = true;
            continue;
        }
        /* A full queue is waited for as long as the caller has patience; a daemon that went away gets a few seconds to come back. */
        bool again = worth_again(r) && (met || r != NF_ENODAEMON) && (r == NF_EOVERLOADED || lost < LOST_ATTEMPTS);
        if (again && pause_before_again(a, lost, &why)) {
            r = NF_OK;
            continue;
        }
        if (err)
            *err = why;
        break;
    }
    nf_buf_done(&start);
    return r;
}

static int answer_of_daemon(struct asking *a, enum cl_action action, struct nf_error *err)
{
    struct cl_answer *answer = a->answer;
    if (answer->failed) {
        struct nf_error said;
        rpc_error_from_message(answer->failed, &said);
        if (err)
            *err = said;
        return said.code;
    }
    Neffd__V1__Done *done = answer->done;
    if (done->outcome == NEFFD__V1__OUTCOME__OUTCOME_MISS)
        return action == CL_COMPILE ? nf_fail(err, NF_EPROTOCOL, "the daemon answered a compile with a miss") : NF_OK;
    if (!done->artifact)
        return action == CL_COMPILE ? nf_fail(err, NF_EPROTOCOL, "the daemon's answer names no artifact") : NF_OK;
    return cl_artifact_of_message(a->client, done->artifact, (int)done->outcome, a->deadline_ns, &answer->artifact, err);
}

static void no_daemon_hint(neffd_client *client, struct nf_error *err)
{
    if (!err || err->hint[0])
        return;
    nf_error_hint(err, "start one with `neffd --socket %s`, or let the first miss start it (neffctl compile --start, start_daemon)", client->socket);
}

int cl_ask(neffd_client *client, const neffd_request *request, enum cl_action action, struct cl_answer *ret_answer, struct nf_error *err)
{
    struct cl_answer answer = {.brief = ret_answer->brief};
    struct nf_digest front_key;
    struct cache_hit *hit = NULL;
    struct nf_error why = {0};
    int64_t begin = nf_now_ns();
    *ret_answer = answer;
    int r = cl_request_check(request, err);
    if (r < 0)
        return r;
    struct asking a = {.client = client, .request = request, .answer = &answer, .deadline_ns = cl_deadline(request->timeout_ms)};
    atomic_fetch_add(&client->ordinal, 1);
    if (client->record_dir && action == CL_COMPILE)
        cl_record(client, request);

    int keyed = cl_front_key(client, request, &front_key, &why);
    if (keyed < 0 && keyed != NF_ENOTFOUND && keyed != NF_ECORRUPT && keyed != NF_EPERM)
        return err ? (*err = why).code : keyed; /* an unknown target, a bad namespace */
    bool may_hit = keyed >= 0 && client->reader && !request->ignore_cache && !request->no_publish && !client->disable_cache;
    if (may_hit) {
        int found = cache_reader_lookup_front(client->reader, &front_key, &hit, &why);
        if (found == NF_OK) {
            take_hit(hit, &front_key, NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL, begin, &answer);
            *ret_answer = answer;
            return NF_OK;
        }
        /* Damage, strangers' files and broken directories: the daemon looks, repairs and counts; without one they are misses. */
    }
    if (client->cache_only && action == CL_COMPILE)
        action = CL_EXPLAIN;
    if (client->offline)
        r = NF_ENODAEMON;
    else
        r = ask_daemon(&a, keyed >= 0 ? &front_key : NULL, action, err);
    if (r == NF_ETIMEOUT && !answer.failed && request->timeout_ms) {
        r = nf_fail(err, NF_ETIMEOUT, "not done in time: %s has not given the artifact within %g s", client->socket, (double)request->timeout_ms / 1000);
        nf_error_hint(err, "a longer timeout waits longer; the compile goes on for others who wait for it, or if it was asked for detached");
    }
    if (r == NF_ENODAEMON && may_hit && shared_hit(client, &front_key, begin, &answer)) {
        *ret_answer = answer;
        return NF_OK;
    }
    if (r == NF_ENODAEMON && client->offline) {
        r = nf_fail(err, NF_ENOTFOUND, "the graph is not in this host's cache (%s)%s%s", client->local_dir, keyed < 0 ? ": " : "", keyed < 0 ? why.message : "");
        nf_error_hint(err, "the client was opened offline; a daemon looks further, and compiles");
    } else if (r == NF_ENODAEMON && client->cache_only) {
        r = nf_fail(err, NF_ENOTFOUND, "the graph is not in this host's cache, and no daemon answers at %s to look further", client->socket);
        nf_error_hint(err, "compiling is forbidden (--cache-only, NEFFD_CACHE_ONLY=1)");
    } else if (r == NF_ENODAEMON) {
        no_daemon_hint(client, err);
    } else if (r >= 0) {
        answer.asked_daemon = true;
        r = answer_of_daemon(&a, action, err);
    }
    *ret_answer = answer;
    return r;
}

/* ----------------------------------------------------------------------------------------------------------- public calls */

/* The error of a miss: with the explanation where there is one. */
static int miss(const struct cl_answer *answer, struct nf_error *err)
{
    struct nf_buf line = NF_BUF_INIT;
    if (answer->done->explanation)
        cl_explanation_line(answer->done->explanation, 8, &line);
    nf_fail(err, NF_ENOTFOUND, "the graph is not in the cache%s%s", line.len ? "; " : "", line.data ? line.data : "");
    nf_buf_done(&line);
    return NF_ENOTFOUND;
}

static int ask_artifact(neffd_client *client, const neffd_request *request, enum cl_action action, neffd_artifact **ret_artifact, neffd_error *out)
{
    struct nf_error err = {0};
    struct cl_answer answer = {.brief = true};
    int r = client && ret_artifact ? cl_ask(client, request, action, &answer, &err) : nf_fail(&err, NF_EINVAL, "no client was given");
    if (r >= 0 && answer.done && answer.done->outcome == NEFFD__V1__OUTCOME__OUTCOME_MISS) {
        r = miss(&answer, &err);
        if (action == CL_COMPILE)
            nf_error_hint(&err, "NEFFD_CACHE_ONLY=1 forbids to compile");
    } else if (r >= 0 && !answer.artifact) {
        r = nf_fail(&err, NF_EPROTOCOL, "the daemon's answer names no artifact");
    }
    if (r >= 0) {
        *ret_artifact = answer.artifact;
        answer.artifact = NULL;
    }
    cl_answer_done(&answer);
    return r < 0 ? cl_error_out(&err, out) : NF_OK;
}

CL_EXPORT int neffd_front_key(neffd_client *client, const neffd_request *request, uint8_t ret_key[32], neffd_error *out)
{
    struct nf_error err = {0};
    struct nf_digest key;
    int r = client && ret_key ? cl_request_check(request, &err) : nf_fail(&err, NF_EINVAL, "no client was given");
    if (r >= 0)
        r = cl_front_key(client, request, &key, &err);
    if (r < 0)
        return cl_error_out(&err, out);
    memcpy(ret_key, key.bytes, NF_DIGEST_BYTES);
    return NF_OK;
}

CL_EXPORT int neffd_compile(neffd_client *client, const neffd_request *request, neffd_artifact **ret_artifact, neffd_error *err)
{
    return ask_artifact(client, request, CL_COMPILE, ret_artifact, err);
}

CL_EXPORT int neffd_lookup(neffd_client *client, const neffd_request *request, neffd_artifact **ret_artifact, neffd_error *err)
{
    return ask_artifact(client, request, CL_LOOKUP, ret_artifact, err);
}

CL_EXPORT int neffd_explain(neffd_client *client, const neffd_request *request, char **ret_text, void **ret_done, size_t *ret_done_bytes,
    neffd_error *out)
{
    struct nf_error err = {0};
    struct cl_answer answer = {0};
    struct nf_buf text = NF_BUF_INIT, packed = NF_BUF_INIT;
    int r = client ? cl_ask(client, request, CL_EXPLAIN, &answer, &err) : nf_fail(&err, NF_EINVAL, "no client was given");
    if (r >= 0) {
        if (answer.done->outcome == NEFFD__V1__OUTCOME__OUTCOME_MISS)
            cl_explanation_text(answer.done->explanation, &text);
        else
            nf_buf_add_c(&text, "it would hit\n");
        r = rpc_encode(&answer.done->base, &packed);
        if (r < 0)
            nf_fail(&err, r, "the answer is larger than a message may be");
    }
    if (r >= 0) {
        if (ret_text)
            *ret_text = nf_buf_take(&text);
        if (ret_done_bytes)
            *ret_done_bytes = packed.len;
        if (ret_done)
            *ret_done = nf_buf_take(&packed);
    }
    nf_buf_done(&text);
    nf_buf_done(&packed);
    cl_answer_done(&answer);
    return r < 0 ? cl_error_out(&err, out) : NF_OK;
}
