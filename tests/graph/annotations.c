/* SPDX-License-Identifier: MIT */
/* tests/graph/annotations.c: which nodes of a capture lie in which scopes. */
#include "support/annotations.h"

#include "base/alloc.h"
#include "device/annotate/annotation.h"
#include "device/handles/device.h"
#include "device/handles/event.h"
#include "support/fixture.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
    N = 256
};
static t_world world;
static ph_stream *side;
static int32_t *x, *y, *pinned;

static const t_fixture fixture = {
    .world = &world, .streams = {&side}, .arrays = {{&x, N, T_INTS, 1}, {&y, N, T_INTS, 1}}};

FIXTURE(open_world)
{
    void *host = NULL;
    t_fixture_open(&fixture);
    assert_ok(ph_malloc_pinned(&host, N, sizeof *pinned, world.stream));
    pinned = host;
    return 0;
}

FIXTURE(close_world)
{
    assert_int_equal(ph_annotation_depth(), 0);
    assert_int_equal(t_annotated(), 0);
    ph_free_pinned(pinned, world.stream);
    t_fixture_close(&fixture);
    return 0;
}

static ph_status kernel(ph_stream *stream)
{
    return t_fill(&world, stream, x, N, 1);
}

static void check(ph_capture_fn body, const char *want)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    t_capture_annotated(graph, world.stream, body, NULL);
    t_expect_annotations(graph, want);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(graph);
}

/* ---- scopes ---- */
static ph_status nested_body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_push(stream, "outer", NULL));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_push(stream, "inner", NULL));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_push(stream, "empty", NULL));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    return kernel(stream);
}

TEST(test_scopes_nest)
{
    t_log_start();
    check(nested_body, "{}{name=outer}{name=inner}{name=inner}{name=outer}{}");
    assert_int_equal(t_log_count(""), 0); /* there is nothing to warn of */
    t_log_stop();
}

static ph_status pairs_body(ph_stream *stream, void *user)
{
    (void)user;
    const ph_annotation_pair outer[] = {t_integer("layer", -3), t_text("kind", "mlp")};
    const ph_annotation_pair inner[] = {
        {.key = "share", .type = PH_ANNOTATION_REAL, .real = 0.5},
        t_integer("layer", INT64_MAX),
        {.key = "last", .type = PH_ANNOTATION_BOOL, .boolean = true},
    };
    const ph_annotation_pair own = t_integer("lane", 1);
    const ph_annotation_options first = {.pairs = outer, .count = 2},
                                second = {.pairs = inner, .count = 3},
                                third = {.pairs = &own, .count = 1};
    PH_TRY(ph_annotation_push(stream, "block", &first));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_push(stream, NULL, &second));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "named", NULL));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "both", &third));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    return ph_annotation_pop(stream);
}

/* A name contends with a name, a pair with a pair of its key. */
TEST(test_pairs_merge_and_the_inner_one_wins)
{
    check(pairs_body, "{name=block, layer=-3, kind=mlp}"
                      "{name=block, layer=9223372036854775807, kind=mlp, share=0.5, last=true}"
                      "{name=named, layer=-3, kind=mlp}"
                      "{name=both, layer=-3, kind=mlp, lane=1}");
}

static void nothing(void *user)
{
    (void)user;
}

static ph_event *external;

static ph_status kinds_body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_memset(x, 0, N * sizeof *x, stream));
    PH_TRY(ph_annotation_push(stream, "all", NULL));
    PH_TRY(kernel(stream));
    PH_TRY(ph_memcpy(pinned, x, N * sizeof *x, stream));
    PH_TRY(ph_memset(x, 1, N * sizeof *x, stream));
    PH_TRY(ph_memset_u32(x, 1, N, stream));
    PH_TRY(ph_launch_host(stream, nothing, NULL));
    PH_TRY(ph_event_record(external, stream));
    PH_TRY(ph_stream_wait_event(stream, external));
    return ph_annotation_pop(stream);
}

TEST(test_all_kinds_of_nodes)
{
    ph_event_options options = {.external = true};
    assert_ok(ph_event_create(&external, world.device, &options));
    check(kinds_body, "{}{name=all}{name=all}{name=all}{name=all}{name=all}{name=all}{name=all}");
    ph_event_destroy(external);
}

