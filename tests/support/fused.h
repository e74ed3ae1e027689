/* SPDX-License-Identifier: MIT */
/* tests/support/fused.h: values to draw and compare, and kernels of a graph to count, for operators
 * that do the work of others. */
#ifndef PH_TESTS_FUSED_H
#define PH_TESTS_FUSED_H
#include "support/grads.h"
#include "support/test.h"
#include <math.h>
#include <string.h>

/* Values that no half type holds exactly, the same for each seed. */
static inline ph_tensor *t_draw(t_scene *s, ph_dtype dtype, ph_shape shape, uint64_t seed)
{
    ph_generator *generator;
    ph_tape *tape;
    assert_ok(ph_generator_create(&generator, s->device, seed));
    assert_ok(ph_tape_create(&tape, s->stream, &(ph_tape_options){.generator = generator}));
    ph_tensor *x = ph_tensor_retain(ph_cast(tape, ph_randn(tape, PH_DTYPE_F32, shape), dtype));
    assert_ok(ph_tape_clear(tape));
    ph_tape_destroy(tape);
    ph_generator_release(generator);
    assert_ok(ph_tensor_set_requires_grad(x, true));
    return x;
}

/* In f32, whatever x is. */
static inline float *t_read_f32(t_scene *s, ph_tensor *x)
{
    float *values = malloc((size_t)ph_tensor_count(x) * sizeof *values);
    assert_non_null(values);
    ph_tensor *wide = ph_contiguous(s->tape, ph_cast(s->tape, ph_detach(s->tape, x), PH_DTYPE_F32));
    assert_ok(ph_tensor_read(s->tape, wide, values, ph_tensor_bytes(wide)));
    return values;
}

/* The largest difference, of `least` + absolute value. */
static inline double t_farthest(t_scene *s, ph_tensor *got, ph_tensor *want, double least)
{
    float *a = t_read_f32(s, got), *b = t_read_f32(s, want);
    double most = 0;
    assert_int_equal(ph_tensor_count(got), ph_tensor_count(want));
    for (int64_t i = 0; i < ph_tensor_count(got); i++) {
        double apart = fabs((double)a[i] - (double)b[i]) / (least + fabs((double)b[i]));
        assert_true(apart == apart); /* no NaN */
        most = apart > most ? apart : most;
    }
    free(a);
    free(b);
    return most;
}

/* How many nodes have a name that begins so. */
static inline size_t t_count_named(ph_graph *graph, const char *begin)
{
    const ph_record *record;
    size_t named = 0;
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info node;
        assert_ok(ph_record_node(&node, record, i));
        named += node.name && strncmp(node.name, begin, strlen(begin)) == 0;
    }
    return named;
}
#endif
