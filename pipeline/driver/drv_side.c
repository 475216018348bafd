#include "pipeline/driver/drv_side.h"

#include "base/file.h"
#include "pipeline/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define KERNEL_CALL "AwsNeuronCustomNativeKernel"
#define PATHS_MAX 4096
#define REACH 16384                    /* bytes behind the call's name in which its payload is looked for */

bool drv_side_name(struct nf_str path, char *ret_name, size_t size)
{
    size_t slash = path.len, before;
    while (slash > 0 && path.data[slash - 1] != '/')
        slash--;
    if (slash < 2 || slash == path.len)
        return false;
    before = slash - 1;
    while (before > 0 && path.data[before - 1] != '/')
        before--;
    return nf_format(ret_name, size, "%.*s", (int)NF_MIN(path.len - before, (size_t)4096), path.data + before) && drv_side_name_good(ret_name);
}

bool drv_side_name_good(const char *name)
{
    const char *slash = strchr(name, '/');
    if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/') || strlen(name) > 500)
        return false;
    size_t dir = (size_t)(slash - name);
    return !(dir == 1 && name[0] == '.') && !(dir == 2 && name[0] == '.' && name[1] == '.') && strcmp(slash, "/.") != 0 && strcmp(slash, "/..") != 0;
}

static bool path_char(unsigned char c)
{
    return c > ' ' && c != '"' && c != '\'' && c != '\\' && c != ',' && c != ';' && c != '<' && c != '>' && c != '{' && c != '}' && c < 127;
}

size_t drv_side_paths(struct nf_str graph, struct nf_arena *arena, const struct nf_str **ret_paths)
{
    struct nf_str *v = NULL;
    size_t n = 0, cap = 0;
    struct nf_str rest = graph;
    for (;;) {
        const char *call = rest.len ? memmem(rest.data, rest.len, KERNEL_CALL, strlen(KERNEL_CALL)) : NULL;
        if (!call)
            break;
        size_t from = (size_t)(call - rest.data) + strlen(KERNEL_CALL);
        struct nf_str area = nf_str_n(rest.data + from, NF_MIN(rest.len - from, (size_t)REACH));
        const char *next = area.len ? memmem(area.data, area.len, KERNEL_CALL, strlen(KERNEL_CALL)) : NULL;
        if (next)
            area.len = (size_t)(next - area.data);
        /* A path starts with a slash behind something that cannot be part of one, has a directory, and ends where such a thing does. */
        for (size_t i = 0; i < area.len && n < PATHS_MAX; i++) {
            if (area.data[i] != '/' || (i > 0 && (path_char((unsigned char)area.data[i - 1]) && area.data[i - 1] != '=' && area.data[i - 1] != ':')))
                continue;
            size_t end = i;
            unsigned slashes = 0;
            while (end < area.len && path_char((unsigned char)area.data[end]))
                slashes += area.data[end++] == '/';
            struct nf_str path = nf_str_n(area.data + i, end - i);
            char name[512];
            bool seen = slashes < 2 || area.data[i + 1] == '/' || !drv_side_name(path, name, sizeof(name));
            for (size_t k = 0; k < n && !seen; k++)
                seen = nf_str_eq(v[k], path);
            if (!seen) {
                if (n == cap) {
                    cap = cap ? cap * 2 : 8;
                    struct nf_str *grown = NF_NEW_ARRAY(arena, struct nf_str, cap);
                    if (n)
                        memcpy(grown, v, n * sizeof(*v));
                    v = grown;
                }
                v[n++] = path;
            }
            i = end;
        }
        rest = nf_str_n(rest.data + from, rest.len - from);
    }
    *ret_paths = v;
    return n;
}

static int copy_in(const struct compile_input *input, const struct pipe_side_file *f, struct nf_error *err)
{
    if (!drv_side_name_good(f->name))
        return nf_fail(err, NF_EINVAL, "a side file's name must be <dir>/<file>, not %.100s", f->name);
    char *dir = nf_asprintf("%s/%.*s", input->work_dir, (int)(strchr(f->name, '/') - f->name), f->name);
    char *to = nf_asprintf("%s/%s", input->work_dir, f->name);
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

int drv_side_stage(const struct compile_input *input, struct nf_error *err)
{
    for (size_t i = 0; i < input->side_file_count; i++) {
        int r = copy_in(input, &input->side_files[i], err);
        if (r != NF_OK)
            return r;
    }
    const struct nf_str *paths;
    struct nf_str graph = input->graph->kind == PIPE_KIND_HLO_PROTO ? input->graph->original : input->graph->canonical;
    size_t n = drv_side_paths(graph, input->graph->arena, &paths);
    for (size_t i = 0; i < n; i++) {
        char name[512];
        bool have = false;
        drv_side_name(paths[i], name, sizeof(name));
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
