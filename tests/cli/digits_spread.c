/* SPDX-License-Identifier: MIT */
/* tests/cli/digits_spread.c: when the digits example tells a ratio, and when it does not. */
#include "../../examples/digits/spread.c"
#include "support/support.h"
#include "support/test.h"

static void expect_text(spread ratio, bool tells, const char *text)
{
    char room[SPREAD_TEXT];
    assert_int_equal(spread_tells(&ratio), tells);
    assert_string_equal(spread_text(room, &ratio), text);
}

TEST(median_lies_between_lowest_and_highest)
{
    double odd[] = {1.5, 1.1, 1.9}, even[] = {4, 1, 3, 2}, one[] = {7};
    spread s = spread_of(odd, 3);
    assert_true(s.rounds == 3 && s.median == 1.5 && s.lowest == 1.1 && s.highest == 1.9);
    s = spread_of(even, 4);
    assert_true(s.rounds == 4 && s.median == 2.5 && s.lowest == 1 && s.highest == 4);
    s = spread_of(one, 1);
    assert_true(s.rounds == 1 && s.median == 7 && s.lowest == 7 && s.highest == 7);
}

TEST(ratio_is_told_where_all_rounds_agree)
{
    expect_text((spread){11, 1.62, 1.55, 1.7}, true, "1.62x, in 11 rounds 1.55x to 1.70x");
    expect_text((spread){11, 0.8, 0.7, 0.96}, true, "0.80x, in 11 rounds 0.70x to 0.96x");
    expect_text((spread){11, 1.62, 1.006, 1.7}, true, "1.62x, in 11 rounds 1.01x to 1.70x");
    expect_text((spread){11, 0.8, 0.7, 0.994}, true, "0.80x, in 11 rounds 0.70x to 0.99x");
}

TEST(ratio_is_not_told_where_one_lies_in_the_spread)
{
    static const char text[] = "the difference cannot be told on this machine: ";
    char expected[SPREAD_TEXT];
    (void)snprintf(expected, sizeof expected, "%s0.86x to 2.40x in 11 rounds", text);
    expect_text((spread){11, 1.62, 0.86, 2.4}, false, expected);
    (void)snprintf(expected, sizeof expected, "%s1.00x to 2.40x in 11 rounds", text);
    expect_text((spread){11, 1.62, 1, 2.4}, false, expected);
    expect_text((spread){11, 1.62, 1.004, 2.4}, false, expected);
    (void)snprintf(expected, sizeof expected, "%s0.70x to 1.00x in 11 rounds", text);
    expect_text((spread){11, 0.8, 0.7, 0.996}, false, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_lies_between_lowest_and_highest),
        cmocka_unit_test(ratio_is_told_where_all_rounds_agree),
        cmocka_unit_test(ratio_is_not_told_where_one_lies_in_the_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
