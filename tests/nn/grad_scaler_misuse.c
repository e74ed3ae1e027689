/* SPDX-License-Identifier: MIT */
/* tests/nn/grad_scaler_misuse.c: what the gradient scaler refuses, and in what words; shortages
 * of host memory; its files. */
#include "driver/result.h"
#include "support/fault.h"
#include "support/files.h"
#include "support/scaler_check.h"
#include "support/test.h"

#define refused(tape, call, status, part)                                                          \
    do {                                                                                           \
        call;                                                                                      \
        assert_error(ph_tape_clear(tape), status, part);                                           \
    } while (0)

TEST(options_of_a_scaler_out_of_range_are_refused)
{
    ph_device *device;
    ph_grad_scaler *s;
    static const struct {
        ph_grad_scaler_options options;
        const char *part;
    } rows[] = {
        {{.init_scale = PH_ZERO}, "init_scale is 0"},
        {{.init_scale = -1}, "init_scale is -1"},
        {{.init_scale = 1e39}, "init_scale is 1e+39"},
        {{.init_scale = 1e-60}, "init_scale is 1e-60"},
        {{.growth_factor = 1}, "growth_factor is 1"},
        {{.growth_factor = PH_ZERO}, "growth_factor is 0"},
        {{.growth_factor = (double)INFINITY}, "growth_factor is inf"},
        {{.backoff_factor = 1}, "backoff_factor is 1"},
        {{.backoff_factor = PH_ZERO}, "backoff_factor is 0"},
        {{.backoff_factor = -0.5}, "backoff_factor is -0.5"},
        {{.growth_interval = PH_ZERO}, "growth_interval is 0"},
        {{.growth_interval = UINT64_MAX}, "growth_interval is"},
        {{.reserved = {1}}, "reserved"},
    };
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_error(ph_grad_scaler_create(&s, device, &rows[i].options), PH_ERROR_ARGUMENT,
                     rows[i].part);
    assert_error(ph_grad_scaler_create(NULL, device, NULL), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_grad_scaler_create(&s, NULL, NULL), PH_ERROR_ARGUMENT, "device is NULL");
    ph_grad_scaler_destroy(NULL);
    ph_device_release(device);
}

static void check_order(t_scene *scene, sc_params *p)
{
    ph_tape *t = scene->tape;
    ph_grad_scaler *s = sc_scaler(scene, 4, 0);
    ph_optimizer *o = sc_sgd(p, 1, 0);
    sc_gradients(p, 4);
    refused(t, ph_grad_scaler_unscale(t, s, o), PH_ERROR_STATE,
            "ph_grad_scaler_unscale: nothing was scaled yet");
    refused(t, ph_grad_scaler_step(t, s, o), PH_ERROR_STATE,
            "ph_grad_scaler_step: nothing was scaled yet");
    refused(t, ph_grad_scaler_update(t, s), PH_ERROR_STATE, "nothing was scaled yet");
    refused(t, ph_grad_scaler_update_to(t, s, 2), PH_ERROR_STATE, "nothing was scaled yet");
    sc_use(t, s);
    refused(t, ph_grad_scaler_update(t, s), PH_ERROR_STATE,
            "no infinities were looked for since the last update");
    ph_grad_scaler_unscale(t, s, o);
    refused(t, ph_grad_scaler_unscale(t, s, o), PH_ERROR_STATE,
            "ph_grad_scaler_unscale: it has already been called for optimizer sgd");
    sc_expect(p, true, 1, 0);
    ph_grad_scaler_step(t, s, o);
    refused(t, ph_grad_scaler_unscale(t, s, o), PH_ERROR_STATE,
            "called after ph_grad_scaler_step for optimizer sgd");
    refused(t, ph_grad_scaler_step(t, s, o), PH_ERROR_STATE,
            "ph_grad_scaler_step: it has already been called for optimizer sgd");
    sc_expect(p, false, 0, 0);
    ph_grad_scaler_update(t, s);
    refused(t, ph_grad_scaler_update(t, s), PH_ERROR_STATE, "no infinities were looked for");
    for (size_t i = 0; i < SC_PARAMS; i++)
        assert_ok(ph_tensor_set_grad(p->param[i], NULL));
    refused(t, ph_grad_scaler_step(t, s, o), PH_ERROR_STATE, "none of its parameters has");
    refused(t, ph_grad_scaler_update(t, s), PH_ERROR_STATE, "no infinities were looked for");
    ph_grad_scaler_update_to(t, s, 2);
    assert_true(sc_scale(t, s) == 2);
    ph_optimizer_destroy(o);
    ph_grad_scaler_destroy(s);
}

