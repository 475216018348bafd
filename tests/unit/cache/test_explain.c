/* Exactly the components that differ, and the nearest entry among all. */
#include "fixture.h"

#include "cache/explain.h"

/* A small graph: components as text, one a line: "component|name|value|location". */
static struct cache_request_view view_of(const char *text)
{
    static const struct nf_str none;
    struct cache_components list;
    cache_components_init(&list, arena);
    struct nf_str rest = nf_str_c(text);
    while (rest.len) {
        struct nf_str line = nf_str_cut(&rest, '\n'), f[4] = {none, none, none, none};
        for (int i = 0; i < 4 && line.data; i++)
            f[i] = nf_str_cut(&line, '|');
        int kind = cache_component_kind_of(f[0]);
        ck_assert_msg(kind >= 0, "%.*s", NF_STR_ARG(f[0]));
        cache_components_add(&list, (enum cache_component_kind)kind, f[1], f[2], f[3]);
    }
    return (struct cache_request_view){list.items, list.count};
}

#define HEAD "format|artifact|1\ntarget||cpu\ncompiler|neffd-cpu 0.1.0|tc1\noption|optlevel|2\nside_file|k/a.bin|aa\nstructure||d1\n"
#define IO "input|input 0|tensor<8x128xf32>\ninput|input 1|tensor<128x64xf32>\noutput|output 0|tensor<8x64xf32>\n"
#define CONSTANTS "constant|constant 0|sha256:01 : tensor<f32>\nconstant|constant 1|sha256:02 : tensor<64xf32>\n"
#define OPS \
    "structure|op 0|func.func @main|m.py:1:1\nstructure|op 1|stablehlo.dot_general %0, %1 {precision = []} : tensor<8x64xf32>|m.py:3:5\n" \
    "structure|op 2|stablehlo.slice %2 {limit_indices = [8, 64]} : tensor<8x64xf32>|m.py:4:5\nstructure|op 3|stablehlo.tanh %3 : tensor<8x64xf32>|m.py:5:5\n" \
    "structure|op 4|func.return %4|m.py:6:1\n"
#define BASE HEAD IO CONSTANTS OPS

/* text with `from` replaced by `to` everywhere */
static const char *edit(const char *text, const char *from, const char *to)
{
    struct nf_buf b = NF_BUF_INIT;
    bool any = false;
    for (const char *at = text, *hit; *at; at = hit + strlen(from)) {
        hit = strstr(at, from);
        any |= hit != NULL;
        nf_buf_add(&b, at, hit ? (size_t)(hit - at) : strlen(at));
        if (!hit)
            break;
        nf_buf_add_c(&b, to);
    }
    ck_assert_msg(any, "nothing to edit: %s", from);
    char *out = nf_arena_strn(arena, b.data, b.len);
    nf_buf_done(&b);
    return out;
}

static struct cache_explanation diff(const char *cached, const char *requested)
{
    struct cache_request_view c = view_of(cached), r = view_of(requested);
    struct cache_explanation e;
    cache_explain_diff(&c, &r, arena, &e);
    return e;
}

static void expect(const struct cache_explanation *e, const char *want)
{
    struct nf_buf b = NF_BUF_INIT;
    for (size_t i = 0; i < e->difference_count; i++) {
        const struct cache_difference *d = &e->differences[i];
        nf_buf_addf(&b, "%s|%s|%s|%s|%s\n", d->component, d->name, d->cached, d->requested, d->location);
    }
    ck_assert_str_eq(b.len ? b.data : "", want);
    nf_buf_done(&b);
}

