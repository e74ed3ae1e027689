/* SPDX-License-Identifier: MIT */
/* tests/memory/layouts.c: checkpoints of a pool, live sets, and allocation at an exact address. */
#include "base/alloc.h"
#include "memory/block/heap_state.h"
#include "support/support.h"
#include "support/test.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static t_world w;
static ph_pool *pool;

FIXTURE(setup)
{
    t_open(&w, NULL);
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    return 0;
}

FIXTURE(teardown)
{
    ph_memory_stats stats;
    ph_pool_release(pool);
    /* What each of these tests must leave behind: no segment. */
    assert_ok(ph_memory_trim(w.device));
    assert_ok(ph_memory_get_stats(&stats, w.device));
    assert_int_equal(stats.segments, 0);
    assert_int_equal(stats.active[PH_MEMORY_ALL].current, 0);
    t_close(&w);
    return 0;
}

static void *allocate(size_t bytes)
{
    void *p;
    assert_ok(ph_malloc(&p, 1, bytes, w.stream));
    return p;
}

/* The pool's segments and blocks, without the generations. */
static char *picture(void)
{
    char *json, *from, *to;
    assert_ok(ph_memory_snapshot(&json, w.device, pool));
    from = strstr(json, "\"segments\":");
    assert_non_null(from);
    char *copy = strdup(from);
    ph_string_free(json);
    for (char *at = copy; (at = strstr(at, "\"generation\":")) != NULL; at++) {
        for (to = at + strlen("\"generation\":"); *to >= '0' && *to <= '9'; to++)
            *to = '0';
        size_t digits = (size_t)(to - at) - strlen("\"generation\":");
        memmove(at + strlen("\"generation\":") + 1, to, strlen(to) + 1);
        (void)digits;
    }
    return copy;
}

typedef struct plan {
    const size_t *sizes;
    size_t count;
    uint32_t kept; /* which of them stay allocated, a bit each */
    void *live[16];
} plan;

static ph_status plan_body(ph_stream *stream, void *user)
{
    plan *p = user;
    for (size_t i = 0; i < p->count; i++) {
        PH_TRY(ph_malloc(&p->live[i], 1, p->sizes[i], stream));
        PH_TRY(ph_memset(p->live[i], 1, p->sizes[i], stream));
    }
    for (size_t i = 0; i < p->count; i++) {
        if (p->kept >> i & 1)
            continue;
        ph_free(p->live[i], stream);
        p->live[i] = NULL;
    }
    return PH_OK;
}

/* Captures the plan into the pool, takes a checkpoint, restores it: nothing has changed; also
 * after changes. */
static void check_plan(const size_t *sizes, size_t count, uint32_t kept)
{
    ph_graph *graph;
    ph_pool_checkpoint *checkpoint;
    ph_capture_options options = {.pool = pool};
    plan p = {.sizes = sizes, .count = count, .kept = kept};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.stream, &options, plan_body, &p));
    char *before = picture();
    assert_ok(ph_pool_checkpoint_create(&checkpoint, pool));
    assert_ok(ph_pool_checkpoint_restore(pool, checkpoint));
    char *after = picture();
    assert_string_equal(before, after);
    free(after);
    for (size_t i = 0; i < count; i++)
        if (i % 2)
            ph_free(p.live[i], w.stream);
    assert_ok(ph_pool_begin(pool));
    void *more = allocate(3000), *most = allocate(3 * MIB);
    assert_ok(ph_pool_end(pool));
    ph_allocation old;
    assert_ok(ph_memory_lookup(&old, w.device, more));
    ph_free(most, w.stream);
    assert_ok(ph_pool_checkpoint_restore(pool, checkpoint));
    /* The 3 MiB may have needed a segment of their own, which stays, free. */
    after = picture();
    assert_true(strlen(after) >= strlen(before));
    assert_memory_equal(before, after, strlen(before) - strlen("],\"pinned\":[]}"));
    for (size_t i = 0; i < count; i++)
        ph_free(p.live[i], w.stream);
    free(before);
    free(after);
    ph_pool_checkpoint_destroy(checkpoint);
    ph_graph_destroy(graph);
}

