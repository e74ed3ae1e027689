/* SPDX-License-Identifier: MIT */
/* tests/support/nets.h: small modules for the tests of modules, with fixed values. */
#ifndef PH_TESTS_NETS_H
#define PH_TESTS_NETS_H
#include "support/grads.h"

/* y = x * weight, a parameter of 2 elements; NULL weight: as it is. Counts its calls and whether
 * it was destroyed. */
typedef struct t_scale {
    ph_tensor *weight, *count; /* a parameter, a buffer */
    int calls, destroyed;
} t_scale;

static inline void t_scale_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    t_scale *scale = self;
    scale->calls++;
    out[0] = scale->weight ? ph_mul(tape, in[0], scale->weight) : in[0];
}

static inline void t_scale_destroy(void *self)
{
    ((t_scale *)self)->destroyed++;
}

/* The module holds the only references to its tensors. */
static inline ph_module *t_scale_open(const t_scene *s, t_scale *scale, float value)
{
    ph_module *module;
    *scale = (t_scale){.weight = t_leaf(s, PH_SHAPE(2), value, 2 * value)};
    assert_ok(ph_tensor_create(&scale->count, s->device, PH_DTYPE_I64, PH_SCALAR));
    assert_ok(ph_tensor_write(s->tape, scale->count, &(int64_t){7}, sizeof(int64_t)));
    ph_parameter parameter = {"weight", &scale->weight}, buffer = {"count", &scale->count};
    ph_module_desc desc = {.name = "scale",
                           .forward = t_scale_forward,
                           .self = scale,
                           .destroy = t_scale_destroy,
                           .parameters = &parameter,
                           .parameter_count = 1,
                           .buffers = &buffer,
                           .buffer_count = 1};
    assert_ok(ph_module_create(&module, s->device, &desc));
    ph_tensor_release(scale->weight);
    ph_tensor_release(scale->count);
    return module;
}

/* A leaf of x's own: nothing is required of it. */
static inline ph_tensor *t_input(const t_scene *s, float a, float b)
{
    return ph_from_memory(s->tape, PH_DTYPE_F32, PH_SHAPE(2), (const float[]){a, b});
}
#endif
