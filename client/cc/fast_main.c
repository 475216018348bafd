/* fast_main.c: neffcc itself: a hit on this host, and nothing else, in a few milliseconds: no RPC, no parsing, and none of the libraries
 * that a compile needs (loading those takes longer than the whole hit). Anything else goes on in neffcc-full, in this process. */
#include "client/cc/cc.h"

#include "base/clock.h"
#include "cache/read.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* Beside this file, where it is installed, or where the build says. */
_Noreturn static void go_on(struct cc *cc)
{
    const char *slash = cc->self ? strrchr(cc->self, '/') : NULL;
    int dir = slash ? (int)(slash - cc->self) : 0;
    const char *places[] = {nf_arena_printf(cc->arena, "%.*s/neffcc-full", dir, cc->self ? cc->self : ""),
                            nf_arena_printf(cc->arena, "%.*s/../libexec/neffd/neffcc-full", dir, cc->self ? cc->self : ""), NEFFCC_FULL};
    if (cc->self)
        setenv(CC_SELF, cc->self, 1);
    signal(SIGPIPE, cc->sigpipe);
    for (size_t i = 0; i < NF_ARRAY_LEN(places); i++)
        execve(places[i], cc->argv, environ);
    unsetenv(CC_SELF);
    cc_exec_real(cc, "neffcc-full cannot be started");
}

/* As libneffd computes it; the toolchain is the one that a daemon or neffcc-full has written down. */
static int front_key(struct cc *cc, struct nf_digest *ret_key)
{
    const struct cfg *cfg = cc->cfg;
    struct cache_toolchain t;
    int r = cache_toolchain_read(cfg->local_dir, cc->call.target, &t, NULL);
    if (r != NF_OK)
        return r;
    struct cache_option *given = NF_NEW_ARRAY(cc->arena, struct cache_option, cc->option_count + 1);
    for (size_t i = 0; i < cc->option_count; i++)
        given[i] = (struct cache_option){nf_str_c(cc->options[i].name), cc->options[i].value};
    struct cache_side_file *side = NF_NEW_ARRAY(cc->arena, struct cache_side_file, cc->side_count + 1);
    for (size_t i = 0; i < cc->side_count; i++)
        side[i] = (struct cache_side_file){nf_str_c(cc->side[i].name), nf_digest_of(cc->side[i].bytes.data, cc->side[i].bytes.len), cc->side[i].bytes.len};
    struct cache_front_parts front = {
        .target = nf_str_c(cc->call.target), .toolchain_id = nf_str_c(t.id), .options = given, .option_count = cc->option_count,
        .side_files = side, .side_file_count = cc->side_count, .cache_namespace = nf_str_c(cfg->cache_namespace),
    };
    return cache_key_front(&front, nf_buf_str(&cc->graph), ret_key, NULL);
}

int main(int argc, char **argv)
{
    struct cc cc;
    struct nf_error err = {0};
    struct nf_digest front;
    struct cache_reader *reader = NULL;
    struct cache_hit *hit = NULL;
    struct stat st;
    unsetenv(CC_SELF);
    cc_begin(&cc, argc, argv, &err);
    /* The daemon's user, as far as its socket says who that is. */
    const char *socket = cfg_socket_path(cc.cfg->socket);
    uid_t daemon = socket && stat(socket, &st) == 0 && S_ISSOCK(st.st_mode) ? st.st_uid : (uid_t)-1;
    struct cache_reader_options o = {.local_dir = cc.cfg->local_dir, .trusted_uids = &daemon, .trusted_count = daemon != (uid_t)-1,
                                     .verify_always = cc.cfg->verify == CFG_VERIFY_ALWAYS};
    if (cc.cfg->disable_cache || cc.wrapper.no_cache || cc.cfg->record_dir[0] || front_key(&cc, &front) != NF_OK || cache_reader_open(&o, &reader, NULL) != NF_OK ||
        cache_reader_lookup_front(reader, &front, &hit, NULL) != NF_OK || cache_hit_footer(hit)->kind != CACHE_KIND_NEFF)
        go_on(&cc);
    cc.via = "cache";
    cc.outcome = "hit_local";
    cc.key = cache_hit_footer(hit)->key;
    cc.has_key = true;
    if (cc_deliver(&cc, cache_hit_fd(hit), cache_hit_footer(hit)->raw_bytes, &err) != NF_OK)
        go_on(&cc);                                    /* it says what is wrong */
    cache_hit_close(hit);
    if (getpid() % 8 == 0)                             /* leaves the use for the order of eviction; an eighth of them says as much */
        cache_reader_close(reader);
    cc_end(&cc, 0);
}
