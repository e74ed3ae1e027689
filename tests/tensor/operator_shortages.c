/* SPDX-License-Identifier: MIT */
/* tests/tensor/operator_shortages.c: products, attention, functions, arithmetic, reductions and
 * draws when host memory runs out or the driver fails, at every place: eager and captured,
 * forward and backward. */
#include "driver/driver.h"
#include "support/grads.h"
#include "support/sweep.h"
#include "support/test.h"
#include <math.h>

enum {
    ROWS = 3,
    WIDTH = 4,
    LEAVES = 4,
    MOST = 64 /* elements of a leaf */
};

typedef struct world world;
/* What a run computes: a scalar that all gradients come from. */
typedef ph_tensor *(*family_fn)(ph_tape *tape, const world *w);

struct world {
    t_scene s;
    ph_generator *generator;
    /* x [2, 1, ROWS, WIDTH], y [2, WIDTH, WIDTH], weight [WIDTH, WIDTH], bias [WIDTH] */
    ph_tensor *leaf[LEAVES];
    ph_graph *graph;
    family_fn family;
    bool known; /* want holds what a run without a fault gave */
    float want[LEAVES][MOST];
    size_t allocated;
};

/* ---- the families ---- */
static ph_tensor *products(ph_tape *t, const world *w)
{
    ph_attention_options causal = {.causal = true};
    ph_tensor *x = ph_matmul(t, w->leaf[0], w->leaf[1]);
    x = ph_linear(t, x, w->leaf[2], w->leaf[3]);
    ph_tensor *h = ph_linear(t, ph_transpose(t, x, 0, 1), w->leaf[2], NULL);
    h = ph_attention(t, h, x, x, &causal);
    return ph_sum(t, ph_matmul(t, h, w->leaf[3]));
}

