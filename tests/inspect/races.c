/* SPDX-License-Identifier: MIT */
/* tests/inspect/races.c: ph_graph_find_races, and ph_graph_verify on a wait that is missing. */
#include "inspect/races/races.h"
#include "base/alloc.h"
#include "fake/fake_cuda.h"
#include "support/fixture.h"
#include <phonograph/annotation.h>
#include <phonograph/inspect/locate.h>
#include <phonograph/inspect/profile.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 1024,
    SEEDS = 30
};
static t_world world;
static ph_stream *side;
static ph_graph *graph;
static float *x, *y, *w;
static ph_kernel *plain, *declared;
static ph_races *races;
static ph_race race;

/* ---- kernels ---- y += a x: of the second kernel all is declared. */
typedef struct axpy_args {
    uint64_t n;
    const float *x;
    float *y;
    float a;
} axpy_args;

static void axpy_on_host(const ph_block_range *range, const void *args)
{
    const axpy_args *a = args;
    uint64_t end = range->end * range->block[0];
    for (uint64_t i = range->begin * range->block[0]; i < end && i < a->n; i++) {
        float sum, more;
        __atomic_load(&a->y[i], &sum, __ATOMIC_RELAXED); /* others may be there: on purpose */
        __atomic_load(&a->x[i], &more, __ATOMIC_RELAXED);
        sum += a->a * more;
        __atomic_store(&a->y[i], &sum, __ATOMIC_RELAXED);
    }
}

#define AXPY_TEXT(name)                                                                            \
    "extern \"C\" __global__ void " name "(unsigned long long n, const float *x, float *y, "       \
    "float a)\n{\n"                                                                                \
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"      \
    "    if (i < n) y[i] += a * x[i];\n}\n"
static const ph_param plain_params[] = {
    PH_PARAM(axpy_args, n, PH_PARAM_VALUE), PH_PARAM(axpy_args, x, PH_PARAM_ADDRESS),
    PH_PARAM(axpy_args, y, PH_PARAM_ADDRESS), PH_PARAM(axpy_args, a, PH_PARAM_VALUE)};
static const ph_param declared_params[] = {
    PH_PARAM(axpy_args, n, PH_PARAM_VALUE),
    PH_PARAM_ARRAY(axpy_args, x, PH_ACCESS_IN, n, sizeof(float)),
    PH_PARAM_ARRAY(axpy_args, y, PH_ACCESS_INOUT, n, sizeof(float)),
    PH_PARAM(axpy_args, a, PH_PARAM_VALUE)};
#define AXPY(function, list)                                                                       \
    {                                                                                              \
        .name = function, .cuda = AXPY_TEXT(function), .host = axpy_on_host,                       \
        .args_size = sizeof(axpy_args), .params = list, .param_count = 4                           \
    }
static const ph_kernel_source plain_source = AXPY("axpy_plain", plain_params),
                              declared_source = AXPY("axpy_declared", declared_params);

static ph_status axpy(ph_kernel *kernel, ph_stream *stream, size_t n, const float *from, float *to)
{
    axpy_args args;
    memset(&args, 0, sizeof args);
    args.n = n;
    args.x = from;
    args.y = to;
    args.a = 2;
    const ph_launch_config config = t_config(n);
    return ph_launch(stream, kernel, &config, &args, sizeof args);
}

/* ---- what is around a test ---- */
static void open_on(const char *device)
{
    t_open(&world, device);
    fake_cuda_register(&plain_source);
    fake_cuda_register(&declared_source);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_kernel_create(&plain, world.device, &plain_source));
    assert_ok(ph_kernel_create(&declared, world.device, &declared_source));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(PH_NEW(&w, N, world.stream));
    assert_ok(t_fill_f(&world, world.stream, x, N, 1));
    assert_ok(t_fill_f(&world, world.stream, y, N, 0));
    assert_ok(t_fill_f(&world, world.stream, w, N, 0));
    assert_ok(ph_graph_create(&graph, NULL));
}

FIXTURE(open_all)
{
    open_on(NULL);
    return 0;
}

FIXTURE(close_all)
{
    ph_races_destroy(races);
    races = NULL;
    ph_graph_destroy(graph);
    ph_kernel_release(plain);
    ph_kernel_release(declared);
    ph_free(x, NULL);
    ph_free(y, NULL);
    ph_free(w, NULL);
    assert_ok(ph_device_synchronize(world.device));
    ph_stream_destroy(side);
    t_close(&world);
    return 0;
}

