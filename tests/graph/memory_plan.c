/* SPDX-License-Identifier: MIT */
/* tests/graph/memory_plan.c: planned captures: their bits, their size, and which blocks share
 * memory, against a model of the order of the work. */
#include "base/rng.h"
#include "support/fixture.h"
#include "support/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BLOCKS = 96,
    MOST_WORK = 400,
    MOST_STEPS = 800,
    RESULTS = 12,
    WIDTH = 64, /* elements of a result */
    STREAMS = 4
};

static t_world world;
static ph_stream *side, *third, *fourth;
static int32_t *results;

static const t_fixture fixture = {.world = &world,
                                  .streams = {&side, &third, &fourth},
                                  .arrays = {{&results, (size_t)RESULTS *WIDTH, T_INTS, 0}},
                                  .log = true};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

/* ---- programs of allocations, frees and work on streams, and what is ordered in them ---- */
typedef enum kind {
    ALLOCATE,
    WORK, /* block = block `from` + value, or is filled where from < 0 */
    RESULT,
    FREE,
    JOIN /* stream waits for the stream `from` */
} kind;

typedef struct step {
    kind kind;
    int stream, block, from, value;
} step;

typedef struct program {
    step steps[MOST_STEPS];
    size_t count;
    size_t sizes[MOST_BLOCKS];
    int blocks, works, outcomes, streams;
    int home[MOST_BLOCKS], writer[MOST_BLOCKS];
    bool live[MOST_BLOCKS];
    bool users[MOST_BLOCKS][MOST_WORK];
    bool before[MOST_WORK][MOST_WORK]; /* [b][a]: a comes before b */
    bool seen[STREAMS][MOST_WORK];     /* what the stream's next work comes behind */
    /* of a run */
    int32_t *at[MOST_BLOCKS];
    int runs;
    int odd_run;  /* asks for something else in this run; 0: never */
    int odd_step; /* at this step */
    int late_run; /* frees everything at its end alone; 0: never */
} program;

static void add_step(program *p, step one)
{
    assert_true(p->count < MOST_STEPS);
    p->steps[p->count++] = one;
}

static void add_work(program *p, int stream, int block, int from, int value)
{
    int work = p->works++;
    assert_true(work < MOST_WORK);
    memcpy(p->before[work], p->seen[stream], sizeof p->before[work]);
    p->seen[stream][work] = true;
    p->users[block][work] = true;
    p->writer[block] = work;
    if (from >= 0)
        p->users[from][work] = true;
    add_step(p, (step){WORK, stream, block, from, value});
}

static void add_result(program *p, int block)
{
    int work = p->works++;
    assert_true(work < MOST_WORK && p->outcomes < RESULTS);
    memcpy(p->before[work], p->seen[0], sizeof p->before[work]);
    p->seen[0][work] = p->users[block][work] = true;
    add_step(p, (step){RESULT, 0, block, p->outcomes++, 0});
}

static void add_join(program *p, int stream, int other)
{
    for (int i = 0; i < p->works; i++)
        p->seen[stream][i] = p->seen[stream][i] || p->seen[other][i];
    add_step(p, (step){JOIN, stream, 0, other, 0});
}

/* One that lives and whose contents the stream may read; -1: none. */
static int readable(const program *p, ph__rng *rng, int stream)
{
    for (int tries = 0; tries < 8 && p->blocks > 0; tries++) {
        int block = (int)(ph__rng_next(rng) % (uint64_t)p->blocks);
        if (p->live[block] && p->seen[stream][p->writer[block]])
            return block;
    }
    return -1;
}

static int add_block(program *p, ph__rng *rng, int stream, size_t bytes)
{
    int from = readable(p, rng, stream), block = p->blocks++;
    assert_true(block < MOST_BLOCKS);
    p->sizes[block] = bytes;
    p->home[block] = stream;
    p->live[block] = true;
    add_step(p, (step){ALLOCATE, stream, block, 0, 0});
    add_work(p, stream, block, from, (int)(ph__rng_next(rng) % 1000));
    return block;
}