TEST(TestBlockStateAbsorption_test_simple)
{
    static const size_t sizes[] = {8 * MIB, MIB, MIB, MIB, MIB, MIB, MIB, MIB};
    check_plan(sizes, 8, 0x7);
}

static const size_t eleven[] = {512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512};

TEST(test_allocated_in_middle_of_segment)
{
    check_plan(eleven, 11, 1u << 5);
}

TEST(test_multiple_middle_allocations)
{
    check_plan(eleven, 11, 1u << 5 | 1u << 8);
}

TEST(test_middle_allocations_contiguous)
{
    check_plan(eleven, 11, 1u << 5 | 1u << 6);
}

TEST(test_additional_free_following_checkpoint)
{
    ph_graph *graphs[2];
    ph_pool_checkpoint *checkpoint;
    ph_capture_options options = {.pool = pool};
    plan p[2] = {{.sizes = eleven, .count = 1, .kept = 1},
                 {.sizes = eleven, .count = 1, .kept = 1}};
    char *before = NULL;
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_create(&graphs[i], NULL));
        assert_ok(ph_graph_capture(graphs[i], w.stream, &options, plan_body, &p[i]));
        if (i == 0) {
            before = picture();
            assert_ok(ph_pool_checkpoint_create(&checkpoint, pool));
        }
    }
    assert_ptr_not_equal(p[0].live[0], p[1].live[0]);
    assert_ok(ph_pool_checkpoint_restore(pool, checkpoint));
    ph_allocation found;
    assert_status(ph_memory_lookup(&found, w.device, p[1].live[0]), PH_ERROR_NOT_FOUND);
    char *after = picture();
    assert_string_equal(before, after);
    free(before);
    free(after);
    ph_free(p[0].live[0], w.stream);
    ph_pool_checkpoint_destroy(checkpoint);
    ph_graph_destroy(graphs[0]);
    ph_graph_destroy(graphs[1]);
}

/* A restored block is a new allocation: what remembered the old one sees that. */
TEST(test_restore_changes_generations)
{
    ph_pool_checkpoint *checkpoint;
    ph_allocation before, after;
    assert_ok(ph_pool_begin(pool));
    void *p = allocate(1000);
    assert_ok(ph_pool_end(pool));
    assert_ok(ph_memory_lookup(&before, w.device, p));
    assert_ok(ph_pool_checkpoint_create(&checkpoint, pool));
    assert_ok(ph_pool_checkpoint_restore(pool, checkpoint));
    assert_ok(ph_memory_lookup(&after, w.device, p));
    assert_true(after.generation > before.generation);
    assert_int_equal(after.requested, 1000);
    ph_free(p, w.stream);
    ph_pool_checkpoint_destroy(checkpoint);
}

TEST(test_checkpoint_refusals)
{
    t_gate gate = {0};
    ph_stream *side;
    ph_pool *other;
    ph_pool_checkpoint *checkpoint, *none;
    assert_ok(ph_stream_create(&side, w.device, NULL));
    assert_ok(ph_pool_create(&other, w.device, NULL));
    assert_ok(ph_pool_begin(pool));
    void *p = allocate(1000), *q = allocate(1000);
    assert_ok(ph_pool_end(pool));
    assert_ok(ph_pool_checkpoint_create(&checkpoint, pool));
    assert_error(ph_pool_checkpoint_restore(other, checkpoint), PH_ERROR_ARGUMENT, "pool");
    assert_ok(t_gate_wait(&gate, side));
    ph_free(p, side);
    assert_error(ph_pool_checkpoint_restore(pool, checkpoint), PH_ERROR_STATE,
                 "wait for other streams");
    assert_error(ph_pool_checkpoint_create(&none, pool), PH_ERROR_STATE, "wait for other streams");
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(side));
    ph_free(q, w.stream);
    assert_ok(ph_pool_trim(pool));
    assert_error(ph_pool_checkpoint_restore(pool, checkpoint), PH_ERROR_STATE, "given back");
    ph_pool_checkpoint_destroy(checkpoint);
    ph_pool_release(other);
    ph_stream_destroy(side);
}

