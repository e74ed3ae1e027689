/* SPDX-License-Identifier: MIT */
/* tests/inspect/checks.c: checks for NaN and infinity: what they find, and that they do nothing
 * until they are switched on. */
#include "support/sweep.h"

#include "support/fixture.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 1000,
    MANY = (4 << 20) + 3
};
static t_world world;
static ph_stream *side;
static ph_graph *graph;
static float *x, *y;

WORLD(world, .streams = {&side}, .graphs = {&graph},
      .arrays = {{&x, N, T_FLOATS, 1}, {&y, N, T_FLOATS, 1}});

static void put(void *at, const void *value, size_t bytes)
{
    assert_ok(ph_memcpy(at, value, bytes, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
}

static void put_float(float *at, float value)
{
    put(at, &value, sizeof value);
}

static void replay_and_wait(void)
{
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
}

static ph_finite_result result(size_t index)
{
    ph_finite_result found;
    assert_ok(ph_finite_at(&found, graph, index));
    return found;
}

static void assert_clean(size_t index)
{
    ph_finite_result found = result(index);
    assert_true(found.ran);
    assert_int_equal(found.bad, 0);
    assert_true(found.first == UINT64_MAX);
    assert_true(found.value == 0);
}

/* y += x, in two scopes, each checked. */
static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_annotation_push(stream, "layer 3", NULL));
    PH_TRY(ph_annotation_push(stream, "mlp", NULL));
    PH_TRY(t_axpy(&world, stream, 1, x, y, N));
    PH_TRY(ph_finite_check(stream, y, PH_NUMBER_F32, N, "hidden"));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_finite_check(stream, x, PH_NUMBER_F32, N, NULL));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_finite_check(stream, y + 1, PH_NUMBER_F32, 1, "y[1]"));
    return PH_OK;
}

static void capture(void)
{
    const ph_capture_options options = {.enable_annotations = true};
    assert_ok(ph_graph_capture(graph, world.stream, &options, body, NULL));
}

/* ---- what is found ---- */
TEST(test_a_planted_nan)
{
    const ph_record *record;
    ph_node_info info;
    size_t count;
    capture();
    assert_ok(ph_finite_count(&count, graph));
    assert_int_equal(count, 3);
    assert_ok(ph_finite_enable(graph, true));
    replay_and_wait();
    for (size_t i = 0; i < 3; i++)
        assert_clean(i);
    put_float(x + 700, NAN);
    put_float(x + 900, -INFINITY);
    replay_and_wait();
    ph_finite_result found = result(0);
    assert_string_equal(found.name, "hidden");
    assert_string_equal(found.scope, "layer 3/mlp");
    assert_true(found.ran);
    assert_int_equal(found.bad, 2);
    assert_int_equal(found.first, 700);
    assert_true(isnan(found.value));
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_node(&info, record, found.node));
    assert_string_equal(info.name, "phonograph_check_finite");
    found = result(1);
    assert_string_equal(found.name, "");
    assert_string_equal(found.scope, "layer 3");
    assert_int_equal(found.bad, 2);
    assert_string_equal(result(2).scope, "");
    assert_clean(2);
    /* Each replay begins from nothing. */
    put_float(x + 700, 1);
    replay_and_wait();
    found = result(1);
    assert_int_equal(found.bad, 1);
    assert_int_equal(found.first, 900);
    assert_true(isinf(found.value) && found.value < 0);
    assert_int_equal(result(0).bad, 2); /* y keeps its NaN */
}

typedef struct numbers {
    ph_number_type type;
    size_t size;
    uint64_t largest, nan, infinity, negative;
} numbers;
static const numbers all_numbers[] = {
    {PH_NUMBER_F32, 4, 0x7f7fffff, 0x7fc00001, 0x7f800000, 0xff800000},
    {PH_NUMBER_F64, 8, 0xffefffffffffffff, 0x7ff0000000000001, 0x7ff0000000000000,
     0xfff0000000000000},
    {PH_NUMBER_F16, 2, 0xfbff, 0x7c01, 0x7c00, 0xfc00},
    {PH_NUMBER_BF16, 2, 0x7f7f, 0x7f81, 0x7f80, 0xff80},
};

typedef struct span {
    const numbers *of;
    void *at;
    size_t count;
} span;

static ph_status check_span(ph_stream *stream, void *user)
{
    const span *s = user;
    return ph_finite_check(stream, s->at, s->of->type, s->count, "span");
}

static double value_when(const numbers *of, uint64_t bits)
{
    return bits == of->nan ? NAN : bits == of->infinity ? INFINITY : -INFINITY;
}

