/* SPDX-License-Identifier: MIT */
/* tests/graph/cells.c: values that a graph takes anew at each replay: their order, their memory, their sources, and what is refused. */
#include "support/support.h"

#include "base/alloc.h"
#include "device/device.h"
#include <string.h>

enum {
    MOST = 100, /* sources */
    BLOCK = 512
};

/* What a source was asked and told. */
typedef struct source {
    uint64_t next; /* value of its first cell; the others follow, 100 apart */
    uint64_t step; /* of next, after each replay that went out */
    size_t count;
    int asked, out, stopped, captured, released;
    ph_status fails;
} source;

typedef struct plan {
    ph_stream *fork;       /* NULL: none */
    bool fork_first;       /* before the first cell; else after */
    bool create_on_fork;   /* the fork makes the cells */
    size_t sources, count; /* cells of each */
    bool programmatic;
} plan;

static t_world world;
static ph_stream *side;
static ph_graph *graph;
static uint64_t *y; /* where a graph puts the cells' values: from the origin, then from the fork */
static source sources[MOST];
static uint64_t *cells[MOST][PH_CELLS_MAX];

static ph_status values_of(uint64_t *values, void *user)
{
    source *s = user;
    s->asked++;
    if (s->fails != PH_OK)
        return ph_fail(s->fails, "no value today");
    for (size_t i = 0; i < s->count; i++)
        values[i] = s->next + 100 * i;
    return PH_OK;
}

static void launched(void *user, bool went_out)
{
    source *s = user;
    if (went_out)
        s->next += s->step;
    ++*(went_out ? &s->out : &s->stopped);
}

static void captured(void *user)
{
    ((source *)user)->captured++;
}

static void released(void *user)
{
    ((source *)user)->released++;
}

static ph_status make_of(uint64_t **out, ph_stream *stream, source *s)
{
    const ph_cells_source how = {.count = s->count,
                                 .values = values_of,
                                 .launched = launched,
                                 .captured = captured,
                                 .release = released,
                                 .user = s};
    return ph_cells_create(out, stream, &how);
}

static ph_status make(const plan *p, ph_stream *stream)
{
    for (size_t i = 0; i < p->sources; i++) {
        sources[i].count = p->count;
        PH_TRY(make_of(cells[i], stream, &sources[i]));
    }
    return PH_OK;
}

/* One element a cell, in order. */
static ph_status read_all(const plan *p, ph_stream *stream, uint64_t *to)
{
    for (size_t i = 0; i < p->sources; i++)
        for (size_t k = 0; k < p->count; k++)
            PH_TRY(ph_memcpy(to++, cells[i][k], sizeof *to, stream));
    return PH_OK;
}

static ph_status body(ph_stream *stream, void *user)
{
    const plan *p = user;
    size_t all = p->sources * p->count;
    PH_TRY(ph_memset(y, 0xff, 2 * all * sizeof *y, stream));
    if (p->fork && p->fork_first)
        PH_TRY(ph_stream_wait_stream(p->fork, stream));
    PH_TRY(make(p, p->create_on_fork ? p->fork : stream));
    if (p->fork && !p->fork_first)
        PH_TRY(ph_stream_wait_stream(p->fork, stream));
    PH_TRY(ph_cells_require(stream));
    PH_TRY(read_all(p, stream, y));
    if (!p->fork)
        return PH_OK;
    PH_TRY(ph_cells_require(p->fork));
    PH_TRY(ph_cells_require(p->fork)); /* nothing, the second time */
    PH_TRY(read_all(p, p->fork, y + all));
    return ph_stream_wait_stream(stream, p->fork);
}

