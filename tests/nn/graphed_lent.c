/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_lent.c: gradients that one callable lends (PH_GRAPHED_BORROW), to the one before
 * it or to a reader on another stream, and a replay in between that may overwrite them. */
#include "support/graphed_nets.h"
#include "support/test.h"

/* y = tanh(1.5 tanh(1.5 tanh(1.5 x))) weight: what backward gives lies where the next forward
 * works. */
static void deep_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_tensor *h = in[0];
    for (int i = 0; i < 3; i++)
        h = ph_tanh(tape, ph_mul_scalar(tape, h, 1.5));
    out[0] = ph_mul(tape, h, ((const t_scale *)self)->weight);
}

typedef struct replaying {
    ph_module *callable;
    ph_tensor *x;
} replaying;

/* A hook that replays a forward between two backwards. */
static ph_tensor *replay_between(ph_tape *tape, ph_tensor *grad, void *user)
{
    const replaying *r = user;
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    (void)ph_call(tape, r->callable, r->x);
    (void)ph_tape_set_grad_enabled(tape, enabled);
    return grad;
}

typedef struct pair {
    t_scene s;
    t_scale self[2];
    ph_tensor *x, *other;
    ph_module *plain[2], *graphed[2];
} pair;

static void pair_open(pair *p, ph_graphed_inputs inputs)
{
    ph_sample samples[2];
    t_scene_open(&p->s);
    p->x = gn_sample(&p->s, PH_SHAPE(8, 8), true);
    p->other = gn_sample(&p->s, PH_SHAPE(8, 8), false);
    for (int i = 0; i < 2; i++) {
        p->self[i].weight = gn_sample(&p->s, PH_SHAPE(8, 8), true);
        const ph_parameter weight = {"weight", &p->self[i].weight};
        const ph_module_desc desc = {.name = i ? "second" : "first",
                                     .forward = deep_forward,
                                     .self = &p->self[i],
                                     .parameters = &weight,
                                     .parameter_count = 1};
        assert_ok(ph_module_create(&p->plain[i], p->s.device, &desc));
        samples[i] = (ph_sample){.tensors = &p->x, .count = 1};
    }
    assert_ok(ph_make_graphed_callables(
        p->graphed, p->plain, samples, 2,
        &(ph_graphed_options){.gradients = PH_GRAPHED_BORROW, .inputs = inputs}));
}

static void pair_zero(pair *p)
{
    assert_ok(ph_tape_clear(p->s.tape));
    t_zero_grad(p->x);
    for (int i = 0; i < 2; i++)
        t_zero_grad(p->self[i].weight);
}

static void pair_close(pair *p)
{
    pair_zero(p);
    for (int i = 0; i < 2; i++) {
        ph_module_release(p->graphed[i]);
        ph_module_release(p->plain[i]);
        ph_tensor_release(p->self[i].weight);
    }
    ph_tensor_release(p->x);
    ph_tensor_release(p->other);
    t_scene_close(&p->s);
}

/* The gradient that the second lends to the first is gone when the first reads it; without a replay
 * in between it is right. */
