/* SPDX-License-Identifier: MIT */
/* tests/inspect/verify_programs.c: ph_graph_verify on functions with several streams, memory of
 * their own, pinned memory, host functions, cells. */
#include "support/fixture.h"

#include <stdio.h>
#include <string.h>

enum {
    N = 3000
};
static t_world world;
static ph_graph *graph;
static ph_verify_result result;
static ph_stream *side;
static int32_t *x, *y;

static const t_fixture fixture = {.world = &world,
                                  .streams = {&side},
                                  .graphs = {&graph},
                                  .arrays = {{&x, N, T_INTS, 5}, {&y, N, T_INTS, 7}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    return 0;
}

FIXTURE(close_world)
{
    assert_ok(ph_device_synchronize(world.device));
    t_fixture_close(&fixture);
    return 0;
}

static void capture(ph_capture_fn body, void *user)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, user));
}

static void verify(ph_capture_fn body, void *user, const ph_verify_options *options)
{
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, user, options));
    if (t_nightly())
        (void)fprintf(stderr, "%s\n", result.message);
    t_all(x, N, 5, world.stream);
    t_all(y, N, 7, world.stream);
}

static void expect(ph_verify_verdict verdict, const char *part)
{
    if (result.verdict != verdict || !strstr(result.message, part))
        fail_msg("verdict %d, node %zu: %s", (int)result.verdict, result.node, result.message);
}

/* ---- several streams, temporaries that are freed and come again ---- */
static ph_status forked(ph_stream *stream, void *user)
{
    int32_t *here = NULL, *there = NULL, *again = NULL;
    (void)user;
    PH_TRY(PH_NEW(&here, N, stream));
    PH_TRY(t_add(&world, stream, x, here, N, 1));
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_record_stream(here, side));
    PH_TRY(PH_NEW(&there, N, side));
    PH_TRY(t_add(&world, side, here, there, N, 10));
    PH_TRY(t_add(&world, side, there, there, N, 10));
    ph_free(here, stream);
    PH_TRY(PH_NEW(&again, N, stream));
    PH_TRY(t_add(&world, stream, x, again, N, 100));
    PH_TRY(ph_stream_wait_stream(stream, side));
    PH_TRY(ph_record_stream(there, stream));
    PH_TRY(t_add(&world, stream, there, y, N, 1000));
    ph_free(there, stream);
    ph_free(again, stream);
    for (int i = 0; i < 20; i++) {
        PH_TRY(PH_NEW(&here, N + 100 * (size_t)(i % 3), stream));
        PH_TRY(t_add(&world, stream, y, here, N, i));
        PH_TRY(t_add(&world, stream, here, y, N, -1));
        ph_free(here, stream);
    }
    return PH_OK;
}

TEST(test_streams_and_temporaries)
{
    capture(forked, NULL);
    verify(forked, NULL, NULL);
    expect(PH_VERIFY_EQUAL, "");
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 5 + 1 + 10 + 10 + 1000 + 190 - 20, world.stream);
    assert_ok(t_fill(&world, world.stream, y, N, 7));
    /* On another stream than the capture's. */
    ph_stream *other;
    assert_ok(ph_stream_create(&other, world.device, NULL));
    assert_ok(ph_graph_verify(&result, graph, other, forked, NULL, NULL));
    expect(PH_VERIFY_EQUAL, "");
    ph_stream_destroy(other);
}

/* ---- an output that the function replaces each time ---- */
static ph_status replacing(ph_stream *stream, void *user)
{
    int32_t **out = user;
    ph_free(*out, stream);
    PH_TRY(PH_NEW(out, N, stream));
    return t_add(&world, stream, x, *out, N, 3);
}

TEST(test_a_replaced_output)
{
    int32_t *out = NULL;
    ph_allocation before, after;
    capture(replacing, &out);
    int32_t *captured = out;
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_memory_lookup(&before, world.device, out));
    verify(replacing, &out, NULL);
    expect(PH_VERIFY_EQUAL, "");
    assert_ptr_equal(out, captured);
    assert_ok(ph_memory_lookup(&after, world.device, out));
    assert_int_equal(after.generation, before.generation);
    t_all(out, N, 8, world.stream);
    ph_free(out, world.stream);
    assert_status(ph_memory_lookup(&after, world.device, captured), PH_ERROR_NOT_FOUND);
}