TEST(test_check_pool_live_allocations)
{
    bool equal;
    assert_ok(ph_pool_begin(pool));
    void *p = allocate(16);
    assert_ok(ph_pool_end(pool));
    void *pair[2] = {p, NULL}, *twice[2] = {p, p};
    assert_ok(ph_pool_check_live(&equal, pool, pair, 1));
    assert_true(equal);
    assert_ok(ph_pool_check_live(&equal, pool, twice, 2));
    assert_true(equal);
    assert_ok(ph_pool_check_live(&equal, pool, pair, 2));
    assert_false(equal);
    assert_ok(ph_pool_check_live(&equal, pool, NULL, 0));
    assert_false(equal);
    ph_free(p, w.stream);
    assert_ok(ph_pool_check_live(&equal, pool, NULL, 0));
    assert_true(equal);
}

/* ---- routing threads into the pool of a capture ---- */

typedef struct worker {
    pthread_t thread;
    bool routed;
    ph_status status;
} worker;

static ph_status three_blocks(size_t bytes)
{
    void *p[3] = {0};
    ph_status status = PH_OK;
    for (int i = 0; i < 3 && status == PH_OK; i++)
        status = ph_malloc(&p[i], 1, bytes, w.stream);
    for (int i = 0; i < 3; i++)
        ph_free(p[i], w.stream);
    return status;
}

static void *work(void *user)
{
    worker *job = user;
    ph_status status = job->routed ? ph_pool_begin(pool) : PH_OK;
    for (int i = 0; i < 10 && status == PH_OK; i++)
        status = three_blocks(20 * MIB);
    if (job->routed && status == PH_OK)
        status = ph_pool_end(pool);
    if (job->routed && status == PH_OK)
        status = three_blocks(20 * MIB);
    job->status = status;
    return NULL;
}

TEST(test_allocate_in_thread_to_pool)
{
    static const size_t one = 16;
    ph_graph *graph;
    ph_memory_stats stats;
    ph_capture_options options = {.pool = pool};
    plan p = {.sizes = &one, .count = 1};
    worker jobs[2] = {{.routed = true}, {.routed = false}};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.stream, &options, plan_body, &p));
    assert_ok(ph_pool_stats(&stats, pool));
    assert_int_equal(stats.segments, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
        assert_int_equal(jobs[i].status, PH_OK);
    }
    assert_ok(ph_pool_stats(&stats, pool));
    assert_int_equal(stats.segments, 4);
    assert_ok(ph_pool_trim(pool)); /* the graph uses it: nothing happens */
    assert_ok(ph_pool_stats(&stats, pool));
    assert_int_equal(stats.segments, 4);
    ph_graph_destroy(graph);
    assert_ok(ph_pool_trim(pool));
    assert_ok(ph_pool_stats(&stats, pool));
    assert_int_equal(stats.segments, 0);
}

/* ---- exact addresses ---- */

static void begin_in_pool(void)
{
    assert_ok(ph_pool_begin(pool));
}

static void end_in_pool(void)
{
    assert_ok(ph_pool_end(pool));
}

TEST(test_resize_storage_with_addr_exact_allocation)
{
    void *again;
    begin_in_pool();
    void *a = allocate(294), *b = allocate(4096);
    ph_free(a, w.stream);
    ph_free(b, w.stream);
    assert_ok(ph_malloc_at(&again, b, 4096, w.stream));
    assert_ptr_equal(again, b);
    void *c = allocate(294);
    assert_ptr_not_equal(c, b);
    end_in_pool();
    ph_free(again, w.stream);
    ph_free(c, w.stream);
}

