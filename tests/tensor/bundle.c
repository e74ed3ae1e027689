/* SPDX-License-Identifier: MIT */
/* tests/tensor/bundle.c: pairs of memory that one launch copies or adds: every dtype, size and
 * alignment, in captures and out of them, what changes in a captured launch, and failures. */
#include "tensor/kernels/bundle.h"
#include "base/rng.h"
#include "support/op_check.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <math.h>

enum {
    DTYPES = 8,
    GAP = 64 /* bytes between two pairs that nothing may touch */
};

/* Both sides of all pairs, each side one piece of memory, and what the host says that comes out. */
typedef struct arena {
    ph_tensor *src, *dst;
    char *from, *to; /* on the host, as they begin */
    size_t bytes;
    ph__bundle_pair *pairs;
    size_t *at_src, *at_dst; /* of each pair */
    size_t count;
} arena;

typedef struct plan {
    int64_t count;
    ph_dtype dtype;
    ph__bundle_op op;
    size_t skew_src, skew_dst; /* elements that it begins behind a multiple of 64 bytes */
} plan;

/* Numbers that every dtype has, and sums of two. */
static void fill_values(char *to, ph_dtype dtype, int64_t count, ph__rng *rng)
{
    for (int64_t i = 0; i < count; i++) {
        double value = (double)ph__rng_below(rng, 1 << 20) / (1 << 18) - 2;
        if (dtype == PH_DTYPE_BOOL)
            value = (double)ph__rng_below(rng, 2);
        else if (!ph_dtype_is_floating(dtype))
            value = (double)ph__rng_below(rng, 100);
        op_encode(to + (size_t)i * ph_dtype_size(dtype), dtype, &value, 1);
    }
}

static size_t place(const plan *p, size_t skew, size_t *used)
{
    size_t at = (*used + GAP + 63) / 64 * 64 + skew * ph_dtype_size(p->dtype);
    *used = at + (size_t)p->count * ph_dtype_size(p->dtype);
    return at;
}

static ph_tensor *memory(const t_scene *s, size_t bytes)
{
    ph_tensor *x;
    assert_ok(ph_tensor_create(&x, s->device, PH_DTYPE_U8, PH_SHAPE((int64_t)bytes)));
    return x;
}

static void arena_open(arena *a, const t_scene *s, const plan *plans, size_t count)
{
    ph__rng rng = {42};
    size_t used_src = 0, used_dst = 0;
    *a = (arena){.count = count,
                 .pairs = calloc(count, sizeof *a->pairs),
                 .at_src = calloc(count, sizeof *a->at_src),
                 .at_dst = calloc(count, sizeof *a->at_dst)};
    assert_true(a->pairs && a->at_src && a->at_dst);
    for (size_t i = 0; i < count; i++) {
        a->at_src[i] = place(&plans[i], plans[i].skew_src, &used_src);
        a->at_dst[i] = place(&plans[i], plans[i].skew_dst, &used_dst);
    }
    a->bytes = (used_src > used_dst ? used_src : used_dst) + GAP;
    a->src = memory(s, a->bytes);
    a->dst = memory(s, a->bytes);
    a->from = malloc(a->bytes);
    a->to = malloc(a->bytes);
    assert_true(a->from && a->to);
    for (size_t i = 0; i < a->bytes; i++) {
        a->from[i] = (char)(i * 7);
        a->to[i] = (char)(i * 5 + 1);
    }
    for (size_t i = 0; i < count; i++) {
        fill_values(a->from + a->at_src[i], plans[i].dtype, plans[i].count, &rng);
        fill_values(a->to + a->at_dst[i], plans[i].dtype, plans[i].count, &rng);
        a->pairs[i] = (ph__bundle_pair){.src = (char *)ph_tensor_data(a->src) + a->at_src[i],
                                        .dst = (char *)ph_tensor_data(a->dst) + a->at_dst[i],
                                        .count = plans[i].count,
                                        .dtype = plans[i].dtype,
                                        .op = plans[i].op};
    }
    assert_ok(ph_tensor_write(s->tape, a->src, a->from, a->bytes));
    assert_ok(ph_tensor_write(s->tape, a->dst, a->to, a->bytes));
    assert_ok(ph_stream_synchronize(s->stream));
}

static void arena_close(arena *a)
{
    ph_tensor_release(a->src);
    ph_tensor_release(a->dst);
    free(a->from);
    free(a->to);
    free(a->pairs);
    free(a->at_src);
    free(a->at_dst);
}

static double number(const char *at, ph_dtype dtype)
{
    double value;
    op_decode(&value, dtype, at, 1);
    return value;
}