/* Freed by its user since: what the function leaves now is an allocation again. */
TEST(test_an_output_that_was_freed)
{
    int32_t *out = NULL;
    ph_allocation after;
    capture(replacing, &out);
    int32_t *captured = out;
    ph_free(out, world.stream);
    out = NULL;
    verify(replacing, &out, NULL);
    expect(PH_VERIFY_EQUAL, "");
    assert_ptr_equal(out, captured);
    assert_ok(ph_memory_lookup(&after, world.device, out));
    assert_ptr_equal(after.base, captured);
    ph_free(out, world.stream);
    assert_status(ph_memory_lookup(&after, world.device, captured), PH_ERROR_NOT_FOUND);
}

/* One that the function frees, and does not ask for again, goes when the call is done. */
static ph_status dropping(ph_stream *stream, void *user)
{
    int32_t **out = user, *made = NULL;
    ph_free(*out, stream);
    *out = NULL;
    PH_TRY(PH_NEW(&made, N, stream));
    PH_TRY(t_add(&world, stream, x, made, N, 3));
    PH_TRY(t_add(&world, stream, made, y, N, 3));
    if (ph_stream_is_capturing(stream) && !*(&out[1]))
        *out = made;
    else
        ph_free(made, stream);
    return PH_OK;
}

TEST(test_a_dropped_output)
{
    int32_t *out[2] = {NULL, NULL};
    ph_allocation after;
    capture(dropping, out);
    int32_t *captured = out[0];
    out[1] = x; /* from now on it frees what it makes */
    verify(dropping, out, NULL);
    expect(PH_VERIFY_EQUAL, "");
    assert_null(out[0]);
    assert_status(ph_memory_lookup(&after, world.device, captured), PH_ERROR_NOT_FOUND);
}

/* ---- a buffer that is made once ---- the eager run does not ask for it, and everything else is
 * where it was */
static ph_status lazy(ph_stream *stream, void *user)
{
    int32_t **kept = user, *made = NULL;
    if (*kept == NULL)
        PH_TRY(PH_NEW(kept, N, stream));
    PH_TRY(PH_NEW(&made, N, stream));
    PH_TRY(t_add(&world, stream, x, *kept, N, 3));
    PH_TRY(t_add(&world, stream, *kept, made, N, 3));
    PH_TRY(t_add(&world, stream, made, y, N, 3));
    ph_free(made, stream);
    return PH_OK;
}

TEST(test_a_lazy_buffer)
{
    int32_t *kept = NULL;
    capture(lazy, &kept);
    verify(lazy, &kept, NULL);
    expect(PH_VERIFY_EQUAL, "");
    ph_free(kept, world.stream);
}

/* ---- pinned memory and host functions ---- */
typedef struct staged {
    int32_t *out; /* pinned, of the user's */
    int calls;
} staged;

static void count_call(void *user)
{
    staged *s = user;
    s->calls++;
}

static ph_status staging(ph_stream *stream, void *user)
{
    staged *s = user;
    int32_t *from = NULL, *made = NULL;
    PH_TRY(ph_malloc_pinned(&from, N, sizeof *from, stream));
    for (int i = 0; i < N; i++)
        from[i] = 2 * i;
    PH_TRY(PH_NEW(&made, N, stream));
    PH_TRY(ph_memcpy(made, from, N * sizeof *made, stream));
    PH_TRY(t_add(&world, stream, made, made, N, 1));
    PH_TRY(ph_memcpy(s->out, made, N * sizeof *made, stream));
    PH_TRY(ph_launch_host(stream, count_call, s));
    PH_TRY(t_add(&world, stream, made, y, N, 1));
    ph_free_pinned(from, stream);
    ph_free(made, stream);
    return PH_OK;
}

