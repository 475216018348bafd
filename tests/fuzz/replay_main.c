/* replay_main.c: runs a fuzz target once over each file of the folders and files it is given, so that every input that was ever
 * interesting is a normal test. Also runs each input cut at a few places, and with a byte flipped, because that is cheap.
 * Without an input of its own a target is not tested, and that is an error. */
#include "base/file.h"

#include <dirent.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t inputs;

/* A copy of exactly the size: an overrun by one byte is then seen by the sanitizers. */
static void run(const char *data, size_t size)
{
    uint8_t *copy = nf_alloc(size ? size : 1);
    uint8_t *exact = nf_realloc(copy, size ? size : 1);
    if (size)
        memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static int run_file(const char *path)
{
    struct nf_buf b = NF_BUF_INIT;
    struct nf_error err = {0};
    if (nf_file_read(path, 64 << 20, &b, &err) != NF_OK) {
        nf_error_print("replay", &err);
        return 1;
    }
    run(b.data, b.len);
    for (size_t i = 1; i < 8 && b.len; i++)
        run(b.data, b.len * i / 8);
    for (size_t i = 0; i < 8 && b.len; i++) {
        size_t at = (b.len - 1) * i / 7;
        b.data[at] = (char)(b.data[at] ^ (1 << i));
        run(b.data, b.len);
        b.data[at] = (char)(b.data[at] ^ (1 << i));
    }
    nf_buf_done(&b);
    inputs++;
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            if (run_file(argv[i]))
                return 1;
            continue;
        }
        for (struct dirent *e; (e = readdir(dir));) {
            char *path = nf_asprintf("%s/%s", argv[i], e->d_name);
            int rc = e->d_name[0] == '.' ? 0 : run_file(path);
            free(path);
            if (rc)
                return 1;
        }
        closedir(dir);
    }
    if (inputs == 0) {
        fprintf(stderr, "replay: no inputs\n");
        return 1;
    }
    printf("%zu inputs\n", inputs);
    return 0;
}