TEST(test_order_of_calls)
{
    t_scene scene;
    sc_params p;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F64);
    check_order(&scene, &p);
    sc_close(&p);
    t_scene_close(&scene);
}

TEST(calls_of_a_scaler_refuse_bad_arguments_by_name)
{
    t_scene scene, other;
    sc_params p, q;
    double scale;
    uint64_t tracker;
    t_scene_open(&scene);
    t_scene_open(&other);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    sc_open(&q, &other, PH_DTYPE_F32, PH_DTYPE_F32);
    ph_tape *t = scene.tape;
    ph_grad_scaler *s = sc_scaler(&scene, 4, 0);
    ph_optimizer *o = sc_sgd(&p, 1, 0), *elsewhere = sc_sgd(&q, 1, 0);
    ph_tensor *x = ph_full(t, PH_DTYPE_I32, PH_SCALAR, 1);
    sc_use(t, s);
    refused(t, ph_grad_scaler_scale(t, s, x), PH_ERROR_ARGUMENT, "x is of i32");
    refused(t, ph_grad_scaler_scale(t, s, NULL), PH_ERROR_ARGUMENT, "x is NULL");
    refused(t, ph_grad_scaler_scale(t, NULL, p.param[0]), PH_ERROR_ARGUMENT, "scaler is NULL");
    refused(t, ph_grad_scaler_unscale(t, s, NULL), PH_ERROR_ARGUMENT, "optimizer is NULL");
    refused(t, ph_grad_scaler_step(t, NULL, o), PH_ERROR_ARGUMENT, "scaler is NULL");
    refused(t, ph_grad_scaler_step(t, s, NULL), PH_ERROR_ARGUMENT, "optimizer is NULL");
    refused(t, ph_grad_scaler_update(t, NULL), PH_ERROR_ARGUMENT, "scaler is NULL");
    refused(t, ph_grad_scaler_update_from(t, s, NULL), PH_ERROR_ARGUMENT, "scale is NULL");
    refused(t, ph_grad_scaler_update_from(t, s, p.param[0]), PH_ERROR_ARGUMENT,
            "must be a scalar in f32");
    refused(t, ph_grad_scaler_update_to(t, s, 0), PH_ERROR_ARGUMENT, "scale is 0");
    refused(t, ph_grad_scaler_update_to(t, s, NAN), PH_ERROR_ARGUMENT, "scale is");
    refused(t, ph_grad_scaler_step(t, s, elsewhere), PH_ERROR_WRONG_DEVICE,
            "optimizer sgd, and with it its gradients, is of another device than the scaler");
    refused(other.tape, ph_grad_scaler_step(other.tape, s, o), PH_ERROR_WRONG_DEVICE,
            "the scaler is of another device than the tape");
    refused(t, ph_optimizer_set_grad_scale(t, NULL, p.param[0]), PH_ERROR_ARGUMENT,
            "optimizer is NULL");
    refused(t, ph_optimizer_set_grad_scale(t, o, p.param[0]), PH_ERROR_ARGUMENT,
            "must be an f32 scalar");
    assert_null(ph_grad_scaler_scale(NULL, s, p.param[0]));
    ph_grad_scaler_step(NULL, s, o);
    ph_optimizer_set_grad_scale(NULL, o, NULL);
    assert_error(ph_grad_scaler_get_scale(NULL, t, s), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_grad_scaler_get_scale(&scale, NULL, s), PH_ERROR_ARGUMENT, "tape is NULL");
    assert_error(ph_grad_scaler_get_scale(&scale, t, NULL), PH_ERROR_ARGUMENT, "scaler is NULL");
    assert_error(ph_grad_scaler_get_growth_tracker(NULL, t, s), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_grad_scaler_get_growth_tracker(&tracker, NULL, s), PH_ERROR_ARGUMENT,
                 "tape is NULL");
    assert_error(ph_grad_scaler_get_growth_tracker(&tracker, t, NULL), PH_ERROR_ARGUMENT,
                 "scaler is NULL");
    ph_optimizer_destroy(o);
    ph_optimizer_destroy(elsewhere);
    ph_grad_scaler_destroy(s);
    sc_close(&p);
    sc_close(&q);
    t_scene_close(&scene);
    t_scene_close(&other);
}

