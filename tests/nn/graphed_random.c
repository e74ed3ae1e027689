/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_random.c: random networks called with inputs and incoming gradients anywhere
 * in memory: aligned or not, contiguous or not, overlapping, twice the same, their own outputs;
 * results and gradients are the bits that the module itself gives. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include <stdio.h>

enum {
    MOST_INPUTS = 3,
    WEIGHTS = 3,
    MOST_STEPS = 12,
    OUTPUTS = 2
};
typedef enum operation {
    OP_ADD,
    OP_MUL,
    OP_MAXIMUM,
    OP_SIGMOID,
    OP_TANH,
    OP_RELU,
    OP_SCALE,  /* by a vector of weights */
    OP_LINEAR, /* a matrix and a vector of weights */
    OP_NORM,
    OP_SOFTMAX,
    OP_TURN,   /* the rows in two parts, the second one first */
    OP_CENTRE, /* less each row's mean */
    OP_WEIGH,  /* by its own first column */
    OP_MIX,    /* a b' a */
    OPERATIONS
} operation;

/* All values are [rows, columns]: the inputs, then each step's. */
typedef struct network {
    int64_t rows, columns;
    size_t inputs, steps, out[OUTPUTS];
    struct {
        operation op;
        size_t a, b;
    } step[MOST_STEPS];
    ph_tensor *weight[WEIGHTS]; /* [columns], [columns, columns], [columns] */
    bool gradients;             /* of the inputs */
} network;

static ph_tensor *apply(ph_tape *t, const network *n, operation op, ph_tensor *a, ph_tensor *b)
{
    switch (op) {
    case OP_ADD:
        return ph_add(t, a, b);
    case OP_MUL:
        return ph_mul(t, a, b);
    case OP_MAXIMUM:
        return ph_maximum(t, a, b);
    case OP_SIGMOID:
        return ph_sigmoid(t, a);
    case OP_TANH:
        return ph_tanh(t, a);
    case OP_RELU:
        return ph_relu(t, a);
    case OP_SCALE:
        return ph_mul(t, a, n->weight[0]);
    case OP_LINEAR:
        return ph_linear(t, a, n->weight[1], n->weight[2]);
    case OP_NORM:
        return ph_layer_norm(t, a, n->weight[0], n->weight[2], 0);
    case OP_SOFTMAX:
        return ph_softmax(t, a, 1);
    case OP_TURN: {
        int64_t half = n->rows / 2;
        ph_tensor *part[] = {ph_slice(t, a, 0, half, n->rows), ph_slice(t, b, 0, 0, half)};
        return half ? ph_concat(t, part, 2, 0) : ph_add(t, a, b);
    }
    case OP_CENTRE:
        return ph_sub(t, a, ph_mean_over(t, b, PH_AXES(1), true));
    case OP_WEIGH:
        return ph_mul(t, a, ph_slice(t, b, 1, 0, 1));
    default:
        return ph_tanh(t, ph_matmul(t, ph_matmul(t, a, ph_transpose(t, b, 0, 1)), a));
    }
}

static void network_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const network *n = self;
    ph_tensor *value[MOST_INPUTS + MOST_STEPS];
    for (size_t i = 0; i < n->inputs; i++)
        value[i] = in[i];
    for (size_t i = 0; i < n->steps; i++)
        value[n->inputs + i] =
            apply(tape, n, n->step[i].op, value[n->step[i].a], value[n->step[i].b]);
    for (size_t i = 0; i < OUTPUTS; i++)
        out[i] = value[n->out[i]];
}