TEST(a_borrowed_gradient_is_refused_to_the_callable_before)
{
    for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_COPY_INPUTS; inputs++) {
        pair p;
        ph_tensor_hook *hook;
        pair_open(&p, (ph_graphed_inputs)inputs);
        ph_tape *t = p.s.tape;
        ph_backward(t, ph_sum(t, ph_call(t, p.plain[1], ph_call(t, p.plain[0], p.x))));
        ph_tensor *want = ph_tensor_retain(ph_tensor_grad(p.x));
        pair_zero(&p);
        ph_backward(t, ph_sum(t, ph_call(t, p.graphed[1], ph_call(t, p.graphed[0], p.x))));
        gn_expect_same(&p.s, ph_tensor_grad(p.x), want, "a borrowed gradient of a chain");
        pair_zero(&p);

        replaying r = {p.graphed[1], p.other};
        ph_tensor *y = ph_call(t, p.graphed[0], p.x);
        assert_ok(ph_tensor_hook_add(&hook, y, replay_between, &r));
        ph_backward(t, ph_sum(t, ph_call(t, p.graphed[1], y)));
        assert_error(ph_tape_status(t), PH_ERROR_OVERWRITTEN,
                     "backward of the graphed callable 'first': the gradient of output [0] "
                     "(f32[8, 8]) was overwritten: a gradient of call 2 of the graphed callable "
                     "'second'");
        t_expect_failure(&p.s, PH_ERROR_OVERWRITTEN, "call 3 of 'second'");
        assert_null(ph_tensor_grad(p.x));
        ph_tensor_hook_remove(hook);
        ph_tensor_release(want);
        pair_close(&p);
    }
}

/* ---- readers on another stream ---- */
typedef struct reading {
    ph_stream *stream;
    ph_tape *tape;
    t_gate gate; /* holds the stream: no call here may wait for it */
} reading;

static void reading_open(reading *r, const t_scene *s)
{
    *r = (reading){.gate = {.behind = true}};
    assert_ok(ph_stream_create(&r->stream, s->device, NULL));
    assert_ok(ph_tape_create(&r->tape, r->stream, NULL));
}

static void reading_close(reading *r)
{
    ph_tape_destroy(r->tape);
    assert_ok(ph_stream_synchronize(r->stream));
    ph_stream_destroy(r->stream);
}

/* What the reader's tape finds in x, once the gate is open. */
static ph_tensor *reading_begin(reading *r, const t_scene *s, ph_tensor *x)
{
    r->gate = (t_gate){.behind = true};
    assert_ok(ph_stream_wait_stream(r->stream, s->stream));
    /* A kernel that is loaded while a host function runs can wait for it. */
    (void)ph_mul_scalar(r->tape, x, 1);
    assert_ok(ph_tape_clear(r->tape));
    assert_ok(ph_stream_wait_stream(r->stream, s->stream));
    assert_ok(t_gate_wait_guarded(&r->gate, r->stream));
    return ph_tensor_retain(ph_mul_scalar(r->tape, x, 1));
}

static void reading_end(reading *r, const t_scene *s, ph_tensor *seen, ph_tensor *want)
{
    t_gate_open(&r->gate);
    assert_ok(ph_tape_clear(r->tape));
    assert_ok(ph_device_synchronize(s->device));
    gn_expect_same(s, seen, want, "a gradient that another stream reads");
    ph_tensor_release(seen);
}

static void pair_backward(pair *p, ph_module *const *modules, int which)
{
    ph_backward(p->s.tape, ph_sum(p->s.tape, ph_call(p->s.tape, modules[which], p->x)));
    assert_ok(ph_tape_clear(p->s.tape));
}

/* The other callable of the making writes there in its forward, and in its backward. */
TEST(a_borrowed_gradient_that_another_stream_reads_outlives_the_other_callable)
{
    for (int round = 0; round < 4; round++) {
        int first = round & 1, backward = round >> 1 & 1;
        pair p;
        reading r;
        pair_open(&p, PH_GRAPHED_AUTO);
        reading_open(&r, &p.s);
        pair_backward(&p, p.plain, first);
        ph_tensor *want = ph_tensor_retain(ph_tensor_grad(p.self[first].weight));
        pair_zero(&p);
        for (int again = 0; again < 3; again++) {
            pair_backward(&p, p.graphed, first);
            ph_tensor *seen = reading_begin(&r, &p.s, ph_tensor_grad(p.self[first].weight));
            ph_tensor *y = ph_call(p.s.tape, p.graphed[!first], p.other);
            if (backward)
                ph_backward(p.s.tape, ph_sum(p.s.tape, y));
            reading_end(&r, &p.s, seen, want);
            pair_zero(&p);
        }
        ph_tensor_release(want);
        reading_close(&r);
        pair_close(&p);
    }
}

