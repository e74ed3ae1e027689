/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_used_kept.c: the backward graphs that losses of some outputs have of their own:
 * how many there may be, where none can be captured, what they take, and what failures leave. */
#include "support/branches.h"
#include "support/sweep.h"
#include "support/test.h"
#include <pthread.h>

/* ---- what is refused ---- each leaves the callable as it was. */
static void expect_refused(bench *b, unsigned used, ph_status status, const char *part)
{
    ph_tensor *out[OUTPUTS];
    size_t backwards = gn_info(b->graphed).backwards;
    ph_call_n(b->s.tape, b->graphed, out, OUTPUTS, b->side.in, 2);
    ph_backward(b->s.tape, loss_of(&b->s, out, used));
    assert_error(ph_tape_status(b->s.tape), status, "'branches'");
    t_expect_failure(&b->s, status, part);
    assert_int_equal(gn_info(b->graphed).backwards, backwards);
}

TEST(no_more_backward_graphs_are_kept_than_were_allowed)
{
    bench b;
    bench_open(&b, &(ph_graphed_options){.max_backwards = 2});
    expect_right(&b, 5, "the only other set");
    expect_refused(&b, 3, PH_ERROR_STATE,
                   "output [0], [1]: these outputs alone need a backward graph");
    expect_refused(&b, 8, PH_ERROR_STATE, "max_backwards");
    expect_right(&b, 5, "the other set still");
    expect_right(&b, ALL, "all");
    bench_close(&b);
    bench_open(&b, &(ph_graphed_options){.max_backwards = 1});
    expect_refused(&b, 1, PH_ERROR_STATE, "max_backwards");
    expect_right(&b, ALL, "all");
    bench_close(&b);
    bench_open(&b, NULL); /* 8 */
    for (unsigned used = 1; used <= 7; used++)
        expect_right(&b, used, "as many as there may be");
    expect_refused(&b, 8, PH_ERROR_STATE, "there are 8 already");
    bench_close(&b);
}

typedef struct captured {
    bench *b;
    unsigned used;
    bool refused;
} captured;

static ph_status capture_body(ph_stream *stream, void *user)
{
    const captured *c = user;
    void *block;
    assert_ok(ph_malloc(&block, 256, 1, stream));
    assert_ok(ph_memset(block, 0, 256, stream));
    ph_free(block, stream);
    assert_true(ph_device_is_capturing(c->b->s.device));
    if (c->refused)
        expect_refused(c->b, c->used, PH_ERROR_CAPTURE, "while another capture is open");
    else
        backward_of(&c->b->s, &c->b->side, c->b->graphed, c->used);
    return PH_OK;
}

/* The capture is of another stream than the tape's: replays are none of its business, and captures
 * are. */
TEST(test_in_a_capture)
{
    for (int mode = PH_CAPTURE_GLOBAL; mode <= PH_CAPTURE_RELAXED; mode++) {
        bench b;
        ph_graph *graph;
        ph_stream *stream;
        bench_open(&b, NULL);
        assert_ok(ph_stream_create(&stream, b.s.device, NULL));
        captured c = {&b, 3, true};
        for (int i = 0; i < 2; i++) {
            grads want = wanted(&b, c.used, 0);
            assert_ok(ph_graph_create(&graph, NULL));
            assert_ok(ph_graph_capture(graph, stream,
                                       &(ph_capture_options){.mode = (ph_capture_mode)mode},
                                       capture_body, &c));
            ph_graph_destroy(graph);
            assert_false(ph_device_is_capturing(b.s.device));
            if (!c.refused)
                expect_grads(&b, want, "beside a capture");
            else
                drop_grads(&want);
            expect_right(&b, c.used, "after a capture");
            c.refused = false;
        }
        ph_stream_destroy(stream);
        bench_close(&b);
    }
}

/* ---- another thread ---- in whose time this one captures, of the same pool: refused, and right
 * later. */
typedef struct threads {
    bench b;
    ph_module *custom[2], *graphed[2];
    ph_tensor *x;
    bool armed;
    ph_status status;
    char message[sizeof((ph_error *)0)->message];
} threads;

