/* SPDX-License-Identifier: MIT */
/* tests/tensor/tape.c: the tape: what it owns, scopes, its first error, its modes, and misuse. */
#include "support/grads.h"
#include "support/test.h"

TEST(a_tape_has_the_stream_and_options_given)
{
    t_scene s;
    t_scene_open(&s);
    ph_tape *tape = s.tape;
    assert_ptr_equal(ph_tape_stream(tape), s.stream);
    assert_ptr_equal(ph_tape_device(tape), s.device);
    assert_true(ph_tape_grad_enabled(tape));
    assert_error(ph_tape_create(NULL, s.stream, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_tape_create(&tape, NULL, NULL), PH_ERROR_ARGUMENT, "stream");
    assert_null(tape);
    ph_tape_options options = {.reserved = {0, 1}};
    assert_error(ph_tape_create(&tape, s.stream, &options), PH_ERROR_ARGUMENT, "reserved");
    ph_device *elsewhere;
    assert_ok(ph_device_open(&elsewhere, "host", NULL));
    options = (ph_tape_options){0};
    assert_ok(ph_generator_create(&options.generator, elsewhere, 1));
    assert_error(ph_tape_create(&tape, s.stream, &options), PH_ERROR_WRONG_DEVICE, "generator");
    assert_null(tape);
    ph_generator_release(options.generator);
    ph_device_release(elsewhere);
    options = (ph_tape_options){.no_grad = true};
    assert_ok(ph_tape_create(&tape, s.stream, &options));
    assert_false(ph_tape_grad_enabled(tape));
    ph_tape_destroy(tape);
    t_scene_close(&s);
}

TEST(calls_on_a_null_tape_are_refused_or_do_nothing)
{
    ph_tape_info info;
    ph_tape_destroy(NULL);
    assert_null(ph_tape_stream(NULL));
    assert_null(ph_tape_device(NULL));
    assert_status(ph_tape_status(NULL), PH_ERROR_ARGUMENT);
    assert_status(ph_tape_clear(NULL), PH_ERROR_ARGUMENT);
    assert_status(ph_tape_get_info(&info, NULL), PH_ERROR_ARGUMENT);
    ph_tape_fail(NULL, PH_ERROR_CALLER, "nobody hears it");
    ph_tape_check(NULL, PH_ERROR_CALLER);
    assert_false(ph_tape_set_grad_enabled(NULL, true));
    assert_false(ph_tape_grad_enabled(NULL));
    ph_tape_set_generator(NULL, NULL);
    ph_tape_scope_end(NULL, ph_tape_scope_begin(NULL), NULL, 0);
    assert_null(ph_zeros(NULL, PH_DTYPE_F32, PH_SCALAR));
    assert_error(ph_error_last()->status, PH_ERROR_ARGUMENT, "zeros");
    ph_backward(NULL, NULL);
    ph_grad(NULL, NULL, NULL, 0, NULL, NULL, 0, NULL);
    ph_checkpoint(NULL, NULL, NULL, NULL, 0, NULL, 0);
    assert_null(ph_detach(NULL, NULL));
}

/* Where nothing watches the heap, the record of a tensor that went waits for the next one. */
TEST(an_operand_that_went_with_its_tape_is_refused)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(PH__WATCHED_HEAP)
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 2, 3), *y = ph_relu(s.tape, x);
    assert_ok(ph_tape_clear(s.tape));
    assert_null(ph_relu(s.tape, y));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, "operand 0 is gone");
    ph_tensor_release(x);
    t_scene_close(&s);
#endif
}

