/* SPDX-License-Identifier: MIT */
/* tests/tensor/tensor.c: handles: creating, wrapping, keeping, looking, gradients; factories. */
#include "tensor/core/tensor.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/tape/tape.h"
#include <math.h>

TEST(a_new_tensor_has_its_shape_strides_and_memory)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x;
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F64, PH_SHAPE(2, 3, 4)));
    assert_ptr_equal(ph_tensor_device(x), s.device);
    assert_int_equal(ph_tensor_dtype(x), PH_DTYPE_F64);
    ph_shape shape = ph_tensor_shape(x);
    assert_true(ph_shape_equal(&shape, &PH_SHAPE(2, 3, 4)));
    assert_int_equal(ph_tensor_rank(x), 3);
    assert_int_equal(ph_tensor_dim(x, 1), 3);
    assert_int_equal(ph_tensor_dim(x, -1), 4);
    assert_int_equal(ph_tensor_dim(x, 3), 0);
    assert_int_equal(ph_tensor_stride(x, 0), 12);
    assert_int_equal(ph_tensor_stride(x, -1), 1);
    assert_int_equal(ph_tensor_stride(x, -4), 0);
    assert_int_equal(ph_tensor_count(x), 24);
    assert_int_equal(ph_tensor_bytes(x), 192);
    assert_non_null(ph_tensor_data(x));
    assert_true(ph_tensor_is_contiguous(x));
    assert_false(ph_tensor_is_pinned(x));
    assert_true(ph_tensor_is_leaf(x));
    assert_false(ph_tensor_requires_grad(x));
    assert_null(ph_tensor_grad(x));
    assert_int_equal(ph_tensor_version(x), 0);
    assert_ptr_equal(ph_tensor_retain(x), x);
    ph_tensor_release(x);
    ph_tensor_release(x);

    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SCALAR));
    assert_int_equal(ph_tensor_count(x), 1);
    assert_int_equal(ph_tensor_rank(x), 0);
    assert_int_equal(ph_tensor_dim(x, 0), 0);
    ph_tensor_release(x);
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(3, 0)));
    assert_null(ph_tensor_data(x));
    assert_true(ph_tensor_is_contiguous(x));
    ph_tensor_release(x);
    assert_ok(ph_tensor_create_pinned(&x, s.device, PH_DTYPE_I32, PH_SHAPE(5)));
    assert_true(ph_tensor_is_pinned(x));
    ((int32_t *)ph_tensor_data(x))[4] = 1;
    ph_tensor_release(x);
    t_scene_close(&s);
}

TEST(questions_about_a_null_tensor_have_empty_answers)
{
    assert_null(ph_tensor_device(NULL));
    assert_int_equal(ph_tensor_dtype(NULL), 0);
    assert_int_equal(ph_tensor_shape(NULL).rank, 0);
    assert_int_equal(ph_tensor_rank(NULL), 0);
    assert_int_equal(ph_tensor_dim(NULL, 0), 0);
    assert_int_equal(ph_tensor_stride(NULL, 0), 0);
    assert_int_equal(ph_tensor_count(NULL), 0);
    assert_int_equal(ph_tensor_bytes(NULL), 0);
    assert_null(ph_tensor_data(NULL));
    assert_false(ph_tensor_is_contiguous(NULL));
    assert_false(ph_tensor_is_pinned(NULL));
    assert_int_equal(ph_tensor_version(NULL), 0);
    assert_false(ph_tensor_requires_grad(NULL));
    assert_false(ph_tensor_is_leaf(NULL));
    assert_null(ph_tensor_grad(NULL));
    assert_null(ph_tensor_retain(NULL));
    ph_tensor_release(NULL);
}

TEST(test_create_misuse)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = (ph_tensor *)&s;
    assert_error(ph_tensor_create(NULL, s.device, PH_DTYPE_F32, PH_SCALAR), PH_ERROR_ARGUMENT,
                 "out");
    assert_error(ph_tensor_create(&x, NULL, PH_DTYPE_F32, PH_SCALAR), PH_ERROR_ARGUMENT, "device");
    assert_null(x);
    assert_error(ph_tensor_create(&x, s.device, (ph_dtype)77, PH_SCALAR), PH_ERROR_ARGUMENT,
                 "77 is no dtype");
    assert_error(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(-3)), PH_ERROR_ARGUMENT,
                 "f32[-3]");
    assert_error(ph_tensor_create(&x, s.device, PH_DTYPE_F32, (ph_shape){.rank = 9}),
                 PH_ERROR_ARGUMENT, "a rank of 9");
    assert_error(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(INT64_MAX)), PH_ERROR_SIZE,
                 "f32[92");
    assert_error(ph_tensor_create_pinned(&x, s.device, PH_DTYPE_F32, PH_SHAPE(-3)),
                 PH_ERROR_ARGUMENT, "pinned");
    assert_int_not_equal(ph_tensor_create(&x, s.device, PH_DTYPE_U8, PH_SHAPE((int64_t)1 << 50)),
                         PH_OK);
    assert_null(x);
    t_scene_close(&s);
}