/* ---- streams ---- */
static ph_status forked_body(ph_stream *stream, void *user)
{
    (void)user;
    const ph_annotation_options lane = {.lane = true};
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_push(side, "aux", &lane));
    PH_TRY(ph_stream_wait_stream(side, stream)); /* it joins in the scope */
    PH_TRY(t_fill(&world, side, y, N, 1));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(side));
    PH_TRY(t_fill(&world, side, y, N, 1));
    return ph_stream_wait_stream(stream, side);
}

TEST(test_streams_that_join)
{
    char want[256];
    uint32_t lane, again;
    assert_ok(ph_stream_lane(&lane, side));
    assert_ok(ph_stream_lane(&again, side));
    assert_int_equal(lane, again);
    assert_true(lane >= 60);
    assert_ok(ph_stream_lane(&again, world.stream));
    assert_int_not_equal(lane, again);
    (void)snprintf(want, sizeof want, "{}{name=aux, stream=%u}{name=aux, stream=%u}{}",
                   (unsigned)lane, (unsigned)lane);
    check(forked_body, want);
}

static ph_status own_lane_body(ph_stream *stream, void *user)
{
    (void)user;
    const ph_annotation_pair pair = t_text("stream", "mine");
    const ph_annotation_options options = {.pairs = &pair, .count = 1, .lane = true};
    PH_TRY(ph_annotation_push(stream, NULL, &options));
    PH_TRY(kernel(stream));
    return ph_annotation_pop(stream);
}

TEST(test_a_lane_of_the_callers)
{
    check(own_lane_body, "{stream=mine}");
}

/* ---- scopes around captures ---- */
static ph_status one_kernel(ph_stream *stream, void *user)
{
    (void)user;
    return kernel(stream);
}

static ph_status ends_early(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    return kernel(stream);
}

static ph_status stays_open(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_push(stream, "open", NULL));
    return kernel(stream);
}

TEST(test_scopes_that_are_open_around_a_capture)
{
    assert_ok(ph_annotation_push(world.stream, "around", NULL));
    check(one_kernel, "{name=around}");
    check(ends_early, "{name=around}{}");
    check(stays_open, "{}{name=open}");
    assert_int_equal(ph_annotation_depth(), 1);
    check(one_kernel, "{name=open}");
    assert_ok(ph_annotation_pop(world.stream));
    check(one_kernel, "{}");
}

static ph_status fails(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_annotation_push(stream, "lost", NULL));
    PH_TRY(ph_annotation_push(stream, "deeper", NULL));
    PH_TRY(kernel(stream));
    return ph_fail(PH_ERROR_ARGUMENT, "boom");
}

TEST(test_a_capture_that_fails_leaves_its_scopes)
{
    ph_graph *graph;
    ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_create(&graph, NULL));
    size_t depth = ph_annotation_depth();
    assert_error(ph_graph_capture(graph, world.stream, &options, fails, NULL), PH_ERROR_ARGUMENT,
                 "boom");
    assert_int_equal(ph_annotation_depth(), depth + 2);
    ph_annotation_unwind(depth);
    assert_int_equal(ph_annotation_depth(), depth);
    ph_annotation_unwind(5); /* nothing is above */
    ph_graph_destroy(graph);
    check(one_kernel, "{}");
}

static ph_status unwinds(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_annotation_push(stream, "a", NULL));
    PH_TRY(ph_annotation_push(stream, "b", NULL));
    PH_TRY(ph_annotation_push(stream, "c", NULL));
    PH_TRY(kernel(stream));
    ph_annotation_unwind(ph_annotation_depth() - 2);
    PH_TRY(kernel(stream));
    ph_annotation_unwind(0);
    return kernel(stream);
}

/* ---- scopes that a function forgets ---- */
static ph_status forgets(ph_stream *stream, void *user)
{
    const size_t *count = user;
    for (size_t i = 0; i < *count; i++)
        PH_TRY(ph_annotation_push(stream, i ? "inner" : "forgotten", NULL));
    return kernel(stream);
}

