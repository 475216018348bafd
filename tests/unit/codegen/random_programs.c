/* random_programs.c: native code against the evaluator on programs made up from seeds.
 *
 *     random_programs [--count N] [--seed S] [--minutes M] [--ops N] [--native N]
 *     random_programs FILE.mlir...
 *
 * Every program runs interpreted, on one and on two threads; one in `native` also as machine code. A program that differs is cut down
 * to fewer operations while it still differs, printed, and ends the run with status 1. Files, which are programs that differed once, run as both, on
 * inputs of a few seeds. */
#include "tests/unit/codegen/random.h"

#include "base/clock.h"
#include "base/file.h"

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

int main(int argc, char **argv)
{
    int64_t count = 2000, seed = 1, minutes = 0, ops = 24, native = 8, failed = 0, done = 0;
    if (argc > 1 && argv[1][0] != '-') return files(argc - 1, argv + 1);
    for (int i = 1; i + 1 < argc; i += 2) {
        int64_t v = strtoll(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--count") == 0) count = v;
        else if (strcmp(argv[i], "--seed") == 0) seed = v;
        else if (strcmp(argv[i], "--minutes") == 0) minutes = v;
        else if (strcmp(argv[i], "--ops") == 0) ops = v;
        else if (strcmp(argv[i], "--native") == 0) native = v;
        else {
            fprintf(stderr, "usage: random_programs [--count N] [--seed S] [--minutes M] [--ops N] [--native N]\n       random_programs FILE.mlir...\n");
            return 2;
        }
    }
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
