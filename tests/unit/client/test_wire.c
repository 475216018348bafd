/* Words for people, and JSON of messages. */
#include "client/ctl/json.h"
#include "client/wire.h"

#include <check.h>
#include <math.h>

START_TEST(enum_words)
{
    char w[64];
    ck_assert_str_eq(cl_enum_word(&neffd__v1__outcome__descriptor, NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL, w, sizeof(w)), "hit_local");
    ck_assert_str_eq(cl_enum_word(&neffd__v1__stage__descriptor, NEFFD__V1__STAGE__STAGE_FX_PASSES, w, sizeof(w)), "fx_passes");
    ck_assert_str_eq(cl_enum_word(&neffd__v1__input_kind__descriptor, NEFFD__V1__INPUT_KIND__INPUT_KIND_HLO_PROTO, w, sizeof(w)), "hlo_proto");
    ck_assert_str_eq(cl_enum_word(&neffd__v1__failure_class__descriptor, NEFFD__V1__FAILURE_CLASS__FAILURE_CLASS_USER, w, sizeof(w)), "user");
    ck_assert_str_eq(cl_enum_word(&neffd__v1__priority__descriptor, 0, w, sizeof(w)), "unspecified");
    ck_assert_str_eq(cl_enum_word(&neffd__v1__priority__descriptor, 99, w, sizeof(w)), "unspecified");
}
END_TEST

static void expect_duration(uint64_t us, const char *want)
{
    struct nf_buf b = NF_BUF_INIT;
    cl_add_duration_us(&b, us);
    ck_assert_str_eq(b.data, want);
    nf_buf_done(&b);
}

static void expect_bytes(uint64_t bytes, const char *want)
{
    struct nf_buf b = NF_BUF_INIT;
    cl_add_bytes(&b, bytes);
    ck_assert_str_eq(b.data, want);
    nf_buf_done(&b);
}

START_TEST(amounts)
{
    expect_duration(0, "0 us");
    expect_duration(999, "999 us");
    expect_duration(1500, "1.5 ms");
    expect_duration(15000, "15 ms");
    expect_duration(1500000, "1.5 s");
    expect_duration(200000000, "3 min 20 s");
    expect_duration(7260000000ull, "2 h 1 min");
    expect_bytes(0, "0 B");
    expect_bytes(1023, "1023 B");
    expect_bytes(1024, "1.0 KiB");
    expect_bytes(20 << 20, "20 MiB");
    expect_bytes((uint64_t)3 << 40, "3.0 TiB");
    expect_bytes(UINT64_MAX, "16777216 TiB");
}
END_TEST

START_TEST(explanations)
{
    struct nf_buf b = NF_BUF_INIT;
    uint8_t key[32] = {0xab, 0xcd, 0xef};
    Neffd__V1__Difference d1 = NEFFD__V1__DIFFERENCE__INIT, d2 = NEFFD__V1__DIFFERENCE__INIT, d3 = NEFFD__V1__DIFFERENCE__INIT;
    Neffd__V1__Difference *list[] = {&d1, &d2, &d3};
    Neffd__V1__Explanation e = NEFFD__V1__EXPLANATION__INIT;
    cl_explanation_line(NULL, 0, &b);
    ck_assert_str_eq(b.data, "no entry is near");
    nf_buf_clear(&b);
    cl_explanation_line(&e, 0, &b);
    ck_assert_str_eq(b.data, "no entry is near");
    d1.component = (char *)(uintptr_t)"option";
    d1.name = (char *)(uintptr_t)"optlevel";
    d1.cached = (char *)(uintptr_t)"2";
    d1.requested = (char *)(uintptr_t)"1";
    d2.component = (char *)(uintptr_t)"input";
    d2.name = (char *)(uintptr_t)"input 3";
    d2.cached = (char *)(uintptr_t)"tensor<8xf32>";
    d2.requested = (char *)(uintptr_t)"tensor<16xf32>";
    d3.component = (char *)(uintptr_t)"structure";
    d3.name = (char *)(uintptr_t)"op 412";
    d3.requested = (char *)(uintptr_t)"stablehlo.add";
    d3.location = (char *)(uintptr_t)"model.py:3:1";
    e.found = 1;
    e.nearest_key = rpc_binary(key, 32);
    e.nearest_name = (char *)(uintptr_t)"bert";
    e.similarity = 0.9;
    e.n_differences = 3;
    e.differences = list;
    nf_buf_clear(&b);
    cl_explanation_line(&e, 0, &b);
    ck_assert_str_eq(b.data, "nearest: \"bert\" (abcdef000000): option optlevel: 2 -> 1; input 3: tensor<8xf32> -> tensor<16xf32>; structure op 412: (none) -> "
                             "stablehlo.add at model.py:3:1");
    nf_buf_clear(&b);
    cl_explanation_line(&e, 1, &b);
    ck_assert_str_eq(b.data, "nearest: \"bert\" (abcdef000000): option optlevel: 2 -> 1; and 2 more");
    nf_buf_clear(&b);
    cl_explanation_text(&e, &b);
    ck_assert_ptr_nonnull(strstr(b.data, "90 % alike\n  option optlevel\n    cached:    2\n    requested: 1\n"));
    nf_buf_clear(&b);
    e.similarity = 0.9966;
    cl_explanation_text(&e, &b);
    ck_assert_ptr_nonnull(strstr(b.data, ", 99.6 % alike\n"));
    nf_buf_done(&b);
}
END_TEST

