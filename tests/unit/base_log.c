/* SPDX-License-Identifier: MIT */
/* tests/unit/base_log.c: the log callback, the default sink, and the version text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/log.h"
#include "support/test.h"
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <phonograph/status.h>
#include <phonograph/version.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct heard {
    atomic_int calls;
    ph_log_level level;
    char message[2048];
} heard;

static void listen_once(ph_log_level level, const char *message, void *user)
{
    heard *to = user;
    atomic_fetch_add(&to->calls, 1);
    to->level = level;
    (void)snprintf(to->message, sizeof to->message, "%s", message);
}

static void count_only(ph_log_level level, const char *message, void *user)
{
    heard *to = user;
    if (level == PH_LOG_WARNING && message[0] == 'm')
        atomic_fetch_add(&to->calls, 1);
}

FIXTURE(restore_default)
{
    ph_log_set(NULL, NULL);
    return 0;
}

TEST(test_callback_gets_one_line)
{
    heard to = {0};
    ph_log_set(listen_once, &to);
    errno = ENXIO;
    ph__log(PH_LOG_INFO, "a %d\nb\n", 5);
    assert_int_equal(errno, ENXIO);
    assert_int_equal(to.calls, 1);
    assert_int_equal(to.level, PH_LOG_INFO);
    assert_string_equal(to.message, "a 5 b");
}

/* As libraries on top of this one give it: no format. */
TEST(test_line_of_others)
{
    heard to = {0};
    ph_log_set(listen_once, &to);
    ph_log_write(PH_LOG_WARNING, "100 %s\nof it");
    assert_int_equal(to.calls, 1);
    assert_int_equal(to.level, PH_LOG_WARNING);
    assert_string_equal(to.message, "100 %s of it");
    ph_log_write(PH_LOG_WARNING, NULL);
    assert_int_equal(to.calls, 1);
}