static const struct {
    const char *from[4], *to[4]; /* edits, in order */
    const char *want;
} cases[] = {
    {{NULL}, {NULL}, ""},
    {{"option|optlevel|2"}, {"option|optlevel|1"}, "option|optlevel|2|1|\n"},
    {{"option|optlevel|2\n"}, {""}, "option|optlevel|2||\n"},
    {{"side_file|k/a.bin|aa"}, {"side_file|k/a.bin|aa\noption|lnc|2"}, "option|lnc||2|\n"},
    {{"compiler|neffd-cpu 0.1.0|tc1"}, {"compiler|neffd-cpu 0.2.0|tc2"}, "compiler||neffd-cpu 0.1.0|neffd-cpu 0.2.0|\n"},
    {{"compiler|neffd-cpu 0.1.0|tc1"}, {"compiler|neffd-cpu 0.1.0|tc2"}, "compiler||tc1|tc2|\n"},
    {{"target||cpu"}, {"target||trn2"}, "target||cpu|trn2|\n"},
    {{"target||cpu", "option|optlevel|2"}, {"target||trn2", "option|auto-cast|none"}, "target||cpu|trn2|\n"},
    {{"target||cpu"}, {"target||cpu\nnamespace||team"}, "namespace|||team|\n"},
    {{"format|artifact|1"}, {"format|artifact|2"}, "format|artifact|1|2|\n"},
    {{"side_file|k/a.bin|aa"}, {"side_file|k/a.bin|bb"}, "side_file|k/a.bin|aa|bb|\n"},
    /* a shape, with all that follows from it: the types inside, the slice's limit */
    {{"<8x", "d1", "[8, 64]"}, {"<16x", "d2", "[16, 64]"},
     "input|input 0|tensor<8x128xf32>|tensor<16x128xf32>|\noutput|output 0|tensor<8x64xf32>|tensor<16x64xf32>|\n"},
    /* but not what does not follow from it */
    {{"<8x", "d1", "[8, 64]"}, {"<16x", "d2", "[12, 64]"},
     "input|input 0|tensor<8x128xf32>|tensor<16x128xf32>|\noutput|output 0|tensor<8x64xf32>|tensor<16x64xf32>|\n"
     "structure|op 2|stablehlo.slice %2 {limit_indices = [8, 64]} : tensor<8x64xf32>|stablehlo.slice %2 {limit_indices = [12, 64]} : tensor<16x64xf32>|m.py:4:5\n"},
    /* an element type everywhere; constants of the same value follow */
    {{"xf32", "d1"}, {"xbf16", "d2"},
     "input|input 0|tensor<8x128xf32>|tensor<8x128xbf16>|\ninput|input 1|tensor<128x64xf32>|tensor<128x64xbf16>|\n"
     "output|output 0|tensor<8x64xf32>|tensor<8x64xbf16>|\n"},
    {{"sha256:02", "d1"}, {"sha256:03", "d2"}, "constant|constant 1|sha256:02 : tensor<64xf32>|sha256:03 : tensor<64xf32>|\n"},
    {{"stablehlo.tanh", "d1"}, {"stablehlo.logistic", "d2"},
     "structure|op 3|stablehlo.tanh %3 : tensor<8x64xf32>|stablehlo.logistic %3 : tensor<8x64xf32>|m.py:5:5\n"},
    /* one operation more: the first that differs, whatever is renumbered behind it */
    {{"structure|op 3|stablehlo.tanh %3 : tensor<8x64xf32>|m.py:5:5\nstructure|op 4|func.return %4|m.py:6:1", "d1"},
     {"structure|op 3|stablehlo.negate %3 : tensor<8x64xf32>|m.py:5:1\nstructure|op 4|stablehlo.tanh %4 : tensor<8x64xf32>|m.py:5:5\nstructure|op 5|func.return %5|m.py:6:1",
      "d2"},
     "structure|op 3|stablehlo.tanh %3 : tensor<8x64xf32>|stablehlo.negate %3 : tensor<8x64xf32>|m.py:5:1\n"},
    {{"structure|op 4|func.return %4|m.py:6:1\n", "d1"}, {"", "d2"}, "structure|op 4|func.return %4||m.py:5:5\n"},
    /* only a type inside */
    {{"%3 : tensor<8x64xf32>", "d1"}, {"%3 : tensor<8x64xf16>", "d2"},
     "structure|op 3|stablehlo.tanh %3 : tensor<8x64xf32>|stablehlo.tanh %3 : tensor<8x64xf16>|m.py:5:5\n"},
    /* what no line shows */
    {{"d1"}, {"d2"}, "structure||d1|d2|\n"},
    /* an input more */
    {{"output|output 0", "d1"}, {"input|input 2|tensor<i32>\noutput|output 0", "d2"}, "input|input 2||tensor<i32>|\n"},
    {{"option|optlevel|2", "sha256:01", "d1"}, {"option|optlevel|3", "sha256:09", "d2"},
     "option|optlevel|2|3|\nconstant|constant 0|sha256:01 : tensor<f32>|sha256:09 : tensor<f32>|\n"},
};

