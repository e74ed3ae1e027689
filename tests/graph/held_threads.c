/* SPDX-License-Identifier: MIT */
/* tests/graph/held_threads.c: memory that one thread allocates and frees while another one
 * captures, and that nodes address: it is nobody else's afterwards, or the capture fails. */
#include "support/fixture.h"

#include <pthread.h>
#include <semaphore.h>

enum {
    N = 1000
};
static t_world world;
static ph_stream *side;

WORLD(world, .streams = {&side}, .leaves_nothing = true);

/* ---- the other thread ---- */
typedef ph_status step_fn(void);
static int32_t *first, *second, *both;

typedef struct other {
    step_fn *before, *after;
    sem_t half, rest;
    ph_status status;
    pthread_t thread;
} other;

static void *run_other(void *user)
{
    other *o = user;
    o->status = o->before();
    sem_post(&o->half);
    sem_wait(&o->rest);
    if (o->status == PH_OK && o->after)
        o->status = o->after();
    return NULL;
}

/* A thread that the library has not seen: it does the one, and the other when it is told to. */
static void begin_other(other *o, step_fn *before, step_fn *after)
{
    *o = (other){.before = before, .after = after};
    assert_int_equal(sem_init(&o->half, 0, 0), 0);
    assert_int_equal(sem_init(&o->rest, 0, 0), 0);
    assert_int_equal(pthread_create(&o->thread, NULL, run_other, o), 0);
    while (sem_wait(&o->half) != 0) {
    }
    assert_int_equal(o->status, PH_OK);
}

static void end_other(other *o)
{
    sem_post(&o->rest);
    assert_int_equal(pthread_join(o->thread, NULL), 0);
    assert_int_equal(o->status, PH_OK);
    sem_destroy(&o->half);
    sem_destroy(&o->rest);
}

static void elsewhere(step_fn *fn)
{
    other o;
    begin_other(&o, fn, NULL);
    end_other(&o);
}

static ph_status take_first(void)
{
    return PH_NEW(&first, N, side);
}

static ph_status give_first(void)
{
    ph_free(first, side);
    return PH_OK;
}

static ph_status take_fill_give(void)
{
    PH_TRY(take_first());
    PH_TRY(t_fill(&world, world.stream, first, N, 5));
    return give_first();
}

static ph_graph *begin(void)
{
    ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    return graph;
}

static void stays(int32_t *p, size_t count, int32_t value, ph_graph *graph)
{
    assert_ok(t_fill(&world, side, p, count, value));
    assert_ok(ph_stream_synchronize(side));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    t_all(p, count, value, world.stream);
}

/* ---- the thread that captures takes what another one has freed ---- */
TEST(test_nodes_of_a_thread_that_only_launches)
{
    int32_t *weight;
    ph_graph *graph = begin();
    elsewhere(take_fill_give);
    assert_ok(PH_NEW(&weight, N, side));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    stays(weight, N, 7, graph);
    ph_graph_destroy(graph);
    ph_free(weight, side);
}

TEST(test_memory_lent_to_the_capture)
{
    int32_t *weight;
    ph_graph *graph = begin();
    other o;
    begin_other(&o, take_first, give_first);
    assert_ok(t_fill(&world, world.stream, first, N, 5));
    end_other(&o);
    assert_ok(PH_NEW(&weight, N, side));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    stays(weight, N, 7, graph);
    ph_graph_destroy(graph);
    ph_free(weight, side);
}

/* ---- somebody is given a larger block around it ---- */
static ph_status give_both_take_one(void)
{
    ph_free(second, side);
    ph_free(first, side);
    return PH_NEW(&both, 2 * N, side);
}

static ph_status take_second(void)
{
    return PH_NEW(&second, N, side);
}

TEST(test_a_larger_block_around_it)
{
    assert_ok(take_first());
    ph_graph *graph = begin();
    other o;
    begin_other(&o, take_second, give_both_take_one);
    assert_in_range((char *)second - (char *)first, 1, 2 * N * sizeof *first);
    assert_ok(t_fill(&world, world.stream, second, N, 5));
    end_other(&o);
    assert_ptr_equal(both, first);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, "given to somebody else");
    ph_graph_destroy(graph);
    ph_free(both, side);
}

/* ---- what it had there before was smaller ---- */
enum {
    SMALL = 128,
    INSIDE = 1024 /* where that was, in elements */
};

static ph_status take_small_then_both(void)
{
    int32_t *small;
    PH_TRY(take_first());
    PH_TRY(PH_NEW(&small, SMALL, side));
    assert_ptr_equal(small, first + INSIDE);
    ph_free(small, side);
    ph_free(first, side);
    return PH_NEW(&both, 2 * N, side);
}

static ph_status give_both(void)
{
    ph_free(both, side);
    return PH_OK;
}

TEST(test_a_smaller_block_inside_it)
{
    int32_t *weight[4];
    ph_graph *graph = begin();
    other o;
    begin_other(&o, take_small_then_both, give_both);
    assert_ptr_equal(both, first);
    assert_ok(t_fill(&world, world.stream, both + INSIDE, 2 * N - INSIDE, 5));
    end_other(&o);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    for (int i = 0; i < 4; i++)
        assert_ok(PH_NEW(&weight[i], N, side));
    for (int i = 0; i < 4; i++)
        stays(weight[i], N, 7, graph);
    ph_graph_destroy(graph);
    for (int i = 0; i < 4; i++)
        ph_free(weight[i], side);
}

/* ---- another capture's own, which uses it again ---- */
static ph_graph *beside;

static ph_status begin_beside(void)
{
    ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    PH_TRY(ph_graph_create(&beside, NULL));
    PH_TRY(ph_graph_capture_begin(beside, side, &options));
    PH_TRY(PH_NEW(&first, N, side));
    return t_fill(&world, side, first, N, 2);
}

static ph_status end_beside(void)
{
    ph_free(first, side);
    PH_TRY(PH_NEW(&second, N, side));
    PH_TRY(t_fill(&world, side, second, N, 9));
    ph_free(second, side);
    return ph_graph_capture_end(beside, PH_OK);
}

TEST(test_memory_of_another_capture)
{
    ph_graph *graph = begin();
    other o;
    begin_other(&o, begin_beside, end_beside);
    assert_ok(t_fill(&world, world.stream, first, N, 5));
    end_other(&o);
    assert_ptr_equal(second, first);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, "in another capture");
    ph_graph_destroy(graph);
    assert_ok(ph_graph_replay(beside, side));
    ph_graph_destroy(beside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_nodes_of_a_thread_that_only_launches),
        IN_WORLD(test_memory_lent_to_the_capture),
        IN_WORLD(test_a_larger_block_around_it),
        IN_WORLD(test_a_smaller_block_inside_it),
        IN_WORLD(test_memory_of_another_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
