/* SPDX-License-Identifier: MIT */
/* tests/tensor/benchmark_attention.c: which proposal of cuDNN's attention takes, where
 * ph_set_benchmark asks for the fastest. */
#include "support/benchmark.h"
#include "support/test.h"

static ph_status do_attention(ph_stream *stream, void *user)
{
    t_work *w = user;
    ph_tensor *result[4];
    (void)stream;
    result[0] = ph_attention(w->tape, w->in[0], w->in[1], w->in[2], NULL);
    ph_grad(w->tape, result + 1, w->in, 3, result, &w->in[3], 1, NULL);
    bool before = ph_tape_set_grad_enabled(w->tape, false);
    for (int i = 0; i < 4; i++)
        ph_tensor_copy(w->tape, w->out[i], result[i]);
    (void)ph_tape_set_grad_enabled(w->tape, before);
    return ph_tape_clear(w->tape);
}

static ph_status do_forward(ph_stream *stream, void *user)
{
    t_work *w = user;
    (void)stream;
    bool before = ph_tape_set_grad_enabled(w->tape, false);
    ph_tensor_copy(w->tape, w->out[0], ph_attention(w->tape, w->in[0], w->in[1], w->in[2], NULL));
    (void)ph_tape_set_grad_enabled(w->tape, before);
    return ph_tape_clear(w->tape);
}

static t_work make_attention(t_scene *s, int64_t rows)
{
    t_work w = {.tape = s->tape, .results = 4};
    for (int i = 0; i < 4; i++) {
        w.in[i] = t_some(s, PH_DTYPE_BF16, PH_SHAPE(1, 1, rows, 64));
        w.out[i] = t_some(s, PH_DTYPE_BF16, PH_SHAPE(1, 1, rows, 64));
    }
    assert_ok(ph_tape_clear(s->tape));
    for (int i = 0; i < 3; i++)
        assert_ok(ph_tensor_set_requires_grad(w.in[i], true));
    return w;
}

static size_t kernels_named(t_body_fn body, const char *times, const char *notes, const char *name)
{
    t_scene s;
    t_say("FAKE_CUDNN_TIMES", times);
    t_say("FAKE_CUDNN_NOTES", notes);
    t_scene_open(&s);
    t_work w = make_attention(&s, 128);
    w.results = body == do_forward ? 1 : 4;
    size_t named = t_named_after_timing(&s, &w, body, name);
    t_work_free(&w);
    t_scene_close(&s);
    t_say("FAKE_CUDNN_NOTES", NULL);
    t_say("FAKE_CUDNN_TIMES", NULL);
    return named;
}

/* Forward and backward. */
TEST(attention_takes_the_fastest)
{
    size_t on = kernels_named(do_attention, "2,1", NULL, "fake_cudnn_plan_1");
    assert_int_equal(on, t_on_fake() ? 2 : 0);
    if (!t_on_fake())
        return;
    assert_int_equal(kernels_named(do_forward, "1,2", NULL, "fake_cudnn_plan"), 1);
    assert_int_equal(kernels_named(do_forward, "2,-1,1", NULL, "fake_cudnn_plan_2"), 1);
}

/* Notes: 1 and 2 say that a proposal is less exact, 4 that it does not repeat. */
TEST(attention_stays_as_exact_and_repeats)
{
    if (!t_on_fake())
        return;
    assert_int_equal(kernels_named(do_forward, "3,1,2", "-1,4,-1", "fake_cudnn_plan_2"), 1);
    assert_int_equal(kernels_named(do_forward, "3,1,2", "-1,1,0", "fake_cudnn_plan_2"), 1);
    assert_int_equal(kernels_named(do_forward, "3,1,2", "0,2,4", "fake_cudnn_plan"), 1);
    assert_int_equal(kernels_named(do_forward, "3,1,2", "2,2,2", "fake_cudnn_plan_1"), 1);
    assert_int_equal(kernels_named(do_forward, "3,1,2", "4,4,4", "fake_cudnn_plan"), 1);
}

/* What is not known of the first is no leave for others to be less exact. */
TEST(attention_stays_as_exact_where_notes_are_missing)
{
    if (!t_on_fake())
        return;
    assert_int_equal(kernels_named(do_forward, "3,1,2", "99,1,-1", "fake_cudnn_plan_2"), 1);
    assert_int_equal(kernels_named(do_forward, "3,1,2", "99,99,2", "fake_cudnn_plan"), 1);
    assert_int_equal(kernels_named(do_forward, "3,1,2", "-1,99,-1", "fake_cudnn_plan_2"), 1);
}

/* Where no order is asked for, the backward may take any; forward repeats all the same. */
TEST(what_does_not_repeat_competes_on_request)
{
    t_scene s;
    if (!t_on_fake())
        return;
    t_say("FAKE_CUDNN_TIMES", "3,1");
    t_say("FAKE_CUDNN_NOTES", "-1,4");
    t_scene_open(&s);
    t_work w = make_attention(&s, 128);
    int64_t before = t_timings();
    ph_set_deterministic_algorithms(false);
    ph_set_benchmark(true);
    assert_ok(do_attention(s.stream, &w));
    ph_set_benchmark(false);
    int64_t both = t_timings() - before;
    size_t forward = t_captured_named(&s, &w, do_attention, "fake_cudnn_plan", NULL);
    ph_set_deterministic_algorithms(true);
    assert_int_equal(forward, 1);
    assert_true(both > 0);
    before = t_timings();
    ph_set_benchmark(true);
    assert_ok(do_attention(s.stream, &w));
    ph_set_benchmark(false);
    assert_int_equal(t_timings(), before); /* one is left for the ordered backward */
    t_work_free(&w);
    t_scene_close(&s);
    t_say("FAKE_CUDNN_NOTES", NULL);
    t_say("FAKE_CUDNN_TIMES", NULL);
}

static size_t untimed_named(int64_t rows, const char *notes, const char *name)
{
    t_scene s;
    t_say("FAKE_CUDNN_TIMES", "1,1");
    t_say("FAKE_CUDNN_NOTES", notes);
    t_scene_open(&s);
    t_work w = make_attention(&s, rows);
    size_t named = t_captured_named(&s, &w, do_attention, name, NULL);
    t_work_free(&w);
    t_scene_close(&s);
    t_say("FAKE_CUDNN_NOTES", NULL);
    t_say("FAKE_CUDNN_TIMES", NULL);
    return named;
}

/* Backward takes the first in each. */
TEST(without_the_switch_forward_with_few_keys_takes_the_second)
{
    if (!t_on_fake())
        return;
    assert_int_equal(untimed_named(128, NULL, "fake_cudnn_plan_1"), 1);
    assert_int_equal(untimed_named(128, NULL, "fake_cudnn_plan"), 1);
    assert_int_equal(untimed_named(384, NULL, "fake_cudnn_plan"), 2);
    assert_int_equal(untimed_named(128, "-1,4", "fake_cudnn_plan"), 2);
    assert_int_equal(untimed_named(128, "0,1", "fake_cudnn_plan"), 2);
    assert_int_equal(untimed_named(128, "99,2", "fake_cudnn_plan"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_takes_the_fastest),
        cmocka_unit_test(attention_stays_as_exact_and_repeats),
        cmocka_unit_test(attention_stays_as_exact_where_notes_are_missing),
        cmocka_unit_test(what_does_not_repeat_competes_on_request),
        cmocka_unit_test(without_the_switch_forward_with_few_keys_takes_the_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
