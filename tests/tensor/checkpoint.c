/* SPDX-License-Identifier: MIT */
/* tests/tensor/checkpoint.c: functions that run again in backward: the same gradients from less
 * memory, random numbers included. */
#include "support/grads.h"
#include "support/test.h"

typedef struct block {
    ph_tensor *w; /* from outside: a parameter */
    int runs;
    bool nested, two_paths; /* what changing does */
    ph_tensor *draws[4];    /* what each run drew, retained */
} block;

static void chain(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    block *b = user;
    b->runs++;
    ph_tensor *x = ph_mul(tape, in[0], b->w);
    for (int i = 0; i < 4; i++)
        x = ph_mul(tape, ph_relu(tape, x), b->w);
    out[0] = x;
}

/* w = (1, 2), x = (3, 4): x w^5. */
TEST(test_same_gradients)
{
    t_scene s;
    t_scene_open(&s);
    block b = {.w = t_leaf(&s, PH_SHAPE(2), 1, 2)};
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 3, 4), *y;
    for (int round = 1; round <= 2; round++) {
        ph_checkpoint(s.tape, chain, &b, &y, 1, &x, 1);
        t_expect_values(s.tape, y, PH_SHAPE(2), 3, 128);
        assert_int_equal(t_info(&s).saved, 1); /* the input */
        assert_int_equal(t_info(&s).tensors, 1);
        assert_int_equal(t_info(&s).depth, 0);
        ph_backward(s.tape, ph_sum(s.tape, y));
        assert_int_equal(b.runs, 2 * round);
        t_expect_grad(&s, x, 1, 32);
        t_expect_grad(&s, b.w, 15, 320);
        assert_int_equal(t_info(&s).saved, 0);
        assert_int_equal(t_info(&s).depth, 0);
        t_zero_grad(x);
        t_zero_grad(b.w);
        assert_ok(ph_tape_clear(s.tape));
    }
    /* In the middle of other history, and asked for. */
    ph_tensor *a = ph_mul_scalar(s.tape, x, 2), *out[2], *inputs[] = {x, b.w};
    ph_checkpoint(s.tape, chain, &b, &y, 1, &a, 1);
    ph_tensor *loss = ph_sum(s.tape, ph_mul(s.tape, y, x));
    ph_grad(s.tape, out, inputs, 2, &loss, NULL, 1, NULL);
    t_expect_values(s.tape, out[0], PH_SHAPE(2), 12, 512);
    t_expect_values(s.tape, out[1], PH_SHAPE(2), 90, 2560);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_tensor_release(b.w);
    t_scene_close(&s);
}

TEST(test_without_gradients)
{
    t_scene s;
    t_scene_open(&s);
    block b = {.w = t_leaf(&s, PH_SHAPE(2), 1, 2)};
    ph_tensor *x = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 3), *y;
    ph_tape_set_grad_enabled(s.tape, false);
    ph_checkpoint(s.tape, chain, &b, &y, 1, &x, 1);
    ph_tape_set_grad_enabled(s.tape, true);
    assert_false(ph_tensor_requires_grad(y));
    assert_int_equal(t_info(&s).tensors, 2);
    assert_ok(ph_tensor_set_requires_grad(b.w, false));
    ph_checkpoint(s.tape, chain, &b, &y, 1, &x, 1); /* nothing in it requires one */
    assert_int_equal(t_info(&s).nodes, 0);
    assert_int_equal(t_info(&s).saved, 0);
    t_expect_values(s.tape, y, PH_SHAPE(2), 3, 96);
    assert_int_equal(b.runs, 2);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(b.w);
    t_scene_close(&s);
}

