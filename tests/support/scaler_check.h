/* SPDX-License-Identifier: MIT */
/* tests/support/scaler_check.h: a module of a few loose parameters on a scene, with gradients
 * that a test writes, for the gradient scaler and for clipping. */
#ifndef PH_TESTS_SCALER_CHECK_H
#define PH_TESTS_SCALER_CHECK_H
#include "support/optimizer_check.h"
#include <math.h>

enum {
    SC_PARAMS = 3,
    SC_COUNT = 17 /* elements of each */
};
typedef struct sc_params {
    t_scene *scene;
    ph_module *module;
    ph_tensor *param[SC_PARAMS];
} sc_params;

static inline void sc_no_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)tape;
    (void)self;
    out[0] = in[0];
}

/* dtypes of the parameters; all begin as 1. */
static inline void sc_open(sc_params *p, t_scene *scene, ph_dtype first, ph_dtype others)
{
    static const char *const names[SC_PARAMS] = {"a", "b", "c"};
    ph_parameter parameters[SC_PARAMS];
    p->scene = scene;
    for (size_t i = 0; i < SC_PARAMS; i++) {
        assert_ok(
            ph_tensor_create(&p->param[i], scene->device, i ? others : first, PH_SHAPE(SC_COUNT)));
        ph_tensor_fill(scene->tape, p->param[i], 1);
        parameters[i] = (ph_parameter){names[i], &p->param[i]};
    }
    ph_module_desc desc = {.name = "loose",
                           .forward = sc_no_forward,
                           .parameters = parameters,
                           .parameter_count = SC_PARAMS};
    assert_ok(ph_module_create(&p->module, scene->device, &desc));
    assert_ok(ph_tape_status(scene->tape));
    assert_ok(ph_stream_synchronize(scene->stream));
}

static inline void sc_close(sc_params *p)
{
    assert_ok(ph_tape_clear(p->scene->tape));
    assert_ok(ph_stream_synchronize(p->scene->stream));
    ph_module_release(p->module);
    for (size_t i = 0; i < SC_PARAMS; i++)
        ph_tensor_release(p->param[i]);
}

/* Values of a parameter or its gradient, as doubles. */
static inline void sc_read(const sc_params *p, ph_tensor *x, double values[SC_COUNT])
{
    float narrow[SC_COUNT];
    bool wide = ph_tensor_dtype(x) == PH_DTYPE_F64;
    assert_ok(
        ph_tensor_read(p->scene->tape, x, wide ? (void *)values : narrow, ph_tensor_bytes(x)));
    for (size_t i = 0; !wide && i < SC_COUNT; i++)
        values[i] = (double)narrow[i];
}

static inline void sc_write(const sc_params *p, ph_tensor *x, const double values[SC_COUNT])
{
    float narrow[SC_COUNT];
    bool wide = ph_tensor_dtype(x) == PH_DTYPE_F64;
    for (size_t i = 0; i < SC_COUNT; i++)
        narrow[i] = (float)values[i];
    assert_ok(ph_tensor_write(p->scene->tape, x, wide ? (const void *)values : narrow,
                              ph_tensor_bytes(x)));
}

/* Every gradient gets `value`, in memory that stays. */
static inline void sc_gradients(const sc_params *p, double value)
{
    for (size_t i = 0; i < SC_PARAMS; i++) {
        ph_tensor *x = p->param[i];
        if (!ph_tensor_grad(x)) {
            ph_tensor *grad;
            assert_ok(
                ph_tensor_create(&grad, p->scene->device, ph_tensor_dtype(x), PH_SHAPE(SC_COUNT)));
            assert_ok(ph_tensor_set_grad(x, grad));
            ph_tensor_release(grad);
        }
        ph_tensor_fill(p->scene->tape, ph_tensor_grad(x), value);
    }
}

static inline void sc_spoil(const sc_params *p, size_t param, size_t element, double value)
{
    double values[SC_COUNT];
    sc_read(p, ph_tensor_grad(p->param[param]), values);
    values[element] = value;
    sc_write(p, ph_tensor_grad(p->param[param]), values);
}

/* All elements of all parameters, or of their gradients. */
static inline void sc_expect(const sc_params *p, bool gradients, double value, double bound)
{
    for (size_t i = 0; i < SC_PARAMS; i++) {
        double values[SC_COUNT];
        sc_read(p, gradients ? ph_tensor_grad(p->param[i]) : p->param[i], values);
        for (size_t k = 0; k < SC_COUNT; k++)
            if (!(fabs(values[k] - value) <= bound))
                fail_msg("%s %zu, element %zu: %.17g, expected %.17g",
                         gradients ? "gradient" : "parameter", i, k, values[k], value);
    }
}

static inline double sc_item(ph_tape *tape, ph_tensor *x)
{
    double value;
    assert_ok(ph_tensor_item(&value, tape, x));
    return value;
}

static inline double sc_scale(ph_tape *tape, ph_grad_scaler *scaler)
{
    double scale;
    assert_ok(ph_grad_scaler_get_scale(&scale, tape, scaler));
    return scale;
}

static inline uint64_t sc_tracker(ph_tape *tape, ph_grad_scaler *scaler)
{
    uint64_t tracker;
    assert_ok(ph_grad_scaler_get_growth_tracker(&tracker, tape, scaler));
    return tracker;
}

static inline ph_grad_scaler *sc_scaler(const t_scene *scene, double scale, uint64_t interval)
{
    ph_grad_scaler *scaler;
    const ph_grad_scaler_options options = {.init_scale = scale, .growth_interval = interval};
    assert_ok(ph_grad_scaler_create(&scaler, scene->device, &options));
    return scaler;
}

/* Scales something, so that steps are allowed. */
static inline void sc_use(ph_tape *tape, ph_grad_scaler *scaler)
{
    ph_grad_scaler_scale(tape, scaler, ph_full(tape, PH_DTYPE_F32, PH_SCALAR, 1));
}

static inline ph_optimizer *sc_sgd(const sc_params *p, double lr, double momentum)
{
    ph_optimizer *optimizer;
    const ph_sgd_options options = {.lr = lr, .momentum = momentum};
    assert_ok(ph_sgd_create(&optimizer, p->module, &options));
    return optimizer;
}
#endif