static ph_module *network_make(const t_scene *s, network *n, ph__rng *rng)
{
    static const char *const names[WEIGHTS] = {"scale", "matrix", "shift"};
    bool large = ph__rng_below(rng, 8) == 0;
    *n = (network){.rows = 1 + (int64_t)ph__rng_below(rng, large ? 100 : 9),
                   .columns = 1 + (int64_t)ph__rng_below(rng, large ? 200 : 40),
                   .inputs = 1 + ph__rng_below(rng, MOST_INPUTS),
                   .steps = 1 + ph__rng_below(rng, MOST_STEPS),
                   .gradients = ph__rng_below(rng, 3) > 0};
    for (size_t i = 0; i < n->steps; i++) {
        n->step[i].op = (operation)ph__rng_below(rng, OPERATIONS);
        n->step[i].a =
            ph__rng_below(rng, 3) ? n->inputs + i - 1 : ph__rng_below(rng, n->inputs + i);
        n->step[i].b = ph__rng_below(rng, n->inputs + i);
    }
    n->out[0] = n->inputs + n->steps - 1;
    n->out[1] = ph__rng_below(rng, n->inputs + n->steps); /* an input, now and then */
    const ph_shape shapes[] = {PH_SHAPE(n->columns), PH_SHAPE(n->columns, n->columns),
                               PH_SHAPE(n->columns)};
    ph_parameter parameters[WEIGHTS];
    for (size_t i = 0; i < WEIGHTS; i++) {
        n->weight[i] = gn_sample(s, shapes[i], true);
        parameters[i] = (ph_parameter){names[i], &n->weight[i]};
    }
    ph_module *module;
    const ph_module_desc desc = {.name = "network",
                                 .forward = network_forward,
                                 .self = n,
                                 .in_count = n->inputs,
                                 .out_count = OUTPUTS,
                                 .parameters = parameters,
                                 .parameter_count = WEIGHTS};
    assert_ok(ph_module_create(&module, s->device, &desc));
    return module;
}

/* ---- where tensors lie ---- [rows, columns], of random values; the tape's. */
static ph_tensor *place(const t_scene *s, ph__rng *rng, int64_t rows, int64_t columns,
                        bool gradient)
{
    uint64_t seed = ph__rng_next(rng), how = ph__rng_below(rng, 7);
    int64_t count = rows * columns, offset = how == 1 ? 64 : 1 + (int64_t)ph__rng_below(rng, 63);
    ph_tape *t = s->tape;
    const ph_shape shapes[] = {PH_SHAPE(rows, columns),     PH_SHAPE(count + 64),
                               PH_SHAPE(count + 64),        PH_SHAPE(columns, rows),
                               PH_SHAPE(rows, 2 * columns), PH_SHAPE(1, columns),
                               PH_SHAPE(rows + 2, columns)};
    ph_tensor *base = gn_random(s, shapes[how], seed);
    assert_ok(ph_tensor_set_requires_grad(base, gradient));
    switch (how) {
    case 0:
        return base;
    case 1: /* aligned to 256 bytes */
    case 2: /* not */
        return ph_reshape(t, ph_slice(t, base, 0, offset, offset + count), shapes[0]);
    case 3:
        return ph_transpose(t, base, 0, 1);
    case 4:
        return ph_slice_step(t, base, 1, 0, 2 * columns, 2);
    case 5:
        return ph_expand(t, base, shapes[0]);
    default: /* rows of a larger one */
        return ph_slice(t, base, 0, 1, rows + 1);
    }
}

static void place_inputs(const t_scene *s, const network *n, ph__rng *rng, ph_tensor **in)
{
    for (size_t i = 0; i < n->inputs; i++)
        in[i] = place(s, rng, n->rows, n->columns, n->gradients && ph__rng_below(rng, 4));
    if (n->inputs < 2)
        return;
    if (ph__rng_below(rng, 5) == 0) {
        /* The same twice: without a gradient, as where that is a sum its order is the callable's
         * own. */
        in[1] = in[0] = place(s, rng, n->rows, n->columns, false);
    } else if (ph__rng_below(rng, 5) == 0) { /* overlapping */
        ph_tensor *base = gn_random(s, PH_SHAPE(n->rows + 1, n->columns), ph__rng_next(rng));
        in[0] = ph_slice(s->tape, base, 0, 0, n->rows);
        in[1] = ph_slice(s->tape, base, 0, 1, n->rows + 1);
    }
}

/* ---- a call and its gradients ---- */
typedef struct result {
    ph_tensor *out[OUTPUTS], *grad[MOST_INPUTS + WEIGHTS];
} result;