TEST(a_retained_checkpoint_runs_again_in_each_pass)
{
    t_scene s;
    t_scene_open(&s);
    block b = {.w = t_leaf(&s, PH_SHAPE(2), 1, 2)};
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 3, 4), *y, *loss;
    ph_backward_options keep = {.retain_graph = true};
    ph_checkpoint(s.tape, chain, &b, &y, 1, &x, 1);
    loss = ph_sum(s.tape, y);
    for (int i = 1; i <= 3; i++) {
        ph_backward_from(s.tape, &loss, NULL, 1, &keep);
        assert_int_equal(b.runs, 1 + i);
        assert_int_equal(t_info(&s).saved, 1);
        t_expect_grad(&s, x, (float)i, 32 * (float)i);
    }
    ph_backward(s.tape, loss);
    t_expect_grad(&s, x, 4, 128);
    assert_int_equal(t_info(&s).saved, 0);
    ph_backward_from(s.tape, &y, (ph_tensor *[]){ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 1)}, 1,
                     NULL);
    t_expect_failure(&s, PH_ERROR_STATE, "a second pass");
    ph_tensor_release(x);
    ph_tensor_release(b.w);
    t_scene_close(&s);
}

/* Activations of one block at a time. */
static size_t peak_of(bool checkpointed)
{
    enum {
        BLOCKS = 16
    };
    t_scene s;
    t_scene_open(&s);
    static float ones[4096];
    block b = {.w = t_leaf_of(&s, PH_SHAPE(4096), ones)};
    ph_tensor *x = b.w;
    for (int i = 0; i < BLOCKS; i++) {
        size_t mark = ph_tape_scope_begin(s.tape);
        ph_tensor *y;
        if (checkpointed)
            ph_checkpoint(s.tape, chain, &b, &y, 1, &x, 1);
        else
            chain(s.tape, &y, &x, &b);
        x = y;
        ph_tape_scope_end(s.tape, mark, &x, 1);
    }
    ph_backward(s.tape, ph_sum(s.tape, x));
    assert_ok(ph_tape_clear(s.tape));
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, s.device));
    ph_tensor_release(b.w);
    t_scene_close(&s);
    return stats.allocated_peak / (4096 * sizeof(float));
}

TEST(checkpoints_take_less_than_half_the_memory)
{
    size_t plain = peak_of(false), less = peak_of(true);
    assert_true(plain >= 16 * 4);
    assert_true(less * 2 < plain);
}

/* ---- random numbers ---- */
static void noisy(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    block *b = user;
    ph_tensor *noise = ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(4));
    b->draws[b->runs++] = ph_tensor_retain(noise);
    out[0] = ph_mul(tape, ph_mul(tape, in[0], noise), ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(4)));
}

static void read4(const t_scene *s, float *to, const ph_tensor *x)
{
    assert_non_null(x);
    assert_ok(ph_tensor_read(s->tape, x, to, 4 * sizeof *to));
}

TEST(the_second_run_draws_the_same_numbers)
{
    t_scene s;
    t_scene_open(&s);
    ph_generator *own, *other;
    assert_ok(ph_generator_create(&own, s.device, 42));
    assert_ok(ph_generator_create(&other, s.device, 43));
    for (int i = 0; i < 2; i++) {
        block b = {0};
        float first[4], second[4], y_now[4], gradient[4];
        uint64_t before, after;
        ph_tensor *x = t_leaf(&s, PH_SHAPE(4), 1, 1, 1, 1), *y;
        ph_tape_set_generator(s.tape, i ? own : NULL);
        ph_checkpoint(s.tape, noisy, &b, &y, 1, &x, 1);
        read4(&s, y_now, y);
        (void)ph_rand(s.tape, PH_DTYPE_F32, PH_SHAPE(4)); /* the generator goes on */
        assert_ok(ph_generator_get_offset(&before, own));
        ph_tape_set_generator(s.tape, i ? other : NULL); /* and the tape to another one */
        ph_backward(s.tape, ph_sum(s.tape, y));
        assert_ok(ph_tape_status(s.tape));
        assert_ok(ph_generator_get_offset(&after, own));
        assert_int_equal(before, after);
        assert_ok(ph_generator_get_offset(&after, other));
        assert_int_equal(after, 0);
        assert_int_equal(b.runs, 2);
        read4(&s, first, b.draws[0]);
        read4(&s, second, b.draws[1]);
        assert_memory_equal(first, second, sizeof first);
        read4(&s, gradient, ph_tensor_grad(x));
        assert_memory_equal(gradient, y_now, sizeof gradient); /* x is 1 */
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(b.draws[0]);
        ph_tensor_release(b.draws[1]);
        ph_tensor_release(x);
    }
    ph_tape_set_generator(s.tape, NULL);
    ph_generator_release(own);
    ph_generator_release(other);
    t_scene_close(&s);
}