TEST(test_scopes_that_a_function_leaves_open)
{
    ph_graph *graph;
    size_t counts[] = {1, 2, 5};
    static const char *const words[] = {
        "ph_graph_capture: the function left 1 scope open (\"forgotten\"): it marks what this "
        "thread "
        "captures from now "
        "on; ph_annotation_pop, or ph_annotation_unwind",
        "left 2 scopes open (\"inner\", \"forgotten\"): they mark",
        "left 5 scopes open (\"inner\", \"inner\", \"inner\" and 2 more): they mark",
    };
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(
        ph_annotation_push(world.stream, "of the caller", NULL)); /* which is nobody's fault */
    for (size_t i = 0; i < 3; i++) {
        t_log_start();
        assert_ok(ph_graph_capture(graph, world.stream, NULL, forgets, &counts[i]));
        assert_int_equal(t_log_count(words[i]), 1);
        assert_int_equal(t_log_count("left"), 1);
        t_log_stop();
        assert_int_equal(ph_annotation_depth(), 1 + counts[i]);
        ph_annotation_unwind(1);
        assert_ok(ph_graph_reset(graph));
    }
    t_log_start();
    counts[0] = 0;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, forgets, &counts[0]));
    assert_int_equal(t_log_count("left"), 0);
    t_log_stop();
    ph_annotation_unwind(0);
    ph_graph_destroy(graph);
}

TEST(test_unwinding_in_a_capture)
{
    check(unwinds, "{name=c}{name=a}{}");
}

/* ---- what this library did not submit ---- */
static ph_status foreign_fill(ph_stream *stream)
{
    ph__drv_memset fill = {x, 1, 4, N};
    assert_int_equal(stream->device->driver->fill(stream->handle, &fill), 0);
    return PH_OK;
}

static ph_status foreign_body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(foreign_fill(stream));
    PH_TRY(ph_annotation_push(stream, "foreign", NULL));
    PH_TRY(foreign_fill(stream));
    PH_TRY(foreign_fill(stream));
    PH_TRY(ph_annotation_pop(stream));
    return foreign_fill(stream);
}

TEST(test_nodes_of_other_code)
{
    check(foreign_body, "{}{name=foreign}{name=foreign}{}");
}

static ph_status put_cell(uint64_t *values, void *user)
{
    (void)user;
    values[0] = 7;
    return PH_OK;
}

static ph_status cells_body(ph_stream *stream, void *user)
{
    (void)user;
    uint64_t *cell;
    const ph_cells_source source = {.count = 1, .values = put_cell};
    PH_TRY(ph_annotation_push(stream, "draws", NULL));
    PH_TRY(ph_cells_create(&cell, stream, &source));
    PH_TRY(ph_memcpy(x, cell, sizeof *cell, stream));
    return ph_annotation_pop(stream);
}

TEST(test_the_writer_of_cells_is_in_no_scope)
{
    check(cells_body, "{}{name=draws}");
}

/* ---- threads ---- */
typedef struct turns {
    atomic_int turn;
    ph_stream *stream;
} turns;

static void wait_for(turns *t, int turn)
{
    while (atomic_load(&t->turn) != turn)
        (void)sched_yield();
}

static void *other_thread(void *user)
{
    turns *t = user;
    wait_for(t, 1);
    assert_ok(kernel(t->stream)); /* it has no scope open */
    assert_ok(ph_annotation_push(t->stream, "theirs", NULL));
    assert_ok(kernel(t->stream));
    atomic_store(&t->turn, 2);
    wait_for(t, 3);
    assert_ok(kernel(t->stream));
    atomic_store(&t->turn, 4);
    wait_for(t, 5);
    assert_ok(ph_annotation_pop(t->stream)); /* ours stays in force */
    atomic_store(&t->turn, 6);
    return NULL;
}

static ph_status threads_body(ph_stream *stream, void *user)
{
    (void)user;
    turns t = {0, stream};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &t), 0);
    PH_TRY(ph_annotation_push(stream, "ours", NULL));
    PH_TRY(kernel(stream));
    atomic_store(&t.turn, 1);
    wait_for(&t, 2);
    PH_TRY(kernel(stream));
    atomic_store(&t.turn, 3);
    wait_for(&t, 4);
    PH_TRY(kernel(stream));
    atomic_store(&t.turn, 5);
    wait_for(&t, 6);
    PH_TRY(foreign_fill(stream));
    assert_int_equal(pthread_join(thread, NULL), 0);
    return ph_annotation_pop(stream);
}

TEST(test_each_thread_has_its_scopes)
{
    check(threads_body, "{name=ours}{}{name=theirs}{name=ours}{name=theirs}{name=ours}{name=ours}");
}

