/* The configuration file: any bytes give a configuration or an error with a place in it. */
#include "config/config.h"

#include "base/file.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const no_env[] = {NULL};
    int fd = memfd_create("config", MFD_CLOEXEC);
    char path[64];
    struct cfg *cfg = NULL;
    struct nf_error err = {0};
    if (fd < 0 || nf_fd_write_all(fd, data, size) != NF_OK)
        abort();
    nf_format(path, sizeof(path), "/proc/self/fd/%d", fd);
    int rc = cfg_load(&(struct cfg_sources){.env = no_env, .file = path}, &cfg, &err);
    if (rc ? err.code != rc || !err.message[0] : !cfg)
        abort();
    if (cfg) {
        struct nf_buf out = NF_BUF_INIT;
        cfg_print_file(cfg, &out);
        nf_buf_done(&out);
    }
    cfg_free(cfg);
    close(fd);
    return 0;
}
