/* SPDX-License-Identifier: MIT */
/* tests/nn/data_loader_ends.c: data loaders that end early, fetch functions that fail or do not
 * return, going on from any position, and fork(). */
#include "support/loaders.h"
#include "support/test.h"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    COUNT = 50,
    BATCH = 4,
    BATCHES = 13,
    HANGS_AFTER = 60 /* seconds: a child that hangs is killed, which fails the test */
};

static t_scene scene;
static t_source source;

FIXTURE(open_world)
{
    t_scene_open(&scene);
    memset(&source, 0, sizeof source);
    return 0;
}

FIXTURE(close_world)
{
    t_scene_close(&scene);
    return 0;
}

static ph_data_loader *open_loader(void)
{
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    return t_loader(&scene, &options);
}

/* ---- failures of fetch ---- */
static void take_to(ph_data_loader *loader, uint64_t epoch, uint64_t batch)
{
    ph_batch got;
    do {
        got = t_next(&scene, loader);
    } while (got.epoch != epoch || got.number + 1 != batch);
}

TEST(test_a_failure_comes_with_its_batch_and_is_tried_again)
{
    ph_data_loader_position position;
    ph_batch batch;
    source.failing_epoch = 1;
    source.failing_batch = 5;
    atomic_store(&source.failures, 2);
    ph_data_loader *loader = open_loader();
    take_to(loader, 1, 5);
    for (int i = 0; i < 2; i++) {
        assert_error(ph_data_loader_next(&batch, loader, scene.stream), PH_ERROR_IO,
                     "ph_data_loader_next: batch 5 of epoch 1: example 20 is torn");
        assert_int_equal(batch.count, 0);
        assert_null(batch.tensor);
        assert_ok(ph_data_loader_get_position(&position, loader));
        assert_int_equal(position.epoch, 1);
        assert_int_equal(position.batch, 5);
    }
    for (uint64_t i = 5; i < BATCHES; i++) {
        batch = t_next(&scene, loader);
        assert_int_equal(batch.number, i);
        t_expect_batch(&scene, &batch);
    }
    ph_data_loader_destroy(loader);
}

TEST(test_a_failing_batch_can_be_passed_over)
{
    ph_data_loader_position position;
    ph_batch batch;
    source.failing_batch = 3;
    source.failure = PH_ERROR_CALLER;
    atomic_store(&source.failures, 1000);
    ph_data_loader *loader = open_loader();
    take_to(loader, 0, 3);
    assert_error(ph_data_loader_next(&batch, loader, scene.stream), PH_ERROR_CALLER,
                 "batch 3 of epoch 0: the fetch function gave PH_ERROR_CALLER");
    assert_ok(ph_data_loader_get_position(&position, loader));
    position.batch++;
    assert_ok(ph_data_loader_set_position(loader, &position));
    batch = t_next(&scene, loader);
    assert_int_equal(batch.number, 4);
    t_expect_batch(&scene, &batch);
    ph_data_loader_destroy(loader);
}

/* Of three threads one ends, then all. */
TEST(test_a_fetch_that_does_not_return_fails_its_batch)
{
    ph_batch batch;
    source.failing_batch = 1;
    atomic_store(&source.exits, 3);
    ph_data_loader *loader = open_loader();
    assert_int_equal(t_next(&scene, loader).number, 0);
    for (int i = 0; i < 3; i++)
        assert_error(ph_data_loader_next(&batch, loader, scene.stream), PH_ERROR_CALLER,
                     "batch 1 of epoch 0: the fetch function did not return");
    assert_error(ph_data_loader_next(&batch, loader, scene.stream), PH_ERROR_CALLER,
                 "ended all threads");
    ph_data_loader_destroy(loader);
}

TEST(test_fetch_may_not_call_its_loader)
{
    t_log_start();
    ph_data_loader *loader = open_loader();
    atomic_store(&source.loader, loader);
    for (int i = 0; i < BATCHES; i++) {
        ph_batch batch = t_next(&scene, loader);
        t_expect_batch(&scene, &batch);
    }
    atomic_store(&source.loader, NULL);
    ph_data_loader_destroy(loader);
    assert_in_range(t_log_count("ph_data_loader_destroy"), 1, 1000);
    t_log_stop();
}

