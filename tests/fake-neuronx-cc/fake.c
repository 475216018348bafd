/* fake-neuronx-cc: stands in for neuronx-cc, which cannot be installed on most machines, so that everything around a compiler can be
 * tried without one. It follows the documented command line and writes a file that has a NEFF's header and archive; it compiles
 * nothing. What neffd does only because this program does it is no knowledge about the real one.
 *
 * Written apart from runtime/neff on purpose: the two check each other. See usage() for the behaviours. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nettle/sha2.h>

#define HEADER 1024
#define DEFAULT_VERSION "2.21.18209.0+043b1bf7"

static void usage(void)
{
    puts("usage: neuronx-cc compile FILE --framework XLA --target T [flags] [--output FILE]\n"
         "       neuronx-cc --version | list-operators --framework XLA | --help\n"
         "\n"
         "This is neffd's stand-in for neuronx-cc. It compiles nothing; it behaves as it is told:\n"
         "  FAKE_NEURONX_CC=ACTION[,ACTION...]     done in order; then a NEFF is written and 0 returned\n"
         "  FAKE_NEURONX_CC_FILE=PATH              the same from the first line of a file, read at each start\n"
         "  FAKE_NEURONX_CC_RULES=PATH             lines TEXT => ACTIONS: the first whose TEXT is in the graph\n"
         "  FAKE_NEURONX_CC_LOG=PATH               one JSON line is appended at each start of a compile, one at its end\n"
         "  FAKE_NEURONX_CC_VERSION=TEXT           version; FAKE_NEURONX_CC_VERSION_MODE=warning|fail|slow:S|none\n"
         "actions:\n"
         "  ok                    nothing special\n"
         "  slow:S                takes S seconds, printing dots; a fraction is fine\n"
         "  hang                  never ends, ignores SIGTERM\n"
         "  fail[:N]              an error with code NCC_EVRF001, exit N (70)\n"
         "  exit:N                ends with N and says nothing\n"
         "  code:NCC_X[:N]        an error with that code, exit N (70)\n"
         "  fail-then-ok:K[:N]    the first K starts for this graph end with N (70) and no code, then ok; counted beside the log\n"
         "  kill-then-ok:K        the first K starts for this graph die by SIGKILL\n"
         "  killed | sig:NAME     dies by SIGKILL, or by TERM INT SEGV ABRT BUS\n"
         "  killed-late           writes half of the output, then dies by SIGKILL\n"
         "  f137                  the log of a compiler killed for memory, exit 70\n"
         "  pool                  the log of a broken process pool, exit 1\n"
         "  none | empty | header | cut[:BYTES] | badsize | sparse:BYTES   no output; 0 bytes; header alone; cut (1023); wrong data_size; huge\n"
         "  lnc:N | feature:BIT   says so in the header\n"
         "  rename | late[:MS] | elsewhere | link   output by rename; by a child after the end; as file.neff; a symbolic link\n"
         "  unique                other bytes at each run\n"
         "  flood[:KIB]           KIB (1024) of log on stderr, then on stdout; flood-out: the other way round\n"
         "  badutf8 | longline    bytes that are no UTF-8; a line of 10 MiB\n"
         "  alloc:MB[:S]          touches MB of memory, for S (0.5) seconds\n"
         "  spread:MB[:S]         the same by four processes, a quarter each\n"
         "  fork | escape[:S]     leaves a child in its group; leaves a grandchild in a session of its own, for S (60) seconds\n"
         "  cwdcheck              fails if another compile's files are in the working directory\n"
         "  argvdump:PATH         writes its arguments and some variables as JSON\n"
         "  needfile:DIR/NAME     fails with NCC_EVRF059 unless the file is below the working directory\n"
         "  diskfull              the log of a full disk, exit 70");
}

struct call {
    const char *input, *output, *target, *lnc;
    int argc;
    char **argv;
    unsigned char *graph;
    size_t graph_len;
    unsigned char digest[32];
    /* output */
    bool unique, rename, elsewhere, link, none;
    long cut, lnc_value;
    int feature, late_ms;
    bool empty, header, badsize;
    long long sparse;
};

