/* SPDX-License-Identifier: MIT */
/* tests/unit/suspects.c: the notes of failing calls: their order and number, whom they blame,
 * their words. */
#include "driver/suspects.h"
#include "base/sync.h"
#include "support/host_driver.h"
#include "support/test.h"
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

FIXTURE(open_notes)
{
    ph__suspects_open();
    return 0;
}

FIXTURE(close_notes)
{
    ph__suspects_close();
    return 0;
}

TEST(nothing_is_noted_while_no_capture_is_open)
{
    uint64_t next = ph__suspects_next();
    ph__suspect note;
    ph__suspect_note(1, "cuMemAlloc", 900, NULL);
    assert_int_equal(ph__suspects_next(), next);
    ph__suspects_open();
    ph__suspects_open();
    ph__suspects_close();
    ph__suspect_note(1, "cuMemAlloc", 900, NULL);
    ph__suspects_close();
    ph__suspect_note(1, "cuMemFree", 900, NULL);
    assert_int_equal(ph__suspects_next(), next + 1);
    assert_int_equal(ph__suspects_read(&note, 1, next), 1); /* also after the end */
    assert_string_equal(note.call, "cuMemAlloc");
}

TEST(notes_come_back_in_order)
{
    static ph__suspect notes[PH__SUSPECTS];
    uint64_t since = ph__suspects_next();
    for (int i = 0; i < 5; i++) {
        char call[32];
        (void)snprintf(call, sizeof call, "call %d", i);
        ph__suspect_note((uint64_t)i, call, 900 + i, i % 2 ? "why\nso\n" : NULL);
    }
    assert_int_equal(ph__suspects_read(notes, PH__SUSPECTS, since), 5);
    for (int i = 0; i < 5; i++) {
        char call[32];
        (void)snprintf(call, sizeof call, "call %d", i);
        assert_int_equal(notes[i].sequence, since + (uint64_t)i);
        assert_int_equal(notes[i].capture_id, i);
        assert_int_equal(notes[i].thread, ph__thread_id());
        assert_int_equal(notes[i].result, 900 + i);
        assert_string_equal(notes[i].call, call);
        assert_string_equal(notes[i].text, i % 2 ? "why so" : "");
    }
    assert_int_equal(ph__suspects_read(notes, 2, since), 2);
    assert_string_equal(notes[1].call, "call 1");
    assert_int_equal(ph__suspects_read(notes, PH__SUSPECTS, since + 3), 2);
    assert_string_equal(notes[0].call, "call 3");
    assert_int_equal(ph__suspects_read(notes, PH__SUSPECTS, ph__suspects_next()), 0);
}

TEST(a_full_ring_keeps_the_newest)
{
    static ph__suspect notes[PH__SUSPECTS + 1];
    uint64_t since = ph__suspects_next();
    for (int i = 0; i < 3 * PH__SUSPECTS + 5; i++)
        ph__suspect_note(0, "cuMemAlloc", i, NULL);
    assert_int_equal(ph__suspects_read(notes, PH__SUSPECTS + 1, since), PH__SUSPECTS);
    for (int i = 0; i < PH__SUSPECTS; i++)
        assert_int_equal(notes[i].result, 2 * PH__SUSPECTS + 5 + i);
}

TEST(long_words_are_cut)
{
    char words[600];
    ph__suspect note;
    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    uint64_t since = ph__suspects_next();
    ph__suspect_note(1, words, 900, words);
    assert_int_equal(ph__suspects_read(&note, 1, since), 1);
    assert_int_equal(strlen(note.call), sizeof note.call - 1);
    assert_int_equal(strlen(note.text), sizeof note.text - 1);
    assert_string_equal(note.text + sizeof note.text - 4, "...");
}

/* The trace begins with who notes: *after is where he was called from. */
__attribute__((noinline)) static int note_here(void **after)
{
    *after = __builtin_return_address(0);
    ph__suspect_note(3, "cuStreamSynchronize", 900, NULL);
    return *after != NULL;
}

