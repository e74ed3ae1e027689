/* SPDX-License-Identifier: MIT */
/* tests/nn/grad_scaler.c: the gradient scaler around graphs: scales, skipped steps, growth and
 * backoff against PyTorch's numbers and an independent reference, several optimizers. */
#include "support/scaler_check.h"
#include "support/test.h"
#include <float.h>
#include <stdio.h>

/* Where the infinity is does not matter, nor what it is. */
TEST(test_every_infinity_is_found)
{
    t_scene scene;
    sc_params p;
    static const double bad[] = {INFINITY, -INFINITY, NAN};
    static const size_t elements[] = {0, 1, 15, SC_COUNT - 1};
    t_scene_open(&scene);
    for (int wide = 0; wide < 2; wide++) {
        sc_open(&p, &scene, wide ? PH_DTYPE_F64 : PH_DTYPE_F32, PH_DTYPE_F32);
        ph_grad_scaler *scaler = sc_scaler(&scene, 0x1p60, 100);
        ph_optimizer *sgd = sc_sgd(&p, 1, 0);
        sc_use(scene.tape, scaler);
        double scale = 0x1p60;
        for (size_t k = 0; k < 36; k++) {
            sc_gradients(&p, 1);
            sc_spoil(&p, k % 3, elements[k / 3 % 4], bad[k / 12]);
            ph_grad_scaler_step(scene.tape, scaler, sgd);
            ph_grad_scaler_update(scene.tape, scaler);
            scale /= 2;
            assert_true(sc_scale(scene.tape, scaler) == scale);
            sc_expect(&p, false, 1, 0);
        }
        sc_gradients(&p, scale);
        ph_grad_scaler_step(scene.tape, scaler, sgd);
        ph_grad_scaler_update(scene.tape, scaler);
        sc_expect(&p, false, 0, 0);
        assert_int_equal(sc_tracker(scene.tape, scaler), 1);
        ph_optimizer_destroy(sgd);
        ph_grad_scaler_destroy(scaler);
        sc_close(&p);
    }
    t_scene_close(&scene);
}

/* PyTorch 2.11's scaler on its CPU: init_scale 1000, factors 3.7 and 0.3, an interval of 4; the
 * gradient of each weight is 2, and infinite where `found` says so; SGD with a rate of 0.1. */