/* The sum, to the nearest number of the dtype. */
static void check_sum(const char *got, const char *a, const char *b, ph_dtype dtype, size_t pair,
                      int64_t i)
{
    static const double unit[] = {[PH_DTYPE_F32] = 0x1p-24,
                                  [PH_DTYPE_F64] = 0x1p-53,
                                  [PH_DTYPE_F16] = 0x1p-11,
                                  [PH_DTYPE_BF16] = 0x1p-8};
    double have = number(got, dtype), want = number(a, dtype) + number(b, dtype);
    if (!(fabs(have - want) <= unit[dtype] * fabs(want)))
        fail_msg("pair %zu (%s), element %lld: %.9g, expected %.9g", pair, ph_dtype_name(dtype),
                 (long long)i, have, want);
}

/* One launch on what was there before. Bytes that belong to no pair are as they were. */
static void expect_done(const arena *a, const t_scene *s, const char *before)
{
    char *got = malloc(a->bytes), *want = malloc(a->bytes);
    assert_true(got && want);
    assert_ok(ph_tensor_read(s->tape, a->dst, got, a->bytes));
    memcpy(want, before, a->bytes);
    for (size_t i = 0; i < a->count; i++) {
        const ph__bundle_pair *p = &a->pairs[i];
        size_t size = ph_dtype_size(p->dtype), bytes = (size_t)p->count * size;
        char *to = want + a->at_dst[i];
        if (p->op == PH__BUNDLE_ADD && ph_dtype_is_floating(p->dtype)) {
            for (int64_t k = 0; k < p->count; k++) {
                size_t at = (size_t)k * size;
                check_sum(got + a->at_dst[i] + at, to + at, a->from + a->at_src[i] + at, p->dtype,
                          i, k);
            }
            memcpy(to, got + a->at_dst[i], bytes);
        } else {
            memcpy(to, a->from + a->at_src[i], bytes);
        }
    }
    for (size_t i = 0; i < a->bytes; i++)
        if (got[i] != want[i])
            fail_msg("byte %zu is %d, expected %d", i, got[i], want[i]);
    free(got);
    free(want);
}

static const int64_t counts[] = {0,  1,   2,    3,    7,    8,    15,    16,    17,
                                 33, 255, 1000, 2047, 4096, 4097, 16384, 16385, 50001};
static const size_t skews[][2] = {{0, 0}, {1, 1}, {0, 1}, {3, 0}, {4, 4}, {2, 6}};
enum {
    COUNTS = sizeof counts / sizeof counts[0],
    SKEWS = sizeof skews / sizeof skews[0],
    ALL = COUNTS * DTYPES * 2
};

/* Every dtype with every count, copied and added. */
static void make_plans(plan plans[ALL], size_t first_skew)
{
    size_t n = 0;
    for (int d = 1; d <= DTYPES; d++)
        for (size_t c = 0; c < COUNTS; c++)
            for (int op = 0; op < 2; op++) {
                const size_t *skew = skews[(n / 2 + first_skew) % SKEWS];
                plans[n++] = (plan){counts[c], (ph_dtype)d, (ph__bundle_op)op, skew[0], skew[1]};
            }
}

TEST(test_every_dtype_size_and_alignment)
{
    t_scene s;
    plan plans[ALL];
    t_scene_open(&s);
    for (size_t first = 0; first < SKEWS; first++) {
        arena a;
        make_plans(plans, first);
        arena_open(&a, &s, plans, ALL);
        assert_true(ph__bundle_launch(s.tape, a.pairs, a.count));
        expect_done(&a, &s, a.to);
        arena_close(&a);
    }
    t_scene_close(&s);
}

/* Pairs of several blocks beside ones of none, and what the last of a launch may be. */
TEST(test_number_of_pairs)
{
    t_scene s;
    plan plans[2 * PH__BUNDLE_MAX + 1];
    static const size_t sizes[] = {1,
                                   2,
                                   PH__BUNDLE_MAX - 1,
                                   PH__BUNDLE_MAX,
                                   PH__BUNDLE_MAX + 1,
                                   2 * PH__BUNDLE_MAX,
                                   2 * PH__BUNDLE_MAX + 1};
    t_scene_open(&s);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        arena a;
        for (size_t i = 0; i < sizes[k]; i++)
            plans[i] = (plan){.count = i % 5 == 4 ? 0 : (int64_t)(i % 3) * 5000 + 1,
                              .dtype = PH_DTYPE_F32,
                              .op = (ph__bundle_op)(i % 2)};
        arena_open(&a, &s, plans, sizes[k]);
        assert_true(ph__bundle_launch(s.tape, a.pairs, a.count));
        expect_done(&a, &s, a.to);
        arena_close(&a);
    }
    t_scene_close(&s);
}