/* How many races: certain ones and possible ones. */
static void find(ph_capture_fn body, size_t certain, size_t possible)
{
    size_t sure = 0;
    char *text = NULL;
    ph_races_destroy(races);
    races = NULL;
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_find_races(&races, graph));
    size_t count = ph_races_count(races, &sure);
    if (sure != certain || count != certain + possible) {
        assert_ok(ph_races_text(&text, races));
        fail_msg("%s", text);
    }
    assert_int_equal(ph_races_found(races), count);
    if (count)
        assert_ok(ph_races_at(&race, races, 0));
    assert_int_equal(ph_races_at(&race, races, count), PH_ERROR_NOT_FOUND);
    if (count)
        assert_ok(ph_races_at(&race, races, 0));
}

/* ---- a wait that is missing ---- in 30 of 30 orders */
static ph_kernel *used;

static ph_status unordered(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_memset(y, 0, N * sizeof *y, stream));
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(axpy(used, side, N, x, y));
    PH_TRY(axpy(used, stream, N, y, w)); /* does not wait for side */
    return ph_stream_wait_stream(stream, side);
}

static void check_verify(ph_kernel *kernel, int replays)
{
    const ph_verify_output output = {w, PH_NUMBER_F32, N, "w"};
    const ph_verify_options options = {.outputs = &output, .output_count = 1};
    ph_verify_result result;
    used = kernel;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, unordered, NULL));
    for (int i = 0; i < replays; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    for (int named = 0; named < 2; named++) {
        assert_ok(ph_graph_verify(&result, graph, world.stream, unordered, NULL,
                                  named ? &options : NULL));
        if (result.verdict != PH_VERIFY_RACE || result.node != 2 ||
            !strstr(result.message, kernel == plain ? "both address" : "both use"))
            fail_msg("verdict %d, node %zu: %s", (int)result.verdict, result.node, result.message);
    }
    assert_ok(ph_graph_reset(graph));
}

static void check_wait(void)
{
    for (int replays = 0; replays <= 5; replays += 5) {
        check_verify(plain, replays);
        check_verify(declared, replays);
    }
}

TEST(test_a_missing_wait_is_a_race)
{
    for (int seed = 1; seed <= SEEDS; seed++) {
        char device[40];
        (void)snprintf(device, sizeof device, "host:chaos=%d", seed);
        open_on(device);
        check_wait();
        assert_int_equal(close_all(state), 0);
    }
    open_on(NULL);
    check_wait();
    assert_int_equal(close_all(state), 0);
}

/* ---- certain and possible ---- */
static ph_status in_scopes(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_annotation_push(side, "producer", NULL));
    PH_TRY(axpy(declared, side, N, x, y));
    PH_TRY(ph_annotation_pop(side));
    PH_TRY(ph_annotation_push(stream, "consumer", NULL));
    PH_TRY(axpy(declared, stream, N / 2, y + N / 4, w));
    PH_TRY(ph_annotation_pop(stream));
    return ph_stream_wait_stream(stream, side);
}

TEST(test_a_certain_race_has_names_scopes_and_bytes)
{
    ph_capture_options options = {.enable_annotations = true};
    ph_races_destroy(races);
    assert_ok(ph_graph_capture(graph, world.stream, &options, in_scopes, NULL));
    assert_ok(ph_graph_find_races(&races, graph));
    assert_int_equal(ph_races_count(races, NULL), 1);
    assert_ok(ph_races_at(&race, races, 0));
    assert_true(race.certain);
    assert_int_equal(race.first.node, 0);
    assert_int_equal(race.second.node, 1);
    assert_string_equal(race.first.name, "axpy_declared");
    assert_string_equal(race.first.scope, "name: producer");
    assert_string_equal(race.second.scope, "name: consumer");
    assert_string_equal(race.first.word, "y");
    assert_string_equal(race.second.word, "x");
    assert_int_equal(race.first.access, PH_ACCESS_INOUT);
    assert_int_equal(race.second.access, PH_ACCESS_IN);
    assert_int_equal(race.address, (uintptr_t)(y + N / 4));
    assert_int_equal(race.bytes, N / 2 * sizeof *y);
    assert_int_equal(race.base, (uintptr_t)y);
    assert_non_null(
        strstr(race.text, "node 0 (axpy_declared) {name: producer} reads and writes y"));
    assert_non_null(strstr(race.text, "2048 bytes at 0x"));
}

