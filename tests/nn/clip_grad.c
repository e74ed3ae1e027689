/* SPDX-License-Identifier: MIT */
/* tests/nn/clip_grad.c: clipping of gradients: against PyTorch's numbers and an independent
 * reference, eager and replayed; norms that are not finite; what is refused. */
#include "support/scaler_check.h"
#include "support/test.h"

/* Of all gradients together, and what becomes of them, in double. */
static double reference(const double *values, size_t count, double p)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = p == INFINITY ? fmax(sum, fabs(values[i])) : sum + pow(fabs(values[i]), p);
    return p == INFINITY ? sum : pow(sum, 1 / p);
}

/* PyTorch 2.11: gradients -3, -2, ... 3 and 0, 0.25, ... 1.25, max_norm 1.5. */
TEST(test_torch_numbers)
{
    static const struct {
        double p, norm, first, last;
    } rows[] = {
        {1, 15.75, -0.2857142686843872, 0.119047611951828},
        {2, 5.60691499710083, -0.8025802373886108, 0.3344084322452545},
        {INFINITY, 3, -1.4999995231628418, 0.6249997615814209},
        {3, 4.226805686950684, -1.0646334886550903, 0.44359728693962097},
        {0.5, 155.84262084960938, -0.028875282034277916, 0.012031367048621178},
    };
    t_scene scene;
    sc_params p;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        double a[SC_COUNT] = {0}, b[SC_COUNT] = {0};
        const ph_clip_grad_options options = {.norm_type = rows[r].p};
        for (int i = 0; i < 7; i++)
            a[i] = i - 3;
        for (int i = 0; i < 6; i++)
            b[i] = 0.25 * i;
        sc_gradients(&p, 0);
        sc_write(&p, ph_tensor_grad(p.param[0]), a);
        sc_write(&p, ph_tensor_grad(p.param[2]), b);
        ph_tensor *norm = ph_clip_grad_norm(scene.tape, p.module, 1.5, &options);
        assert_int_equal(ph_tensor_dtype(norm), PH_DTYPE_F32);
        assert_int_equal(ph_tensor_rank(norm), 0);
        double got = sc_item(scene.tape, norm);
        if (!(fabs(got - rows[r].norm) <= 1e-6 * rows[r].norm))
            fail_msg("p %g: %.9g, expected %.9g", rows[r].p, got, rows[r].norm);
        sc_read(&p, ph_tensor_grad(p.param[0]), a);
        sc_read(&p, ph_tensor_grad(p.param[2]), b);
        assert_true(fabs(a[0] - rows[r].first) <= 1e-6);
        assert_true(fabs(b[5] - rows[r].last) <= 1e-6);
        assert_ok(ph_tape_clear(scene.tape));
    }
    sc_close(&p);
    t_scene_close(&scene);
}

/* Random gradients of many shapes, one empty, one not aligned, some not contiguous. */
static void run_random(ph_dtype dtype, double p, double max_norm, bool of_optimizer, bool strided)
{
    oc_problem x;
    const ph_clip_grad_options options = {.norm_type = p};
    const oc_rule rule = {.lr = 1};
    oc_open(&x, dtype, NULL, 0, 7);
    ph_optimizer *sgd = oc_create(&rule, x.module);
    if (strided)
        oc_strided_gradients(&x);
    else
        oc_gradients(&x, UINT64_MAX);
    size_t count = 0;
    for (size_t k = 0; k < x.count; k++)
        count += (size_t)x.param[k].count;
    double *all = calloc(count, sizeof *all), *at = all;
    assert_non_null(all);
    for (size_t k = 0; k < x.count; k++)
        for (int64_t i = 0; i < x.param[k].count; i++)
            *at++ = x.param[k].g[i];
    double want = reference(all, count, p), factor = fmin(1, max_norm / (want + 1e-6));
    ph_tape *tape = x.scene.tape;
    double got =
        sc_item(tape, of_optimizer ? ph_optimizer_clip_grad_norm(tape, sgd, max_norm, &options)
                                   : ph_clip_grad_norm(tape, x.module, max_norm, &options));
    double bound = dtype == PH_DTYPE_F32 ? 1e-6 : 1e-12;
    if (!(fabs(got - want) <= bound * want))
        fail_msg("p %g: norm %.17g, expected %.17g", p, got, want);
    for (size_t k = 0; k < x.count; k++)
        for (int64_t i = 0; i < x.param[k].count; i++)
            x.param[k].g[i] *= factor;
    const oc_rule step = {.lr = 1};
    oc_reference(&x, &step);
    assert_ok(oc_step(&x, sgd));
    oc_compare(&x, bound, "clipped");
    free(all);
    ph_optimizer_destroy(sgd);
    oc_close(&x);
}