/* ---- a world ---- */
static int open_world(void **state)
{
    (void)state;
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(PH_NEW(&y, 2 * MOST * 4, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    memset(sources, 0, sizeof sources);
    for (size_t i = 0; i < MOST; i++)
        sources[i] = (source){.next = 1000 * (i + 1), .step = 1};
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    ph_graph_destroy(graph);
    assert_ok(ph_device_synchronize(world.device));
    for (size_t i = 0; i < MOST; i++)
        assert_true(sources[i].captured <= sources[i].released);
    ph_free(y, world.stream);
    ph_stream_destroy(side);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static size_t allocated(void)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, world.device));
    return stats.allocated;
}

/* Every cell as its source had it before the last replay. */
static void check_values(const plan *p, ph_stream *stream, int forks)
{
    static uint64_t seen[2 * MOST * 4];
    size_t all = p->sources * p->count;
    t_read(seen, y, (size_t)(1 + forks) * all * sizeof *y, stream);
    for (int f = 0; f <= forks; f++)
        for (size_t i = 0; i < p->sources; i++)
            for (size_t k = 0; k < p->count; k++)
                assert_int_equal(seen[(size_t)f * all + i * p->count + k],
                                 sources[i].next - sources[i].step + 100 * k);
}

static void run(const plan *p)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)p));
    for (int replay = 0; replay < 3; replay++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        check_values(p, world.stream, p->fork != NULL);
    }
    for (size_t i = 0; i < p->sources; i++) {
        assert_int_equal(sources[i].asked, 3);
        assert_int_equal(sources[i].out, 3);
        assert_int_equal(sources[i].stopped, 0);
        assert_int_equal(sources[i].captured, 1);
        assert_int_equal(sources[i].released, 0);
    }
}

/* ---- values ---- */
static void test_each_replay_has_its_own(void **state)
{
    (void)state;
    run(&(plan){.sources = 1, .count = 2});
}

static void test_a_fork_after_the_first_cell(void **state)
{
    (void)state;
    run(&(plan){.sources = 2, .count = 1, .fork = side});
}

static void test_a_fork_before_the_first_cell(void **state)
{
    (void)state;
    run(&(plan){.sources = 1, .count = 2, .fork = side, .fork_first = true});
}

static void test_cells_made_on_a_fork(void **state)
{
    (void)state;
    run(&(plan){.sources = 1, .count = 2, .fork = side, .fork_first = true, .create_on_fork = true});
}

/* 400 cells: more than one node carries. */
static void test_many_sources(void **state)
{
    (void)state;
    const ph_record *record;
    run(&(plan){.sources = MOST, .count = 4, .fork = side, .fork_first = true});
    assert_ok(ph_graph_record(&record, graph));
    size_t roots = 0;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        roots += strncmp(info.name, "ph_core_cells", 13) == 0;
    }
    assert_int_equal(roots, 1 + (400 - 8 + 59) / 60);
}

static void test_sixteen_cells_of_one_source(void **state)
{
    (void)state;
    uint64_t seen[PH_CELLS_MAX];
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    sources[0].count = PH_CELLS_MAX;
    assert_ok(make_of(cells[0], world.stream, &sources[0]));
    for (size_t i = 0; i < PH_CELLS_MAX; i++)
        assert_ok(ph_memcpy(&y[i], cells[0][i], sizeof *y, world.stream));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_read(seen, y, sizeof seen, world.stream);
    for (size_t i = 0; i < PH_CELLS_MAX; i++)
        assert_int_equal(seen[i], 1000 + 100 * i);
}

/* Replays that wait behind a gate have kept what their sources said when they were submitted. */
static void test_replays_in_flight_keep_theirs(void **state)
{
    (void)state;
    enum {
        REPLAYS = 5
    };
    const plan p = {.sources = 1, .count = 2};
    uint64_t seen[2 * REPLAYS];
    t_gate gate = {0};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    for (size_t i = 0; i < REPLAYS; i++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_memcpy(y + 10 + 2 * i, y, 2 * sizeof *y, world.stream));
    }
    assert_int_equal(sources[0].asked, REPLAYS);
    t_gate_open(&gate);
    t_read(seen, y + 10, sizeof seen, world.stream);
    for (size_t i = 0; i < REPLAYS; i++) {
        assert_int_equal(seen[2 * i], 1000 + i);
        assert_int_equal(seen[2 * i + 1], 1100 + i);
    }
}