TEST(test_pinned_memory_and_host_functions)
{
    staged s = {NULL, 0};
    assert_ok(ph_malloc_pinned(&s.out, N, sizeof *s.out, world.stream));
    memset(s.out, 0, N * sizeof *s.out);
    capture(staging, &s);
    verify(staging, &s, NULL);
    expect(PH_VERIFY_EQUAL, "");
    assert_int_equal(s.calls, 3); /* eager, and two replays */
    for (int i = 0; i < N; i++)
        assert_int_equal(s.out[i], 0);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    for (int i = 0; i < N; i++)
        assert_int_equal(s.out[i], 2 * i + 1);
    assert_int_equal(s.calls, 4);
    ph_free_pinned(s.out, world.stream);
}

/* Taken out while prefixes run, and there again afterwards. */
static ph_status called(ph_stream *stream, void *user)
{
    staged *s = user;
    PH_TRY(t_add(&world, stream, x, y, N, 1));
    PH_TRY(ph_launch_host(stream, count_call, s));
    return t_add(&world, stream, y, y, N, (int32_t)(intptr_t)s->out);
}

TEST(test_host_functions_are_put_back)
{
    staged s = {NULL, 0};
    capture(called, &s);
    s.out = (int32_t *)(intptr_t)1;
    verify(called, &s, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, "node 2 (add_i32)");
    s.calls = 0;
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(s.calls, 1);
}

/* ---- cells ---- each run takes a value of its own */
static uint64_t drawn;

static ph_status draw(uint64_t *values, void *user)
{
    (void)user;
    values[0] = drawn++;
    return PH_OK;
}

static ph_status drawing(ph_stream *stream, void *user)
{
    const ph_cells_source source = {.count = 1, .values = draw};
    uint64_t *cell = NULL;
    (void)user;
    if (!ph_stream_is_capturing(stream))
        return t_add(&world, stream, x, y, 1, (int32_t)drawn++ - 5);
    PH_TRY(ph_cells_create(&cell, stream, &source));
    return ph_memcpy(y, cell, sizeof *y, stream);
}

static ph_status start_again(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    drawn = 1234;
    return PH_OK;
}

TEST(cells_verify_as_equal_with_a_prepare_function)
{
    drawn = 10;
    capture(drawing, NULL);
    verify(drawing, NULL, NULL);
    if (result.verdict == PH_VERIFY_EQUAL)
        fail_msg("%s", result.message);
    assert_non_null(strstr(result.message,
                           "runs start from the same ones only with ph_verify_options.prepare"));
    verify(drawing, NULL, &(ph_verify_options){.prepare = start_again});
    expect(PH_VERIFY_EQUAL, "");
}

/* ---- launches ---- prepare is called before each. */
enum {
    CHAIN = 200
};
static size_t launches;

static ph_status count_launch(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    launches++;
    return PH_OK;
}

/* Reads what nothing has written; user: on two streams by turns. */
static ph_status long_chain(ph_stream *stream, void *user)
{
    int32_t *made = NULL, *fresh = NULL;
    PH_TRY(PH_NEW(&made, N, stream));
    PH_TRY(PH_NEW(&fresh, N, stream));
    PH_TRY(t_fill(&world, stream, made, N, 1));
    for (int i = 0; i < CHAIN; i++)
        PH_TRY(t_add(&world, stream, i == CHAIN - 3 ? fresh : made, made, N, 1));
    if (user) {
        PH_TRY(ph_stream_wait_stream(side, stream));
        PH_TRY(ph_record_stream(made, side));
        PH_TRY(t_add(&world, side, x, fresh, 10, 1));
        PH_TRY(t_add(&world, stream, x, made, 10, 1));
        PH_TRY(t_add(&world, side, x, fresh, 10, 1));
        PH_TRY(ph_stream_wait_stream(stream, side));
    }
    PH_TRY(t_add(&world, stream, made, y, N, 1));
    ph_free(fresh, stream);
    ph_free(made, stream);
    return PH_OK;
}

/* The search for the node takes as many launches as it has steps, not as the graph has nodes: a
 * chain is one. */
