/* SPDX-License-Identifier: MIT */
/* tests/support/tensors.h: a device with a stream and a tape on it, tensors with values, and
 * what is left when all of it is gone. */
#ifndef PH_TESTS_TENSORS_H
#define PH_TESTS_TENSORS_H
#include "base/alloc.h"
#include "support/support.h"
#include <phonograph/nn.h>
#include <stdlib.h>
#include <string.h>

typedef struct t_scene {
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
} t_scene;

/* The device under test. */
static inline void t_scene_open(t_scene *scene)
{
    assert_ok(ph_device_open(&scene->device, t_device_name(), NULL));
    assert_ok(ph_stream_create(&scene->stream, scene->device, NULL));
    assert_ok(ph_tape_create(&scene->tape, scene->stream, NULL));
}

/* Nothing may be left in the device's memory but what is cached. */
static inline void t_scene_close(t_scene *scene)
{
    ph_memory_stats stats;
    ph_tape_destroy(scene->tape);
    assert_ok(ph_stream_synchronize(scene->stream));
    assert_ok(ph_memory_get_stats(&stats, scene->device));
    assert_int_equal(stats.allocated, 0);
    assert_int_equal(stats.pinned, 0);
    ph_stream_destroy(scene->stream);
    ph_device_release(scene->device);
}

/* 0, 1, 2, ... of f32; the tape's. */
static inline ph_tensor *t_counting(ph_tape *tape, ph_shape shape)
{
    return ph_reshape(tape, ph_arange(tape, PH_DTYPE_F32, 0, 1, ph_shape_count(&shape)), shape);
}

/* f32: exactly these values, in order, and this shape. */
static inline void t_expect(ph_tape *tape, ph_tensor *x, ph_shape shape, const float *want)
{
    size_t count = (size_t)ph_shape_count(&shape);
    float *got = calloc(count + 1, sizeof *got);
    assert_non_null(got);
    assert_ok(ph_tape_status(tape));
    assert_non_null(x);
    ph_shape have = ph_tensor_shape(x);
    if (!ph_shape_equal(&have, &shape))
        fail_msg("rank %zu and dimension 0 %lld, expected %zu and %lld", have.rank,
                 (long long)have.dim[0], shape.rank, (long long)shape.dim[0]);
    assert_ok(ph_tensor_read(tape, x, got, count * sizeof *got));
    for (size_t i = 0; i < count; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0)
            fail_msg("element %zu is %g, expected %g", i, (double)got[i], (double)want[i]);
    free(got);
}
#define t_expect_values(tape, x, shape, ...)                                                       \
    t_expect((tape), (x), (shape), (const float[]){__VA_ARGS__})
#endif
