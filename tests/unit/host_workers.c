/* SPDX-License-Identifier: MIT */
/* tests/unit/host_workers.c: the host device's workers, and grids of kernels with and without
 * their help. */
#include "driver/host/plan/workers.h"
#include "support/host_driver.h"
#include "support/test.h"

/* ---- workers ---- */

enum {
    LANES = 8
};

typedef struct job_log {
    atomic_int ran[LANES], total;
    ph__workers *nested;
    atomic_int refused;
} job_log;

static void log_lane(void *context, unsigned lane)
{
    job_log *log = context;
    atomic_fetch_add(&log->ran[lane], 1);
    atomic_fetch_add(&log->total, 1);
}

TEST(every_lane_runs_once_a_job)
{
    for (unsigned threads = 1; threads <= LANES; threads++) {
        job_log log = {0};
        ph__workers *workers = ph__workers_create(threads);
        assert_non_null(workers);
        assert_int_equal(ph__workers_count(workers), threads);
        for (int round = 0; round < 200; round++)
            assert_true(ph__workers_run(workers, threads, log_lane, &log));
        for (unsigned lane = 0; lane < LANES; lane++)
            assert_int_equal(atomic_load(&log.ran[lane]), lane < threads ? 200 : 0);
        ph__workers_destroy(workers);
    }
}

TEST(fewer_lanes_than_threads)
{
    job_log log = {0};
    ph__workers *workers = ph__workers_create(4);
    assert_false(ph__workers_awake(workers, 2)); /* none has started */
    assert_true(ph__workers_awake(workers, 1));  /* and none is needed */
    for (unsigned round = 0; round < 400; round++)
        assert_true(ph__workers_run(workers, 1 + round % 4, log_lane, &log));
    for (int lane = 0; lane < 4; lane++)
        assert_int_equal(atomic_load(&log.ran[lane]), 400 - 100 * lane);
    assert_false(ph__workers_run(workers, 5, log_lane, &log));
    assert_int_equal(atomic_load(&log.total), 1000);
    ph__workers_destroy(workers);
}

static void run_inside(void *context, unsigned lane)
{
    job_log *log = context;
    if (!ph__workers_run(log->nested, 2, log_lane, log))
        atomic_fetch_add(&log->refused, 1);
    (void)lane;
}

TEST(a_second_job_is_refused_meanwhile)
{
    job_log log = {.nested = ph__workers_create(2)};
    assert_true(ph__workers_run(log.nested, 2, run_inside, &log));
    assert_int_equal(atomic_load(&log.refused), 2);
    assert_int_equal(atomic_load(&log.total), 0);
    assert_true(ph__workers_run(log.nested, 2, log_lane, &log));
    assert_int_equal(atomic_load(&log.total), 2);
    ph__workers_destroy(log.nested);
}

static void *run_many(void *argument)
{
    job_log *log = argument;
    for (int i = 0; i < 2000; i++)
        if (!ph__workers_run(log->nested, 3, log_lane, log))
            atomic_fetch_add(&log->refused, 1);
    return NULL;
}

TEST(several_threads_compete_for_the_workers)
{
    job_log log = {.nested = ph__workers_create(3)};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &log), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    int done = 6000 - atomic_load(&log.refused);
    for (int lane = 0; lane < 3; lane++)
        assert_int_equal(atomic_load(&log.ran[lane]), done);
    ph__workers_destroy(log.nested);
}

TEST(no_workers_at_all)
{
    ph__workers_destroy(NULL);
    assert_int_equal(ph__workers_count(NULL), 1);
    assert_false(ph__workers_awake(NULL, 2));
    int64_t live = ph__alloc_live();
    ph__alloc_fail_after(0);
    assert_null(ph__workers_create(4));
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    ph__workers_destroy(ph__workers_create(4)); /* never started */
    assert_int_equal(ph__alloc_live(), live);
}

/* ---- grids ---- */

enum {
    BLOCKS = 5000
};

/* Counts each block; spins for `work` rounds; checks its scratch. */
struct count_args {
    atomic_int *counts;
    uint32_t grid[3], block[3];
    int work, shared_bytes;
    atomic_int *wrong;
    char padding[400]; /* more than commands hold inside */
    int last;
};