START_TEST(exactly_what_differs)
{
    const char *requested = BASE;
    for (int i = 0; i < 4 && cases[_i].from[i]; i++)
        requested = edit(requested, cases[_i].from[i], cases[_i].to[i]);
    struct cache_explanation e = diff(BASE, requested);
    expect(&e, cases[_i].want);
    if (cases[_i].want[0])
        ck_assert(e.similarity > 0.5 && e.similarity < 1);
    else
        ck_assert(e.similarity > 0.999);
}
END_TEST

START_TEST(one_constant_more_is_one_difference)
{
    const char *requested = edit(BASE, "constant|constant 0|sha256:01 : tensor<f32>\nconstant|constant 1",
                                 "constant|constant 0|sha256:07 : tensor<f32>\nconstant|constant 1|sha256:01 : tensor<f32>\nconstant|constant 2");
    struct cache_explanation e = diff(BASE, edit(requested, "d1", "d2"));
    expect(&e, "constant|constant 0||sha256:07 : tensor<f32>|\n");
}
END_TEST

/* Two equal constants are one in the canonical form; a value of its own makes an operation more, which is no other structure. */
START_TEST(a_constant_that_parts_from_its_equals_is_a_constant)
{
#define PART_HEAD "target||cpu\ncompiler||tc\ninput|input 0|tensor<4xf32>\n"
#define PART_CACHED \
    PART_HEAD "structure||d1\nconstant|constant 0|dense<0.0> : tensor<f32>\nstructure|op 0|builtin.module\nstructure|op 1|func.func @main\n" \
              "structure|op 2|%1 = stablehlo.constant : tensor<f32>\nstructure|op 3|%2 = stablehlo.maximum %0, %1 : tensor<4xf32>\n" \
              "structure|op 4|%3 = stablehlo.minimum %2, %1 : tensor<4xf32>\nstructure|op 5|func.return %3\n"
#define PART_REQUESTED \
    PART_HEAD "structure||d2\nconstant|constant 0|dense<0.0> : tensor<f32>\nconstant|constant 1|dense<6.0> : tensor<f32>\nstructure|op 0|builtin.module\n" \
              "structure|op 1|func.func @main\nstructure|op 2|%1 = stablehlo.constant : tensor<f32>\nstructure|op 3|%2 = stablehlo.maximum %0, %1 : tensor<4xf32>\n" \
              "structure|op 4|%3 = stablehlo.constant : tensor<f32>\nstructure|op 5|%4 = stablehlo.minimum %2, %3 : tensor<4xf32>\nstructure|op 6|func.return %4\n"
    struct cache_explanation e = diff(PART_CACHED, PART_REQUESTED);
    expect(&e, "constant|constant 1||dense<6.0> : tensor<f32>|\n");
    e = diff(PART_REQUESTED, PART_CACHED);
    expect(&e, "constant|constant 1|dense<6.0> : tensor<f32>||\n");
    /* but another operand is another structure, beside it */
    e = diff(PART_CACHED, edit(PART_REQUESTED, "minimum %2, %3", "minimum %0, %3"));
    ck_assert_uint_eq(e.difference_count, 2);
    ck_assert_str_eq(e.differences[1].component, "structure");
}
END_TEST