typedef struct two_outputs {
    t_scene s;
    t_scale self;
    ph_tensor *x, *other, *ones[2];
    ph_module *plain, *graphed;
} two_outputs;

static void two_outputs_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    out[0] = ph_mul(tape, ph_tanh(tape, in[0]), ((const t_scale *)self)->weight);
    out[1] = ph_transpose(tape, ph_mul(tape, in[0], in[0]), 0, 1);
}

static void two_outputs_open(two_outputs *t, bool plan)
{
    t_scene_open(&t->s);
    t->x = gn_sample(&t->s, PH_SHAPE(8, 8), true);
    t->other = gn_sample(&t->s, PH_SHAPE(8, 8), true);
    for (int i = 0; i < 2; i++)
        t->ones[i] = gn_sample(&t->s, PH_SHAPE(8, 8), false);
    t->self.weight = gn_sample(&t->s, PH_SHAPE(8, 8), true);
    const ph_parameter weight = {"weight", &t->self.weight};
    const ph_module_desc desc = {.name = "two outputs",
                                 .forward = two_outputs_forward,
                                 .self = &t->self,
                                 .out_count = 2,
                                 .parameters = &weight,
                                 .parameter_count = 1};
    assert_ok(ph_module_create(&t->plain, t->s.device, &desc));
    assert_ok(ph_make_graphed_callables(
        &t->graphed, &t->plain, &(ph_sample){.tensors = &t->x, .count = 1}, 1,
        &(ph_graphed_options){.gradients = PH_GRAPHED_BORROW, .plan = plan}));
}

/* Backward from the first `count` outputs. */
static void two_outputs_step(two_outputs *t, ph_module *module, ph_tensor *x, size_t count)
{
    ph_tensor *out[2];
    t_zero_grad(t->self.weight);
    t_zero_grad(t->x);
    t_zero_grad(t->other);
    ph_call_n(t->s.tape, module, out, 2, &x, 1);
    if (count)
        ph_backward_from(t->s.tape, out, t->ones, count, NULL);
    assert_ok(ph_tape_clear(t->s.tape));
}

static void two_outputs_close(two_outputs *t)
{
    t_zero_grad(t->self.weight);
    t_zero_grad(t->x);
    t_zero_grad(t->other);
    ph_module_release(t->graphed);
    ph_module_release(t->plain);
    ph_tensor_release(t->self.weight);
    ph_tensor_release(t->x);
    ph_tensor_release(t->other);
    for (int i = 0; i < 2; i++)
        ph_tensor_release(t->ones[i]);
    t_scene_close(&t->s);
}

/* The backward of all outputs, and with a plan the next forward, writes there. */
TEST(a_borrowed_gradient_that_another_stream_reads_outlives_backward_of_others)
{
    for (int plan = 0; plan < 2; plan++) {
        two_outputs t;
        reading r;
        two_outputs_open(&t, plan);
        reading_open(&r, &t.s);
        two_outputs_step(&t, t.plain, t.x, 1);
        ph_tensor *want = ph_tensor_retain(ph_tensor_grad(t.self.weight));
        for (int again = 0; again < 3; again++) {
            two_outputs_step(&t, t.graphed, t.x, 1);
            ph_tensor *seen = reading_begin(&r, &t.s, ph_tensor_grad(t.self.weight));
            two_outputs_step(&t, t.graphed, t.other, plan ? 0 : 2);
            reading_end(&r, &t.s, seen, want);
        }
        ph_tensor_release(want);
        reading_close(&r);
        two_outputs_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_borrowed_gradient_is_refused_to_the_callable_before),
        cmocka_unit_test(a_borrowed_gradient_that_another_stream_reads_outlives_the_other_callable),
        cmocka_unit_test(a_borrowed_gradient_that_another_stream_reads_outlives_backward_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
