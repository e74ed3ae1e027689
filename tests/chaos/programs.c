/* SPDX-License-Identifier: MIT */
/* tests/chaos/programs.c: random stream programs give the same contents simulated, eager,
 * captured and replayed, in order and under chaos; a missing wait and a read of freed memory do
 * not stay hidden. */
#include "support/programs.h"
#include "support/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNS = 3
};

static void expect(t_bound *bound, const t_contents *contents, uint64_t seed, const char *how)
{
    if (!t_bound_equals(bound, contents))
        fail_msg("seed %llu: %s differs from the simulation", (unsigned long long)seed, how);
}

/* Runs the program eagerly and replayed, several times each without waiting in between, each
 * replay on another stream. */
static void run_everywhere(t_bound *bound, const t_contents *contents, uint64_t seed, bool chaos)
{
    ph_graph *graph;
    t_bound_start(bound);
    for (int run = 0; run < RUNS; run++)
        assert_ok(t_bound_submit(bound->streams[0], bound));
    expect(bound, contents, seed, chaos ? "the eager run under chaos" : "the eager run");
    assert_ok(ph_graph_create(&graph, NULL));
    t_bound_start(bound);
    assert_ok(ph_graph_capture(graph, bound->streams[0], NULL, t_bound_submit, bound));
    for (int run = 0; run < RUNS; run++)
        assert_ok(ph_graph_replay(graph, bound->streams[run % T_STREAMS]));
    expect(bound, contents, seed, chaos ? "the replay under chaos" : "the replay");
    /* Again from the start, in order on one stream. */
    t_bound_start(bound);
    for (int run = 0; run < RUNS; run++)
        assert_ok(ph_graph_replay(graph, bound->streams[0]));
    expect(bound, contents, seed, chaos ? "the later replay under chaos" : "the later replay");
    ph_graph_destroy(graph);
}

static void check_seed(uint64_t seed, size_t operations)
{
    static t_program program;
    static t_bound bound;
    t_contents contents;
    char name[64];
    t_program_make(&program, seed, operations, false);
    t_contents_make(&contents, &program, RUNS);
    t_bind(&bound, &program, NULL, false);
    run_everywhere(&bound, &contents, seed, false);
    t_unbind(&bound);
    if (!t_on_host()) {
        t_contents_free(&contents);
        return;
    }
    (void)snprintf(name, sizeof name, "host:threads=%d,chaos=%llu,poison=%d", 1 + (int)(seed % 3),
                   (unsigned long long)seed, (int)(seed % 2));
    t_bind(&bound, &program, name, false);
    run_everywhere(&bound, &contents, seed, true);
    t_unbind(&bound);
    t_contents_free(&contents);
}

static void seeds(uint64_t first, uint64_t last, size_t operations)
{
    t_hold_context();
    for (uint64_t seed = first; seed <= last; seed++)
        check_seed(seed, operations);
    if (!t_on_host())
        print_message("skipped: the runs in random orders, which are of the host device\n");
}

TEST(short_programs_agree)
{
    seeds(1, t_nightly() ? 2000 : 150, 25);
}

TEST(long_programs_agree)
{
    seeds(100001, t_nightly() ? 101000 : 100060, 70);
}

/* ---- counter-tests ---- */
/* The seeds, out of so many, under which a program that lacks one wait gives wrong contents. */
static int caught(uint64_t count, bool replayed)
{
    static t_program program;
    static t_bound bound;
    int found = 0;
    for (uint64_t seed = 1; seed <= count; seed++) {
        t_contents contents;
        char name[64];
        ph_graph *graph = NULL;
        t_program_make(&program, seed, 20, true);
        t_contents_make(&contents, &program, 1);
        if (t_program_drop_wait(&program, seed % 7)) {
            (void)snprintf(name, sizeof name, "host:threads=2,chaos=%llu",
                           (unsigned long long)seed);
            t_bind(&bound, &program, name, true);
            t_bound_start(&bound);
            if (replayed) {
                assert_ok(ph_graph_create(&graph, NULL));
                assert_ok(ph_graph_capture(graph, bound.streams[0], NULL, t_bound_submit, &bound));
                assert_ok(ph_graph_replay(graph, bound.streams[0]));
            } else {
                assert_ok(t_bound_submit(bound.streams[0], &bound));
            }
            found += !t_bound_equals(&bound, &contents);
            ph_graph_destroy(graph);
            t_unbind(&bound);
        }
        t_contents_free(&contents);
    }
    return found;
}