static void *other_thread(void *user)
{
    threads *t = user;
    ph_stream *stream;
    ph_tape *tape;
    ph_tensor *out[2];
    ph_status status = ph_stream_create(&stream, t->b.s.device, NULL);
    if (status == PH_OK)
        status = ph_tape_create(&tape, stream, NULL);
    t->status = status;
    if (status != PH_OK)
        return NULL;
    ph_call_n(tape, t->graphed[1], out, 2, &t->x, 1);
    ph_backward(tape, ph_sum(tape, out[1]));
    t->status = ph_tape_clear(tape);
    memcpy(t->message, ph_error_last()->message, sizeof t->message);
    ph_tape_destroy(tape);
    ph_stream_destroy(stream);
    return NULL;
}

static void triple(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)custom;
    out[0] = ph_mul_scalar(tape, in[0], 3);
}

static void triple_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    threads *t = ph_custom_user(custom);
    pthread_t thread;
    (void)needed;
    grad_in[0] = ph_mul_scalar(tape, grad_out[0], 3);
    if (!t->armed)
        return;
    t->armed = false;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void triple_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const ph_custom_operator operator_ = {
        .name = "triple", .forward = triple, .backward = triple_backward, .user = self};
    ph_custom_call(tape, &operator_, &out[0], 1, in, 1);
    out[1] = ph_mul_scalar(tape, in[0], 5);
}

TEST(a_backward_is_not_captured_into_a_busy_pool)
{
    threads t = {.status = PH_OK};
    const t_scene *s = &t.b.s;
    t_scene_open(&t.b.s);
    t.x = t_leaf(s, PH_SHAPE(2), 1, 2);
    for (int i = 0; i < 2; i++)
        t.custom[i] = gn_function(s, i ? "second" : "first", triple_forward, &t, 1, 2);
    const ph_sample samples[2] = {{.tensors = &t.x, .count = 1}, {.tensors = &t.x, .count = 1}};
    assert_ok(ph_make_graphed_callables(t.graphed, t.custom, samples, 2,
                                        &(ph_graphed_options){.mode = PH_CAPTURE_THREAD_LOCAL}));
    for (int i = 0; i < 2; i++) {
        ph_tensor *out[2];
        t.armed = i == 0;
        ph_call_n(s->tape, t.graphed[0], out, 2, &t.x, 1);
        ph_backward(s->tape, ph_sum(s->tape, out[0]));
        t_expect_grad(s, t.x, 3, 3);
        t_zero_grad(t.x);
        assert_ok(ph_tape_clear(s->tape));
    }
    assert_int_equal(t.status, PH_ERROR_POOL_BUSY);
    assert_non_null(
        strstr(t.message, "'second' for its output [1]: it is to be captured, and another thread"));
    (void)other_thread(&t);
    assert_int_equal(t.status, PH_OK);
    assert_ok(ph_device_synchronize(s->device));
    t_expect_grad(s, t.x, 5, 5);
    ph_tensor_release(t.x);
    for (int i = 0; i < 2; i++) {
        ph_module_release(t.graphed[i]);
        ph_module_release(t.custom[i]);
    }
    t_scene_close(&t.b.s);
}

/* ---- memory ---- of the first other backward alone, and all of it goes with the callable. */
static size_t held_after(bool others, size_t most)
{
    bench b;
    bench_open(&b, &(ph_graphed_options){.max_backwards = most});
    if (others)
        expect_right(&b, 1, "one output");
    assert_ok(ph_device_synchronize(b.s.device));
    size_t held = t_allocated(&b.s);
    bench_close(&b); /* nothing is left */
    return held;
}

TEST(memory_of_other_backwards_is_taken_when_first_needed)
{
    size_t none = held_after(false, 1);
    assert_int_equal(held_after(false, 0), none);
    assert_true(held_after(true, 0) > none);
}

/* ---- failures ---- at every place of the capture: the tape has failed, and the next try is right.
 */
typedef struct swept {
    bench b;
    grads want;
} swept;
static swept the_swept;

FIXTURE(open_swept)
{
    bench *b = &the_swept.b;
    bench_open(b, &(ph_graphed_options){.gradients = PH_GRAPHED_ACCUMULATE});
    expect_right(b, ALL, "all");
    expect_right(b, 8, "another set");
    the_swept.want = wanted(b, 3, 0);
    return 0;
}

FIXTURE(close_swept)
{
    drop_grads(&the_swept.want);
    bench_close(&the_swept.b);
    return 0;
}

static ph_status run_swept(void *user)
{
    bench *b = user;
    ph_tensor *out[OUTPUTS];
    ph_call_n(b->s.tape, b->graphed, out, OUTPUTS, b->side.in, 2);
    ph_backward(b->s.tape, loss_of(&b->s, out, 3));
    return ph_tape_clear(b->s.tape);
}

