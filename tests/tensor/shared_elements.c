/* SPDX-License-Identifier: MIT */
/* tests/tensor/shared_elements.c: tensors over the caller's memory whose strides put several
 * elements at one address: they are read, and every change in place is refused. */
#include "base/rng.h"
#include "support/grads.h"
#include "support/test.h"
#include "tensor/core/shape.h"
#include "tensor/files/dlpack_abi.h"
#include <stdio.h>

/* ---- the rule, against a count of all places ---- */
static bool counted_as_shared(const ph_shape *shape, const int64_t *strides)
{
    unsigned char met[4096] = {0};
    int64_t count = ph_shape_count(shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t left = i, at = 0;
        for (size_t k = shape->rank; k-- > 0;) {
            at += left % shape->dim[k] * strides[k];
            left /= shape->dim[k];
        }
        assert_true(at < (int64_t)sizeof met);
        if (met[at]++)
            return true;
    }
    return false;
}

TEST(the_rule_is_exact)
{
    size_t shared = 0, total = t_nightly() ? 200000 : 20000;
    ph__rng rng = {6};
    for (size_t i = 0; i < total; i++) {
        ph_shape shape = {.rank = ph__rng_below(&rng, 5)};
        int64_t strides[PH_MAX_RANK];
        for (size_t k = 0; k < shape.rank; k++) {
            shape.dim[k] = (int64_t)ph__rng_below(&rng, 6);
            strides[k] = (int64_t)ph__rng_below(&rng, k < 2 ? 24 : 6);
        }
        bool want = counted_as_shared(&shape, strides);
        shared += want;
        if (want != (ph__shape_shared_elements(&shape, strides) != NULL))
            fail_msg("rank %zu, dims %lld %lld.., strides %lld %lld..: %d expected", shape.rank,
                     (long long)shape.dim[0], (long long)shape.dim[1], (long long)strides[0],
                     (long long)strides[1], want);
    }
    if (shared < total / 10 || shared > total - total / 10)
        fail_msg("%zu of %zu are shared: one side is hardly tested", shared, total);
}

static const char *why(ph_shape shape, const int64_t *strides)
{
    return ph__shape_shared_elements(&shape, strides);
}

TEST(large_strides_are_told_apart)
{
    const int64_t long_rows[] = {(int64_t)1 << 40, 1}, interleaved[] = {3, 2, (int64_t)1 << 50};
    const int64_t coprime[] = {1000003, 1000033}, primes[] = {1009, 1013, 1019, 1021, 1031, 1033};
    assert_null(why(PH_SHAPE(1 << 20, 1 << 20), long_rows));
    assert_null(why(PH_SHAPE(2, 2, 7), interleaved));
    assert_string_equal(why(PH_SHAPE(3, 4, 7), interleaved), "has strides that overlap");
    assert_null(why(PH_SHAPE(1000, 1000), coprime));
    assert_string_equal(why(PH_SHAPE(1000034, 1000004), coprime), "has strides that may overlap");
    assert_non_null(why(PH_SHAPE(9, 9, 9, 9, 9, 9), primes));
    assert_string_equal(why(PH_SHAPE(2, 3), (int64_t[]){0, 1}), "is expanded");
    assert_null(why(PH_SHAPE(1, 3), (int64_t[]){0, 1}));
    assert_null(why(PH_SHAPE(0, 3), (int64_t[]){0, 0}));
    assert_null(why(PH_SCALAR, (int64_t[]){0}));
}

/* ---- changes in place ---- */
enum {
    FLOATS = 15 /* the last element of a window [4, 3] with strides [2, 4] is number 14 */
};
typedef struct window {
    t_scene s;
    float *memory;
    ph_tensor *x, *whole;
} window;

static void open_window(window *w)
{
    t_scene_open(&w->s);
    assert_ok(ph_malloc(&w->memory, FLOATS * sizeof(float), 1, w->s.stream));
    assert_ok(ph_tensor_wrap(&w->x, w->s.device, PH_DTYPE_F32, PH_SHAPE(4, 3),
                             (const int64_t[]){2, 4}, w->memory, NULL, NULL));
    assert_ok(ph_tensor_wrap(&w->whole, w->s.device, PH_DTYPE_F32, PH_SHAPE(FLOATS), NULL,
                             w->memory, NULL, NULL));
    ph_tensor_copy(w->s.tape, w->whole, ph_arange(w->s.tape, PH_DTYPE_F32, 0, 1, FLOATS));
    assert_ok(ph_tape_clear(w->s.tape));
}

static void close_window(window *w)
{
    t_expect_values(w->s.tape, w->whole, PH_SHAPE(FLOATS), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                    13, 14);
    t_expect_values(w->s.tape, w->x, PH_SHAPE(4, 3), 0, 4, 8, 2, 6, 10, 4, 8, 12, 6, 10, 14);
    ph_tensor_release(w->x);
    ph_tensor_release(w->whole);
    assert_ok(ph_tape_clear(w->s.tape));
    ph_free(w->memory, NULL);
    t_scene_close(&w->s);
}

#define REFUSED(w, status, part, call)                                                             \
    do {                                                                                           \
        call;                                                                                      \
        assert_error(ph_tape_clear((w)->s.tape), status, part);                                    \
    } while (0)
#define ARGUMENT(w, name, call)                                                                    \
    REFUSED(w, PH_ERROR_ARGUMENT,                                                                  \
            name ": it has strides that overlap: several of its elements are one", call)

