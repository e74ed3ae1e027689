/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_used.c: losses that use some of a graphed callable's outputs: gradients are
 * those of the module, to the bit, and there are none where the module gives none. Each set of used
 * outputs has a backward graph of its own, made once; what is kept for it, and what is refused. */
#include "support/graphed_nets.h"
#include "support/sweep.h"
#include <pthread.h>
#include <stdio.h>

/* ---- a module of four outputs ---- that share what they save: h = sigmoid(x a). */
enum {
    OUTPUTS = 4,
    ALL = (1 << OUTPUTS) - 1,
    SIZE = 37,
    PARAMETERS = 3
};
typedef struct branches {
    ph_tensor *a, *b, *c;
} branches;

static void branches_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const branches *me = self;
    ph_tensor *h = ph_sigmoid(tape, ph_mul(tape, in[0], me->a));
    out[0] = ph_mul(tape, h, me->b);
    out[1] = ph_mul(tape, ph_tanh(tape, ph_mul(tape, in[1], me->c)), h);
    out[2] = ph_exp(tape, in[1]);
    out[3] = ph_mul(tape, in[0], h);
}

typedef struct side {
    branches self;
    ph_module *module;
    ph_optimizer *sgd;
    ph_tensor *in[2];
} side;

static void side_open(const t_scene *s, side *one)
{
    const ph_parameter parameters[PARAMETERS] = {
        {"a", &one->self.a}, {"b", &one->self.b}, {"c", &one->self.c}};
    *one = (side){.module = NULL};
    for (uint64_t i = 0; i < PARAMETERS; i++)
        *parameters[i].tensor = ph_tensor_retain(gn_random(s, PH_SHAPE(SIZE), i));
    assert_ok(ph_tape_clear(s->tape));
    const ph_module_desc desc = {.name = "branches",
                                 .forward = branches_forward,
                                 .self = &one->self,
                                 .in_count = 2,
                                 .out_count = OUTPUTS,
                                 .parameters = parameters,
                                 .parameter_count = PARAMETERS};
    assert_ok(ph_module_create(&one->module, s->device, &desc));
    one->sgd = gn_sgd(one->module);
}

static void side_close(side *one)
{
    ph_optimizer_destroy(one->sgd);
    ph_module_release(one->module);
    ph_tensor_release(one->self.a);
    ph_tensor_release(one->self.b);
    ph_tensor_release(one->self.c);
}

static void new_inputs(const t_scene *s, side *one, uint64_t seed)
{
    for (uint64_t i = 0; i < 2; i++) {
        one->in[i] = ph_tensor_retain(gn_random(s, PH_SHAPE(SIZE), 100 * seed + i));
        assert_ok(ph_tensor_set_requires_grad(one->in[i], true));
    }
}

static void drop_inputs(side *one)
{
    ph_tensor_release(one->in[0]);
    ph_tensor_release(one->in[1]);
}

/* The sum of i + 2 times output i, of those that used names. */
static ph_tensor *loss_of(const t_scene *s, ph_tensor *const *out, unsigned used)
{
    ph_tensor *loss = NULL;
    for (unsigned i = 0; i < OUTPUTS; i++)
        if (used & 1u << i) {
            ph_tensor *one = ph_mul_scalar(s->tape, ph_sum(s->tape, out[i]), i + 2);
            loss = loss ? ph_add(s->tape, loss, one) : one;
        }
    return loss;
}

static void backward_of(const t_scene *s, side *one, ph_module *module, unsigned used)
{
    ph_tensor *out[OUTPUTS];
    ph_call_n(s->tape, module, out, OUTPUTS, one->in, 2);
    ph_backward(s->tape, loss_of(s, out, used));
    assert_ok(ph_tape_status(s->tape));
}

/* One step of both, from equal inputs and parameters. */
static void step(const t_scene *s, side *plain, side *source, ph_module *graphed, unsigned used,
                 uint64_t seed)
{
    char what[64];
    (void)snprintf(what, sizeof what, "outputs 0x%x, round %u", used, (unsigned)seed);
    new_inputs(s, plain, seed);
    new_inputs(s, source, seed);
    backward_of(s, plain, plain->module, used);
    backward_of(s, source, graphed, used);
    gn_expect_same_parameters(s, graphed, plain->module, what);
    for (int i = 0; i < 2; i++) {
        if (!ph_tensor_grad(plain->in[i]) != !ph_tensor_grad(source->in[i]))
            fail_msg("%s: the gradient of input %d is there or not", what, i);
        if (ph_tensor_grad(plain->in[i]))
            gn_expect_same(s, ph_tensor_grad(source->in[i]), ph_tensor_grad(plain->in[i]), what);
    }
    side *const both[] = {plain, source};
    for (int i = 0; i < 2; i++) {
        ph_optimizer_step(s->tape, both[i]->sgd);
        ph_optimizer_zero_grad(s->tape, both[i]->sgd);
        drop_inputs(both[i]);
    }
    assert_ok(ph_tape_clear(s->tape));
}