/* A bad number at each of the places, one after the other and all at once. */
static void check_places(const span *s, void *host, const size_t *places, size_t count)
{
    const uint64_t bad[] = {s->of->nan, s->of->infinity, s->of->negative};
    size_t size = s->of->size, lowest = SIZE_MAX;
    for (size_t i = 0; i < s->count; i++)
        memcpy((char *)host + i * size, &s->of->largest, size);
    put(s->at, host, s->count * size);
    replay_and_wait();
    assert_clean(0);
    for (size_t i = 0; i < count; i++) {
        put((char *)s->at + places[i] * size, &bad[i % 3], size);
        replay_and_wait();
        ph_finite_result found = result(0);
        assert_true(found.ran);
        assert_int_equal(found.bad, 1);
        assert_int_equal(found.first, places[i]);
        double value = value_when(s->of, bad[i % 3]);
        assert_true(isnan(value) ? isnan(found.value) : found.value == value);
        put((char *)s->at + places[i] * size, &s->of->largest, size);
    }
    for (size_t i = 0; i < count; i++) {
        put((char *)s->at + places[i] * size, &bad[i % 3], size);
        lowest = places[i] < lowest ? places[i] : lowest;
    }
    replay_and_wait();
    assert_int_equal(result(0).bad, count);
    assert_int_equal(result(0).first, lowest);
}

static void check_numbers(const numbers *of, size_t misalignment, size_t numbers_count)
{
    char *block;
    span s = {.of = of, .count = numbers_count};
    void *host = malloc(numbers_count * of->size);
    assert_non_null(host);
    assert_ok(ph_malloc(&block, numbers_count + 16, of->size, world.stream));
    /* What is around it is bad, and none of it. */
    assert_ok(ph_memset(block, 0xff, (numbers_count + 16) * of->size, world.stream));
    s.at = block + misalignment * of->size;
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, check_span, &s));
    assert_ok(ph_finite_enable(graph, true));
    const size_t places[] = {numbers_count - 1, numbers_count / 2, 0, numbers_count / 3 + 2};
    check_places(&s, host, places, numbers_count > 8 ? 4 : 1);
    ph_free(block, world.stream);
    free(host);
}

TEST(test_types_counts_and_alignments)
{
    static const size_t counts[] = {1, 2, 7, 9, 33, 511, 4099};
    for (size_t t = 0; t < sizeof all_numbers / sizeof all_numbers[0]; t++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            check_numbers(&all_numbers[t], c % 8, counts[c]);
        check_numbers(&all_numbers[t], 3, t_nightly() ? MANY : MANY / 8); /* many blocks */
    }
}

static ph_status check_nothing(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_finite_check(stream, NULL, PH_NUMBER_F64, 0, "none"));
    return t_fill_f(&world, stream, y, N, 2);
}

TEST(test_no_numbers)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, check_nothing, NULL));
    assert_false(result(0).ran);
    assert_ok(ph_finite_enable(graph, true));
    replay_and_wait();
    assert_clean(0);
}

/* The first index is the same however the work is cut into pieces. */
TEST(test_everything_is_bad)
{
    uint16_t *block;
    assert_ok(ph_malloc(&block, MANY, sizeof *block, world.stream));
    assert_ok(ph_memset(block, 0xff, MANY * sizeof *block, world.stream));
    span s = {.of = &all_numbers[PH_NUMBER_BF16], .at = block, .count = MANY};
    assert_ok(ph_graph_capture(graph, world.stream, NULL, check_span, &s));
    assert_ok(ph_finite_enable(graph, true));
    for (int i = 0; i < 3; i++) {
        replay_and_wait();
        assert_int_equal(result(0).bad, MANY);
        assert_int_equal(result(0).first, 0);
    }
    ph_free(block, world.stream);
}

/* ---- on and off ---- */
TEST(test_off_does_nothing)
{
    ph_graph_memory memory;
    capture();
    put_float(x + 5, NAN);
    replay_and_wait();
    for (size_t i = 0; i < 3; i++) {
        assert_false(result(i).ran);
        assert_int_equal(result(i).bad, 0);
    }
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_int_equal(memory.pinned, 0);
    assert_ok(ph_finite_enable(graph, true));
    assert_false(result(0).ran);
    replay_and_wait();
    assert_int_equal(result(1).first, 5);
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_true(memory.pinned > 0);
    assert_ok(ph_finite_enable(graph, false));
    put_float(x + 4, NAN);
    replay_and_wait();
    assert_int_equal(result(1).first, 5); /* of the last replay with checks on */
    assert_ok(ph_finite_enable(graph, true));
    replay_and_wait();
    assert_int_equal(result(1).first, 4);
    assert_ok(ph_graph_node_set_enabled(graph, result(1).node, false)); /* this one alone */
    replay_and_wait();
    assert_false(result(1).ran);
    assert_true(result(0).ran);
}