START_TEST(one_line_for_people)
{
    struct nf_buf b = NF_BUF_INIT;
    const char *requested = edit(edit(edit(BASE, "option|optlevel|2", "option|optlevel|1"), "tanh", "sine"), "d1", "d2");
    struct cache_explanation e = diff(BASE, edit(requested, "input|input 1|tensor<128x64xf32>", "input|input 1|tensor<128x64xbf16>"));
    e.nearest_name = "bert";
    cache_explain_line(&e, &b);
    ck_assert_str_eq(b.data, "nearest: \"bert\" (00000000): option optlevel: 2 -> 1; input 1: tensor<128x64xf32> -> tensor<128x64xbf16>; "
                             "structure op 3 at m.py:5:5: stablehlo.tanh %3 : tensor<8x64xf32> -> stablehlo.sine %3 : tensor<8x64xf32>");
    nf_buf_clear(&b);
    struct cache_difference many[6];
    for (size_t i = 0; i < NF_ARRAY_LEN(many); i++)
        many[i] = e.differences[0];
    e.differences = many;
    e.difference_count = NF_ARRAY_LEN(many);
    cache_explain_line(&e, &b);
    ck_assert_str_eq(b.data, "nearest: \"bert\" (00000000): option optlevel: 2 -> 1; option optlevel: 2 -> 1; option optlevel: 2 -> 1; "
                             "option optlevel: 2 -> 1; and 2 more");
    nf_buf_clear(&b);
    e.found = false;
    cache_explain_line(&e, &b);
    ck_assert_str_eq(b.data, "no entry is near");
    nf_buf_done(&b);
}
END_TEST

START_TEST(hostile_text_is_cut_and_stays_utf8)
{
    struct nf_buf b = NF_BUF_INIT;
    for (int i = 0; i < 300; i++)
        nf_buf_add_c(&b, "é");
    char bad[] = "a\xff\x01z";
    struct cache_components x, y;
    cache_components_init(&x, arena);
    cache_components_init(&y, arena);
    struct nf_str none = {0};
    cache_components_add(&x, CACHE_COMPONENT_OPTION, NF_STR("o"), nf_buf_str(&b), none);
    cache_components_add(&y, CACHE_COMPONENT_OPTION, NF_STR("o"), nf_str_c(bad), none);
    struct cache_request_view c = {x.items, x.count}, r = {y.items, y.count};
    struct cache_explanation e;
    cache_explain_diff(&c, &r, arena, &e);
    ck_assert_uint_eq(e.difference_count, 1);
    ck_assert(nf_utf8_valid(nf_str_c(e.differences[0].cached)));
    ck_assert_uint_le(strlen(e.differences[0].cached), 260);
    ck_assert_str_eq(e.differences[0].requested, "a? z");
    nf_buf_done(&b);
}
END_TEST

START_TEST(many_differences_are_counted)
{
    struct cache_components x, y;
    cache_components_init(&x, arena);
    cache_components_init(&y, arena);
    for (int i = 0; i < 100; i++) {
        char name[16];
        nf_format(name, sizeof(name), "o%d", i);
        cache_components_add(&x, CACHE_COMPONENT_OPTION, nf_str_c(name), NF_STR("1"), NF_STR(""));
        cache_components_add(&y, CACHE_COMPONENT_OPTION, nf_str_c(name), NF_STR("2"), NF_STR(""));
    }
    struct cache_request_view c = {x.items, x.count}, r = {y.items, y.count};
    struct cache_explanation e;
    cache_explain_diff(&c, &r, arena, &e);
    ck_assert_uint_eq(e.difference_count, 64);
    ck_assert_str_eq(e.differences[63].name, "and 37 more");
}
END_TEST

static struct nf_digest publish_view(struct cache_store *s, const char *text, const char *name, const char *space)
{
    struct cache_request_view v = view_of(text);
    struct request r = {.list = {.items = (struct cache_component *)(uintptr_t)v.components, .count = v.component_count}};
    ASSERT_OK(cache_key_canonical(v.components, v.component_count, &r.key, &err));
    struct cache_publication p = publication_of(&r, NF_STR("payload"));
    p.meta.name = nf_str_c(name);
    p.meta.cache_namespace = nf_str_c(space);
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    cache_hit_close(out.hit);
    return r.key;
}