static void run(const t_scene *s, const network *n, ph_module *module, ph_tensor *const *in,
                ph_tensor *const *incoming, result *r)
{
    ph_tensor *of[MOST_INPUTS + WEIGHTS], *with[OUTPUTS], *by[OUTPUTS];
    size_t wanted = 0, outputs = 0;
    *r = (result){.out = {NULL}};
    ph_call_n(s->tape, module, r->out, OUTPUTS, in, n->inputs);
    for (size_t i = 0; i < n->inputs; i++)
        if (ph_tensor_requires_grad(in[i]))
            of[wanted++] = in[i];
    for (size_t i = 0; i < WEIGHTS; i++)
        of[wanted++] = n->weight[i];
    for (size_t i = 0; i < OUTPUTS; i++)
        if (r->out[i] && ph_tensor_requires_grad(r->out[i])) {
            with[outputs] = r->out[i];
            by[outputs++] = incoming[i];
        }
    if (outputs)
        ph_grad(s->tape, r->grad, of, wanted, with, by, outputs,
                &(ph_grad_options){.allow_unused = true});
}

static void expect_equal(const t_scene *s, const result *got, const result *want, const char *what)
{
    char text[200];
    for (size_t i = 0; i < OUTPUTS; i++) {
        (void)snprintf(text, sizeof text, "%s: output %zu", what, i);
        gn_expect_same(s, got->out[i], want->out[i], text);
        if (ph_tensor_requires_grad(want->out[i]) && !ph_tensor_requires_grad(got->out[i]))
            fail_msg("%s: has no history", text);
    }
    for (size_t i = 0; i < MOST_INPUTS + WEIGHTS; i++) {
        (void)snprintf(text, sizeof text, "%s: gradient %zu", what, i);
        if (!got->grad[i] != !want->grad[i])
            fail_msg("%s: %s", text, want->grad[i] ? "is missing" : "should not be there");
        if (want->grad[i])
            gn_expect_same(s, got->grad[i], want->grad[i], text);
    }
}

/* Its own outputs as its inputs, again and again; without gradients, as what backward needs
 * would be gone. */
static void feed_back(const t_scene *s, const network *n, ph_module *graphed, ph_module *plain,
                      const char *what)
{
    ph_tensor *got[MOST_INPUTS], *want[MOST_INPUTS], *out[OUTPUTS];
    assert_true(ph_tape_set_grad_enabled(s->tape, false));
    for (size_t i = 0; i < n->inputs; i++)
        got[i] = want[i] = gn_random(s, PH_SHAPE(n->rows, n->columns), i);
    for (int round = 0; round < 3; round++) {
        ph_call_n(s->tape, graphed, out, OUTPUTS, got, n->inputs);
        for (size_t i = 0; i < n->inputs; i++)
            got[i] = out[i % OUTPUTS];
        ph_call_n(s->tape, plain, out, OUTPUTS, want, n->inputs);
        for (size_t i = 0; i < n->inputs; i++) {
            want[i] = out[i % OUTPUTS];
            gn_expect_same(s, got[i], want[i], what);
        }
    }
    assert_false(ph_tape_set_grad_enabled(s->tape, true));
    assert_ok(ph_tape_clear(s->tape));
}

/* ---- the networks ---- */
static ph_module *graph_it(const t_scene *s, const network *n, ph_module *plain,
                           ph_graphed_inputs inputs)
{
    ph_module *graphed = NULL;
    ph_tensor *samples[MOST_INPUTS];
    for (size_t i = 0; i < n->inputs; i++)
        samples[i] = gn_sample(s, PH_SHAPE(n->rows, n->columns), n->gradients);
    const ph_sample sample = {.tensors = samples, .count = n->inputs};
    const ph_graphed_options options = {.allow_unused_input = true, .inputs = inputs};
    ph_status status = ph_make_graphed_callables(&graphed, &plain, &sample, 1, &options);
    if (inputs != PH_GRAPHED_REBIND || status == PH_OK)
        assert_ok(status);
    else
        assert_error(status, PH_ERROR_UNSUPPORTED, "network");
    for (size_t i = 0; i < n->inputs; i++)
        ph_tensor_release(samples[i]);
    return graphed;
}

