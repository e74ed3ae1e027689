/* SPDX-License-Identifier: MIT */
/* tests/memory/foreign_many.c: many announced blocks, against a plain list of them, and on several
 * threads at a time. */
#include "base/alloc.h"
#include "support/fixture.h"

#include <phonograph/foreign.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static t_world w;

WORLD(w);

enum {
    MANY = 100000,
    PLACES = 4096,
    STEP = 64
};
/* No memory is there: nothing reads it. */
static const uintptr_t start = (uintptr_t)1 << 45;

static void *place(size_t index)
{
    return (void *)(start + index * STEP);
}

static uint64_t announce(size_t index, size_t bytes)
{
    const ph_foreign_block block = {.address = place(index), .bytes = bytes};
    uint64_t generation;
    assert_ok(ph_foreign_announce(&generation, w.device, &block));
    return generation;
}

TEST(test_a_hundred_thousand_blocks)
{
    ph_allocation found;
    uint64_t *blocks = ph__calloc(MANY, sizeof *blocks);
    assert_non_null(blocks);
    /* 7919 is prime to MANY: each place once, in no order */
    for (size_t i = 0; i < MANY; i++) {
        size_t at = i * 7919 % MANY;
        blocks[at] = announce(at, STEP);
    }
    assert_int_equal(ph_foreign_count(w.device), MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_ok(ph_memory_lookup(&found, w.device, (char *)place(i) + i % STEP));
        assert_int_equal(found.generation, blocks[i]);
    }
    for (size_t i = 0; i < MANY; i += 2)
        assert_ok(ph_foreign_end(w.device, place(i * 3989 % MANY), 0, NULL));
    assert_int_equal(ph_foreign_count(w.device), MANY / 2);
    for (size_t i = 0; i < MANY; i++)
        if (i % 2)
            assert_ok(ph_foreign_end(w.device, place(i), blocks[i], NULL));
        else
            assert_status(ph_memory_lookup(&found, w.device, place(i)), PH_ERROR_NOT_FOUND);
    assert_int_equal(ph_foreign_count(w.device), 0);
    ph__free(blocks);
}

/* No block has more than 8 places. */
static void forget(uint64_t *owner, size_t at)
{
    uint64_t dead = owner[at];
    size_t from = at < 8 ? 0 : at - 8;
    for (size_t i = from; dead != 0 && i < at + 8 && i < PLACES; i++)
        if (owner[i] == dead)
            owner[i] = 0;
}

/* Announcements of random sizes: what is found is what a list of all bytes' owners says. */
TEST(test_random_blocks_against_a_list)
{
    static uint64_t owner[PLACES];
    static size_t first_of[PLACES];
    uint32_t seed = 12345;
    ph_allocation found;
    for (int round = 0; round < 20000; round++) {
        seed = seed * 1664525 + 1013904223;
        size_t at = (seed >> 8) % PLACES, length = 1 + (seed >> 24) % 8;
        if (seed & 0x80) {
            uint64_t known = owner[at];
            bool starts = known != 0 && first_of[at] == at;
            ph_status status = ph_foreign_end(w.device, place(at), 0, NULL);
            assert_int_equal(status, starts ? PH_OK : PH_ERROR_NOT_FOUND);
            for (size_t i = at; starts && i < PLACES && owner[i] == known; i++)
                owner[i] = 0;
            continue;
        }
        length = at + length > PLACES ? PLACES - at : length;
        for (size_t i = at; i < at + length; i++)
            forget(owner, i);
        uint64_t generation = announce(at, length * STEP);
        for (size_t i = at; i < at + length; i++) {
            owner[i] = generation;
            first_of[i] = at;
        }
    }
    for (size_t i = 0; i < PLACES; i++) {
        ph_status status = ph_memory_lookup(&found, w.device, (char *)place(i) + STEP - 1);
        assert_int_equal(status, owner[i] ? PH_OK : PH_ERROR_NOT_FOUND);
        assert_int_equal(found.generation, owner[i]);
    }
}

/* ---- threads ---- */
enum {
    THREADS = 4,
    ROUNDS = 2000
};
static atomic_uint failures;

static void *announce_and_end(void *argument)
{
    size_t own = (size_t)(uintptr_t)argument;
    for (size_t i = 0; i < ROUNDS; i++) {
        const ph_foreign_block block = {
            .address = place(own * 16 + i % 16), .bytes = STEP, .label = "a thread's"};
        uint64_t generation = 0;
        ph_allocation found;
        char *label = NULL;
        bool ok = ph_foreign_announce(&generation, w.device, &block) == PH_OK &&
                  ph_memory_lookup(&found, w.device, block.address) == PH_OK &&
                  found.generation == generation &&
                  ph_foreign_label(&label, w.device, block.address) == PH_OK &&
                  strcmp(label, "a thread's") == 0 &&
                  ph_foreign_end(w.device, block.address, generation, "there") == PH_OK;
        ph_string_free(label);
        if (!ok)
            atomic_fetch_add(&failures, 1);
    }
    return NULL;
}

TEST(test_threads_announce_beside_replays)
{
    pthread_t threads[THREADS];
    ph_graph *graph;
    int32_t *x;
    const ph_capture_options checked = {.check_input_liveness = true};
    assert_ok(PH_NEW(&x, 64, w.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, w.stream, &checked));
    assert_ok(ph_memset_u32(x, 1, 64, w.stream));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, announce_and_end, (void *)(uintptr_t)i),
                         0);
    for (int i = 0; i < 200; i++)
        assert_ok(ph_graph_replay(graph, w.stream));
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(ph_foreign_count(w.device), 0);
    assert_ok(ph_stream_synchronize(w.stream));
    ph_graph_destroy(graph);
    ph_free(x, w.stream);
}

/* Blocks that are not ended go with the device. */
TEST(test_the_device_takes_them_with_it)
{
    for (size_t i = 0; i < 1000; i++)
        announce(i, STEP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_a_hundred_thousand_blocks),
        IN_WORLD(test_random_blocks_against_a_list),
        IN_WORLD(test_threads_announce_beside_replays),
        IN_WORLD(test_the_device_takes_them_with_it),
    };
    return cmocka_run_group_tests_name("memory.foreign_many", tests, NULL, NULL);
}