/* Parameters in f16 have no optimizer, so that no f16 gradient comes to a scaler. */
TEST(test_grad_scaling_f16_gradients)
{
    t_scene scene;
    ph_module *net;
    ph_optimizer *o;
    t_scene_open(&scene);
    assert_ok(ph_linear_create_with(&net, scene.device, 2, 2,
                                    &(ph_layer_options){.dtype = PH_DTYPE_F16}));
    assert_error(ph_adam_create(&o, net, NULL), PH_ERROR_ARGUMENT, "parameter weight is of f16");
    ph_tensor *weight = ph_module_parameter(net, "weight");
    assert_ok(ph_tensor_set_grad(weight, ph_zeros(scene.tape, PH_DTYPE_F16, PH_SHAPE(2, 2))));
    refused(scene.tape, ph_clip_grad_norm(scene.tape, net, 1, NULL), PH_ERROR_ARGUMENT,
            "the gradient of parameter weight is of f16");
    ph_module_release(net);
    t_scene_close(&scene);
}

/* ---- in a capture ---- */
typedef struct body {
    sc_params *p;
    ph_optimizer *optimizer;
    ph_grad_scaler *scaler;
    int which;
} body;

static ph_status refused_in_capture(ph_stream *stream, void *user)
{
    const body *b = user;
    ph_tape *tape = b->p->scene->tape;
    double scale;
    uint64_t tracker;
    (void)stream;
    if (b->which == 0)
        return ph_grad_scaler_get_scale(&scale, tape, b->scaler);
    if (b->which == 1)
        return ph_grad_scaler_get_growth_tracker(&tracker, tape, b->scaler);
    if (b->which == 2)
        ph_optimizer_set_grad_scale(tape, b->optimizer, ph_full(tape, PH_DTYPE_F32, PH_SCALAR, 1));
    if (b->which == 3)
        ph_grad_scaler_step(tape, b->scaler, b->optimizer);
    return ph_tape_clear(tape);
}

