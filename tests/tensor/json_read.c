/* SPDX-License-Identifier: MIT */
/* tests/tensor/json_read.c: the reader of JSON that is not trusted: what it takes, and what it
 * refuses at which place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/test.h"
#include "tensor/files/json_read.h"
#include <string.h>

static char *read_string(ph__json_in *in, const char *text, size_t length)
{
    ph__json_in_start(in, text, length);
    return ph__json_in_string(in);
}

TEST(json_strings_are_read_with_their_escapes)
{
    static const struct {
        const char *text, *want;
    } good[] = {{"\"\"", ""},
                {" \t\r\n\"a b\"", "a b"},
                {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
                {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac"},
                {"\"\\uD83D\\uDE00\"", "\xf0\x9f\x98\x80"},
                {"\"\\uDBFF\\uDFFF\"", "\xf4\x8f\xbf\xbf"},
                {"\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4"
                 "\x8f\xbf\xbf\"",
                 "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f"
                 "\xbf\xbf"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ph__json_in in;
        char *got = read_string(&in, good[i].text, strlen(good[i].text));
        assert_non_null(got);
        assert_string_equal(got, good[i].want);
        assert_true(ph__json_is_utf8(got));
        assert_true(ph__json_in_end(&in));
        ph__free(got);
    }
}

TEST(test_bad_strings)
{
    static const struct {
        const char *text, *wrong;
        size_t place;
    } bad[] = {{"", "a string must stand here", 0},
               {"x", "a string must stand here", 0},
               {"\"", "a string without an end", 1},
               {"\"abc", "a string without an end", 4},
               {"\"abc\\", "no such escape", 5},
               {"\"\\x\"", "no such escape", 2},
               {"\"\\u12\"", "four hexadecimal digits must stand here", 3},
               {"\"\\u12G4\"", "four hexadecimal digits must stand here", 3},
               {"\"\\u0000\"", "a NUL in a string", 7},
               {"\"\\uD800\"", "the first half of a surrogate pair without its second", 7},
               {"\"\\uD800\\n\"", "the first half of a surrogate pair without its second", 7},
               {"\"\\uD800\\u0041\"", "the first half of a surrogate pair without its second", 13},
               {"\"\\uDC00\"", "the second half of a surrogate pair without its first", 7},
               {"\"a\nb\"", "a control character in a string", 2},
               {"\"\x1f\"", "a control character in a string", 1},
               {"\"\x80\"", "bytes that are no UTF-8", 1},
               {"\"\xc0\xaf\"", "bytes that are no UTF-8", 1},
               {"\"\xc1\xbf\"", "bytes that are no UTF-8", 1},
               {"\"\xe0\x9f\xbf\"", "bytes that are no UTF-8", 1},
               {"\"\xed\xa0\x80\"", "bytes that are no UTF-8", 1},
               {"\"\xf0\x8f\xbf\xbf\"", "bytes that are no UTF-8", 1},
               {"\"\xf4\x90\x80\x80\"", "bytes that are no UTF-8", 1},
               {"\"\xf5\x80\x80\x80\"", "bytes that are no UTF-8", 1},
               {"\"\xff\"", "bytes that are no UTF-8", 1},
               {"\"\xe2\x82", "bytes that are no UTF-8", 1},
               {"\"\xe2\x82\"", "bytes that are no UTF-8", 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ph__json_in in;
        assert_null(read_string(&in, bad[i].text, strlen(bad[i].text)));
        assert_string_equal(in.wrong, bad[i].wrong);
        assert_int_equal(in.place, bad[i].place);
        assert_false(in.no_memory);
    }
    /* A NUL as it stands. */
    ph__json_in in;
    assert_null(read_string(&in, "\"a\0b\"", 5));
    assert_string_equal(in.wrong, "a control character in a string");
    assert_false(ph__json_is_utf8("a\xc3"));
    assert_true(ph__json_is_utf8(""));
}