/* ------------------------------------------------------------------------------------------------------------ helpers */

static void sleep_s(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

static void say(const char *level, const char *module, const char *text)
{
    struct timespec t;
    struct tm tm;
    char when[32];
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
    FILE *f = strcmp(level, "INFO") == 0 ? stdout : stderr;
    fprintf(f, "%s %s %d [%s]: %s\n", when, level, (int)getpid(), module, text);
    fflush(f);
}

static void json_string(FILE *f, const char *s)
{
    putc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 32)
            fprintf(f, "\\u%04x", c);
        else
            putc(c, f);
    }
    putc('"', f);
}

static void log_event(const struct call *c, const char *event, const char *actions)
{
    const char *path = getenv("FAKE_NEURONX_CC_LOG");
    if (!path)
        return;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    fprintf(f, "{\"event\":\"%s\",\"pid\":%d,\"ppid\":%d,\"time_ns\":%lld,\"graph\":\"", event, (int)getpid(), (int)getppid(),
            (long long)t.tv_sec * 1000000000 + t.tv_nsec);
    for (int i = 0; i < 8; i++)
        fprintf(f, "%02x", c->digest[i]);
    fputs("\",\"actions\":", f);
    json_string(f, actions);
    char cwd[4096];
    fputs(",\"cwd\":", f);
    json_string(f, getcwd(cwd, sizeof(cwd)) ? cwd : "");
    fputs(",\"argv\":[", f);
    for (int i = 0; i < c->argc; i++) {
        fputs(i ? "," : "", f);
        json_string(f, c->argv[i]);
    }
    fputs("]}\n", f);
    fclose(f);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0 && write(fd, text, len) != (ssize_t)len)
        fputs("fake-neuronx-cc: cannot write its log\n", stderr);
    if (fd >= 0)
        close(fd);
    free(text);
}

/* How often this graph has been counted before, under a lock, beside the log. */
static long count_up(const struct call *c, const char *what)
{
    const char *log = getenv("FAKE_NEURONX_CC_LOG");
    char path[4200], hex[17];
    for (int i = 0; i < 8; i++)
        snprintf(hex + 2 * i, 3, "%02x", c->digest[i]);
    snprintf(path, sizeof(path), "%s.%s.%s", log ? log : "/tmp/fake-neuronx-cc", what, hex);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return 0;
    flock(fd, LOCK_EX);
    char text[32] = "";
    ssize_t n = read(fd, text, sizeof(text) - 1);
    long before = n > 0 ? strtol(text, NULL, 10) : 0;
    n = snprintf(text, sizeof(text), "%ld\n", before + 1);
    if (pwrite(fd, text, (size_t)n, 0) != n)
        before = 0;
    close(fd);
    return before;
}

_Noreturn static void finish(const struct call *c, int code)
{
    char text[32];
    snprintf(text, sizeof(text), "exit %d", code);
    log_event(c, "end", text);
    fflush(NULL);
    _exit(code);
}

/* --------------------------------------------------------------------------------------------------------------- NEFF */

static void put(unsigned char *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(v >> 8 * i);
}

static size_t tar_file(unsigned char *at, const char *name, const void *data, size_t len)
{
    memset(at, 0, 512);
    snprintf((char *)at, 100, "%s", name);
    snprintf((char *)at + 100, 8, "%07o", 0644);
    snprintf((char *)at + 108, 8, "%07o", 0);
    snprintf((char *)at + 116, 8, "%07o", 0);
    snprintf((char *)at + 124, 12, "%011zo", len);
    snprintf((char *)at + 136, 12, "%011o", 0);
    memset(at + 148, ' ', 8);
    at[156] = '0';
    memcpy(at + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++)
        sum += at[i];
    snprintf((char *)at + 148, 8, "%06o", sum);
    memcpy(at + 512, data, len);
    size_t padded = (len + 511) / 512 * 512;
    memset(at + 512 + len, 0, padded - len);
    return 512 + padded;
}

