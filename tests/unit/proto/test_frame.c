#include "proto/frame.h"

#include "base/file.h"

#include <check.h>
#include <sys/socket.h>
#include <unistd.h>

START_TEST(frames_come_out_as_they_went_in)
{
    struct nf_buf b = NF_BUF_INIT;
    struct rpc_frame f;
    size_t at = 0;
    ck_assert_int_eq(rpc_frame_add(&b, 1, NF_STR("one")), NF_OK);
    ck_assert_int_eq(rpc_frame_add(&b, 255, NF_STR("")), NF_OK);
    ck_assert_int_eq(rpc_frame_next(&b, &at, &f), 1);
    ck_assert(f.type == 1 && nf_str_eq_c(f.payload, "one"));
    ck_assert_int_eq(rpc_frame_next(&b, &at, &f), 1);
    ck_assert(f.type == 255 && f.payload.len == 0);
    ck_assert_int_eq(rpc_frame_next(&b, &at, &f), 0);
    rpc_frame_consume(&b, &at);
    ck_assert_uint_eq(b.len, 0);
    nf_buf_done(&b);
}
END_TEST

START_TEST(every_cut_asks_for_more)
{
    struct nf_buf whole = NF_BUF_INIT;
    rpc_frame_add(&whole, 7, NF_STR("payload"));
    for (size_t n = 0; n < whole.len; n++) {
        struct nf_buf part = NF_BUF_INIT;
        struct rpc_frame f;
        size_t at = 0;
        nf_buf_add(&part, whole.data, n);
        ck_assert_int_eq(rpc_frame_next(&part, &at, &f), 0);
        ck_assert_uint_eq(at, 0);
        nf_buf_done(&part);
    }
    nf_buf_done(&whole);
}
END_TEST

START_TEST(a_length_over_the_limit_ends_the_pipe)
{
    struct nf_buf b = NF_BUF_INIT;
    struct rpc_frame f;
    size_t at = 0;
    nf_buf_add_u32le(&b, RPC_MESSAGE_MAX + 1);
    nf_buf_add_char(&b, 1);
    ck_assert_int_eq(rpc_frame_next(&b, &at, &f), NF_EPROTOCOL);
    nf_buf_clear(&b);
    char *large = calloc(1, RPC_MESSAGE_MAX + 1);
    ck_assert_int_eq(rpc_frame_add(&b, 1, nf_str_n(large, RPC_MESSAGE_MAX + 1)), NF_ELIMIT);
    ck_assert_uint_eq(b.len, 0);
    ck_assert_int_eq(rpc_frame_add(&b, 1, nf_str_n(large, RPC_MESSAGE_MAX)), NF_OK);
    at = 0;
    ck_assert_int_eq(rpc_frame_next(&b, &at, &f), 1);
    ck_assert_uint_eq(f.payload.len, RPC_MESSAGE_MAX);
    free(large);
    nf_buf_done(&b);
}
END_TEST

START_TEST(blocking_ends_agree)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    Neffd__V1__LogLine line = NEFFD__V1__LOG_LINE__INIT;
    line.line = (char *)"hello";
    for (uint8_t i = 0; i < 3; i++)
        ck_assert_int_eq(rpc_frame_write(fds[0], i, &line.base), NF_OK);
    ck_assert_int_eq(nf_fd_write_all(fds[0], "\x05\0", 2), NF_OK); /* and the beginning of one more */
    close(fds[0]);
    struct nf_buf in = NF_BUF_INIT;
    size_t at = 0;
    struct rpc_frame f;
    for (uint8_t i = 0; i < 3; i++) {
        ck_assert_int_eq(rpc_frame_read(fds[1], &in, &at, &f), NF_OK);
        ck_assert_uint_eq(f.type, i);
        ProtobufCMessage *msg = NULL;
        ck_assert_int_eq(rpc_decode(&neffd__v1__log_line__descriptor, f.payload, &msg, NULL), NF_OK);
        ck_assert_str_eq(((Neffd__V1__LogLine *)msg)->line, "hello");
        protobuf_c_message_free_unpacked(msg, NULL);
    }
    ck_assert_int_eq(rpc_frame_read(fds[1], &in, &at, &f), NF_EDISCONNECTED);
    nf_buf_done(&in);
    close(fds[1]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proto-frame");
    TCase *t = tcase_create("frame");
    tcase_add_test(t, frames_come_out_as_they_went_in);
    tcase_add_test(t, every_cut_asks_for_more);
    tcase_add_test(t, a_length_over_the_limit_ends_the_pipe);
    tcase_add_test(t, blocking_ends_agree);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