START_TEST(the_nearest_of_all_entries_is_found)
{
    struct cache_store *s = store_open();
    struct cache_explanation e;
    struct cache_request_view wanted = view_of(edit(BASE, "option|optlevel|2", "option|optlevel|1"));
    ASSERT_OK(cache_explain_nearest(s, &wanted, NULL, 0, arena, &e, &err));
    ck_assert(!e.found);
    /* 60 that are further away, in every way, and one that is near */
    for (int i = 0; i < 60; i++) {
        char to[64], digest[16], name[16];
        nf_format(to, sizeof(to), "stablehlo.op%d", i);
        nf_format(digest, sizeof(digest), "x%d", i);
        nf_format(name, sizeof(name), "far %d", i);
        publish_view(s, edit(edit(edit(BASE, "stablehlo.tanh", to), "d1", digest), "option|optlevel|2", "option|optlevel|3"), name, "");
    }
    struct nf_digest near = publish_view(s, BASE, "near", "");
    ASSERT_OK(cache_explain_nearest(s, &wanted, NULL, 0, arena, &e, &err));
    ck_assert(e.found);
    ck_assert_str_eq(e.nearest_name, "near");
    ck_assert(nf_digest_eq(&e.nearest_key, &near));
    expect(&e, "option|optlevel|2|1|\n");

    /* Asked for itself: explained against another. */
    struct cache_request_view itself = view_of(BASE);
    ASSERT_OK(cache_explain_nearest(s, &itself, NULL, 0, arena, &e, &err));
    ck_assert(e.found);
    ck_assert(!nf_digest_eq(&e.nearest_key, &near));

    /* Only what may be read: in other namespaces there is nothing. */
    static const char *const readable[] = {"team"};
    ASSERT_OK(cache_explain_nearest(s, &wanted, readable, 1, arena, &e, &err));
    ck_assert(!e.found);
    publish_view(s, edit(edit(BASE, "target||cpu", "target||cpu\nnamespace||team"), "option|optlevel|2", "option|optlevel|0"), "theirs", "team");
    ASSERT_OK(cache_explain_nearest(s, &wanted, readable, 1, arena, &e, &err));
    ck_assert(e.found);
    ck_assert_str_eq(e.nearest_name, "theirs");
    expect(&e, "namespace||team||\noption|optlevel|0|1|\n");

    /* Something else altogether is not near. */
    struct cache_request_view other = view_of("target||cpu\ncompiler|neffd-cpu 0.1.0|tc1\nstructure||zz\noption|optlevel|2\ninput|input 0|tensor<3xi8>\n"
                                              "structure|op 0|func.func @other\nstructure|op 1|stablehlo.sort %1\nstructure|op 2|stablehlo.cosine %1\n"
                                              "structure|op 3|stablehlo.fft %1\nstructure|op 4|stablehlo.rng %1");
    ASSERT_OK(cache_explain_nearest(s, &other, NULL, 0, arena, &e, &err));
    ck_assert(!e.found);
    cache_store_close(s);

    /* Also without an index, and from the shared tier alone. */
    char none[128];
    nf_format(none, sizeof(none), "%s/none", root);
    s = store_open_with((struct cache_store_options){.local_dir = none, .shared_dir = shared_dir, .no_index = true});
    ASSERT_OK(cache_explain_nearest(s, &wanted, NULL, 0, arena, &e, &err));
    ck_assert(e.found);
    ck_assert_str_eq(e.nearest_name, "near");
    cache_store_close(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache-explain");
    TCase *t = tcase_create("explain");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, exactly_what_differs, 0, (int)NF_ARRAY_LEN(cases));
    tcase_add_test(t, one_constant_more_is_one_difference);
    tcase_add_test(t, a_constant_that_parts_from_its_equals_is_a_constant);
    tcase_add_test(t, one_line_for_people);
    tcase_add_test(t, hostile_text_is_cut_and_stays_utf8);
    tcase_add_test(t, many_differences_are_counted);
    tcase_add_test(t, the_nearest_of_all_entries_is_found);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