TEST(test_torch_numbers)
{
    static const struct {
        bool found;
        double scale;
        unsigned tracker;
        double weight;
    } rows[] = {
        {true, 0x1.2c00000000000p+8, 0, 0x1.0000000000000p+0},
        {false, 0x1.2c00000000000p+8, 1, 0x1.99999a0000000p-1},
        {false, 0x1.2c00000000000p+8, 2, 0x1.3333340000000p-1},
        {false, 0x1.2c00000000000p+8, 3, 0x1.99999c0000000p-2},
        {false, 0x1.1580000000000p+10, 0, 0x1.99999e0000000p-3},
        {true, 0x1.4d00000000000p+8, 0, 0x1.99999e0000000p-3},
        {true, 0x1.8f999a0000000p+6, 0, 0x1.99999e0000000p-3},
        {false, 0x1.8f999a0000000p+6, 1, 0x1.0000000000000p-25},
        {false, 0x1.8f999a0000000p+6, 2, -0x1.9999960000000p-3},
        {false, 0x1.8f999a0000000p+6, 3, -0x1.9999980000000p-2},
        {false, 0x1.71a1480000000p+8, 0, -0x1.3333320000000p-1},
        {false, 0x1.71a1480000000p+8, 1, -0x1.9999980000000p-1},
        {false, 0x1.71a1480000000p+8, 2, -0x1.fffffe0000000p-1},
        {true, 0x1.bb8e560000000p+6, 0, -0x1.fffffe0000000p-1},
        {false, 0x1.bb8e560000000p+6, 1, -0x1.3333320000000p+0},
        {true, 0x1.0a22340000000p+5, 0, -0x1.3333320000000p+0},
        {false, 0x1.0a22340000000p+5, 1, -0x1.6666660000000p+0},
        {false, 0x1.0a22340000000p+5, 2, -0x1.99999a0000000p+0},
        {false, 0x1.0a22340000000p+5, 3, -0x1.ccccce0000000p+0},
        {false, 0x1.ec58e00000000p+6, 0, -0x1.0000000000000p+1},
        {false, 0x1.ec58e00000000p+6, 1, -0x1.19999a0000000p+1},
        {false, 0x1.ec58e00000000p+6, 2, -0x1.3333340000000p+1},
        {false, 0x1.ec58e00000000p+6, 3, -0x1.4cccce0000000p+1},
        {false, 0x1.c76bd00000000p+8, 0, -0x1.6666680000000p+1},
        {false, 0x1.c76bd00000000p+8, 1, -0x1.8000020000000p+1},
        {false, 0x1.c76bd00000000p+8, 2, -0x1.99999c0000000p+1},
        {true, 0x1.1140b00000000p+7, 0, -0x1.99999c0000000p+1},
        {false, 0x1.1140b00000000p+7, 1, -0x1.b333360000000p+1},
        {false, 0x1.1140b00000000p+7, 2, -0x1.ccccd00000000p+1},
        {false, 0x1.1140b00000000p+7, 3, -0x1.e6666a0000000p+1},
    };
    t_scene scene;
    sc_params p;
    ph_grad_scaler *scaler;
    const ph_grad_scaler_options options = {
        .init_scale = 1000, .growth_factor = 3.7, .backoff_factor = 0.3, .growth_interval = 4};
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    assert_ok(ph_grad_scaler_create(&scaler, scene.device, &options));
    ph_optimizer *sgd = sc_sgd(&p, 0.1, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ph_tensor *two = ph_full(scene.tape, PH_DTYPE_F32, PH_SCALAR, 2);
        double scaled = sc_item(scene.tape, ph_grad_scaler_scale(scene.tape, scaler, two));
        sc_gradients(&p, scaled);
        if (rows[i].found)
            sc_spoil(&p, 1, 1, INFINITY);
        ph_grad_scaler_step(scene.tape, scaler, sgd);
        ph_grad_scaler_update(scene.tape, scaler);
        assert_true(sc_scale(scene.tape, scaler) == rows[i].scale);
        assert_int_equal(sc_tracker(scene.tape, scaler), rows[i].tracker);
        sc_expect(&p, false, rows[i].weight, 1e-6);
        assert_ok(ph_tape_clear(scene.tape));
    }
    ph_optimizer_destroy(sgd);
    ph_grad_scaler_destroy(scaler);
    sc_close(&p);
    t_scene_close(&scene);
}

/* Random infinities and options: the scale and the tracker of a loop in C. */
TEST(test_grad_scaling_update_scale)
{
    t_scene scene;
    sc_params p;
    ph__rng rng = {5};
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    for (int round = 0; round < 8; round++) {
        const ph_grad_scaler_options options = {
            .init_scale = round == 3   ? 0x1p126
                          : round == 5 ? 0x1p-124
                                       : 1 + (double)(ph__rng_next(&rng) % 1000),
            .growth_factor = 1.5 + round,
            .backoff_factor = 0.9 / (1 + round),
            .growth_interval = 1 + (uint64_t)round % 4};
        ph_grad_scaler *scaler;
        assert_ok(ph_grad_scaler_create(&scaler, scene.device, &options));
        ph_optimizer *sgd = sc_sgd(&p, 0.1, 0);
        float scale = (float)options.init_scale;
        uint64_t tracker = 0;
        sc_use(scene.tape, scaler);
        for (int i = 0; i < 25; i++) {
            bool found = ph__rng_next(&rng) % (round == 3 ? 20 : 4) == 0;
            sc_gradients(&p, found ? INFINITY : 0);
            ph_grad_scaler_step(scene.tape, scaler, sgd);
            ph_grad_scaler_update(scene.tape, scaler);
            tracker = found ? 0 : tracker + 1;
            double less = (double)scale * options.backoff_factor;
            if (found)
                scale = less < (double)FLT_MIN ? scale : (float)less;
            else if (tracker == options.growth_interval) {
                double grown = (double)scale * options.growth_factor;
                scale = grown > (double)FLT_MAX ? scale : (float)grown;
                tracker = 0;
            }
            assert_true((float)sc_scale(scene.tape, scaler) == scale);
            assert_int_equal(sc_tracker(scene.tape, scaler), tracker);
        }
        ph_optimizer_destroy(sgd);
        ph_grad_scaler_destroy(scaler);
    }
    sc_close(&p);
    t_scene_close(&scene);
}

