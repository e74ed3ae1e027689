/* SPDX-License-Identifier: MIT */
/* tests/nn/values.c: named values: in memory, as JSON and back to the bit, and what is no JSON of
 * theirs. */
#include "base/alloc.h"
#include "nn/values/json.h"
#include "support/support.h"
#include "support/test.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static char *text_of(const ph_values *values)
{
    ph__json json = {0};
    ph__values_write(&json, values);
    char *text = ph__text_detach(&json.text);
    assert_non_null(text);
    return text;
}

/* NULL: read whole. */
static const char *read_text(ph_values *values, const char *text)
{
    ph__json_in in;
    ph__json_in_start(&in, text, strlen(text));
    bool ok = ph__values_read(values, &in) && ph__json_in_end(&in);
    assert_true(ok == (in.wrong == NULL));
    return in.wrong;
}

TEST(values_have_the_last_number_or_text_set)
{
    ph_values *values;
    int64_t integer = 1;
    double real = 1;
    const char *text = "";
    assert_ok(ph_values_create(&values));
    assert_ok(ph_values_set_integer(values, "a", INT64_MIN));
    assert_ok(ph_values_set_real(values, "b", 2.5));
    assert_ok(ph_values_set_text(values, "c", "words"));
    assert_ok(ph_values_set_real(values, "d", 3));
    assert_ok(ph_values_get_integer(&integer, values, "a"));
    assert_true(integer == INT64_MIN);
    assert_ok(ph_values_get_real(&real, values, "b"));
    assert_true(real == 2.5);
    assert_ok(ph_values_get_text(&text, values, "c"));
    assert_string_equal(text, "words");
    assert_ok(ph_values_get_integer(&integer, values, "d"));
    assert_int_equal(integer, 3);
    /* replaced, also by another type */
    assert_ok(ph_values_set_text(values, "a", "now a text"));
    assert_error(ph_values_get_integer(&integer, values, "a"), PH_ERROR_MISMATCH,
                 "'a' is a text, and must be a number");
    text = "as it was";
    assert_ok(ph_values_set_integer(values, "c", 4));
    assert_error(ph_values_get_text(&text, values, "c"), PH_ERROR_MISMATCH,
                 "'c' is a number, and must be a text");
    assert_error(ph_values_get_integer(&integer, values, "b"), PH_ERROR_MISMATCH, "2.5");
    assert_error(ph_values_get_real(&real, values, "e"), PH_ERROR_NOT_FOUND, "'e'");
    assert_int_equal(integer, 3);
    assert_true(real == 2.5);
    assert_string_equal(text, "as it was");
    ph_values_destroy(values);
}

/* Every kind of number, in a locale whose decimal point is another one where there is such a
 * locale. */
TEST(test_round_trip)
{
    static const double reals[] = {0.0,     -0.0,     1.0 / 3,   0.1,      -2.5,         1e300,
                                   DBL_MAX, DBL_MIN,  5e-324,    0x1p53,   0x1p53 + 2,   -0x1p63,
                                   1e16,    INFINITY, -INFINITY, 1e17 + 8, 123456789.125};
    static const int64_t integers[] = {0, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 53};
    enum {
        REALS = sizeof reals / sizeof reals[0],
        INTEGERS = sizeof integers / sizeof integers[0]
    };
    ph_values *values, *back;
    char name[16];
    double real;
    int64_t integer;
    const char *got;
    (void)setlocale(LC_NUMERIC, "de_DE.UTF-8");
    assert_ok(ph_values_create(&values));
    assert_ok(ph_values_create(&back));
    for (int i = 0; i < REALS + INTEGERS; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_ok(i < REALS ? ph_values_set_real(values, name, reals[i])
                            : ph_values_set_integer(values, name, integers[i - REALS]));
    }
    assert_ok(ph_values_set_real(values, "nan", NAN));
    assert_ok(ph_values_set_text(values, "text \"\\\n", "\xc3\xa4\t\"{}\\"));
    char *text = text_of(values);
    assert_null(read_text(back, text));
    for (int i = 0; i < REALS; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_ok(ph_values_get_real(&real, back, name));
        assert_true(bits_of(real) == bits_of(reals[i]));
    }
    for (int i = 0; i < INTEGERS; i++) {
        (void)snprintf(name, sizeof name, "%d", i + REALS);
        assert_ok(ph_values_get_integer(&integer, back, name));
        assert_true(integer == integers[i]);
    }
    assert_ok(ph_values_get_real(&real, back, "nan"));
    assert_true(isnan(real));
    assert_ok(ph_values_get_text(&got, back, "text \"\\\n"));
    assert_string_equal(got, "\xc3\xa4\t\"{}\\");
    ph__free(text);
    ph_values_destroy(values);
    ph_values_destroy(back);
    (void)setlocale(LC_NUMERIC, "C");
}

