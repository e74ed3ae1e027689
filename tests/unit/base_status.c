/* SPDX-License-Identifier: MIT */
/* tests/unit/base_status.c: the error record: what it keeps, cuts and survives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "support/test.h"
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

static bool is_one_line(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

TEST(test_fail_sets_record)
{
    assert_int_equal(
        ph__fail_native(PH_ERROR_CAPTURE, 901, "cuStreamEndCapture", "call: %s %d", "why", 7),
        PH_ERROR_CAPTURE);
    const ph_error *error = ph_error_last();
    assert_int_equal(error->status, PH_ERROR_CAPTURE);
    assert_int_equal(error->native_code, 901);
    assert_string_equal(error->native_call, "cuStreamEndCapture");
    assert_string_equal(error->message, "call: why 7");
}

TEST(test_public_fail_has_no_native_part)
{
    assert_int_equal(ph__fail_native(PH_ERROR_DEVICE, 700, "cuLaunchKernel", "first"),
                     PH_ERROR_DEVICE);
    assert_int_equal(ph_fail(PH_ERROR_CALLER, "mine: %u", 3u), PH_ERROR_CALLER);
    const ph_error *error = ph_error_last();
    assert_int_equal(error->status, PH_ERROR_CALLER);
    assert_int_equal(error->native_code, 0);
    assert_string_equal(error->native_call, "");
    assert_string_equal(error->message, "mine: 3");
}

TEST(test_ok_sets_nothing)
{
    ph_ignore(ph__fail_native(PH_ERROR_STATE, 5, "call", "kept"));
    assert_int_equal(ph_fail(PH_OK, "not %s", "this"), PH_OK);
    assert_int_equal(ph_error_last()->status, PH_ERROR_STATE);
    assert_int_equal(ph_error_last()->native_code, 5);
    assert_string_equal(ph_error_last()->message, "kept");
}

TEST(test_errno_is_kept)
{
    errno = EXDEV;
    ph_ignore(ph_fail(PH_ERROR_IO, "%s", "x"));
    ph__error_prefix("y");
    assert_int_equal(errno, EXDEV);
}

/* Every length around the end of the record, with characters of 1 to 4 bytes, so that each
 * offset of a cut is met. */
TEST(test_truncation_between_characters)
{
    static const char *const characters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    const size_t capacity = sizeof(((ph_error *)0)->message);
    for (size_t kind = 0; kind < 4; kind++) {
        const char *character = characters[kind];
        const size_t width = strlen(character);
        for (size_t shift = 0; shift < width + 4; shift++) {
            char text[1024] = "";
            memset(text, 'x', shift);
            size_t length = shift;
            while (length + width < sizeof text) {
                memcpy(text + length, character, width);
                length += width;
                text[length] = '\0';
                if (length + 8 < capacity)
                    continue;
                ph_ignore(ph_fail(PH_ERROR_CALLER, "%s", text));
                const char *message = ph_error_last()->message;
                size_t kept = strlen(message);
                assert_true(kept < capacity);
                if (length < capacity) {
                    assert_string_equal(message, text);
                    continue;
                }
                assert_true(kept + width >= capacity - 1);
                assert_string_equal(message + kept - 3, "...");
                assert_memory_equal(message, text, kept - 3);
                assert_int_equal((kept - 3 - shift) % width, 0);
            }
        }
    }
}

