/* SPDX-License-Identifier: MIT */
/* tests/unit/base_characters.c: which characters are hidden, and how texts for people and JSON
 * show those that are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/characters.h"
#include "base/json.h"
#include "base/line.h"
#include "base/rng.h"
#include "base/text.h"
#include "support/test.h"
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* Every character but NUL, and the surrogates, which are none. */
static size_t encode(char out[5], uint32_t code)
{
    size_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = bytes; i-- > 1; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(first[bytes] | code);
    out[bytes] = '\0';
    return bytes;
}

static bool is_hidden(uint32_t code)
{
    /* all that Unicode calls Bidi_Control are among them */
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
           code == 0x061c || code == 0x200e || code == 0x200f;
}

TEST(test_every_character)
{
    size_t hidden = 0, wrong = 0;
    for (uint32_t code = 1; code <= 0x10ffff; code++) {
        char text[5];
        if (code >= 0xd800 && code <= 0xdfff)
            continue;
        size_t bytes = encode(text, code);
        ph__character c = ph__character_at(text);
        wrong += c.bytes != bytes || c.code != code || c.broken || c.hidden != is_hidden(code);
        hidden += c.hidden;
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(hidden, 31 + 33 + 7 + 4 + 3);
}

TEST(test_the_end_is_one)
{
    ph__character c = ph__character_at("");
    assert_int_equal(c.bytes, 1);
    assert_int_equal(c.code, 0);
    assert_true(c.hidden);
    assert_false(c.broken);
}

/* Text, the line that is made of it, and the JSON. */
static const struct {
    const char *text, *line, *json;
} shown[] = {
    {"plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
     "\"plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
    {"a\x1b[2Jb", "a [2Jb", "\"a\\u001b[2Jb\""},
    {"a\x7f"
     "b",
     "a b", "\"a\\u007fb\""},
    {"a\xc2\x9b"
     "2Jb",
     "a 2Jb", "\"a\\u009b2Jb\""},
    {"a\xc2\x80\xc2\x9f\xc2\xa0z", "a  \xc2\xa0z", "\"a\\u0080\\u009f\xc2\xa0z\""},
    {"a\xe2\x80\xa8z\xe2\x80\xa9z", "a z z", "\"a\\u2028z\\u2029z\""},
    {"a\xe2\x80\xaegnp.exe", "a gnp.exe", "\"a\\u202egnp.exe\""},
    {"\xe2\x81\xa6(\xe2\x81\xa9) \xe2\x81\xaa", " ( ) \xe2\x81\xaa",
     "\"\\u2066(\\u2069) \xe2\x81\xaa\""},
    {"a\xe2\x80\x8f(1)\xd8\x9c-\xe2\x80\x8e\xe2\x80\x8dz", "a (1) - \xe2\x80\x8dz",
     "\"a\\u200f(1)\\u061c-\\u200e\xe2\x80\x8dz\""},
    {"a\x9b"
     "2Jz",
     "a?2Jz", "\"a\\ufffd2Jz\""},
    {"\xe2\x80", "??", "\"\\ufffd\\ufffd\""},
    {"\xed\xa0\x80z", "???z", "\"\\ufffd\\ufffd\\ufffdz\""},
};

TEST(test_what_is_shown)
{
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        char line[64];
        ph__text text = {0};
        ph__json json = {0};
        ph__line_format(line, sizeof line, "%s", shown[i].text);
        assert_string_equal(line, shown[i].line);
        ph__text_add_shown(&text, shown[i].text, strlen(shown[i].text));
        ph__json_string(&json, shown[i].text);
        char *as_text = ph__text_detach(&text), *as_json = ph__text_detach(&json.text);
        assert_non_null(as_text);
        assert_non_null(as_json);
        assert_string_equal(as_text, shown[i].line);
        assert_string_equal(as_json, shown[i].json);
        ph__free(as_text);
        ph__free(as_json);
    }
}

TEST(test_hidden_ones_at_the_end_of_a_line)
{
    char line[64];
    ph__line_format(line, sizeof line, "%s", "end\n\xc2\x85\xe2\x80\xa9");
    assert_string_equal(line, "end");
    ph__line_format(line, sizeof line, "%s", "end \n");
    assert_string_equal(line, "end ");
    ph__line_format(line, sizeof line, "%s", "end\xc2");
    assert_string_equal(line, "end?");
    ph__line_format(line, sizeof line, "%s", "\xc2\x85\n");
    assert_string_equal(line, "");
}

/* The part of a text: the character that begins in it belongs to it. */
TEST(test_a_part)
{
    static const char name[] = "a\xc2\x9bz\xe2\x82\xac.";
    static const char *const parts[] = {"",
                                        "a",
                                        "a ",
                                        "a ",
                                        "a z",
                                        "a z\xe2\x82\xac",
                                        "a z\xe2\x82\xac",
                                        "a z\xe2\x82\xac",
                                        "a z\xe2\x82\xac.",
                                        "a z\xe2\x82\xac."};
    for (size_t length = 0; length < sizeof parts / sizeof parts[0]; length++) {
        ph__text text = {0};
        ph__text_add_shown(&text, name, length);
        char *taken = ph__text_detach(&text);
        assert_non_null(taken);
        assert_string_equal(taken, parts[length]);
        ph__free(taken);
    }
}

/* Of any bytes at any length of the line: valid, and nothing hidden in it. */
TEST(test_any_bytes)
{
    static const unsigned char bytes[] = {'a',  '\n', 0x1b, 0x7f, 0x80, 0x9b, 0xa8,
                                          0xae, 0xc2, 0xe2, 0xed, 0xf0, 0xff};
    ph__rng rng = {11};
    for (int round = 0; round < 20000; round++) {
        char text[24] = "", line[24];
        for (size_t i = 0; i + 1 < sizeof text; i++)
            text[i] = (char)bytes[ph__rng_below(&rng, sizeof bytes)];
        size_t size = 4 + ph__rng_below(&rng, sizeof line - 3);
        ph__line_format(line, size, "%s", text);
        assert_true(strlen(line) < size);
        for (const char *at = line; *at;) {
            ph__character c = ph__character_at(at);
            assert_false(c.hidden);
            at += c.bytes;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character),
        cmocka_unit_test(test_the_end_is_one),
        cmocka_unit_test(test_what_is_shown),
        cmocka_unit_test(test_hidden_ones_at_the_end_of_a_line),
        cmocka_unit_test(test_a_part),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
