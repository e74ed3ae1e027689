/* SPDX-License-Identifier: MIT */
/* tests/device/misuse_memory.c: what the allocator and pools answer to bad input: a status of
 * its own, a message that names the call, cleared outputs, and nothing changed. */
#include "base/ended.h"
#include "support/support.h"
#include "support/test.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define POISON(pointer) memset(&(pointer), 0xAB, sizeof(pointer))
#define REFUSED_OUT(pointer, call, status, part)                                                   \
    do {                                                                                           \
        POISON(pointer);                                                                           \
        assert_error(call, status, part);                                                          \
        assert_null(pointer);                                                                      \
    } while (0)

TEST(refused_allocations_of_device_memory_change_no_statistics)
{
    t_world world;
    void *block;
    ph_memory_stats before, after;
    t_open(&world, NULL);
    assert_ok(ph_malloc(&block, 1, 100, world.stream));
    ph_free(block, NULL);
    assert_ok(ph_memory_get_stats(&before, world.device));
    assert_error(ph_malloc(NULL, 1, 1, world.stream), PH_ERROR_ARGUMENT, "ph_malloc: out_pointer");
    REFUSED_OUT(block, ph_malloc(&block, 1, 1, NULL), PH_ERROR_ARGUMENT, "ph_malloc: stream");
    REFUSED_OUT(block, ph_malloc(&block, SIZE_MAX, 2, world.stream), PH_ERROR_SIZE, "ph_malloc");
    REFUSED_OUT(block, ph_malloc(&block, SIZE_MAX / 8 + 1, 8, world.stream), PH_ERROR_SIZE,
                "ph_malloc");
    POISON(block);
    /* no overflow, until it is rounded up */
    ph_status status = ph_malloc(&block, 1, SIZE_MAX, world.stream);
    assert_true(status == PH_ERROR_SIZE || status == PH_ERROR_DEVICE_MEMORY);
    assert_null(block);
    POISON(block);
    assert_ok(ph_malloc(&block, 0, 8, world.stream));
    assert_null(block);
    assert_error(ph_malloc_at(NULL, block, 512, world.stream), PH_ERROR_ARGUMENT,
                 "ph_malloc_at: out_pointer");
    REFUSED_OUT(block, ph_malloc_at(&block, (void *)512, 512, NULL), PH_ERROR_ARGUMENT,
                "ph_malloc_at: stream");
    REFUSED_OUT(block, ph_malloc_at(&block, (void *)100, 512, world.stream), PH_ERROR_ARGUMENT,
                "512");
    REFUSED_OUT(block, ph_malloc_at(&block, (void *)512, 512, world.stream), PH_ERROR_NOT_FOUND,
                "ph_malloc_at");
    assert_ok(ph_memory_get_stats(&after, world.device));
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.reserved, before.reserved);
    assert_int_equal(after.segments, before.segments);
    t_close(&world);
}

TEST(allocations_of_pinned_memory_refuse_bad_arguments)
{
    t_world world;
    void *block;
    t_open(&world, NULL);
    assert_error(ph_malloc_pinned(NULL, 1, 1, world.stream), PH_ERROR_ARGUMENT,
                 "ph_malloc_pinned: out_pointer");
    REFUSED_OUT(block, ph_malloc_pinned(&block, 1, 1, NULL), PH_ERROR_ARGUMENT,
                "ph_malloc_pinned: stream");
    REFUSED_OUT(block, ph_malloc_pinned(&block, SIZE_MAX, 3, world.stream), PH_ERROR_SIZE,
                "ph_malloc_pinned");
    POISON(block);
    assert_ok(ph_malloc_pinned(&block, 8, 0, world.stream));
    assert_null(block);
    ph_free_pinned(NULL, NULL);
    t_close(&world);
}

/* What is no live allocation, or lies inside of one, goes to the log, each once in the process,
 * and nothing else happens. */
