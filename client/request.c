/* request.c: from a neffd_request to what travels and what is hashed. */
#include "client/client_internal.h"

#include "base/clock.h"

#include <unistd.h>

int64_t cl_deadline(uint64_t timeout_ms)
{
    int64_t now = nf_now_ns();
    if (timeout_ms == 0 || timeout_ms > (uint64_t)(INT64_MAX - now) / (uint64_t)NF_MS)
        return CL_NO_DEADLINE;
    return now + (int64_t)timeout_ms * NF_MS;
}

static int check_text(const char *what, const char *value, size_t max, struct nf_error *err)
{
    size_t len = value ? strlen(value) : 0;
    if (len > max)
        return nf_fail(err, NF_ELIMIT, "%s is %zu bytes long; at most %zu are allowed", what, len, max);
    if (!nf_utf8_valid(nf_str_n(value, len)))
        return nf_fail(err, NF_EINVAL, "%s is not UTF-8", what);
    return NF_OK;
}

int cl_struct_check(const char *what, const void *data, size_t said, size_t known, struct nf_error *err)
{
    if (said < known)
        return nf_fail(err, NF_EINVAL, "%s.struct_size is %zu, but the structure has %zu bytes", what, said, known);
    if (said > known + 65536)
        return nf_fail(err, NF_EINVAL, "%s.struct_size is %zu, which no version of it has", what, said);
    for (size_t i = known; i < said; i++)
        if (((const unsigned char *)data)[i])
            return nf_fail(err, NF_EUNSUPPORTED, "%s has a field at offset %zu that this version of the library does not know", what, i);
    return NF_OK;
}

int cl_request_check(const neffd_request *request, struct nf_error *err)
{
    int r;
    if (!request)
        return nf_fail(err, NF_EINVAL, "no request was given");
    r = cl_struct_check("neffd_request", request, request->struct_size, sizeof(*request), err);
    if (r < 0)
        return r;
    if (request->graph_bytes == 0 && !(request->base_key && request->base_key[0])) {
        nf_fail(err, NF_EGRAPH, "the graph is empty");
        nf_error_location(err, "byte 0");
        return NF_EGRAPH;
    }
    if (request->graph_bytes && !request->graph)
        return nf_fail(err, NF_EINVAL, "graph_bytes is %zu, but graph is NULL", request->graph_bytes);
    if (!protobuf_c_enum_descriptor_get_value(&neffd__v1__input_kind__descriptor, request->input_kind))
        return nf_fail(err, NF_EINVAL, "unknown input kind %d", request->input_kind);
    if (!protobuf_c_enum_descriptor_get_value(&neffd__v1__stage__descriptor, request->stop_after))
        return nf_fail(err, NF_EINVAL, "unknown stage %d to stop after", request->stop_after);
    if (!protobuf_c_enum_descriptor_get_value(&neffd__v1__priority__descriptor, request->priority))
        return nf_fail(err, NF_EINVAL, "unknown priority %d", request->priority);
    if (request->option_count > 4096 || request->side_file_count > 4096)
        return nf_fail(err, NF_ELIMIT, "more than 4096 options or side files");
    if ((request->option_count && !request->options) || (request->side_file_count && !request->side_files))
        return nf_fail(err, NF_EINVAL, "a list of the request is NULL, but its count is not 0");
    for (size_t i = 0; i < request->option_count; i++) {
        if (!request->options[i].name || !request->options[i].name[0])
            return nf_fail(err, NF_EINVAL, "option %zu has no name", i);
        if ((r = check_text("an option's name", request->options[i].name, 256, err)) < 0 ||
            (r = check_text("an option's value", request->options[i].value, 65536, err)) < 0)
            return r;
    }
    for (size_t i = 0; i < request->side_file_count; i++) {
        if (!request->side_files[i].name || !request->side_files[i].name[0])
            return nf_fail(err, NF_EINVAL, "side file %zu has no name", i);
        if ((r = check_text("a side file's name", request->side_files[i].name, 4096, err)) < 0)
            return r;
    }
    if ((r = check_text("the target", request->target, 64, err)) < 0 || (r = check_text("the base key", request->base_key, 4096, err)) < 0 ||
        (r = check_text("the cache namespace", request->cache_namespace, 64, err)) < 0 ||
        (r = check_text("the name", request->name, 4096, err)) < 0 || (r = check_text("the rank", request->rank, 64, err)) < 0 ||
        (r = check_text("the job id", request->job_id, 256, err)) < 0)
        return r;
    return NF_OK;
}

static const char *text(const char *c) { return c ? c : ""; }

