/* SPDX-License-Identifier: MIT */
/* tests/unit/cli_cut.c: what phonograph view keeps of a record's text: never more than its bounds,
 * whatever comes, and always JSON where JSON came. */
#include "../../cli/cut.c"
#include "support/support.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

static cut with(size_t nodes, size_t blocks)
{
    return (cut){.most = {[CUT_OTHER] = SIZE_MAX, [CUT_NODES] = nodes, [CUT_BLOCKS] = blocks},
                 .most_bytes = SIZE_MAX};
}

/* However the text is cut into pieces. */
static void expect(cut bounds, const char *text, const char *kept, size_t nodes, size_t blocks)
{
    char out[1024];
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        cut c = bounds;
        size_t used = 0;
        for (size_t at = 0; at < strlen(text); at += piece) {
            size_t left = strlen(text) - at;
            used += cut_text(&c, out + used, text + at, left < piece ? left : piece);
        }
        out[used] = '\0';
        assert_string_equal(out, kept);
        assert_int_equal(c.left[CUT_NODES], nodes);
        assert_int_equal(c.left[CUT_BLOCKS], blocks);
        assert_int_equal(c.bytes, used);
    }
}

TEST(long_lists_are_cut_to_their_bounds)
{
    static const char text[] =
        "{\"a\":[1,2,3],\"nodes\":[{\"x\":[1,2]} , {\"y\":\"],{\\\"\"},\n 3 ,4\n],"
        "\"blocks\":[1,2,3],\"nodes \":[1,2,3]}";
    expect(with(4, 3), text, text, 0, 0);
    expect(with(2, 1), text,
           "{\"a\":[1,2,3],\"nodes\":[{\"x\":[1,2]} , {\"y\":\"],{\\\"\"}],\"blocks\":[1],\"nodes "
           "\":[1,2,3]}",
           2, 2);
    expect(with(0, 0), text, "{\"a\":[1,2,3],\"nodes\":[],\"blocks\":[],\"nodes \":[1,2,3]}", 4, 3);
    expect(with(1, 1), "{\"nodes\":[]}", "{\"nodes\":[]}", 0, 0);
    expect(with(1, 1), "{\"nodes\":\"nodes\",\"x\":[1,2]}", "{\"nodes\":\"nodes\",\"x\":[1,2]}", 0,
           0);
}

/* One bound for all lists together; the outermost is counted by itself. */
TEST(nested_lists_share_one_bound)
{
    char out[256];
    static const char text[] = "{\"nodes\":[{\"body\":{\"nodes\":[1,2,3]}},5,6]}";
    expect(with(2, 0), text, "{\"nodes\":[{\"body\":{\"nodes\":[1]}}]}", 4, 0);
    expect(with(1, 0), text, "{\"nodes\":[{\"body\":{\"nodes\":[]}}]}", 5, 0);
    cut c = with(2, 0);
    (void)cut_text(&c, out, text, sizeof text - 1);
    assert_int_equal(c.outer, 3);
    assert_int_equal(c.kept[CUT_NODES], 2);
}

/* For the parser to refuse. */
TEST(test_what_is_no_json)
{
    expect(with(9, 9), "{\"nodes\":[1,,2]}", "{\"nodes\":[1,,2]}", 0, 0);
    expect(with(9, 9), "{\"nodes\":[1,]}", "{\"nodes\":[1,]}", 0, 0);
    expect(with(9, 9), "]]}}{\"nodes\":[", "]]}}{\"nodes\":[", 0, 0);
    expect(with(1, 1), "{\"nodes\":[1,2", "{\"nodes\":[1", 1, 0); /* and never ends */
}

/* Ten million nodes, and bodies in bodies: what is kept does not grow with what comes. */
TEST(test_the_bound)
{
    static const char begin[] = "{\"nodes\":[",
                      node[] = "{\"index\":0,\"body\":{\"nodes\":[{\"k\":[0]},7]}},";
    char out[CUT_HELD + sizeof node];
    cut *c = malloc(sizeof *c);
    assert_non_null(c);
    *c = with(1000, 0);
    size_t kept = cut_text(c, out, begin, sizeof begin - 1);
    for (int i = 0; i < 100000; i++)
        kept += cut_text(c, out, node, sizeof node - 1);
    assert_in_range(c->kept[CUT_NODES], 1000, 1000);
    assert_int_equal(c->kept[CUT_NODES] + c->left[CUT_NODES], 3 * 100000);
    assert_true(kept < 1000 * sizeof node);
    /* By bytes: no node begins behind the bound. */
    *c = with(SIZE_MAX, 0);
    c->most_bytes = 5000;
    kept = cut_text(c, out, begin, sizeof begin - 1);
    for (int i = 0; i < 100000; i++)
        kept += cut_text(c, out, node, sizeof node - 1);
    assert_in_range(kept, 5000, 5000 + sizeof node);
    free(c);
}

TEST(test_any_depth)
{
    cut *c = malloc(sizeof *c);
    char out[CUT_HELD + 16];
    size_t kept = 0;
    assert_non_null(c);
    *c = with(1, 1);
    for (int i = 0; i < 3 * CUT_DEEPEST; i++)
        kept += cut_text(c, out, "{\"nodes\":[", 10);
    for (int i = 0; i < 4 * CUT_DEEPEST; i++)
        kept += cut_text(c, out, "]}", 2);
    assert_true(kept > 0);
    assert_int_equal(c->depth, 0);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_lists_are_cut_to_their_bounds),
        cmocka_unit_test(nested_lists_share_one_bound),
        cmocka_unit_test(test_what_is_no_json),
        cmocka_unit_test(test_the_bound),
        cmocka_unit_test(test_any_depth),
    };
    return cmocka_run_group_tests_name("unit.cli_cut", tests, NULL, NULL);
}
