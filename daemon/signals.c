/* signals.c: see signals.h. */
#include "daemon/signals.h"

#include "base/str.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int listened[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};

void signals_block(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < NF_ARRAY_LEN(listened); i++) {
        sigaddset(&set, listened[i]);
        signal(listened[i], SIG_DFL);   /* whoever started us may have them ignored: then a child would leave no end behind */
    }
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct signal_watch *w = poll->data;
    struct signalfd_siginfo info;
    (void)status, (void)events;
    while (w->fd >= 0 && read(w->fd, &info, sizeof info) == (ssize_t)sizeof info)
        w->fn(w, (int)info.ssi_signo);   /* may unwatch */
}

static void on_closed(uv_handle_t *h)
{
    struct signal_watch *w = h->data;
    free(h);
    if (w && w->closed)
        w->closed(w);
}

int signals_watch(uv_loop_t *loop, struct signal_watch *w, const int *signums, void (*fn)(struct signal_watch *w, int signum), struct nf_error *err)
{
    sigset_t set;
    sigemptyset(&set);
    for (; *signums; signums++)
        sigaddset(&set, *signums);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return nf_fail_errno(err, errno, "cannot take signals");
    uv_poll_t *poll = nf_alloc(sizeof *poll);
    int rc = uv_poll_init(loop, poll, fd);
    if (rc != 0) {
        free(poll);
    } else if ((rc = uv_poll_start(poll, UV_READABLE, on_readable)) != 0) {
        uv_close((uv_handle_t *)poll, on_closed);   /* the loop lists it */
    } else {
        w->fd = fd;
        w->fn = fn;
        w->poll = poll;
        poll->data = w;
        return NF_OK;
    }
    close(fd);
    return nf_fail(err, NF_EINTERNAL, "cannot take signals: %s", uv_strerror(rc));
}

void signals_unwatch(struct signal_watch *w, void (*closed)(struct signal_watch *w))
{
    w->closed = closed;
    uv_close((uv_handle_t *)w->poll, on_closed);   /* before its descriptor */
    close(w->fd);
    w->fd = -1;
}
