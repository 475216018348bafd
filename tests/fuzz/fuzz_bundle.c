/* A bundle comes from anywhere: it is read, and published into a store, as `neffctl bundle import` does. Inputs are also given a
 * digest that holds, so that what is behind it is reached. */
#include "base/file.h"
#include "cache/bundle.h"

#include <fcntl.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64];

static void remove_dir(void) { (void)nf_remove_tree(AT_FDCWD, dir); }

static int publish(void *user, const struct cache_bundle_record *record, struct nf_error *err)
{
    bool is_new;
    (void)err;
    (void)cache_bundle_publish(user, record, &is_new, NULL);
    return NF_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct cache_store *store;
    if (!store) {
        (void)nf_format(dir, sizeof(dir), "/tmp/nf-fuzz-XXXXXX");
        if (!mkdtemp(dir) || cache_store_open(&(struct cache_store_options){.local_dir = dir, .no_index = true}, &store, NULL) < 0)
            abort();
        (void)atexit(remove_dir);
    }
    (void)cache_bundle_read(nf_str_n(data, size), publish, store, NULL);
    if (size > NF_DIGEST_BYTES) {
        uint8_t *copy = nf_alloc(size);
        memcpy(copy, data, size);
        struct nf_digest d = nf_digest_of(copy, size - NF_DIGEST_BYTES);
        memcpy(copy + size - NF_DIGEST_BYTES, d.bytes, NF_DIGEST_BYTES);
        (void)cache_bundle_read(nf_str_n(copy, size), publish, store, NULL);
        free(copy);
    }
    return 0;
}