/* The same graph, target and flags give the same bytes (unless `unique`): paths, verbosity and log files do not count. */
static unsigned char *make_neff(const struct call *c, size_t *ret_len)
{
    struct sha256_ctx sha;
    unsigned char tag[32];
    sha256_init(&sha);
    sha256_update(&sha, 32, c->digest);
    for (int i = 1; i < c->argc; i++) {
        const char *a = c->argv[i];
        bool skip = a == c->input || a == c->output || strncmp(a, "--output", 8) == 0 || strncmp(a, "--verbose", 9) == 0 ||
                    strncmp(a, "--logfile", 9) == 0;
        if (!skip)
            sha256_update(&sha, strlen(a) + 1, (const uint8_t *)a);
    }
    static const char *const env[] = {"NEURON_FRAMEWORK_DEBUG", "NKI_DEBUG_INFO", "XLA_IR_DEBUG", "XLA_HLO_DEBUG"};
    for (size_t i = 0; i < 4; i++) {
        const char *v = getenv(env[i]);
        sha256_update(&sha, strlen(v ? v : "") + 1, (const uint8_t *)(v ? v : ""));
    }
    sha256_digest(&sha, 32, tag);
    if (c->unique) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        uint64_t mix = (uint64_t)t.tv_nsec ^ (uint64_t)getpid() << 32;
        put(tag, mix, 8);
    }
    char json[512], hex[65];
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", tag[i]);
    int json_len = snprintf(json, sizeof(json), "{\"format\": \"fake\", \"target\": \"%s\", \"digest\": \"%s\"}\n", c->target ? c->target : "", hex);
    unsigned char engine[4096];
    for (size_t i = 0; i < sizeof(engine); i++)
        engine[i] = (unsigned char)(tag[i % 32] + i / 32);
    unsigned char *all = calloc(1, HEADER + 32768);
    size_t len = HEADER;
    len += tar_file(all + len, "kelf-a.json", json, (size_t)json_len);
    len += tar_file(all + len, "sg00/def.json", "{\"var\": {}, \"dma_queue\": {}}\n", 29);
    len += tar_file(all + len, "sg00/pe.bin", engine, sizeof(engine));
    len += 1024;
    put(all, 2, 8);
    put(all + 8, HEADER, 8);
    put(all + 16, len - HEADER, 8);
    put(all + 24, 2, 8);
    put(all + 32, 0, 8);
    const char *version = getenv("FAKE_NEURONX_CC_VERSION");
    snprintf((char *)all + 40, 128, "%s", version ? version : DEFAULT_VERSION);
    put(all + 168, 1, 4);
    sha256_init(&sha);
    sha256_update(&sha, len - HEADER, all + HEADER);
    sha256_digest(&sha, 32, all + 172);
    memcpy(all + 204, tag, 16);
    snprintf((char *)all + 220, 256, "%s", "fake");
    put(all + 476, 1, 4);
    all[480] = 1;
    put(all + 544, c->feature >= 0 ? 1ull << c->feature : 0, 8);
    put(all + 552, c->lnc_value > 0 ? (uint64_t)c->lnc_value : c->lnc ? (uint64_t)strtol(c->lnc, NULL, 10) : 0, 4);
    *ret_len = len;
    return all;
}

static int write_out(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len) {
        fprintf(stderr, "neuronx-cc: cannot write %s: %s\n", path, strerror(errno));
        return -1;
    }
    return close(fd);
}

