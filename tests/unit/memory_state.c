/* SPDX-License-Identifier: MIT */
/* tests/unit/memory_state.c: what the graph layer asks of memory: tracking, ranges of a capture,
 * replay order, and the counters of splits. */
#include "device/capture/capture.h"
#include "memory/capture/ranges.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"
#include "memory/pool/pool.h"
#include "memory/pool/recording.h"
#include "memory/pool/replay.h"
#include "support/fault.h"
#include "support/fixture.h"
#include "support/support.h"
#include "support/test.h"
#include <string.h>

static t_world w;

WORLD(w);

TEST(a_tracked_allocation_counts_its_end_for_each_tracker)
{
    void *p;
    ph_allocation found;
    assert_ok(ph_malloc(&p, 1, 100, w.stream));
    assert_true(ph__memory_find(&found, w.device, (char *)p + 99));
    uint64_t before = ph__memory_free_count(w.device);
    ph__watch watch = {0}, other = {0};
    for (int i = 0; i < 20; i++)
        assert_int_equal(ph__memory_track(w.device, p, found.generation, &watch), PH__TRACKS);
    assert_int_equal(ph__memory_track(w.device, p, found.generation + 1, &watch), PH__TRACK_GONE);
    ph__memory_untrack(w.device, p, found.generation, &watch);
    ph__memory_untrack(w.device, p, found.generation, &other);
    assert_true(ph__memory_is_live(w.device, p, found.generation));
    ph_free(p, w.stream);
    assert_int_equal(ph__memory_free_count(w.device), before + 1);
    assert_true(atomic_load(&watch.free_count) > 0);
    assert_int_equal(atomic_load(&other.free_count), 0);
    assert_false(ph__memory_is_live(w.device, p, found.generation));
    /* The same address again is another allocation, and nobody tracks it. */
    void *q;
    assert_ok(ph_malloc(&q, 1, 100, w.stream));
    assert_ptr_equal(q, p);
    assert_false(ph__memory_is_live(w.device, q, found.generation));
    ph_free(q, w.stream);
    assert_int_equal(ph__memory_free_count(w.device), before + 1);
}

/* Tracked once and untracked: its end is not counted. With a record of uses beside, too. */
TEST(an_untracked_allocation_ends_uncounted)
{
    void *p;
    ph_stream *side;
    ph_allocation found;
    assert_ok(ph_stream_create(&side, w.device, NULL));
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_malloc(&p, 1, 100, w.stream));
        assert_true(ph__memory_find(&found, w.device, p));
        ph__watch watch = {0};
        assert_int_equal(ph__memory_track(w.device, p, found.generation, &watch), PH__TRACKS);
        assert_ok(ph_record_stream(p, side));
        if (i == 0)
            ph__memory_untrack(w.device, p, found.generation, &watch);
        ph_free(p, w.stream);
        assert_int_equal(atomic_load(&watch.free_count), i);
        assert_int_equal(ph__memory_free_count(w.device), i);
    }
    ph_stream_destroy(side);
}

/* The ranges of a capture hold what it was given, also what it freed, and nothing else. */
TEST(test_record_ranges)
{
    ph_pool *pool;
    ph__ranges ranges;
    ph__drv_graph *graph;
    void *before, *p[200], *big;
    ph__capture capture;
    memset(&capture, 0, sizeof capture);
    assert_ok(ph__pool_create_private(&pool, w.device));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc(&before, 1, 512, w.stream));
    assert_ok(ph_pool_end(pool));
    assert_ok(ph__pool_record_begin(pool, w.device, "test"));
    assert_error(ph__pool_record_begin(pool, w.device, "test"), PH_ERROR_POOL_BUSY, "capture");
    assert_error(ph_pool_begin(pool), PH_ERROR_POOL_BUSY, "capture");
    assert_ok(ph__capture_begin(&capture, w.stream, PH_CAPTURE_GLOBAL, "test"));
    ph__pool_record_publish(pool, capture.id);
    for (int i = 0; i < 200; i++)
        assert_ok(ph_malloc(&p[i], 1, 512, w.stream));
    assert_ok(ph_malloc(&big, 1, 30 << 20, w.stream));
    for (int i = 0; i < 200; i++)
        ph_free(p[i], w.stream);
    ph_free(big, w.stream);
    for (int i = 0; i < 500; i++) { /* the same places again and again add nothing */
        assert_ok(ph_malloc(&p[0], 1, 512 * (size_t)(1 + i % 3), w.stream));
        ph_free(p[0], w.stream);
    }
    assert_ok(ph__capture_end(&graph, &capture, false, "test"));
    assert_ok(ph__pool_record_ranges(&ranges, pool, capture.id));
    ph__pool_record_end(pool, capture.id);
    assert_int_equal(ranges.count, 2);
    assert_null(ph__ranges_find(&ranges, (uintptr_t)before));
    for (int i = 1; i < 200; i++)
        assert_non_null(ph__ranges_find(&ranges, (uintptr_t)p[i]));
    assert_non_null(ph__ranges_find(&ranges, (uintptr_t)big + (30 << 20) - 1));
    assert_null(ph__ranges_find(&ranges, (uintptr_t)p[199] + 512));
    ph__ranges_free(&ranges);
    w.device->driver->graph_destroy(graph);
    ph_free(before, w.stream);
    ph__pool_graph_release(pool);
    ph_pool_release(pool);
}