TEST(malformed_files_of_values_are_refused)
{
    static const char *const wrong[] = {
        "",
        "[]",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":01}",
        "{\"a\":-}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":1e}",
        "{\"a\":+1}",
        "{\"a\":1e999}",
        "{\"a\":nan}",
        "{\"a\":true}",
        "{\"a\":null}",
        "{\"a\":[1]}",
        "{\"a\":1,\"a\":2}",
        "{\"\":1}",
        "{\"a\":{}}",
        "{\"a\":{\"real\":\"nan\"}}",
        "{\"a\":{\"real\":\"NaN\",\"b\":1}}",
        "{\"a\":{\"b\":\"NaN\"}}",
        "{\"a\":1} 2",
    };
    ph_values *values;
    double real;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_ok(ph_values_create(&values));
        if (!read_text(values, wrong[i]))
            fail_msg("taken: %s", wrong[i]);
        ph_values_destroy(values);
    }
    assert_ok(ph_values_create(&values));
    assert_null(read_text(values, " { \"a\" : -1.5E+2 , \"b\":99999999999999999999 } "));
    assert_ok(ph_values_get_real(&real, values, "a"));
    assert_true(real == -150);
    assert_ok(ph_values_get_real(&real, values, "b"));
    assert_true(real == 1e20);
    assert_error(ph_values_get_integer(&(int64_t){0}, values, "b"), PH_ERROR_MISMATCH, "64 bits");
    ph_values_destroy(values);
}

TEST(calls_on_values_refuse_bad_arguments_by_name)
{
    ph_values *values;
    assert_error(ph_values_create(NULL), PH_ERROR_ARGUMENT, "out");
    assert_ok(ph_values_create(&values));
    assert_error(ph_values_set_integer(NULL, "a", 1), PH_ERROR_ARGUMENT, "values");
    assert_error(ph_values_set_real(values, NULL, 1), PH_ERROR_ARGUMENT, "name");
    assert_error(ph_values_set_real(values, "", 1), PH_ERROR_ARGUMENT, "empty");
    assert_error(ph_values_set_real(values, "\xff", 1), PH_ERROR_ARGUMENT, "UTF-8");
    assert_error(ph_values_set_text(values, "a", NULL), PH_ERROR_ARGUMENT, "value");
    assert_error(ph_values_set_text(values, "a", "\xc3"), PH_ERROR_ARGUMENT, "UTF-8");
    assert_error(ph_values_get_real(NULL, values, "a"), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_values_get_text(&(const char *){NULL}, NULL, "a"), PH_ERROR_ARGUMENT, "values");
    ph_values_destroy(values);
    ph_values_destroy(NULL);
}

static ph_status fill(ph_values **out)
{
    PH_TRY(ph_values_create(out));
    PH_TRY(ph_values_set_integer(*out, "integer", 1));
    PH_TRY(ph_values_set_text(*out, "text", "one"));
    return ph_values_set_text(*out, "text", "two");
}

TEST(values_without_host_memory_fail_and_leak_nothing)
{
    static const char text[] = "{\"a\":1.5,\"b\":\"two\",\"c\":{\"real\":\"NaN\"}}";
    int64_t live = ph__alloc_live(), at = 0;
    for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK; at++) {
        ph_values *values = NULL;
        ph__alloc_fail_after(at);
        status = fill(&values);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        ph_values_destroy(values);
        assert_int_equal(ph__alloc_live(), live);
    }
    assert_true(at > 4);
    bool whole = false;
    for (at = 0; !whole; at++) {
        ph_values *values;
        ph__json_in in;
        assert_ok(ph_values_create(&values));
        ph__json_in_start(&in, text, strlen(text));
        ph__alloc_fail_after(at);
        whole = ph__values_read(values, &in);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_true(whole || in.no_memory);
        ph_values_destroy(values);
        assert_int_equal(ph__alloc_live(), live);
    }
    assert_true(at > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_the_last_number_or_text_set),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(malformed_files_of_values_are_refused),
        cmocka_unit_test(calls_on_values_refuse_bad_arguments_by_name),
        cmocka_unit_test(values_without_host_memory_fail_and_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