TEST(calls_that_need_the_host_are_refused_in_a_capture)
{
    t_scene scene;
    sc_params p;
    ph_optimizer *adam;
    static const struct {
        ph_status status;
        const char *part;
    } rows[] = {{PH_ERROR_CAPTURE, "waits for the device"},
                {PH_ERROR_CAPTURE, "waits for the device"},
                {PH_ERROR_STATE, "cannot be made in a capture"},
                {PH_ERROR_STATE, "counts its steps on the host"}};
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    assert_ok(ph_adam_create(&adam, p.module, &(ph_adam_options){.not_capturable = true}));
    body b = {&p, adam, sc_scaler(&scene, 4, 0), 0};
    sc_use(scene.tape, b.scaler);
    sc_gradients(&p, 1);
    for (; b.which < 4; b.which++) {
        ph_graph *graph;
        assert_ok(ph_graph_create(&graph, NULL));
        assert_error(ph_graph_capture(graph, scene.stream, NULL, refused_in_capture, &b),
                     rows[b.which].status, rows[b.which].part);
        ph_ignore(ph_tape_clear(scene.tape));
        ph_graph_destroy(graph);
    }
    /* The stage is what it was. */
    sc_gradients(&p, 4);
    ph_grad_scaler_step(scene.tape, b.scaler, adam);
    ph_grad_scaler_update(scene.tape, b.scaler);
    assert_ok(ph_tape_clear(scene.tape));
    ph_optimizer_destroy(adam);
    ph_grad_scaler_destroy(b.scaler);
    sc_close(&p);
    t_scene_close(&scene);
}

/* ---- shortages ---- no host memory at any one place: after a step that failed the parameters
 * are as they were, or it was made. */
TEST(without_host_memory_a_scaled_step_is_whole_or_none)
{
    t_scene scene;
    sc_params p;
    t_scene_open(&scene);
    for (int fused = 0; fused < 2; fused++) {
        ph_status status = PH_ERROR_HOST_MEMORY;
        int64_t at = 0;
        double value = 1;
        sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
        for (; status != PH_OK; at++) {
            ph_grad_scaler *scaler = NULL;
            ph_optimizer *sgd = sc_sgd(&p, 1, 0.5);
            const ph_grad_scaler_options options = {.init_scale = 8, .fused = fused};
            sc_gradients(&p, 8);
            ph__alloc_fail_after(at);
            status = ph_grad_scaler_create(&scaler, scene.device, &options);
            if (status == PH_OK) {
                sc_use(scene.tape, scaler);
                ph_grad_scaler_step(scene.tape, scaler, sgd);
                ph_grad_scaler_update(scene.tape, scaler);
                status = ph_tape_clear(scene.tape);
            } else {
                assert_null(scaler);
            }
            ph__alloc_fail_after(PH__ALLOC_NEVER);
            if (status != PH_OK)
                assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
            double values[SC_COUNT];
            sc_read(&p, p.param[0], values);
            assert_true(values[0] == value - 1 || (status != PH_OK && values[0] == value));
            value = values[0];
            sc_expect(&p, false, value, 0);
            ph_grad_scaler_destroy(scaler);
            ph_optimizer_destroy(sgd);
        }
        assert_true(at > 5);
        sc_close(&p);
    }
    t_scene_close(&scene);
}

/* ---- failures of the device ---- two launches: one for a gradient in f32, one for two in f64. */
typedef enum change {
    CHANGE_UNSCALE,
    CHANGE_CLIP_NORM,
    CHANGE_CLIP_VALUE,
    CHANGES
} change;

static void change_gradients(t_scene *scene, sc_params *p, change of, ph_grad_scaler *scaler,
                             ph_optimizer *optimizer)
{
    if (of == CHANGE_UNSCALE)
        ph_grad_scaler_unscale(scene->tape, scaler, optimizer);
    else if (of == CHANGE_CLIP_NORM)
        (void)ph_clip_grad_norm(scene->tape, p->module, 0.5, NULL);
    else
        ph_clip_grad_value(scene->tape, p->module, 0.5);
}

/* The number of gradients that are there: all or none. All have the value of before. */
static size_t count_unchanged(const sc_params *p, double value)
{
    size_t count = 0;
    for (size_t i = 0; i < SC_PARAMS; i++) {
        double values[SC_COUNT];
        ph_tensor *grad = ph_tensor_grad(p->param[i]);
        if (!grad)
            continue;
        count++;
        sc_read(p, grad, values);
        for (size_t k = 0; k < SC_COUNT; k++)
            assert_true(values[k] == value);
    }
    return count;
}