static int produce(const struct call *c)
{
    if (c->none)
        return 0;
    size_t len = 0;
    unsigned char *neff = make_neff(c, &len);
    const char *path = c->elsewhere ? "file.neff" : c->output ? c->output : "file.neff";
    if (c->badsize)
        put(neff + 16, len, 8);
    if (c->cut >= 0 && (size_t)c->cut < len)
        len = (size_t)c->cut;
    if (c->header) {
        len = HEADER;
        put(neff + 16, 0, 8);
    }
    if (c->empty)
        len = 0;
    char other[4200];
    int r;
    if (c->late_ms > 0) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid != 0)
            return pid < 0 ? -1 : 0;
        setsid();
        sleep_s(c->late_ms / 1000.0);
        _exit(write_out(path, neff, len) != 0);
    }
    if (c->rename || c->link) {
        snprintf(other, sizeof(other), "%s.part", path);
        r = write_out(other, neff, len);
        if (r == 0)
            r = c->link ? symlink(other, path) : rename(other, path);
    } else {
        r = write_out(path, neff, len);
    }
    if (r == 0 && c->sparse > 0) {
        put(neff + 16, (uint64_t)c->sparse - HEADER, 8);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        r = fd < 0 || ftruncate(fd, c->sparse) < 0 || pwrite(fd, neff, HEADER, 0) != HEADER ? -1 : 0;
        close(fd);
    }
    free(neff);
    return r;
}

/* ------------------------------------------------------------------------------------------------------------- actions */

_Noreturn static void fail_with(const struct call *c, const char *code, int exit_code, const char *text)
{
    char line[300];
    snprintf(line, sizeof(line), "[%s] [%s] %s", code[4] == 'I' ? "INTERNAL_ERROR" : "USER_ERROR", code, text);
    fputs("***************************************************************\n", stderr);
    say("ERROR", "neuronxcc.driver.CommandDriver", line);
    fprintf(stderr, "Error message: %s\nError class: CompilerError\nCommand line: neuronx-cc compile ...\n", text);
    finish(c, exit_code);
}

static void flood(FILE *f, long kib)
{
    for (long i = 0; i < kib * 8; i++)
        fprintf(f, "2026-01-01T00:00:00Z INFO 1 [job.WalrusDriver.0]: line %8ld ", i), fprintf(f, "%064d\n", 0);
    fflush(f);
}

static void leave_child(bool own_session, double seconds)
{
    int ready[2];
    char byte = 0;
    fflush(NULL);
    if (pipe2(ready, O_CLOEXEC) < 0)
        return;
    pid_t pid = fork();
    if (pid != 0) {                      /* until it has said where it is */
        close(ready[1]);
        if (own_session)
            waitpid(pid, NULL, 0);
        while (read(ready[0], &byte, 1) < 0 && errno == EINTR)
            ;
        close(ready[0]);
        return;
    }
    if (own_session && (setsid() < 0 || fork() != 0))
        _exit(0);
    if (own_session)
        setsid();
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    const char *log = getenv("FAKE_NEURONX_CC_LOG");
    if (log) {
        char path[4200], text[32];
        snprintf(path, sizeof(path), "%s.left", log);
        int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (fd >= 0 && write(fd, text, (size_t)n) != n)
            _exit(1);
        close(fd);
    }
    close(ready[1]);
    sleep_s(seconds);
    _exit(0);
}

static void cwd_check(const struct call *c)
{
    DIR *d = opendir(".");
    for (struct dirent *e; d && (e = readdir(d));)
        if (strstr(e->d_name, ".neff"))
            fail_with(c, "NCC_ITST001", 70, "another compile's output is in the working directory");
    if (d)
        closedir(d);
}

static void argv_dump(const struct call *c, const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return;
    fputs("{\"argv\":[", f);
    for (int i = 0; i < c->argc; i++) {
        fputs(i ? "," : "", f);
        json_string(f, c->argv[i]);
    }
    fputs("],\"env\":{", f);
    static const char *const names[] = {"NEURON_FRAMEWORK_DEBUG", "NKI_DEBUG_INFO", "XLA_IR_DEBUG", "XLA_HLO_DEBUG", "NEURON_CC_FLAGS", "RANK"};
    bool first = true;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (!getenv(names[i]))
            continue;
        fputs(first ? "" : ",", f);
        json_string(f, names[i]);
        putc(':', f);
        json_string(f, getenv(names[i]));
        first = false;
    }
    fputs("}}\n", f);
    fclose(f);
}

static int signal_number(const char *name)
{
    static const struct { const char *name; int sig; } table[] = {
        {"KILL", SIGKILL}, {"TERM", SIGTERM}, {"INT", SIGINT}, {"SEGV", SIGSEGV}, {"ABRT", SIGABRT}, {"BUS", SIGBUS}, {"HUP", SIGHUP},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].sig;
    return SIGKILL;
}