static void count_body(const ph_block_range *range, const void *args)
{
    const struct count_args *count = args;
    bool wrong = memcmp(range->grid, count->grid, sizeof range->grid) != 0 ||
                 memcmp(range->block, count->block, sizeof range->block) != 0 ||
                 range->begin >= range->end || count->last != 77 ||
                 (range->shared == NULL) != (count->shared_bytes == 0) ||
                 (uintptr_t)range->shared % 64 != 0;
    for (uint64_t b = range->begin; b < range->end; b++) {
        atomic_fetch_add_explicit(&count->counts[b], 1, memory_order_relaxed);
        int *scratch = range->shared;
        if (scratch)
            scratch[0] = scratch[count->shared_bytes / 4 - 1] = (int)b;
        for (volatile int i = 0; i < count->work; i++)
            continue;
        if (scratch && (scratch[0] != (int)b || scratch[count->shared_bytes / 4 - 1] != (int)b))
            wrong = true;
    }
    if (wrong)
        atomic_fetch_add(count->wrong, 1);
}

static void check_grid(ph__drv_stream *stream, ph__drv_kernel *kernel, const uint32_t grid[3],
                       int work, int shared_bytes)
{
    static atomic_int counts[BLOCKS];
    atomic_int wrong = 0;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    assert_true(blocks <= BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        atomic_store_explicit(&counts[i], 0, memory_order_relaxed);
    struct count_args args = {
        .counts = counts, .work = work, .shared_bytes = shared_bytes, .wrong = &wrong, .last = 77};
    ph__drv_launch launch = {
        .block = {4, 2, 1}, .shared_bytes = (size_t)shared_bytes, .args = &args};
    memcpy(launch.grid, grid, sizeof launch.grid);
    memcpy(args.grid, grid, sizeof args.grid);
    memcpy(args.block, launch.block, sizeof args.block);
    assert_int_equal(drv->launch(stream, kernel, &launch), 0);
    memset(&args, 0, sizeof args); /* copied */
    assert_int_equal(drv->stream_synchronize(stream), 0);
    assert_int_equal(atomic_load(&wrong), 0);
    for (uint64_t b = 0; b < BLOCKS; b++)
        assert_int_equal(atomic_load_explicit(&counts[b], memory_order_relaxed), b < blocks);
}

TEST(every_block_runs_once)
{
    static const uint32_t grids[][3] = {{1, 1, 1},  {2, 1, 1},   {7, 5, 3},
                                        {64, 1, 1}, {1, 1, 200}, {BLOCKS, 1, 1}};
    static const uint32_t thread_counts[] = {1, 2, 4};
    for (uint64_t config = 0; config < 6; config++) {
        const ph__drv_device_options options = {.threads = thread_counts[config % 3],
                                                .chaos_seed = config / 3};
        const ph_kernel_source source = {
            .name = "count", .host = count_body, .args_size = sizeof(struct count_args)};
        ph__drv_device *device = NULL;
        ph__drv_stream *stream = NULL;
        ph__drv_kernel *kernel = NULL;
        int64_t live = ph__alloc_live();
        assert_int_equal(drv->device_open(&device, 0, &options), 0);
        assert_int_equal(drv->stream_create(&stream, device, PH__STREAM_NON_BLOCKING, 0), 0);
        assert_int_equal(drv->kernel_create(&kernel, device, &source), 0);
        for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
            check_grid(stream, kernel, grids[i], 0, 0);
            check_grid(stream, kernel, grids[i], 2000, 0); /* long enough to be handed out */
            check_grid(stream, kernel, grids[i], 500, (int)(100 * (i + 1)));
        }
        check_grid(stream, kernel, grids[2], 0, 232448);
        drv->kernel_destroy(kernel);
        drv->stream_destroy(stream);
        drv->device_close(device);
        assert_int_equal(ph__alloc_live(), live);
    }
}

/* Each block runs until another one has begun: only two threads at once get through. Long enough
 * that handing blocks out pays on any machine. */
struct meet_args {
    atomic_int *begun;
};

static void meet_body(const ph_block_range *range, const void *args)
{
    const struct meet_args *meet = args;
    for (volatile int i = 0; i < 8000000; i++)
        continue;
    atomic_fetch_add(meet->begun, 1);
    while (range->begin > 0 && atomic_load(meet->begun) < 3)
        sched_yield();
}

