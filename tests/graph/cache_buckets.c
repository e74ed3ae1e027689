/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_buckets.c: buckets of sizes, and the best ladder for those that came. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"

static t_world world;
static ph_graph_cache *cache;
static int beyond;

static void on_event(const ph_graph_cache_event *event, void *user)
{
    (void)user;
    beyond += event->what == PH_CACHE_BEYOND && event->key == NULL;
}

FIXTURE(open_world)
{
    t_open(&world, NULL);
    beyond = 0;
    assert_ok(
        ph_graph_cache_create(&cache, world.device, &(ph_graph_cache_options){.event = on_event}));
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_cache_destroy(cache);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static size_t bucket_of(size_t size)
{
    size_t bucket;
    assert_ok(ph_graph_cache_bucket(&bucket, cache, size));
    return bucket;
}

TEST(a_size_has_the_smallest_bucket_that_holds_it)
{
    const size_t ladder[] = {1, 8, 64};
    assert_int_equal(bucket_of(3), 0);
    assert_int_equal(beyond, 0); /* there is no ladder */
    assert_ok(ph_graph_cache_set_buckets(cache, ladder, 3));
    for (size_t size = 1; size <= 64; size++)
        assert_int_equal(bucket_of(size), size == 1 ? 1 : size <= 8 ? 8 : 64);
}

TEST(a_size_above_the_largest_bucket_is_told_each_time_and_logged_once)
{
    const size_t ladder[] = {8};
    ph_graph_cache_stats stats;
    assert_ok(ph_graph_cache_set_buckets(cache, ladder, 1));
    t_log_start();
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(bucket_of(9), 0);
        assert_int_equal(beyond, i);
    }
    assert_int_equal(t_log_count("above the largest bucket, 8"), 1);
    t_log_stop();
    assert_ok(ph_graph_cache_get_stats(&stats, cache));
    assert_int_equal(stats.beyond, 3);
}

/* ---- the best ladder ---- */
enum {
    SIZES = 9,
    MOST = 4
};

static uint64_t padding(const size_t *sizes, const size_t *calls, size_t count,
                        const size_t *ladder, size_t steps)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < steps && ladder[at] < sizes[i])
            at++;
        if (at == steps)
            return UINT64_MAX;
        sum += calls[i] * (ladder[at] - sizes[i]);
    }
    return sum;
}

/* Every subset of the sizes. */
static uint64_t least_padding(const size_t *sizes, const size_t *calls, size_t count, size_t most)
{
    uint64_t least = UINT64_MAX;
    for (unsigned set = 1; set < 1u << count; set++) {
        size_t ladder[SIZES], steps = 0;
        for (size_t i = 0; i < count; i++)
            if (set >> i & 1)
                ladder[steps++] = sizes[i];
        if (steps <= most && padding(sizes, calls, count, ladder, steps) < least)
            least = padding(sizes, calls, count, ladder, steps);
    }
    return least;
}

TEST(the_suggested_ladder_has_the_least_padding)
{
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < (t_nightly() ? 1000 : 100); round++) {
        size_t sizes[SIZES], calls[SIZES], count = 0, size = 0, ladder[MOST], steps = 0;
        ph_graph_cache_destroy(cache);
        assert_ok(ph_graph_cache_create(&cache, world.device, NULL));
        for (int i = 0; i < SIZES; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            size += 1 + random % 50;
            sizes[count] = size;
            calls[count] = 1 + (random >> 32) % 5;
            for (size_t c = 0; c < calls[count]; c++)
                (void)bucket_of(size);
            count++;
        }
        for (size_t most = 1; most <= MOST; most++) {
            assert_ok(ph_graph_cache_suggest(ladder, &steps, cache, most));
            assert_true(steps <= most);
            assert_int_equal(padding(sizes, calls, count, ladder, steps),
                             least_padding(sizes, calls, count, most));
        }
    }
}

TEST(a_ladder_needs_no_more_buckets_than_there_are_sizes)
{
    size_t ladder[4096], count;
    assert_error(ph_graph_cache_suggest(ladder, &count, cache, 4), PH_ERROR_NOT_FOUND,
                 "no size has come");
    (void)bucket_of(100);
    (void)bucket_of(7);
    (void)bucket_of(7);
    assert_ok(ph_graph_cache_suggest(ladder, &count, cache, 4096));
    assert_int_equal(count, 2);
    assert_int_equal(ladder[0], 7);
    assert_int_equal(ladder[1], 100);
}

TEST(misuse_of_buckets_is_refused)
{
    const size_t falling[] = {8, 4}, zero[] = {0, 4};
    size_t one, count;
    assert_error(ph_graph_cache_set_buckets(cache, falling, 2), PH_ERROR_ARGUMENT, "size 1 is 4");
    assert_error(ph_graph_cache_set_buckets(cache, zero, 2), PH_ERROR_ARGUMENT, "size 0 is 0");
    assert_error(ph_graph_cache_set_buckets(cache, NULL, 2), PH_ERROR_ARGUMENT, "sizes");
    assert_error(ph_graph_cache_bucket(&one, cache, 0), PH_ERROR_SIZE, "1 to 2^32");
    assert_error(ph_graph_cache_bucket(NULL, cache, 1), PH_ERROR_ARGUMENT, "bucket");
    assert_error(ph_graph_cache_suggest(&one, &count, cache, 0), PH_ERROR_ARGUMENT, "0 buckets");
    assert_error(ph_graph_cache_suggest(NULL, &count, cache, 1), PH_ERROR_ARGUMENT, "sizes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_size_has_the_smallest_bucket_that_holds_it),
        IN_WORLD(a_size_above_the_largest_bucket_is_told_each_time_and_logged_once),
        IN_WORLD(the_suggested_ladder_has_the_least_padding),
        IN_WORLD(a_ladder_needs_no_more_buckets_than_there_are_sizes),
        IN_WORLD(misuse_of_buckets_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