typedef struct lane_work {
    ph_stream *stream;
    const char *name;
    int32_t *at;
    ph_status status;
} lane_work;

enum {
    ROUNDS = 200
};

static void *submit_many(void *user)
{
    lane_work *w = user;
    w->status = ph_annotation_push(w->stream, w->name, NULL);
    for (int i = 0; i < ROUNDS && w->status == PH_OK; i++)
        w->status = t_fill(&world, w->stream, w->at, N, 1);
    if (w->status == PH_OK)
        w->status = ph_annotation_pop(w->stream);
    return NULL;
}

static ph_status at_once_body(ph_stream *stream, void *user)
{
    lane_work *work = user;
    pthread_t threads[2];
    PH_TRY(kernel(stream));
    PH_TRY(ph_stream_wait_stream(side, stream));
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &work[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    PH_TRY(work[0].status);
    PH_TRY(work[1].status);
    return ph_stream_wait_stream(stream, side);
}

/* From the second thread's first call on every node gets its own thread's scope: each stream's
 * addresses tell whose node it is. */
TEST(test_threads_that_submit_at_once)
{
    ph_graph *graph;
    const ph_record *record;
    lane_work work[2] = {{world.stream, "main", x, PH_OK}, {side, "side", y, PH_OK}};
    ph_capture_options options = {.enable_annotations = true, .mode = PH_CAPTURE_RELAXED};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &options, at_once_body, work));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 2 * ROUNDS + 1);
    size_t wrong = 0;
    for (size_t i = 1; i < ph_record_node_count(record); i++) {
        const ph_annotation_pair *pairs;
        struct t_fill_i32 args;
        ph_node_info info;
        size_t count;
        assert_ok(ph_record_node(&info, record, i));
        memcpy(&args, info.args, sizeof args);
        assert_ok(ph_record_annotation(&pairs, &count, record, i));
        wrong += count != 1 || strcmp(pairs[0].text, args.y == x ? "main" : "side") != 0;
    }
    assert_true(wrong <= 2); /* what was being submitted at the moment when a second thread came */
    ph_graph_destroy(graph);
}

static void *leaves_scopes_open(void *user)
{
    (void)user;
    assert_ok(ph_annotation_push(world.stream, "a", NULL));
    assert_ok(ph_annotation_push(world.stream, "b", NULL));
    return NULL;
}

TEST(test_a_thread_that_ends_takes_its_scopes_along)
{
    pthread_t thread;
    int64_t live = ph__alloc_live();
    assert_int_equal(pthread_create(&thread, NULL, leaves_scopes_open, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ph__alloc_live(), live);
}

/* ---- reasons ---- of what a library adds by itself: no pairs, and no scope where there are no
 * others. */
static ph_status with_reasons(ph_stream *stream, void *user)
{
    const ph_annotation_pair why = {.key = "made_for", .type = PH_ANNOTATION_TEXT, .text = "test"};
    (void)user;
    PH_TRY(ph_annotation_resume(stream, NULL, &why, 1));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "outer", NULL));
    PH_TRY(ph_annotation_resume(stream, NULL, &why, 1));
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(kernel(stream));
    return ph_annotation_pop(stream);
}

static size_t reasons_of(const ph_record *record)
{
    char *json;
    size_t found = 0;
    assert_ok(ph_record_json(&json, record));
    for (const char *at = json; (at = strstr(at, "\"made_for\":\"test\"")) != NULL; at++)
        found++;
    ph_string_free(json);
    return found;
}

static ph_status without_reasons(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_push(stream, "outer", NULL));
    PH_TRY(kernel(stream));
    PH_TRY(kernel(stream));
    return ph_annotation_pop(stream);
}

static size_t nodes_with_breadcrumbs(ph_capture_fn body)
{
    ph_graph *graph;
    const ph_record *record;
    const ph_capture_options options = {.enable_annotations = true, .breadcrumbs = true};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &options, body, NULL));
    assert_ok(ph_graph_record(&record, graph));
    size_t count = ph_record_node_count(record);
    ph_graph_destroy(graph);
    return count;
}