/* A body can be run without a capture. */
TEST(test_outside_a_capture)
{
    assert_ok(body(world.stream, NULL));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_finite_check(ph_device_default_stream(world.device), x, PH_NUMBER_F32, N, "x"));
}

TEST(test_a_fork)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(t_fill_f(&world, world.stream, x, N, 1));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    assert_ok(ph_finite_check(side, x, PH_NUMBER_F32, N, "on the fork"));
    assert_ok(ph_finite_check(side, x, PH_NUMBER_F32, N, "again"));
    assert_ok(ph_finite_check(world.stream, x, PH_NUMBER_F32, N, "on the first"));
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_finite_enable(graph, true));
    replay_and_wait();
    for (size_t i = 0; i < 3; i++)
        assert_clean(i);
    assert_string_equal(result(1).name, "again");
}

/* ---- beside other features ---- */
static ph_status other_body(ph_stream *stream, void *user)
{
    float *at = user;
    PH_TRY(t_axpy(&world, stream, 1, at, y, N));
    return ph_finite_check(stream, at, PH_NUMBER_F32, N, "in");
}

TEST(an_updated_check_looks_at_the_new_memory)
{
    ph_graph *from;
    float *z;
    assert_ok(PH_NEW(&z, N, world.stream));
    assert_ok(t_fill_f(&world, world.stream, z, N, 1));
    put_float(z + 9, NAN);
    assert_ok(ph_graph_create(&from, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, other_body, x));
    assert_ok(ph_graph_capture(from, world.stream, NULL, other_body, z));
    assert_ok(ph_graph_update(graph, from, NULL));
    assert_ok(ph_finite_enable(graph, true));
    replay_and_wait();
    assert_int_equal(result(0).first, 9);
    assert_ok(ph_graph_update(graph, graph, NULL)); /* back, and still on */
    replay_and_wait();
    assert_clean(0);
    span longer = {.of = &all_numbers[PH_NUMBER_F32], .at = x, .count = N};
    span type = {.of = &all_numbers[PH_NUMBER_BF16], .at = x, .count = N};
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_reset(from));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, check_span, &longer));
    assert_ok(ph_graph_capture(from, world.stream, NULL, check_span, &type));
    assert_ok(ph_finite_enable(graph, true));
    assert_ok(ph_graph_update(graph, from, NULL));
    put(x, &(uint32_t){0x7f810000}, 4);
    replay_and_wait();
    assert_int_equal(result(0).first, 1); /* the upper half of the first 32 bits */
    assert_ok(ph_graph_reset(from));
    assert_ok(ph_graph_capture_begin(from, world.stream, NULL));
    assert_ok(t_fill_f(&world, world.stream, x, N, 1));
    assert_ok(ph_graph_capture_end(from, PH_OK));
    assert_error(ph_graph_update(graph, from, NULL), PH_ERROR_MISMATCH,
                 "from was captured without checks for NaN and infinity (ph_finite_check), the "
                 "graph with them");
    ph_graph_destroy(from);
    ph_free(z, world.stream);
}

TEST(a_check_follows_the_slot_that_it_reads)
{
    float *z;
    size_t slot;
    assert_ok(PH_NEW(&z, N, world.stream));
    assert_ok(t_fill_f(&world, world.stream, z, N, 1));
    put_float(z + 11, INFINITY);
    for (int on_first = 0; on_first < 2; on_first++) {
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_graph_capture(graph, world.stream, NULL, other_body, x));
        if (on_first)
            assert_ok(ph_finite_enable(graph, true));
        assert_ok(ph_graph_slot_find(&slot, graph, "x", x, N * sizeof *x, NULL));
        ph_slot_info info;
        assert_ok(ph_graph_slot_get(&info, graph, slot));
        assert_int_equal(info.uses, 2);
        const ph_slot_value value = {slot, z};
        assert_ok(ph_graph_replay_with(graph, world.stream, &value, 1));
        assert_ok(ph_stream_synchronize(world.stream));
        assert_true(result(0).ran == (on_first == 1));
        if (!on_first)
            assert_ok(ph_finite_enable(graph, true));
        replay_and_wait();
        assert_int_equal(result(0).first, 11);
        const ph_slot_value back = {slot, x};
        assert_ok(ph_graph_replay_with(graph, world.stream, &back, 1));
        assert_ok(ph_stream_synchronize(world.stream));
        assert_clean(0);
    }
    ph_free(z, world.stream);
}