static void add_free(program *p, int block, int stream)
{
    p->live[block] = false;
    add_step(p, (step){FREE, stream, block, 0, 0});
}

/* keeps: some blocks are left. */
static void make_random(program *p, uint64_t seed, int streams, bool keeps)
{
    ph__rng rng = {seed};
    *p = (program){.streams = streams};
    for (int i = 1; i < streams; i++)
        add_join(p, i, 0);
    while (p->blocks < 72) {
        int stream = (int)(ph__rng_next(&rng) % (uint64_t)streams);
        uint64_t what = ph__rng_next(&rng) % 100;
        int one = readable(p, &rng, stream);
        if (what < 45 || one < 0)
            add_block(p, &rng, stream, WIDTH * 4 + ph__rng_next(&rng) % 40000);
        else if (what < 88)
            add_free(p, one, ph__rng_next(&rng) % 2 ? p->home[one] : stream);
        else if (what < 92 && p->outcomes < RESULTS - 2 && stream == 0)
            add_result(p, one);
        else if (streams > 1)
            add_join(p, stream, (stream + 1 + (int)(what % (uint64_t)(streams - 1))) % streams);
    }
    for (int i = 1; i < streams; i++)
        add_join(p, 0, i);
    for (int i = 0; i < p->blocks; i++)
        if (p->live[i] && p->outcomes < RESULTS)
            add_result(p, i);
    for (int i = 0; i < p->blocks; i++)
        if (p->live[i] && !(keeps && i % 3 == 0))
            add_free(p, i, 0);
}

/* The blocks of a training step of so many layers: activations that live from the forward to their
 * backward, workspaces that live shortly, gradients that stay. */
static void make_training(program *p, int layers, size_t width, bool keeps)
{
    ph__rng rng = {(uint64_t)layers * width};
    int saved[MOST_BLOCKS], count = 0;
    *p = (program){.streams = 1};
    for (int i = 0; i < layers; i++) {
        saved[count++] = add_block(p, &rng, 0, width * 4);
        int work = add_block(p, &rng, 0, width * 12);
        saved[count++] = add_block(p, &rng, 0, width * 16);
        add_free(p, work, 0);
    }
    int flowing = add_block(p, &rng, 0, width * 4);
    for (int i = count; i-- > 0;) {
        int next = add_block(p, &rng, 0, width * (i % 2 ? 16 : 4));
        int gradient = add_block(p, &rng, 0, width * 2);
        add_free(p, flowing, 0);
        add_free(p, saved[i], 0);
        flowing = next;
        if (p->outcomes < RESULTS - 1)
            add_result(p, gradient);
        if (!keeps)
            add_free(p, gradient, 0);
    }
    add_result(p, flowing);
    add_free(p, flowing, 0);
}

/* ---- running them ---- */
static size_t least(const program *p, int a, int b)
{
    size_t size = p->sizes[a] < p->sizes[b] ? p->sizes[a] : p->sizes[b];
    return size / 4;
}

static void release_left(program *p)
{
    for (int i = 0; i < MOST_BLOCKS; i++) {
        ph_free(p->at[i], NULL);
        p->at[i] = NULL;
    }
}

static ph_status do_work(const program *p, const step *s, ph_stream *stream)
{
    size_t count = p->sizes[s->block] / 4;
    if (s->kind == RESULT && p->home[s->block] != s->stream)
        PH_TRY(ph_record_stream(p->at[s->block], stream));
    if (s->kind == RESULT)
        return t_add(&world, stream, p->at[s->block], results + (size_t)s->from * WIDTH, WIDTH, 1);
    PH_TRY(t_fill(&world, stream, p->at[s->block], count, s->value));
    if (s->from < 0)
        return PH_OK;
    if (p->home[s->from] != s->stream)
        PH_TRY(ph_record_stream(p->at[s->from], stream));
    return t_add(&world, stream, p->at[s->from], p->at[s->block], least(p, s->block, s->from),
                 s->value);
}