TEST(test_truncation_of_bytes_that_are_no_utf8)
{
    char text[600];
    memset(text, 0x80, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ph_ignore(ph_fail(PH_ERROR_CALLER, "%s", text));
    const char *message = ph_error_last()->message;
    assert_int_equal(strlen(message), sizeof ph_error_last()->message - 1);
    assert_string_equal(message + strlen(message) - 3, "...");
}

TEST(test_long_native_call_is_cut)
{
    char call[200];
    memset(call, 'c', sizeof call - 1);
    call[sizeof call - 1] = '\0';
    ph_ignore(ph__fail_native(PH_ERROR_DEVICE, 1, call, "m"));
    assert_int_equal(strlen(ph_error_last()->native_call), sizeof ph_error_last()->native_call - 1);
    assert_string_equal(ph_error_last()->message, "m");
}

TEST(test_message_is_one_line)
{
    ph_ignore(ph_fail(PH_ERROR_CALLER, "a\nb\r\nc\td\x1b[1me%s", "\n\n"));
    assert_string_equal(ph_error_last()->message, "a b  c d [1me");
    ph__error_prefix("p\nq\n");
    assert_string_equal(ph_error_last()->message, "p q: a b  c d [1me");
    char many[900];
    memset(many, '\n', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    ph_ignore(ph_fail(PH_ERROR_CALLER, "%s", many));
    assert_true(is_one_line(ph_error_last()->message));
}

TEST(test_arguments_from_the_record_itself)
{
    ph_ignore(ph__fail_native(PH_ERROR_DEVICE, 2, "cuMemAlloc", "inner"));
    const ph_error *last = ph_error_last();
    ph_ignore(ph__fail_native(PH_ERROR_STATE, last->native_code, last->native_call, "outer (%s)",
                              last->message));
    assert_string_equal(last->message, "outer (inner)");
    assert_string_equal(last->native_call, "cuMemAlloc");
    ph__error_prefix("%s", last->message);
    assert_string_equal(last->message, "outer (inner): outer (inner)");
}

TEST(a_suffix_is_added_whole_or_not_at_all)
{
    char full[sizeof(((ph_error *)0)->message)];
    ph_ignore(ph_fail(PH_ERROR_SIZE, "cause"));
    ph__error_suffix("; remedy");
    assert_string_equal(ph_error_last()->message, "cause; remedy");
    ph_ignore(ph_fail(PH_ERROR_SIZE, "cause; the wrong one?"));
    ph__error_suffix("; remedy");
    assert_string_equal(ph_error_last()->message, "cause; the wrong one? remedy");
    ph_ignore(ph_fail(PH_ERROR_SIZE, "%s", ""));
    ph__error_suffix("; remedy");
    assert_string_equal(ph_error_last()->message, "; remedy");
    memset(full, 'a', sizeof full);
    full[sizeof full - 3] = '\0';
    ph_ignore(ph_fail(PH_ERROR_SIZE, "%s", full));
    ph__error_suffix("123"); /* one byte too many: nothing of it */
    assert_string_equal(ph_error_last()->message, full);
    ph__error_suffix("12");
    assert_int_equal(strlen(ph_error_last()->message), sizeof full - 1);
}

TEST(a_prefix_leaves_the_status_and_native_code)
{
    ph_ignore(ph__fail_native(PH_ERROR_DEVICE_MEMORY, 2, "cuMemCreate", "no memory"));
    ph__error_prefix("replay %d", 4);
    const ph_error *error = ph_error_last();
    assert_string_equal(error->message, "replay 4: no memory");
    assert_int_equal(error->status, PH_ERROR_DEVICE_MEMORY);
    assert_int_equal(error->native_code, 2);
    assert_string_equal(error->native_call, "cuMemCreate");
}

TEST(test_long_prefix_keeps_the_cause)
{
    char prefix[1000];
    memset(prefix, 'p', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = '\0';
    /* The cause fills more than half of the record, and its end must still be there. */
    ph_ignore(ph_fail(PH_ERROR_CALLER, "%240s", "the cause"));
    ph__error_prefix("%s", prefix);
    const char *message = ph_error_last()->message;
    assert_non_null(strstr(message, "ppp...:  "));
    assert_string_equal(message + strlen(message) - 10, " the cause");
    for (int i = 0; i < 10; i++)
        ph__error_prefix("%s", prefix);
    assert_true(strlen(message) < sizeof ph_error_last()->message);
    assert_string_equal(message + strlen(message) - 3, "...");
}

TEST(test_save_and_restore)
{
    ph_error saved;
    ph_ignore(ph__fail_native(PH_ERROR_CAPTURE, 904, "cuGraphInstantiate", "cause"));
    ph__error_save(&saved);
    ph_ignore(ph_fail(PH_ERROR_IO, "clean-up failed too, with a longer message"));
    ph__error_restore(&saved);
    const ph_error *error = ph_error_last();
    assert_int_equal(error->status, PH_ERROR_CAPTURE);
    assert_int_equal(error->native_code, 904);
    assert_string_equal(error->native_call, "cuGraphInstantiate");
    assert_string_equal(error->message, "cause");
}

typedef struct other_thread {
    const ph_error *record;
    bool empty_at_first, kept;
} other_thread;

static void *fail_in_thread(void *argument)
{
    other_thread *other = argument;
    other->record = ph_error_last();
    other->empty_at_first = other->record->status == PH_OK && other->record->message[0] == '\0' &&
                            other->record->native_code == 0 &&
                            other->record->native_call[0] == '\0';
    ph_ignore(ph_fail(PH_ERROR_STATE, "of the thread"));
    other->kept =
        ph_error_last() == other->record && strcmp(other->record->message, "of the thread") == 0;
    return NULL;
}

TEST(test_records_are_per_thread)
{
    pthread_t thread;
    other_thread other = {0};
    ph_ignore(ph_fail(PH_ERROR_ARGUMENT, "of main"));
    const ph_error *mine = ph_error_last();
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(other.empty_at_first);
    assert_true(other.kept);
    assert_ptr_not_equal(mine, other.record);
    assert_ptr_equal(ph_error_last(), mine);
    assert_string_equal(mine->message, "of main");
}

TEST(test_common_refusals)
{
    assert_int_equal(ph__fail_null("ph_x", "stream"), PH_ERROR_ARGUMENT);
    assert_non_null(strstr(ph_error_last()->message, "ph_x: stream is NULL"));
    assert_int_equal(ph__fail_reserved("ph_x", "options"), PH_ERROR_ARGUMENT);
    assert_non_null(strstr(ph_error_last()->message, "ph_x: a reserved word of options"));
    assert_int_equal(ph__fail_host_memory("ph_x", "the table"), PH_ERROR_HOST_MEMORY);
    assert_non_null(strstr(ph_error_last()->message, "ph_x: no host memory for the table"));
}

TEST(a_status_without_a_message_has_the_last_failure_before)
{
    const ph_error none = {.status = PH_OK};
    ph__error_restore(&none);
    assert_int_equal(ph__fail_given(PH_ERROR_CALLER, "%s", "the capture"), PH_ERROR_CALLER);
    assert_string_equal(ph_error_last()->message,
                        "the capture failed with PH_ERROR_CALLER, and no message was given");
    ph_ignore(ph_fail(PH_ERROR_SIZE, "ph_x: too large"));
    assert_int_equal(ph__fail_given(PH_ERROR_CALLER, "the capture"), PH_ERROR_CALLER);
    assert_int_equal(ph_error_last()->status, PH_ERROR_CALLER);
    assert_string_equal(ph_error_last()->message,
                        "the capture failed with PH_ERROR_CALLER, and no message was given; the "
                        "thread's last failure before was: ph_x: too large");
    ph__error_restore(&none);
    assert_int_equal((int)ph__fail_given((ph_status)1, "a hook"), 1);
    assert_string_equal(ph_error_last()->message,
                        "a hook failed with 1, which is none of the statuses (a || b gives 1); "
                        "return what a call gave, as PH_TRY does");
}

TEST(test_reserved_words)
{
    struct {
        int member;
        uint64_t reserved[3];
    } options = {7, {0, 0, 0}};
    assert_true(PH__RESERVED_OK(&options));
    for (size_t i = 0; i < 3; i++) {
        options.reserved[i] = UINT64_C(1) << (21 * i + 20);
        assert_false(PH__RESERVED_OK(&options));
        options.reserved[i] = 0;
    }
    assert_true(ph__reserved_ok(NULL, 0));
}

TEST(each_status_has_a_name_and_no_other_number)
{
    static const int numbers[] = {0,  10, 11, 12, 13, 14, 15, 16, 17, 20, 21,
                                  22, 30, 40, 41, 42, 43, 44, 45, 50, 90};
    size_t known = 0;
    for (int number = -5; number < 200; number++)
        known += strcmp(ph_status_name((ph_status)number), "unknown status") != 0;
    assert_int_equal(known, sizeof numbers / sizeof numbers[0]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        assert_int_equal(strncmp(ph_status_name((ph_status)numbers[i]), "PH_", 3), 0);
    assert_string_equal(ph_status_name(PH_OK), "PH_OK");
    assert_string_equal(ph_status_name(PH_ERROR_STALE_INPUT), "PH_ERROR_STALE_INPUT");
    assert_string_equal(ph_status_name(PH_ERROR_CALLER), "PH_ERROR_CALLER");
}

static ph_status try_it(ph_status first, int *reached)
{
    PH_TRY(first);
    *reached = 1;
    return PH_OK;
}

TEST(ph_try_returns_at_the_first_failure)
{
    int reached = 0;
    assert_int_equal(try_it(PH_ERROR_SIZE, &reached), PH_ERROR_SIZE);
    assert_int_equal(reached, 0);
    assert_int_equal(try_it(PH_OK, &reached), PH_OK);
    assert_int_equal(reached, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_sets_record),
        cmocka_unit_test(test_public_fail_has_no_native_part),
        cmocka_unit_test(test_ok_sets_nothing),
        cmocka_unit_test(test_errno_is_kept),
        cmocka_unit_test(test_truncation_between_characters),
        cmocka_unit_test(test_truncation_of_bytes_that_are_no_utf8),
        cmocka_unit_test(test_long_native_call_is_cut),
        cmocka_unit_test(test_message_is_one_line),
        cmocka_unit_test(test_arguments_from_the_record_itself),
        cmocka_unit_test(a_suffix_is_added_whole_or_not_at_all),
        cmocka_unit_test(a_prefix_leaves_the_status_and_native_code),
        cmocka_unit_test(test_long_prefix_keeps_the_cause),
        cmocka_unit_test(test_save_and_restore),
        cmocka_unit_test(test_records_are_per_thread),
        cmocka_unit_test(test_common_refusals),
        cmocka_unit_test(a_status_without_a_message_has_the_last_failure_before),
        cmocka_unit_test(test_reserved_words),
        cmocka_unit_test(each_status_has_a_name_and_no_other_number),
        cmocka_unit_test(ph_try_returns_at_the_first_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
