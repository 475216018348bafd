#include "proto/rpc.h"

#include "neffd_codes.h"
#include "proto/reflection.pb-c.h"

#include <check.h>

#define DONE (&neffd__v1__done__descriptor)
#define REQUEST (&neffd__v1__compile_request__descriptor)

static int decode(const ProtobufCMessageDescriptor *desc, struct nf_str bytes, struct nf_error *err)
{
    ProtobufCMessage *msg = NULL;
    int rc = rpc_decode(desc, bytes, &msg, err);
    if (rc == NF_OK)
        protobuf_c_message_free_unpacked(msg, NULL);
    return rc;
}

START_TEST(a_message_makes_the_round_trip)
{
    Neffd__V1__CompileStart start = NEFFD__V1__COMPILE_START__INIT;
    Neffd__V1__Option option = NEFFD__V1__OPTION__INIT, *options[] = {&option};
    Neffd__V1__CompileRequest request = NEFFD__V1__COMPILE_REQUEST__INIT;
    struct nf_buf b = NF_BUF_INIT;
    ProtobufCMessage *msg = NULL;
    option.name = (char *)"optlevel";
    option.value = (char *)"2 \xE2\x82\xAC";
    start.front_key = rpc_binary("\0\1\2", 3);
    start.n_options = 1;
    start.options = options;
    request.message_case = NEFFD__V1__COMPILE_REQUEST__MESSAGE_START;
    request.start = &start;
    ck_assert_int_eq(rpc_encode(&request.base, &b), NF_OK);
    ck_assert_int_eq(rpc_decode(REQUEST, nf_buf_str(&b), &msg, NULL), NF_OK);
    const Neffd__V1__CompileRequest *back = (const Neffd__V1__CompileRequest *)msg;
    ck_assert_int_eq(back->message_case, NEFFD__V1__COMPILE_REQUEST__MESSAGE_START);
    ck_assert_str_eq(back->start->options[0]->value, "2 \xE2\x82\xAC");
    ck_assert(nf_str_eq(rpc_bytes(back->start->front_key), NF_STR("\0\1\2")));
    protobuf_c_message_free_unpacked(msg, NULL);
    nf_buf_done(&b);
    ck_assert_int_eq(decode(DONE, NF_STR(""), NULL), NF_OK);
    ck_assert_int_eq(decode(DONE, nf_str_n(NULL, 0), NULL), NF_OK);
}
END_TEST

START_TEST(strings_must_be_utf8_at_any_depth)
{
    struct nf_error err = {0};
    /* CompileRequest.start(1) { options(5) { name(1) = FF } } */
    ck_assert_int_eq(decode(REQUEST, NF_STR("\x0A\x05\x2A\x03\x0A\x01\xFF"), &err), NF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "neffd.v1.Option.name"));
    ck_assert_ptr_nonnull(strstr(err.message, "UTF-8"));
    ck_assert_str_eq(err.location, "byte 7");
    ck_assert_int_eq(decode(REQUEST, NF_STR("\x0A\x05\x2A\x03\x0A\x01\0"), &err), NF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "NUL"));
    ck_assert_int_eq(decode(REQUEST, NF_STR("\x0A\x05\x2A\x03\x0A\x01x"), &err), NF_OK);
}
END_TEST