TEST(test_resize_storage_with_addr_occupied_address_errors)
{
    void *p;
    begin_in_pool();
    void *a = allocate(4096);
    assert_error(ph_malloc_at(&p, a, 2048, w.stream), PH_ERROR_NOT_FOUND, "exact address");
    assert_null(p);
    end_in_pool();
    ph_free(a, w.stream);
}

TEST(test_resize_storage_with_addr_middle_of_block)
{
    void *p[3], *middle;
    static const size_t sizes[3] = {3729, 4017, 2738};
    begin_in_pool();
    for (int i = 0; i < 3; i++)
        p[i] = allocate(sizes[i]);
    for (int i = 0; i < 3; i++)
        ph_free(p[i], w.stream);
    assert_ok(ph_malloc_at(&middle, p[1], sizes[1], w.stream));
    assert_ptr_equal(middle, p[1]);
    /* Its neighbours are free, and end and begin at it. */
    void *first = allocate((size_t)((char *)p[1] - (char *)p[0]));
    assert_ptr_equal(first, p[0]);
    void *third = allocate(2738);
    assert_ptr_equal(third, p[2]);
    end_in_pool();
    ph_free(first, w.stream);
    ph_free(middle, w.stream);
    ph_free(third, w.stream);
}

TEST(test_resize_storage_with_addr_misaligned_address_errors)
{
    void *p;
    begin_in_pool();
    void *a = allocate(4096);
    ph_free(a, w.stream);
    assert_error(ph_malloc_at(&p, (char *)a + 1, 4096, w.stream), PH_ERROR_ARGUMENT,
                 "aligned to 512");
    assert_ok(ph_malloc_at(&p, NULL, 0, w.stream)); /* size 0 ignores the address */
    assert_null(p);
    end_in_pool();
}

TEST(test_resize_storage_with_multiple_blocks_in_the_middle)
{
    void *dummy[10], *target[10], *again[10];
    begin_in_pool();
    for (int i = 0; i < 10; i++) {
        dummy[i] = allocate(3729);
        target[i] = allocate(4017);
    }
    for (int i = 0; i < 10; i++) {
        ph_free(dummy[i], w.stream);
        ph_free(target[i], w.stream);
    }
    for (int i = 0; i < 10; i++)
        assert_ok(ph_malloc_at(&again[i], target[i], 4017, w.stream));
    end_in_pool();
    for (int i = 0; i < 10; i++)
        ph_free(again[i], w.stream);
}

TEST(test_resize_storage_with_coalesced_small_prefixes)
{
    void *prefix[800], *tail[4], *p, *q;
    static const size_t sizes[4] = {4017, 2738, 3897, 9124};
    ph_memory_stats stats;
    begin_in_pool();
    for (int i = 0; i < 800; i++)
        prefix[i] = allocate(3729);
    for (int i = 0; i < 4; i++)
        tail[i] = allocate(sizes[i]);
    for (int i = 0; i < 800; i++)
        ph_free(prefix[i], w.stream);
    for (int i = 0; i < 4; i++)
        ph_free(tail[i], w.stream);
    assert_ok(ph_malloc_at(&p, tail[0], sizes[0], w.stream));
    assert_ok(ph_malloc_at(&q, tail[2], sizes[2], w.stream));
    end_in_pool();
    assert_ok(ph_pool_stats(&stats, pool));
    assert_int_equal(stats.allocation[PH_MEMORY_SMALL].current, 2);
    assert_int_equal(stats.segment[PH_MEMORY_LARGE].current, 0);
    ph_free(p, w.stream);
    ph_free(q, w.stream);
}