/* Two graphs in flight at once, on two streams, with one source between them. */
static void test_two_graphs_of_one_source(void **state)
{
    (void)state;
    uint64_t *cell[2], seen[2];
    t_gate gate = {0};
    ph_stream *streams[2] = {world.stream, side};
    ph_graph *graphs[2];
    sources[0].count = 1;
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_create(&graphs[i], NULL));
        assert_ok(ph_graph_capture_begin(graphs[i], streams[i], NULL));
        assert_ok(make_of(&cell[i], streams[i], &sources[0]));
        assert_ok(ph_memcpy(&y[i], cell[i], sizeof *y, streams[i]));
        assert_ok(ph_graph_capture_end(graphs[i], PH_OK));
    }
    assert_ptr_not_equal(cell[0], cell[1]);
    /* One gate for both: on a GPU one thread may run the host functions of all streams. */
    assert_ok(t_gate_wait_guarded(&gate, streams[0]));
    assert_ok(ph_stream_wait_stream(streams[1], streams[0]));
    for (int i = 0; i < 2; i++)
        assert_ok(ph_graph_replay(graphs[i], streams[i]));
    t_gate_open(&gate);
    for (int i = 0; i < 2; i++) {
        t_read(&seen[i], &y[i], sizeof *y, streams[i]);
        assert_int_equal(seen[i], 1000 + i);
    }
    for (int i = 0; i < 2; i++)
        ph_graph_destroy(graphs[i]);
    assert_int_equal(sources[0].captured, 2);
    assert_int_equal(sources[0].released, 2);
}

/* keep_graph: what replays first after another instantiate has its values, though they did not change. */
static void test_instantiated_again(void **state)
{
    (void)state;
    const plan p = {.sources = 2, .count = 2};
    const ph_graph_options keep = {.keep_graph = true};
    ph_graph_destroy(graph);
    assert_ok(ph_graph_create(&graph, &keep));
    sources[0].step = sources[1].step = 0;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        check_values(&p, world.stream, 0);
        assert_ok(ph_graph_instantiate(graph));
    }
    assert_int_equal(sources[0].captured, 1);
}

/* ---- the nodes ---- */
static size_t root_of(const ph_record *record)
{
    ph_node_info info;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        assert_ok(ph_record_node(&info, record, i));
        if (strncmp(info.name, "ph_core_cells", 13) == 0)
            return i;
    }
    fail_msg("no node writes cells");
    return 0;
}

static bool depends_on(const ph_record *record, size_t node, size_t root)
{
    ph_node_info info;
    assert_ok(ph_record_node(&info, record, node));
    for (size_t i = 0; i < info.dependency_count; i++)
        if (ph_record_dependencies(record, node)[i] == root)
            return true;
    return false;
}

static void test_the_record(void **state)
{
    (void)state;
    const plan p = {.sources = 1, .count = 2};
    const ph_record *record;
    ph_node_info info;
    ph_word word;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_record(&record, graph));
    size_t root = root_of(record);
    assert_ok(ph_record_node(&info, record, root));
    assert_int_equal(info.dependency_count, 0);
    assert_int_equal(info.grid[0], 1);
    assert_string_equal(info.name, "ph_core_cells_8");
    assert_ok(ph_record_word(&word, record, root, 0));
    assert_string_equal(word.name, "count");
    assert_int_equal(word.value, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_ok(ph_record_word(&word, record, root, 1 + 2 * i));
        assert_int_equal(word.kind, PH_WORD_PROVED);
        assert_int_equal(word.value, (uintptr_t)cells[0][i]);
        assert_ptr_equal(word.base, cells[0][i]);
        assert_int_equal(word.allocation_bytes, BLOCK);
        assert_true(word.internal);
        assert_ok(ph_record_word(&word, record, root, 2 + 2 * i));
        assert_int_equal(word.kind, PH_WORD_VALUE);
    }
    assert_ok(ph_record_word(&word, record, root, 1));
    assert_string_equal(word.name, "at0");
    char *text;
    assert_ok(ph_record_json(&text, record));
    assert_non_null(strstr(text, "ph_core_cells_8"));
    ph_string_free(text);
}