/* ---- the end ---- */
TEST(test_a_loader_ends_at_any_time)
{
    source.slowest_ns = 500000;
    for (int taken = 0; taken < 2 * BATCHES; taken++) {
        ph_data_loader *loader = open_loader();
        for (int i = 0; i < taken; i++)
            (void)t_next(&scene, loader);
        ph_data_loader_destroy(loader);
        unsigned calls = atomic_load(&source.calls);
        assert_int_equal(atomic_load(&source.inside), 0);
        assert_ok(ph_stream_synchronize(scene.stream));
        assert_int_equal(atomic_load(&source.calls), calls);
    }
    ph_data_loader_destroy(NULL);
}

typedef struct waiting {
    ph_data_loader *loader;
    ph_status status;
    ph_error error;
} waiting;

/* Again where it met the other thread's call. */
static void *wait_for_batch(void *user)
{
    waiting *w = user;
    ph_batch batch;
    do {
        w->status = ph_data_loader_next(&batch, w->loader, scene.stream);
        w->error = *ph_error_last();
    } while (w->status == PH_ERROR_STATE && strstr(w->error.message, "one at a time"));
    return NULL;
}

static void await_stats(ph_data_loader *loader, uint64_t fetches)
{
    ph_data_loader_stats stats;
    do {
        ph__sleep_ns(1000000);
        assert_ok(ph_data_loader_get_stats(&stats, loader));
    } while (stats.fetches < fetches);
}

static void *open_gate(void *unused)
{
    (void)unused;
    ph__sleep_ns(2000000);
    t_gate_open(&source.gate);
    return NULL;
}

/* A second call meets the first one, which waits for a batch; then the loader goes. */
TEST(test_who_waits_is_told_of_the_end)
{
    pthread_t thread;
    ph_status second = PH_OK;
    source.gated = true;
    source.gated_batch = 2;
    waiting w = {.loader = open_loader()};
    (void)t_next(&scene, w.loader);
    (void)t_next(&scene, w.loader);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_batch, &w), 0);
    while (second == PH_OK)
        second = ph_data_loader_release(w.loader);
    assert_status(second, PH_ERROR_STATE);
    assert_non_null(strstr(ph_error_last()->message, "another thread"));
    pthread_t opener;
    assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
    ph_data_loader_destroy(w.loader);
    pthread_join(opener, NULL);
    pthread_join(thread, NULL);
    assert_true(w.status == PH_OK || w.status == PH_ERROR_STATE);
    if (w.status == PH_ERROR_STATE)
        assert_non_null(strstr(w.error.message, "being destroyed"));
}

/* ---- positions ---- */
static void take_all(int64_t *index, uint64_t *numbers, ph_data_loader *loader, int calls)
{
    for (int i = 0; i < calls; i++) {
        ph_batch batch = t_next(&scene, loader);
        numbers[i] = batch.epoch * 100 + batch.number;
        memset(index + i * BATCH, 0, BATCH * sizeof *index);
        if (batch.count > 0)
            memcpy(index + i * BATCH, batch.index, batch.count * sizeof *index);
    }
}

/* An interruption in front of each call; what comes behind it is what came without. */
TEST(test_going_on_anywhere_equals_no_interruption)
{
    enum {
        CALLS = 2 * (BATCHES + 1)
    };
    int64_t want[CALLS * BATCH], got[CALLS * BATCH];
    uint64_t want_numbers[CALLS], got_numbers[CALLS];
    ph_data_loader_position at[CALLS];
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.shuffle = true;
    options.seed = 99;
    ph_data_loader *loader = t_loader(&scene, &options);
    for (int i = 0; i < CALLS; i++) {
        assert_ok(ph_data_loader_get_position(&at[i], loader));
        assert_int_equal(at[i].epoch, i / (BATCHES + 1));
        assert_int_equal(at[i].batch, i % (BATCHES + 1));
        take_all(want + i * BATCH, want_numbers + i, loader, 1);
    }
    ph_data_loader_destroy(loader);
    options.seed = 0;
    loader = t_loader(&scene, &options);
    for (int i = 0; i < CALLS; i++) {
        assert_ok(ph_data_loader_set_position(loader, &at[i]));
        take_all(got, got_numbers, loader, CALLS - i);
        assert_memory_equal(got, want + i * BATCH, sizeof *got * (size_t)(CALLS - i) * BATCH);
        assert_memory_equal(got_numbers, want_numbers + i,
                            sizeof *got_numbers * (size_t)(CALLS - i));
    }
    ph_data_loader_destroy(loader);
}

