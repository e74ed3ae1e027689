/* SPDX-License-Identifier: MIT */
/* tests/memory/short_cycle.c: a block that is freed and allocated again at once is kept out of its
 * heap meanwhile: nobody can tell, by addresses or by counts. */
#include "support/support.h"
#include "support/test.h"
#include <string.h>

enum {
    SLOTS = 6,
    STEPS = 4000
};

/* One of two devices that are made to do the same. */
typedef struct side {
    t_world w;
    char *first; /* addresses are told from here */
    char *block[SLOTS];
} side;

static void open_side(side *s)
{
    t_open(&s->w, NULL);
    assert_ok(ph_malloc(&s->first, 1, 512, s->w.stream));
}

static void close_side(side *s)
{
    for (int i = 0; i < SLOTS; i++)
        ph_free(s->block[i], s->w.stream);
    ph_free(s->first, s->w.stream);
    t_close(&s->w);
}

static ph_memory_stats stats_of(const side *s)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, s->w.device));
    return stats;
}

static void toggle(side *s, unsigned slot, size_t bytes)
{
    if (s->block[slot]) {
        ph_free(s->block[slot], s->w.stream);
        s->block[slot] = NULL;
    } else {
        assert_ok(ph_malloc(&s->block[slot], 1, bytes, s->w.stream));
    }
}

static unsigned next_random(unsigned *random)
{
    *random = *random * 1103515245u + 12345u;
    return *random >> 16;
}

/* Statistics end the cycle: one side is asked for them before each call, the other at the end. */
TEST(addresses_and_counts_are_those_of_a_heap_whose_cycle_ends_each_time)
{
    static const size_t sizes[] = {64, 500, 512, 513, 4096, 100000, (size_t)3 << 20};
    side kept, ended;
    open_side(&kept);
    open_side(&ended);
    memset(kept.block, 0, sizeof kept.block);
    memset(ended.block, 0, sizeof ended.block);
    unsigned random = 1, slot = 0;
    for (int i = 0; i < STEPS; i++) {
        /* half of the time the block that was just allocated or freed */
        slot = next_random(&random) % 2 ? slot : next_random(&random) % SLOTS;
        size_t bytes = sizes[next_random(&random) % (sizeof sizes / sizeof sizes[0])];
        toggle(&kept, slot, bytes);
        (void)stats_of(&ended);
        toggle(&ended, slot, bytes);
        if (i % 97 == 96) {
            assert_ok(ph_memory_reset_peaks(kept.w.device));
            assert_ok(ph_memory_reset_peaks(ended.w.device));
        }
        if (bytes < (size_t)1 << 20 && kept.block[slot])
            assert_int_equal(kept.block[slot] - kept.first, ended.block[slot] - ended.first);
    }
    ph_memory_stats a = stats_of(&kept), b = stats_of(&ended);
    assert_memory_equal(&a, &b, sizeof a);
    close_side(&ended);
    close_side(&kept);
}

TEST(a_second_free_is_seen_and_does_nothing)
{
    side s;
    char *block, *again, *other;
    open_side(&s);
    memset(s.block, 0, sizeof s.block);
    assert_ok(ph_malloc(&block, 1, 1000, s.w.stream));
    ph_free(block, s.w.stream);
    t_log_start();
    ph_free(block, s.w.stream);
    assert_int_equal(t_log_count("no live allocation"), 1);
    t_log_stop();
    assert_ok(ph_malloc(&again, 1, 1000, s.w.stream));
    assert_ok(ph_malloc(&other, 1, 1000, s.w.stream));
    assert_ptr_equal(again, block);
    assert_ptr_not_equal(again, other);
    ph_free(again, s.w.stream);
    ph_free(other, s.w.stream);
    close_side(&s);
}

/* Of a stream that has gone meanwhile: the segment leaves as it would have. */
TEST(a_block_whose_stream_is_destroyed_goes_with_it)
{
    side s;
    ph_stream *stream;
    char *block;
    open_side(&s);
    memset(s.block, 0, sizeof s.block);
    size_t before = stats_of(&s).reserved;
    assert_ok(ph_stream_create(&stream, s.w.device, NULL));
    assert_ok(ph_malloc(&block, 1, 1000, stream));
    ph_free(block, stream);
    assert_ok(ph_stream_synchronize(stream));
    ph_stream_destroy(stream);
    assert_ok(ph_memory_trim(s.w.device));
    assert_int_equal(stats_of(&s).reserved, before);
    close_side(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_counts_are_those_of_a_heap_whose_cycle_ends_each_time),
        cmocka_unit_test(a_second_free_is_seen_and_does_nothing),
        cmocka_unit_test(a_block_whose_stream_is_destroyed_goes_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
