/* random_programs.c: native code against the evaluator on programs made up from seeds.
 *
 *     random_programs [--count N] [--seed S] [--minutes M] [--ops N] [--native N]
 *     random_programs FILE.mlir...
 *     random_programs --help
 *
 * Every program runs interpreted, on one and on two threads; one in `native` also as machine code. A program that differs is cut down
 * to fewer operations while it still differs, printed, and ends the run with status 1. Files, which are programs that differed once, run as both, on
 * inputs of a few seeds. */
#include "tests/unit/codegen/random.h"

#include "base/clock.h"
#include "base/file.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

static bool differs(uint64_t seed, int ops, bool interpret, struct nf_buf *text, struct nf_buf *why)
{
    bool refused;
    nf_buf_clear(text);
    nf_buf_clear(why);
    random_program(seed, ops, text);
    return random_compare(nf_buf_str(text), seed ^ 0x5555, 1 + (int)(seed & 1), interpret, &refused, why) != 0;
}

static int files(int n, char **path)
{
    int failed = 0;
    for (int i = 0; i < n; i++) {
        struct nf_buf text = NF_BUF_INIT, why = NF_BUF_INIT;
        struct nf_error err = {0};
        bool refused = false, bad = nf_file_read(path[i], 1 << 20, &text, &err) != 0;
        if (bad) nf_buf_addf(&why, "%s", err.message);
        for (uint64_t k = 0; !bad && k < 12; k++) bad = random_compare(nf_buf_str(&text), k, 1 + (int)(k & 1), k & 2, &refused, &why) || refused;
        if (bad) printf("%s: %s\n", path[i], refused ? "refused" : why.data);
        failed += bad;
        nf_buf_done(&text);
        nf_buf_done(&why);
    }
    printf("%d programs, %d differ\n", n, failed);
    return failed ? 1 : 0;
}

static const char usage[] = "usage: random_programs [OPTION]...\n"
                            "       random_programs FILE.mlir...\n"
                            "Native code against the evaluator: on programs from seeds, or on those of files.\n\n"
                            "  --count N      so many programs (2000)\n"
                            "  --seed S       the first one's seed (1); the others' follow\n"
                            "  --minutes M    instead of a count: so long\n"
                            "  --ops N        operations of a program, at most (24)\n"
                            "  --native N     one in N is compiled to machine code, the others are interpreted (8)\n"
                            "  --help         this text\n\n"
                            "Exit status: 0 all agree, 1 some differ, 2 usage.\n";

enum { COUNT, SEED, MINUTES, OPS, NATIVE, NUMBERS, HELP };

int main(int argc, char **argv)
{
    int64_t number[NUMBERS] = {[COUNT] = 2000, [SEED] = 1, [OPS] = 24, [NATIVE] = 8}, failed = 0, done = 0;
    static const int64_t least_of[NUMBERS] = {[SEED] = INT64_MIN, [OPS] = 1, [NATIVE] = 1};
    static const struct option options[] = {
        {"count", required_argument, NULL, COUNT}, {"seed", required_argument, NULL, SEED}, {"minutes", required_argument, NULL, MINUTES},
        {"ops", required_argument, NULL, OPS}, {"native", required_argument, NULL, NATIVE}, {"help", no_argument, NULL, HELP}, {0},
    };
    for (int o, at = 0; (o = getopt_long(argc, argv, "", options, &at)) != -1;) {
        if (o == HELP) {
            fputs(usage, stdout);
            return 0;
        }
        if (o < 0 || o >= NUMBERS) {   /* getopt has said what is wrong */
            fputs(usage, stderr);
            return 2;
        }
        if (nf_str_to_i64(nf_str_c(optarg), &number[o]) < 0 || number[o] < least_of[o] || number[o] > (o == SEED ? INT64_MAX : INT32_MAX)) {
            fprintf(stderr, "random_programs: --%s does not take '%s'\n", options[at].name, optarg);
            return 2;
        }
    }
    if (optind < argc) return files(argc - optind, argv + optind);
    int64_t count = number[COUNT], seed = number[SEED], minutes = number[MINUTES], ops = number[OPS], native = number[NATIVE];
    struct nf_buf text = NF_BUF_INIT, why = NF_BUF_INIT;
    int64_t until = minutes ? nf_now_ns() + minutes * 60 * NF_SEC : 0;
    for (int64_t i = 0; until ? nf_now_ns() < until : i < count; i++, done++) {
        bool interpret = i % native != 0;
        uint64_t s = (uint64_t)(seed + i);
        if (!differs(s, (int)ops, interpret, &text, &why)) continue;
        int least = (int)ops;
        for (int k = 1; k < (int)ops; k++)
            if (differs(s, k, interpret, &text, &why)) {
                least = k;
                break;
            }
        differs(s, least, interpret, &text, &why);
        printf("seed %" PRIu64 ", %d operations at most, %s: %s\n%s\n", s, least, interpret ? "interpreted" : "native", why.data ? why.data : "", text.data);
        if (++failed == 5) break;
    }
    printf("%" PRId64 " programs, %" PRId64 " differ\n", done, failed);
    nf_buf_done(&text);
    nf_buf_done(&why);
    return failed ? 1 : 0;
}
