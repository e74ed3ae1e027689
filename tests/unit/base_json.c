/* SPDX-License-Identifier: MIT */
/* tests/unit/base_json.c: the JSON writer: commas, escapes, numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "support/test.h"
#include <cmocka.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect(ph__json *json, const char *expected)
{
    char *taken = ph__text_detach(&json->text);
    assert_non_null(taken);
    assert_string_equal(taken, expected);
    ph__free(taken);
}

TEST(test_commas_and_nesting)
{
    ph__json json = {0};
    ph__json_open(&json, '{');
    ph__json_key(&json, "a");
    ph__json_u64(&json, 1);
    ph__json_key(&json, "b");
    ph__json_open(&json, '[');
    ph__json_open(&json, '[');
    ph__json_close(&json, ']');
    ph__json_open(&json, '{');
    ph__json_close(&json, '}');
    ph__json_bool(&json, true);
    ph__json_bool(&json, false);
    ph__json_string(&json, NULL);
    ph__json_close(&json, ']');
    ph__json_key(&json, "c");
    ph__json_string(&json, "x");
    ph__json_close(&json, '}');
    expect(&json, "{\"a\":1,\"b\":[[],{},true,false,null],\"c\":\"x\"}");
}

/* Over and over, so that the text moves while it reads itself. */
TEST(a_value_is_repeated)
{
    ph__json json = {0};
    char expected[4096] = "[\"\\\"a\"", one[] = ",\"\\\"a\"";
    ph__json_open(&json, '[');
    size_t begin = json.text.length;
    ph__json_string(&json, "\"a");
    size_t end = json.text.length;
    for (int i = 0; i < 500; i++) {
        ph__json_repeat(&json, begin, end);
        (void)strcat(expected, one);
    }
    ph__json_close(&json, ']');
    expect(&json, strcat(expected, "]"));
}

TEST(whole_numbers_are_written_to_the_last_digit)
{
    ph__json json = {0};
    ph__json_open(&json, '[');
    ph__json_u64(&json, 0);
    ph__json_u64(&json, UINT64_MAX);
    ph__json_us(&json, 0);
    ph__json_us(&json, UINT64_MAX);
    ph__json_us(&json, 1007);
    ph__json_i64(&json, INT64_MIN);
    ph__json_i64(&json, -1);
    ph__json_hex(&json, 0);
    ph__json_hex(&json, UINT64_C(0xdeadbeef00112233));
    ph__json_close(&json, ']');
    expect(
        &json,
        "[0,18446744073709551615,0.000,18446744073709551.615,1.007,-9223372036854775808,-1,\"0x0\","
        "\"0xdeadbeef00112233\"]");
}

static void expect_same_double(double value)
{
    ph__json json = {0};
    ph__json_f64(&json, value);
    char *taken = ph__text_detach(&json.text), *end;
    assert_non_null(taken);
    assert_int_equal(strspn(taken, "0123456789+-.e"), strlen(taken));
    double back = strtod(taken, &end);
    assert_int_equal(*end, '\0');
    assert_memory_equal(&back, &value, sizeof value);
    ph__free(taken);
}

TEST(doubles_are_written_to_the_bit_or_as_null)
{
    static const double values[] = {0.0,     -0.0,    1.0,    0.1,  -2.5,         1.0 / 3,
                                    DBL_MAX, DBL_MIN, 5e-324, 1e21, 123456789.125};
    ph__json json = {0};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        expect_same_double(values[i]);
    ph__json_open(&json, '[');
    ph__json_f64(&json, (double)NAN);
    ph__json_f64(&json, (double)INFINITY);
    ph__json_f64(&json, -(double)INFINITY);
    ph__json_f64(&json, 0.5);
    ph__json_close(&json, ']');
    expect(&json, "[null,null,null,0.5]");
}