typedef struct step {
    t_scene *s;
    block b;
    ph_tensor *x, *y;
} step;

static ph_status run_step(ph_stream *stream, void *user)
{
    (void)stream;
    step *p = user;
    ph_tape *tape = p->s->tape;
    ph_tensor *y;
    (void)ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(8));
    ph_checkpoint(tape, noisy, &p->b, &y, 1, &p->x, 1);
    (void)ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(4));
    ph_backward(tape, ph_sum(tape, y));
    ph_tensor_release(p->y);
    p->y = ph_tensor_retain(y);
    return ph_tape_clear(tape);
}

/* Inside a capture: each replay draws numbers of its own, and both runs of it the same. */
TEST(test_random_captured)
{
    t_scene s;
    t_scene_open(&s);
    ph_graph *graph;
    ph_generator *generator;
    assert_ok(ph_generator_create(&generator, s.device, 5));
    ph_tape_set_generator(s.tape, generator);
    step p = {.s = &s, .x = t_leaf(&s, PH_SHAPE(4), 1, 1, 1, 1)};
    float eager[2][4], replayed[4], first[4], second[4];
    for (int i = 0; i < 2; i++) {
        p.b.runs = 0;
        assert_ok(run_step(s.stream, &p));
        read4(&s, eager[i], p.y);
        ph_tensor_release(p.b.draws[0]);
        ph_tensor_release(p.b.draws[1]);
        t_zero_grad(p.x);
    }
    assert_ok(ph_generator_seed(generator, 5));
    p.b.runs = 0;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, run_step, &p));
    assert_int_equal(p.b.runs, 2);
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_replay(graph, s.stream));
        read4(&s, replayed, p.y);
        assert_memory_equal(replayed, eager[i], sizeof replayed);
        read4(&s, first, p.b.draws[0]);
        read4(&s, second, p.b.draws[1]);
        assert_memory_equal(first, second, sizeof first);
        read4(&s, replayed, ph_tensor_grad(p.x));
        assert_memory_equal(replayed, eager[i], sizeof replayed);
    }
    assert_memory_not_equal(eager[0], eager[1], sizeof eager[0]);
    ph_tensor_release(p.b.draws[0]);
    ph_tensor_release(p.b.draws[1]);
    ph_tensor_release(p.y);
    ph_tensor_release(p.x);
    ph_tape_set_generator(s.tape, NULL);
    ph_generator_release(generator);
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

/* ---- checkpoints inside checkpoints ---- */
static void outer(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    block *blocks = user;
    ph_tensor *x = ph_mul(tape, in[0], blocks[0].w), *y, *z;
    blocks[0].runs++;
    ph_checkpoint(tape, chain, &blocks[1], &y, 1, &x, 1);
    y = ph_mul(tape, y, x);
    ph_checkpoint(tape, chain, &blocks[2], &z, 1, &y, 1);
    out[0] = z;
}