_Noreturn static void die(const struct call *c, int sig)
{
    char text[32];
    snprintf(text, sizeof(text), "signal %d", sig);
    log_event(c, "end", text);
    signal(sig, SIG_DFL);
    kill(getpid(), sig);
    for (;;)
        pause();
}

static void act(struct call *c, const char *name, const char *arg, const char *arg2)
{
    double number = arg ? strtod(arg, NULL) : 0;
    long n = arg ? strtol(arg, NULL, 10) : 0, n2 = arg2 ? strtol(arg2, NULL, 10) : 70;
    if (strcmp(name, "ok") == 0 || !*name) {
        return;
    } else if (strcmp(name, "slow") == 0) {
        for (double left = number; left > 0; left -= 0.2) {
            putchar('.');
            fflush(stdout);
            sleep_s(left < 0.2 ? left : 0.2);
        }
    } else if (strcmp(name, "hang") == 0) {
        signal(SIGTERM, SIG_IGN);
        for (;;)
            pause();
    } else if (strcmp(name, "fail") == 0) {
        fail_with(c, "NCC_EVRF001", arg ? (int)n : 70, "The operation stablehlo.fancy is not supported");
    } else if (strcmp(name, "exit") == 0) {
        finish(c, (int)n);
    } else if (strcmp(name, "code") == 0) {
        fail_with(c, arg ? arg : "NCC_EVRF001", (int)n2, "as asked for");
    } else if (strcmp(name, "fail-then-ok") == 0) {
        if (count_up(c, "failed") < n) {
            say("ERROR", "root", "Subcommand returned with exitcode=70");
            finish(c, (int)n2);
        }
    } else if (strcmp(name, "kill-then-ok") == 0) {
        if (count_up(c, "killed") < n)
            die(c, SIGKILL);
    } else if (strcmp(name, "killed") == 0) {
        die(c, SIGKILL);
    } else if (strcmp(name, "sig") == 0) {
        die(c, signal_number(arg ? arg : "KILL"));
    } else if (strcmp(name, "killed-late") == 0) {
        c->cut = 3000;
        produce(c);
        die(c, SIGKILL);
    } else if (strcmp(name, "f137") == 0) {
        say("ERROR", "neuronxcc.driver.CommandDriver", "Backend exited with code -9 after 12 s");
        say("ERROR", "root", "Subcommand returned with exitcode=-9");
        say("ERROR", "root", "[F137] neuronx-cc was forcibly killed - This most commonly occurs due to insufficient system memory.");
        finish(c, 70);
    } else if (strcmp(name, "pool") == 0) {
        fputs("***************************************************************\nError message: A process in the process pool was terminated abruptly\n"
              "Error class: BrokenProcessPool\n", stderr);
        finish(c, 1);
    } else if (strcmp(name, "diskfull") == 0) {
        say("ERROR", "root", "OSError: [Errno 28] No space left on device: 'penguin.json'");
        finish(c, 70);
    } else if (strcmp(name, "none") == 0) {
        c->none = true;
    } else if (strcmp(name, "empty") == 0) {
        c->empty = true;
    } else if (strcmp(name, "header") == 0) {
        c->header = true;
    } else if (strcmp(name, "cut") == 0) {
        c->cut = arg ? n : 1023;
    } else if (strcmp(name, "badsize") == 0) {
        c->badsize = true;
    } else if (strcmp(name, "sparse") == 0) {
        c->sparse = arg ? strtoll(arg, NULL, 10) : 2147483648LL;
    } else if (strcmp(name, "lnc") == 0) {
        c->lnc_value = n;
    } else if (strcmp(name, "feature") == 0) {
        c->feature = (int)n;
    } else if (strcmp(name, "rename") == 0) {
        c->rename = true;
    } else if (strcmp(name, "link") == 0) {
        c->link = true;
    } else if (strcmp(name, "late") == 0) {
        c->late_ms = arg ? (int)n : 500;
    } else if (strcmp(name, "elsewhere") == 0) {
        c->elsewhere = true;
    } else if (strcmp(name, "unique") == 0) {
        c->unique = true;
    } else if (strcmp(name, "flood") == 0) {
        flood(stderr, arg ? n : 1024);
        flood(stdout, arg ? n : 1024);
    } else if (strcmp(name, "flood-out") == 0) {
        flood(stdout, arg ? n : 1024);
        flood(stderr, arg ? n : 1024);
    } else if (strcmp(name, "badutf8") == 0) {
        fwrite("bad \xff\xfe bytes \xc3( and \xe2\x82 cut\n", 1, 27, stderr);
        fflush(stderr);
    } else if (strcmp(name, "longline") == 0) {
        for (int i = 0; i < 10 * 1024; i++)
            printf("%01024d", 0);
        putchar('\n');
        fflush(stdout);
    } else if (strcmp(name, "alloc") == 0 || strcmp(name, "spread") == 0) {
        bool four = *name == 's', first = true;
        fflush(NULL);
        for (int i = 1; four && first && i < 4; i++)
            first = fork() != 0;
        size_t bytes = ((size_t)n << 20) / (four ? 4 : 1);
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            say("ERROR", "root", "MemoryError");
            finish(c, 1);
        }
        memset(p, 1, bytes);
        sleep_s(arg2 ? strtod(arg2, NULL) : 0.5);
        munmap(p, bytes);
        if (!first)
            _exit(0);
        while (four && wait(NULL) > 0)
            ;
    } else if (strcmp(name, "fork") == 0) {
        leave_child(false, arg ? number : 60);
    } else if (strcmp(name, "escape") == 0) {
        leave_child(true, arg ? number : 60);
    } else if (strcmp(name, "cwdcheck") == 0) {
        cwd_check(c);
    } else if (strcmp(name, "argvdump") == 0) {
        argv_dump(c, arg ? arg : "argv.json");
    } else if (strcmp(name, "needfile") == 0) {
        if (!arg || access(arg, R_OK) != 0)
            fail_with(c, "NCC_EVRF059", 70, "NKI kernel file not found");
    } else {
        fprintf(stderr, "fake-neuronx-cc: unknown action %s\n", name);
        finish(c, 2);
    }
}