static ph_status do_step(program *p, const step *s, ph_stream *const *streams, bool odd, bool late)
{
    ph_stream *stream = streams[s->stream];
    switch (s->kind) {
    case ALLOCATE:
        return ph_malloc(&p->at[s->block], 1, p->sizes[s->block] + (odd ? 4096 : 0), stream);
    case WORK:
    case RESULT:
        return do_work(p, s, stream);
    case FREE:
        if (late)
            return PH_OK;
        ph_free(p->at[s->block], stream);
        p->at[s->block] = NULL;
        return PH_OK;
    case JOIN:
        return ph_stream_wait_stream(stream, streams[s->from]);
    }
    return PH_ERROR_ARGUMENT;
}

static int32_t *addresses[MOST_BLOCKS]; /* of the last run */

static ph_status run(ph_stream *stream, void *user)
{
    program *p = user;
    ph_stream *const streams[STREAMS] = {stream, side, third, fourth};
    release_left(p);
    p->runs++;
    bool late = p->runs == p->late_run;
    for (size_t i = 0; i < p->count; i++) {
        bool odd = p->runs == p->odd_run && (int)i >= p->odd_step;
        PH_TRY(do_step(p, &p->steps[i], streams, odd, late));
        if (p->steps[i].kind == ALLOCATE)
            addresses[p->steps[i].block] = p->at[p->steps[i].block];
    }
    for (size_t i = 0; i < p->count && late; i++)
        if (p->steps[i].kind == FREE)
            PH_TRY(do_step(p, &p->steps[i], streams, false, false));
    return PH_OK;
}

typedef int32_t outcome[RESULTS * WIDTH];

static void replay(int32_t *out, ph_graph *graph)
{
    assert_ok(ph_memset_u32(results, 0, (size_t)RESULTS * WIDTH, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_read(out, results, sizeof(outcome), world.stream);
}

/* Nothing that overlaps conflicts: all work of the earlier one comes before all of the later. */
static void check_sharing(const program *p)
{
    for (int j = 0; j < p->blocks; j++)
        for (int i = 0; i < j; i++) {
            uintptr_t a = (uintptr_t)addresses[i], b = (uintptr_t)addresses[j];
            if (a + p->sizes[i] <= b || b + p->sizes[j] <= a)
                continue;
            for (int v = 0; v < p->works; v++)
                for (int u = 0; u < p->works; u++)
                    if (p->users[i][u] && p->users[j][v])
                        assert_true(p->before[v][u]);
        }
}

/* By the program alone: the largest sum of its blocks that were allocated and not yet freed, each
 * rounded up to 512 bytes. */
static size_t alive_at_once(const program *p)
{
    size_t alive = 0, most = 0;
    for (size_t i = 0; i < p->count; i++) {
        const step *one = &p->steps[i];
        size_t bytes = (p->sizes[one->block] + 511) / 512 * 512;
        alive += one->kind == ALLOCATE ? bytes : 0;
        alive -= one->kind == FREE ? bytes : 0;
        most = alive > most ? alive : most;
    }
    return most;
}

static ph_graph_memory plan_program(program *p, double most)
{
    static outcome plain_results, planned_results;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, run, p));
    replay(plain_results, graph);
    assert_ok(ph_graph_reset(graph));
    release_left(p);
    p->runs = 0;
    assert_ok(ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true}, run, p));
    assert_int_equal(p->runs, 2);
    check_sharing(p);
    replay(planned_results, graph);
    assert_memory_equal(plain_results, planned_results, sizeof(outcome));
    ph_graph_memory memory;
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_null(memory.plan_ended);
    assert_true(memory.plan_bound > 0 && memory.planned >= memory.plan_bound);
    if (getenv("PH_TEST_PRINT"))
        printf("%zu of %zu: %.4f\n", memory.planned, memory.plan_bound,
               (double)memory.planned / (double)memory.plan_bound);
    if (most > 0) {
        assert_int_equal(memory.plan_bound, alive_at_once(p));
        assert_true((double)memory.planned <= most * (double)alive_at_once(p));
    }
    assert_int_equal(t_log_count("ph_graph_capture"), 0);
    ph_graph_destroy(graph);
    release_left(p);
    return memory;
}

static program one;