static int released;
static void count_release(void *user)
{
    assert_ptr_equal(user, &released);
    released++;
}

TEST(wrapped_memory_is_released_with_the_last_view)
{
    t_scene s;
    t_scene_open(&s);
    float *memory;
    ph_tensor *x, *y;
    released = 0;
    assert_ok(ph_malloc_pinned(&memory, 12, sizeof *memory, s.stream));
    for (int i = 0; i < 12; i++)
        memory[i] = (float)i;
    assert_ok(ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(3, 4), NULL, memory,
                             count_release, &released));
    assert_ptr_equal(ph_tensor_data(x), memory);
    y = ph_tensor_retain(ph_transpose(s.tape, x, 0, 1));
    assert_non_null(y);
    ph_tensor_release(x);
    assert_ok(ph_tape_clear(s.tape));
    assert_int_equal(released, 0); /* a view is left */
    assert_ptr_equal(ph_tensor_data(y), memory);
    ph_tensor_release(y);
    assert_int_equal(released, 1);
    assert_ok(ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(3, 2), (int64_t[]){4, 2},
                             memory + 1, NULL, NULL));
    assert_false(ph_tensor_is_contiguous(x));
    assert_int_equal(ph_tensor_stride(x, 1), 2);
    ph_tensor_release(x);
    /* Strides of what is there once do not matter. */
    assert_ok(ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(1, 4), (int64_t[]){77, 1}, memory,
                             NULL, NULL));
    assert_true(ph_tensor_is_contiguous(x));
    ph_tensor_release(x);
    assert_ok(ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(0), NULL, NULL, count_release,
                             &released));
    ph_tensor_release(x);
    assert_int_equal(released, 2);
    ph_free_pinned(memory, NULL);
    t_scene_close(&s);
}

TEST(test_wrap_misuse)
{
    t_scene s;
    t_scene_open(&s);
    _Alignas(8) char memory[64];
    ph_tensor *x;
    released = 0;
    assert_error(
        ph_tensor_wrap(NULL, s.device, PH_DTYPE_F32, PH_SCALAR, NULL, memory, count_release, NULL),
        PH_ERROR_ARGUMENT, "out");
    assert_error(
        ph_tensor_wrap(&x, NULL, PH_DTYPE_F32, PH_SCALAR, NULL, memory, count_release, NULL),
        PH_ERROR_ARGUMENT, "device");
    assert_error(
        ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(4), NULL, NULL, count_release, NULL),
        PH_ERROR_ARGUMENT, "data");
    assert_error(ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(4), NULL, memory + 2,
                                count_release, NULL),
                 PH_ERROR_ARGUMENT, "aligned");
    assert_error(ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(4), (int64_t[]){-1}, memory,
                                count_release, NULL),
                 PH_ERROR_ARGUMENT, "stride 0 is negative");
    assert_error(ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(4), (int64_t[]){INT64_MAX / 2},
                                memory, count_release, NULL),
                 PH_ERROR_SIZE, "beyond any memory");
    assert_error(ph_tensor_wrap(&x, s.device, PH_DTYPE_F32, PH_SHAPE(INT64_MAX / 8), NULL,
                                (void *)(UINTPTR_MAX - 63), count_release, NULL),
                 PH_ERROR_SIZE, "address space");
    assert_null(x);
    assert_int_equal(released, 0);
    t_scene_close(&s);
}