/* Other streams' uses of live blocks. */
TEST(test_restore_and_recorded_streams)
{
    static t_gate gate;
    ph_stream *other;
    ph_pool_checkpoint *empty;
    assert_ok(ph_stream_create(&other, w.device, NULL));
    assert_ok(ph_pool_checkpoint_create(&empty, pool));
    assert_ok(ph_pool_begin(pool));
    int32_t *p = allocate(400);
    assert_ok(ph_pool_end(pool));
    atomic_store(&gate.open, 0);
    assert_ok(t_gate_wait_guarded(&gate, other));
    assert_ok(t_fill(&w, other, p, 100, 7));
    assert_ok(ph_record_stream(p, other));
    assert_error(ph_pool_checkpoint_restore(pool, empty), PH_ERROR_STATE, "other streams");
    ph_free(p, w.stream);
    ph_status status = ph_pool_checkpoint_restore(pool, empty);
    if (t_gate_held(&gate))
        assert_error(status, PH_ERROR_STATE, "other streams");
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(other));
    assert_ok(ph_pool_checkpoint_restore(pool, empty));
    ph_pool_checkpoint_destroy(empty);
    ph_stream_destroy(other);
}

static ph_status record_in_capture(ph_stream *stream, void *user)
{
    ph_stream *fork = *(ph_stream **)user;
    void *p;
    PH_TRY(ph_stream_wait_stream(fork, stream));
    PH_TRY(ph_malloc(&p, 1, 512, stream));
    PH_TRY(ph_memset(p, 0, 512, fork));
    PH_TRY(ph_record_stream(p, fork));
    PH_TRY(ph_stream_wait_stream(stream, fork));
    *(void **)user = p;
    return PH_OK;
}

/* Where there is no host memory for the restore, blocks keep what was recorded for them. The
 * layout has as many blocks as one lot of block records, and a segment more exists when it is to
 * come back. */
TEST(test_refused_restore_keeps_records)
{
    void *many[PH__SLAB_BLOCKS - 1], *user;
    ph_stream *fork;
    ph_graph *graph;
    ph_pool_checkpoint *full;
    const ph_capture_options options = {.pool = pool};
    assert_ok(ph_stream_create(&fork, w.device, NULL));
    assert_ok(ph_pool_begin(pool));
    for (size_t i = 0; i < PH__SLAB_BLOCKS - 1; i++)
        many[i] = allocate(512);
    assert_ok(ph_pool_checkpoint_create(&full, pool));
    for (size_t i = 0; i < PH__SLAB_BLOCKS - 1; i++)
        ph_free(many[i], w.stream);
    void *large = allocate(20 * MIB), *first = allocate(1024);
    assert_ok(ph_pool_end(pool));
    user = fork;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.stream, &options, record_in_capture, &user));
    /* a hole, so that a block takes another record when it is made again */
    ph_free(first, w.stream);
    assert_ok(ph_pool_begin(pool));
    first = allocate(512);
    assert_ok(ph_pool_end(pool));
    char *before = picture();
    ph__alloc_fail_after(2); /* the layout and what it grows by */
    ph_status status = ph_pool_checkpoint_restore(pool, full);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_int_equal(status, PH_ERROR_HOST_MEMORY);
    char *after = picture();
    assert_string_equal(before, after);
    free(before);
    free(after);
    ph_free(first, w.stream);
    ph_free(large, w.stream);
    ph_free(user, fork);
    ph_graph_destroy(graph);
    assert_ok(ph_pool_checkpoint_restore(pool, full));
    for (size_t i = 0; i < PH__SLAB_BLOCKS - 1; i++)
        ph_free(many[i], w.stream);
    ph_pool_checkpoint_destroy(full);
    ph_stream_destroy(fork);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(TestBlockStateAbsorption_test_simple, setup, teardown),
        cmocka_unit_test_setup_teardown(test_allocated_in_middle_of_segment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_multiple_middle_allocations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_middle_allocations_contiguous, setup, teardown),
        cmocka_unit_test_setup_teardown(test_additional_free_following_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restore_changes_generations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_checkpoint_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_check_pool_live_allocations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_allocate_in_thread_to_pool, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resize_storage_with_addr_exact_allocation, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_resize_storage_with_addr_occupied_address_errors,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_resize_storage_with_addr_middle_of_block, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_resize_storage_with_addr_misaligned_address_errors,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_resize_storage_with_multiple_blocks_in_the_middle,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_resize_storage_with_coalesced_small_prefixes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_restore_and_recorded_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_restore_keeps_records, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