static void try_all(ph_graphed_gradients gradients, ph_graphed_inputs inputs)
{
    t_scene s;
    side plain, source;
    t_scene_open(&s);
    side_open(&s, &plain);
    side_open(&s, &source);
    new_inputs(&s, &source, 9);
    const ph_graphed_options options = {
        .gradients = gradients, .inputs = inputs, .max_backwards = ALL};
    ph_module *graphed = gn_graph(source.module, source.in, 2, &options);
    drop_inputs(&source);
    assert_ok(ph_tape_clear(s.tape));
    for (uint64_t round = 0; round < 2; round++)
        for (unsigned used = 1; used <= ALL; used++) {
            step(&s, &plain, &source, graphed, used, 20 * round + used);
            assert_int_equal(gn_info(graphed).backwards, round || used == ALL ? ALL : used + 1);
        }
    assert_int_equal(gn_info(graphed).backward_calls, 2 * ALL);
    ph_module_release(graphed);
    side_close(&plain);
    side_close(&source);
    t_scene_close(&s);
}

static void test_all_sets(void **state)
{
    (void)state;
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++)
        for (int inputs = PH_GRAPHED_AUTO; inputs <= PH_GRAPHED_COPY_INPUTS; inputs++)
            try_all((ph_graphed_gradients)gradients, (ph_graphed_inputs)inputs);
}

/* ---- one callable, for the tests that follow ---- */
typedef struct bench {
    t_scene s;
    side side;
    ph_module *graphed;
} bench;

static void bench_open(bench *b, const ph_graphed_options *options)
{
    t_scene_open(&b->s);
    side_open(&b->s, &b->side);
    new_inputs(&b->s, &b->side, 1);
    b->graphed = gn_graph(b->side.module, b->side.in, 2, options);
    assert_ok(ph_tape_clear(b->s.tape));
}

static void bench_zero(bench *b)
{
    assert_ok(ph_tape_clear(b->s.tape));
    ph_module_zero_grad(b->side.module);
    t_zero_grad(b->side.in[0]);
    t_zero_grad(b->side.in[1]);
}

static void bench_close(bench *b)
{
    bench_zero(b);
    drop_inputs(&b->side);
    ph_module_release(b->graphed);
    side_close(&b->side);
    t_scene_close(&b->s);
}

/* Gradients of a, b, c and both inputs, copied; NULL where there is none. */
typedef struct grads {
    ph_tensor *at[PARAMETERS + 2];
} grads;

static grads take_grads(bench *b)
{
    const branches *p = &b->side.self;
    ph_tensor *const leaves[] = {p->a, p->b, p->c, b->side.in[0], b->side.in[1]};
    grads all;
    for (int i = 0; i < PARAMETERS + 2; i++) {
        ph_tensor *grad = ph_tensor_grad(leaves[i]);
        all.at[i] = grad ? ph_tensor_retain(ph_clone(b->s.tape, grad)) : NULL;
    }
    bench_zero(b);
    return all;
}

static void drop_grads(grads *all)
{
    for (int i = 0; i < PARAMETERS + 2; i++)
        ph_tensor_release(all->at[i]);
}

/* Of the module; used a second time: that of both passes, one after the other. */
static grads wanted(bench *b, unsigned used, unsigned then)
{
    backward_of(&b->s, &b->side, b->side.module, used);
    if (then)
        backward_of(&b->s, &b->side, b->side.module, then);
    return take_grads(b);
}

static void expect_grads(bench *b, grads want, const char *what)
{
    grads got = take_grads(b);
    for (int i = 0; i < PARAMETERS + 2; i++) {
        if (!got.at[i] != !want.at[i])
            fail_msg("%s: gradient %d is there or not", what, i);
        if (got.at[i])
            gn_expect_same(&b->s, got.at[i], want.at[i], what);
    }
    drop_grads(&got);
    drop_grads(&want);
}