/* f32 and f64 gradients side by side; the losses too; f16 ones become f32. */
TEST(test_grad_scaling_unscale)
{
    t_scene scene;
    sc_params p;
    static const ph_dtype dtypes[] = {PH_DTYPE_F16, PH_DTYPE_BF16, PH_DTYPE_F32, PH_DTYPE_F64};
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F64, PH_DTYPE_F32);
    ph_grad_scaler *scaler = sc_scaler(&scene, 65536 * 4, 100);
    ph_optimizer *sgd = sc_sgd(&p, 1, 0);
    for (size_t i = 0; i < 4; i++) {
        ph_tensor *x = ph_full(scene.tape, dtypes[i], PH_SHAPE(2), 3);
        assert_ok(ph_tensor_set_requires_grad(x, true));
        ph_tensor *y = ph_grad_scaler_scale(scene.tape, scaler, x), *grad;
        assert_ok(ph_tape_status(scene.tape));
        assert_int_equal(ph_tensor_dtype(y), i == 3 ? PH_DTYPE_F64 : PH_DTYPE_F32);
        assert_true(sc_item(scene.tape, ph_select(scene.tape, y, 0, 1)) == 3.0 * 65536 * 4);
        ph_grad(scene.tape, &grad, &x, 1, (ph_tensor *[]){ph_sum(scene.tape, y)}, NULL, 1, NULL);
        if (i > 0) /* beyond f16 */
            assert_true(sc_item(scene.tape, ph_select(scene.tape, grad, 0, 0)) == 65536.0 * 4);
        assert_ok(ph_tape_clear(scene.tape));
    }
    sc_gradients(&p, 65536.0 * 2);
    ph_grad_scaler_unscale(scene.tape, scaler, sgd);
    sc_expect(&p, true, 0.5, 0);
    ph_grad_scaler_step(scene.tape, scaler, sgd);
    ph_grad_scaler_update(scene.tape, scaler);
    sc_expect(&p, true, 0.5, 0);
    sc_expect(&p, false, 0.5, 0);
    ph_optimizer_destroy(sgd);
    ph_grad_scaler_destroy(scaler);
    sc_close(&p);
    t_scene_close(&scene);
}

/* The one with an infinity is skipped, and the scale backs off for both. */
TEST(test_grad_scaling_multiple)
{
    t_scene scene;
    sc_params p, q;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    sc_open(&q, &scene, PH_DTYPE_F64, PH_DTYPE_F64);
    ph_grad_scaler *scaler = sc_scaler(&scene, 128, 100);
    ph_optimizer *a = sc_sgd(&p, 1, 0.5), *b = sc_sgd(&q, 1, 0);
    sc_use(scene.tape, scaler);
    for (int round = 0; round < 2; round++) {
        double scale = sc_scale(scene.tape, scaler);
        sc_gradients(&p, scale);
        sc_gradients(&q, scale);
        if (round == 0)
            sc_spoil(&p, 2, 3, INFINITY);
        ph_grad_scaler_unscale(scene.tape, scaler, a);
        ph_grad_scaler_step(scene.tape, scaler, b);
        ph_grad_scaler_step(scene.tape, scaler, a);
        ph_grad_scaler_update(scene.tape, scaler);
        assert_true(sc_scale(scene.tape, scaler) == 64);
        sc_expect(&p, false, round == 0 ? 1 : 0, 0);
        sc_expect(&q, false, round == 0 ? 0 : -1, 0);
    }
    ph_optimizer_destroy(a);
    ph_optimizer_destroy(b);
    ph_grad_scaler_destroy(scaler);
    sc_close(&p);
    sc_close(&q);
    t_scene_close(&scene);
}

/* One after the other, more than a scaler has places for. */
TEST(test_many_optimizers)
{
    t_scene scene;
    sc_params p;
    ph_optimizer *all[PH_GRAD_SCALER_OPTIMIZERS + 1];
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    ph_grad_scaler *scaler = sc_scaler(&scene, 1, 1000);
    sc_use(scene.tape, scaler);
    sc_gradients(&p, 0);
    for (int i = 0; i < 3 * PH_GRAD_SCALER_OPTIMIZERS; i++) {
        ph_optimizer *sgd = sc_sgd(&p, 0.1, 0);
        ph_grad_scaler_step(scene.tape, scaler, sgd);
        ph_grad_scaler_update(scene.tape, scaler);
        ph_optimizer_destroy(sgd);
        assert_ok(ph_tape_status(scene.tape));
    }
    for (int i = 0; i <= PH_GRAD_SCALER_OPTIMIZERS; i++) {
        all[i] = sc_sgd(&p, 0.1, 0);
        ph_grad_scaler_step(scene.tape, scaler, all[i]);
    }
    assert_error(ph_tape_clear(scene.tape), PH_ERROR_STATE, "takes no more");
    for (int i = 0; i <= PH_GRAD_SCALER_OPTIMIZERS; i++)
        ph_optimizer_destroy(all[i]);
    ph_grad_scaler_destroy(scaler);
    sc_close(&p);
    t_scene_close(&scene);
}