/* The file with the times has them too. */
TEST(profiled_records_have_their_races)
{
    static char text[1 << 16];
    char path[80];
    ph_profile *profile;
    (void)snprintf(path, sizeof path, "/tmp/phonograph-races-%d.json", (int)getpid());
    assert_ok(ph_graph_capture(graph, world.stream, NULL, in_scopes, NULL));
    assert_ok(ph_graph_profile(&profile, graph, world.stream, &(ph_profile_options){.replays = 2}));
    assert_ok(ph_profile_dump_record(profile, graph, path));
    ph_profile_destroy(profile);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    assert_int_equal(unlink(path), 0);
    assert_non_null(strstr(text, "\"races\":{\"certain\":1,\"possible\":0,\"found\":1,\"list\":[{"
                                 "\"certain\":true,\"first\":0,\"second\":1,\"address\":\"0x"));
    assert_non_null(strstr(text, "\"bytes\":2048,\"text\":\"a race: node 0 (axpy_declared) "));
}

static ph_status in_halves(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(axpy(used, side, N / 2, x, y));
    PH_TRY(axpy(used, stream, N / 2, x, y + N / 2));
    return ph_stream_wait_stream(stream, side);
}

TEST(declared_halves_of_an_allocation_do_not_race)
{
    used = declared;
    find(in_halves, 0, 0);
    used = plain;
    find(in_halves, 0, 1);
    assert_false(race.certain);
    assert_non_null(strstr(race.text, "possibly a race: "));
}

static ph_status ordered(ph_stream *stream, void *user)
{
    PH_TRY(unordered(stream, user));
    PH_TRY(axpy(used, stream, N, y, w));
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(axpy(used, side, N, x, y));
    return ph_stream_wait_stream(stream, side);
}

TEST(test_a_path_is_an_order)
{
    used = declared;
    find(ordered, 1, 0);
    assert_int_equal(race.second.node, 2);
    used = plain; /* x, too, which both kernels may write */
    find(unordered, 0, 1);
}

/* ---- copies and fills ---- */
static size_t apart;

static ph_status transfers(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_memcpy(y, x, N, side));
    PH_TRY(ph_memcpy(w, x, N, stream)); /* both read x */
    PH_TRY(ph_memset((char *)y + apart, 0, N, stream));
    return ph_stream_wait_stream(stream, side);
}

TEST(test_copies_and_fills)
{
    apart = N;
    find(transfers, 0, 0);
    apart = N - 1;
    find(transfers, 1, 0);
    assert_int_equal(race.bytes, 1);
    assert_string_equal(race.first.word, "dst");
}

/* ---- orders beside the edges ---- */
static void nothing(void *user)
{
    (void)user;
}

static ph_status beside_hosts(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_memset(y, 0, N, side));
    PH_TRY(ph_launch_host(side, nothing, NULL));
    PH_TRY(ph_launch_host(stream, nothing, NULL));
    PH_TRY(ph_memset(y, 1, N, stream));
    return ph_stream_wait_stream(stream, side);
}

TEST(test_host_functions_may_order)
{
    find(beside_hosts, 0, 1);
    assert_true(race.first.declared && race.second.declared);
}

static ph_event *event;

static ph_status beside_events(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_memset(y, 0, N, side));
    PH_TRY(ph_event_record(event, side));
    PH_TRY(ph_stream_wait_event(stream, event));
    PH_TRY(ph_memset(y, 1, N, stream));
    return ph_stream_wait_stream(stream, side);
}

TEST(test_external_events_may_order)
{
    assert_ok(ph_event_create(&event, world.device, &(ph_event_options){.external = true}));
    find(beside_events, 0, 1);
    assert_ok(ph_graph_reset(graph));
    ph_event_destroy(event);
}

/* ---- nested graphs ---- */
static ph_graph *inner;

static ph_status nested(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_graph_replay(inner, side));
    PH_TRY(ph_memset(y, 1, N, stream));
    return ph_stream_wait_stream(stream, side);
}

static ph_status inner_body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_memset(w, 0, N, stream));
    return axpy(declared, stream, N, x, y);
}

TEST(test_a_nested_graph)
{
    assert_ok(ph_graph_create(&inner, &(ph_graph_options){.keep_graph = true}));
    assert_ok(ph_graph_capture(inner, world.stream, NULL, inner_body, NULL));
    find(nested, 1, 0);
    const ph_race_side *deep = race.first.access == PH_ACCESS_INOUT ? &race.first : &race.second;
    assert_string_equal(deep->name, "graph: axpy_declared");
    assert_ok(ph_graph_reset(graph));
    ph_graph_destroy(inner);
}