static void act_all(struct call *c, char *actions)
{
    while (*actions) {
        size_t n = strcspn(actions, ",\n");
        bool more = actions[n] == ',';
        actions[n] = 0;
        char *arg = strchr(actions, ':'), *arg2 = NULL;
        if (arg) {
            *arg++ = 0;
            arg2 = strchr(arg, ':');
            if (arg2)
                *arg2++ = 0;
        }
        act(c, actions, arg, arg2);
        if (!more)
            break;
        actions += n + 1;
    }
}

/* --------------------------------------------------------------------------------------------------------------- main */

static int version(void)
{
    const char *v = getenv("FAKE_NEURONX_CC_VERSION"), *mode = getenv("FAKE_NEURONX_CC_VERSION_MODE");
    const char *log = getenv("FAKE_NEURONX_CC_LOG");
    if (log) {
        char path[4200];
        snprintf(path, sizeof(path), "%s.version", log);
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (fd >= 0 && write(fd, "version\n", 8) != 8)
            return 1;
        close(fd);
    }
    if (mode && strncmp(mode, "slow:", 5) == 0)
        sleep_s(strtod(mode + 5, NULL));
    if (mode && strcmp(mode, "warning") == 0)
        puts("/usr/lib/python3/dist-packages/x.py:1: DeprecationWarning: something is old");
    if (mode && strcmp(mode, "fail") == 0) {
        fputs("ModuleNotFoundError: No module named 'neuronxcc'\n", stderr);
        return 1;
    }
    if (!mode || strcmp(mode, "none") != 0)
        printf("NeuronX Compiler version %s\n\n", v ? v : DEFAULT_VERSION);
    puts("Python version 3.10.12\nHWM version 2.21.0.0+043b1bf7\nNumPy version 1.25.2");
    return 0;
}

