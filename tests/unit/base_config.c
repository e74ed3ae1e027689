/* SPDX-License-Identifier: MIT */
/* tests/unit/base_config.c: settings written as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "support/test.h"
#include <cmocka.h>
#include <string.h>

/* expected: key, value, key, value, ..., NULL. */
static void expect_pairs(const char *text, const char *const *expected)
{
    const char *cursor = text;
    ph__config_pair pair;
    for (; *expected; expected += 2) {
        assert_true(ph__config_next(&cursor, &pair));
        assert_string_equal(pair.key, expected[0]);
        assert_string_equal(pair.value, expected[1]);
    }
    assert_false(ph__config_next(&cursor, &pair));
    assert_false(ph__config_next(&cursor, &pair));
}

#define EXPECT(text, ...) expect_pairs((text), (const char *const[]){__VA_ARGS__})

TEST(pairs_are_read_one_after_the_other)
{
    EXPECT(NULL, NULL);
    EXPECT("", NULL);
    EXPECT("threads=2", "threads", "2", NULL);
    EXPECT("threads=2,chaos=7,poison", "threads", "2", "chaos", "7", "poison", "", NULL);
    EXPECT("a=,b=c=d,", "a", "", "b", "c=d", NULL);
    EXPECT("=x", "", "x", NULL);
    EXPECT("a=1,,b=2", "a", "1", "", "", "b", "2", NULL);
}

TEST(test_too_long)
{
    char longest[64], longer[65], text[400];
    memset(longest, 'k', 63);
    longest[63] = '\0';
    memset(longer, 'k', 64);
    longer[64] = '\0';
    strcpy(text, longest);
    strcat(text, "=");
    strcat(text, longest);
    strcat(text, ",z=1");
    EXPECT(text, longest, longest, "z", "1", NULL);
    strcpy(text, longer);
    strcat(text, "=1,z=1");
    EXPECT(text, "", "", "z", "1", NULL);
    strcpy(text, "a=");
    strcat(text, longer);
    strcat(text, ",z=1");
    EXPECT(text, "", "", "z", "1", NULL);
}

TEST(numbers_of_64_bits_are_read_and_nothing_else)
{
    static const struct {
        const char *text;
        uint64_t number;
    } good[] = {{"0", 0},   {"7", 7},      {"007", 7},   {"18446744073709551615", UINT64_MAX},
                {"0x0", 0}, {"0xfF", 255}, {"0X10", 16}, {"0xffffffffffffffff", UINT64_MAX}};
    static const char *const bad[] = {"",
                                      "0x",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "12a",
                                      "0xg",
                                      "abc",
                                      "0x-1",
                                      "18446744073709551616",
                                      "1e3",
                                      "x10",
                                      "1,2",
                                      "00x1",
                                      "99999999999999999999999",
                                      "0x10000000000000000"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t number = 12345;
        assert_true(ph__config_u64(good[i].text, &number));
        assert_true(number == good[i].number);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t number = 12345;
        assert_false(ph__config_u64(bad[i], &number));
        assert_int_equal(number, 12345);
    }
}

TEST(booleans_are_six_words_and_nothing_else)
{
    static const char *const no[] = {"0", "off", "false"}, *const yes[] = {"1", "on", "true"};
    static const char *const neither[] = {"", "2", "yes", "tru", "truee", "ON", "00"};
    for (size_t i = 0; i < 3; i++) {
        bool value = true;
        assert_true(ph__config_bool(no[i], &value));
        assert_false(value);
        assert_true(ph__config_bool(yes[i], &value));
        assert_true(value);
    }
    for (size_t i = 0; i < sizeof neither / sizeof neither[0]; i++) {
        bool value = true;
        assert_false(ph__config_bool(neither[i], &value));
        assert_true(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_read_one_after_the_other),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(numbers_of_64_bits_are_read_and_nothing_else),
        cmocka_unit_test(booleans_are_six_words_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