/* ---- captures ---- */
typedef struct bundled {
    ph_tape *tape;
    const arena *arena;
} bundled;

static ph_status launch_in_capture(ph_stream *stream, void *user)
{
    const bundled *b = user;
    (void)stream;
    (void)ph__bundle_launch(b->tape, b->arena->pairs, b->arena->count);
    return ph_tape_clear(b->tape);
}

static ph_graph *capture(const t_scene *s, const arena *a)
{
    ph_graph *graph;
    bundled b = {s->tape, a};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s->stream, NULL, launch_in_capture, &b));
    return graph;
}

TEST(test_nothing_is_launched)
{
    t_scene s;
    arena none, empty;
    const plan plans[3] = {
        {.dtype = PH_DTYPE_F32}, {.dtype = PH_DTYPE_U8}, {.dtype = PH_DTYPE_F64}};
    const ph_record *record;
    t_scene_open(&s);
    arena_open(&empty, &s, plans, 3);
    empty.pairs[1].src = NULL;
    empty.pairs[1].dst = NULL;
    none = empty;
    none.count = 0;
    const arena *both[] = {&none, &empty};
    for (int i = 0; i < 2; i++) {
        ph_graph *graph = capture(&s, both[i]);
        assert_ok(ph_graph_record(&record, graph));
        assert_int_equal(ph_record_node_count(record), 0);
        ph_graph_destroy(graph);
        assert_true(ph__bundle_launch(s.tape, both[i]->pairs, both[i]->count));
    }
    expect_done(&empty, &s, empty.to);
    arena_close(&empty);
    t_scene_close(&s);
}

static void read_dst(char *out, const t_scene *s, const arena *a)
{
    assert_ok(ph_tensor_read(s->tape, a->dst, out, a->bytes));
}

TEST(test_eager_captured_and_replayed)
{
    t_scene s;
    arena a;
    plan plans[ALL];
    t_scene_open(&s);
    make_plans(plans, 1);
    arena_open(&a, &s, plans, ALL);
    char *once = malloc(a.bytes), *twice = malloc(a.bytes), *got = malloc(a.bytes);
    assert_true(once && twice && got);
    assert_true(ph__bundle_launch(s.tape, a.pairs, a.count));
    read_dst(once, &s, &a);
    assert_true(ph__bundle_launch(s.tape, a.pairs, a.count));
    read_dst(twice, &s, &a);
    expect_done(&a, &s, once);
    ph_graph *graph = capture(&s, &a);
    for (int round = 0; round < 2; round++) {
        assert_ok(ph_tensor_write(s.tape, a.dst, a.to, a.bytes));
        assert_ok(ph_graph_replay(graph, s.stream));
        read_dst(got, &s, &a);
        assert_memory_equal(got, once, a.bytes);
        assert_ok(ph_graph_replay(graph, s.stream));
        read_dst(got, &s, &a);
        assert_memory_equal(got, twice, a.bytes);
    }
    ph_graph_destroy(graph);
    free(once);
    free(twice);
    free(got);
    arena_close(&a);
    t_scene_close(&s);
}

/* Addresses are proved words of the record, and the grid is that of counts and dtypes alone. */
TEST(test_what_a_record_says)
{
    t_scene s;
    arena a;
    plan plans[5] = {{5000, PH_DTYPE_F32, PH__BUNDLE_COPY, 0, 0},
                     {0, PH_DTYPE_F32, PH__BUNDLE_COPY, 0, 0},
                     {5000, PH_DTYPE_F64, PH__BUNDLE_ADD, 0, 0},
                     {9, PH_DTYPE_BOOL, PH__BUNDLE_ADD, 0, 0},
                     {8193, PH_DTYPE_F16, PH__BUNDLE_ADD, 0, 0}};
    const ph_record *record;
    ph_node_info node;
    t_scene_open(&s);
    for (int round = 0; round < 2; round++) {
        size_t proved = 0;
        for (size_t i = 0; i < 5; i++) {
            plans[i].op = (ph__bundle_op)((i + (size_t)round) % 2);
            plans[i].skew_src = (size_t)round;
        }
        arena_open(&a, &s, plans, 5);
        ph_graph *graph = capture(&s, &a);
        assert_ok(ph_graph_record(&record, graph));
        assert_int_equal(ph_record_node_count(record), 1);
        assert_ok(ph_record_node(&node, record, 0));
        assert_string_equal(node.name, PH__BUNDLE_KERNEL);
        assert_int_equal(node.args_size, sizeof(ph__bundle_args));
        assert_int_equal(node.grid[0], 2 + 3 + 1 + 2);
        assert_int_equal(node.block[0], PH__BUNDLE_THREADS);
        const ph__bundle_args *args = node.args;
        assert_int_equal(args->op[3], PH__BUNDLE_COPY);
        assert_int_equal(args->first[5], node.grid[0]);
        for (size_t w = 0; w < node.word_count; w++) {
            ph_word word;
            assert_ok(ph_record_word(&word, record, 0, w));
            bool is_one =
                word.offset < offsetof(ph__bundle_args, count) && word.kind == PH_WORD_PROVED;
            assert_true(is_one || word.kind == PH_WORD_VALUE);
            proved += is_one;
        }
        assert_true(proved >= 8);
        ph_graph_destroy(graph);
        arena_close(&a);
    }
    t_scene_close(&s);
}

