/* SPDX-License-Identifier: MIT */
/* tests/nn/grad_scaler_retried.c: steps of a gradient scaler that fail, and are made again: by a
 * shortage, without gradients, with those that cannot be changed. */
#include "base/alloc.h"
#include "support/fault.h"
#include "support/scaler_check.h"
#include "support/test.h"
#include <phonograph/clip_grad.h>

enum {
    SCALE = 8,      /* of the scaler */
    GRAD_SCALE = 2, /* of the user */
    GRADIENT = 3
};

/* How a step is made. */
typedef struct way {
    bool unscales, fused, scales, of_driver;
} way;

static void arm(const way *w, int64_t at)
{
    if (w->of_driver)
        ph__driver_fail_after(at, PH__R_LAUNCH_FAILED);
    else
        ph__alloc_fail_after(at);
}

static void disarm(void)
{
    ph__driver_fail_after(-1, 0);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
}

static void check_retry(t_scene *scene, sc_params *p, ph_grad_scaler *scaler,
                        ph_optimizer *optimizer, const double before[SC_PARAMS])
{
    double values[SC_COUNT];
    for (size_t i = 0; i < SC_PARAMS; i++)
        if (!ph_tensor_grad(p->param[i]))
            return; /* dropped */
    ph_grad_scaler_step(scene->tape, scaler, optimizer);
    assert_ok(ph_tape_clear(scene->tape));
    for (size_t i = 0; i < SC_PARAMS; i++) {
        sc_read(p, p->param[i], values);
        assert_true(values[0] == before[i] - GRADIENT);
    }
}

/* The n-th allocation, or driver call, of a step fails: the same call made again takes the
 * gradients that are there as they should be, or there are none. */
static void fail_at_each(const way *w)
{
    t_scene scene;
    sc_params p;
    ph_status status = PH_ERROR_DEVICE;
    size_t retried = 0;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    for (int64_t at = 0; status != PH_OK; at++) {
        const float own = GRAD_SCALE;
        double values[SC_COUNT], before[SC_PARAMS];
        ph_grad_scaler *scaler;
        const ph_grad_scaler_options options = {.init_scale = SCALE, .fused = w->fused};
        ph_optimizer *sgd = sc_sgd(&p, 1, 0.5);
        assert_ok(ph_grad_scaler_create(&scaler, scene.device, &options));
        sc_use(scene.tape, scaler);
        if (w->scales)
            ph_optimizer_set_grad_scale(scene.tape, sgd,
                                        ph_from_memory(scene.tape, PH_DTYPE_F32, PH_SCALAR, &own));
        sc_gradients(&p, GRADIENT * SCALE * (w->scales ? GRAD_SCALE : 1));
        if (w->unscales)
            ph_grad_scaler_unscale(scene.tape, scaler, sgd);
        assert_ok(ph_tape_clear(scene.tape));
        assert_ok(ph_stream_synchronize(scene.stream));
        bool unchanged = true;
        for (size_t i = 0; i < SC_PARAMS; i++) {
            sc_read(&p, p.param[i], values);
            before[i] = values[0];
        }
        arm(w, at);
        ph_grad_scaler_step(scene.tape, scaler, sgd);
        disarm();
        status = ph_tape_status(scene.tape);
        ph_ignore(ph_tape_clear(scene.tape));
        for (size_t i = 0; i < SC_PARAMS; i++) {
            sc_read(&p, p.param[i], values);
            unchanged = unchanged && values[0] == before[i];
        }
        if (status != PH_OK && unchanged) {
            check_retry(&scene, &p, scaler, sgd, before);
            retried++;
        }
        ph_grad_scaler_destroy(scaler);
        ph_optimizer_destroy(sgd);
    }
    assert_true(retried > 2);
    sc_close(&p);
    t_scene_close(&scene);
}

TEST(gradients_are_divided_once_be_the_step_made_again)
{
    for (unsigned k = 0; k < 16; k++)
        fail_at_each(
            &(way){.unscales = k & 1, .fused = k & 2, .scales = k & 4, .of_driver = k & 8});
}