TEST(wrong_frees_are_logged_once_and_free_nothing)
{
    t_world world;
    char *block, *neighbour, here, inside[128];
    ph_memory_stats stats;
    t_open(&world, NULL);
    assert_ok(ph_malloc(&block, 1, 4096, world.stream));
    assert_ok(ph_malloc(&neighbour, 1, 4096, world.stream));
    t_log_start();
    ph_free(&here, NULL);
    assert_int_equal(t_log_count("ph_free"), 1);
    (void)snprintf(inside, sizeof inside,
                   "ph_device_free: %p lies 512 bytes inside the live block %p; free that address",
                   (void *)(block + 512), (void *)block);
    ph_device_free(world.device, block + 512);
    ph_free(block + 4, world.stream);
    assert_int_equal(t_log_count(inside), 1);
    assert_int_equal(t_log_count("bytes inside the live block"), 1);
    ph_free(block, NULL);
    ph_free(block, NULL); /* twice */
    ph_free(NULL, NULL);
    ph_free(NULL, world.stream);
    ph_device_free(world.device, NULL);
    ph_device_free(NULL, neighbour);
    assert_int_equal(t_log_count("ph_free: "), 1);
    assert_int_equal(t_log_count("ph_device_free: "), 1);
    ph_free_pinned(neighbour, NULL); /* not pinned */
    assert_int_equal(t_log_count("ph_free_pinned: "), 1);
    ph_free_pinned(NULL, NULL);
    t_log_stop();
    assert_ok(ph_memset(neighbour, 1, 4096, world.stream));
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_int_equal(stats.allocated, 4096);
    ph_free(neighbour, NULL);
    t_close(&world);
}

/* Nobody could order the memory's next use behind the work of such a stream. A block of its own
 * keeps the stream, and is freed. */
TEST(frees_on_a_destroyed_stream_free_nothing)
{
    if (!PH__RECYCLES) {
        print_message("skipped: handles go at once, so that tools which watch the heap see it\n");
        skip();
    }
    t_world world;
    ph_stream *gone, *kept;
    char *block, *pinned, *own;
    ph_memory_stats stats;
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&gone, world.device, NULL));
    assert_ok(ph_stream_create(&kept, world.device, NULL));
    assert_ok(ph_malloc(&block, 1, 4096, world.stream));
    assert_ok(ph_malloc_pinned(&pinned, 1, 4096, world.stream));
    assert_ok(ph_malloc(&own, 1, 4096, kept));
    ph_stream_destroy(gone);
    ph_stream_destroy(kept);
    t_log_start();
    assert_false(ph_stream_is_capturing(gone));
    ph_free(block, gone);
    ph_free_pinned(pinned, gone);
    assert_int_equal(t_log_count("the stream was destroyed before this call; nothing was done"), 1);
    ph_free(own, kept);
    assert_int_equal(t_log_count(""), 1); /* once for both calls */
    t_log_stop();
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_int_equal(stats.allocated, 4096);
    ph_free(block, NULL);
    ph_free_pinned(pinned, NULL);
    t_close(&world);
}

TEST(questions_about_memory_refuse_bad_arguments)
{
    t_world world, other;
    char *block;
    ph_allocation where;
    ph_memory_stats stats;
    char *text;
    t_open(&world, NULL);
    t_open(&other, NULL);
    assert_ok(ph_malloc(&block, 1, 4096, world.stream));
    assert_error(ph_record_stream(NULL, world.stream), PH_ERROR_ARGUMENT, "ph_record_stream");
    assert_error(ph_record_stream(block, NULL), PH_ERROR_ARGUMENT, "ph_record_stream: stream");
    assert_error(ph_record_stream(&block, world.stream), PH_ERROR_NOT_FOUND, "ph_record_stream");
    ph_status status = ph_record_stream(block, other.stream);
    assert_true(status == PH_ERROR_WRONG_DEVICE || status == PH_ERROR_NOT_FOUND);
    assert_error(ph_memory_lookup(NULL, world.device, block), PH_ERROR_ARGUMENT,
                 "ph_memory_lookup: out");
    assert_error(ph_memory_lookup(&where, NULL, block), PH_ERROR_ARGUMENT,
                 "ph_memory_lookup: device");
    assert_error(ph_memory_lookup(&where, world.device, NULL), PH_ERROR_NOT_FOUND,
                 "ph_memory_lookup");
    assert_null(where.base);
    assert_error(ph_memory_lookup(&where, world.device, block + 4096), PH_ERROR_NOT_FOUND,
                 "ph_memory_lookup");
    assert_ok(ph_memory_lookup(&where, world.device, block + 4095));
    assert_ptr_equal(where.base, block);
    assert_error(ph_memory_trim(NULL), PH_ERROR_ARGUMENT, "ph_memory_trim: device");
    assert_error(ph_memory_set_limit(NULL, 0), PH_ERROR_ARGUMENT, "ph_memory_set_limit: device");
    assert_error(ph_memory_get_stats(NULL, world.device), PH_ERROR_ARGUMENT,
                 "ph_memory_get_stats: out");
    memset(&stats, 0xFF, sizeof stats);
    assert_error(ph_memory_get_stats(&stats, NULL), PH_ERROR_ARGUMENT,
                 "ph_memory_get_stats: device");
    assert_int_equal(stats.allocated, 0);
    assert_error(ph_memory_reset_peaks(NULL), PH_ERROR_ARGUMENT, "ph_memory_reset_peaks: device");
    assert_error(ph_memory_reset_accumulated(NULL), PH_ERROR_ARGUMENT,
                 "ph_memory_reset_accumulated: device");
    assert_error(ph_memory_snapshot(NULL, world.device, NULL), PH_ERROR_ARGUMENT,
                 "ph_memory_snapshot: out");
    REFUSED_OUT(text, ph_memory_snapshot(&text, NULL, NULL), PH_ERROR_ARGUMENT,
                "ph_memory_snapshot: device");
    assert_error(ph_memory_record_history(NULL, 1), PH_ERROR_ARGUMENT,
                 "ph_memory_record_history: device");
    assert_error(ph_memory_record_history(world.device, SIZE_MAX), PH_ERROR_SIZE,
                 "ph_memory_record_history");
    ph_free(block, NULL);
    t_close(&other);
    t_close(&world);
}