TEST(test_a_long_chain)
{
    static bool forks = true;
    for (int i = 0; i < 2; i++) {
        ph_capture_fn body = long_chain;
        void *user = i ? &forks : NULL;
        launches = 0;
        capture(body, user);
        verify(body, user, &(ph_verify_options){.prepare = count_launch});
        expect(PH_VERIFY_POISON, "reads memory of the capture that nothing has written before");
        assert_int_equal(result.node, CHAIN - 2);
        assert_in_range(launches, 10, 40);
        assert_ok(ph_graph_reset(graph));
    }
}

/* ---- graphs that share a pool ---- one reads what the other has left, whose allocation stays
 * the one that it is */
static ph_status reading(ph_stream *stream, void *user)
{
    int32_t *const *from = user, *made = NULL;
    PH_TRY(PH_NEW(&made, N, stream));
    PH_TRY(t_add(&world, stream, *from, made, N, 3));
    PH_TRY(t_add(&world, stream, made, y, N, 3));
    ph_free(made, stream);
    return PH_OK;
}

TEST(test_a_shared_pool)
{
    ph_graph *reader;
    ph_pool *pool;
    int32_t *out = NULL;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    const ph_capture_options options = {.pool = pool, .check_input_liveness = true};
    assert_ok(ph_graph_create(&reader, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &options, replacing, &out));
    assert_ok(ph_graph_capture(reader, world.stream, &options, reading, &out));
    assert_ok(ph_graph_replay(graph, world.stream));
    verify(replacing, &out, NULL);
    expect(PH_VERIFY_EQUAL, "");
    t_all(out, N, 8, world.stream);
    assert_ok(ph_graph_verify(&result, reader, world.stream, reading, &out, NULL));
    expect(PH_VERIFY_EQUAL, "");
    assert_ok(ph_graph_replay(reader, world.stream));
    t_all(y, N, 14, world.stream);
    t_all(out, N, 8, world.stream);
    assert_ok(ph_graph_check_output(graph, out, ph_graph_epoch(graph)));
    ph_graph_destroy(reader);
    ph_free(out, world.stream);
    ph_pool_release(pool);
}

static int32_t more;

static ph_status adding(ph_stream *stream, void *user)
{
    int32_t *made = NULL;
    (void)user;
    PH_TRY(PH_NEW(&made, N, stream));
    PH_TRY(t_add(&world, stream, x, made, N, more));
    PH_TRY(t_add(&world, stream, made, y, N, 3));
    ph_free(made, stream);
    return PH_OK;
}

/* ---- other threads ---- go on with memory and streams of their own */
static atomic_bool stop;

static void *busy(void *stream)
{
    while (!atomic_load(&stop)) {
        int32_t *made = NULL, *pinned = NULL;
        if (PH_NEW(&made, N, stream) != PH_OK ||
            ph_malloc_pinned(&pinned, N, sizeof *pinned, stream) != PH_OK ||
            t_fill(&world, stream, made, N, 3) != PH_OK)
            return stream;
        ph_free_pinned(pinned, stream);
        ph_free(made, stream);
    }
    return NULL;
}

TEST(test_beside_other_threads)
{
    pthread_t thread;
    void *failed = NULL;
    more = 1;
    capture(adding, NULL);
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, busy, side), 0);
    for (int i = 0; i < 5; i++) {
        more = i % 2 + 1;
        verify(adding, NULL, NULL);
        expect(i % 2 ? PH_VERIFY_NODE_DIFFERS : PH_VERIFY_EQUAL, "");
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

/* ---- executables that were changed ---- */
TEST(test_an_update)
{
    ph_graph *from;
    more = 1;
    capture(adding, NULL);
    more = 2;
    assert_ok(ph_graph_create(&from, NULL));
    assert_ok(ph_graph_capture(from, world.stream, NULL, adding, NULL));
    verify(adding, NULL, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, "node 0 (add_i32)");
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_graph_destroy(from);
    verify(adding, NULL, NULL);
    expect(PH_VERIFY_EQUAL, "");
    more = 1;
    verify(adding, NULL, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, "may have other parameters than were captured");
}

static ph_status copying(ph_stream *stream, void *user)
{
    int32_t *const *to = user;
    return t_add(&world, stream, x, *to, N, 3);
}

TEST(test_a_slot)
{
    size_t slot;
    int32_t *to = y, *other;
    assert_ok(PH_NEW(&other, N, world.stream));
    assert_ok(t_fill(&world, world.stream, other, N, 11));
    capture(copying, &to);
    assert_ok(ph_graph_slot_find(&slot, graph, "y", y, N * sizeof *y, NULL));
    assert_ok(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, other}, 1));
    t_all(other, N, 8, world.stream);
    assert_ok(t_fill(&world, world.stream, other, N, 11));
    verify(copying, &to, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, "may have other parameters than were captured");
    t_all(other, N, 11, world.stream);
    to = other;
    verify(copying, &to, NULL);
    expect(PH_VERIFY_EQUAL, "");
    t_all(other, N, 11, world.stream);
    ph_free(other, world.stream);
}