TEST(json_numbers_are_whole_and_of_64_bits)
{
    static const struct {
        const char *text, *wrong;
        uint64_t value;
    } all[] = {{"0", NULL, 0},
               {" 7 ", NULL, 7},
               {"18446744073709551615", NULL, UINT64_MAX},
               {"18446744073709551616", "a number beyond 64 bits", 0},
               {"99999999999999999999999", "a number beyond 64 bits", 0},
               {"00", "a number with a leading zero", 0},
               {"01", "a number with a leading zero", 0},
               {"-1", "a whole number that is not negative must stand here", 0},
               {"+1", "a whole number that is not negative must stand here", 0},
               {"1.0", "a whole number must stand here", 0},
               {"1e3", "a whole number must stand here", 0},
               {"1E3", "a whole number must stand here", 0},
               {"", "a whole number that is not negative must stand here", 0},
               {"\"1\"", "a whole number that is not negative must stand here", 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ph__json_in in;
        uint64_t value = 77;
        ph__json_in_start(&in, all[i].text, strlen(all[i].text));
        assert_int_equal(ph__json_in_u64(&in, &value), all[i].wrong == NULL);
        if (all[i].wrong)
            assert_string_equal(in.wrong, all[i].wrong);
        else
            assert_true(value == all[i].value && ph__json_in_end(&in));
    }
}

/* Reads {"key": [numbers], ...}: their sum, or -1. */
static int64_t sum_of(ph__json_in *in, const char *text)
{
    int64_t sum = 0;
    uint64_t value;
    ph__json_in_start(in, text, strlen(text));
    if (!ph__json_in_open(in, '{'))
        return -1;
    while (ph__json_in_more(in, '}')) {
        char *key = ph__json_in_key(in);
        bool opened = key && ph__json_in_open(in, '[');
        ph__free(key);
        if (!opened)
            return -1;
        while (ph__json_in_more(in, ']')) {
            if (!ph__json_in_u64(in, &value))
                return -1;
            sum += (int64_t)value;
        }
    }
    return ph__json_in_end(in) ? sum : -1;
}

TEST(json_that_is_malformed_is_refused_with_its_reason)
{
    static const struct {
        const char *text, *wrong;
        int64_t sum;
    } all[] = {{"{}", NULL, 0},
               {"{\"a\":[]}", NULL, 0},
               {" { \"a\" : [ 1 , 2 ] , \"b\" : [ 3 ] } ", NULL, 6},
               {"{\"a\":[1,]}", "a whole number that is not negative must stand here", -1},
               {"{\"a\":[,1]}", "a whole number that is not negative must stand here", -1},
               {"{\"a\":[1 2]}", "a comma or a closing bracket must stand here", -1},
               {"{\"a\":[1}", "a comma or a closing bracket must stand here", -1},
               {"{\"a\":[1],}", "a string must stand here", -1},
               {"{,}", "a string must stand here", -1},
               {"{\"a\" [1]}", "a colon must stand here", -1},
               {"{\"a\":1}", "an array ('[') must stand here", -1},
               {"[]", "an object ('{') must stand here", -1},
               {"{\"a\":[1]", "a comma or a closing bracket must stand here", -1},
               {"{", "a string must stand here", -1},
               {"", "an object ('{') must stand here", -1},
               {"{} x", "something behind the end", -1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ph__json_in in;
        assert_int_equal(sum_of(&in, all[i].text), all[i].sum);
        if (all[i].wrong)
            assert_string_equal(in.wrong, all[i].wrong);
    }
}

TEST(json_nested_too_deeply_is_refused)
{
    char text[PH__JSON_DEPTH + 2];
    ph__json_in in;
    memset(text, '[', sizeof text);
    ph__json_in_start(&in, text, sizeof text);
    for (int i = 0; i < PH__JSON_DEPTH; i++)
        assert_true(ph__json_in_open(&in, '['));
    assert_false(ph__json_in_open(&in, '['));
    assert_string_equal(in.wrong, "brackets are nested too deeply");
    /* What was wrong first stays. */
    assert_false(ph__json_in_fail(&in, "another"));
    assert_string_equal(in.wrong, "brackets are nested too deeply");
    assert_int_equal(ph__json_in_peek(&in), 0);
    assert_false(ph__json_in_more(&in, ']'));
    assert_null(ph__json_in_string(&in));
}

TEST(test_no_memory)
{
    ph__json_in in;
    ph__alloc_fail_after(0);
    char *got = read_string(&in, "\"a\"", 3);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_null(got);
    assert_true(in.no_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_strings_are_read_with_their_escapes),
        cmocka_unit_test(test_bad_strings),
        cmocka_unit_test(json_numbers_are_whole_and_of_64_bits),
        cmocka_unit_test(json_that_is_malformed_is_refused_with_its_reason),
        cmocka_unit_test(json_nested_too_deeply_is_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