TEST(test_proved_slots)
{
    ph_graph *shifted;
    void *block;
    ph_slot_proof proof;
    assert_ok(ph_malloc(&block, 8192 + N * sizeof(float), 1, world.stream));
    void *z = t_opposite(block, x);
    const void *const at[] = {z};
    assert_ok(ph_graph_create(&shifted, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, other_body, x));
    assert_ok(ph_graph_capture(shifted, world.stream, NULL, other_body, z));
    const ph_slot_span what = {.name = "x", .base = x, .shifted = at, .bytes = N * sizeof *x};
    assert_ok(ph_graph_slot_prove(&proof, graph, &shifted, 1, &what, 1));
    assert_string_equal(proof.reason, "");
    assert_int_equal(proof.uses, 2);
    ph_graph_destroy(shifted);
    ph_free(block, world.stream);
}

static ph_status replay_it(ph_stream *stream, void *user)
{
    PH_TRY(t_fill_f(&world, stream, y, N, 1));
    return ph_graph_replay(user, stream);
}

TEST(test_a_copy_in_another_graph_writes_nothing)
{
    ph_graph *outer;
    capture();
    assert_ok(ph_finite_enable(graph, true));
    replay_and_wait();
    put_float(x + 1, NAN);
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, NULL, replay_it, graph));
    assert_ok(ph_graph_replay(outer, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_clean(1);
    ph_graph_destroy(outer);
}

/* The function is run eagerly, captured once more, and run in parts: switched on or off, what
 * watches is none of the work. */
TEST(checks_and_breadcrumbs_do_not_disturb_a_verification)
{
    const ph_capture_options options = {.enable_annotations = true, .breadcrumbs = true};
    ph_verify_result verified;
    ph_progress at;
    assert_ok(ph_graph_capture(graph, world.stream, &options, body, NULL));
    for (int on = 0; on < 2; on++) {
        assert_ok(ph_finite_enable(graph, on == 1));
        assert_ok(ph_graph_breadcrumbs_enable(graph, on == 1));
        assert_ok(ph_graph_verify(&verified, graph, world.stream, body, NULL, NULL));
        assert_int_equal(verified.verdict, PH_VERIFY_EQUAL);
        replay_and_wait();
        assert_true(result(0).ran == (on == 1));
    }
    assert_ok(ph_graph_where(&at, graph));
    assert_true(at.complete);
}

/* ---- what is refused ---- */
TEST(misuse_is_refused)
{
    ph_finite_result found;
    size_t count;
    float *gone;
    assert_ok(PH_NEW(&gone, N, world.stream));
    ph_free(gone, world.stream);
    assert_error(ph_finite_check(world.stream, gone, PH_NUMBER_F32, 1, "gone"), PH_ERROR_NOT_FOUND,
                 "is no live allocation");
    assert_error(ph_finite_check(NULL, x, PH_NUMBER_F32, N, "x"), PH_ERROR_ARGUMENT,
                 "stream is NULL");
    assert_error(ph_finite_count(NULL, graph), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_finite_count(&count, NULL), PH_ERROR_ARGUMENT, "graph");
    assert_error(ph_finite_at(NULL, graph, 0), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_finite_at(&found, graph, 0), PH_ERROR_STATE, "NEW");
    assert_error(ph_finite_enable(graph, true), PH_ERROR_STATE, "NEW");
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_error(ph_finite_check(world.stream, NULL, PH_NUMBER_F32, N, "x"), PH_ERROR_ARGUMENT,
                 "address is NULL");
    assert_error(ph_finite_check(world.stream, x, (ph_number_type)4, N, "x"), PH_ERROR_ARGUMENT,
                 "4 is none of");
    assert_error(ph_finite_check(world.stream, x, (ph_number_type)-1, N, "x"), PH_ERROR_ARGUMENT,
                 "none of");
    assert_error(ph_finite_check(world.stream, (char *)x + 2, PH_NUMBER_F32, 1, "x"),
                 PH_ERROR_ARGUMENT, "no multiple of 4");
    assert_error(ph_finite_check(world.stream, x, PH_NUMBER_F64, N, "x"), PH_ERROR_SIZE,
                 "leave the allocation");
    assert_error(ph_finite_check(world.stream, x, PH_NUMBER_F64, SIZE_MAX / 4, "x"), PH_ERROR_SIZE,
                 "too many");
    float here = 0;
    assert_error(ph_finite_check(world.stream, &here, PH_NUMBER_F32, 1, "here"), PH_ERROR_ARGUMENT,
                 "is neither memory of the device nor pinned");
    assert_string_equal(ph_error_last()->native_call, "");
    assert_int_equal(ph_error_last()->native_code, 0);
    assert_error(ph_finite_check(world.stream, x, PH_NUMBER_F64, N, "x"), PH_ERROR_SIZE,
                 "bytes at address 0x");
    assert_string_equal(ph_error_last()->native_call, "");
    assert_error(ph_finite_check(world.stream, gone, PH_NUMBER_F32, 1, "gone"), PH_ERROR_NOT_FOUND,
                 "ph_finite_check: 0x");
    assert_ok(t_fill_f(&world, world.stream, x, N, 1));
    assert_error(ph_finite_at(&found, graph, 0), PH_ERROR_STATE, "CAPTURING");
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_finite_count(&count, graph));
    assert_int_equal(count, 0);
    assert_error(ph_finite_at(&found, graph, 0), PH_ERROR_NOT_FOUND, "the graph has 0");
    assert_error(ph_finite_enable(graph, true), PH_ERROR_STATE, "no check was captured");
    assert_ok(ph_graph_reset(graph));
    capture();
    assert_error(ph_finite_at(&found, graph, 3), PH_ERROR_NOT_FOUND, "check 3 does not exist");
    const char args[32] = {0};
    assert_error(ph_graph_node_set_launch(graph, result(0).node, NULL, args, sizeof args),
                 PH_ERROR_UNSUPPORTED, "ph_finite_enable");
}