TEST(changes_in_place_are_refused)
{
    window w;
    float values[12] = {0};
    open_window(&w);
    ph_tape *tape = w.s.tape;
    ph_tensor *x = w.x;
    ARGUMENT(&w, "tensor_fill", ph_tensor_fill(tape, x, 1));
    ARGUMENT(&w, "tensor_scale", ph_tensor_scale(tape, x, 2));
    ARGUMENT(&w, "tensor_copy",
             ph_tensor_copy(tape, x, ph_full(tape, PH_DTYPE_F32, PH_SHAPE(4, 3), 1)));
    ARGUMENT(&w, "tensor_copy", ph_tensor_copy(tape, x, x));
    ARGUMENT(&w, "tensor_add",
             ph_tensor_add(tape, x, ph_full(tape, PH_DTYPE_F32, PH_SHAPE(4, 3), 1), 1));
    ARGUMENT(&w, "tensor_uniform", ph_tensor_uniform(tape, x, 0, 1));
    ARGUMENT(&w, "tensor_bernoulli_of",
             ph_tensor_bernoulli_of(tape, x, ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(4, 3))));
    ARGUMENT(&w, "tensor_copy", ph_ignore(ph_tensor_write(tape, x, values, sizeof values)));
    /* Views have the strides of their tensor. */
    ARGUMENT(&w, "tensor_fill", ph_tensor_fill(tape, ph_transpose(tape, x, 0, 1), 1));
    ARGUMENT(&w, "tensor_fill", ph_tensor_fill(tape, ph_unsqueeze(tape, x, 0), 1));
    close_window(&w);
}

TEST(windows_that_do_not_overlap_are_changed)
{
    window w;
    open_window(&w);
    ph_tape *tape = w.s.tape;
    ph_tensor_fill(tape, ph_slice(tape, w.x, 0, 0, 2), -1);
    t_expect_values(tape, w.whole, PH_SHAPE(FLOATS), -1, 1, -1, 3, -1, 5, -1, 7, -1, 9, -1, 11, 12,
                    13, 14);
    ph_tensor_copy(tape, w.whole, ph_arange(tape, PH_DTYPE_F32, 0, 1, FLOATS));
    assert_ok(ph_tape_clear(tape));
    close_window(&w);
}

static ph_status fill_window(ph_stream *stream, void *user)
{
    const window *w = user;
    (void)stream;
    ph_tensor_fill(w->s.tape, w->x, 1);
    return ph_tape_status(w->s.tape);
}

TEST(a_capture_refuses_them_too)
{
    window w;
    ph_graph *graph;
    open_window(&w);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, w.s.stream, NULL, fill_window, &w), PH_ERROR_ARGUMENT,
                 "tensor_fill: it has strides that overlap");
    assert_status(ph_tape_clear(w.s.tape), PH_ERROR_ARGUMENT);
    ph_graph_destroy(graph);
    close_window(&w);
}

/* ---- arrays of others, and gradients ---- */
TEST(borrowed_arrays_are_held_to_it)
{
    window w;
    ph_tensor *y;
    int64_t shape[] = {4, 3}, strides[] = {2, 4};
    struct DLManagedTensorVersioned *lent;
    open_window(&w);
    assert_ok(ph_tensor_to_dlpack(&lent, w.s.tape, w.whole, NULL));
    lent->tensor.ndim = 2;
    lent->tensor.shape = shape;
    lent->tensor.strides = strides;
    assert_ok(ph_tensor_from_dlpack(&y, w.s.tape, lent));
    ARGUMENT(&w, "tensor_fill", ph_tensor_fill(w.s.tape, y, 1));
    ph_tensor_release(y);
    close_window(&w);
}

TEST(gradients_are_held_to_it)
{
    window w;
    ph_module *layer;
    ph_optimizer *sgd;
    ph_tensor *weight;
    static const char words[] = "the gradient of parameter weight has strides that overlap";
    open_window(&w);
    assert_ok(ph_linear_create(&layer, w.s.device, 3, 4));
    assert_ok(ph_sgd_create(&sgd, layer, &(ph_sgd_options){.lr = 0.1}));
    weight = ph_module_parameter(layer, "weight");
    assert_ok(ph_tensor_set_grad(weight, w.x));
    REFUSED(&w, PH_ERROR_STATE, words, ph_optimizer_zero_grad_in_place(w.s.tape, sgd));
    REFUSED(&w, PH_ERROR_STATE, words, (void)ph_clip_grad_norm(w.s.tape, layer, 0.5, NULL));
    REFUSED(&w, PH_ERROR_STATE, words, ph_clip_grad_value(w.s.tape, layer, 0.5));
    ARGUMENT(&w, "tensor_add", ph_backward(w.s.tape, ph_sum(w.s.tape, weight)));
    assert_ok(ph_tensor_set_grad(weight, NULL));
    ph_optimizer_destroy(sgd);
    ph_module_release(layer);
    close_window(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rule_is_exact),
        cmocka_unit_test(large_strides_are_told_apart),
        cmocka_unit_test(changes_in_place_are_refused),
        cmocka_unit_test(windows_that_do_not_overlap_are_changed),
        cmocka_unit_test(a_capture_refuses_them_too),
        cmocka_unit_test(borrowed_arrays_are_held_to_it),
        cmocka_unit_test(gradients_are_held_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