START_TEST(cut_and_wrong_bytes_are_refused)
{
    static const struct nf_str rows[] = {
        {"\x0A", 1},                     /* no length */
        {"\x0A\x05\x2A", 3},             /* length past the end */
        {"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11}, /* 2^64 - 1 */
        {"\x00\x00", 2},                 /* field 0 */
        {"\x0B", 1},                     /* a group */
        {"\x0C", 1},                     /* its end */
        {"\x0E", 1},                     /* wire type 6 */
        {"\x09\x01", 2},                 /* fixed64, cut */
        {"\x08\x80", 2},                 /* varint, cut */
        {"\x08\x01", 2},                 /* a varint where a message belongs */
    };
    for (size_t i = 0; i < NF_ARRAY_LEN(rows); i++)
        ck_assert_msg(decode(REQUEST, rows[i], NULL) == NF_EINVAL, "row %zu", i);
}
END_TEST

START_TEST(size_is_limited_both_ways)
{
    struct nf_buf b = NF_BUF_INIT, out = NF_BUF_INIT;
    struct nf_error err = {0};
    char *large = calloc(1, RPC_MESSAGE_MAX + 1);
    ck_assert_int_eq(decode(REQUEST, nf_str_n(large, RPC_MESSAGE_MAX + 1), &err), NF_ELIMIT);
    Neffd__V1__Chunk chunk = NEFFD__V1__CHUNK__INIT;
    chunk.data = rpc_binary(large, RPC_MESSAGE_MAX);
    nf_buf_add_c(&out, "kept");
    ck_assert_int_eq(rpc_encode(&chunk.base, &out), NF_ELIMIT);
    ck_assert(nf_str_eq_c(nf_buf_str(&out), "kept"));
    ck_assert_int_eq(rpc_encode_limited(&chunk.base, RPC_MESSAGE_MAX + 100, &b), NF_OK);
    free(large);
    nf_buf_done(&b);
    nf_buf_done(&out);
}
END_TEST

START_TEST(depth_is_limited)
{
    /* ServerReflectionResponse.original_request does not nest itself, so the bound is shown on the walk of a type that is one
     * level deep per message: 64 levels of Error inside Entry cannot exist, hence a synthetic recursive descriptor. */
    static ProtobufCFieldDescriptor field;
    static ProtobufCMessageDescriptor desc;
    static const unsigned by_name[] = {0};
    static const ProtobufCIntRange ranges[] = {{1, 0}, {0, 1}};
    field = (ProtobufCFieldDescriptor){.name = "child", .id = 1, .label = PROTOBUF_C_LABEL_NONE, .type = PROTOBUF_C_TYPE_MESSAGE,
                                       .offset = sizeof(ProtobufCMessage), .descriptor = &desc};
    desc = (ProtobufCMessageDescriptor){.magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC, .name = "test.Nest",
                                        .sizeof_message = sizeof(ProtobufCMessage) + sizeof(void *), .n_fields = 1, .fields = &field,
                                        .fields_sorted_by_name = by_name, .n_field_ranges = 1, .field_ranges = ranges};
    for (int levels = 1; levels < 200; levels += 7) {
        struct nf_buf b = NF_BUF_INIT;
        for (int i = 1; i < levels; i++) { /* wrap what there is */
            struct nf_buf outer = NF_BUF_INIT;
            nf_buf_add_char(&outer, 0x0A);
            nf_buf_add_varint(&outer, b.len);
            nf_buf_add(&outer, b.len ? b.data : "", b.len);
            nf_buf_done(&b);
            b = outer;
        }
        ck_assert_int_eq(decode(&desc, nf_buf_str(&b), NULL), levels <= RPC_DEPTH_MAX ? NF_OK : NF_ELIMIT);
        nf_buf_done(&b);
    }
}
END_TEST

START_TEST(errors_make_the_round_trip)
{
    struct nf_error err = {0}, back = {0};
    struct nf_buf b = NF_BUF_INIT;
    nf_fail(&err, NF_ELOCKTIMEOUT, "the lock of %s was held", "abc");
    nf_error_location(&err, "model.py:12");
    nf_error_hint(&err, "wait");
    err.retry_after_ms = 1500;
    err.exit_code = -9;
    err.from_cache = true;
    err.stage = NEFFD__V1__STAGE__STAGE_COMPILE;
    rpc_error_encode(&err, &b);
    ck_assert_int_eq(rpc_error_decode(nf_buf_str(&b), &back), NF_OK);
    ck_assert_mem_eq(&err, &back, sizeof(err));
    Neffd__V1__Error msg = NEFFD__V1__ERROR__INIT;
    rpc_error_to_message(&err, &msg);
    ck_assert_str_eq(msg.code, "lock_timeout");
    ck_assert_int_eq(msg.class_, NEFFD__V1__FAILURE_CLASS__FAILURE_CLASS_TIMEOUT);
    ck_assert(msg.retryable);
    msg.code = (char *)"from_the_future";
    rpc_error_from_message(&msg, &back);
    ck_assert_int_eq(back.code, NF_EINTERNAL);
    nf_buf_done(&b);
}
END_TEST

START_TEST(the_method_table_matches_the_descriptors)
{
    for (int i = 0; i < RPC_METHOD_MAX; i++) {
        const struct rpc_method *m = rpc_method((enum rpc_method_id)i);
        ck_assert_int_eq(rpc_method_find(nf_str_c(m->path)), i);
        char symbol[200];
        nf_format(symbol, sizeof(symbol), "%s.%s", m->service, m->name);
        ck_assert_msg(rpc_file_by_symbol(nf_str_c(symbol)) != NULL, "%s", symbol);
        ck_assert_msg(rpc_file_by_symbol(nf_str_c(m->request->name)) != NULL, "%s", m->request->name);
        ck_assert_msg(rpc_file_by_symbol(nf_str_c(m->reply->name)) != NULL, "%s", m->reply->name);
    }
    ck_assert_int_eq(rpc_method_find(NF_STR("/neffd.v1.Compiler/Nothing")), RPC_METHOD_MAX);
    size_t services = 0;
    while (rpc_service(services))
        services++;
    ck_assert_uint_eq(services, 5);
    /* and no method of the contract is missing from the table: each symbol "Service.Method" of a service is a row */
    for (size_t f = 0; rpc_file(f); f++)
        for (const char *const *s = rpc_file(f)->symbols; *s; s++) {
            for (size_t v = 0; v < services; v++) {
                size_t len = strlen(rpc_service(v));
                if (strncmp(*s, rpc_service(v), len) != 0 || (*s)[len] != '.')
                    continue;
                char path[200];
                nf_format(path, sizeof(path), "/%s/%s", rpc_service(v), *s + len + 1);
                ck_assert_msg(rpc_method_find(nf_str_c(path)) != RPC_METHOD_MAX, "%s", path);
            }
        }
}
END_TEST

START_TEST(reflection_files_are_found)
{
    const struct rpc_file *f = rpc_file_by_name(NF_STR("neffd.proto"));
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_gt(f->len, 1000);
    ck_assert(memmem(f->bytes, f->len, "CompileStart", 12) != NULL);
    ck_assert_ptr_eq(rpc_file_by_symbol(NF_STR("neffd.v1.CompileStart.front_key")), f);
    ck_assert_ptr_eq(rpc_file_by_symbol(NF_STR("neffd.v1.Stage")), f);
    ck_assert_ptr_null(rpc_file_by_symbol(NF_STR("neffd.v1.Nothing.at.all")));
    ck_assert_ptr_null(rpc_file_by_symbol(NF_STR("")));
    ck_assert_ptr_null(rpc_file_by_name(NF_STR("worker.proto"))); /* private */
}
END_TEST

START_TEST(the_public_constants_are_the_tables)
{
    ck_assert_int_eq(NEFFD_ENOTFOUND, NF_ENOTFOUND);
    ck_assert_int_eq(NEFFD_ECANCELLED, NF_ECANCELLED);
    ck_assert_int_eq(NEFFD_EINTERNAL, NF_EINTERNAL);
    ck_assert_int_eq((int)NEFFD_OUTCOME_HIT_LOCAL, (int)NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL);
    ck_assert_int_eq((int)NEFFD_STAGE_PUBLISH, (int)NEFFD__V1__STAGE__STAGE_PUBLISH);
    ck_assert_int_eq((int)NEFFD_FAILURE_CLASS_TIMEOUT, NF_CLASS_TIMEOUT);
    ck_assert_int_eq((int)NEFFD__V1__FAILURE_CLASS__FAILURE_CLASS_USER, NF_CLASS_USER);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proto-rpc");
    TCase *t = tcase_create("rpc");
    tcase_add_test(t, a_message_makes_the_round_trip);
    tcase_add_test(t, strings_must_be_utf8_at_any_depth);
    tcase_add_test(t, cut_and_wrong_bytes_are_refused);
    tcase_add_test(t, size_is_limited_both_ways);
    tcase_add_test(t, depth_is_limited);
    tcase_add_test(t, errors_make_the_round_trip);
    tcase_add_test(t, the_method_table_matches_the_descriptors);
    tcase_add_test(t, reflection_files_are_found);
    tcase_add_test(t, the_public_constants_are_the_tables);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