TEST(a_gradient_must_fit_its_tensor)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x, *g, *i, *other;
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(4)));
    assert_ok(ph_tensor_create(&g, s.device, PH_DTYPE_F32, PH_SHAPE(4)));
    assert_ok(ph_tensor_create(&i, s.device, PH_DTYPE_I64, PH_SHAPE(4)));
    assert_ok(ph_tensor_create(&other, s.device, PH_DTYPE_F32, PH_SHAPE(2, 2)));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    assert_true(ph_tensor_requires_grad(x));
    assert_true(ph_tensor_is_leaf(x));
    assert_error(ph_tensor_set_requires_grad(i, true), PH_ERROR_ARGUMENT, "i64[4]");
    assert_ok(ph_tensor_set_requires_grad(i, false));
    assert_error(ph_tensor_set_requires_grad(NULL, true), PH_ERROR_ARGUMENT, "x is NULL");
    assert_ok(ph_tensor_set_grad(x, NULL));
    assert_ok(ph_tensor_set_grad(x, g));
    assert_ptr_equal(ph_tensor_grad(x), g);
    ph_tensor_release(g); /* x keeps it */
    assert_ok(ph_tensor_set_grad(x, g));
    assert_error(ph_tensor_set_grad(x, i), PH_ERROR_ARGUMENT,
                 "the gradient is i64[4], and must be f32[4]");
    assert_error(ph_tensor_set_grad(x, other), PH_ERROR_ARGUMENT, "f32[2, 2]");
    assert_error(ph_tensor_set_grad(x, x), PH_ERROR_ARGUMENT, "its own gradient");
    assert_error(ph_tensor_set_grad(NULL, g), PH_ERROR_ARGUMENT, "x is NULL");
    assert_ptr_equal(ph_tensor_grad(x), g);

    ph_tensor *y = ph_reshape(s.tape, x, PH_SHAPE(2, 2));
    assert_non_null(y);
    assert_true(ph_tensor_requires_grad(y));
    assert_false(ph_tensor_is_leaf(y));
    assert_error(ph_tensor_set_requires_grad(y, false), PH_ERROR_STATE,
                 "f32[2, 2] was made by an operator");
    ph_tensor_retain(y);
    assert_ok(ph_tape_clear(s.tape));
    assert_true(ph_tensor_is_leaf(y));
    assert_false(ph_tensor_requires_grad(y));
    assert_ok(ph_tensor_set_requires_grad(y, true));
    assert_true(ph_tensor_requires_grad(y));
    ph_tensor_release(y);
    assert_ok(ph_tensor_set_grad(x, NULL));
    assert_null(ph_tensor_grad(x));
    ph_tensor_release(x);
    ph_tensor_release(i);
    ph_tensor_release(other);
    t_scene_close(&s);
}

/* ---- factories ---- */
TEST(factories_fill_tensors_and_refuse_bad_shapes)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_empty(s.tape, PH_DTYPE_BF16, PH_SHAPE(3, 5));
    assert_int_equal(ph_tensor_count(x), 15);
    t_expect_values(s.tape, ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 2)), PH_SHAPE(2, 2), 0, 0, 0,
                    0);
    t_expect_values(s.tape, ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(3), -1.5), PH_SHAPE(3), -1.5f,
                    -1.5f, -1.5f);
    t_expect_values(s.tape, ph_full(s.tape, PH_DTYPE_F32, PH_SCALAR, 2), PH_SCALAR, 2);
    const float values[] = {3, 1, 4, 1};
    t_expect(s.tape, ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 2), values), PH_SHAPE(2, 2),
             values);
    assert_int_equal(ph_tensor_count(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(0, 7))), 0);
    assert_int_equal(ph_tensor_count(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(0, 7), 1)), 0);
    assert_int_equal(ph_tensor_count(ph_arange(s.tape, PH_DTYPE_F32, 0, 1, 0)), 0);
    assert_int_equal(ph_tensor_count(ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(0), NULL)), 0);
    assert_ok(ph_tape_clear(s.tape));

    assert_null(ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2, -1)));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "zeros: dimension 1 of f32[2, -1]");
    assert_null(ph_empty(s.tape, (ph_dtype)0, PH_SHAPE(2)));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "empty: 0 is no dtype");
    assert_null(ph_full(s.tape, PH_DTYPE_F32, (ph_shape){.rank = 99}, 1));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "full: a rank of 99");
    assert_null(ph_from_memory(s.tape, PH_DTYPE_F32, PH_SHAPE(2), NULL));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "data is NULL");
    assert_null(ph_empty(s.tape, PH_DTYPE_F64, PH_SHAPE(INT64_MAX / 4)));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_SIZE, "more elements than any memory");
    t_scene_close(&s);
}

static double arange_item(t_scene *s, ph_dtype dtype, double begin, double step, int64_t count,
                          int64_t at)
{
    double value = NAN;
    ph_tensor *x = ph_arange(s->tape, dtype, begin, step, count);
    assert_non_null(x);
    assert_int_equal(ph_tensor_dtype(x), dtype);
    assert_ok(ph_tensor_item(&value, s->tape, ph_select(s->tape, x, 0, at)));
    return value;
}