/* Gradients that are not contiguous, and one that two parameters have. */
TEST(test_other_gradients)
{
    t_scene scene;
    sc_params p;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    for (int fused = 0; fused < 2; fused++) {
        ph_grad_scaler *scaler;
        const ph_grad_scaler_options options = {.init_scale = 4, .fused = fused};
        assert_ok(ph_grad_scaler_create(&scaler, scene.device, &options));
        ph_optimizer *sgd = sc_sgd(&p, 1, 0);
        sc_use(scene.tape, scaler);
        ph_tensor *wide = ph_full(scene.tape, PH_DTYPE_F32, PH_SHAPE(SC_COUNT, 3), 2);
        ph_tensor *strided = ph_select(scene.tape, wide, 1, 1);
        assert_false(ph_tensor_is_contiguous(strided));
        for (size_t i = 0; i < SC_PARAMS; i++)
            ph_tensor_fill(scene.tape, ph_detach(scene.tape, p.param[i]), 1);
        sc_gradients(&p, 2);
        assert_ok(ph_tensor_set_grad(p.param[0], strided));
        assert_ok(ph_tensor_set_grad(p.param[2], ph_tensor_grad(p.param[1])));
        ph_grad_scaler_step(scene.tape, scaler, sgd);
        ph_grad_scaler_update(scene.tape, scaler);
        sc_expect(&p, true, fused ? 2 : 0.5, 0);
        sc_expect(&p, false, 0.5, 0);
        /* beside it nothing was changed */
        assert_true(sc_item(scene.tape,
                            ph_select(scene.tape, ph_select(scene.tape, wide, 1, 0), 0, 5)) == 2);
        for (size_t i = 0; i < SC_PARAMS; i++)
            assert_ok(ph_tensor_set_grad(p.param[i], NULL));
        ph_optimizer_destroy(sgd);
        ph_grad_scaler_destroy(scaler);
    }
    sc_close(&p);
    t_scene_close(&scene);
}

/* With a wrong number the user's scale divides too: 15 / 5 is 3, 15 / 5 / 3 is 1. */
TEST(test_grad_scaler_with_preset_grad_scale)
{
    t_scene scene;
    sc_params p;
    t_scene_open(&scene);
    for (int k = 0; k < 4; k++) {
        bool in_place_unscale = k % 2;
        ph_grad_scaler *scaler;
        const ph_grad_scaler_options options = {.init_scale = 5, .fused = k / 2};
        assert_ok(ph_grad_scaler_create(&scaler, scene.device, &options));
        sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
        ph_optimizer *sgd = sc_sgd(&p, 0.5, 0);
        sc_use(scene.tape, scaler);
        sc_gradients(&p, 15);
        if (in_place_unscale) {
            ph_grad_scaler_unscale(scene.tape, scaler, sgd);
            sc_expect(&p, true, 3, 1e-6);
        }
        ph_optimizer_set_grad_scale(scene.tape, sgd,
                                    ph_full(scene.tape, PH_DTYPE_F32, PH_SHAPE(1), 3));
        ph_grad_scaler_step(scene.tape, scaler, sgd);
        sc_expect(&p, true, 1, 1e-6);
        sc_expect(&p, false, 0.5, 1e-6);
        ph_grad_scaler_update(scene.tape, scaler);
        /* a step without the scaler divides as well, and leaves the gradients */
        sc_gradients(&p, 3);
        ph_optimizer_step(scene.tape, sgd);
        sc_expect(&p, true, 3, 0);
        sc_expect(&p, false, 0, 1e-6);
        ph_optimizer_set_grad_scale(scene.tape, sgd, NULL);
        ph_optimizer_step(scene.tape, sgd);
        sc_expect(&p, false, -1.5, 1e-6);
        ph_optimizer_destroy(sgd);
        ph_grad_scaler_destroy(scaler);
        sc_close(&p);
    }
    t_scene_close(&scene);
}

