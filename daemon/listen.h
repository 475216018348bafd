/* listen.h: the socket that callers connect to, and the promise that one daemon owns it.
 *
 * Unix socket: a lock file beside it (`PATH.lock`, flock) is taken first, so a socket that stands there without a live owner is
 * stale and taken over, and a second daemon is refused with the pid of the first. TCP: loopback only. systemd: a passed
 * descriptor is used as it is.
 *
 * Accepting stops while no descriptor number is free (server.c): callers then wait in the kernel's queue, nothing fails. */
#ifndef NEFFD_DAEMON_LISTEN_H
#define NEFFD_DAEMON_LISTEN_H

#include "base/error.h"
#include "daemon/server.h"

struct listener;

struct listen_options {
    struct uv_loop_s *loop;
    unsigned mode;            /* of a Unix socket */
    const char *address;      /* "unix:/path", "/path", "127.0.0.1:PORT", "[::1]:PORT", "localhost:PORT"; port 0: any free one */
};

/* Binds and listens (in that order: the lock, a look at what stands there, the bind); nothing is accepted yet. NF_EBUSY: another daemon has it, err says
 * which. NF_ECONFIG: not an address that is served. Uses a descriptor of systemd's ($LISTEN_FDS) when there is one. */
int listen_open(const struct listen_options *o, struct listener **ret_listener, struct nf_error *err);
void listen_start(struct listener *l, struct srv_server *server);
/* To be called every few seconds: cleaners of temporary files remove the sockets of daemons that live long, and callers would find nobody
 * while the daemon still holds the lock. A socket whose name is gone is bound anew, under the lock, which is made anew as well. */
void listen_renew(struct listener *l);
/* Accepts no more; the socket's name is removed so that callers see at once that nobody is there. The lock is kept. */
void listen_stop(struct listener *l);
/* Also lets the lock go. Takes NULL. */
void listen_close(struct listener *l);
/* "unix:/run/neffd/neffd.sock", "127.0.0.1:4317": what callers are to be told. */
const char *listen_address(const struct listener *l);

#endif