TEST(training_steps_take_what_is_alive_at_once)
{
    static const int layers[] = {1, 2, 4, 6, 10};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int keeps = 0; keeps < 2; keeps++) {
            make_training(&one, layers[i], 768 + 512 * i, keeps);
            (void)plan_program(&one, 1.03);
        }
}

TEST(random_programs_on_one_stream_keep_their_bits)
{
    for (uint64_t seed = 1; seed <= (t_nightly() ? 300 : 20); seed++) {
        make_random(&one, seed, 1, seed % 2);
        (void)plan_program(&one, 0);
    }
}

TEST(random_programs_on_two_streams_share_only_what_is_ordered)
{
    for (uint64_t seed = 1; seed <= (t_nightly() ? 600 : 40); seed++) {
        make_random(&one, 1000 + seed, 2, seed % 2);
        (void)plan_program(&one, 0);
    }
}

TEST(random_programs_on_four_streams_share_only_what_is_ordered)
{
    for (uint64_t seed = 1; seed <= (t_nightly() ? 600 : 40); seed++) {
        make_random(&one, 5000 + seed, 3 + (int)(seed % 2), seed % 3 == 0);
        (void)plan_program(&one, 0);
    }
}

/* A layer's gradients on the side, beside the flow of the main stream; joined at each layer. */
static void make_beside(program *p, int layers, size_t width)
{
    ph__rng rng = {width};
    int saved[MOST_BLOCKS], flowing;
    *p = (program){.streams = 2};
    add_join(p, 1, 0);
    for (int i = 0; i < layers; i++)
        saved[i] = add_block(p, &rng, 0, width * (size_t)(4 + 4 * (i % 3)));
    flowing = add_block(p, &rng, 0, width * 4);
    for (int i = layers; i-- > 0;) {
        add_join(p, 1, 0);
        int work = add_block(p, &rng, 1, width * 6), next = add_block(p, &rng, 0, width * 4);
        add_join(p, 0, 1);
        add_free(p, work, 1);
        add_free(p, saved[i], 0);
        add_free(p, flowing, 0);
        flowing = next;
    }
    add_result(p, flowing);
    add_free(p, flowing, 0);
}

TEST(nets_on_two_streams_take_what_is_alive_at_once)
{
    for (int layers = 2; layers <= 20; layers += 2) {
        make_beside(&one, layers, 640 + 256 * (size_t)layers);
        (void)plan_program(&one, 1.03);
    }
}

/* Many blocks, of which some dozens live at a time: no two of these overlap. */
typedef struct crowd {
    size_t count, runs;
    bool overlaps;
} crowd;

static ph_status churn(ph_stream *stream, void *user)
{
    enum {
        ALIVE = 24
    };
    crowd *c = user;
    ph__rng rng = {3};
    char *at[ALIVE] = {NULL};
    size_t sizes[ALIVE] = {0};
    c->runs++;
    for (size_t i = 0; i < c->count; i++) {
        size_t next = ph__rng_next(&rng) % ALIVE;
        ph_free(at[next], stream);
        at[next] = NULL;
        sizes[next] = 1 + ph__rng_next(&rng) % 60000;
        PH_TRY(ph_malloc(&at[next], 1, sizes[next], stream));
        PH_TRY(ph_memset(at[next], 1, 1, stream));
        for (size_t j = 0; j < ALIVE; j++)
            c->overlaps = c->overlaps || (j != next && at[j] && at[j] < at[next] + sizes[next] &&
                                          at[next] < at[j] + sizes[j]);
    }
    for (size_t i = 0; i < ALIVE; i++)
        ph_free(at[i], stream);
    return PH_OK;
}

TEST(thousands_of_blocks_do_not_overlap)
{
    static const size_t counts[] = {300, 3000, 6000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ph_graph *graph;
        ph_graph_memory memory;
        crowd c = {.count = counts[i]};
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(
            ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true}, churn, &c));
        assert_int_equal(c.runs, 2);
        assert_false(c.overlaps);
        assert_ok(ph_graph_get_memory(&memory, graph));
        assert_null(memory.plan_ended);
        assert_true(memory.planned >= memory.plan_bound &&
                    (double)memory.planned < 1.5 * (double)memory.plan_bound);
        ph_graph_destroy(graph);
    }
}