TEST(test_the_position_moves_while_batches_are_fetched)
{
    ph_data_loader_position position;
    source.slowest_ns = 300000;
    ph_data_loader *loader = open_loader();
    assert_ok(ph_data_loader_get_position(&position, loader));
    for (uint64_t i = 0; i < 60; i++) {
        position.epoch = i * i;
        position.batch = i * 5 % BATCHES;
        assert_ok(ph_data_loader_set_position(loader, &position));
        ph_batch batch = t_next(&scene, loader);
        assert_int_equal(batch.epoch, position.epoch);
        assert_int_equal(batch.number, position.batch);
        t_expect_batch(&scene, &batch);
    }
    ph_data_loader_destroy(loader);
}

/* ---- fork ---- in a child nothing may go back to cmocka. */
#define WANT(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,               \
                          ph_error_last()->message);                                               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define WANT_STATE(call)                                                                           \
    WANT((call) == PH_ERROR_STATE && strstr(ph_error_last()->message, "fork") != NULL)

static void use_in_child(ph_data_loader *loader)
{
    ph_batch batch;
    ph_data_loader *other;
    ph_data_loader_stats stats;
    ph_data_loader_position position = {0};
    const ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    alarm(HANGS_AFTER);
    WANT_STATE(ph_data_loader_next(&batch, loader, scene.stream));
    WANT_STATE(ph_data_loader_release(loader));
    WANT_STATE(ph_data_loader_get_position(&position, loader));
    WANT_STATE(ph_data_loader_set_position(loader, &position));
    WANT_STATE(ph_data_loader_get_stats(&stats, loader));
    WANT_STATE(ph_data_loader_create(&other, scene.device, &options));
    ph_data_loader_destroy(loader);
    _exit(0);
}

TEST(test_a_child_of_fork_has_none_of_its_threads)
{
    int status;
    source.slowest_ns = 200000;
    ph_data_loader *loader = open_loader();
    await_stats(loader, 1);
    pid_t child = fork();
    if (child == 0)
        use_in_child(loader);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    for (int i = 0; i < BATCHES; i++) {
        ph_batch batch = t_next(&scene, loader);
        t_expect_batch(&scene, &batch);
    }
    ph_data_loader_destroy(loader);
}

/* The copy into the caller's tensor waits behind a closed gate: the memory that it reads is freed,
 * and may not be used again before the copy is done. */
TEST(a_copy_that_waits_outlives_its_loader)
{
    static t_gate gate;
    float x[BATCH * T_WIDTH];
    ph_tensor *into, *labels;
    assert_ok(ph_tensor_create(&into, scene.device, PH_DTYPE_F32, PH_SHAPE(BATCH, T_WIDTH)));
    assert_ok(ph_tensor_create(&labels, scene.device, PH_DTYPE_I64, PH_SHAPE(BATCH)));
    ph_batch_field fields[] = {t_fields[0], t_fields[1]};
    fields[0].into = into;
    fields[1].into = labels;
    ph_data_loader_options options = t_loading(&source, COUNT, BATCH);
    options.fields = fields;
    options.drop_last = true;
    ph_data_loader *loader = t_loader(&scene, &options);
    t_gate_shut(&gate);
    assert_ok(t_gate_wait_guarded(&gate, scene.stream));
    ph_batch batch = t_next(&scene, loader);
    assert_int_equal(batch.count, BATCH);
    ph_data_loader_destroy(loader);
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, scene.device));
    bool waits = stats.deferred >= 2 || !t_gate_held(&gate);
    t_gate_open(&gate);
    assert_true(waits);
    assert_ok(ph_memory_trim(scene.device));
    assert_ok(ph_tensor_read(scene.tape, into, x, sizeof x));
    for (size_t i = 0; i < BATCH * T_WIDTH; i++)
        assert_true(x[i] == (float)(i / T_WIDTH) + 0.25F * (float)(i % T_WIDTH));
    ph_tensor_release(into);
    ph_tensor_release(labels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_a_failure_comes_with_its_batch_and_is_tried_again),
        IN_WORLD(test_a_failing_batch_can_be_passed_over),
        IN_WORLD(test_a_fetch_that_does_not_return_fails_its_batch),
        IN_WORLD(test_fetch_may_not_call_its_loader),
        IN_WORLD(test_a_loader_ends_at_any_time),
        IN_WORLD(test_who_waits_is_told_of_the_end),
        IN_WORLD(test_going_on_anywhere_equals_no_interruption),
        IN_WORLD(test_the_position_moves_while_batches_are_fetched),
        IN_WORLD(test_a_child_of_fork_has_none_of_its_threads),
        IN_WORLD(a_copy_that_waits_outlives_its_loader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