/* What stands before the first cell is not put behind it. */
static void test_what_comes_before_stays_before(void **state)
{
    (void)state;
    const plan p = {.sources = 1, .count = 1, .fork = side, .fork_first = true};
    const ph_record *record;
    ph_node_info info;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_record(&record, graph));
    size_t root = root_of(record), behind = 0;
    assert_int_equal(ph_record_node_count(record), 4); /* a fill, the root, a copy on each stream */
    for (size_t i = 0; i < 4; i++) {
        assert_ok(ph_record_node(&info, record, i));
        behind += depends_on(record, i, root);
        if (info.kind == PH_NODE_MEMSET)
            assert_false(depends_on(record, i, root));
        if (info.kind == PH_NODE_MEMCPY)
            assert_int_equal(info.dependency_count, 2);
    }
    assert_int_equal(behind, 2);
}

/* A launch that may begin before the one before it has ended begins after the cells are written all the same. */
static void test_a_programmatic_launch(void **state)
{
    (void)state;
    const ph_record *record;
    ph_node_info info;
    ph_edge_kind kind;
    ph_launch_config config = t_config(1);
    config.programmatic = true;
    int32_t *to = (int32_t *)(void *)y;
    struct t_add_i32 args = {1, to, to, 0};
    sources[0].count = 1;
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_launch(world.stream, world.add_i32, &config, &args, sizeof args));
    assert_ok(make_of(cells[0], world.stream, &sources[0]));
    args.x = (const int32_t *)(const void *)cells[0][0];
    assert_ok(ph_launch(world.stream, world.add_i32, &config, &args, sizeof args));
    args.x = to;
    assert_ok(ph_launch(world.stream, world.add_i32, &config, &args, sizeof args));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_record(&record, graph));
    size_t root = root_of(record), behind = 0;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        assert_ok(ph_record_node(&info, record, i));
        for (size_t d = 0; d < info.dependency_count && depends_on(record, i, root); d++) {
            assert_ok(ph_record_edge(&kind, record, i, d));
            assert_int_equal(kind, PH_EDGE_FULL);
            behind++;
        }
    }
    assert_int_equal(behind, 2); /* one node, both its edges */
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        t_all(to, 1, 1000 + i, world.stream);
    }
}

static void test_what_writes_cells_is_left_alone(void **state)
{
    (void)state;
    const plan p = {.sources = 1, .count = 2};
    const ph_record *record;
    ph_node_info info;
    bool enabled = false;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_record(&record, graph));
    size_t root = root_of(record);
    assert_ok(ph_record_node(&info, record, root));
    assert_error(ph_graph_node_set_launch(graph, root, NULL, info.args, info.args_size), PH_ERROR_UNSUPPORTED,
                 "writes the graph's cells");
    assert_error(ph_graph_node_set_enabled(graph, root, false), PH_ERROR_UNSUPPORTED, "cells");
    assert_ok(ph_graph_node_get_enabled(&enabled, graph, root));
    assert_true(enabled);
    assert_ok(ph_graph_replay(graph, world.stream));
    check_values(&p, world.stream, 0);
}