/* ---- memory of the capture ---- comes again on another stream only behind an order */
static ph_status temporaries(ph_stream *stream, void *user)
{
    float *here = NULL;
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    for (int i = 0; i < 12; i++) {
        ph_stream *on = i % 3 == 0 ? side : stream;
        PH_TRY(PH_NEW(&here, N, on));
        PH_TRY(ph_memset(here, (uint8_t)i, N * sizeof *here, on));
        PH_TRY(axpy(declared, on, N, here, i % 3 == 0 ? y : w));
        ph_free(here, on);
    }
    return ph_stream_wait_stream(stream, side);
}

TEST(test_temporaries_do_not_race)
{
    find(temporaries, 0, 0);
}

/* ---- nodes of the library's own ---- */
static ph_status watched(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_annotation_push(side, "one", NULL));
    PH_TRY(ph_annotation_push(stream, "two", NULL));
    PH_TRY(axpy(declared, side, N, x, y));
    PH_TRY(axpy(declared, stream, N, x, w));
    PH_TRY(ph_finite_check(side, x, PH_NUMBER_F32, N, "x beside"));
    PH_TRY(ph_finite_check(stream, x, PH_NUMBER_F32, N, "x"));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_pop(side));
    return ph_stream_wait_stream(stream, side);
}

TEST(test_checks_and_breadcrumbs_do_not_race)
{
    ph_capture_options options = {.enable_annotations = true, .breadcrumbs = true};
    assert_ok(ph_graph_capture(graph, world.stream, &options, watched, NULL));
    assert_ok(ph_graph_find_races(&races, graph));
    if (ph_races_count(races, NULL)) {
        assert_ok(ph_races_at(&race, races, 0));
        fail_msg("%s", race.text);
    }
}

/* ---- random captures ---- against every pair of nodes */
enum {
    STREAMS = 5,
    NODES = 60
};
static ph_stream *many[STREAMS];
static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static ph_status scribble(ph_stream *stream, void *user)
{
    char *bytes = (char *)y;
    (void)user;
    for (int i = 0; i < STREAMS; i++)
        PH_TRY(ph_stream_wait_stream(many[i], stream));
    for (int i = 0; i < NODES; i++) {
        ph_stream *on = many[draw(STREAMS)];
        size_t from = draw(N), count = 1 + draw(draw(4) ? 40 : N);
        if (draw(3) == 0)
            PH_TRY(ph_stream_wait_stream(on, many[draw(STREAMS)]));
        switch (draw(4)) {
        case 0:
            PH_TRY(ph_memset(bytes + from, (uint8_t)i, count, on));
            break;
        case 1:
            PH_TRY(ph_memcpy((char *)w + 8 * i, bytes + from, 1 + count % 8, on));
            break;
        default: /* now and then one whose accesses are not declared */
            PH_TRY(axpy(draw(40) ? declared : plain, on, 1 + count / 8, x + from / 4,
                        (draw(2) ? y : w) + from / 8));
        }
    }
    for (int i = 0; i < STREAMS; i++)
        PH_TRY(ph_stream_wait_stream(stream, many[i]));
    return PH_OK;
}

static bool before[NODES + 1][NODES + 1];

/* Nothing nested, so that each node is its own. */
static bool races_with(const ph__access *a, const ph__access *b)
{
    return a->node < b->node && !before[a->node][b->node] && (a->writes || b->writes) &&
           a->begin < b->end && b->begin < a->end;
}

static void fill_before(const ph_record *record, size_t count)
{
    memset(before, 0, sizeof before);
    for (size_t n = 0; n < count; n++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, n));
        for (size_t d = 0; d < info.dependency_count; d++) {
            size_t on = ph_record_dependencies(record, n)[d];
            before[on][n] = true;
            for (size_t i = 0; i < n; i++)
                before[i][n] = before[i][n] || before[i][on];
        }
    }
}

/* Each race that is found is one, and each node that races with an earlier one is found, as
 * certain where one of its races is. */