TEST(a_disabled_scaler_steps_as_if_it_were_not_there)
{
    t_scene scene;
    sc_params p;
    ph_grad_scaler *scaler;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    assert_ok(
        ph_grad_scaler_create(&scaler, scene.device, &(ph_grad_scaler_options){.disabled = true}));
    ph_optimizer *sgd = sc_sgd(&p, 1, 0);
    ph_tensor *x = ph_full(scene.tape, PH_DTYPE_F32, PH_SCALAR, 1);
    assert_ptr_equal(ph_grad_scaler_scale(scene.tape, scaler, x), x);
    sc_gradients(&p, 1);
    ph_grad_scaler_unscale(scene.tape, scaler, sgd);
    ph_grad_scaler_unscale(scene.tape, scaler, sgd);
    ph_grad_scaler_step(scene.tape, scaler, sgd);
    ph_grad_scaler_step(scene.tape, scaler, sgd);
    ph_grad_scaler_update(scene.tape, scaler);
    ph_grad_scaler_update_to(scene.tape, scaler, 3);
    assert_true(sc_scale(scene.tape, scaler) == 1);
    assert_int_equal(sc_tracker(scene.tape, scaler), 0);
    sc_expect(&p, false, -1, 0);
    ph_optimizer_destroy(sgd);
    ph_grad_scaler_destroy(scaler);
    sc_close(&p);
    t_scene_close(&scene);
}

/* 0 in the options; a scale of the caller's, also from the device. */
TEST(test_defaults_and_new_scales)
{
    t_scene scene;
    sc_params p;
    ph_grad_scaler *scaler;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    assert_ok(ph_grad_scaler_create(&scaler, scene.device, NULL));
    ph_optimizer *sgd = sc_sgd(&p, 0.1, 0);
    sc_use(scene.tape, scaler);
    assert_true(sc_scale(scene.tape, scaler) == 65536);
    sc_gradients(&p, 0);
    for (int i = 0; i < 2000; i++) {
        ph_grad_scaler_step(scene.tape, scaler, sgd);
        ph_grad_scaler_update(scene.tape, scaler);
        if (i == 1998)
            assert_true(sc_scale(scene.tape, scaler) == 65536);
    }
    assert_true(sc_scale(scene.tape, scaler) == 131072);
    ph_grad_scaler_update_to(scene.tape, scaler, 24);
    assert_true(sc_scale(scene.tape, scaler) == 24);
    sc_gradients(&p, NAN);
    ph_grad_scaler_step(scene.tape, scaler, sgd);
    ph_grad_scaler_update_from(scene.tape, scaler, ph_full(scene.tape, PH_DTYPE_F32, PH_SCALAR, 7));
    assert_true(sc_scale(scene.tape, scaler) == 7); /* what was found is forgotten */
    sc_gradients(&p, 0);
    ph_grad_scaler_step(scene.tape, scaler, sgd);
    ph_grad_scaler_update(scene.tape, scaler);
    assert_true(sc_scale(scene.tape, scaler) == 7);
    /* nothing can be divided by 0 */
    ph_grad_scaler_update_from(scene.tape, scaler, ph_full(scene.tape, PH_DTYPE_F32, PH_SCALAR, 0));
    sc_gradients(&p, 1);
    ph_grad_scaler_step(scene.tape, scaler, sgd);
    ph_grad_scaler_update(scene.tape, scaler);
    sc_expect(&p, false, 1, 0);
    ph_optimizer_destroy(sgd);
    ph_grad_scaler_destroy(scaler);
    sc_close(&p);
    t_scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_infinity_is_found),
        cmocka_unit_test(test_torch_numbers),
        cmocka_unit_test(test_grad_scaling_update_scale),
        cmocka_unit_test(test_grad_scaling_unscale),
        cmocka_unit_test(test_grad_scaling_multiple),
        cmocka_unit_test(test_many_optimizers),
        cmocka_unit_test(test_other_gradients),
        cmocka_unit_test(test_grad_scaler_with_preset_grad_scale),
        cmocka_unit_test(a_disabled_scaler_steps_as_if_it_were_not_there),
        cmocka_unit_test(test_defaults_and_new_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
