/* full_main.c: neffcc-full: what neffcc becomes when a call is no hit on this host: the daemon, or the whole work without one. */
#include "client/cc/cc.h"

#include "base/log.h"

int main(int argc, char **argv)
{
    struct cc cc;
    struct nf_error why = {0};
    int rc = 70;
    cc_begin(&cc, argc, argv, &why);
    unsetenv(CC_SELF);
    if (!cc.cfg->cache_only && !cc_output_possible(&cc)) /* nobody wants to know that after an hour: it is said as the compiler says it */
        cc_exec_real(&cc, "the output cannot be written");
    enum cc_next next = cc_ask(&cc, &rc, &why);
    if (next == CC_ALONE) {
        nf_log(NF_LOG_INFO, "neffcc", "going on without a daemon", "why=%s", nf_log_quote(why.message));
        memset(&why, 0, sizeof(why));
        next = cc_alone(&cc, &rc, &why);
    }
    if (next == CC_EXEC) {
        nf_log(NF_LOG_INFO, "neffcc", "going on with the real compiler", "why=%s", nf_log_quote(why.message));
        cc.outcome = "passed_through";
        cc_exec_real(&cc, why.message);
    }
    cc_end(&cc, rc);
}