/* ---- memory ---- */
static void test_memory(void **state)
{
    (void)state;
    const plan p = {.sources = 2, .count = 2};
    ph_graph_memory memory;
    ph_allocation where;
    ph_pool *pool;
    size_t before = allocated();
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(ph_pool_end(pool));
    assert_int_equal(allocated() - before, 4 * BLOCK);
    for (size_t i = 0; i < 4; i++) {
        assert_ok(ph_memory_lookup(&where, world.device, cells[i / 2][i % 2]));
        assert_ptr_equal(where.base, cells[i / 2][i % 2]);
        assert_null(where.pool);
        assert_int_equal(where.size, BLOCK);
    }
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_int_equal(memory.cells, 4 * BLOCK);
    assert_int_equal(memory.pool_allocated, 0);
    assert_ok(ph_graph_replay(graph, world.stream));
    check_values(&p, world.stream, 0);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_device_synchronize(world.device));
    assert_ok(ph_memory_trim(world.device));
    assert_int_equal(allocated(), before);
    assert_int_equal(sources[0].released, 1);
    ph_pool_release(pool);
}

/* Liveness sees memory from elsewhere, and cells are the graph's own. */
static void test_liveness(void **state)
{
    (void)state;
    const plan p = {.sources = 1, .count = 2};
    const ph_capture_options options = {.check_input_liveness = true};
    assert_ok(ph_graph_capture(graph, world.stream, &options, body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_check_inputs(graph));
    assert_ok(ph_graph_replay(graph, world.stream));
    check_values(&p, world.stream, 0);
}

/* The replay is held up; its graph goes, and what is allocated next must not get the cells before it is over. */
static void test_a_reset_while_replays_are_in_flight(void **state)
{
    (void)state;
    enum {
        BLOCKS = 64
    };
    const plan p = {.sources = 1, .count = 2};
    uint64_t *block[BLOCKS];
    t_gate gate = {0};
    ph_stream *first = ph_device_default_stream(world.device);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(t_gate_wait_guarded(&gate, side));
    assert_ok(ph_graph_replay(graph, side));
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(sources[0].released, 1);
    bool reused = false;
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(PH_NEW(&block[i], 1, first));
        reused = reused || block[i] == cells[0][0] || block[i] == cells[0][1];
    }
    if (t_gate_held(&gate))
        assert_false(reused);
    t_gate_open(&gate);
    check_values(&p, side, 0);
    for (int i = 0; i < BLOCKS; i++)
        ph_free(block[i], first);
}

/* What used the memory before on the default stream, where it was freed, is over before a replay writes it. */
static void test_memory_that_others_have_used(void **state)
{
    (void)state;
    enum {
        BLOCKS = 64
    };
    const plan p = {.sources = 1, .count = 2};
    ph_stream *first = ph_device_default_stream(world.device);
    t_gate gate = {0};
    void *block[BLOCKS];
    bool again = false;
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(ph_malloc(&block[i], 1, BLOCK, first));
    assert_ok(t_gate_wait_guarded(&gate, first));
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(ph_memset(block[i], 0xab, BLOCK, first));
        ph_free(block[i], first);
    }
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    for (int i = 0; i < BLOCKS; i++)
        again = again || block[i] == cells[0][0];
    assert_true(again);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_gate_open(&gate);
    check_values(&p, world.stream, 0);
}

/* Beside a capture with blocking streams nothing can be recorded on the default stream, neither at the capture's end nor later. */
static void test_beside_a_blocking_capture(void **state)
{
    (void)state;
    const plan p = {.sources = 1, .count = 2};
    const ph_stream_options options = {.blocking = true};
    ph_stream *blocking;
    ph_graph *other;
    assert_ok(ph_stream_create(&blocking, world.device, &options));
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture_begin(other, blocking, NULL));
    assert_ok(ph_memset(y, 0, sizeof *y, blocking));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CAPTURE, "ordering the graph's cells");
    assert_native(906);
    assert_int_equal(sources[0].asked, 0);
    assert_ok(ph_graph_capture_end(other, PH_OK));
    assert_ok(ph_graph_replay(graph, world.stream));
    check_values(&p, world.stream, 0);
    assert_ok(ph_graph_reset(other));
    assert_ok(
        ph_graph_capture_begin(other, blocking, NULL)); /* where it has replayed before it goes on doing so */
    assert_ok(ph_memset(y + 100, 0, sizeof *y, blocking));
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_graph_capture_abort(other);
    check_values(&p, world.stream, 0);
    ph_graph_destroy(other);
    ph_stream_destroy(blocking);
}