START_TEST(event_lines)
{
    struct nf_buf b = NF_BUF_INIT;
    Neffd__V1__CompileEvent e = NEFFD__V1__COMPILE_EVENT__INIT;
    cl_event_line(&e, &b);
    ck_assert_uint_eq(b.len, 0);
    Neffd__V1__Queued q = NEFFD__V1__QUEUED__INIT;
    q.position = 3;
    q.waiting_for = (char *)(uintptr_t)"slot";
    e.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_QUEUED;
    e.queued = &q;
    cl_event_line(&e, &b);
    ck_assert_str_eq(b.data, "queued, number 3, waiting for slot");
    nf_buf_clear(&b);
    Neffd__V1__Progress p = NEFFD__V1__PROGRESS__INIT;
    p.fraction = 0.42;
    p.eta_p50_ms = 3000;
    e.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_PROGRESS;
    e.progress = &p;
    cl_event_line(&e, &b);
    ck_assert_str_eq(b.data, "42 %, about 3.0 s left");
    nf_buf_clear(&b);
    Neffd__V1__Joined j = NEFFD__V1__JOINED__INIT;
    Neffd__V1__ClientInfo who = NEFFD__V1__CLIENT_INFO__INIT;
    j.waiters = 64;
    j.running_us = 1500000;
    who.pid = 42;
    who.rank = (char *)(uintptr_t)"7";
    who.host = (char *)(uintptr_t)"node1";
    j.leader = &who;
    e.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_JOINED;
    e.joined = &j;
    cl_event_line(&e, &b);
    ck_assert_str_eq(b.data, "joined a compile that rank 7, pid 42 on node1 started 1.5 s ago; 64 wait for it");
    nf_buf_done(&b);
}
END_TEST

static void expect_json(const ProtobufCMessage *m, const char *want)
{
    struct json_object *o = ctl_json_of_message(m);
    ck_assert_str_eq(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE), want);
    json_object_put(o);
}

START_TEST(json_prints_every_field)
{
    uint8_t sha[3] = {0, 0xff, 0x10};
    Neffd__V1__Artifact a = NEFFD__V1__ARTIFACT__INIT;
    a.path = (char *)(uintptr_t)"/x \"y\"";
    a.sha256 = rpc_binary(sha, 3);
    a.size = UINT64_MAX;
    expect_json(&a.base, "{\"kind\":\"\",\"path\":\"/x \\\"y\\\"\",\"sha256\":\"00ff10\",\"size\":18446744073709551615,\"target\":\"\",\"compiler\":\"\",\"owner_uid\":0}");
    Neffd__V1__CompileEvent e = NEFFD__V1__COMPILE_EVENT__INIT;
    Neffd__V1__SendInput s = NEFFD__V1__SEND_INPUT__INIT;
    uint32_t parts[] = {0, 4294967295u};
    s.n_parts = 2;
    s.parts = parts;
    e.event_case = NEFFD__V1__COMPILE_EVENT__EVENT_SEND_INPUT;
    e.send_input = &s;
    expect_json(&e.base, "{\"job_id\":0,\"send_input\":{\"parts\":[0,4294967295]},\"queued\":null,\"joined\":null,\"stage\":null,\"progress\":null,\"log\":null,"
                         "\"done\":null,\"failed\":null}");
    Neffd__V1__Progress p = NEFFD__V1__PROGRESS__INIT;
    p.fraction = 0.1;
    expect_json(&p.base, "{\"fraction\":0.1,\"eta_p50_ms\":0,\"eta_p90_ms\":0}");
    p.fraction = -INFINITY;
    expect_json(&p.base, "{\"fraction\":-1e999,\"eta_p50_ms\":0,\"eta_p90_ms\":0}");
    p.fraction = NAN;
    expect_json(&p.base, "{\"fraction\":null,\"eta_p50_ms\":0,\"eta_p90_ms\":0}");
    Neffd__V1__Error err = NEFFD__V1__ERROR__INIT;
    err.class_ = NEFFD__V1__FAILURE_CLASS__FAILURE_CLASS_TIMEOUT;
    err.exit_code = -9;
    err.message = (char *)(uintptr_t)"bad \xff byte\n";
    expect_json(&err.base, "{\"code\":\"\",\"class\":\"timeout\",\"message\":\"bad \xEF\xBF\xBD byte\\n\",\"location\":\"\",\"hint\":\"\",\"retryable\":false,"
                           "\"retry_after_ms\":0,\"from_cache\":false,\"exit_code\":-9,\"log_tail\":[],\"stage\":\"unspecified\",\"canonical_key\":\"\"}");
    Neffd__V1__Done d = NEFFD__V1__DONE__INIT;
    d.outcome = NEFFD__V1__OUTCOME__OUTCOME_MISS;
    expect_json(&d.base, "{\"outcome\":\"miss\",\"front_key\":\"\",\"canonical_key\":\"\",\"artifact\":null,\"stages\":[],\"times\":null,\"explanation\":null,"
                         "\"intermediates\":[],\"provenance\":null}");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client-wire");
    TCase *t = tcase_create("wire");
    tcase_add_test(t, enum_words);
    tcase_add_test(t, amounts);
    tcase_add_test(t, explanations);
    tcase_add_test(t, event_lines);
    tcase_add_test(t, json_prints_every_field);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