TEST(a_missing_wait_is_seen_eagerly)
{
    t_host_only("random orders are of the host device");
    int found = caught(200, false);
    print_message("a missing wait was visible under %d of 200 seeds\n", found);
    assert_true(found >= 5);
}

TEST(a_missing_wait_is_seen_in_replays)
{
    t_host_only("random orders are of the host device");
    int found = caught(200, true);
    print_message("a missing edge was visible under %d of 200 seeds\n", found);
    assert_true(found >= 5);
}

/* The smallest such program, on one device after another: a consumer that does not wait for its
 * producer. */
TEST(a_consumer_that_does_not_wait)
{
    enum {
        N = 256
    };
    static t_program program;
    static t_bound bound;
    int found = 0, right = 0;
    t_host_only("random orders are of the host device");
    memset(&program, 0, sizeof program);
    program.n = N;
    program.count = 2;
    program.steps[0] = (t_step){.kind = T_MIX, .stream = 1, .dst = 0, .src = 1, .value = 9};
    program.steps[1] = (t_step){.kind = T_MIX, .stream = 2, .dst = 2, .src = 0, .value = 1};
    t_contents contents;
    t_contents_make(&contents, &program, 1);
    for (int seed = 1; seed <= 200; seed++) {
        char name[64];
        (void)snprintf(name, sizeof name, "host:threads=2,chaos=%d", seed);
        t_bind(&bound, &program, name, true);
        t_bound_start(&bound);
        assert_ok(t_bound_submit(bound.streams[0], &bound));
        if (t_bound_equals(&bound, &contents))
            right++;
        else
            found++;
        t_unbind(&bound);
    }
    t_contents_free(&contents);
    print_message("wrong under %d, right under %d seeds\n", found, right);
    assert_true(found >= 10);
    assert_true(right >= 10); /* both orders are legal, and both occur */
}

/* ---- poison ---- */
static const ph_device_options poison = {.debug_poison = true};

TEST(freed_memory_reads_as_poison)
{
    enum {
        N = 1000
    };
    t_world world;
    int32_t *stale, *copy;
    t_open_with(&world, &poison);
    assert_ok(PH_NEW(&stale, N, world.stream));
    assert_ok(PH_NEW(&copy, N, world.stream));
    assert_ok(t_fill(&world, world.stream, stale, N, 5));
    assert_ok(t_add(&world, world.stream, stale, copy, N, 0));
    t_all(copy, N, 5, world.stream);
    ph_free(stale, NULL);
    assert_ok(t_add(&world, world.stream, stale, copy, N, 0));
    t_all(copy, N, (int32_t)0xDBDBDBDB, world.stream);
    ph_free(copy, NULL);
    t_close(&world);
}

/* A graph tracks its inputs but does not hold them: one that was freed shows in the replay. */
typedef struct stale_input {
    t_world world;
    int32_t *input, *output;
} stale_input;

static ph_status read_input(ph_stream *stream, void *user)
{
    stale_input *s = user;
    return t_add(&s->world, stream, s->input, s->output, 1000, 1);
}

TEST(a_freed_input_shows_in_the_replay)
{
    stale_input s;
    ph_graph *graph;
    t_open_with(&s.world, &poison);
    assert_ok(PH_NEW(&s.input, 1000, s.world.stream));
    assert_ok(PH_NEW(&s.output, 1000, s.world.stream));
    assert_ok(t_fill(&s.world, s.world.stream, s.input, 1000, 7));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.world.stream, NULL, read_input, &s));
    assert_ok(ph_graph_replay(graph, s.world.stream));
    t_all(s.output, 1000, 8, s.world.stream);
    ph_free(s.input, NULL);
    assert_ok(ph_graph_replay(graph, s.world.stream));
    t_all(s.output, 1000, (int32_t)0xDBDBDBDC, s.world.stream);
    ph_graph_destroy(graph);
    ph_free(s.output, NULL);
    t_close(&s.world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_programs_agree),
        cmocka_unit_test(long_programs_agree),
        cmocka_unit_test(a_missing_wait_is_seen_eagerly),
        cmocka_unit_test(a_missing_wait_is_seen_in_replays),
        cmocka_unit_test(a_consumer_that_does_not_wait),
        cmocka_unit_test(freed_memory_reads_as_poison),
        cmocka_unit_test(a_freed_input_shows_in_the_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