/* ---- sources ---- */
static void test_a_source_that_fails(void **state)
{
    (void)state;
    const plan p = {.sources = 3, .count = 1};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_replay(graph, world.stream));
    uint64_t epoch = ph_graph_epoch(graph);
    sources[1].fails = PH_ERROR_CALLER;
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CALLER, "no value today");
    assert_int_equal(ph_graph_epoch(graph), epoch);
    assert_int_equal(sources[0].stopped, 1);
    assert_int_equal(sources[1].stopped, 0);
    assert_int_equal(sources[2].stopped, 0);
    assert_int_equal(sources[2].asked, 1);
    check_values(&p, world.stream, 0); /* of the replay before it */
    sources[1].fails = PH_OK;
    assert_ok(ph_graph_replay(graph, world.stream));
    check_values(&p, world.stream, 0);
}

static void test_a_launch_that_fails(void **state)
{
    (void)state;
    const plan p = {.sources = 2, .count = 1};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_replay(graph, world.stream));
    for (int64_t n = 0; n < 2; n++) { /* setting the values; launching */
        ph__driver_fail_after(n, PH__R_LAUNCH_FAILED);
        assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_DEVICE);
        ph__driver_fail_after(-1, 0);
        assert_int_equal(sources[0].stopped, n + 1);
        assert_int_equal(sources[1].stopped, n + 1);
    }
    assert_int_equal(sources[0].out, 1);
    assert_ok(ph_graph_replay(graph, world.stream));
    check_values(&p, world.stream, 0);
}

static void test_released_once(void **state)
{
    (void)state;
    const plan p = {.sources = 1, .count = 2};
    source *s = &sources[0];
    s->count = 2;
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(make(&p, world.stream));
    ph_graph_capture_abort(graph);
    assert_int_equal(s->captured, 0);
    assert_int_equal(s->released, 1);
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(make(&p, world.stream));
    assert_status(ph_graph_capture_end(graph, ph_fail(PH_ERROR_CALLER, "no")), PH_ERROR_CALLER);
    assert_int_equal(s->released, 2);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(s->released, 2);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_int_equal(s->captured, 1);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(s->released, 3);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(s->released, 3);
    assert_int_equal(s->asked, 0);
}

/* A fork that is put behind the cells and then does nothing is no work that was not joined. */
static void test_a_fork_that_reads_nothing(void **state)
{
    (void)state;
    sources[0].count = 1;
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_memset(y, 0, sizeof *y, world.stream));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    assert_ok(make_of(cells[0], side, &sources[0]));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(sources[0].out, 1);
}