TEST(a_long_grid_is_run_by_several_threads)
{
    const ph__drv_device_options options = {.threads = 2};
    const ph_kernel_source source = {
        .name = "meet", .host = meet_body, .args_size = sizeof(struct meet_args)};
    ph__drv_device *device = NULL;
    ph__drv_stream *stream = NULL;
    ph__drv_kernel *kernel = NULL;
    atomic_int begun = 0;
    assert_int_equal(drv->device_open(&device, 0, &options), 0);
    assert_int_equal(drv->stream_create(&stream, device, PH__STREAM_NON_BLOCKING, 0), 0);
    assert_int_equal(drv->kernel_create(&kernel, device, &source), 0);
    const struct meet_args args = {&begun};
    const ph__drv_launch launch = {.grid = {3, 1, 1}, .block = {1, 1, 1}, .args = &args};
    assert_int_equal(drv->launch(stream, kernel, &launch), 0);
    assert_int_equal(drv->stream_synchronize(stream), 0);
    assert_int_equal(atomic_load(&begun), 3);
    drv->kernel_destroy(kernel);
    drv->stream_destroy(stream);
    drv->device_close(device);
}

TEST(launches_keep_to_the_limits)
{
    world w;
    world_open(&w, 0);
    const struct add_args args = {w.words, 0, 1, 1};
    static const struct {
        uint32_t grid[3], block[3];
        size_t shared;
        int result;
    } cases[] = {
        {{1, 1, 1}, {1024, 1, 1}, 232448, 0}, {{1, 1, 1}, {1, 16, 64}, 0, 0},
        {{0, 1, 1}, {1, 1, 1}, 0, 1},         {{1, 1, 0}, {1, 1, 1}, 0, 1},
        {{1, 1, 1}, {1, 0, 1}, 0, 1},         {{0x80000000u, 1, 1}, {1, 1, 1}, 0, 1},
        {{1, 65536, 1}, {1, 1, 1}, 0, 1},     {{1, 1, 65536}, {1, 1, 1}, 0, 1},
        {{1, 1, 1}, {1025, 1, 1}, 0, 1},      {{1, 1, 1}, {32, 33, 1}, 0, 1},
        {{1, 1, 1}, {1, 1, 65}, 0, 1},        {{1, 1, 1}, {1, 1, 1}, 232449, 1},
    };
    int good = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ph__drv_launch launch = {.shared_bytes = cases[i].shared, .args = &args};
        memcpy(launch.grid, cases[i].grid, sizeof launch.grid);
        memcpy(launch.block, cases[i].block, sizeof launch.block);
        ph__driver_clear_reason();
        assert_int_equal(drv->launch(w.a, w.add, &launch), cases[i].result);
        assert_int_equal(ph__driver_reason()[0] != '\0', cases[i].result);
        good += cases[i].result == 0;
    }
    const ph__drv_launch no_args = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    assert_int_equal(drv->launch(w.a, w.add, &no_args), PH__R_INVALID_VALUE);
    assert_int_equal(drv->stream_synchronize(w.a), 0);
    assert_int_equal(w.words[0], good);
    world other;
    world_open(&other, 0);
    const ph__drv_launch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    assert_int_equal(drv->launch(w.a, other.add, &launch), PH__R_INVALID_HANDLE);
    world_close(&other);
    world_close(&w);
}

TEST(a_kernel_lives_as_long_as_its_launches)
{
    world w;
    gate g = {0};
    world_open(&w, 0);
    const ph_kernel_source source = {
        .name = "add", .host = add_body, .args_size = sizeof(struct add_args)};
    const ph_kernel_source bare = {.name = "gpu only", .cuda = "", .args_size = 0};
    ph__drv_kernel *kernel = NULL, *none = NULL;
    assert_int_equal(drv->kernel_create(&none, w.device, &bare), PH__R_NOT_SUPPORTED);
    assert_non_null(strstr(ph__driver_reason(), "ph_kernel_source.host"));
    assert_null(none);
    assert_int_equal(drv->kernel_create(&kernel, w.device, &source), 0);
    assert_int_equal(gate_wait(&g, w.a), 0);
    const struct add_args args = {w.words, 0, 1, 6};
    const ph__drv_launch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    assert_int_equal(drv->launch(w.a, kernel, &launch), 0);
    drv->kernel_destroy(kernel);
    atomic_store(&g.open, true);
    assert_int_equal(drv->stream_synchronize(w.a), 0);
    assert_int_equal(w.words[0], 6);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_lane_runs_once_a_job),
        cmocka_unit_test(fewer_lanes_than_threads),
        cmocka_unit_test(a_second_job_is_refused_meanwhile),
        cmocka_unit_test(several_threads_compete_for_the_workers),
        cmocka_unit_test(no_workers_at_all),
        cmocka_unit_test(every_block_runs_once),
        cmocka_unit_test(a_long_grid_is_run_by_several_threads),
        cmocka_unit_test(launches_keep_to_the_limits),
        cmocka_unit_test(a_kernel_lives_as_long_as_its_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
