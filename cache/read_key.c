/* read_key.c: hits by canonical key, in the local tier and on the mount, where payloads may be packed. Apart from read.c, so that a program
 * without shared libraries (neffcc) can have the one without the other: unpacking loads libzstd. */
#include "cache/read.h"

#include "cache/read_internal.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Calls try for each namespace that has a directory until one does not answer NF_ENOTFOUND. */
static int each_namespace(const char *tier_dir, int (*try)(void *user, const char *space), void *user)
{
    char path[4200];
    nf_format(path, sizeof(path), "%s/entries", tier_dir);
    int rc = try(user, "_");
    DIR *dir = rc == NF_ENOTFOUND ? opendir(path) : NULL;
    if (!dir)
        return rc;
    for (struct dirent *e; rc == NF_ENOTFOUND && (e = readdir(dir));)
        if (strcmp(e->d_name, "_") != 0 && e->d_name[0] != '.' && cache_namespace_check(nf_str_c(e->d_name), NULL) == NF_OK)
            rc = try(user, e->d_name);
    closedir(dir);
    return rc;
}

struct lookup {
    struct cache_reader *reader;
    const struct nf_digest *key;
    char hex[NF_DIGEST_HEX];
    struct cache_hit **ret_hit;
    struct nf_error *err;
};

static int lookup_local_in(void *user, const char *space)
{
    struct lookup *l = user;
    return cache__reader_open_local(l->reader, space, l->hex, l->key, l->ret_hit, l->err);
}

static int lookup_in(struct cache_reader *r, const char *tier_dir, const struct nf_digest *key, const char *cache_namespace,
                     int (*try)(void *, const char *), struct cache_hit **ret_hit, struct nf_error *err)
{
    struct lookup l = {.reader = r, .key = key, .ret_hit = ret_hit, .err = err};
    nf_digest_hex(key, l.hex);
    int rc;
    if (cache_namespace) {
        rc = cache_namespace_check(nf_str_c(cache_namespace), err);
        if (rc)
            return rc;
        rc = try(&l, cache_namespace[0] ? cache_namespace : "_");
    } else {
        rc = each_namespace(tier_dir, try, &l);
    }
    return rc == NF_ENOTFOUND ? cache__reader_miss(err, "key", l.hex, tier_dir) : rc;
}

int cache_reader_lookup(struct cache_reader *r, const struct nf_digest *key, const char *cache_namespace, struct cache_hit **ret_hit,
                        struct nf_error *err)
{
    return lookup_in(r, r->local_dir, key, cache_namespace, lookup_local_in, ret_hit, err);
}

/* ------------------------------------------------------------------------------------------------- shared tier */

/* libzstd's one-call decoder. Linked programs have no need of it: a client that finds what it wants in its own tier never loads it. */
typedef size_t zstd_decompress_fn(void *out, size_t out_len, const void *in, size_t in_len);

static zstd_decompress_fn *zstd_load(void)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "ZSTD_decompress") : NULL;
    zstd_decompress_fn *fn = NULL;
    memcpy(&fn, &symbol, sizeof(fn));
    return fn; /* the library stays: it is needed again */
}

/* Unpacks the payload of *file into anonymous memory, which takes the place of its descriptor. */
static int unpack(struct cache__file *file, const char *path, struct nf_error *err)
{
    const struct cache_footer *f = &file->footer;
    zstd_decompress_fn *decompress = zstd_load();
    if (!decompress)
        return nf_fail(err, NF_EUNSUPPORTED, "%s is compressed and libzstd.so.1 cannot be loaded", path);
    if (f->raw_bytes == 0 || f->raw_bytes > (uint64_t)16 << 30 || f->stored_bytes > f->raw_bytes)
        return nf_fail(err, NF_ECORRUPT, "%s: a compressed payload of %llu bytes for %llu is not believable", path,
                       (unsigned long long)f->stored_bytes, (unsigned long long)f->raw_bytes);
    int memory = memfd_create("neffd-entry", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, (off_t)f->raw_bytes) != 0) {
        int rc = nf_fail_errno(err, errno, "no memory to unpack %s", path);
        if (memory >= 0)
            close(memory);
        return rc;
    }
    int rc = NF_OK;
    void *in = nf_try_alloc((size_t)f->stored_bytes);
    void *out = mmap(NULL, (size_t)f->raw_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (!in || out == MAP_FAILED)
        rc = nf_fail(err, NF_ENOMEM, "no memory to unpack %s", path);
    else if ((rc = nf_fd_pread_all(file->fd, in, (size_t)f->stored_bytes, 0)))
        nf_fail(err, rc, "cannot read %s: %s", path, nf_status_text(rc));
    else if (decompress(out, (size_t)f->raw_bytes, in, (size_t)f->stored_bytes) != f->raw_bytes)
        rc = nf_fail(err, NF_ECORRUPT, "%s does not unpack", path);
    free(in);
    if (out != MAP_FAILED)
        munmap(out, (size_t)f->raw_bytes);
    if (rc) {
        close(memory);
        return rc;
    }
    /* The metadata stay readable: the footer goes on describing the file, so they are copied behind the payload. */
    char *meta = nf_try_alloc((size_t)f->meta_bytes + 1);
    if (meta && nf_fd_pread_all(file->fd, meta, (size_t)f->meta_bytes, f->stored_bytes) == NF_OK &&
        pwrite(memory, meta, (size_t)f->meta_bytes, (off_t)f->raw_bytes) == (ssize_t)f->meta_bytes) {
        file->footer.encoding = CACHE_RAW;
        file->footer.stored_bytes = f->raw_bytes;
    } else {
        rc = nf_fail(err, NF_EIO, "cannot read the metadata of %s", path);
    }
    free(meta);
    if (rc) {
        close(memory);
        return rc;
    }
    close(file->fd);
    file->fd = memory;
    return NF_OK;
}

static int shared_open(void *user, const char *space)
{
    struct lookup *l = user;
    struct cache_reader *r = l->reader;
    char path[4352];
    for (int kind = 0; kind < CACHE_KIND_FAILURE; kind++) {
        struct cache__file file;
        nf_format(path, sizeof(path), "%s/entries/%s/%.2s/%.2s/%s%s", r->shared_dir, space, l->hex, l->hex + 2, l->hex,
                  cache_kind_suffix((enum cache_kind)kind));
        int rc = cache__file_open(path, l->key, (enum cache_kind)kind, r->trusted, r->trusted_count, &file, l->err);
        if (rc == NF_ENOTFOUND)
            continue;
        if (rc)
            return rc;
        cache__lock_shared(file.fd);
        bool packed = file.footer.encoding != CACHE_RAW;
        if (packed && (rc = unpack(&file, path, l->err))) {
            close(file.fd);
            return rc;
        }
        rc = cache__raw_hash_check(file.fd, &file.footer, l->err);
        if (rc) {
            close(file.fd);
            return l->err ? nf_error_prefix(l->err, "%s", path) : rc;
        }
        if (packed)
            nf_format(path, sizeof(path), "/proc/self/fd/%d", file.fd);
        *l->ret_hit = cache__hit_new(&file, path, CACHE_TIER_SHARED);
        return NF_OK;
    }
    return NF_ENOTFOUND;
}

int cache_reader_lookup_shared(struct cache_reader *r, const struct nf_digest *key, const char *cache_namespace, struct cache_hit **ret_hit,
                               struct nf_error *err)
{
    if (!r->shared_dir)
        return nf_fail(err, NF_ENOTFOUND, "there is no shared cache directory");
    return lookup_in(r, r->shared_dir, key, cache_namespace, shared_open, ret_hit, err);
}