/* ---- what is refused ---- */
static void test_arguments(void **state)
{
    (void)state;
    ph_cells_source how = {.count = 1, .values = values_of, .user = &sources[0]};
    uint64_t *cell[2] = {(uint64_t *)8, (uint64_t *)8};
    assert_error(ph_cells_create(cell, world.stream, &how), PH_ERROR_STATE, "not capturing");
    assert_null(cell[0]);
    assert_non_null(cell[1]);
    assert_error(ph_cells_require(world.stream), PH_ERROR_STATE, "not capturing");
    assert_error(ph_cells_require(ph_device_default_stream(world.device)), PH_ERROR_STATE, "not capturing");
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_memset(y, 0, sizeof *y, world.stream));
    assert_error(ph_cells_create(NULL, world.stream, &how), PH_ERROR_ARGUMENT, "cells is NULL");
    assert_error(ph_cells_create(cell, NULL, &how), PH_ERROR_ARGUMENT, "stream is NULL");
    assert_error(ph_cells_create(cell, world.stream, NULL), PH_ERROR_ARGUMENT, "source is NULL");
    how.count = 0;
    assert_error(ph_cells_create(cell, world.stream, &how), PH_ERROR_ARGUMENT, "1 to 16");
    how.count = 1;
    how.values = NULL;
    assert_error(ph_cells_create(cell, world.stream, &how), PH_ERROR_ARGUMENT, "values");
    how.values = values_of;
    how.reserved[3] = 1;
    assert_error(ph_cells_create(cell, world.stream, &how), PH_ERROR_ARGUMENT, "reserved");
    assert_error(ph_cells_require(NULL), PH_ERROR_ARGUMENT, "stream is NULL");
    assert_error(ph_cells_create(cell, side, &(ph_cells_source){.count = 1, .values = values_of}),
                 PH_ERROR_STATE, "not capturing");
    assert_ok(ph_cells_require(world.stream)); /* there are none yet */
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_replay(graph, world.stream));
    uint64_t *many[PH_CELLS_MAX + 1];
    const ph_cells_source too_many = {.count = PH_CELLS_MAX + 1, .values = values_of};
    assert_error(ph_cells_create(many, world.stream, &too_many), PH_ERROR_ARGUMENT, "17");
    assert_int_equal(sources[0].asked, 0);
}

/* A dead capture answers as its other calls do. */
static void test_an_invalidated_capture(void **state)
{
    (void)state;
    sources[0].count = 1;
    t_log_start();
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_int_not_equal(world.device->driver->stream_query(world.stream->handle), 0);
    assert_status(make_of(cells[0], world.stream, &sources[0]), PH_ERROR_CAPTURE);
    assert_native(901);
    assert_null(cells[0][0]);
    assert_status(ph_cells_require(world.stream), PH_OK); /* none were made */
    assert_status(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE);
    t_log_stop();
    assert_int_equal(sources[0].released, 0);
}

static void test_as_a_part_of_another_graph(void **state)
{
    (void)state;
    const plan p = {.sources = 1, .count = 1};
    ph_graph *outer;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_ok(ph_memset(y, 0, sizeof *y, world.stream));
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_UNSUPPORTED, "cells");
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_replay(outer, world.stream));
    assert_int_equal(sources[0].asked, 0);
    ph_graph_destroy(outer);
}

static void test_updates(void **state)
{
    (void)state;
    const plan p = {.sources = 1, .count = 1}, none = {0};
    ph_graph *other, *plain;
    ph_update_result why;
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_create(&plain, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_capture(other, world.stream, NULL, body, (void *)(uintptr_t)&p));
    t_log_start(); /* it is empty */
    assert_ok(ph_graph_capture(plain, world.stream, NULL, body, (void *)(uintptr_t)&none));
    t_log_stop();
    assert_error(ph_graph_update(graph, other, &why), PH_ERROR_MISMATCH, "has cells");
    assert_int_equal(why.reason, PH_UPDATE_UNSUPPORTED);
    assert_non_null(strstr(why.message, "cells"));
    assert_error(ph_graph_update(graph, plain, NULL), PH_ERROR_MISMATCH, "the graph has cells");
    assert_error(ph_graph_update(plain, graph, NULL), PH_ERROR_MISMATCH, "from has cells");
    assert_ok(ph_graph_replay(graph, world.stream));
    check_values(&p, world.stream, 0);
    ph_graph_destroy(other);
    ph_graph_destroy(plain);
}

/* ---- failures ---- */
static plan scene_of_failures(void)
{
    return (plan){.sources = 3, .count = 4, .fork = side, .fork_first = true, .create_on_fork = true};
}

