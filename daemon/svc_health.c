/* svc_health.c: grpc.health.v1.Health (Check, Watch) and server reflection (v1 and v1alpha). */
#include "daemon/daemon.h"

#include "proto/health.pb-c.h"
#include "proto/reflection.pb-c.h"
#include "proto/reflection_v1alpha.pb-c.h"

/* --------------------------------------------------------------------------------------------------------------- health */

struct watch {
    struct watch *next;
    struct srv_call *call;
    char *service;
    int told;                  /* the status that was sent last, -1: none */
};

static struct watch *watches;

static bool known_service(const char *name)
{
    if (!name || !*name)
        return true;
    for (size_t i = 0; rpc_service(i); i++)
        if (strcmp(rpc_service(i), name) == 0)
            return true;
    return false;
}

static Grpc__Health__V1__HealthCheckResponse__ServingStatus present(const struct daemon *d)
{
    return d->draining ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
                       : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
}

static Grpc__Health__V1__HealthCheckRequest *decode(struct srv_call *call, struct nf_str message)
{
    struct nf_error err = {0};
    ProtobufCMessage *m = NULL;
    if (rpc_decode(&grpc__health__v1__health_check_request__descriptor, message, &m, &err) < 0) {
        srv_finish(call, &err);
        return NULL;
    }
    return (Grpc__Health__V1__HealthCheckRequest *)m;
}

static void check_request(struct srv_call *call, struct nf_str message)
{
    Grpc__Health__V1__HealthCheckRequest *r = decode(call, message);
    if (!r)
        return;
    if (!known_service(r->service)) {
        struct nf_error err = {0};
        nf_fail(&err, NF_ENOTFOUND, "unknown service %.100s", r->service);
        srv_finish(call, &err);
    } else {
        Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
        reply.status = present(the_daemon);
        srv_reply(call, &reply.base);
    }
    protobuf_c_message_free_unpacked(&r->base, NULL);
}

const struct srv_handler svc_health_check = {.on_request = check_request};

static void watch_pump(struct watch *w)
{
    int now = known_service(w->service) ? (int)present(the_daemon)
                                        : (int)GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN;
    if (now == w->told || !srv_call_can_send(w->call))
        return;
    Grpc__Health__V1__HealthCheckResponse m = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    m.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)now;
    w->told = now;
    srv_send(w->call, &m.base);
}

static void watch_request(struct srv_call *call, struct nf_str message)
{
    Grpc__Health__V1__HealthCheckRequest *r = decode(call, message);
    if (!r)
        return;
    struct watch *w = nf_alloc(sizeof *w);
    *w = (struct watch){.next = watches, .call = call, .service = nf_strdup(r->service), .told = -1};
    watches = w;
    srv_call_set_user(call, w);
    protobuf_c_message_free_unpacked(&r->base, NULL);
    watch_pump(w);
}

static void watch_sent(struct srv_call *call)
{
    if (srv_call_user(call))
        watch_pump(srv_call_user(call));
}

static void watch_closed(struct srv_call *call, bool cancelled)
{
    struct watch *w = srv_call_user(call);
    (void)cancelled;
    for (struct watch **at = &watches; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            free(w->service);
            free(w);
            return;
        }
}

const struct srv_handler svc_health_watch = {.on_request = watch_request, .on_sent = watch_sent, .on_closed = watch_closed};

void svc_health_changed(struct daemon *d)
{
    (void)d;
    for (struct watch *w = watches; w; w = w->next)
        watch_pump(w);
}

/* ----------------------------------------------------------------------------------------------------------- reflection
 * The two versions have the same messages with the same field numbers under other names: one implementation, on the bytes of
 * v1, serves both. One request is answered at a time; the caller waits for it before the next is read. */

static void not_found(Grpc__Reflection__V1__ServerReflectionResponse *reply, Grpc__Reflection__V1__ErrorResponse *e, const char *what)
{
    e->error_code = nf_status_grpc(NF_ENOTFOUND);
    e->error_message = (char *)(uintptr_t)what;
    reply->message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    reply->error_response = e;
}

static void reflect_request(struct srv_call *call, struct nf_str message)
{
    struct nf_error err = {0};
    ProtobufCMessage *m = NULL;
    if (rpc_decode(&grpc__reflection__v1__server_reflection_request__descriptor, message, &m, &err) < 0) {
        srv_finish(call, &err);
        return;
    }
    Grpc__Reflection__V1__ServerReflectionRequest *r = (Grpc__Reflection__V1__ServerReflectionRequest *)m;
    Grpc__Reflection__V1__ServerReflectionResponse reply = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    Grpc__Reflection__V1__FileDescriptorResponse files = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    Grpc__Reflection__V1__ListServiceResponse list = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse items[16], *item_list[16];
    ProtobufCBinaryData bytes[16];
    const struct rpc_file *file = NULL;
    reply.valid_host = r->host;
    reply.original_request = r;
    switch (r->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        file = rpc_file_by_name(nf_str_c(r->file_by_filename));
        if (!file)
            not_found(&reply, &error, "no such file");
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        file = rpc_file_by_symbol(nf_str_c(r->file_containing_symbol));
        if (!file)
            not_found(&reply, &error, "no such symbol");
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        for (size_t i = 0; i < NF_ARRAY_LEN(items) && rpc_service(i); i++) {
            grpc__reflection__v1__service_response__init(&items[i]);
            items[i].name = (char *)(uintptr_t)rpc_service(i);
            item_list[i] = &items[i];
            list.n_service = i + 1;
        }
        list.service = item_list;
        reply.message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
        reply.list_services_response = &list;
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        not_found(&reply, &error, "there are no extensions");
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__NOT_SET:
    case _GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__CASE_IS_INT_SIZE:
        not_found(&reply, &error, "an empty question");
        break;
    }
    if (file) {   /* with all that it imports, so that one question is enough */
        size_t n = 0;
        bytes[n++] = rpc_binary(file->bytes, file->len);
        for (size_t i = 0; file->imports[i] && n < NF_ARRAY_LEN(bytes); i++) {
            const struct rpc_file *import = rpc_file_by_name(nf_str_c(file->imports[i]));
            if (import)
                bytes[n++] = rpc_binary(import->bytes, import->len);
        }
        files.file_descriptor_proto = bytes;
        files.n_file_descriptor_proto = n;
        reply.message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
        reply.file_descriptor_response = &files;
    }
    srv_call_pause(call, true);
    srv_send(call, &reply.base);
    protobuf_c_message_free_unpacked(m, NULL);
}

static void reflect_sent(struct srv_call *call) { srv_call_pause(call, false); }
static void reflect_half_close(struct srv_call *call) { srv_finish(call, NULL); }

const struct srv_handler svc_reflect = {.on_request = reflect_request, .on_sent = reflect_sent, .on_half_close = reflect_half_close};