static void check_against_pairs(const ph_record *record, const ph__accesses *all)
{
    size_t count = ph_record_node_count(record), sure;
    bool found[2][NODES + 1] = {{false}}, there[2][NODES + 1] = {{false}};
    assert_true(count <= NODES + 1);
    fill_before(record, count);
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < all->count; k++)
            if (races_with(&all->at[i], &all->at[k])) {
                there[0][all->at[k].node] = true;
                if (all->at[i].declared && all->at[k].declared)
                    there[1][all->at[k].node] = true;
            }
    (void)ph_races_count(races, &sure);
    for (size_t i = 0; i < ph_races_count(races, NULL); i++) {
        bool is_one = false;
        assert_ok(ph_races_at(&race, races, i));
        assert_int_equal(race.certain, i < sure);
        for (size_t j = 0; j < all->count; j++)
            for (size_t k = 0; k < all->count; k++)
                is_one =
                    is_one ||
                    (all->at[j].node == race.first.node && all->at[k].node == race.second.node &&
                     races_with(&all->at[j], &all->at[k]) &&
                     (!race.certain || (all->at[j].declared && all->at[k].declared)));
        assert_true(is_one);
        found[0][race.second.node] = true;
        found[1][race.second.node] = found[1][race.second.node] || race.certain;
    }
    for (size_t n = 0; n < count; n++)
        if (there[0][n] != found[0][n] || there[1][n] != found[1][n])
            fail_msg("node %zu: %d, certain %d by pairs; %d, certain %d found", n, there[0][n],
                     there[1][n], found[0][n], found[1][n]);
}

static void check_capture(void)
{
    const ph_record *record;
    ph__flat flat;
    ph__accesses all = {0};
    assert_ok(ph_graph_record(&record, graph));
    assert_true(ph__flat_make(&flat, record));
    assert_true(ph__accesses_collect(&all, &flat, record));
    check_against_pairs(record, &all);
    ph__vec_free(&all);
    ph__flat_free(&flat);
}

TEST(test_random_captures)
{
    int with = 0, without = 0;
    for (int i = 0; i < STREAMS; i++)
        assert_ok(ph_stream_create(&many[i], world.device, NULL));
    for (uint32_t i = 0; i < (t_nightly() ? 2000 : 150); i++) {
        seed = i;
        ph_races_destroy(races);
        races = NULL;
        assert_ok(ph_graph_capture(graph, world.stream, NULL, scribble, NULL));
        assert_ok(ph_graph_find_races(&races, graph));
        check_capture();
        *(ph_races_count(races, NULL) ? &with : &without) += 1;
        assert_ok(ph_graph_reset(graph));
    }
    assert_true(with > 20);
    for (int i = 0; i < STREAMS; i++)
        ph_stream_destroy(many[i]);
}

/* ---- growth ---- */
static size_t size;
static ph_status (*shape)(ph_stream *stream);

/* Small writes, and reads of all of it, on streams that wait for one another. */
static ph_status pipelines(ph_stream *stream)
{
    for (size_t i = 0; i < size; i++) {
        ph_stream *on = i % 2 ? side : stream, *other = i % 2 ? stream : side;
        PH_TRY(ph_stream_wait_stream(on, other));
        PH_TRY(ph_memset((char *)y + i % (4 * N), 1, 1, on));
        PH_TRY(ph_memcpy(w, y, 4 * N, on));
    }
    return ph_stream_wait_stream(stream, side);
}

/* Forks and joins, one after another, which all read x. */
static ph_status forks(ph_stream *stream)
{
    for (size_t i = 0; i < size; i++) {
        PH_TRY(ph_stream_wait_stream(side, stream));
        PH_TRY(axpy(declared, side, N, x, y));
        PH_TRY(axpy(declared, stream, N, x, w));
        PH_TRY(ph_stream_wait_stream(stream, side));
        PH_TRY(ph_memset((char *)x + i % (4 * N), 1, 1, stream));
    }
    return PH_OK;
}

/* As many branches as nodes, which write the same bytes: all pairs race. */
static ph_status branches(ph_stream *stream)
{
    ph_event *start;
    PH_TRY(ph_event_create(&start, world.device, NULL));
    PH_TRY(ph_memset(w, 0, 4, stream));
    PH_TRY(ph_event_record(start, stream));
    for (size_t i = 0; i < size; i++) {
        ph_stream *branch;
        PH_TRY(ph_stream_create(&branch, world.device, NULL));
        PH_TRY(ph_stream_wait_event(branch, start));
        PH_TRY(ph_memset(y, 1, 4 * N, branch));
        PH_TRY(ph_stream_wait_stream(stream, branch));
        ph_stream_destroy(branch);
    }
    ph_event_destroy(start);
    return PH_OK;
}