TEST(a_trace_begins_with_the_caller)
{
    void *after = NULL;
    ph__suspect note;
    uint64_t since = ph__suspects_next();
    int64_t allocations = ph__alloc_count();
    size_t used = mallinfo2().uordblks;
    errno = ERANGE;
    assert_true(note_here(&after));
    assert_int_equal(errno, ERANGE);
    assert_int_equal(mallinfo2().uordblks, used);
    assert_int_equal(ph__alloc_count(), allocations);
    assert_int_equal(ph__suspects_read(&note, 1, since), 1);
    assert_in_range(note.frame_count, 2, PH__SUSPECT_FRAMES);
    assert_ptr_equal(note.frames[1], after);
}

__attribute__((noinline)) static int note_deeply(int depth)
{
    if (depth == 0)
        ph__suspect_note(3, "cuStreamSynchronize", 900, NULL);
    else
        return note_deeply(depth - 1) + 1;
    return 0;
}

TEST(a_trace_has_its_bound)
{
    ph__suspect note;
    uint64_t since = ph__suspects_next();
    assert_int_equal(note_deeply(100), 100);
    assert_int_equal(ph__suspects_read(&note, 1, since), 1);
    assert_in_range(note.frame_count, 1, PH__SUSPECT_FRAMES);
}

/* ---- threads ---- */

enum {
    NOTERS = 4,
    NOTES = 3000
};

static void *note_often(void *argument)
{
    int id = *(const int *)argument;
    char words[32];
    for (int i = 0; i < NOTES; i++) {
        int result = id * NOTES + i;
        (void)snprintf(words, sizeof words, "note %d", result);
        ph__suspect_note((uint64_t)result, words, result, words);
    }
    return NULL;
}

/* What is read is of one note throughout, in ascending order, while others write. */
static void check_notes(uint64_t since, size_t most)
{
    static ph__suspect notes[PH__SUSPECTS];
    uint64_t before = 0;
    size_t count = ph__suspects_read(notes, most, since);
    assert_true(count <= most);
    for (size_t i = 0; i < count; i++) {
        char words[32];
        (void)snprintf(words, sizeof words, "note %d", notes[i].result);
        assert_string_equal(notes[i].call, words);
        assert_string_equal(notes[i].text, words);
        assert_int_equal(notes[i].capture_id, notes[i].result);
        assert_true(notes[i].frame_count > 0);
        assert_true(notes[i].sequence > before);
        before = notes[i].sequence;
    }
}

TEST(threads_note_at_the_same_time)
{
    pthread_t threads[NOTERS];
    int ids[NOTERS];
    uint64_t since = ph__suspects_next();
    for (int i = 0; i < NOTERS; i++) {
        ids[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, note_often, &ids[i]), 0);
    }
    uint64_t next, end = since + NOTERS * NOTES;
    while ((next = ph__suspects_next()) < end) {
        if (next > since + PH__SUSPECTS)
            check_notes(next - PH__SUSPECTS, 1); /* the oldest, which is about to be overwritten */
        if (next % 100 == 0)
            check_notes(since, PH__SUSPECTS);
    }
    for (int i = 0; i < NOTERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    check_notes(since, PH__SUSPECTS);
    ph__suspect last;
    ph__suspect_note(0, "last", 0, NULL); /* where a note was lost there is room again */
    assert_int_equal(ph__suspects_read(&last, 1, ph__suspects_next() - 1), 1);
    assert_string_equal(last.call, "last");
}

/* ---- blame ---- */

typedef struct foreign_note {
    uint64_t capture_id;
    const char *call, *name;
    int result;
} foreign_note;

static void *note_elsewhere(void *argument)
{
    const foreign_note *note = argument;
    if (note->name)
        (void)pthread_setname_np(pthread_self(), note->name);
    ph__suspect_note(note->capture_id, note->call, note->result, NULL);
    return NULL;
}

static void from_elsewhere(uint64_t capture_id, const char *call, int result)
{
    foreign_note note = {.capture_id = capture_id, .call = call, .result = result};
    on_another_thread(note_elsewhere, &note);
}

static void blamed(uint64_t since, const char *call)
{
    ph__suspect note = {.call = "nobody"};
    assert_true(ph__suspects_blame(&note, since, 7, ph__thread_id()));
    assert_string_equal(note.call, call);
}