/* Other addresses, of other alignment, and other operations in a graph that is there already. */
TEST(test_changed_in_a_graph)
{
    t_scene s;
    arena a, b;
    plan plans[ALL];
    const ph_record *record;
    ph_node_info node;
    t_scene_open(&s);
    make_plans(plans, 0);
    arena_open(&a, &s, plans, PH__BUNDLE_MAX);
    ph_graph *graph = capture(&s, &a);
    for (size_t i = 0; i < PH__BUNDLE_MAX; i++) {
        plans[i].op = plans[i].op == PH__BUNDLE_ADD ? PH__BUNDLE_COPY : PH__BUNDLE_ADD;
        plans[i].skew_src = 1;
    }
    arena_open(&b, &s, plans, PH__BUNDLE_MAX);
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_node(&node, record, 0));
    ph__bundle_args args = *(const ph__bundle_args *)node.args;
    for (size_t i = 0; i < PH__BUNDLE_MAX; i++) {
        args.src[i] = b.pairs[i].src;
        args.dst[i] = b.pairs[i].dst;
        args.op[i] = (uint8_t)b.pairs[i].op;
    }
    const ph_launch_config config = {.grid = {node.grid[0], 1, 1}, .block = {node.block[0], 1, 1}};
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    assert_ok(ph_graph_replay(graph, s.stream));
    expect_done(&b, &s, b.to);
    ph_graph_destroy(graph);
    arena_close(&a);
    arena_close(&b);
    t_scene_close(&s);
}

/* ---- failures ---- */
TEST(test_a_failed_tape)
{
    t_scene s;
    arena a;
    const plan plans[1] = {{4, PH_DTYPE_F32, PH__BUNDLE_COPY, 0, 0}};
    t_scene_open(&s);
    arena_open(&a, &s, plans, 1);
    ph_tape_fail(s.tape, PH_ERROR_CALLER, "it had failed before");
    assert_false(ph__bundle_launch(s.tape, a.pairs, 1));
    assert_false(ph__bundle_launch(s.tape, NULL, 0));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_CALLER, "it had failed before");
    char *got = malloc(a.bytes);
    assert_non_null(got);
    read_dst(got, &s, &a);
    assert_memory_equal(got, a.to, a.bytes);
    free(got);
    arena_close(&a);
    t_scene_close(&s);
}

/* The first launch on a device makes the kernel. */
TEST(test_no_host_memory)
{
    plan plans[ALL];
    make_plans(plans, 0);
    t_hold_context();
    bool failed = true;
    for (int64_t n = 0; failed; n++) {
        t_scene s;
        arena a;
        assert_true(n < 1000);
        t_scene_open(&s);
        arena_open(&a, &s, plans, PH__BUNDLE_MAX + 1);
        ph__alloc_fail_after(n);
        failed = !ph__bundle_launch(s.tape, a.pairs, a.count);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_status(ph_tape_clear(s.tape), failed ? PH_ERROR_HOST_MEMORY : PH_OK);
        assert_ok(ph_stream_synchronize(s.stream));
        assert_ok(ph_tensor_write(s.tape, a.dst, a.to, a.bytes));
        assert_true(ph__bundle_launch(s.tape, a.pairs, a.count));
        expect_done(&a, &s, a.to);
        arena_close(&a);
        t_scene_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype_size_and_alignment),
        cmocka_unit_test(test_number_of_pairs),
        cmocka_unit_test(test_nothing_is_launched),
        cmocka_unit_test(test_eager_captured_and_replayed),
        cmocka_unit_test(test_what_a_record_says),
        cmocka_unit_test(test_changed_in_a_graph),
        cmocka_unit_test(test_a_failed_tape),
        cmocka_unit_test(test_no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