TEST(test_decimal_point_of_other_locales)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "ps_AF.UTF-8",
                                        "nl_NL.UTF-8"};
    size_t tried = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!setlocale(LC_NUMERIC, names[i]))
            continue;
        ph__json json = {0};
        ph__json_f64(&json, -1.5e300);
        ph__json_f64(&json, 0.25);
        setlocale(LC_NUMERIC, "C");
        expect(&json, "-1.5000000000000001e+3000.25");
        tried++;
    }
    if (tried == 0) {
        print_message("skipped: no locale with a decimal comma is installed here\n");
        skip();
    }
}

static void expect_quoted(const char *value, const char *expected)
{
    ph__json json = {0};
    ph__json_string(&json, value);
    expect(&json, expected);
}

TEST(control_characters_and_quotes_are_escaped)
{
    expect_quoted("", "\"\"");
    expect_quoted("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    expect_quoted("\n\r\t\b\f", "\"\\n\\r\\t\\b\\f\"");
    expect_quoted("\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"");
    expect_quoted("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
                  "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    ph__json json = {0};
    ph__json_open(&json, '{');
    ph__json_key(&json, "k\"\n");
    ph__json_u64(&json, 1);
    ph__json_close(&json, '}');
    expect(&json, "{\"k\\\"\\n\":1}");
}

TEST(test_invalid_utf8)
{
    expect_quoted("a\x80z", "\"a\\ufffdz\"");
    expect_quoted("\xc3", "\"\\ufffd\"");
    expect_quoted("\xe2\x82", "\"\\ufffd\\ufffd\"");
    expect_quoted("\xe2\x82\"", "\"\\ufffd\\ufffd\\\"\"");
    expect_quoted("\xc0\xaf", "\"\\ufffd\\ufffd\"");
    expect_quoted("\xe0\x9f\xbf", "\"\\ufffd\\ufffd\\ufffd\"");
    expect_quoted("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    expect_quoted("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    expect_quoted("\xf0\x8f\xbf\xbf", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    expect_quoted("\xff", "\"\\ufffd\"");
    expect_quoted("\xef\xbf\xbf\xf4\x8f\xbf\xbf\xed\x9f\xbf",
                  "\"\xef\xbf\xbf\xf4\x8f\xbf\xbf\xed\x9f\xbf\"");
}

TEST(lists_may_nest_to_any_depth)
{
    ph__json json = {0};
    enum {
        DEEP = 100000
    };
    for (int i = 0; i < DEEP; i++) {
        ph__json_open(&json, '[');
        ph__json_open(&json, '[');
        ph__json_close(&json, ']');
    }
    for (int i = 0; i < DEEP; i++)
        ph__json_close(&json, ']');
    assert_false(json.text.failed);
    char *text = ph__text_detach(&json.text);
    assert_int_equal(strlen(text), 5 * DEEP - 1);
    assert_memory_equal(text, "[[],[[],[[],", 12);
    ph__free(text);

    ph__json other = {0};
    ph__json_close(&other, '}');
    assert_true(other.text.failed);
    ph__text_free(&other.text);
}

TEST(test_no_memory)
{
    bool succeeded = false;
    for (int64_t n = 0; !succeeded; n++) {
        ph__json json = {0};
        ph__alloc_fail_after(n);
        ph__json_open(&json, '[');
        for (uint64_t i = 0; i < 200; i++) {
            ph__json_string(&json, "some text\n");
            ph__json_f64(&json, 0.1);
        }
        ph__json_close(&json, ']');
        char *taken = ph__text_detach(&json.text);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        succeeded = taken != NULL;
        if (succeeded)
            assert_int_equal(taken[strlen(taken) - 1], ']');
        ph__free(taken);
        assert_int_equal(ph__alloc_live(), 0);
        assert_true(n < 30);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commas_and_nesting),
        cmocka_unit_test(a_value_is_repeated),
        cmocka_unit_test(whole_numbers_are_written_to_the_last_digit),
        cmocka_unit_test(doubles_are_written_to_the_bit_or_as_null),
        cmocka_unit_test(test_decimal_point_of_other_locales),
        cmocka_unit_test(control_characters_and_quotes_are_escaped),
        cmocka_unit_test(test_invalid_utf8),
        cmocka_unit_test(lists_may_nest_to_any_depth),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