/* The first stays, with all of its record; what comes after it does nothing. */
TEST(test_first_error)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 3));
    assert_null(ph_add(s.tape, x, NULL));
    assert_error(ph_tape_status(s.tape), PH_ERROR_ARGUMENT,
                 "add: operand 1 is NULL (got f32[2, 3], NULL)");
    assert_null(ph_mul(s.tape, NULL, x));
    assert_null(ph_add(s.tape, x, x));
    ph_tape_fail(s.tape, PH_ERROR_CALLER, "a later one");
    ph_tape_check(s.tape, ph_fail(PH_ERROR_SIZE, "another"));
    assert_status(ph_error_last()->status, PH_ERROR_SIZE);
    assert_error(ph_tape_status(s.tape), PH_ERROR_ARGUMENT, "add: operand 1");
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "add: operand 1");
    x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    t_expect_values(s.tape, ph_add(s.tape, x, x), PH_SHAPE(2), 0, 0);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(test_fail_and_check)
{
    t_scene s;
    t_scene_open(&s);
    ph_tape_fail(s.tape, PH_OK, "nothing");
    ph_tape_check(s.tape, PH_OK);
    assert_ok(ph_tape_status(s.tape));
    ph_tape_fail(s.tape, PH_ERROR_CALLER, "the %s of %d", "answer", 42);
    t_expect_failure(&s, PH_ERROR_CALLER, "the answer of 42");
    ph_error whole = {PH_ERROR_CAPTURE, 905, "cuStreamWaitEvent", "from a driver"};
    ph_tape_check(s.tape, ph_error_set(&whole));
    assert_status(ph_fail(PH_ERROR_CALLER, "something else"), PH_ERROR_CALLER);
    assert_error(ph_tape_clear(s.tape), PH_ERROR_CAPTURE, "from a driver");
    assert_native(905);
    assert_string_equal(ph_error_last()->native_call, "cuStreamWaitEvent");
    /* A status that nothing stands behind. */
    ph_tape_check(s.tape, PH_ERROR_IO);
    t_expect_failure(&s, PH_ERROR_IO, "PH_ERROR_IO");
    t_scene_close(&s);
}

/* Another failed call's record does not get between an operator and its failure, nor a later one
 * into the tape. */
TEST(test_other_records)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    assert_status(ph_fail(PH_ERROR_CALLER, "unrelated"), PH_ERROR_CALLER);
    assert_non_null(ph_add(s.tape, x, x));
    assert_ok(ph_tape_status(s.tape));
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

/* Many tensors, of which one is kept: gives that. */
static ph_tensor *make_many(const t_scene *s)
{
    ph_tensor *kept = NULL;
    for (int i = 0; i < 200; i++) {
        ph_tensor *x = ph_zeros(s->tape, PH_DTYPE_F32, PH_SHAPE(8));
        if (i == 100)
            kept = ph_tensor_retain(x);
    }
    assert_int_equal(t_info(s).tensors, 200);
    assert_int_equal(t_info(s).nodes, 0);
    assert_ok(ph_tape_clear(s->tape));
    assert_int_equal(t_info(s).tensors, 0);
    return kept;
}

TEST(a_cleared_tape_frees_all_but_what_is_retained)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor_release(make_many(&s)); /* what the device keeps from its first use of anything */
    assert_int_equal(t_allocated(&s), 0);
    assert_ok(ph_device_synchronize(s.device)); /* a launch that waits has memory too */
    int64_t live = ph__alloc_live();
    ph_tensor *kept = make_many(&s);
    t_expect_values(s.tape, kept, PH_SHAPE(8), 0, 0, 0, 0, 0, 0, 0, 0);
    ph_tensor_release(kept);
    assert_int_equal(t_allocated(&s), 0);
    assert_int_equal(ph__alloc_live(), live);
    t_scene_close(&s);
}