static ph_tensor *functions(ph_tape *t, const world *w)
{
    static const ph_activation_fn all[] = {ph_tanh, ph_sigmoid, ph_gelu,   ph_gelu_tanh,
                                           ph_silu, ph_relu,    ph_square, ph_exp,
                                           ph_sqrt, ph_rsqrt,   ph_log,    ph_abs};
    ph_tensor *x = ph_add(t, ph_square(t, w->leaf[0]), w->leaf[3]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        x = all[i](t, x);
    return ph_sum(t, ph_leaky_relu(t, x, 0.1));
}

static ph_tensor *arithmetic(ph_tape *t, const world *w)
{
    ph_tensor *x = ph_transpose(t, w->leaf[0], 2, 3), *y = ph_unsqueeze(t, w->leaf[3], 1);
    ph_tensor *h = ph_div(t, ph_sub(t, ph_mul(t, x, y), x), ph_add_scalar(t, y, 2));
    ph_tensor *mask = ph_logical_and(t, ph_lt(t, h, y), ph_logical_not(t, ph_eq(t, h, x)));
    h = ph_where(t, mask, ph_maximum(t, h, x), ph_minimum(t, h, ph_neg(t, y)));
    h = ph_masked_fill(t, ph_clamp(t, ph_pow_scalar(t, ph_mul_scalar(t, h, 2), 2), -50, 50), mask,
                       1);
    return ph_sum(t, ph_cast(t, ph_cast(t, ph_add(t, h, x), PH_DTYPE_F64), PH_DTYPE_F32));
}

static ph_tensor *reductions(ph_tape *t, const world *w)
{
    ph_tensor *x = w->leaf[0], *y = w->leaf[1];
    ph_tensor *h =
        ph_mul(t, ph_mean_over(t, x, PH_AXES(0, 2), true), ph_max_over(t, x, PH_AXES(-1), true));
    h = ph_add(t, h, ph_norm_over(t, y, 3, PH_AXES(1), true));
    h = ph_add(t, h, ph_cast(t, ph_argmax(t, y, 1, true), PH_DTYPE_F32));
    h = ph_add(t, ph_sum_over(t, h, PH_AXES(1), false), ph_max(t, y));
    return ph_add(t, ph_add(t, ph_norm(t, h, 2), ph_norm(t, y, INFINITY)), ph_mean(t, h));
}

static ph_tensor *draws(ph_tape *t, const world *w)
{
    ph_shape shape = ph_tensor_shape(w->leaf[0]);
    ph_tensor *x = ph_dropout(t, ph_mul(t, w->leaf[0], ph_randn(t, PH_DTYPE_F32, shape)), 0.5);
    x = ph_add(t, x, ph_uniform(t, PH_DTYPE_F32, shape, -1, 1));
    x = ph_mul(t, x, ph_bernoulli(t, ph_full(t, PH_DTYPE_F32, shape, 0.5)));
    x = ph_mul(t, x, ph_cast(t, ph_randint(t, PH_DTYPE_I64, shape, 1, 9), PH_DTYPE_F32));
    x = ph_mul(t, x, ph_exponential(t, PH_DTYPE_F32, shape, 2));
    x = ph_rrelu(t, ph_add(t, x, ph_poisson(t, ph_full(t, PH_DTYPE_F32, shape, 4))), 0.1, 0.3);
    x = ph_mul(t, x, ph_normal_of(t, x, ph_full(t, PH_DTYPE_F32, PH_SHAPE(1), 2)));
    ph_tensor *marks = ph_zeros(t, PH_DTYPE_F32, shape);
    ph_tensor_random(t, ph_transpose(t, marks, -1, -2), 1, 9);
    ph_tensor_bernoulli_of(t, marks, ph_rand(t, PH_DTYPE_F32, PH_SHAPE(WIDTH)));
    x = ph_mul(t, x, marks);
    x = ph_index_select(t, x, 2, ph_randperm(t, ROWS));
    return ph_sum(t, ph_mul(t, x, ph_normal(t, PH_DTYPE_F32, PH_SHAPE(WIDTH), 1, 2)));
}

/* ---- the world ---- */
static void open_scene(world *w)
{
    static const ph_shape shapes[LEAVES] = {
        {4, {2, 1, ROWS, WIDTH}}, {3, {2, WIDTH, WIDTH}}, {2, {WIDTH, WIDTH}}, {1, {WIDTH}}};
    t_scene_open(&w->s);
    for (int k = 0; k < LEAVES; k++) {
        float values[MOST];
        for (int i = 0; i < MOST; i++)
            values[i] = (float)((i * 7 + k * 3) % 11 + 1) / 8;
        w->leaf[k] = t_leaf_of(&w->s, shapes[k], values);
    }
    assert_ok(ph_generator_create(&w->generator, w->s.device, 5));
    ph_tape_set_generator(w->s.tape, w->generator);
    assert_ok(ph_stream_synchronize(w->s.stream));
    w->allocated = t_allocated(&w->s);
}

static void close_scene(world *w)
{
    ph_tape_set_generator(w->s.tape, NULL);
    ph_generator_release(w->generator);
    for (int k = 0; k < LEAVES; k++)
        ph_tensor_release(w->leaf[k]);
    t_scene_close(&w->s);
}

/* Sweeps have one world at a time; what is known of it outlives it. */
static world the_world;

FIXTURE(open_world)
{
    open_scene(&the_world);
    return 0;
}

FIXTURE(close_world)
{
    close_scene(&the_world);
    return 0;
}

/* ---- eager ---- */
static ph_status run_eager(void *user)
{
    world *w = user;
    ph_backward(w->s.tape, w->family(w->s.tape, w));
    return ph_tape_clear(w->s.tape);
}

static void compare(float *want, const float *got, int64_t count, bool known, int k)
{
    for (int64_t i = 0; i < count; i++) {
        if (known && !(fabsf(got[i] - want[i]) <= 1e-4F * (1 + fabsf(want[i]))))
            fail_msg("%s: leaf %d, element %lld is %g, expected %g", t_sweep_place(), k,
                     (long long)i, (double)got[i], (double)want[i]);
        want[i] = got[i];
    }
}

/* Each gradient that there is must be the one that the first run gave. */
static void check_gradients(world *w)
{
    int seen = 0;
    for (int k = 0; k < LEAVES; k++) {
        const ph_tensor *grad = ph_tensor_grad(w->leaf[k]);
        float got[MOST];
        if (!grad)
            continue;
        assert_true(ph_tensor_bytes(grad) <= sizeof got);
        assert_ok(ph_tensor_read(w->s.tape, grad, got, ph_tensor_bytes(grad)));
        compare(w->want[k], got, ph_tensor_count(grad), w->known, k);
        seen++;
    }
    assert_true(seen > 0);
    w->known = true;
}

static void put_back(ph_status status, void *user)
{
    world *w = user;
    if (status == PH_OK)
        check_gradients(w);
    for (int k = 0; k < LEAVES; k++)
        t_zero_grad(w->leaf[k]);
    assert_ok(ph_generator_set_offset(w->generator, 0));
    assert_ok(ph_device_synchronize(w->s.device));
    assert_false(ph_stream_is_capturing(w->s.stream));
    assert_ok(ph_tape_status(w->s.tape));
    assert_int_equal(t_info(&w->s).nodes, 0);
    assert_int_equal(t_info(&w->s).tensors, 0);
    assert_int_equal(t_allocated(&w->s), w->allocated);
}

/* ---- captured ---- the gradients of a pass in a capture are the graph's: they are kept until
 * they have been looked at. */
static ph_status capture_body(ph_stream *stream, void *user)
{
    (void)stream;
    return run_eager(user);
}

static ph_status run_captured(void *user)
{
    world *w = user;
    ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};
    PH_TRY(ph_graph_create(&w->graph, NULL));
    PH_TRY(ph_graph_capture(w->graph, w->s.stream, &relaxed, capture_body, w));
    PH_TRY(ph_graph_replay(w->graph, w->s.stream));
    return ph_stream_synchronize(w->s.stream);
}

