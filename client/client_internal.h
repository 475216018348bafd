/* client_internal.h: what the files of the client library and the programs of this folder share. Nothing here is exported
 * from libneffd.so. neffd.h is the contract; these functions give the programs more of an answer than it can. */
#ifndef NEFFD_CLIENT_INTERNAL_H
#define NEFFD_CLIENT_INTERNAL_H

#include "base/digest.h"
#include "cache/key.h"
#include "cache/read.h"
#include "client/grpc_client.h"
#include "client/neffd.h"
#include "proto/rpc.h"
#include "runtime/platform.h"

#include <stdatomic.h>

#define CL_EXPORT __attribute__((visibility("default")))

/* A client is immutable after open, except for the atomics and what channel and reader guard themselves. */
struct neffd_client {
    char *socket, *shared_dir, *local_dir;
    char *tool;                    /* ClientInfo.tool */
    char *namespace_default;
    char *record_dir;              /* where requests are kept for a warm-up; NULL: nowhere */
    char *daemon_program;          /* of the configuration; NULL: found by cl_daemon_find */
    char *target_override;         /* NEURON_PLATFORM_TARGET_OVERRIDE; may be NULL */
    bool shared_given, local_given;/* by options or environment: a daemon that is started here gets the same */
    bool start_daemon, offline, cache_only, disable_cache;
    uint32_t cpu_threads;
    char *libnrt;                  /* NULL: the usual places */
    uint64_t neff_features;        /* of the Neuron runtime; 0: it knows itself */
    bool compile_only;
    uint64_t lock_timeout_ms, compile_timeout_ms; /* of the caller's environment; 0: not set */
    int bad_address;               /* the socket's address is none: reported by the first call that needs it */
    struct nf_error bad_address_error;
    struct cl_channel *channel;    /* NULL with bad_address */
    struct cache_reader *reader;
    uid_t socket_owner;            /* of the socket's file when the client was opened; (uid_t)-1: none */
    _Atomic uint32_t ordinal;      /* graphs asked for so far */
};

/* neffd_client_open with the names that a program has: tool ("neffctl 0.1.0"; NULL: the library's). */
int cl_client_open(const neffd_client_options *options, const char *tool, neffd_client **ret_client, struct nf_error *err);
/* The channel, or why there is none. */
int cl_client_channel(neffd_client *client, struct cl_channel **ret_channel, struct nf_error *err);
/* The daemon's user as far as it is known: the peer of a connection, else the owner of the socket's file; -1: nobody. */
uid_t cl_client_daemon_uid(neffd_client *client);

/* ------------------------------------------------------------------------------------------------------------- requests */

enum cl_action { CL_COMPILE = 1, CL_LOOKUP = 2, CL_EXPLAIN = 3 }; /* values of neffd.v1.Action */

struct cl_answer {
    bool brief;                    /* in: a hit without an RPC needs no `done` (which costs reading the entry's metadata) */
    Neffd__V1__Done *done;         /* unpacked by protobuf-c; for a hit without an RPC put together here, or NULL if brief */
    Neffd__V1__Error *failed;      /* of a `failed` event, else NULL */
    neffd_artifact *artifact;      /* NULL on a miss */
    bool asked_daemon;
};
/* The whole life of a request: local tier, daemon (started if allowed and needed), fetch. NF_OK also for a miss of CL_LOOKUP
 * and CL_EXPLAIN (done->outcome says so). On failure ret_answer->failed may be set. cl_answer_done in every case. */
int cl_ask(neffd_client *client, const neffd_request *request, enum cl_action action, struct cl_answer *ret_answer, struct nf_error *err);
void cl_answer_done(struct cl_answer *answer);