/* ---- plans that end ---- */
static void capture_ending(program *p, int runs, const char *why)
{
    static outcome plain_results, ended_results;
    ph_graph *graph;
    ph_graph_memory memory;
    int odd = p->odd_run, late = p->late_run;
    p->odd_run = p->late_run = 0;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, run, p));
    replay(plain_results, graph);
    assert_ok(ph_graph_reset(graph));
    release_left(p);
    p->runs = 0;
    p->odd_run = odd;
    p->late_run = late;
    assert_ok(ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true}, run, p));
    assert_int_equal(p->runs, runs);
    replay(ended_results, graph);
    assert_memory_equal(plain_results, ended_results, sizeof(outcome));
    check_sharing(p);
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_int_equal(memory.planned, 0);
    assert_int_equal(memory.plan_bound, 0);
    assert_non_null(strstr(memory.plan_ended, why));
    assert_int_equal(t_log_count("the memory plan ended"), 1);
    assert_int_equal(t_log_count(why), 1);
    ph_graph_destroy(graph);
    release_left(p);
}

TEST(another_size_ends_the_plan)
{
    make_training(&one, 4, 1024, true);
    one.odd_run = 2;
    one.odd_step = 20;
    capture_ending(&one, 3, "other sizes than the first, or in another order");
}

TEST(frees_in_another_order_end_the_plan)
{
    make_training(&one, 4, 1024, false);
    one.late_run = 2;
    capture_ending(&one, 3, "other sizes than the first, or in another order");
}

/* The first run freed all at its end, the second one earlier: what it was given is right. */
TEST(earlier_frees_need_no_other_plan)
{
    make_training(&one, 4, 1024, false);
    one.late_run = 1;
    ph_graph *graph;
    ph_graph_memory memory;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(
        ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true}, run, &one));
    assert_int_equal(one.runs, 2);
    check_sharing(&one);
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_null(memory.plan_ended);
    ph_graph_destroy(graph);
    release_left(&one);
}

/* The second run waits for the side later than the first one did. */
typedef struct unjoined {
    int32_t *a, *b;
    int runs;
} unjoined;

static ph_status share_across(ph_stream *stream, void *user)
{
    unjoined *u = user;
    bool joins = ++u->runs != 2;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(PH_NEW(&u->a, 4096, side));
    PH_TRY(t_fill(&world, side, u->a, 4096, 1));
    PH_TRY(t_add(&world, side, u->a, results, WIDTH, 1));
    ph_free(u->a, side);
    if (joins)
        PH_TRY(ph_stream_wait_stream(stream, side));
    PH_TRY(PH_NEW(&u->b, 4096, stream));
    PH_TRY(t_fill(&world, stream, u->b, 4096, 2));
    PH_TRY(t_add(&world, stream, u->b, results + WIDTH, WIDTH, 1));
    ph_free(u->b, stream);
    return joins ? PH_OK : ph_stream_wait_stream(stream, side);
}

TEST(another_order_of_streams_ends_the_plan)
{
    ph_graph *graph;
    ph_graph_memory memory;
    unjoined u = {0};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true},
                               share_across, &u));
    assert_int_equal(u.runs, 3);
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_non_null(strstr(memory.plan_ended, "ordered its streams otherwise"));
    assert_int_equal(t_log_count("the memory plan ended"), 1);
    assert_ok(ph_graph_reset(graph));
    u.runs = 2; /* all runs join: the blocks share memory */
    assert_ok(ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true},
                               share_across, &u));
    assert_int_equal(u.runs, 4);
    assert_ptr_equal(u.a, u.b);
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_int_equal(memory.planned, 4096 * sizeof(int32_t));
    ph_graph_destroy(graph);
}

/* ---- what is left, pools, and failures ---- */
typedef struct keeper {
    int32_t *out;
    size_t count; /* of the temporary */
    int runs, fails_in;
    bool forgets;
} keeper;