TEST(reasons_are_no_annotations)
{
    ph_graph *graph;
    const ph_record *record;
    const ph_annotation_pair *pairs;
    size_t count;
    assert_ok(ph_graph_create(&graph, NULL));
    t_capture_annotated(graph, world.stream, with_reasons, NULL);
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 3);
    assert_int_equal(reasons_of(record), 2);
    assert_string_equal(ph_record_made_for(record, 0), "test");
    assert_string_equal(ph_record_made_for(record, 1), "test");
    assert_null(ph_record_made_for(record, 2));
    assert_null(ph_record_made_for(record, 3));
    assert_null(ph_record_made_for(NULL, 0));
    assert_int_equal(t_annotated(), 2); /* the outer scope's */
    assert_ok(ph_record_annotation(&pairs, &count, record, 0));
    assert_int_equal(count, 0);
    assert_ok(ph_record_annotation(&pairs, &count, record, 1));
    assert_int_equal(count, 1);
    assert_string_equal(pairs[0].text, "outer");
    ph_graph_destroy(graph);
    /* Breadcrumbs tell of the program's scopes alone. */
    assert_int_equal(nodes_with_breadcrumbs(with_reasons), nodes_with_breadcrumbs(without_reasons));
}

/* ---- captures that are not annotated, and two at once ---- */
TEST(test_without_enable_annotations_nothing_is_marked)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, nested_body, NULL));
    t_expect_annotations(graph, "{}{}{}{}{}{}");
    assert_int_equal(t_annotated(), 0);
    ph_graph_destroy(graph);
}

TEST(test_two_captures_of_one_thread)
{
    t_world second;
    ph_graph *here, *there;
    ph_capture_options options = {.enable_annotations = true, .mode = PH_CAPTURE_RELAXED};
    t_open(&second, NULL);
    int32_t *z;
    assert_ok(PH_NEW(&z, N, second.stream));
    assert_ok(ph_graph_create(&here, NULL));
    assert_ok(ph_graph_create(&there, NULL));
    assert_ok(ph_graph_capture_begin(here, world.stream, &options));
    assert_ok(ph_graph_capture_begin(there, second.stream, &options));
    assert_ok(ph_annotation_push(world.stream, "both", NULL));
    assert_ok(kernel(world.stream));
    assert_ok(t_fill(&second, second.stream, z, N, 1));
    assert_ok(ph_annotation_pop(world.stream));
    assert_ok(t_fill(&second, second.stream, z, N, 1));
    assert_ok(ph_graph_capture_end(there, PH_OK));
    assert_ok(kernel(world.stream));
    assert_ok(ph_graph_capture_end(here, PH_OK));
    t_expect_annotations(here, "{name=both}{}");
    t_expect_annotations(there, "{name=both}{}");
    ph_graph_destroy(here);
    ph_graph_destroy(there);
    ph_free(z, second.stream);
    t_close(&second);
}