static ph_status grow(ph_stream *stream, void *user)
{
    (void)user;
    if (shape != branches)
        PH_TRY(ph_stream_wait_stream(side, stream));
    return shape(stream);
}

static uint64_t steps_of(size_t count)
{
    size = count;
    ph_races_destroy(races);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, grow, NULL));
    assert_ok(ph_graph_find_races(&races, graph));
    uint64_t steps = races->steps;
    assert_ok(ph_graph_reset(graph));
    return steps;
}

TEST(test_steps_grow_as_nodes)
{
    static ph_status (*const shapes[])(ph_stream *) = {pipelines, forks, branches};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        shape = shapes[i];
        size_t few = 100, many_nodes = 1600;
        uint64_t one = steps_of(few), sixteen = steps_of(many_nodes);
        if (sixteen > one * 16 * 3)
            fail_msg("shape %zu: %llu steps for %zu, %llu for %zu", i, (unsigned long long)one, few,
                     (unsigned long long)sixteen, many_nodes);
    }
}

/* ---- misuse ---- */
static ph_status make(const ph_param *params, size_t count)
{
    ph_kernel *kernel = NULL;
    ph_kernel_source source = plain_source;
    source.params = params;
    source.param_count = count;
    return ph_kernel_create(&kernel, world.device, &source);
}

TEST(test_declarations_are_checked)
{
    ph_param params[4];
    static const ph_param_access wrong[] = {
        {(ph_access_kind)4, 0, 4, {0}}, {PH_ACCESS_UNKNOWN, 0, 4, {0}}, {PH_ACCESS_IN, 1, 0, {0}},
        {PH_ACCESS_IN, 1 + 8, 4, {0}},  {PH_ACCESS_IN, 1 + 4, 4, {0}},  {PH_ACCESS_IN, 0, 4, {1}}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(params, plain_params, sizeof params);
        params[1].access = wrong[i];
        assert_int_equal(make(params, 4), PH_ERROR_ARGUMENT);
    }
    memcpy(params, plain_params, sizeof params);
    params[0].access.kind = PH_ACCESS_IN;
    assert_int_equal(make(params, 4), PH_ERROR_ARGUMENT);
    assert_non_null(strstr(ph_error_last()->message, "only an ADDRESS has one"));
}

TEST(bad_arguments_to_races_are_refused)
{
    char *text = NULL;
    assert_int_equal(ph_graph_find_races(NULL, graph), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_graph_find_races(&races, NULL), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_graph_find_races(&races, graph), PH_ERROR_STATE);
    assert_null(races);
    assert_int_equal(ph_races_at(&race, NULL, 0), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_races_text(&text, NULL), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_races_count(NULL, NULL), 0);
    assert_int_equal(ph_races_found(NULL), 0);
    ph_races_destroy(NULL);
    used = declared;
    find(unordered, 1, 0);
    assert_int_equal(ph_races_at(NULL, races, 0), PH_ERROR_ARGUMENT);
    assert_int_equal(ph_races_text(NULL, races), PH_ERROR_ARGUMENT);
    assert_ok(ph_races_text(&text, races));
    assert_non_null(strstr(text, "\n1 certain, 0 possible\n"));
    ph_string_free(text);
}

TEST(test_host_memory)
{
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t n = 0;
    used = declared;
    find(unordered, 1, 0);
    for (; status != PH_OK; n++) {
        ph_races_destroy(races);
        int64_t live = ph__alloc_live();
        ph__alloc_fail_after(n);
        status = ph_graph_find_races(&races, graph);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK)
            break;
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_null(races);
        assert_int_equal(ph__alloc_live(), live);
    }
    assert_true(n > 10);
}

#define RACES(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_missing_wait_is_a_race),
        RACES(test_a_certain_race_has_names_scopes_and_bytes),
        RACES(declared_halves_of_an_allocation_do_not_race),
        RACES(profiled_records_have_their_races),
        RACES(test_a_path_is_an_order),
        RACES(test_copies_and_fills),
        RACES(test_host_functions_may_order),
        RACES(test_external_events_may_order),
        RACES(test_a_nested_graph),
        RACES(test_temporaries_do_not_race),
        RACES(test_checks_and_breadcrumbs_do_not_race),
        RACES(test_random_captures),
        RACES(test_steps_grow_as_nodes),
        RACES(test_declarations_are_checked),
        RACES(bad_arguments_to_races_are_refused),
        RACES(test_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