/* ---- nodes that watch ---- breadcrumbs and checks, on or off, are no part of what is compared */
static ph_status watched(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_annotation_push(stream, "sum", &(ph_annotation_options){0}));
    PH_TRY(adding(stream, NULL));
    PH_TRY(ph_annotation_pop(stream));
    return ph_stream_is_capturing(stream) ? ph_finite_check(stream, y, PH_NUMBER_F32, N, "y")
                                          : PH_OK;
}

TEST(test_nodes_that_watch)
{
    const ph_capture_options options = {.enable_annotations = true, .breadcrumbs = true};
    ph_progress progress;
    more = 1;
    assert_ok(ph_graph_capture(graph, world.stream, &options, watched, NULL));
    for (int on = 0; on < 2; on++) {
        assert_ok(ph_graph_breadcrumbs_enable(graph, on));
        assert_ok(ph_finite_enable(graph, on));
        more = 1;
        verify(watched, NULL, NULL);
        expect(PH_VERIFY_EQUAL, "");
        more = 5;
        verify(watched, NULL, NULL);
        expect(PH_VERIFY_NODE_DIFFERS, "{name: sum}");
    }
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_where(&progress, graph));
    assert_true(progress.complete);
}

/* ---- a dependency that is missing ---- the function waits on the host, where a capture sees
 * nothing */
static ph_status unordered(ph_stream *stream, void *user)
{
    bool capturing = ph_stream_is_capturing(stream);
    int *fixed = user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    for (int i = 0; i < 8; i++)
        PH_TRY(t_add(&world, side, y, y, N, 1));
    if (*fixed)
        PH_TRY(ph_stream_wait_stream(stream, side));
    else if (!capturing)
        PH_TRY(ph_stream_synchronize(side));
    PH_TRY(t_add(&world, stream, y, x, N, 1));
    return ph_stream_wait_stream(stream, side);
}

TEST(test_a_missing_dependency)
{
    int fixed = 0;
    close_world(state);
    t_open(&world, "host:threads=2,chaos=7");
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 5));
    assert_ok(t_fill(&world, world.stream, y, N, 7));
    assert_ok(ph_graph_create(&graph, NULL));
    capture(unordered, &fixed);
    verify(unordered, &fixed, NULL);
    expect(PH_VERIFY_RACE, "which of the two is first decides the result");
    assert_true(result.node == 8);
    assert_ok(ph_graph_reset(graph));
    fixed = 1;
    capture(unordered, &fixed);
    verify(unordered, &fixed, NULL);
    expect(PH_VERIFY_EQUAL, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_streams_and_temporaries),
        IN_WORLD(test_a_replaced_output),
        IN_WORLD(test_an_output_that_was_freed),
        IN_WORLD(test_a_dropped_output),
        IN_WORLD(test_a_lazy_buffer),
        IN_WORLD(test_pinned_memory_and_host_functions),
        IN_WORLD(test_host_functions_are_put_back),
        IN_WORLD(cells_verify_as_equal_with_a_prepare_function),
        IN_WORLD(test_a_long_chain),
        IN_WORLD(test_a_shared_pool),
        IN_WORLD(test_beside_other_threads),
        IN_WORLD(test_an_update),
        IN_WORLD(test_a_slot),
        IN_WORLD(test_nodes_that_watch),
        IN_WORLD(test_a_missing_dependency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