static ph_status keep_one(ph_stream *stream, void *user)
{
    keeper *k = user;
    int32_t *work;
    if (!k->forgets)
        ph_free(k->out, stream);
    k->out = NULL;
    PH_TRY(PH_NEW(&work, k->count, stream));
    PH_TRY(t_fill(&world, stream, work, k->count, 20));
    PH_TRY(PH_NEW(&k->out, 1000, stream));
    PH_TRY(t_fill(&world, stream, k->out, 1000, 2));
    PH_TRY(t_add(&world, stream, work, k->out, 1000, 20));
    ph_free(work, stream);
    return ++k->runs == k->fails_in ? ph_fail(PH_ERROR_CALLER, "as asked") : PH_OK;
}

TEST(a_block_that_is_left_outlives_its_graph)
{
    ph_graph *graph;
    keeper k = {.count = 100000};
    ph_allocation found;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(
        ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true}, keep_one, &k));
    assert_int_equal(k.runs, 2);
    assert_ok(ph_memory_lookup(&found, world.device, k.out));
    assert_ptr_equal(found.base, k.out);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(k.out, 1000, 40, world.stream);
    ph_graph_destroy(graph);
    t_all(k.out, 1000, 40, world.stream);
    assert_int_equal(t_log_count("ph_graph_capture"), 0);
    ph_free(k.out, world.stream);
}

TEST(blocks_of_the_first_run_that_stay_are_told)
{
    ph_graph *graph;
    keeper k = {.count = 1000, .forgets = true};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(
        ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true}, keep_one, &k));
    assert_int_equal(t_log_count("1 blocks (4096 bytes) that its first run left"), 1);
    ph_graph_destroy(graph);
    ph_free(k.out, world.stream);
    assert_ok(ph_memory_trim(world.device));
}

/* Graphs that share a pool lie in the same memory, where the largest comes first. */
TEST(graphs_of_one_pool_share_one_arena)
{
    ph_pool *pool;
    ph_graph *graphs[3];
    size_t reserved = 0;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    for (int i = 0; i < 3; i++) {
        ph_graph_memory memory;
        make_training(&one, 8 - 2 * i, 65536, false);
        assert_ok(ph_graph_create(&graphs[i], NULL));
        assert_ok(ph_graph_capture(graphs[i], world.stream,
                                   &(ph_capture_options){.pool = pool, .plan = true}, run, &one));
        assert_ok(ph_graph_get_memory(&memory, graphs[i]));
        assert_null(memory.plan_ended);
        if (i == 0)
            reserved = memory.pool_reserved;
        assert_int_equal(memory.pool_reserved, reserved);
        assert_true(memory.pool_reserved < memory.planned + (2 << 20) || i > 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(graphs[i], world.stream));
        ph_graph_destroy(graphs[i]);
    }
    ph_pool_release(pool);
}

TEST(a_failing_run_leaves_nothing)
{
    ph_graph *graph;
    for (int run_that_fails = 1; run_that_fails <= 2; run_that_fails++) {
        keeper k = {.count = 5000, .fails_in = run_that_fails};
        assert_ok(ph_graph_create(&graph, NULL));
        assert_error(ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true},
                                      keep_one, &k),
                     PH_ERROR_CALLER, "as asked");
        assert_int_equal(k.runs, run_that_fails);
        assert_ok(ph_graph_reset(graph));
        k.fails_in = 0;
        assert_ok(ph_graph_capture(graph, world.stream, NULL, keep_one, &k));
        ph_free(k.out, world.stream);
        ph_graph_destroy(graph);
    }
}

/* What eager work has cached goes back first. */
TEST(eager_steps_give_back_what_they_cached)
{
    ph_graph *graph;
    ph_memory_stats before, after;
    keeper k = {.count = 1000};
    void *cached;
    assert_ok(ph_malloc(&cached, 64 << 20, 1, world.stream));
    ph_free(cached, world.stream);
    assert_ok(ph_memory_get_stats(&before, world.device));
    assert_true(before.reserved >= 64 << 20);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(
        ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true}, keep_one, &k));
    assert_ok(ph_memory_get_stats(&after, world.device));
    assert_true(after.reserved <= before.reserved - (60 << 20));
    ph_graph_destroy(graph);
    ph_free(k.out, world.stream);
}

