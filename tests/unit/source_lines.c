/* SPDX-License-Identifier: MIT */
/* tests/unit/source_lines.c: files and lines of calls, with libdw and without it. */
#include "driver/source_lines.h"
#include "driver/frames.h"
#include "support/support.h"
#include "support/test.h"
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = 16,
    TEXT = 2000
};

typedef struct trace {
    void *frames[MOST];
    int count, line; /* line: of the call that took the trace */
} trace;

/* Frame 1 is the caller's; sanitizers put a frame of their own before these. */
__attribute__((noinline)) static void take_trace(trace *out)
{
    int own = 0;
    out->count = backtrace(out->frames, MOST);
    while (own + 1 < out->count && out->frames[own + 1] != __builtin_return_address(0))
        own++;
    out->count -= own;
    memmove(out->frames, out->frames + own, (size_t)out->count * sizeof *out->frames);
}

/* Frame 1 lies in here. */
__attribute__((noinline)) static trace trace_of_this_file(void)
{
    trace t;
    t.line = __LINE__ + 1;
    take_trace(&t);
    assert_true(t.count > 1);
    return t;
}

static bool has_libdw(void)
{
    void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        print_message("skipped: no libdw.so.1 was found\n");
    else
        (void)dlclose(library);
    return library != NULL;
}

static void describe(char text[TEXT], const trace *t, bool lines)
{
    assert_true(ph__frames_describe(text, TEXT, t->frames + 1, t->count - 1, 4, lines) > 0);
}

TEST(a_call_has_its_file_and_line_where_libdw_is_found)
{
    if (!has_libdw())
        skip();
    char text[TEXT], want[80];
    trace t = trace_of_this_file();
    ph__source_line lines[MOST];
    ph__source_lines_find(lines, t.frames, t.count);
    assert_string_equal(lines[1].file, "source_lines.c");
    assert_int_equal(lines[1].line, t.line);
    describe(text, &t, true);
    (void)snprintf(want, sizeof want, " at source_lines.c:%d", t.line);
    assert_non_null(strstr(text, want));
}

TEST(lines_are_not_looked_up_where_nobody_asks)
{
    char text[TEXT];
    trace t = trace_of_this_file();
    describe(text, &t, false);
    assert_null(strstr(text, " at source_lines.c:"));
}

TEST(without_libdw_the_functions_stand_alone)
{
    static const char *const names[] = {"off", "/no/such/libdw.so", "libc.so.6"};
    char text[TEXT];
    trace t = trace_of_this_file();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(setenv("PH_LIBDW", names[i], 1), 0);
        describe(text, &t, true);
        assert_null(strstr(text, " at source_lines.c:"));
        assert_true(text[0] != '\0');
    }
    assert_int_equal(unsetenv("PH_LIBDW"), 0);
}

TEST(addresses_of_nothing_have_no_line)
{
    void *const frames[] = {NULL, (void *)(uintptr_t)1, (void *)&frames};
    ph__source_line lines[3];
    memset(lines, 0x55, sizeof lines);
    ph__source_lines_find(lines, frames, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lines[i].line, 0);
        assert_string_equal(lines[i].file, "");
    }
    ph__source_lines_find(lines, frames, 0);
}

static void *find_often(void *user)
{
    const trace *t = user;
    ph__source_line lines[MOST];
    for (int i = 0; i < 5; i++)
        ph__source_lines_find(lines, t->frames, t->count);
    return (void *)(uintptr_t)lines[1].line;
}

TEST(threads_find_lines_at_once)
{
    trace t = trace_of_this_file();
    pthread_t threads[4];
    void *line;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_often, &t), 0);
    bool found = has_libdw();
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &line), 0);
        assert_int_equal((int)(uintptr_t)line, found ? t.line : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_has_its_file_and_line_where_libdw_is_found),
        cmocka_unit_test(lines_are_not_looked_up_where_nobody_asks),
        cmocka_unit_test(without_libdw_the_functions_stand_alone),
        cmocka_unit_test(addresses_of_nothing_have_no_line),
        cmocka_unit_test(threads_find_lines_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