static void fail_at_each_call(change of)
{
    t_scene scene;
    sc_params p;
    size_t dropped = 0, kept = 0;
    ph_status status = PH_ERROR_DEVICE;
    t_scene_open(&scene);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F64);
    for (int64_t at = 0; status != PH_OK; at++) {
        ph_grad_scaler *scaler = sc_scaler(&scene, 4, 2000);
        ph_optimizer *sgd = sc_sgd(&p, 1, 0);
        sc_use(scene.tape, scaler);
        sc_gradients(&p, 8);
        assert_ok(ph_stream_synchronize(scene.stream));
        ph__driver_fail_after(at, PH__R_LAUNCH_FAILED);
        change_gradients(&scene, &p, of, scaler, sgd);
        ph__driver_fail_after(-1, 0);
        status = ph_tape_status(scene.tape);
        ph_ignore(ph_tape_clear(scene.tape));
        if (status != PH_OK) {
            size_t count = count_unchanged(&p, 8);
            assert_true(count == 0 || count == SC_PARAMS);
            dropped += count == 0;
            kept += count == SC_PARAMS;
        }
        ph_grad_scaler_destroy(scaler);
        ph_optimizer_destroy(sgd);
    }
    assert_true(dropped > 0 && kept > 0);
    sc_close(&p);
    t_scene_close(&scene);
}

TEST(gradients_of_which_some_were_changed_are_dropped)
{
    for (change of = 0; of < CHANGES; of++)
        fail_at_each_call(of);
}

/* ---- files ---- */
TEST(test_grad_scaling_state_dict)
{
    t_scene scene;
    sc_params p;
    t_folder folder;
    ph_grad_scaler *b, *disabled;
    t_scene_open(&scene);
    t_folder_open(&folder);
    sc_open(&p, &scene, PH_DTYPE_F32, PH_DTYPE_F32);
    ph_grad_scaler *a = sc_scaler(&scene, 10, 3);
    ph_optimizer *sgd = sc_sgd(&p, 1, 0);
    assert_ok(
        ph_grad_scaler_create(&b, scene.device, &(ph_grad_scaler_options){.growth_factor = 9}));
    assert_ok(ph_grad_scaler_create(&disabled, scene.device,
                                    &(ph_grad_scaler_options){.disabled = true}));
    sc_use(scene.tape, a);
    sc_use(scene.tape, b);
    sc_gradients(&p, 0);
    for (int i = 0; i < 8; i++) {
        ph_grad_scaler_step(scene.tape, a, sgd);
        ph_grad_scaler_update(scene.tape, a);
    }
    assert_ok(ph_tape_clear(scene.tape));
    assert_ok(ph_grad_scaler_save(a, t_inside(&folder, "state")));
    assert_ok(ph_grad_scaler_load(b, t_inside(&folder, "state")));
    assert_ok(ph_grad_scaler_load(disabled, t_inside(&folder, "state")));
    assert_true(sc_scale(scene.tape, b) == 40 && sc_tracker(scene.tape, b) == 2);
    for (int i = 0; i < 5; i++) {
        ph_grad_scaler *const both[] = {a, b};
        for (int k = 0; k < 2; k++) {
            ph_grad_scaler_step(scene.tape, both[k], sgd);
            ph_grad_scaler_update(scene.tape, both[k]);
        }
        assert_true(sc_scale(scene.tape, a) == sc_scale(scene.tape, b));
        assert_int_equal(sc_tracker(scene.tape, a), sc_tracker(scene.tape, b));
    }
    assert_error(ph_grad_scaler_save(disabled, t_inside(&folder, "other")), PH_ERROR_STATE,
                 "disabled");
    assert_error(ph_grad_scaler_save(NULL, "x"), PH_ERROR_ARGUMENT, "scaler is NULL");
    assert_error(ph_grad_scaler_save(a, NULL), PH_ERROR_ARGUMENT, "path is NULL");
    assert_error(ph_grad_scaler_load(NULL, "x"), PH_ERROR_ARGUMENT, "scaler is NULL");
    assert_error(ph_grad_scaler_load(a, NULL), PH_ERROR_ARGUMENT, "path is NULL");
    assert_status(ph_grad_scaler_load(a, t_inside(&folder, "none")), PH_ERROR_IO);
    assert_ok(ph_optimizer_save(sgd, t_inside(&folder, "other")));
    double scale = sc_scale(scene.tape, a);
    assert_error(ph_grad_scaler_load(a, t_inside(&folder, "other")), PH_ERROR_MISMATCH,
                 "_growth_tracker is missing");
    assert_true(sc_scale(scene.tape, a) == scale);
    ph_optimizer_destroy(sgd);
    ph_grad_scaler_destroy(a);
    ph_grad_scaler_destroy(b);
    ph_grad_scaler_destroy(disabled);
    sc_close(&p);
    t_folder_close(&folder, (const char *const[]){"state", "other"}, 2);
    t_scene_close(&scene);
}