/* Gives how many ports are rebound. */
static size_t check_ports(const network *n, const ph_module *graphed, ph_graphed_inputs inputs)
{
    size_t rebound = 0;
    for (size_t i = 0; i < n->inputs + OUTPUTS; i++) {
        ph_graphed_input port =
            i < n->inputs ? gn_input(graphed, i, false) : gn_input(graphed, i - n->inputs, true);
        assert_true(!port.rebound || !port.reason[0]);
        assert_true(i >= n->inputs || port.rebound || port.reason[0]);
        assert_true(inputs != PH_GRAPHED_COPY_INPUTS || !port.rebound);
        assert_true(inputs != PH_GRAPHED_REBIND || i >= n->inputs || port.rebound);
        rebound += port.rebound;
    }
    return rebound;
}

/* What the graphed one makes of them, as its header says: on a GPU kernels and products are
 * chosen by strides and alignment, and sum up in another order then. */
static void fitted(const t_scene *s, ph_tensor **out, ph_tensor *const *in, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool fits = ph_tensor_is_contiguous(in[i]) && (uintptr_t)ph_tensor_data(in[i]) % 256 == 0;
        out[i] = fits ? in[i] : ph_clone(s->tape, in[i]);
    }
}

static size_t try_network(t_scene *s, uint64_t seed, ph_graphed_inputs inputs)
{
    network n;
    char what[100];
    ph__rng rng = {seed};
    ph_module *plain = network_make(s, &n, &rng), *graphed = graph_it(s, &n, plain, inputs);
    size_t rebound = 0;
    for (int round = 0; graphed && round < 8; round++) {
        ph_tensor *in[MOST_INPUTS], *incoming[OUTPUTS], *plain_in[MOST_INPUTS],
            *plain_incoming[OUTPUTS];
        result got, want;
        (void)snprintf(what, sizeof what, "network %llu, inputs %d, round %d",
                       (unsigned long long)seed, (int)inputs, round);
        place_inputs(s, &n, &rng, in);
        for (size_t i = 0; i < OUTPUTS; i++)
            incoming[i] = place(s, &rng, n.rows, n.columns, false);
        fitted(s, plain_in, in, n.inputs);
        fitted(s, plain_incoming, incoming, OUTPUTS);
        run(s, &n, plain, plain_in, plain_incoming, &want);
        assert_ok(ph_tape_status(s->tape));
        run(s, &n, graphed, in, incoming, &got);
        expect_equal(s, &got, &want, what);
        assert_ok(ph_tape_clear(s->tape));
    }
    if (graphed) {
        assert_int_equal(gn_info(graphed).forward_calls, 8);
        feed_back(s, &n, graphed, plain, what);
        rebound = check_ports(&n, graphed, inputs);
    }
    ph_module_release(graphed);
    ph_module_release(plain);
    for (size_t i = 0; i < WEIGHTS; i++)
        ph_tensor_release(n.weight[i]);
    return rebound;
}

static void try_networks(ph_graphed_inputs inputs)
{
    t_scene s;
    size_t rebound = 0;
    uint64_t count = t_nightly() ? 1000 : 50;
    t_scene_open(&s);
    for (uint64_t seed = 1; seed <= count; seed++)
        rebound += try_network(&s, seed, inputs);
    t_scene_close(&s);
    assert_int_equal(rebound > 0, inputs != PH_GRAPHED_COPY_INPUTS);
}

TEST(random_networks_match_with_inputs_rebound_where_possible)
{
    try_networks(PH_GRAPHED_AUTO);
}

TEST(random_networks_match_with_inputs_copied)
{
    try_networks(PH_GRAPHED_COPY_INPUTS);
}

TEST(random_networks_match_with_inputs_rebound)
{
    try_networks(PH_GRAPHED_REBIND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_networks_match_with_inputs_rebound_where_possible),
        cmocka_unit_test(random_networks_match_with_inputs_copied),
        cmocka_unit_test(random_networks_match_with_inputs_rebound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
