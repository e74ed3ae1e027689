/* SPDX-License-Identifier: MIT */
/* tests/support/grads.h: leaves that require a gradient, and looking at the gradients they get. */
#ifndef PH_TESTS_GRADS_H
#define PH_TESTS_GRADS_H
#include "support/tensors.h"

/* f32, with these values; the caller's. */
static inline ph_tensor *t_leaf_of(const t_scene *s, ph_shape shape, const float *values)
{
    ph_tensor *x;
    assert_ok(ph_tensor_create(&x, s->device, PH_DTYPE_F32, shape));
    assert_ok(ph_tensor_write(s->tape, x, values, ph_tensor_bytes(x)));
    assert_ok(ph_stream_synchronize(s->stream));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    return x;
}
#define t_leaf(scene, shape, ...) t_leaf_of((scene), (shape), (const float[]){__VA_ARGS__})

/* The gradient's values; no gradient fails. The tape must not have failed. */
#define t_expect_grad(scene, x, ...)                                                               \
    t_expect((scene)->tape, ph_tensor_grad(x), ph_tensor_shape(x), (const float[]){__VA_ARGS__})

static inline void t_zero_grad(ph_tensor *x)
{
    assert_ok(ph_tensor_set_grad(x, NULL));
}

static inline ph_tape_info t_info(const t_scene *s)
{
    ph_tape_info info;
    assert_ok(ph_tape_get_info(&info, s->tape));
    return info;
}

static inline size_t t_allocated(const t_scene *s)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, s->device));
    return stats.allocated;
}

/* The tape failed so, and can be used again. */
#define t_expect_failure(scene, status, part)                                                      \
    do {                                                                                           \
        assert_error(ph_tape_status((scene)->tape), (status), (part));                             \
        assert_error(ph_tape_clear((scene)->tape), (status), (part));                              \
        assert_ok(ph_tape_status((scene)->tape));                                                  \
    } while (0)
#endif