TEST(clipped_gradients_match_the_reference_for_every_order)
{
    static const double orders[] = {1, 2, INFINITY, 3, 0.5};
    for (unsigned k = 0; k < 40; k++)
        run_random(k & 1 ? PH_DTYPE_F64 : PH_DTYPE_F32, orders[k % 5], k & 2 ? 0.5 : 1e9, k & 4,
                   k & 8);
}

/* f32 and f64 together: the norm is f32; of f64 alone, f64; of none, 0. */
TEST(the_norm_has_the_dtype_that_holds_all_gradients)
{
    t_scene scene;
    sc_params p;
    t_scene_open(&scene);
    for (int wide = 0; wide < 2; wide++) {
        sc_open(&p, &scene, PH_DTYPE_F64, wide ? PH_DTYPE_F64 : PH_DTYPE_F32);
        ph_tensor *none = ph_clip_grad_norm(scene.tape, p.module, 1, NULL);
        assert_true(sc_item(scene.tape, none) == 0);
        sc_gradients(&p, 3);
        ph_tensor *norm = ph_clip_grad_norm(scene.tape, p.module, 1e9, NULL);
        assert_int_equal(ph_tensor_dtype(norm), wide ? PH_DTYPE_F64 : PH_DTYPE_F32);
        assert_true(fabs(sc_item(scene.tape, norm) - 3 * sqrt(SC_PARAMS * SC_COUNT)) < 1e-5);
        sc_expect(&p, true, 3, 0);
        ph_clip_grad_norm(scene.tape, p.module, 1, NULL);
        sc_expect(&p, true, 1 / sqrt(SC_PARAMS * SC_COUNT), 1e-7);
        /* a gradient of two parameters counts once, and is clipped once */
        if (wide) {
            assert_ok(ph_tensor_set_grad(p.param[0], NULL));
            sc_gradients(&p, 1);
            assert_ok(ph_tensor_set_grad(p.param[1], ph_tensor_grad(p.param[0])));
            assert_true(
                fabs(sc_item(scene.tape, ph_clip_grad_norm(scene.tape, p.module, 1e9, NULL)) -
                     sqrt(2.0 * SC_COUNT)) < 1e-9);
            ph_optimizer *sgd = sc_sgd(&p, 1, 0);
            ph_clip_grad_value(scene.tape, p.module, 0.75);
            ph_optimizer_clip_grad_value(scene.tape, sgd, 0.5);
            sc_expect(&p, true, 0.5, 0);
            ph_optimizer_destroy(sgd);
        }
        assert_ok(ph_tape_clear(scene.tape));
        sc_close(&p);
    }
    t_scene_close(&scene);
}

TEST(test_by_value)
{
    static const double from[SC_COUNT] = {-3, 3, 0.5, -0.5, INFINITY, -INFINITY, NAN, 1, -1},
                        to[SC_COUNT] = {-1, 1, 0.5, -0.5, 1, -1, NAN, 1, -1};
    t_scene scene;
    sc_params p;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F64, PH_DTYPE_F32);
    sc_gradients(&p, 0);
    for (size_t i = 0; i < SC_PARAMS; i++)
        sc_write(&p, ph_tensor_grad(p.param[i]), from);
    ph_clip_grad_value(scene.tape, p.module, 1);
    for (size_t i = 0; i < SC_PARAMS; i++) {
        double got[SC_COUNT];
        sc_read(&p, ph_tensor_grad(p.param[i]), got);
        for (size_t k = 0; k < SC_COUNT; k++)
            assert_true(got[k] == to[k] || (isnan(got[k]) && isnan(to[k])));
    }
    sc_close(&p);
    t_scene_close(&scene);
}

/* As PyTorch has it: an infinity makes the finite ones 0 and itself NaN, a NaN all of them. */
TEST(test_nonfinite_by_default)
{
    t_scene scene;
    sc_params p;
    double got[SC_COUNT];
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    for (int k = 0; k < 3; k++) {
        const ph_clip_grad_options options = {.norm_type = k == 0 ? (double)INFINITY : k};
        sc_gradients(&p, 1);
        sc_spoil(&p, 1, 5, -INFINITY);
        assert_true(sc_item(scene.tape, ph_clip_grad_norm(scene.tape, p.module, 1, &options)) ==
                    INFINITY);
        sc_read(&p, ph_tensor_grad(p.param[1]), got);
        assert_true(got[0] == 0 && isnan(got[5]));
        sc_gradients(&p, 1);
        sc_spoil(&p, 0, 5, NAN);
        assert_true(
            isnan(sc_item(scene.tape, ph_clip_grad_norm(scene.tape, p.module, 1, &options))));
        sc_read(&p, ph_tensor_grad(p.param[2]), got);
        assert_true(isnan(got[0]));
    }
    sc_close(&p);
    t_scene_close(&scene);
}