/* A replay on another stream waits for the last one; epochs count the launched ones. */
TEST(test_replay_order)
{
    ph_pool *pool;
    ph_stream *side;
    t_gate gate = {0};
    bool done;
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    assert_ok(ph_stream_create(&side, w.device, NULL));
    assert_ok(ph__pool_replay_begin(pool, w.stream));
    assert_ok(t_gate_wait(&gate, w.stream));
    assert_int_equal(ph__pool_replay_end(pool, w.stream, true), 1);
    int64_t calls = ph__driver_calls();
    assert_ok(ph__pool_replay_begin(pool, w.stream));
    assert_int_equal(ph__pool_replay_end(pool, w.stream, true), 2);
    assert_int_equal(ph__driver_calls(), calls);
    assert_ok(ph__pool_replay_begin(pool, side));
    assert_int_equal(ph__pool_replay_end(pool, side, false), 0);
    assert_ok(ph_stream_query(&done, side));
    assert_false(done);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(side));
    assert_int_equal(ph__pool_epoch(pool), 2);
    ph_stream_destroy(side);
    ph_pool_release(pool);
}

/* A stream that begins to capture leaves its replays' event behind: no event of ours gets into
 * the capture. */
TEST(test_capture_after_replay)
{
    ph_pool *pool;
    ph_stream *side;
    ph__drv_graph *graph;
    ph__capture capture;
    memset(&capture, 0, sizeof capture);
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    assert_ok(ph_stream_create(&side, w.device, NULL));
    assert_ok(ph__pool_replay_begin(pool, w.stream));
    assert_int_equal(ph__pool_replay_end(pool, w.stream, true), 1);
    assert_ok(ph__capture_begin(&capture, w.stream, PH_CAPTURE_GLOBAL, "test"));
    assert_ok(ph__pool_replay_begin(pool, side));
    assert_int_equal(ph__pool_replay_end(pool, side, true), 2);
    assert_false(ph_stream_is_capturing(side));
    assert_ok(ph__capture_end(&graph, &capture, false, "test"));
    w.device->driver->graph_destroy(graph);
    assert_ok(ph_stream_synchronize(side));
    ph_stream_destroy(side);
    ph_pool_release(pool);
}

static ph_memory_stats stats_now(void)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, w.device));
    return stats;
}

/* inactive_split: free blocks that are only a part of their segment. */
TEST(test_split_counters)
{
    void *p[3];
    for (int i = 0; i < 3; i++)
        assert_ok(ph_malloc(&p[i], 1, 512, w.stream));
    ph_memory_stats stats = stats_now();
    assert_int_equal(stats.inactive_split[PH_MEMORY_SMALL].current, 1);
    assert_int_equal(stats.inactive_split_bytes[PH_MEMORY_ALL].current, (2 << 20) - 3 * 512);
    ph_free(p[1], w.stream);
    stats = stats_now();
    assert_int_equal(stats.inactive_split[PH_MEMORY_SMALL].current, 2);
    ph_free(p[0], w.stream);
    ph_free(p[2], w.stream);
    stats = stats_now();
    assert_int_equal(stats.inactive_split[PH_MEMORY_SMALL].current, 0);
    assert_int_equal(stats.inactive_split_bytes[PH_MEMORY_ALL].current, 0);
    assert_int_equal(stats.inactive_split[PH_MEMORY_ALL].added,
                     stats.inactive_split[PH_MEMORY_ALL].removed);
    assert_int_equal(stats.allocation[PH_MEMORY_ALL].added, 3);
    assert_int_equal(stats.allocation[PH_MEMORY_ALL].removed, 3);
    assert_int_equal(stats.allocated_peak, 3 * 512);
    assert_ok(ph_memory_reset_peaks(w.device));
    assert_int_equal(stats_now().allocated_peak, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_tracked_allocation_counts_its_end_for_each_tracker),
        IN_WORLD(an_untracked_allocation_ends_uncounted),
        IN_WORLD(test_record_ranges),
        IN_WORLD(test_replay_order),
        IN_WORLD(test_capture_after_replay),
        IN_WORLD(test_split_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