static void expect_right(bench *b, unsigned used, const char *what)
{
    grads want = wanted(b, used, 0);
    backward_of(&b->s, &b->side, b->graphed, used);
    expect_grads(b, want, what);
}

/* ---- what PyTorch's zeros would do ---- */
static void log_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_log(tape, in[0]);
    out[1] = ph_mul_scalar(tape, in[0], 3);
}

static void test_no_zeros(void **state)
{
    (void)state;
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_function(&s, "two", log_forward, NULL, 1, 2);
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 0, 0), *out[2];
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    ph_call_n(s.tape, graphed, out, 2, &x, 1);
    ph_backward(s.tape, ph_sum(s.tape, out[1]));
    t_expect_grad(&s, x, 3, 3); /* with 0 for the other output it were 0 / 0 + 3 */
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

static void test_parameter_of_the_other(void **state)
{
    (void)state;
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++) {
        bench b;
        ph_optimizer *adamw;
        float before[SIZE], after[SIZE];
        bench_open(&b, &(ph_graphed_options){.gradients = (ph_graphed_gradients)gradients});
        assert_ok(
            ph_adamw_create(&adamw, b.graphed, &(ph_adam_options){.lr = 0.1, .weight_decay = 0.1}));
        assert_ok(ph_tensor_read(before, sizeof before, b.s.tape, b.side.self.b));
        backward_of(&b.s, &b.side, b.graphed, 1u << 3); /* x h: b and c take no part */
        assert_non_null(ph_tensor_grad(b.side.self.a));
        assert_null(ph_tensor_grad(b.side.self.b));
        assert_null(ph_tensor_grad(b.side.self.c));
        assert_null(ph_tensor_grad(b.side.in[1]));
        ph_optimizer_step(b.s.tape, adamw);
        assert_ok(ph_tensor_read(after, sizeof after, b.s.tape, b.side.self.b));
        assert_memory_equal(before, after, sizeof before);
        ph_optimizer_destroy(adamw);
        bench_close(&b);
    }
}

/* An output has a history where the module's has one: not through inputs that require no gradient
 * this time. */
static void test_history(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    for (unsigned which = 0; which < 4; which++) {
        ph_tensor *in[2], *want[OUTPUTS], *got[OUTPUTS];
        for (unsigned i = 0; i < 2; i++)
            in[i] = which & 1u << i ? b.side.in[i] : ph_detach(b.s.tape, b.side.in[i]);
        ph_call_n(b.s.tape, b.side.module, want, OUTPUTS, in, 2);
        ph_call_n(b.s.tape, b.graphed, got, OUTPUTS, in, 2);
        for (int i = 0; i < OUTPUTS; i++)
            assert_int_equal(ph_tensor_requires_grad(got[i]), ph_tensor_requires_grad(want[i]));
        assert_int_equal(ph_tensor_requires_grad(got[2]), (which & 2) != 0);
        bench_zero(&b);
    }
    /* Nothing can come from output 2: the loss uses all that there is, and the two others. */
    ph_tensor *out[OUTPUTS], *in[2] = {b.side.in[0], ph_detach(b.s.tape, b.side.in[1])};
    ph_call_n(b.s.tape, b.side.module, out, OUTPUTS, in, 2);
    ph_backward(b.s.tape, loss_of(&b.s, out, ALL));
    grads want = take_grads(&b);
    in[1] = ph_detach(b.s.tape, b.side.in[1]);
    ph_call_n(b.s.tape, b.graphed, out, OUTPUTS, in, 2);
    ph_backward(b.s.tape, loss_of(&b.s, out, ALL));
    expect_grads(&b, want, "an input without a gradient");
    bench_close(&b);
}

/* ---- passes ---- two losses of one call, with retain_graph, in either order; and sums in the
 * leaves. */
static void test_two_losses(void **state)
{
    (void)state;
    for (int gradients = PH_GRAPHED_COPY; gradients <= PH_GRAPHED_BORROW; gradients++)
        for (unsigned first = 1; first < ALL; first += 2) {
            bench b;
            ph_tensor *out[OUTPUTS];
            bench_open(&b, &(ph_graphed_options){.gradients = (ph_graphed_gradients)gradients});
            grads want = wanted(&b, first, ALL & ~first);
            ph_call_n(b.s.tape, b.graphed, out, OUTPUTS, b.side.in, 2);
            ph_tensor *one = loss_of(&b.s, out, first), *two = loss_of(&b.s, out, ALL & ~first);
            ph_backward_from(b.s.tape, &one, NULL, 1, &(ph_backward_options){.retain_graph = true});
            ph_backward(b.s.tape, two);
            assert_ok(ph_tape_status(b.s.tape));
            expect_grads(&b, want, "two losses");
            bench_close(&b);
        }
}