/* ---- dead captures ---- */
TEST(test_scopes_in_a_dead_capture)
{
    ph_graph *graph;
    ph_event *event;
    ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_event_create(&event, world.device, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_ok(ph_annotation_push(world.stream, "before", NULL));
    /* kills it */
    assert_int_not_equal(world.device->driver->stream_synchronize(world.stream->handle), 0);
    assert_ok(ph_annotation_push(world.stream, "in", NULL));
    assert_int_not_equal(kernel(world.stream), PH_OK);
    assert_ok(ph_annotation_pop(world.stream));
    assert_ok(ph_annotation_pop(world.stream));
    t_log_start();
    assert_status(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE);
    t_log_stop();
    ph_event_destroy(event);
    ph_graph_destroy(graph);
    check(one_kernel, "{}");
}

/* ---- nested graphs ---- */
static ph_graph *nested;

static ph_status inner_body(ph_stream *stream, void *user)
{
    (void)user;
    const ph_annotation_pair pair = t_integer("layer", 1);
    const ph_annotation_options options = {.pairs = &pair, .count = 1};
    PH_TRY(kernel(stream));
    PH_TRY(ph_annotation_push(stream, "part", &options));
    PH_TRY(kernel(stream));
    return ph_annotation_pop(stream);
}

static ph_status outer_body(ph_stream *stream, void *user)
{
    (void)user;
    const ph_annotation_pair pair = t_integer("step", 9);
    const ph_annotation_options options = {.pairs = &pair, .count = 1};
    PH_TRY(ph_graph_replay(nested, stream));
    PH_TRY(ph_annotation_push(stream, "whole", &options));
    PH_TRY(ph_graph_replay(nested, stream));
    PH_TRY(ph_annotation_pop(stream));
    return kernel(stream);
}

static void check_nested(bool annotated, const char *want)
{
    ph_graph *graph, *third;
    ph_capture_options options = {.enable_annotations = annotated};
    assert_ok(ph_graph_create(&nested, NULL));
    assert_ok(ph_graph_capture(nested, world.stream, &options, inner_body, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    t_capture_annotated(graph, world.stream, outer_body, NULL);
    ph_graph_destroy(nested);
    t_expect_annotations(graph, want);
    /* and once more, two levels deep */
    nested = graph;
    assert_ok(ph_graph_create(&third, NULL));
    t_capture_annotated(third, world.stream, outer_body, NULL);
    ph_graph_destroy(graph);
    char text[T_PAIRS_TEXT];
    (void)snprintf(text, sizeof text, "{}(%s)", want);
    const ph_record *record;
    char got[T_PAIRS_TEXT];
    assert_ok(ph_graph_record(&record, third));
    t_annotations_of(got, record);
    assert_memory_equal(got, text, strlen(text));
    ph_graph_destroy(third);
}

TEST(test_nested_graphs_keep_their_annotations)
{
    check_nested(true, "{}({}{name=part, layer=1})"
                       "{name=whole, step=9}({name=whole, step=9}{name=part, step=9, layer=1}){}");
}

TEST(test_nested_graphs_without_annotations)
{
    check_nested(false, "{}({}{}){name=whole, step=9}({name=whole, step=9}{name=whole, step=9}){}");
}

/* ---- what is open, for work that comes later ---- */
TEST(test_a_mark_is_taken_along_and_resumed)
{
    const ph_annotation_pair phase = t_text("autograd_phase", "backward"),
                             step = t_integer("step", 7);
    const ph_annotation_options with_step = {.pairs = &step, .count = 1};
    ph_graph *graph;
    ph_capture_options options = {.enable_annotations = true};
    assert_null(ph_annotation_current());
    assert_ok(ph_annotation_push(world.stream, "forward", NULL));
    ph_annotation_scope *mark = ph_annotation_current();
    assert_non_null(mark);
    assert_ok(ph_annotation_pop(world.stream));
    assert_ptr_equal(ph_annotation_retain(mark), mark);
    ph_annotation_release(mark);

    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_ok(ph_annotation_resume(world.stream, mark, &phase, 1));
    assert_ok(kernel(world.stream));
    assert_ok(ph_annotation_pop(world.stream));
    assert_ok(ph_annotation_push(world.stream, "pass", &with_step));
    assert_ok(ph_annotation_resume(world.stream, mark, &phase, 1));
    assert_ok(kernel(world.stream));
    assert_ok(ph_annotation_pop(world.stream));
    /* nothing was open: the pairs alone */
    assert_ok(ph_annotation_resume(world.stream, NULL, &phase, 1));
    assert_ok(kernel(world.stream));
    assert_ok(ph_annotation_resume(world.stream, NULL, NULL, 0));
    assert_ok(kernel(world.stream));
    assert_ok(ph_annotation_pop(world.stream));
    assert_ok(ph_annotation_pop(world.stream));
    ph_clear_kernel_annotations();
    assert_null(ph_annotation_current()); /* what is open from before is void too */
    assert_ok(ph_annotation_resume(world.stream, mark, &phase, 1));
    assert_ok(kernel(world.stream));
    assert_ok(ph_annotation_push(world.stream, "after", NULL));
    ph_annotation_scope *after = ph_annotation_current();
    assert_non_null(after);
    ph_annotation_release(after);
    assert_int_equal(ph_annotation_depth(), 3);
    ph_annotation_unwind(0);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    t_expect_annotations(
        graph,
        "{name=forward, autograd_phase=backward}"
        "{name=forward, step=7, autograd_phase=backward}"
        "{name=pass, step=7, autograd_phase=backward}{name=pass, step=7, autograd_phase=backward}"
        "{name=pass, step=7}");
    ph_graph_destroy(graph);
    ph_annotation_release(mark);
    ph_annotation_release(NULL);
    assert_null(ph_annotation_retain(NULL));
}

static void expect_taken(const char *want)
{
    char text[T_PAIRS_TEXT];
    ph_annotation_scope *mark = ph_annotation_current();
    t_pairs(text, mark ? mark->pairs : NULL, mark ? mark->count : 0);
    ph_annotation_release(mark);
    assert_string_equal(text, want);
}

/* A scope that is forward_only keeps back what it brought itself; inner ones bring all that is
 * open. */
TEST(test_what_forward_only_keeps_back)
{
    const ph_annotation_pair extra = t_integer("layer", 2);
    const ph_annotation_options forward = {.pairs = &extra, .count = 1, .forward_only = true};
    assert_ok(ph_annotation_push(world.stream, "alone", &forward));
    expect_taken("{}");
    assert_ok(ph_annotation_pop(world.stream));
    assert_ok(ph_annotation_push(world.stream, "outer", NULL));
    assert_ok(ph_annotation_push(world.stream, "opted out", &forward));
    expect_taken("{name=outer}");
    assert_ok(ph_annotation_resume(world.stream, NULL, NULL, 0)); /* adds nothing, here either */
    expect_taken("{name=outer}");
    assert_ok(ph_annotation_push(world.stream, "inner", NULL));
    expect_taken("{name=inner, layer=2}");
    ph_clear_kernel_annotations();
    ph_annotation_unwind(1);
    expect_taken("{}");
    assert_ok(ph_annotation_push(world.stream, "again", &forward));
    expect_taken("{}");
    ph_annotation_unwind(0);
}

/* ---- thousands ---- */
static ph_status many_body(ph_stream *stream, void *user)
{
    (void)user;
    char name[32];
    for (int i = 0; i < 2000; i++) {
        if (i % 10 == 0) {
            (void)snprintf(name, sizeof name, "scope %d", i / 10);
            PH_TRY(ph_annotation_push(stream, name, NULL));
        }
        PH_TRY(kernel(stream));
        if (i % 10 == 9)
            PH_TRY(ph_annotation_pop(stream));
    }
    return PH_OK;
}

TEST(test_many_nodes_and_scopes)
{
    ph_graph *graph;
    const ph_record *record;
    char want[32];
    assert_ok(ph_graph_create(&graph, NULL));
    t_capture_annotated(graph, world.stream, many_body, NULL);
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 2000);
    for (size_t i = 0; i < 2000; i++) {
        const ph_annotation_pair *pairs;
        size_t count;
        assert_ok(ph_record_annotation(&pairs, &count, record, i));
        assert_int_equal(count, 1);
        (void)snprintf(want, sizeof want, "scope %zu", i / 10);
        assert_string_equal(pairs[0].key, "name");
        assert_string_equal(pairs[0].text, want);
    }
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scopes_nest),
        cmocka_unit_test(test_pairs_merge_and_the_inner_one_wins),
        cmocka_unit_test(test_all_kinds_of_nodes),
        cmocka_unit_test(test_streams_that_join),
        cmocka_unit_test(test_a_lane_of_the_callers),
        cmocka_unit_test(test_scopes_that_are_open_around_a_capture),
        cmocka_unit_test(test_a_capture_that_fails_leaves_its_scopes),
        cmocka_unit_test(test_scopes_that_a_function_leaves_open),
        cmocka_unit_test(test_unwinding_in_a_capture),
        cmocka_unit_test(test_nodes_of_other_code),
        cmocka_unit_test(test_the_writer_of_cells_is_in_no_scope),
        cmocka_unit_test(test_each_thread_has_its_scopes),
        cmocka_unit_test(test_threads_that_submit_at_once),
        cmocka_unit_test(test_a_thread_that_ends_takes_its_scopes_along),
        cmocka_unit_test(reasons_are_no_annotations),
        cmocka_unit_test(test_without_enable_annotations_nothing_is_marked),
        cmocka_unit_test(test_two_captures_of_one_thread),
        cmocka_unit_test(test_scopes_in_a_dead_capture),
        cmocka_unit_test(test_nested_graphs_keep_their_annotations),
        cmocka_unit_test(test_nested_graphs_without_annotations),
        cmocka_unit_test(test_a_mark_is_taken_along_and_resumed),
        cmocka_unit_test(test_what_forward_only_keeps_back),
        cmocka_unit_test(test_many_nodes_and_scopes),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