/* ---- threads ---- several that check in one capture, each on its stream. */
enum {
    CHECKS = 25
};
typedef struct worker {
    pthread_t thread;
    ph_stream *stream;
    ph_status status;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < CHECKS && w->status == PH_OK; i++)
        w->status =
            ph_finite_check(w->stream, x, PH_NUMBER_F32, N, w->stream == side ? "theirs" : "mine");
    return NULL;
}

TEST(checks_made_by_several_threads_are_all_kept)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    worker workers[2] = {{.stream = world.stream}, {.stream = side}};
    size_t count, mine = 0;
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_ok(t_fill_f(&world, world.stream, y, N, 1));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].status, PH_OK);
    }
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_finite_enable(graph, true));
    put_float(x + 3, NAN);
    replay_and_wait();
    assert_ok(ph_finite_count(&count, graph));
    assert_int_equal(count, 2 * CHECKS);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(result(i).first, 3);
        mine += strcmp(result(i).name, "mine") == 0;
    }
    assert_int_equal(mine, CHECKS);
}

/* ---- failures ---- */
static ph_status everything(void *user)
{
    const ph_capture_options options = {.enable_annotations = true};
    (void)user;
    PH_TRY(ph_graph_capture(graph, world.stream, &options, body, NULL));
    PH_TRY(ph_finite_enable(graph, true));
    PH_TRY(ph_graph_replay(graph, world.stream));
    PH_TRY(ph_finite_enable(graph, false));
    PH_TRY(ph_finite_enable(graph, true));
    return ph_stream_synchronize(world.stream);
}

static void reset(ph_status status, void *user)
{
    (void)user;
    if (status == PH_OK)
        assert_clean(0);
    ph_annotation_unwind(0);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_device_synchronize(world.device));
    assert_false(ph_stream_is_capturing(world.stream));
}

static const t_swept swept = {
    .name = "checks", .open = open_world, .close = close_world, .run = everything, .reset = reset};

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_a_planted_nan),
        IN_WORLD(test_types_counts_and_alignments),
        IN_WORLD(test_no_numbers),
        IN_WORLD(test_everything_is_bad),
        IN_WORLD(test_off_does_nothing),
        IN_WORLD(test_outside_a_capture),
        IN_WORLD(test_a_fork),
        IN_WORLD(an_updated_check_looks_at_the_new_memory),
        IN_WORLD(a_check_follows_the_slot_that_it_reads),
        IN_WORLD(test_proved_slots),
        IN_WORLD(test_a_copy_in_another_graph_writes_nothing),
        IN_WORLD(checks_and_breadcrumbs_do_not_disturb_a_verification),
        IN_WORLD(misuse_is_refused),
        IN_WORLD(checks_made_by_several_threads_are_all_kept),
        T_SWEEP(test_without_host_memory, &swept),
        T_SWEEP(test_when_the_driver_fails, &swept),
    };
    return cmocka_run_group_tests_name("inspect.checks", tests, NULL, NULL);
}