/* ---- captured ---- */
typedef struct body {
    oc_problem *problem;
    ph_optimizer *optimizer;
    ph_tensor *norm;
    double p;
    bool fails;
} body;

static ph_status clip_and_step(ph_stream *stream, void *user)
{
    const body *b = user;
    const ph_clip_grad_options options = {.norm_type = b->p, .error_if_nonfinite = b->fails};
    ph_tape *tape = b->problem->scene.tape;
    (void)stream;
    ph_tensor_copy(tape, b->norm, ph_clip_grad_norm(tape, b->problem->module, 1, &options));
    ph_optimizer_clip_grad_value(tape, b->optimizer, 0.05);
    ph_optimizer_step(tape, b->optimizer);
    return ph_tape_clear(tape);
}

static void open_body(body *b, oc_problem *x, double p)
{
    const oc_rule rule = {.lr = 0.1, .momentum = 0.9};
    oc_open(x, PH_DTYPE_F32, NULL, 0, 3);
    *b = (body){.problem = x, .optimizer = oc_create(&rule, x->module), .p = p};
    assert_ok(ph_tensor_create(&b->norm, x->scene.device, PH_DTYPE_F32, PH_SCALAR));
}

static void close_body(body *b)
{
    ph_optimizer_destroy(b->optimizer);
    ph_tensor_release(b->norm);
    oc_close(b->problem);
}

TEST(replayed_clipping_has_the_bits_of_eager_clipping)
{
    static const double orders[] = {1, 2, INFINITY, 3};
    for (size_t k = 0; k < 4; k++) {
        oc_problem eager, replayed;
        body a, b;
        ph_graph *graph = NULL;
        open_body(&a, &eager, orders[k]);
        open_body(&b, &replayed, orders[k]);
        for (int i = 0; i < 6; i++) {
            oc_gradients(&eager, UINT64_MAX);
            oc_gradients(&replayed, UINT64_MAX);
            assert_ok(clip_and_step(NULL, &a));
            if (i == 2) {
                assert_ok(ph_graph_create(&graph, NULL));
                assert_ok(ph_graph_capture(graph, replayed.scene.stream, NULL, clip_and_step, &b));
            }
            assert_ok(graph ? ph_graph_replay(graph, replayed.scene.stream)
                            : clip_and_step(NULL, &b));
            oc_equal(&eager, &replayed, "replayed");
            assert_true(sc_item(eager.scene.tape, a.norm) == sc_item(replayed.scene.tape, b.norm));
        }
        ph_graph_destroy(graph);
        close_body(&a);
        close_body(&b);
    }
}

/* The failure comes with the next call or replay, once, and the gradients were left alone. */
TEST(test_error_if_nonfinite)
{
    oc_problem x;
    body b;
    ph_graph *graph;
    const ph_clip_grad_options options = {.error_if_nonfinite = true};
    open_body(&b, &x, 2);
    ph_tape *tape = x.scene.tape;
    oc_gradients(&x, UINT64_MAX);
    b.fails = true;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(oc_step(&x, b.optimizer));
    assert_error(ph_graph_capture(graph, x.scene.stream, NULL, clip_and_step, &b), PH_ERROR_STATE,
                 "cannot be made in a capture");
    assert_ok(ph_graph_reset(graph));
    assert_ok(clip_and_step(NULL, &b));
    ph_tensor_fill(tape, ph_tensor_grad(x.param[0].tensor), INFINITY);
    ph_tensor_fill(tape, ph_tensor_grad(x.param[1].tensor), 100);
    ph_tensor_copy(tape, b.norm, ph_clip_grad_norm(tape, x.module, 1, &options));
    assert_ok(ph_tape_clear(tape));
    assert_true(sc_item(tape, b.norm) == INFINITY);
    float got[15];
    assert_ok(ph_tensor_read(tape, ph_tensor_grad(x.param[1].tensor), got, sizeof got));
    assert_true(got[0] == 100);
    /* an optimizer's is another one */
    ph_optimizer_clip_grad_norm(tape, b.optimizer, 1, &options);
    assert_ok(ph_tape_clear(tape));
    assert_null(ph_clip_grad_norm(tape, x.module, 1, &options));
    assert_error(ph_tape_clear(tape), PH_ERROR_STATE, "was not finite in a clip before");
    oc_gradients(&x, UINT64_MAX);
    assert_ok(clip_and_step(NULL, &b));
    assert_ok(ph_graph_capture(graph, x.scene.stream, NULL, clip_and_step, &b));
    for (int i = 0; i < 3; i++) {
        oc_gradients(&x, UINT64_MAX);
        assert_ok(ph_graph_replay(graph, x.scene.stream));
        ph_tensor_fill(tape, ph_tensor_grad(x.param[0].tensor), NAN);
        assert_ok(ph_graph_replay(graph, x.scene.stream));
        assert_ok(ph_stream_synchronize(x.scene.stream));
        assert_error(ph_graph_replay(graph, x.scene.stream), PH_ERROR_STATE,
                     "ph_graph_replay: the norm of the gradients was not finite");
    }
    ph_graph_destroy(graph);
    close_body(&b);
}