TEST(blame_goes_from_sure_to_likely)
{
    ph__suspect note;
    ph__suspect_note(7, "too early", 900, NULL);
    uint64_t since = ph__suspects_next();
    assert_false(ph__suspects_blame(&note, since, 7, ph__thread_id()));
    ph__suspect_note(8, "another capture's", 900, NULL);
    from_elsewhere(8, "another capture's", 900);
    assert_false(ph__suspects_blame(&note, since, 7, ph__thread_id()));
    from_elsewhere(0, "harmless", 1);
    ph__suspect_note(0, "harmless too", 901, NULL);
    blamed(since, "harmless");
    from_elsewhere(0, "of any thread", 902);
    from_elsewhere(0, "later", 900);
    blamed(since, "of any thread");
    ph__suspect_note(0, "of its own", 907, NULL);
    ph__suspect_note(0, "later", 900, NULL);
    blamed(since, "of its own");
    from_elsewhere(7, "named", 719);
    ph__suspect_note(7, "later", 900, NULL);
    blamed(since, "named");
}

TEST(only_some_numbers_invalidate)
{
    static const struct {
        int number;
        bool invalidates;
    } numbers[] = {{1, false},  {700, false}, {899, false}, {900, true},  {901, false},
                   {902, true}, {906, true},  {907, true},  {908, false}, {910, false}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t since = ph__suspects_next();
        from_elsewhere(0, "elsewhere", 900);
        ph__suspect_note(0, "here", numbers[i].number, NULL);
        blamed(since, numbers[i].invalidates ? "here" : "elsewhere");
    }
}

/* ---- words ---- */

static ph__suspect last_note(void)
{
    ph__suspect note = {.frame_count = -1};
    assert_int_equal(ph__suspects_read(&note, 1, ph__suspects_next() - 1), 1);
    return note;
}

TEST(words_without_frames)
{
    char words[256];
    ph__suspect_note(7, "cuStreamSynchronize", 900, NULL);
    ph__suspect note = last_note();
    size_t length = ph__suspect_describe(words, sizeof words, &note, 0);
    assert_string_equal(
        words, "cuStreamSynchronize (900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) on this thread");
    assert_int_equal(length, strlen(words));
    (void)snprintf(note.text, sizeof note.text, "%s", ph__result_text(900)); /* says nothing more */
    assert_int_equal(ph__suspect_describe(words, sizeof words, &note, 0), length);
    foreign_note theirs = {.call = "cuMemAlloc_v2", .name = "loader", .result = 900};
    on_another_thread(note_elsewhere, &theirs);
    note = last_note();
    assert_string_equal(note.thread_name, "loader");
    (void)snprintf(note.text, sizeof note.text, "no memory in captures");
    (void)ph__suspect_describe(words, sizeof words, &note, 0);
    assert_string_equal(
        words,
        "cuMemAlloc_v2 (900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: no memory in captures) on "
        "thread \"loader\"");
    note.thread_name[0] = '\0';
    note.thread = 123456;
    (void)ph__suspect_describe(words, sizeof words, &note, 0);
    assert_non_null(strstr(words, ") on thread 123456"));
    note.frame_count = 0;
    assert_int_equal(ph__suspect_describe(words, sizeof words, &note, 9), strlen(words));
    assert_null(strstr(words, "from"));
}

static int compare_and_note(const void *a, const void *b)
{
    ph__suspect_note(7, "cuCtxSynchronize", 900, NULL);
    return *(const int *)a - *(const int *)b;
}