static ph_status scenario(void)
{
    const plan p = scene_of_failures();
    PH_TRY(ph_graph_capture(graph, world.stream, NULL, body, (void *)(uintptr_t)&p));
    PH_TRY(ph_graph_replay(graph, world.stream));
    PH_TRY(ph_stream_wait_stream(side, world.stream));
    PH_TRY(ph_graph_replay(graph, side));
    return ph_stream_synchronize(side);
}

static void reset(ph_status status)
{
    const plan p = scene_of_failures();
    if (status == PH_OK)
        check_values(&p, side, 1);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_device_synchronize(world.device));
    assert_false(ph_stream_is_capturing(world.stream));
}

static void test_without_host_memory(void **state)
{
    (void)state;
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t n;
    t_log_start();
    t_hold_context();
    for (n = 0; status != PH_OK; n++) {
        assert_int_equal(open_world(NULL), 0);
        ph__alloc_fail_after(n);
        status = scenario();
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        reset(status);
        assert_ok(scenario());
        reset(PH_OK);
        assert_int_equal(close_world(NULL), 0);
        assert_true(n < 2000);
    }
    assert_true(n > 10);
    t_log_stop();
}

static void test_when_the_driver_fails(void **state)
{
    (void)state;
    int64_t failures = 0;
    t_log_start();
    t_hold_context();
    assert_int_equal(open_world(NULL), 0);
    int64_t before = ph__driver_calls();
    assert_ok(scenario());
    int64_t calls = ph__driver_calls() - before;
    reset(PH_OK);
    assert_int_equal(close_world(NULL), 0);
    for (int64_t n = 0; n < calls; n++) {
        assert_int_equal(open_world(NULL), 0);
        ph__driver_fail_after(n, PH__R_LAUNCH_FAILED);
        ph_status status = scenario();
        ph__driver_fail_after(-1, 0);
        failures += status != PH_OK;
        if (status != PH_OK)
            assert_true(ph_error_last()->message[0] != 0);
        for (int i = 0; i < 3; i++)
            assert_true(sources[i].captured <= 1);
        reset(status);
        assert_ok(scenario());
        reset(PH_OK);
        assert_int_equal(close_world(NULL), 0);
    }
    assert_true(failures > calls / 2);
    t_log_stop();
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_each_replay_has_its_own),
        WITH_WORLD(test_a_fork_after_the_first_cell),
        WITH_WORLD(test_a_fork_before_the_first_cell),
        WITH_WORLD(test_cells_made_on_a_fork),
        WITH_WORLD(test_many_sources),
        WITH_WORLD(test_sixteen_cells_of_one_source),
        WITH_WORLD(test_replays_in_flight_keep_theirs),
        WITH_WORLD(test_two_graphs_of_one_source),
        WITH_WORLD(test_instantiated_again),
        WITH_WORLD(test_the_record),
        WITH_WORLD(test_what_comes_before_stays_before),
        WITH_WORLD(test_a_programmatic_launch),
        WITH_WORLD(test_what_writes_cells_is_left_alone),
        WITH_WORLD(test_memory),
        WITH_WORLD(test_liveness),
        WITH_WORLD(test_a_reset_while_replays_are_in_flight),
        WITH_WORLD(test_memory_that_others_have_used),
        WITH_WORLD(test_beside_a_blocking_capture),
        WITH_WORLD(test_a_source_that_fails),
        WITH_WORLD(test_a_launch_that_fails),
        WITH_WORLD(test_released_once),
        WITH_WORLD(test_a_fork_that_reads_nothing),
        WITH_WORLD(test_arguments),
        WITH_WORLD(test_an_invalidated_capture),
        WITH_WORLD(test_as_a_part_of_another_graph),
        WITH_WORLD(test_updates),
        cmocka_unit_test(test_without_host_memory),
        cmocka_unit_test(test_when_the_driver_fails),
    };
    return cmocka_run_group_tests_name("graph.cells", tests, NULL, NULL);
}