TEST(test_long_message_is_cut)
{
    heard to = {0};
    char text[4000];
    memset(text, 'm', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ph_log_set(listen_once, &to);
    ph__log(PH_LOG_WARNING, "%s", text);
    size_t length = strlen(to.message);
    assert_in_range(length, 500, sizeof to.message - 2);
    assert_string_equal(to.message + length - 3, "...");
}

/* Were a lock held during the call, this would never return. */
static void set_inside(ph_log_level level, const char *message, void *user)
{
    (void)level;
    (void)message;
    ph_log_set(listen_once, user);
    ph__log(PH_LOG_WARNING, "from inside");
}

TEST(test_callback_may_call_the_library)
{
    heard to = {0};
    ph_log_set(set_inside, &to);
    ph__log(PH_LOG_WARNING, "outer");
    assert_int_equal(to.calls, 1);
    assert_string_equal(to.message, "from inside");
}

/* A library's lock is held from hold to report. */
typedef struct told {
    bool locked;
    int count;
    char messages[4][32];
} told;

static void listen_unlocked(ph_log_level level, const char *message, void *user)
{
    told *to = user;
    assert_int_equal(level, PH_LOG_WARNING);
    assert_false(to->locked);
    (void)snprintf(to->messages[to->count++], sizeof to->messages[0], "%s", message);
}

TEST(messages_wait_for_the_end_of_a_hold)
{
    told to = {.locked = true};
    ph__log_held held, within;
    ph_log_set(listen_unlocked, &to);
    ph__log_hold(&held);
    ph__log(PH_LOG_WARNING, "first");
    ph__log_hold(&within);
    ph__log(PH_LOG_WARNING, "second");
    ph__log(PH_LOG_WARNING, "third");
    ph__log_report(&within);
    ph__log(PH_LOG_WARNING, "last");
    to.locked = false;
    assert_int_equal(to.count, 0);
    ph__log_report(&held);
    assert_int_equal(to.count, 4);
    assert_string_equal(to.messages[0], "first");
    assert_string_equal(to.messages[1], "second");
    assert_string_equal(to.messages[2], "third");
    assert_string_equal(to.messages[3], "last");
    to.count = 0;
    ph__log(PH_LOG_WARNING, "at once");
    assert_int_equal(to.count, 1);
    to.locked = true; /* no memory: the callback is not called */
    ph__log_hold(&held);
    ph__alloc_fail_after(0);
    ph__log(PH_LOG_INFO, "lost");
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    to.locked = false;
    ph__log_report(&held);
    assert_int_equal(to.count, 1);
    assert_int_equal(ph__alloc_live(), 0);
}

static void say_in_one_place(void)
{
    PH__LOG_ONCE(PH_LOG_WARNING, "m%d", 1);
}

static void *say_often(void *unused)
{
    for (int i = 0; i < 100; i++)
        say_in_one_place();
    return unused;
}

static void fail_and_count(ph_log_level level, const char *message, void *user)
{
    (void)level, (void)message;
    ++*(int *)user;
    errno = ENOENT;
    ph_ignore(ph_fail(PH_ERROR_CALLER, "the callback's own"));
}

TEST(messages_that_waited_keep_the_failure_of_the_call)
{
    ph__log_held held;
    int calls = 0;
    ph_log_set(fail_and_count, &calls);
    ph__log_hold(&held);
    ph__log(PH_LOG_WARNING, "one");
    ph__log(PH_LOG_WARNING, "two");
    ph_ignore(ph_fail(PH_ERROR_STATE, "the call's"));
    errno = EAGAIN;
    ph__log_report(&held);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(calls, 2);
    assert_int_equal(ph_error_last()->status, PH_ERROR_STATE);
    assert_string_equal(ph_error_last()->message, "the call's");
}

TEST(test_once_means_once)
{
    heard to = {0};
    pthread_t threads[4];
    ph_log_set(count_only, &to);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, say_often, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(to.calls, 1);
    PH__LOG_ONCE(PH_LOG_WARNING, "m: another place");
    assert_int_equal(to.calls, 2);
}

static void *log_many(void *unused)
{
    for (int i = 0; i < 500; i++)
        ph__log(PH_LOG_WARNING, "m%d", i);
    return unused;
}

/* Callback and user must never be seen mixed: count_only with a NULL user would crash, and each
 * message arrives once. */
TEST(test_set_while_others_log)
{
    heard first = {0}, second = {0};
    pthread_t threads[2];
    ph_log_set(count_only, &first);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    for (int i = 0; i < 500; i++)
        ph_log_set(count_only, i % 2 ? &first : &second);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(first.calls + second.calls, 1000);
}

TEST(test_default_writes_warnings_to_stderr)
{
    int ends[2];
    char text[2048], many[4000];
    memset(many, 'w', sizeof many - 1);
    many[sizeof many - 1] = '\0';
    assert_int_equal(pipe(ends), 0);
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    ph__log(PH_LOG_WARNING, "careful: %s", "this");
    ph__log(PH_LOG_INFO, "silent");
    ph__log(PH_LOG_WARNING, "%s", many);
    int restored = dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    assert_int_equal(restored, STDERR_FILENO);
    ssize_t length = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    assert_true(length > 0);
    text[length] = '\0';
    const char first[] = "phonograph: warning: careful: this\n";
    assert_memory_equal(text, first, sizeof first - 1);
    const char *second = text + sizeof first - 1;
    assert_memory_equal(second, "phonograph: warning: www", 24);
    assert_string_equal(text + length - 4, "...\n");
    assert_ptr_equal(strchr(second, '\n'), text + length - 1);
}

TEST(the_version_is_that_of_the_header)
{
    char expected[64];
    (void)snprintf(expected, sizeof expected, "%d.%d.%d", PH_VERSION_MAJOR, PH_VERSION_MINOR,
                   PH_VERSION_PATCH);
    assert_string_equal(ph_version(), expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_callback_gets_one_line, restore_default),
        cmocka_unit_test_teardown(test_line_of_others, restore_default),
        cmocka_unit_test_teardown(test_long_message_is_cut, restore_default),
        cmocka_unit_test_teardown(test_callback_may_call_the_library, restore_default),
        cmocka_unit_test_teardown(messages_wait_for_the_end_of_a_hold, restore_default),
        cmocka_unit_test_teardown(messages_that_waited_keep_the_failure_of_the_call,
                                  restore_default),
        cmocka_unit_test_teardown(test_once_means_once, restore_default),
        cmocka_unit_test_teardown(test_set_while_others_log, restore_default),
        cmocka_unit_test(test_default_writes_warnings_to_stderr),
        cmocka_unit_test(the_version_is_that_of_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