static size_t count_of(const char *words, const char *part)
{
    size_t count = 0;
    for (const char *at = words; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* Named by the dynamic symbol table: the C library's function that sorts. Named by this
 * program's .symtab alone: the one that compares. */
TEST(words_with_frames)
{
    char words[4096], shorter[4096];
    int numbers[2] = {2, 1};
    qsort(numbers, 2, sizeof *numbers, compare_and_note);
    ph__suspect note = last_note();
    size_t length = ph__suspect_describe(words, sizeof words, &note, PH__SUSPECT_FRAMES);
    assert_int_equal(length, strlen(words));
    assert_non_null(strstr(words, " on this thread, from compare_and_note+0x"));
    assert_non_null(strstr(words, "qsort"));
    assert_non_null(strstr(words, " (suspects)")); /* this program */
    assert_non_null(strstr(words, "+0x"));
    assert_int_equal(count_of(words, " < "), note.frame_count - 1);
    (void)ph__suspect_describe(shorter, sizeof shorter, &note, 2);
    assert_int_equal(count_of(shorter, " < "), 1);
    assert_int_equal(shorter[strlen(shorter) - 1], ')');
    note.frames[1] = NULL; /* no object has it */
    (void)ph__suspect_describe(shorter, sizeof shorter, &note, PH__SUSPECT_FRAMES);
    assert_non_null(strstr(shorter, " (suspects) < 0x0"));
    /* frames with names come before it */
    (void)ph__suspect_describe(shorter, sizeof shorter, &note, 2);
    assert_null(strstr(shorter, "0x0 "));
    assert_int_equal(count_of(shorter, " < "), 1);
}

TEST(words_are_cut_like_snprintf_does)
{
    char whole[4096], part[4096];
    ph__suspect_note(7, "cuStreamSynchronize", 900, NULL);
    ph__suspect note = last_note();
    size_t length = ph__suspect_describe(whole, sizeof whole, &note, 3);
    for (size_t size = 0; size <= length + 1; size++) {
        memset(part, '#', sizeof part);
        assert_int_equal(ph__suspect_describe(part, size, &note, 3), length);
        if (size > 0) {
            assert_int_equal(strlen(part), size - 1);
            assert_memory_equal(part, whole, size - 1);
        }
        assert_int_equal(part[size], '#');
    }
}

/* ---- the host device notes ---- */

static void *query_stream(void *argument)
{
    const world *w = argument;
    (void)pthread_setname_np(pthread_self(), "loader");
    return (void *)(intptr_t)drv->stream_query(w->a);
}

TEST(what_kills_a_capture_is_noted)
{
    world w;
    ph__drv_capture capture;
    ph__drv_graph *graph = NULL;
    ph__suspect note;
    world_open(&w, 0);
    uint64_t since = ph__suspects_next();
    begin(w.a);
    assert_int_equal(drv->capture_get(&capture, w.a), 0);
    assert_int_equal(drv->capture_begin(w.a, PH_CAPTURE_GLOBAL), 401); /* it goes on */
    assert_int_equal(ph__suspects_next(), since);
    on_another_thread(query_stream, &w);
    assert_int_equal(drv->device_synchronize(w.device), 900); /* it is dead already */
    assert_int_equal(ph__suspects_next(), since + 1);
    assert_int_equal(drv->capture_end(&graph, w.a), 901);
    assert_true(ph__suspects_blame(&note, since, capture.id, ph__thread_id()));
    assert_int_equal(note.capture_id, capture.id);
    assert_int_equal(note.result, 900);
    assert_string_equal(note.call, "cuStreamQuery");
    assert_string_equal(note.text, "a capturing stream");
    assert_string_equal(note.thread_name, "loader");
    assert_true(note.frame_count > 1);
    world_close(&w);
}

static void *end_capture(void *argument)
{
    const world *w = argument;
    ph__drv_graph *graph = NULL;
    return (void *)(intptr_t)drv->capture_end(&graph, w->a);
}

TEST(who_ends_a_capture_of_another_thread_is_noted)
{
    world w;
    ph__drv_capture capture;
    ph__suspect note;
    world_open(&w, 0);
    uint64_t since = ph__suspects_next();
    begin(w.a);
    assert_int_equal(drv->capture_get(&capture, w.a), 0);
    on_another_thread(end_capture, &w);
    assert_true(ph__suspects_blame(&note, since, capture.id, ph__thread_id()));
    assert_string_equal(note.call, "cuStreamEndCapture");
    assert_int_equal(note.result, 908);
    world_close(&w);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_notes, close_notes)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_noted_while_no_capture_is_open),
        CASE(notes_come_back_in_order),
        CASE(a_full_ring_keeps_the_newest),
        CASE(long_words_are_cut),
        CASE(a_trace_begins_with_the_caller),
        CASE(a_trace_has_its_bound),
        CASE(threads_note_at_the_same_time),
        CASE(blame_goes_from_sure_to_likely),
        CASE(only_some_numbers_invalidate),
        CASE(words_without_frames),
        CASE(words_with_frames),
        CASE(words_are_cut_like_snprintf_does),
        CASE(what_kills_a_capture_is_noted),
        CASE(who_ends_a_capture_of_another_thread_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