TEST(a_scope_keeps_the_tensors_that_it_is_given)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *before = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(1));
    size_t outer = ph_tape_scope_begin(s.tape);
    ph_tensor *a = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(1), 1),
              *b = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(1), 2);
    size_t inner = ph_tape_scope_begin(s.tape);
    assert_int_equal(t_info(&s).depth, 2);
    ph_tensor *c = ph_add(s.tape, a, b), *d = ph_tensor_retain(ph_add(s.tape, c, b));
    ph_tensor *e = ph_add(s.tape, d, c);
    assert_int_equal(t_info(&s).tensors, 6);
    /* Kept ones go over to the scope around, in their order; twice, NULL and what is older do no
     * harm. */
    ph_tape_scope_end(s.tape, inner, (ph_tensor *[]){e, NULL, c, c, a, before}, 6);
    assert_int_equal(t_info(&s).tensors, 5);
    assert_int_equal(t_info(&s).depth, 1);
    t_expect_values(s.tape, e, PH_SHAPE(1), 8);
    t_expect_values(s.tape, d, PH_SHAPE(1), 5);
    ph_tape_scope_end(s.tape, outer, (ph_tensor *[]){c}, 1);
    assert_int_equal(t_info(&s).tensors, 2);
    t_expect_values(s.tape, c, PH_SHAPE(1), 3);
    ph_tape_scope_end(s.tape, outer, NULL, 0);
    assert_int_equal(t_info(&s).tensors, 1);
    assert_int_equal(t_info(&s).depth, 0);
    /* A mark from before a clear is harmless. */
    size_t stale = ph_tape_scope_begin(s.tape);
    assert_ok(ph_tape_clear(s.tape));
    ph_tape_scope_end(s.tape, stale, NULL, 3);
    assert_int_equal(t_info(&s).tensors, 0);
    assert_int_equal(t_info(&s).depth, 0);
    t_expect_values(s.tape, d, PH_SHAPE(1), 5);
    ph_tensor_release(d);
    t_scene_close(&s);
}

/* Peak memory is the peak, and not the sum. */
TEST(test_scope_memory)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(1024));
    size_t one = t_allocated(&s);
    for (int i = 0; i < 20; i++) {
        size_t mark = ph_tape_scope_begin(s.tape);
        ph_tensor *y = ph_add(s.tape, ph_add(s.tape, x, x), x);
        ph_tape_scope_end(s.tape, mark, &y, 1);
        ph_tape_scope_end(s.tape, mark, NULL, 0);
    }
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, s.device));
    assert_int_equal(stats.allocated, one);
    assert_true(stats.allocated_peak <= 3 * one);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(tensors_of_another_device_are_refused)
{
    t_scene s;
    ph_device *other;
    ph_tensor *x;
    t_scene_open(&s);
    assert_ok(ph_device_open(&other, "host:threads=1", NULL));
    assert_ok(ph_tensor_create(&x, other, PH_DTYPE_F32, PH_SHAPE(2)));
    ph_tensor *mine = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    assert_null(ph_add(s.tape, mine, x));
    t_expect_failure(&s, PH_ERROR_WRONG_DEVICE, "add: operand 1 is of another device");
    ph_tensor_release(x);
    ph_device_release(other);
    /* Pinned memory of the device is the device's. */
    assert_ok(ph_tensor_create_pinned(&x, s.device, PH_DTYPE_F32, PH_SHAPE(2)));
    memset(ph_tensor_data(x), 0, 8);
    t_expect_values(s.tape, ph_add(s.tape, x, x), PH_SHAPE(2), 0, 0);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    assert_ok(ph_stream_synchronize(s.stream));
    t_scene_close(&s);
}

TEST(test_other_tape)
{
    t_scene s;
    t_scene_open(&s);
    ph_tape *second;
    assert_ok(ph_tape_create(&second, s.stream, NULL));
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2);
    ph_tensor *plain = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 3), *y = ph_mul(s.tape, w, plain);
    assert_non_null(ph_add(second, plain, w));
    assert_ok(ph_tape_status(second));
    assert_null(ph_add(second, w, y));
    assert_error(ph_tape_clear(second), PH_ERROR_STATE, "operand 1 has history on another tape");
    t_expect_values(second, ph_add(second, w, ph_detach(second, y)), PH_SHAPE(2), 4, 8);
    ph_tape_set_grad_enabled(second, false);
    t_expect_values(second, ph_add(second, w, y), PH_SHAPE(2), 4, 8);
    assert_ok(ph_tape_clear(second));
    assert_false(ph_tape_grad_enabled(second)); /* a mode, not a thing that was made */
    ph_tape_set_grad_enabled(second, true);
    ph_tensor_retain(y);
    assert_ok(ph_tape_clear(s.tape));
    /* Without its history it is a leaf, that nothing is accumulated into. */
    assert_true(ph_tensor_is_leaf(y));
    assert_false(ph_tensor_requires_grad(y));
    t_expect_values(second, ph_add(second, w, y), PH_SHAPE(2), 4, 8);
    assert_ok(ph_tape_clear(second));
    ph_tensor_release(y);
    ph_tensor_release(w);
    ph_tape_destroy(second);
    t_scene_close(&s);
}

