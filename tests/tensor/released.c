/* SPDX-License-Identifier: MIT */
/* tests/tensor/released.c: handles that are used after their last release, without a quarantine:
 * the last of them are refused, whatever let go of them. Calls by the name: quarantine.c. */
#include "tensor/core/released.h"
#include "support/grads.h"
#include "support/test.h"
#include <phonograph/graphed.h>

enum {
    MANY = 60 /* more than a tape keeps for its next results, and fewer than are kept in all */
};
static const char words[] = "is gone: its last reference was released, or its tape was cleared";

static void need_kept_handles(void)
{
    if (PH__RECYCLES)
        return;
    print_message("skipped: handles go at once, so that tools which watch the heap see it\n");
    skip();
}

/* An operator that is refused makes nothing: no record is used again. */
static void expect_gone(const t_scene *s, ph_tensor *x)
{
    assert_null(ph_relu(s->tape, x));
    t_expect_failure(s, PH_ERROR_STATE, words);
}

TEST(results_behind_the_clear)
{
    t_scene s;
    ph_tensor *x[MANY];
    need_kept_handles();
    t_scene_open(&s);
    for (int i = 0; i < MANY; i++)
        x[i] = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), i);
    assert_ok(ph_tape_clear(s.tape));
    for (int i = 0; i < MANY; i++)
        expect_gone(&s, x[i]);
    t_scene_close(&s);
}

TEST(views_and_results_of_a_tape_that_is_destroyed)
{
    t_scene s;
    need_kept_handles();
    t_scene_open(&s);
    ph_tensor *x = t_counting(s.tape, PH_SHAPE(2, 3)), *view = ph_transpose(s.tape, x, 0, 1);
    ph_tensor *held = ph_tensor_retain(ph_slice(s.tape, x, 0, 0, 1));
    ph_tape_destroy(s.tape);
    assert_ok(ph_tape_create(&s.tape, s.stream, NULL));
    expect_gone(&s, view);
    expect_gone(&s, x); /* a view holds its memory, and not the handle */
    t_expect_values(s.tape, held, PH_SHAPE(1, 3), 0, 1, 2);
    ph_tensor_release(held);
    expect_gone(&s, held);
    t_scene_close(&s);
}

TEST(a_tape_that_is_destroyed)
{
    t_scene s;
    static const char gone_words[] = "the tape was destroyed before this call";
    need_kept_handles();
    t_scene_open(&s);
    ph_tape *tape;
    assert_ok(ph_tape_create(&tape, s.stream, NULL));
    ph_tape_destroy(tape);
    assert_null(ph_full(tape, PH_DTYPE_F32, PH_SHAPE(2), 1));
    assert_error(ph_tape_status(tape), PH_ERROR_STATE, gone_words);
    assert_error(ph_tape_clear(tape), PH_ERROR_STATE, gone_words);
    assert_null(ph_tape_device(tape));
    t_log_start();
    ph_tape_destroy(tape);
    assert_int_equal(t_log_count("ph_tape_destroy: the tape was destroyed already"), 1);
    t_log_stop();
    t_scene_close(&s);
}

TEST(a_tape_on_a_stream_that_is_destroyed)
{
    t_scene s;
    ph_stream *stream;
    ph_tape *tape;
    need_kept_handles();
    t_scene_open(&s);
    assert_ok(ph_stream_create(&stream, s.device, NULL));
    ph_stream_destroy(stream);
    assert_null(ph_stream_device(stream));
    assert_error(ph_tape_create(&tape, stream, NULL), PH_ERROR_STATE,
                 "the stream was destroyed before this call");
    assert_null(tape);
    t_scene_close(&s);
}

TEST(references_that_are_released_too_often)
{
    t_scene s;
    ph_tensor *x;
    need_kept_handles();
    t_scene_open(&s);
    assert_ok(ph_tensor_create(&x, s.device, PH_DTYPE_F32, PH_SHAPE(3)));
    ph_tensor_release(x);
    for (int i = 0; i < 3; i++) {
        ph_ignore(ph_fail(PH_ERROR_CALLER, "before"));
        ph_tensor_release(x);
        assert_non_null(strstr(ph_error_last()->message, words));
    }
    x = ph_neg(s.tape, ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 1));
    ph_tensor_release(x); /* the tape's reference, which is not the caller's */
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, "released too often");
    t_scene_close(&s);
}

/* ---- graphed callables ---- */
static void double_it(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

TEST(inputs_of_a_graphed_callable)
{
    t_scene s;
    ph_module *module, *graphed;
    ph_tensor *x, *y;
    const ph_module_desc desc = {.name = "double", .forward = double_it};
    need_kept_handles();
    t_scene_open(&s);
    assert_ok(ph_module_create(&module, s.device, &desc));
    x = ph_tensor_retain(ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 3));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_make_graphed_callables(&graphed, &module, &(ph_sample){.tensors = &x, .count = 1},
                                        1, NULL));
    t_expect_values(s.tape, ph_call(s.tape, graphed, x), PH_SHAPE(2), 6, 6);
    y = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 1);
    assert_ok(ph_tape_clear(s.tape));
    assert_null(ph_call(s.tape, graphed, y));
    t_expect_failure(&s, PH_ERROR_STATE, words);
    ph_tensor_release(x);
    assert_null(ph_call(s.tape, graphed, x));
    t_expect_failure(&s, PH_ERROR_STATE, words);
    ph_module_release(graphed);
    ph_module_release(module);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_behind_the_clear),
        cmocka_unit_test(views_and_results_of_a_tape_that_is_destroyed),
        cmocka_unit_test(a_tape_that_is_destroyed),
        cmocka_unit_test(a_tape_on_a_stream_that_is_destroyed),
        cmocka_unit_test(references_that_are_released_too_often),
        cmocka_unit_test(inputs_of_a_graphed_callable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