/* ---- misuse ---- */
#define refused(tape, expression, status, part)                                                    \
    do {                                                                                           \
        (void)(expression);                                                                        \
        assert_error(ph_tape_clear(tape), status, part);                                           \
    } while (0)

TEST(options_and_arguments_of_clipping_are_checked)
{
    t_scene scene;
    sc_params p;
    ph_tensor *whole;
    t_scene_open(&scene);
    ph_tape *t = scene.tape;
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    ph_optimizer *sgd = sc_sgd(&p, 1, 0);
    assert_null(ph_clip_grad_norm(NULL, p.module, 1, NULL));
    ph_clip_grad_value(NULL, p.module, 1);
    sc_gradients(&p, 5);
    refused(t, ph_clip_grad_norm(t, NULL, 1, NULL), PH_ERROR_ARGUMENT, "module is NULL");
    refused(t, ph_optimizer_clip_grad_norm(t, NULL, 1, NULL), PH_ERROR_ARGUMENT,
            "optimizer is NULL");
    refused(t, (ph_clip_grad_value(t, NULL, 1), 0), PH_ERROR_ARGUMENT, "module is NULL");
    refused(t, (ph_optimizer_clip_grad_value(t, NULL, 1), 0), PH_ERROR_ARGUMENT,
            "optimizer is NULL");
    refused(t, ph_clip_grad_norm(t, p.module, -1, NULL), PH_ERROR_ARGUMENT, "max_norm is -1");
    refused(t, ph_clip_grad_norm(t, p.module, NAN, NULL), PH_ERROR_ARGUMENT, "max_norm");
    refused(t, (ph_clip_grad_value(t, p.module, -0.5), 0), PH_ERROR_ARGUMENT, "value is -0.5");
    refused(t, ph_clip_grad_norm(t, p.module, 1, &(ph_clip_grad_options){.norm_type = -2}),
            PH_ERROR_ARGUMENT, "norm_type is -2");
    refused(t, ph_clip_grad_norm(t, p.module, 1, &(ph_clip_grad_options){.norm_type = PH_ZERO}),
            PH_ERROR_ARGUMENT, "norm_type is 0");
    refused(t, ph_clip_grad_norm(t, p.module, 1, &(ph_clip_grad_options){.reserved = {1}}),
            PH_ERROR_ARGUMENT, "reserved");
    sc_expect(&p, true, 5, 0);
    /* a and b lie over one another by one element */
    assert_ok(ph_tensor_create(&whole, scene.device, PH_DTYPE_F32, PH_SHAPE(2 * SC_COUNT)));
    assert_ok(ph_tensor_set_grad(p.param[0], ph_slice(t, whole, 0, 0, SC_COUNT)));
    assert_ok(
        ph_tensor_set_grad(p.param[1], ph_slice(t, whole, 0, SC_COUNT - 1, 2 * SC_COUNT - 1)));
    refused(t, ph_clip_grad_norm(t, p.module, 1, NULL), PH_ERROR_STATE,
            "the gradient of parameter b overlaps");
    ph_tensor_release(whole);
    ph_optimizer_destroy(sgd);
    sc_close(&p);
    t_scene_close(&scene);
}

/* No host memory at any one place: the gradients are as they were, or clipped. */
TEST(without_host_memory_gradients_are_clipped_or_unchanged)
{
    t_scene scene;
    sc_params p;
    int64_t at = 0;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F64);
    sc_gradients(&p, 2);
    ph_status status = PH_ERROR_HOST_MEMORY;
    for (; status != PH_OK; at++) {
        ph__alloc_fail_after(at);
        ph_clip_grad_norm(scene.tape, p.module, 1, NULL);
        status = ph_tape_clear(scene.tape);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK) {
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
            sc_expect(&p, true, 2, 0);
        }
    }
    assert_true(at > 3);
    sc_expect(&p, true, 1 / sqrt(SC_PARAMS * SC_COUNT), 1e-7);
    sc_close(&p);
    t_scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_numbers),
        cmocka_unit_test(clipped_gradients_match_the_reference_for_every_order),
        cmocka_unit_test(the_norm_has_the_dtype_that_holds_all_gradients),
        cmocka_unit_test(test_by_value),
        cmocka_unit_test(test_nonfinite_by_default),
        cmocka_unit_test(replayed_clipping_has_the_bits_of_eager_clipping),
        cmocka_unit_test(test_error_if_nonfinite),
        cmocka_unit_test(options_and_arguments_of_clipping_are_checked),
        cmocka_unit_test(without_host_memory_gradients_are_clipped_or_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