TEST(test_in_place)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2), *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    ph_tensor *view = ph_reshape(s.tape, x, PH_SHAPE(2, 1));
    uint64_t version = ph_tensor_version(x);
    ph_tensor_fill(s.tape, x, 5);
    assert_int_equal(ph_tensor_version(x), version + 1);
    assert_int_equal(ph_tensor_version(view), version + 1);
    t_expect_values(s.tape, view, PH_SHAPE(2, 1), 5, 5);
    ph_tensor_fill(s.tape, w, 5);
    t_expect_failure(&s, PH_ERROR_STATE, "requires a gradient");
    ph_tensor *y = ph_mul(s.tape, w, w);
    ph_tensor_fill(s.tape, y, 5);
    t_expect_failure(&s, PH_ERROR_STATE, "requires a gradient");
    ph_tape_set_grad_enabled(s.tape, false);
    ph_tensor_fill(s.tape, w, 7);
    ph_tape_set_grad_enabled(s.tape, true);
    t_expect_values(s.tape, w, PH_SHAPE(2), 7, 7);
    ph_tensor_release(w);
    assert_ok(ph_tape_clear(s.tape));
    t_scene_close(&s);
}

TEST(a_detached_tensor_shares_memory_without_history)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2), *y = ph_mul(s.tape, w, w),
              *d = ph_detach(s.tape, y);
    assert_true(ph_tensor_requires_grad(y));
    assert_false(ph_tensor_requires_grad(d));
    assert_ptr_equal(ph_tensor_data(d), ph_tensor_data(y));
    ph_tensor *dw = ph_detach(s.tape, w);
    ph_tensor_fill(s.tape, dw, 3);
    t_expect_values(s.tape, w, PH_SHAPE(2), 3, 3);
    assert_null(ph_detach(s.tape, NULL));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "detach: operand 0 is NULL");
    ph_tensor_release(w);
    t_scene_close(&s);
}

/* Operands beyond what a message has room for. */
TEST(test_long_message)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), *out;
    ph_tensor *in[60];
    for (size_t i = 0; i < 60; i++)
        in[i] = x;
    ph_custom_operator op = {.name = "wide"};
    ph_custom_call(s.tape, &op, &out, 1, in, 60);
    assert_null(out);
    assert_error(ph_tape_status(s.tape), PH_ERROR_ARGUMENT,
                 "wide: a custom operator needs forward and backward (got f32[1, 1");
    t_expect_failure(&s, PH_ERROR_ARGUMENT, ", ...)");
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tape_has_the_stream_and_options_given),
        cmocka_unit_test(calls_on_a_null_tape_are_refused_or_do_nothing),
        cmocka_unit_test(an_operand_that_went_with_its_tape_is_refused),
        cmocka_unit_test(test_first_error),
        cmocka_unit_test(test_fail_and_check),
        cmocka_unit_test(test_other_records),
        cmocka_unit_test(a_cleared_tape_frees_all_but_what_is_retained),
        cmocka_unit_test(a_scope_keeps_the_tensors_that_it_is_given),
        cmocka_unit_test(test_scope_memory),
        cmocka_unit_test(tensors_of_another_device_are_refused),
        cmocka_unit_test(test_other_tape),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(a_detached_tensor_shares_memory_without_history),
        cmocka_unit_test(test_long_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