TEST(nested_checkpoints_give_the_same_gradients)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2), *x = t_leaf(&s, PH_SHAPE(2), 3, 2), *y, *loss;
    block blocks[3] = {{.w = w}, {.w = w}, {.w = w}};
    ph_backward_options keep = {.retain_graph = true};
    ph_checkpoint(s.tape, outer, blocks, &y, 1, &x, 1);
    t_expect_values(s.tape, y, PH_SHAPE(2), 9, 16384); /* x^2 w^12 */
    assert_int_equal(t_info(&s).saved, 1);
    assert_int_equal(t_info(&s).tensors, 1);
    loss = ph_sum(s.tape, y);
    for (int i = 1; i <= 3; i++) {
        if (i < 3)
            ph_backward_from(s.tape, &loss, NULL, 1, &keep);
        else
            ph_backward(s.tape, loss);
        assert_ok(ph_tape_status(s.tape));
        assert_int_equal(t_info(&s).saved, i < 3);
        assert_int_equal(blocks[0].runs, 1 + i);
        /* once in outer's second run, once for itself */
        assert_int_equal(blocks[1].runs, 1 + 2 * i);
        assert_int_equal(blocks[2].runs, 1 + 2 * i);
        t_expect_grad(&s, x, 6 * (float)i, 16384 * (float)i);
        t_expect_grad(&s, w, 108 * (float)i, 98304 * (float)i);
    }
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(w);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- refusals ---- */
static void changing(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    block *b = user;
    b->runs++;
    out[0] = ph_mul(tape, in[0], b->w);
    if (b->runs > 1)
        out[0] = b->nested      ? ph_mul(tape, out[0], b->w)
                 : b->two_paths ? NULL
                                : ph_add(tape, in[0], b->w);
}
static void nothing(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)out;
    (void)in;
    if (user)
        ph_backward(tape, ph_sum(tape, user));
}

TEST(misuse_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2), *x = t_leaf(&s, PH_SHAPE(2), 3, 4), *y = x;
    ph_checkpoint(s.tape, NULL, NULL, &y, 1, &x, 1);
    assert_null(y);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "checkpoint: fn is NULL");
    ph_checkpoint(s.tape, chain, NULL, NULL, 0, &x, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT,
                     "checkpoint: a checkpointed function has at least one output");
    ph_checkpoint(s.tape, nothing, NULL, &y, 1, &x, 1);
    t_expect_failure(&s, PH_ERROR_CALLER, "checkpoint: the function gave no output 0");
    ph_checkpoint(s.tape, nothing, w, &y, 1, &x, 1);
    t_expect_failure(&s, PH_ERROR_STATE, "backward: called from inside a checkpointed function");
    for (int i = 0; i < 3; i++) {
        block b = {.w = w, .nested = i == 1, .two_paths = i == 2};
        ph_checkpoint(s.tape, changing, &b, &y, 1, &x, 1);
        ph_backward(s.tape, ph_sum(s.tape, y));
        if (i < 2)
            t_expect_failure(&s, PH_ERROR_STATE,
                             "the second run of the function did not do what the first did");
        else
            t_expect_failure(&s, PH_ERROR_CALLER, "gave no output 0");
        assert_null(ph_tensor_grad(x));
    }
    ph_tensor_release(w);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* Between the runs an input, or a value from outside, has changed. */
TEST(a_value_changed_between_the_runs_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    for (int i = 0; i < 2; i++) {
        ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2), *x = t_leaf(&s, PH_SHAPE(2), 3, 4), *y;
        block b = {.w = w};
        ph_checkpoint(s.tape, chain, &b, &y, 1, &x, 1);
        ph_tape_set_grad_enabled(s.tape, false);
        ph_tensor_fill(s.tape, i ? w : x, 1);
        ph_tape_set_grad_enabled(s.tape, true);
        ph_backward(s.tape, ph_sum(s.tape, y));
        t_expect_failure(&s, PH_ERROR_STATE,
                         i ? "checkpoint: a value that mul saved was changed in place"
                           : "checkpoint: input 0, f32[2], was changed");
        ph_tensor_release(w);
        ph_tensor_release(x);
    }
    t_scene_close(&s);
}

/* tanh(x + w): w is read, and not saved. */
static void shifted(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    out[0] = ph_tanh(tape, ph_add(tape, in[0], ((const block *)user)->w));
}

static void shifted_inside(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    ph_tensor *x = ph_mul_scalar(tape, in[0], 2);
    ph_checkpoint(tape, shifted, user, out, 1, &x, 1);
}

static void change_in_place(t_scene *s, ph_tensor *w)
{
    ph_tape_set_grad_enabled(s->tape, false);
    ph_tensor_scale(s->tape, w, -4);
    ph_tape_set_grad_enabled(s->tape, true);
}