static void put_back_captured(ph_status status, void *user)
{
    world *w = user;
    if (status == PH_OK)
        check_gradients(w);
    for (int k = 0; k < LEAVES; k++)
        t_zero_grad(w->leaf[k]);
    ph_graph_destroy(w->graph);
    w->graph = NULL;
    assert_ok(ph_device_synchronize(w->s.device));
    put_back(PH_ERROR_CALLER, user);
}

/* ---- the sweeps ---- in a world where kernels are there, and in new ones, where each run is
 * the first. */
static const t_swept eager = {.run = run_eager, .reset = put_back},
                     captured = {.run = run_captured, .reset = put_back_captured};

static void sweep(const char *name, family_fn family, const t_swept *how,
                  void (*over)(const t_swept *swept))
{
    t_swept swept = *how;
    swept.name = name;
    swept.user = &the_world;
    the_world = (world){.family = family};
    open_scene(&the_world);
    assert_ok(run_eager(&the_world));
    put_back(PH_OK, &the_world);
    assert_ok(how->run(&the_world));
    how->reset(PH_OK, &the_world);
    over(&swept);
    close_scene(&the_world);
    swept.open = open_world;
    swept.close = close_world;
    over(&swept);
}

static void host_memory(const t_swept *swept)
{
    t_sweep_host_memory(swept, 20);
}

static void driver_calls(const t_swept *swept)
{
    t_sweep_driver(swept);
    t_faults faults = t_sweep(swept, t_driver_fault(PH__R_OUT_OF_MEMORY));
    assert_true(faults.failures > 0);
}

#define EAGER(family)                                                                              \
    TEST(test_##family##_without_memory)                                                           \
    {                                                                                              \
        sweep(#family, family, &eager, host_memory);                                               \
    }                                                                                              \
    TEST(test_##family##_without_driver)                                                           \
    {                                                                                              \
        sweep(#family, family, &eager, driver_calls);                                              \
    }
#define CAPTURED(family)                                                                           \
    TEST(test_captured_##family##_without_memory)                                                  \
    {                                                                                              \
        sweep("captured " #family, family, &captured, host_memory);                                \
    }                                                                                              \
    TEST(test_captured_##family##_without_driver)                                                  \
    {                                                                                              \
        sweep("captured " #family, family, &captured, driver_calls);                               \
    }
EAGER(products)
EAGER(functions)
EAGER(arithmetic)
EAGER(reductions)
EAGER(draws)
CAPTURED(products)
CAPTURED(draws)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_without_memory),
        cmocka_unit_test(test_products_without_driver),
        cmocka_unit_test(test_functions_without_memory),
        cmocka_unit_test(test_functions_without_driver),
        cmocka_unit_test(test_arithmetic_without_memory),
        cmocka_unit_test(test_arithmetic_without_driver),
        cmocka_unit_test(test_reductions_without_memory),
        cmocka_unit_test(test_reductions_without_driver),
        cmocka_unit_test(test_draws_without_memory),
        cmocka_unit_test(test_draws_without_driver),
        cmocka_unit_test(test_captured_products_without_memory),
        cmocka_unit_test(test_captured_products_without_driver),
        cmocka_unit_test(test_captured_draws_without_memory),
        cmocka_unit_test(test_captured_draws_without_driver),
    };
    /* Memory whose free was made to fail is still there at the end. */
    (void)setenv("FAKE_CUDA_LENIENT", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