static ph_tensor *double_it(ph_tape *tape, ph_tensor *grad, void *user)
{
    ++*(int *)user;
    return ph_mul_scalar(tape, grad, 2);
}

/* Hooks that leaves have since see gradients of calls, and not the capture's. */
static void test_hooks(void **state)
{
    (void)state;
    bench b;
    int runs = 0;
    ph_tensor_hook *hook;
    bench_open(&b, NULL);
    assert_ok(ph_tensor_hook_add(&hook, b.side.self.a, double_it, &runs));
    for (int i = 1; i <= 2; i++) {
        grads want = wanted(&b, 1, 0);
        runs = 0;
        backward_of(&b.s, &b.side, b.graphed, 1);
        assert_int_equal(runs, 1);
        expect_grads(&b, want, "with a hook");
    }
    ph_tensor_hook_remove(hook);
    bench_close(&b);
}

/* On another tape and stream than the last, and on that of the captures. */
static void test_streams(void **state)
{
    (void)state;
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

/* ---- one pool, several callables ---- a capture in between leaves alone what the others have
 * saved. */
static void test_shared_pool(void **state)
{
    (void)state;
    t_scene s;
    side plain, source;
    ph_module *graphed[2];
    t_scene_open(&s);
    side_open(&s, &plain);
    side_open(&s, &source);
    new_inputs(&s, &plain, 3);
    new_inputs(&s, &source, 3);
    ph_module *copy;
    const ph_parameter parameters[PARAMETERS] = {
        {"a", &source.self.a}, {"b", &source.self.b}, {"c", &source.self.c}};
    const ph_module_desc desc = {.name = "again",
                                 .forward = branches_forward,
                                 .self = &source.self,
                                 .in_count = 2,
                                 .out_count = OUTPUTS,
                                 .parameters = parameters,
                                 .parameter_count = PARAMETERS};
    assert_ok(ph_module_create(&copy, s.device, &desc));
    const ph_sample samples[2] = {{.tensors = source.in, .count = 2},
                                  {.tensors = source.in, .count = 2}};
    assert_ok(
        ph_make_graphed_callables(graphed, (ph_module *[]){source.module, copy}, samples, 2, NULL));
    for (unsigned round = 0; round < 2; round++)
        for (unsigned used = 1; used < ALL; used += 3) {
            ph_tensor *want[2][OUTPUTS], *got[2][OUTPUTS];
            for (int i = 0; i < 2; i++) {
                ph_call_n(s.tape, plain.module, want[i], OUTPUTS, plain.in, 2);
                ph_call_n(s.tape, graphed[i], got[i], OUTPUTS, source.in, 2);
            }
            for (int i = 2;
                 i-- >
                 0;) { /* the second first: what it captures comes before the other's backward */
                unsigned of = i ? used : ALL;
                ph_backward(s.tape, loss_of(&s, want[i], of));
                ph_backward(s.tape, loss_of(&s, got[i], of));
                gn_expect_same_parameters(&s, source.module, plain.module, "in one pool");
            }
            for (int i = 0; i < OUTPUTS; i++)
                gn_expect_same(&s, got[0][i], want[0][i], "outputs of the first");
            ph_module_zero_grad(plain.module);
            ph_module_zero_grad(source.module);
            assert_ok(ph_tape_clear(s.tape));
        }
    drop_inputs(&plain);
    drop_inputs(&source);
    ph_module_release(graphed[0]);
    ph_module_release(graphed[1]);
    ph_module_release(copy);
    side_close(&plain);
    side_close(&source);
    t_scene_close(&s);
}

/* ---- lent gradients ---- are those of a later backward of the same outputs, which is told. */
static void test_borrowed(void **state)
{
    (void)state;
    bench b;
    float values[SIZE];
    bench_open(&b, &(ph_graphed_options){.gradients = PH_GRAPHED_BORROW});
    for (int i = 0; i < 2; i++) {
        backward_of(&b.s, &b.side, b.graphed, 1);
        ph_tensor *grad = ph_tensor_retain(ph_tensor_grad(b.side.self.a));
        bench_zero(&b);
        assert_ok(ph_tensor_read(values, sizeof values, b.s.tape, grad));
        backward_of(&b.s, &b.side, b.graphed, 1);
        assert_error(ph_tensor_read(values, sizeof values, b.s.tape, grad), PH_ERROR_OVERWRITTEN,
                     "a gradient of call");
        t_expect_failure(&b.s, PH_ERROR_OVERWRITTEN, "a gradient of call");
        ph_tensor_release(grad);
        bench_zero(&b);
    }
    bench_close(&b);
}

/* ---- functions that run again ---- */
static void checkpointed_part(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    const branches *me = user;
    out[0] = ph_sigmoid(tape, ph_mul(tape, in[0], me->a));
}

static void checkpointed_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_tensor *h;
    const branches *me = self;
    ph_checkpoint(tape, checkpointed_part, self, &h, 1, in, 1);
    out[0] = ph_mul(tape, h, me->b);
    out[1] = ph_mul(tape, h, in[0]);
}

