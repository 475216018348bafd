#include "pipeline/driver/drv_side.h"

#include "base/file.h"
#include "pipeline/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int copy_in(const char *work_dir, const struct pipe_side_file *f, struct nf_error *err)
{
    if (!pipe_side_name_good(f->name))
        return nf_fail(err, NF_EINVAL, "a side file's name must be <dir>/<file>, not %.100s", f->name);
    char *dir = nf_asprintf("%s/%.*s", work_dir, (int)(strchr(f->name, '/') - f->name), f->name);
    char *to = nf_asprintf("%s/%s", work_dir, f->name);
    struct nf_buf bytes = NF_BUF_INIT;
    int r = mkdir(dir, 0700) < 0 && errno != EEXIST ? nf_fail_errno(err, errno, "cannot create %s", dir) : NF_OK;
    if (r == NF_OK)
        r = nf_file_read(f->path, f->size + 1, &bytes, err);
    if (r == NF_OK) {
        struct nf_digest d = nf_digest_of(bytes.data, bytes.len);
        if (bytes.len != f->size || !nf_digest_eq(&d, &f->sha256))
            r = nf_fail(err, NF_EINVAL, "the side file %s is not what its digest says", f->name);
    }
    if (r == NF_OK) {
        int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        r = fd < 0 ? nf_fail_errno(err, errno, "cannot create %s", to) : nf_fd_write_all(fd, bytes.data, bytes.len);
        if (fd >= 0 && r != NF_OK)
            nf_fail(err, r, "cannot write %s", to);
        if (fd >= 0)
            close(fd);
    }
    nf_buf_done(&bytes);
    free(dir);
    free(to);
    return r;
}

int drv_side_stage(const struct compile_input *input, const char *dir, struct nf_error *err)
{
    for (size_t i = 0; i < input->side_file_count; i++) {
        int r = copy_in(dir, &input->side_files[i], err);
        if (r != NF_OK)
            return r;
    }
    const struct nf_str *paths;
    struct nf_str graph = input->graph->kind == PIPE_KIND_HLO_PROTO ? input->graph->original : input->graph->canonical;
    size_t n = pipe_side_paths(graph, input->graph->arena, &paths);
    for (size_t i = 0; i < n; i++) {
        char name[512];
        bool have = false;
        pipe_side_name(paths[i], name, sizeof(name));
        for (size_t k = 0; k < input->side_file_count && !have; k++)
            have = strcmp(input->side_files[k].name, name) == 0;
        if (have)
            continue;
        nf_fail(err, NF_ESIDEFILE, "the graph needs the kernel file %.*s, and it did not come with the request as %s", (int)NF_MIN(paths[i].len, (size_t)400),
                paths[i].data, name);
        nf_error_hint(err, "trace again, or give the file as a side file; neffcc and the Python backend do so when it still exists where it was traced");
        return NF_ESIDEFILE;
    }
    return NF_OK;
}