/* ---- pools ---- */
static ph_status no_alloc(void **out, size_t bytes, ph_stream *stream, void *user)
{
    (void)bytes;
    (void)stream;
    (void)user;
    *out = NULL;
    return ph_fail(PH_ERROR_CALLER, "the test's source gives nothing");
}

static ph_status crooked_alloc(void **out, size_t bytes, ph_stream *stream, void *user)
{
    (void)bytes;
    (void)stream;
    *out = (char *)user + 8; /* not aligned to 512 */
    return PH_OK;
}

static void no_free(void *pointer, size_t bytes, void *user)
{
    (void)bytes;
    (void)user;
    (void)pointer;
}

TEST(pool_calls_refuse_bad_arguments_and_orders)
{
    t_world world, other;
    ph_pool *pool, *second;
    ph_memory_stats stats;
    char *text;
    t_open(&world, NULL);
    t_open(&other, NULL);
    ph_pool_options reserved = {.reserved = {0, 0, 0, 1}}, half = {.alloc = no_alloc},
                    half_too = {.free = no_free};
    assert_error(ph_pool_create(NULL, world.device, NULL), PH_ERROR_ARGUMENT,
                 "ph_pool_create: out");
    REFUSED_OUT(pool, ph_pool_create(&pool, NULL, NULL), PH_ERROR_ARGUMENT,
                "ph_pool_create: device");
    REFUSED_OUT(pool, ph_pool_create(&pool, world.device, &reserved), PH_ERROR_ARGUMENT,
                "ph_pool_options");
    REFUSED_OUT(pool, ph_pool_create(&pool, world.device, &half), PH_ERROR_ARGUMENT,
                "ph_pool_create");
    REFUSED_OUT(pool, ph_pool_create(&pool, world.device, &half_too), PH_ERROR_ARGUMENT,
                "ph_pool_create");
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_pool_create(&second, world.device, NULL));
    assert_error(ph_pool_begin(NULL), PH_ERROR_ARGUMENT, "ph_pool_begin: pool");
    assert_error(ph_pool_end(NULL), PH_ERROR_ARGUMENT, "ph_pool_end: pool");
    assert_error(ph_pool_end(pool), PH_ERROR_STATE, "ph_pool_end");
    assert_ok(ph_pool_begin(pool));
    assert_error(ph_pool_begin(pool), PH_ERROR_POOL_BUSY, "ph_pool_begin");
    assert_ok(ph_pool_begin(second));
    assert_error(ph_pool_end(pool), PH_ERROR_STATE, "ph_pool_end"); /* not the innermost */
    assert_ok(ph_pool_end(second));
    assert_ok(ph_pool_end(pool));
    assert_error(ph_pool_end(pool), PH_ERROR_STATE, "ph_pool_end");
    assert_error(ph_pool_trim(NULL), PH_ERROR_ARGUMENT, "ph_pool_trim: pool");
    assert_error(ph_pool_stats(NULL, pool), PH_ERROR_ARGUMENT, "ph_pool_stats: out");
    assert_error(ph_pool_stats(&stats, NULL), PH_ERROR_ARGUMENT, "ph_pool_stats: pool");
    assert_null(ph_pool_retain(NULL));
    ph_pool_release(NULL);
    assert_int_equal(ph_pool_get_id(NULL).first, 0);
    assert_int_equal(ph_pool_get_id(NULL).second, 0);
    assert_int_equal(ph_pool_use_count(NULL), 0);
    REFUSED_OUT(text, ph_memory_snapshot(&text, other.device, pool), PH_ERROR_WRONG_DEVICE,
                "ph_memory_snapshot");
    assert_int_equal(ph_pool_use_count(pool), 1);
    ph_pool_release(second);
    ph_pool_release(pool);
    t_close(&other);
    t_close(&world);
}