/* Parameters have changed in place since the capture, and are others' values in the second run. */
static void test_checkpointed(void **state)
{
    (void)state;
    t_scene s;
    branches me;
    t_scene_open(&s);
    me.a = t_leaf(&s, PH_SHAPE(2), 0.5f, 0.25f);
    me.b = t_leaf(&s, PH_SHAPE(2), 2, 3);
    const ph_parameter parameters[] = {{"a", &me.a}, {"b", &me.b}};
    const ph_module_desc desc = {.name = "checkpointed",
                                 .forward = checkpointed_forward,
                                 .self = &me,
                                 .out_count = 2,
                                 .parameters = parameters,
                                 .parameter_count = 2};
    ph_module *plain;
    assert_ok(ph_module_create(&plain, s.device, &desc));
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 1, -1), *out[2], *want[2];
    ph_module *graphed = gn_graph_one(plain, x, NULL);
    (void)ph_tape_set_grad_enabled(s.tape, false);
    ph_tensor_fill(s.tape, me.a, 0.75);
    (void)ph_tape_set_grad_enabled(s.tape, true);
    for (int i = 0; i < 2; i++) {
        ph_call_n(s.tape, i ? graphed : plain, out, 2, &x, 1);
        ph_backward(s.tape, ph_sum(s.tape, out[1]));
        assert_ok(ph_tape_status(s.tape));
        assert_null(ph_tensor_grad(me.b));
        if (i == 0)
            for (int k = 0; k < 2; k++)
                want[k] = ph_tensor_retain(ph_tensor_grad(k ? x : me.a));
        gn_expect_same(&s, ph_tensor_grad(me.a), want[0], "the checkpointed parameter");
        gn_expect_same(&s, ph_tensor_grad(x), want[1], "the input");
        t_zero_grad(me.a);
        t_zero_grad(x);
        assert_ok(ph_tape_clear(s.tape));
    }
    /* Another run of it would be another: the mode is not that of the making. */
    ph_call_n(s.tape, graphed, out, 2, &x, 1);
    ph_tensor *loss = ph_sum(s.tape, out[0]);
    ph_module_train(plain, false);
    ph_backward(s.tape, loss);
    t_expect_failure(&s, PH_ERROR_STATE, "checkpointed function would run again");
    ph_module_train(plain, true);
    ph_tensor *const made[] = {want[0], want[1], x, me.a, me.b};
    for (int i = 0; i < 5; i++)
        ph_tensor_release(made[i]);
    ph_module_release(graphed);
    ph_module_release(plain);
    t_scene_close(&s);
}

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

static void test_bound(void **state)
{
    (void)state;
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
static void test_in_a_capture(void **state)
{
    (void)state;
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

static void test_threads(void **state)
{
    (void)state;
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

static void test_memory(void **state)
{
    (void)state;
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

static int open_swept(void **state)
{
    (void)state;
    bench *b = &the_swept.b;
    bench_open(b, &(ph_graphed_options){.gradients = PH_GRAPHED_ACCUMULATE});
    expect_right(b, ALL, "all");
    expect_right(b, 8, "another set");
    the_swept.want = wanted(b, 3, 0);
    return 0;
}

static int close_swept(void **state)
{
    (void)state;
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
static void test_described(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sets),
        cmocka_unit_test(test_no_zeros),
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_parameter_of_the_other),
        cmocka_unit_test(test_two_losses),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_shared_pool),
        cmocka_unit_test(test_borrowed),
        cmocka_unit_test(test_checkpointed),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_in_a_capture),
        cmocka_unit_test(test_described),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_threads),
        T_SWEEP(test_without_host_memory, &sweep),
        T_SWEEP(test_when_the_driver_fails, &sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