/* The caller's own, else the first variable that is set. */
static const char *or_env(const char *given, const char *const *names)
{
    if (given)
        return given;
    for (; *names; names++) {
        const char *v = getenv(*names);
        if (v && v[0] && strlen(v) <= 256 && nf_utf8_valid(nf_str_c(v)))
            return v;
    }
    return "";
}

static const char *request_namespace(const neffd_client *client, const neffd_request *request)
{
    return request->cache_namespace ? request->cache_namespace : text(client->namespace_default);
}

int cl_target(neffd_client *client, const neffd_request *request, char ret_target[RT_TARGET_MAX], struct nf_error *err)
{
    struct rt_platform platform = {.override = client->target_override};
    struct cache_toolchain row;
    bool said = (request->target && request->target[0]) || (client->target_override && client->target_override[0]);
    /* Nobody chose: the daemon's default counts, which it leaves as a line of its own in the list of toolchains. */
    if (!said && cache_toolchain_read(client->local_dir, CACHE_TOOLCHAIN_DEFAULT, &row, NULL) == NF_OK && rt_target_known(nf_str_c(row.id))) {
        (void)nf_format(ret_target, RT_TARGET_MAX, "%s", row.id);
        return NF_OK;
    }
    return rt_target_resolve(request->target, &platform, ret_target, err);
}

int cl_front_key(neffd_client *client, const neffd_request *request, struct nf_digest *ret_key, struct nf_error *err)
{
    char target[RT_TARGET_MAX];
    struct cache_toolchain toolchain;
    struct cache_front_parts parts = {
        .input_kind = request->input_kind,
        .stop_after = request->stop_after,
        .input_bytes = request->graph_bytes,
        .option_count = request->option_count,
        .side_file_count = request->side_file_count,
        .base_key = nf_str_c(text(request->base_key)),
        .uid = geteuid(),
        .cache_namespace = nf_str_c(request_namespace(client, request)),
    };
    struct cache_option *options = NULL;
    struct cache_side_file *side_files = NULL;

    int r = cl_target(client, request, target, err);
    if (r < 0)
        return r;
    r = cache_toolchain_read(client->local_dir, target, &toolchain, err);
    if (r < 0)
        return r;
    parts.target = nf_str_c(target);
    parts.toolchain_id = nf_str_c(toolchain.id);
    options = nf_alloc_array(request->option_count + 1, sizeof(*options));
    side_files = nf_alloc_array(request->side_file_count + 1, sizeof(*side_files));
    for (size_t i = 0; i < request->option_count; i++)
        options[i] = (struct cache_option){nf_str_c(request->options[i].name), nf_str_c(text(request->options[i].value))};
    for (size_t i = 0; i < request->side_file_count; i++) {
        const neffd_side_file *f = &request->side_files[i];
        side_files[i] = (struct cache_side_file){nf_str_c(f->name), nf_digest_of(f->data, f->bytes), f->bytes};
    }
    parts.options = options;
    parts.side_files = side_files;
    r = cache_key_front(&parts, nf_str_n(request->graph, request->graph_bytes), ret_key, err);
    free(options);
    free(side_files);
    return r;
}