static char *actions_for(const struct call *c)
{
    const char *path = getenv("FAKE_NEURONX_CC_RULES"), *env = getenv("FAKE_NEURONX_CC"), *file = getenv("FAKE_NEURONX_CC_FILE");
    static char line[4096];
    FILE *f = path ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof(line), f)) {
        char *arrow = strstr(line, " => ");
        if (!arrow || !c->graph)
            continue;
        if (memmem(c->graph, c->graph_len, line, (size_t)(arrow - line))) {
            fclose(f);
            return arrow + 4;
        }
    }
    if (f)
        fclose(f);
    f = file ? fopen(file, "re") : NULL;
    if (f && fgets(line, sizeof(line), f)) {
        fclose(f);
        return line;
    }
    if (f)
        fclose(f);
    snprintf(line, sizeof(line), "%s", env ? env : "ok");
    return line;
}

int main(int argc, char **argv)
{
    struct call c = {.argc = argc, .argv = argv, .cut = -1, .feature = -1};
    bool compile = false;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage();
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "--version") == 0)
        return version();
    if (strcmp(argv[1], "list-operators") == 0) {
        puts("Add\nDot\nExp");
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        char *a = argv[i], *eq = strchr(a, '=');
        bool next = i + 1 < argc;
        if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
            usage();
            return 0;
        }
        if (a[0] != '-') {
            if (!compile && strcmp(a, "compile") == 0)
                compile = true;
            else if (compile && !c.input)
                c.input = a;
            else
                continue;            /* value of a flag that takes several */
        } else if (strncmp(a, "--output=", 9) == 0) {
            c.output = eq + 1;
        } else if (strcmp(a, "--output") == 0 && next) {
            c.output = argv[++i];
        } else if (strncmp(a, "--target=", 9) == 0) {
            c.target = eq + 1;
        } else if (strcmp(a, "--target") == 0 && next) {
            c.target = argv[++i];
        } else if (strncmp(a, "--lnc=", 6) == 0 || strncmp(a, "-lnc=", 5) == 0 || strncmp(a, "--logical-nc-config=", 20) == 0) {
            c.lnc = eq + 1;
        } else if ((strcmp(a, "--lnc") == 0 || strcmp(a, "-lnc") == 0 || strcmp(a, "--logical-nc-config") == 0 || strcmp(a, "--framework") == 0 ||
                    strcmp(a, "--model-type") == 0 || strcmp(a, "--auto-cast") == 0 || strcmp(a, "--optlevel") == 0 || strcmp(a, "--logfile") == 0 ||
                    strcmp(a, "--verbose") == 0 || strcmp(a, "--auto-cast-type") == 0) && next) {
            i++;
            if (strstr(a, "nc"))
                c.lnc = argv[i];
        }
    }
    if (!compile || !c.input) {
        fputs("usage: neuronx-cc compile FILE --framework XLA --target T\nneuronx-cc: error: the following arguments are required\n", stderr);
        return 2;
    }
    int fd = open(c.input, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        fprintf(stderr, "neuronx-cc: cannot read %s: %s\n", c.input, strerror(errno));
        return 1;
    }
    c.graph_len = (size_t)st.st_size;
    c.graph = malloc(c.graph_len + 1);
    size_t at = 0;
    for (ssize_t n; at < c.graph_len && (n = read(fd, c.graph + at, c.graph_len - at)) > 0;)
        at += (size_t)n;
    close(fd);
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, at, c.graph);
    sha256_digest(&sha, 32, c.digest);
    char *actions = actions_for(&c);
    char first[256];
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(actions, "\n"), actions);
    log_event(&c, "start", first);
    FILE *log = fopen("log-neuron-cc.txt", "ae");
    if (log) {
        fputs("fake compile\n", log);
        fclose(log);
    }
    act_all(&c, actions);
    printf(".....\nCompiler status PASS\n");
    fflush(stdout);
    if (produce(&c) != 0)
        finish(&c, 70);
    finish(&c, 0);
}