/* A source that fails, or gives what cannot be used: the request fails, with the source's own
 * words where it had some. */
TEST(a_pool_source_that_fails_fails_the_request)
{
    static char storage[1024];
    t_world world;
    ph_pool *pool;
    void *block;
    ph_pool_options nothing = {.alloc = no_alloc, .free = no_free};
    ph_pool_options crooked = {.alloc = crooked_alloc, .free = no_free};
    t_open(&world, NULL);
    crooked.user = storage + (512 - (uintptr_t)storage % 512);
    assert_ok(ph_pool_create(&pool, world.device, &nothing));
    assert_ok(ph_pool_begin(pool));
    REFUSED_OUT(block, ph_malloc(&block, 1, 1000, world.stream), PH_ERROR_CALLER,
                "the test's source");
    assert_ok(ph_pool_end(pool));
    ph_pool_release(pool);
    assert_ok(ph_pool_create(&pool, world.device, &crooked));
    assert_ok(ph_pool_begin(pool));
    REFUSED_OUT(block, ph_malloc(&block, 1, 1000, world.stream), PH_ERROR_ARGUMENT, "512");
    assert_ok(ph_pool_end(pool));
    ph_pool_release(pool);
    assert_ok(ph_malloc(&block, 1, 1000, world.stream));
    ph_free(block, NULL);
    t_close(&world);
}

TEST(checkpoint_calls_refuse_bad_arguments_by_name)
{
    t_world world;
    ph_pool *pool, *other;
    ph_pool_checkpoint *checkpoint;
    bool equal = true;
    void *addresses[1] = {NULL};
    t_open(&world, NULL);
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_pool_create(&other, world.device, NULL));
    assert_error(ph_pool_checkpoint_create(NULL, pool), PH_ERROR_ARGUMENT,
                 "ph_pool_checkpoint_create: out");
    REFUSED_OUT(checkpoint, ph_pool_checkpoint_create(&checkpoint, NULL), PH_ERROR_ARGUMENT,
                "ph_pool_checkpoint_create: pool");
    assert_ok(ph_pool_checkpoint_create(&checkpoint, pool));
    assert_error(ph_pool_checkpoint_restore(NULL, checkpoint), PH_ERROR_ARGUMENT,
                 "ph_pool_checkpoint_restore");
    assert_error(ph_pool_checkpoint_restore(pool, NULL), PH_ERROR_ARGUMENT,
                 "ph_pool_checkpoint_restore");
    assert_error(ph_pool_checkpoint_restore(other, checkpoint), PH_ERROR_ARGUMENT,
                 "ph_pool_checkpoint_restore");
    assert_error(ph_pool_check_live(NULL, pool, NULL, 0), PH_ERROR_ARGUMENT, "ph_pool_check_live");
    assert_error(ph_pool_check_live(&equal, NULL, NULL, 0), PH_ERROR_ARGUMENT,
                 "ph_pool_check_live: pool");
    assert_false(equal);
    assert_error(ph_pool_check_live(&equal, pool, NULL, 1), PH_ERROR_ARGUMENT,
                 "ph_pool_check_live: addresses");
    assert_ok(ph_pool_check_live(&equal, pool, NULL, 0));
    assert_true(equal);
    assert_ok(ph_pool_check_live(&equal, pool, addresses, 1));
    assert_false(equal);
    ph_pool_checkpoint_destroy(checkpoint);
    ph_pool_release(other);
    ph_pool_release(pool);
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_allocations_of_device_memory_change_no_statistics),
        cmocka_unit_test(allocations_of_pinned_memory_refuse_bad_arguments),
        cmocka_unit_test(wrong_frees_are_logged_once_and_free_nothing),
        cmocka_unit_test(frees_on_a_destroyed_stream_free_nothing),
        cmocka_unit_test(questions_about_memory_refuse_bad_arguments),
        cmocka_unit_test(pool_calls_refuse_bad_arguments_and_orders),
        cmocka_unit_test(a_pool_source_that_fails_fails_the_request),
        cmocka_unit_test(checkpoint_calls_refuse_bad_arguments_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