/* The request's front key; NF_ENOTFOUND: this host has no list of toolchains, or not for this target. */
int cl_front_key(neffd_client *client, const neffd_request *request, struct nf_digest *ret_key, struct nf_error *err);
/* The target that the request means on this host. */
int cl_target(neffd_client *client, const neffd_request *request, char ret_target[RT_TARGET_MAX], struct nf_error *err);
/* A caller's structure may be longer than this library knows as long as the rest is zero. */
int cl_struct_check(const char *what, const void *data, size_t said, size_t known, struct nf_error *err);
/* Checks what the caller filled in. */
int cl_request_check(const neffd_request *request, struct nf_error *err);
/* The start message, packed and appended. front_key NULL: none. */
int cl_request_pack_start(neffd_client *client, const neffd_request *request, enum cl_action action, const struct nf_digest *front_key,
    struct nf_buf *out, struct nf_error *err);

/* Keeps the request in client->record_dir, once (record.c). Never fails a request: what cannot be kept is logged. */
void cl_record(neffd_client *client, const neffd_request *request);

/* One unary call with protobuf-c messages; the reply is freed with protobuf_c_message_free_unpacked. */
int cl_unary_message(neffd_client *client, enum rpc_method_id method, const ProtobufCMessage *request, int64_t deadline_ns,
    ProtobufCMessage **ret_reply, struct nf_error *err);

/* ------------------------------------------------------------------------------------------------------------ artifacts */

struct neffd_artifact {
    struct cache_hit *hit;         /* either this, */
    int fd;                        /* or a file or memory of its own (-1) */
    uint32_t owner_uid;
    void *map;
    size_t bytes;
    char *path;
    struct nf_digest sha256;
    int outcome;
    char target[64];               /* "": not known yet */
};

/* Takes the hit. */
neffd_artifact *cl_artifact_of_hit(struct cache_hit *hit, int outcome);
/* What the daemon named: opened by path if that can be and is what it should be, else fetched. */
int cl_artifact_of_message(neffd_client *client, const Neffd__V1__Artifact *message, int outcome, int64_t deadline_ns,
    neffd_artifact **ret_artifact, struct nf_error *err);
/* A NEFF file that the caller names: `bytes` is what it holds. Its owner is the file's. */
int cl_artifact_of_file(const char *path, struct nf_str bytes, neffd_artifact **ret_artifact, struct nf_error *err);
/* The name of the device that a program was loaded on. */
const char *cl_program_device(const neffd_program *program);
/* The device's program behind it, and whether programs that are loaded from now on collect times by step. */
struct rt_program *cl_program_rt(const neffd_program *program);
void cl_profile_programs(bool on);
/* Who reads what they print (interpreter.print), from several executions at once; by default nobody. */
void cl_print_programs(void (*print)(void *user, struct nf_str text), void *user);
/* Done for a hit without an RPC. Owned by the caller, as if unpacked. */
Neffd__V1__Done *cl_done_of_hit(struct cache_hit *hit, const struct nf_digest *front_key, int outcome, uint64_t total_us);

/* ----------------------------------------------------------------------------------------------------------- the daemon */

/* Starts a daemon at the client's socket, or waits for whoever is starting one. NF_OK: one answers. */
int cl_daemon_start(neffd_client *client, int64_t deadline_ns, struct nf_error *err);
/* Health, once. NF_EDRAINING: it answers, but does not serve. */
int cl_daemon_ping(neffd_client *client, int64_t deadline_ns, struct nf_error *err);
/* Health, until it says "serving" or the deadline passes. */
int cl_daemon_wait(neffd_client *client, int64_t deadline_ns, struct nf_error *err);
/* The program that would be started; NF_ENOTFOUND. */
int cl_daemon_find(const neffd_client *client, struct nf_buf *ret_path, struct nf_error *err);

/* ------------------------------------------------------------------------------------------------------------ small */

/* nf_error -> neffd_error; returns the code. out may be NULL. */
int cl_error_out(const struct nf_error *err, neffd_error *out);
/* now + ms, CL_NO_DEADLINE for 0. */
int64_t cl_deadline(uint64_t timeout_ms);

#endif