static ph_status nothing(ph_stream *stream, void *user)
{
    return t_add(&world, stream, results, results, WIDTH, *(const int *)user);
}

TEST(a_function_that_allocates_nothing_runs_once)
{
    ph_graph *graph;
    ph_graph_memory memory;
    int value = 0;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &(ph_capture_options){.plan = true}, nothing,
                               &value));
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_non_null(strstr(memory.plan_ended, "allocated nothing"));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(t_log_count("ph_graph_capture"), 0);
    ph_graph_destroy(graph);
}

TEST(captures_without_a_function_are_refused)
{
    ph_graph *graph;
    const ph_capture_options plan = {.plan = true};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture_begin(graph, world.stream, &plan), PH_ERROR_ARGUMENT,
                 "needs a function that runs twice");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_error(ph_graph_capture(graph, world.stream, &plan, NULL, NULL), PH_ERROR_ARGUMENT,
                 "body is NULL");
    assert_error(ph_graph_capture(graph, NULL, &plan, nothing, NULL), PH_ERROR_ARGUMENT, "stream");
    assert_error(ph_graph_capture(graph, world.stream,
                                  &(ph_capture_options){.plan = true, .allow_breaks = true},
                                  nothing, NULL),
                 PH_ERROR_ARGUMENT, "allow_breaks");
    ph_capture_options garbage;
    memset(&garbage, 0xff, sizeof garbage);
    assert_error(ph_graph_capture(graph, world.stream, &garbage, nothing, NULL), PH_ERROR_ARGUMENT,
                 "reserved");
    ph_graph_destroy(graph);
}

/* ---- failures one by one ---- */
static ph_graph *swept_graph;

static ph_status plan_across(void *user)
{
    unjoined *u = user;
    u->runs = 2; /* all runs join */
    PH_TRY(ph_graph_create(&swept_graph, NULL));
    PH_TRY(ph_graph_capture(swept_graph, world.stream, &(ph_capture_options){.plan = true},
                            share_across, u));
    PH_TRY(ph_graph_replay(swept_graph, world.stream));
    return ph_stream_synchronize(world.stream);
}

static void drop_swept(ph_status status, void *user)
{
    (void)status;
    (void)user;
    ph_graph_destroy(swept_graph);
    swept_graph = NULL;
}

static unjoined across;
static t_swept swept = {.name = "a planned capture",
                        .open = open_world,
                        .close = close_world,
                        .run = plan_across,
                        .reset = drop_swept,
                        .may_do_less = true,
                        .user = &across};

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_SWEEP(test_without_host_memory, &swept),
        T_SWEEP(test_when_the_driver_fails, &swept),
        IN_WORLD(training_steps_take_what_is_alive_at_once),
        IN_WORLD(nets_on_two_streams_take_what_is_alive_at_once),
        IN_WORLD(random_programs_on_one_stream_keep_their_bits),
        IN_WORLD(random_programs_on_two_streams_share_only_what_is_ordered),
        IN_WORLD(random_programs_on_four_streams_share_only_what_is_ordered),
        IN_WORLD(thousands_of_blocks_do_not_overlap),
        IN_WORLD(another_size_ends_the_plan),
        IN_WORLD(frees_in_another_order_end_the_plan),
        IN_WORLD(earlier_frees_need_no_other_plan),
        IN_WORLD(another_order_of_streams_ends_the_plan),
        IN_WORLD(a_block_that_is_left_outlives_its_graph),
        IN_WORLD(blocks_of_the_first_run_that_stay_are_told),
        IN_WORLD(graphs_of_one_pool_share_one_arena),
        IN_WORLD(a_failing_run_leaves_nothing),
        IN_WORLD(eager_steps_give_back_what_they_cached),
        IN_WORLD(a_function_that_allocates_nothing_runs_once),
        IN_WORLD(captures_without_a_function_are_refused),
    };
    return cmocka_run_group_tests_name("graph.memory_plan", tests, NULL, NULL);
}
