/* cfgdoc: prints what is generated from the option table; for the build and its tests. */
#include "config/config.h"

int main(int argc, char **argv)
{
    struct nf_buf out = NF_BUF_INIT;
    struct nf_error err = {0};
    struct cfg *cfg = NULL;
    if (argc == 2 && strcmp(argv[1], "--markdown") == 0) {
        cfg_print_markdown(&out);
    } else if (argc == 2 && strcmp(argv[1], "--man") == 0) {
        cfg_print_man(&out);
    } else if (argc == 2 && strcmp(argv[1], "--sample") == 0) {
        static const char *const no_env[] = {NULL};
        int rc = cfg_load(&(struct cfg_sources){.program = "cfgdoc", .env = no_env, .file = ""}, &cfg, &err);
        if (rc) {
            nf_error_print("cfgdoc", &err);
            return nf_status_exit(rc);
        }
        cfg_print_file(cfg, &out);
        cfg_free(cfg);
    } else {
        fprintf(stderr, "usage: cfgdoc --markdown|--man|--sample\n");
        return 2;
    }
    size_t written = fwrite(out.data, 1, out.len, stdout);
    bool failed = written != out.len || fflush(stdout) != 0;
    nf_buf_done(&out);
    return failed;
}