/* Numbers that no scaler has are refused, and nothing is loaded. */
TEST(test_wrong_numbers)
{
    static const struct {
        double scale, growth, backoff;
        int64_t interval, tracker;
        const char *part;
    } rows[] = {{(double)NAN, 2, 0.5, 1, 0, "state: scale is a number"},
                {-1, 2, 0.5, 1, 0, "state: scale is a number"},
                {8, 1, 0.5, 1, 0, "growth_factor is a number"},
                {8, 2, 1, 1, 0, "backoff_factor is a number"},
                {8, 2, 0.5, 0, 0, "growth_interval is a number"},
                {8, 2, 0.5, 1, -1, "_growth_tracker is a number"},
                {8, 2, 0.5, 1, INT64_MAX, "_growth_tracker is a number"}};
    t_scene scene;
    t_folder folder;
    t_scene_open(&scene);
    t_folder_open(&folder);
    ph_tape *t = scene.tape;
    ph_grad_scaler *s = sc_scaler(&scene, 4, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float scale = (float)rows[i].scale;
        const ph_named_tensor all[] = {
            {"scale", ph_from_memory(t, PH_DTYPE_F32, PH_SCALAR, &scale)},
            {"growth_factor", ph_from_memory(t, PH_DTYPE_F64, PH_SCALAR, &rows[i].growth)},
            {"backoff_factor", ph_from_memory(t, PH_DTYPE_F64, PH_SCALAR, &rows[i].backoff)},
            {"growth_interval", ph_from_memory(t, PH_DTYPE_I64, PH_SCALAR, &rows[i].interval)},
            {"_growth_tracker", ph_from_memory(t, PH_DTYPE_I64, PH_SCALAR, &rows[i].tracker)}};
        assert_ok(ph_safetensors_write(t, t_inside(&folder, "state"), all, 5));
        assert_ok(ph_tape_clear(t));
        assert_error(ph_grad_scaler_load(s, t_inside(&folder, "state")), PH_ERROR_ARGUMENT,
                     rows[i].part);
        assert_true(sc_scale(t, s) == 4);
    }
    ph_grad_scaler_destroy(s);
    t_folder_close(&folder, (const char *const[]){"state"}, 1);
    t_scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_a_scaler_out_of_range_are_refused),
        cmocka_unit_test(test_order_of_calls),
        cmocka_unit_test(calls_of_a_scaler_refuse_bad_arguments_by_name),
        cmocka_unit_test(test_grad_scaling_f16_gradients),
        cmocka_unit_test(calls_that_need_the_host_are_refused_in_a_capture),
        cmocka_unit_test(without_host_memory_a_scaled_step_is_whole_or_none),
        cmocka_unit_test(gradients_of_which_some_were_changed_are_dropped),
        cmocka_unit_test(test_grad_scaling_state_dict),
        cmocka_unit_test(test_wrong_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