/* ---- steps without gradients ---- are refused, and the one that is made with them is a step. */
static void expect_step_after(t_scene *scene, const way *w, bool update_refused)
{
    sc_params p;
    ph_grad_scaler *scaler;
    const float own = GRAD_SCALE;
    const ph_grad_scaler_options options = {.init_scale = SCALE, .fused = w->fused};
    sc_open(&p, scene, PH_DTYPE_F32, PH_DTYPE_F64);
    ph_optimizer *sgd = sc_sgd(&p, 1, 0.5);
    assert_ok(ph_grad_scaler_create(&scaler, scene->device, &options));
    sc_use(scene->tape, scaler);
    if (w->scales)
        ph_optimizer_set_grad_scale(scene->tape, sgd,
                                    ph_from_memory(scene->tape, PH_DTYPE_F32, PH_SCALAR, &own));
    if (w->unscales)
        ph_grad_scaler_unscale(scene->tape, scaler, sgd);
    assert_ok(ph_tape_clear(scene->tape));
    if (!w->unscales || update_refused) {
        ph_grad_scaler_step(scene->tape, scaler, sgd);
        assert_error(ph_tape_clear(scene->tape), PH_ERROR_STATE, "none of its parameters has");
    }
    if (update_refused) {
        ph_grad_scaler_update(scene->tape, scaler);
        assert_error(ph_tape_clear(scene->tape), PH_ERROR_STATE, "no infinities were looked for");
    }
    for (int i = 1; i < 3; i++) {
        sc_gradients(&p, GRADIENT * SCALE * (w->scales ? GRAD_SCALE : 1));
        if (i == 2)
            sc_spoil(&p, 1, 1, INFINITY);
        ph_grad_scaler_step(scene->tape, scaler, sgd);
        ph_grad_scaler_update(scene->tape, scaler);
        assert_ok(ph_tape_clear(scene->tape));
        sc_expect(&p, false, 1 - GRADIENT, 0);
        assert_true(sc_scale(scene->tape, scaler) == (i == 2 ? SCALE / 2 : SCALE));
    }
    ph_grad_scaler_destroy(scaler);
    ph_optimizer_destroy(sgd);
    sc_close(&p);
}

TEST(a_step_behind_one_without_gradients_is_made)
{
    t_scene scene;
    t_scene_open(&scene);
    for (unsigned k = 0; k < 16; k++)
        expect_step_after(&scene, &(way){.unscales = k & 1, .fused = k & 2, .scales = k & 4},
                          k & 8);
    t_scene_close(&scene);
}

/* ---- gradients whose elements are one ---- cannot be changed one by one: refused before anything
 * is, and all gradients stay. */
typedef enum change {
    CHANGE_UNSCALE,
    CHANGE_STEP,
    CHANGE_CLIP_NORM,
    CHANGE_CLIP_VALUE,
    CHANGE_ZERO,
    CHANGES
} change;

static void make_change(t_scene *scene, const sc_params *p, change of, ph_grad_scaler *scaler,
                        ph_optimizer *sgd)
{
    if (of == CHANGE_UNSCALE)
        ph_grad_scaler_unscale(scene->tape, scaler, sgd);
    else if (of == CHANGE_STEP)
        ph_grad_scaler_step(scene->tape, scaler, sgd);
    else if (of == CHANGE_CLIP_NORM)
        (void)ph_clip_grad_norm(scene->tape, p->module, 0.5, NULL);
    else if (of == CHANGE_ZERO)
        ph_optimizer_zero_grad_in_place(scene->tape, sgd);
    else
        ph_clip_grad_value(scene->tape, p->module, 0.5);
}

TEST(expanded_gradients_are_refused_before_anything_changes)
{
    t_scene scene;
    sc_params p;
    ph_tensor *one;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    assert_ok(ph_tensor_create(&one, scene.device, PH_DTYPE_F32, PH_SHAPE(1)));
    for (change of = 0; of < CHANGES; of++) {
        ph_optimizer *sgd = sc_sgd(&p, 1, 0);
        ph_grad_scaler *scaler = sc_scaler(&scene, SCALE, 2000);
        sc_use(scene.tape, scaler);
        sc_gradients(&p, 2);
        ph_tensor_fill(scene.tape, one, 2);
        assert_ok(ph_tensor_set_grad(p.param[1], ph_expand(scene.tape, one, PH_SHAPE(SC_COUNT))));
        make_change(&scene, &p, of, scaler, sgd);
        assert_error(ph_tape_clear(scene.tape), PH_ERROR_STATE,
                     "the gradient of parameter b is expanded");
        sc_expect(&p, true, 2, 0);
        sc_expect(&p, false, 1, 0);
        assert_ok(ph_tensor_set_grad(p.param[1], NULL));
        ph_grad_scaler_destroy(scaler);
        ph_optimizer_destroy(sgd);
    }
    ph_tensor_release(one);
    sc_close(&p);
    t_scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_divided_once_be_the_step_made_again),
        cmocka_unit_test(a_step_behind_one_without_gradients_is_made),
        cmocka_unit_test(expanded_gradients_are_refused_before_anything_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