static void fill_info(neffd_client *client, const neffd_request *request, char *host, size_t host_size, Neffd__V1__ClientInfo *info)
{
    static const char *const rank_names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", NULL};
    static const char *const job_names[] = {"SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PBS_JOBID", "LSB_JOBID", NULL};
    static const char *const world_names[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", NULL};
    uint64_t world = 0;
    if (gethostname(host, host_size) < 0)
        host[0] = 0;
    host[host_size - 1] = 0;
    *info = (Neffd__V1__ClientInfo)NEFFD__V1__CLIENT_INFO__INIT;
    info->tool = client->tool;
    info->host = host;
    info->pid = (uint32_t)getpid();
    info->rank = (char *)(uintptr_t)or_env(request->rank, rank_names);
    info->job_id = (char *)(uintptr_t)or_env(request->job_id, job_names);
    info->world_size = request->world_size;
    if (info->world_size == 0 && nf_str_to_u64(nf_str_c(or_env(NULL, world_names)), &world) == NF_OK && world <= UINT32_MAX)
        info->world_size = (uint32_t)world;
    info->ordinal = atomic_load(&client->ordinal);
}

int cl_request_pack_start(neffd_client *client, const neffd_request *request, enum cl_action action, const struct nf_digest *front_key,
    struct nf_buf *out, struct nf_error *err)
{
    char host[256];
    Neffd__V1__ClientInfo info;
    Neffd__V1__CompileStart start = NEFFD__V1__COMPILE_START__INIT;
    Neffd__V1__CompileRequest message = NEFFD__V1__COMPILE_REQUEST__INIT;
    Neffd__V1__Option *options = nf_alloc_array(request->option_count + 1, sizeof(*options));
    Neffd__V1__Option **option_list = nf_alloc_array(request->option_count + 1, sizeof(*option_list));
    Neffd__V1__SideFile *files = nf_alloc_array(request->side_file_count + 1, sizeof(*files));
    Neffd__V1__SideFile **file_list = nf_alloc_array(request->side_file_count + 1, sizeof(*file_list));
    struct nf_digest *digests = nf_alloc_array(request->side_file_count + 1, sizeof(*digests));
    const char *target = request->target && request->target[0] ? request->target : text(client->target_override);

    /* protobuf-c's strings are not const; packing does not write to them. */
    for (size_t i = 0; i < request->option_count; i++) {
        options[i] = (Neffd__V1__Option)NEFFD__V1__OPTION__INIT;
        options[i].name = (char *)(uintptr_t)request->options[i].name;
        options[i].value = (char *)(uintptr_t)text(request->options[i].value);
        option_list[i] = &options[i];
    }
    for (size_t i = 0; i < request->side_file_count; i++) {
        const neffd_side_file *f = &request->side_files[i];
        digests[i] = nf_digest_of(f->data, f->bytes);
        files[i] = (Neffd__V1__SideFile)NEFFD__V1__SIDE_FILE__INIT;
        files[i].name = (char *)(uintptr_t)f->name;
        files[i].sha256 = rpc_binary(digests[i].bytes, NF_DIGEST_BYTES);
        files[i].size = f->bytes;
        file_list[i] = &files[i];
    }
    fill_info(client, request, host, sizeof(host), &info);
    if (front_key)
        start.front_key = rpc_binary(front_key->bytes, NF_DIGEST_BYTES);
    start.input_kind = (Neffd__V1__InputKind)request->input_kind;
    start.input_bytes = request->graph_bytes;
    start.target = (char *)(uintptr_t)target;
    start.n_options = request->option_count;
    start.options = option_list;
    start.n_side_files = request->side_file_count;
    start.side_files = file_list;
    start.base_key = (char *)(uintptr_t)text(request->base_key);
    start.cache_namespace = (char *)(uintptr_t)request_namespace(client, request);
    start.action = (Neffd__V1__Action)action;
    start.stop_after = (Neffd__V1__Stage)request->stop_after;
    start.priority = (Neffd__V1__Priority)request->priority;
    start.name = (char *)(uintptr_t)text(request->name);
    start.client = &info;
    start.lock_timeout_ms = request->lock_timeout_ms ? request->lock_timeout_ms : client->lock_timeout_ms;
    start.compile_timeout_ms = request->compile_timeout_ms ? request->compile_timeout_ms : client->compile_timeout_ms;
    start.ignore_cache = request->ignore_cache;
    start.ignore_failures = request->ignore_failures;
    start.no_publish = request->no_publish || client->disable_cache;
    start.detach = request->detach;
    message.message_case = NEFFD__V1__COMPILE_REQUEST__MESSAGE_START;
    message.start = &start;
    int r = rpc_encode(&message.base, out);
    free(options);
    free(option_list);
    free(files);
    free(file_list);
    free(digests);
    if (r < 0)
        return nf_fail(err, r, "the request, without the graph, is larger than a message may be (1 MiB): fewer options or side files");
    return NF_OK;
}

int cl_unary_message(neffd_client *client, enum rpc_method_id method, const ProtobufCMessage *request, int64_t deadline_ns,
    ProtobufCMessage **ret_reply, struct nf_error *err)
{
    const struct rpc_method *m = rpc_method(method);
    struct nf_buf out = NF_BUF_INIT, in = NF_BUF_INIT;
    struct cl_channel *channel;
    int r = cl_client_channel(client, &channel, err);
    if (r < 0)
        goto out;
    r = rpc_encode(request, &out);
    if (r < 0) {
        nf_fail(err, r, "the request is larger than a message may be (1 MiB)");
        goto out;
    }
    r = cl_unary(channel, m->path, nf_buf_str(&out), deadline_ns, &in, err);
    if (r < 0)
        goto out;
    r = rpc_decode(m->reply, nf_buf_str(&in), ret_reply, err);
    if (r < 0) {
        nf_error_prefix(err, "the daemon's answer cannot be read");
        r = NF_EPROTOCOL;
        if (err)
            err->code = r;
    }
out:
    nf_buf_done(&out);
    nf_buf_done(&in);
    return r;
}