/* Also inside another checkpoint, and before a second pass through it. */
TEST(a_leaf_that_was_only_read_and_changed_between_the_runs_is_refused)
{
    t_scene s;
    t_scene_open(&s);
    for (int i = 0; i < 4; i++) {
        bool inside = i & 1, again = i & 2;
        ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2), *x = t_leaf(&s, PH_SHAPE(2), 3, 4), *y;
        block b = {.w = w};
        ph_checkpoint(s.tape, inside ? shifted_inside : shifted, &b, &y, 1, &x, 1);
        ph_tensor *loss = ph_sum(s.tape, y);
        const ph_backward_options retain = {.retain_graph = true};
        if (again)
            ph_backward_from(s.tape, &loss, NULL, 1, &retain);
        assert_ok(ph_tape_status(s.tape));
        change_in_place(&s, w);
        ph_backward(s.tape, loss);
        t_expect_failure(&s, PH_ERROR_STATE,
                         "checkpoint: a leaf that add read, f32[2], was changed in place");
        ph_tensor_release(w);
        ph_tensor_release(x);
    }
    t_scene_close(&s);
}

/* Steps between passes, as in training: each pass has its own runs. */
TEST(a_leaf_may_change_after_the_second_run)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *w = t_leaf(&s, PH_SHAPE(2), 1, 2), *x = t_leaf(&s, PH_SHAPE(2), 3, 4), *y;
    block b = {.w = w};
    for (int i = 0; i < 4; i++) {
        ph_checkpoint(s.tape, i & 1 ? shifted_inside : shifted, &b, &y, 1, &x, 1);
        ph_backward(s.tape, ph_sum(s.tape, y));
        change_in_place(&s, w);
        assert_ok(ph_tape_status(s.tape));
        if (i & 1)
            assert_ok(ph_tape_clear(s.tape));
    }
    ph_tensor_release(w);
    ph_tensor_release(x);
    t_scene_close(&s);
}

typedef struct switching {
    ph_generator *other;
} switching;

static void switch_generators(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    const switching *w = user;
    ph_tensor *x = ph_dropout(tape, in[0], 0.5);
    ph_tape_set_generator(tape, w->other);
    out[0] = ph_dropout(tape, x, 0.5);
}

/* A function that gives the tape another generator: who had which one is as before. */
TEST(test_switches_generators)
{
    t_scene s;
    int64_t live = ph__alloc_live();
    t_scene_open(&s);
    ph_generator *own;
    switching w;
    assert_ok(ph_generator_create(&own, s.device, 42));
    assert_ok(ph_generator_create(&w.other, s.device, 43));
    for (int i = 0; i < 3; i++) {
        ph_tensor *x = t_leaf(&s, PH_SHAPE(4), 1, 1, 1, 1), *y;
        ph_tape_set_generator(s.tape, own);
        ph_checkpoint(s.tape, switch_generators, &w, &y, 1, &x, 1);
        ph_backward(s.tape, ph_sum(s.tape, y));
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor_release(x);
    }
    ph_tape_set_generator(s.tape, NULL);
    ph_generator_release(own);
    ph_generator_release(w.other);
    t_scene_close(&s);
    if (t_on_host())
        assert_int_equal(ph__alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_gradients),
        cmocka_unit_test(test_without_gradients),
        cmocka_unit_test(a_retained_checkpoint_runs_again_in_each_pass),
        cmocka_unit_test(checkpoints_take_less_than_half_the_memory),
        cmocka_unit_test(the_second_run_draws_the_same_numbers),
        cmocka_unit_test(test_random_captured),
        cmocka_unit_test(nested_checkpoints_give_the_same_gradients),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(a_value_changed_between_the_runs_is_refused),
        cmocka_unit_test(a_leaf_that_was_only_read_and_changed_between_the_runs_is_refused),
        cmocka_unit_test(a_leaf_may_change_after_the_second_run),
        cmocka_unit_test(test_switches_generators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
