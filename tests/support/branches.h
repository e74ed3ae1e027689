/* SPDX-License-Identifier: MIT */
/* tests/support/branches.h: a module of four outputs, its graphed callable, and its gradients held
 * against the module's own. */
#ifndef PH_TESTS_BRANCHES_H
#define PH_TESTS_BRANCHES_H
#include "support/graphed_nets.h"

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

static inline void branches_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in,
                                    void *self)
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

static inline void side_open(const t_scene *s, side *one)
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

static inline void side_close(side *one)
{
    ph_optimizer_destroy(one->sgd);
    ph_module_release(one->module);
    ph_tensor_release(one->self.a);
    ph_tensor_release(one->self.b);
    ph_tensor_release(one->self.c);
}

static inline void new_inputs(const t_scene *s, side *one, uint64_t seed)
{
    for (uint64_t i = 0; i < 2; i++) {
        one->in[i] = ph_tensor_retain(gn_random(s, PH_SHAPE(SIZE), 100 * seed + i));
        assert_ok(ph_tensor_set_requires_grad(one->in[i], true));
    }
}

static inline void drop_inputs(side *one)
{
    ph_tensor_release(one->in[0]);
    ph_tensor_release(one->in[1]);
}

/* The sum of i + 2 times output i, of those that used names. */
static inline ph_tensor *loss_of(const t_scene *s, ph_tensor *const *out, unsigned used)
{
    ph_tensor *loss = NULL;
    for (unsigned i = 0; i < OUTPUTS; i++)
        if (used & 1u << i) {
            ph_tensor *one = ph_mul_scalar(s->tape, ph_sum(s->tape, out[i]), i + 2);
            loss = loss ? ph_add(s->tape, loss, one) : one;
        }
    return loss;
}

static inline void backward_of(const t_scene *s, side *one, ph_module *module, unsigned used)
{
    ph_tensor *out[OUTPUTS];
    ph_call_n(s->tape, module, out, OUTPUTS, one->in, 2);
    ph_backward(s->tape, loss_of(s, out, used));
    assert_ok(ph_tape_status(s->tape));
}

/* ---- one callable, for the tests that follow ---- */
typedef struct bench {
    t_scene s;
    side side;
    ph_module *graphed;
} bench;

static inline void bench_open(bench *b, const ph_graphed_options *options)
{
    t_scene_open(&b->s);
    side_open(&b->s, &b->side);
    new_inputs(&b->s, &b->side, 1);
    b->graphed = gn_graph(b->side.module, b->side.in, 2, options);
    assert_ok(ph_tape_clear(b->s.tape));
}

static inline void bench_zero(bench *b)
{
    assert_ok(ph_tape_clear(b->s.tape));
    ph_module_zero_grad(b->side.module);
    t_zero_grad(b->side.in[0]);
    t_zero_grad(b->side.in[1]);
}

static inline void bench_close(bench *b)
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

static inline grads take_grads(bench *b)
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

static inline void drop_grads(grads *all)
{
    for (int i = 0; i < PARAMETERS + 2; i++)
        ph_tensor_release(all->at[i]);
}

/* Of the module; used a second time: that of both passes, one after the other. */
static inline grads wanted(bench *b, unsigned used, unsigned then)
{
    backward_of(&b->s, &b->side, b->side.module, used);
    if (then)
        backward_of(&b->s, &b->side, b->side.module, then);
    return take_grads(b);
}

static inline void expect_grads(bench *b, grads want, const char *what)
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

static inline void expect_right(bench *b, unsigned used, const char *what)
{
    grads want = wanted(b, used, 0);
    backward_of(&b->s, &b->side, b->graphed, used);
    expect_grads(b, want, what);
}
#endif