static void reset_swept(ph_status status, void *user)
{
    bench *b = user;
    size_t backwards = gn_info(b->graphed).backwards;
    assert_true(status == PH_OK ? backwards == 3 : backwards >= 2);
    if (status == PH_OK) {
        grads got = take_grads(b);
        for (int i = 0; i < PARAMETERS + 2; i++) {
            assert_int_equal(got.at[i] != NULL, the_swept.want.at[i] != NULL);
            if (got.at[i])
                gn_expect_same(&b->s, got.at[i], the_swept.want.at[i], "after failures");
        }
        drop_grads(&got);
    }
    bench_zero(b);
    expect_right(b, 8, "another set still");
}

static const t_swept sweep = {.name = "a backward of other outputs",
                              .open = open_swept,
                              .close = close_swept,
                              .run = run_swept,
                              .reset = reset_swept,
                              .user = &the_swept.b};

/* ---- looking ---- */
TEST(the_description_lists_each_other_backward)
{
    bench b;
    char *text;
    bench_open(&b, NULL);
    assert_int_equal(gn_info(b.graphed).backwards, 1);
    expect_right(&b, 9, "two of them");
    assert_ok(ph_graphed_callable_describe(&text, b.graphed));
    assert_non_null(strstr(text, "  backward of output [0], [3] alone: "));
    ph_string_free(text);
    assert_int_equal(gn_info(b.graphed).backwards, 2);
    assert_int_equal(gn_info(b.graphed).backward_calls, 1);
    bench_close(&b);
}

/* ---- where their replays run, and what they leave ---- */
/* On another tape and stream than the last, and on that of the captures. */
TEST(other_backwards_run_on_any_stream)
{
    bench b;
    ph_stream *streams[2];
    t_scene_open(&b.s);
    ph_tape *own = b.s.tape;
    assert_ok(ph_stream_create(&streams[0], b.s.device, NULL));
    assert_ok(ph_stream_create(&streams[1], b.s.device, NULL));
    side_open(&b.s, &b.side);
    new_inputs(&b.s, &b.side, 1);
    b.graphed = gn_graph(b.side.module, b.side.in, 2, &(ph_graphed_options){.stream = streams[1]});
    for (unsigned i = 0; i < 12; i++) {
        ph_tape *tape = own;
        if (i % 3)
            assert_ok(ph_tape_create(&tape, streams[i % 3 - 1], NULL));
        assert_ok(ph_device_synchronize(b.s.device));
        b.s.tape = tape;
        expect_right(&b, 1 + i % 4, "on one stream or another");
        assert_ok(ph_device_synchronize(b.s.device));
        b.s.tape = own;
        if (tape != own)
            ph_tape_destroy(tape);
    }
    bench_close(&b);
    ph_stream_destroy(streams[0]);
    ph_stream_destroy(streams[1]);
}

/* ---- lent gradients ---- are those of a later backward of the same outputs, which is told. */
TEST(gradients_lent_by_other_backwards_are_refused_once_overwritten)
{
    bench b;
    float values[SIZE];
    bench_open(&b, &(ph_graphed_options){.gradients = PH_GRAPHED_BORROW});
    for (int i = 0; i < 2; i++) {
        backward_of(&b.s, &b.side, b.graphed, 1);
        ph_tensor *grad = ph_tensor_retain(ph_tensor_grad(b.side.self.a));
        bench_zero(&b);
        assert_ok(ph_tensor_read(b.s.tape, grad, values, sizeof values));
        backward_of(&b.s, &b.side, b.graphed, 1);
        assert_error(ph_tensor_read(b.s.tape, grad, values, sizeof values), PH_ERROR_OVERWRITTEN,
                     "a gradient of call");
        t_expect_failure(&b.s, PH_ERROR_OVERWRITTEN, "a gradient of call");
        ph_tensor_release(grad);
        bench_zero(&b);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_backwards_run_on_any_stream),
        cmocka_unit_test(gradients_lent_by_other_backwards_are_refused_once_overwritten),
        cmocka_unit_test(no_more_backward_graphs_are_kept_than_were_allowed),
        cmocka_unit_test(test_in_a_capture),
        cmocka_unit_test(the_description_lists_each_other_backward),
        cmocka_unit_test(memory_of_other_backwards_is_taken_when_first_needed),
        cmocka_unit_test(a_backward_is_not_captured_into_a_busy_pool),
        T_SWEEP(test_without_host_memory, &sweep),
        T_SWEEP(test_when_the_driver_fails, &sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