TEST(arange_counts_in_every_dtype_that_has_the_numbers)
{
    t_scene s;
    t_scene_open(&s);
    t_expect_values(s.tape, ph_arange(s.tape, PH_DTYPE_F32, -1, 0.5, 4), PH_SHAPE(4), -1, -0.5f, 0,
                    0.5f);
    for (int dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_U8; dtype++) {
        assert_true(arange_item(&s, (ph_dtype)dtype, 3, 2, 100, 0) == 3);
        assert_true(arange_item(&s, (ph_dtype)dtype, 3, 2, 100, 99) == 201);
        assert_true(arange_item(&s, (ph_dtype)dtype, 30, -2, 11, 10) == 10);
    }
    assert_true(arange_item(&s, PH_DTYPE_I64, 0, 1, 70000, 69999) == 69999);
    assert_true(arange_item(&s, PH_DTYPE_I64, 0x1p52, -0x1p51, 4, 3) == -0x1p51);
    assert_true(arange_item(&s, PH_DTYPE_F64, 0.1, 0.1, 10, 6) == 0.1 + 6 * 0.1);
    assert_ok(ph_tape_clear(s.tape));
    assert_null(ph_arange(s.tape, PH_DTYPE_BOOL, 0, 1, 2));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "bool");
    assert_null(ph_arange(s.tape, PH_DTYPE_I32, 0, 0.5, 2));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "in steps of 0.5");
    assert_null(ph_arange(s.tape, PH_DTYPE_I64, 0x1p63, 1, 2));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "integers are needed");
    assert_null(ph_arange(s.tape, PH_DTYPE_F32, 0, 1, -2));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "f32[-2] is negative");
    t_scene_close(&s);
}

typedef struct body {
    ph_tape *tape;
    ph_tensor *x;
} body;

static ph_status make_in_capture(ph_stream *stream, void *user)
{
    (void)stream;
    body *b = user;
    ph_tensor *kept, *pinned;
    assert_ok(ph_tensor_create(&kept, ph_tape_device(b->tape), PH_DTYPE_F32, PH_SHAPE(1000)));
    assert_ok(ph_tensor_create_pinned(&pinned, ph_tape_device(b->tape), PH_DTYPE_F32, PH_SHAPE(4)));
    ph_tensor_release(kept);
    ph_tensor_release(pinned);
    ph_tensor *x = ph_arange(b->tape, PH_DTYPE_F32, 5, 1, 4);
    ph_tensor *y = ph_zeros(b->tape, PH_DTYPE_F32, PH_SHAPE(4));
    ph_tensor_copy(b->tape, ph_slice(b->tape, y, 0, 1, 3), ph_slice(b->tape, x, 0, 1, 3));
    b->x = ph_tensor_retain(y);
    return ph_tape_clear(b->tape);
}

TEST(test_in_capture)
{
    t_scene s;
    t_scene_open(&s);
    ph_graph *graph;
    body b = {s.tape, NULL};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, make_in_capture, &b));
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_tensor_write(s.tape, b.x, (const float[]){9, 9, 9, 9}, 16));
        assert_ok(ph_graph_replay(graph, s.stream));
        t_expect_values(s.tape, b.x, PH_SHAPE(4), 0, 6, 7, 0);
    }
    ph_tensor_release(b.x);
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

/* ---- failures ---- */
static ph_status make_all(t_scene *s)
{
    ph_tensor *x = NULL, *y = NULL, *z = NULL;
    char memory[16];
    ph_status status = ph_tensor_create(&x, s->device, PH_DTYPE_F32, PH_SHAPE(4));
    if (status == PH_OK)
        status = ph_tensor_create_pinned(&y, s->device, PH_DTYPE_F32, PH_SHAPE(4));
    if (status == PH_OK)
        status = ph_tensor_wrap(&z, s->device, PH_DTYPE_U8, PH_SHAPE(16), NULL, memory,
                                count_release, &released);
    if (status == PH_OK)
        status = ph_tensor_set_grad(x, y);
    if (status == PH_OK)
        status = ph_tensor_set_requires_grad(y, true);
    ph_tensor_release(x);
    ph_tensor_release(y);
    ph_tensor_release(z);
    return status;
}

TEST(tensors_without_host_memory_fail_and_leak_nothing)
{
    for (int64_t n = 0;; n++) {
        t_scene s;
        t_scene_open(&s);
        released = 0;
        ph__alloc_fail_after(n);
        ph_status status = make_all(&s);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        t_scene_close(&s);
        if (status == PH_OK) {
            assert_int_equal(released, 1);
            assert_true(n > 6);
            break;
        }
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_true(released <= 1);
    }
}

int main(void)
{
    t_hold_context();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_tensor_has_its_shape_strides_and_memory),
        cmocka_unit_test(questions_about_a_null_tensor_have_empty_answers),
        cmocka_unit_test(test_create_misuse),
        cmocka_unit_test(wrapped_memory_is_released_with_the_last_view),
        cmocka_unit_test(test_wrap_misuse),
        cmocka_unit_test(a_gradient_must_fit_its_tensor),
        cmocka_unit_test(factories_fill_tensors_and_refuse_bad_shapes),
        cmocka_unit_test(arange_counts_in_every_dtype_that_has_the_numbers),
        cmocka_unit_test(test_in_capture),
        cmocka_unit_test(tensors_without_host_memory_fail_and_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
