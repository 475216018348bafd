/* record.c: requests kept for a warm-up (neffctl warm record).
 *
 *     <dir>/<sha256>.graph   a graph or side file, under the digest of its bytes
 *     <dir>/<sha256>.json    one request, under the digest of what it says but its name: {"graph", "input_kind", "target", "options":
 *                            [{"name", "value"}], "side_files": [{"name", "file"}], "base_key", "namespace", "stop_after", "name"}
 *
 * Every file is published exclusively under a name made of its content, so that any number of processes of a job may write
 * into one directory and each different request stands there once. */
#include "client/client_internal.h"

#include "base/file.h"
#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

static int keep(int dir_fd, const char *name, const void *data, size_t len, struct nf_error *err)
{
    struct nf_pub pub;
    if (faccessat(dir_fd, name, F_OK, 0) == 0)
        return NF_OK;
    int r = nf_pub_begin(dir_fd, &pub, err);
    if (r < 0)
        return r;
    nf_pub_write(&pub, data, len);
    r = nf_pub_commit(&pub, name, 0644, err);
    nf_pub_abort(&pub);
    return r == NF_EEXISTS ? NF_OK : r;
}

static int keep_bytes(int dir_fd, const void *data, size_t len, char ret_name[80], struct nf_error *err)
{
    char hex[NF_DIGEST_HEX];
    struct nf_digest d = nf_digest_of(data, len);
    (void)nf_format(ret_name, 80, "%s.graph", nf_digest_hex(&d, hex));
    return keep(dir_fd, ret_name, data, len, err);
}

static void add_json_str(struct nf_buf *b, const char *text)
{
    nf_buf_add_char(b, '"');
    for (; text && *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            nf_buf_addf(b, "\\%c", c);
        else if (c < 0x20)
            nf_buf_addf(b, "\\u%04x", c);
        else
            nf_buf_add_char(b, (char)c);
    }
    nf_buf_add_char(b, '"');
}

static int record(neffd_client *client, const neffd_request *q, struct nf_error *err)
{
    struct nf_buf b = NF_BUF_INIT;
    char name[80], hex[NF_DIGEST_HEX];
    int r = nf_mkdir_p(client->record_dir, 0755, err);
    if (r < 0)
        return r;
    int dir_fd = nf_dir_open(client->record_dir, err);
    if (dir_fd < 0)
        return dir_fd;
    r = keep_bytes(dir_fd, q->graph, q->graph_bytes, name, err);
    nf_buf_addf(&b, "{\"graph\":\"%s\",\"input_kind\":%d,\"target\":", name, q->input_kind);
    add_json_str(&b, q->target && q->target[0] ? q->target : client->target_override);
    nf_buf_add_c(&b, ",\"options\":[");
    for (size_t i = 0; i < q->option_count; i++) {
        nf_buf_addf(&b, "%s{\"name\":", i ? "," : "");
        add_json_str(&b, q->options[i].name);
        nf_buf_add_c(&b, ",\"value\":");
        add_json_str(&b, q->options[i].value);
        nf_buf_add_c(&b, "}");
    }
    nf_buf_add_c(&b, "],\"side_files\":[");
    for (size_t i = 0; i < q->side_file_count && r >= 0; i++) {
        r = keep_bytes(dir_fd, q->side_files[i].data, q->side_files[i].bytes, name, err);
        nf_buf_addf(&b, "%s{\"name\":", i ? "," : "");
        add_json_str(&b, q->side_files[i].name);
        nf_buf_addf(&b, ",\"file\":\"%s\"}", name);
    }
    nf_buf_add_c(&b, "],\"base_key\":");
    add_json_str(&b, q->base_key);
    nf_buf_add_c(&b, ",\"namespace\":");
    add_json_str(&b, q->cache_namespace ? q->cache_namespace : client->namespace_default);
    nf_buf_addf(&b, ",\"stop_after\":%d", q->stop_after);
    struct nf_digest d = nf_digest_of(b.data, b.len); /* without the name, which is not part of any key */
    nf_buf_add_c(&b, ",\"name\":");
    add_json_str(&b, q->name);
    nf_buf_add_c(&b, "}\n");
    if (r >= 0 && !b.failed) {
        (void)nf_format(name, sizeof(name), "%s.json", nf_digest_hex(&d, hex));
        r = keep(dir_fd, name, b.data, b.len, err);
    }
    nf_buf_done(&b);
    close(dir_fd);
    return r;
}

void cl_record(neffd_client *client, const neffd_request *request)
{
    struct nf_error err = {0};
    if (record(client, request, &err) < 0)
        nf_log(NF_LOG_WARNING, "client", "a request could not be recorded", "dir=%s why=%s", nf_log_quote(client->record_dir), nf_log_quote(err.message));
}
