/* SPDX-License-Identifier: MIT */
/* tests/nn/torch_graphed.c: what PyTorch's tests ask of make_graphed_callables. Each test
 * carries the name of the behaviour that it holds. */
#include "fake/fake_cuda.h"
#include "support/graphed_nets.h"
#include "support/test.h"

/* ---- the network ---- three sections that take {x, unused_input}, of which the third gives
 * {output}, relu, and a loss: five callables. Sizes as there in the long tier, but not on the
 * software libcuda, whose products are naive loops; else divided by 16. */
enum {
    N = 640,
    D_IN = 4096,
    H = 2048,
    D_OUT = 1024,
    ITERATIONS = 10,
    SECTIONS = 3,
    CALLABLES = 5
};
static const char *const input_names[] = {"x", "unused_input"};
static const char *const output_names[] = {"output"};
static const ph_structure named_inputs = {PH_STRUCTURE_DICT, 2, input_names, NULL};
static const ph_structure named_output = {PH_STRUCTURE_DICT, 1, output_names, NULL};

typedef struct model {
    ph_module *parts[CALLABLES]; /* three sections, relu, loss */
    ph_module *all;              /* for the optimizer: never called */
} model;

static int64_t scaled(int64_t size)
{
    return t_nightly() && (t_on_host() || !fake_cuda()) ? size : size / 16;
}

/* A section is a sequential of one input behind the dict. */
static void section_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_module *const *net = self;
    out[0] = ph_call(tape, *net, in[0]);
}

static void free_section(void *self)
{
    free(self);
}

static ph_module *section(const t_scene *s, int64_t in, int64_t hidden, int64_t out)
{
    ph_module *child[4], *net, *made;
    ph_module **self = calloc(1, sizeof *self);
    assert_non_null(self);
    assert_ok(ph_linear_create(&child[0], s->device, in, hidden));
    assert_ok(ph_dropout_create(&child[1], s->device, 0.1));
    assert_ok(ph_linear_create(&child[2], s->device, hidden, out));
    assert_ok(ph_dropout_create(&child[3], s->device, 0.2));
    assert_ok(ph_sequential_create(&net, child, 4));
    for (int i = 0; i < 4; i++)
        ph_module_release(child[i]);
    *self = net; /* the module retains it */
    const ph_child children = {"net", net};
    const ph_module_desc desc = {.name = "section",
                                 .forward = section_forward,
                                 .self = self,
                                 .destroy = free_section,
                                 .in_count = 2,
                                 .children = &children,
                                 .child_count = 1};
    assert_ok(ph_module_create(&made, s->device, &desc));
    ph_module_release(net);
    return made;
}

/* Each row by its own index, without parameters. */
static void gather_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    int64_t rows = ph_tensor_dim(in[0], 0);
    ph_tensor *index =
        ph_reshape(tape, ph_arange(tape, PH_DTYPE_I64, 0, 1, rows), PH_SHAPE(rows, 1));
    out[0] = ph_gather(tape, in[0], 0, ph_expand(tape, index, ph_tensor_shape(in[0])));
}

static void relu_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_relu(tape, in[0]);
}

static void mse_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_mse(tape, in[0], in[1]);
}

static void seed(const t_scene *s, uint64_t value)
{
    ph_generator *generator;
    assert_ok(ph_generator_default(&generator, s->device));
    assert_ok(ph_generator_seed(generator, value));
    ph_generator_release(generator);
}

static void model_open(model *m, const t_scene *s)
{
    seed(s, 5);
    m->parts[0] = section(s, scaled(D_IN), scaled(H), scaled(H));
    m->parts[1] = section(s, scaled(H), scaled(H), scaled(D_OUT));
    m->parts[2] = gn_function(s, "gather", gather_forward, NULL, 2, 1);
    m->parts[3] = gn_function(s, "relu", relu_forward, NULL, 1, 1);
    m->parts[4] = gn_function(s, "mse", mse_forward, NULL, 2, 1);
    const ph_child children[] = {
        {"first", m->parts[0]}, {"second", m->parts[1]}, {"third", m->parts[2]}};
    const ph_module_desc desc = {
        .name = "model", .forward = relu_forward, .children = children, .child_count = SECTIONS};
    assert_ok(ph_module_create(&m->all, s->device, &desc));
}

static void model_close(model *m)
{
    ph_module_release(m->all);
    for (int i = 0; i < CALLABLES; i++)
        ph_module_release(m->parts[i]);
}

/* ---- data ---- under autocast what comes from linears is in its dtype. */
static const ph_autocast off, f16 = {.dtype = PH_DTYPE_F16, .no_cache = true},
                              with_cache = {.dtype = PH_DTYPE_F16};

typedef struct data {
    ph_tensor *x, *h, *h2, *y_pred, *y, *unused;
} data;

static ph_tensor *random_tensor(const t_scene *s, ph_dtype dtype, int64_t columns,
                                bool requires_grad)
{
    ph_tensor *x = ph_tensor_retain(ph_randn(s->tape, dtype, PH_SHAPE(scaled(N), columns)));
    assert_ok(ph_tape_clear(s->tape));
    assert_ok(ph_tensor_set_requires_grad(x, requires_grad));
    return x;
}

static data data_open(const t_scene *s, ph_autocast autocast)
{
    ph_dtype dtype = PH_DTYPE_F32, low = autocast.dtype ? autocast.dtype : dtype;
    return (data){
        random_tensor(s, dtype, scaled(D_IN), false),  random_tensor(s, low, scaled(H), true),
        random_tensor(s, low, scaled(D_OUT), true),    random_tensor(s, low, scaled(D_OUT), true),
        random_tensor(s, dtype, scaled(D_OUT), false), random_tensor(s, dtype, scaled(H), true)};
}

static void data_close(data *d)
{
    ph_tensor *const all[] = {d->x, d->h, d->h2, d->y_pred, d->y, d->unused};
    for (int i = 0; i < 6; i++)
        ph_tensor_release(all[i]);
}

static ph_status graph_all(ph_module **graphed, const model *m, const data *d, bool allow_unused,
                           ph_autocast autocast)
{
    ph_tensor *const in[CALLABLES][2] = {
        {d->x, d->unused}, {d->h, d->unused}, {d->h2, d->unused}, {d->y_pred}, {d->y_pred, d->y}};
    ph_sample samples[CALLABLES];
    for (int i = 0; i < CALLABLES; i++)
        samples[i] = (ph_sample){.tensors = in[i],
                                 .count = i == 3 ? 1 : 2,
                                 .structure = i < SECTIONS ? &named_inputs : NULL,
                                 .out_structure = i == 2 ? &named_output : NULL};
    return ph_make_graphed_callables(
        graphed, m->parts, samples, CALLABLES,
        &(ph_graphed_options){.allow_unused_input = allow_unused, .autocast = autocast});
}

/* ---- a run ---- */
static ph_tensor *predict(const t_scene *s, ph_module *const *parts, const data *d)
{
    ph_tensor *y = d->x, *next;
    for (int i = 0; i < SECTIONS; i++) {
        ph_tensor *const in[] = {y, d->unused};
        ph_call_structured(s->tape, parts[i], &next, 1, in, 2, &named_inputs,
                           i == 2 ? &named_output : NULL);
        y = next;
    }
    return ph_call(s->tape, parts[3], y);
}

static void train(const t_scene *s, ph_module *const *parts, const model *m, const data *d)
{
    ph_optimizer *optimizer = gn_sgd(m->all);
    seed(s, 5);
    for (int i = 0; i < ITERATIONS; i++) {
        ph_tensor *loss, *in[2];
        ph_optimizer_zero_grad(s->tape, optimizer);
        in[0] = predict(s, parts, d);
        in[1] = d->y;
        ph_call_n(s->tape, parts[4], &loss, 1, in, 2);
        ph_backward(s->tape, loss);
        ph_optimizer_step(s->tape, optimizer);
        assert_ok(ph_tape_clear(s->tape));
    }
    ph_optimizer_destroy(optimizer);
}

static void graphed_and_plain(ph_autocast autocast)
{
    t_scene s;
    model graphed, control;
    t_scene_open(&s);
    model_open(&graphed, &s);
    model_open(&control, &s);
    gn_expect_same_parameters(&s, graphed.all, control.all, "at the start");
    data d = data_open(&s, autocast);
    ph_module *parts[CALLABLES];

    /* Without allow_unused the unused input, which requires a gradient, is refused; so are kept
     * casts of weights. */
    assert_error(graph_all(parts, &graphed, &d, false, autocast), PH_ERROR_ARGUMENT,
                 "unused_input");
    assert_error(graph_all(parts, &graphed, &d, false, autocast), PH_ERROR_ARGUMENT, "section");
    assert_error(graph_all(parts, &graphed, &d, true, with_cache), PH_ERROR_ARGUMENT,
                 "autocast with its cache of weights");
    for (int i = 0; i < CALLABLES; i++)
        assert_null(parts[i]);
    assert_ok(graph_all(parts, &graphed, &d, true, autocast));
    (void)ph_tape_set_autocast(s.tape, autocast);
    gn_expect_same_parameters(&s, graphed.all, control.all, "once graphed");

    train(&s, parts, &graphed, &d);
    train(&s, control.parts, &control, &d);
    gn_expect_same_parameters(&s, graphed.all, control.all, "after training");
    for (int i = 0; i < CALLABLES; i++) {
        assert_int_equal(gn_info(parts[i]).forward_calls, ITERATIONS);
        assert_int_equal(gn_info(parts[i]).backward_calls, ITERATIONS);
    }

    /* In evaluation they are called as they were before. */
    for (int i = 0; i < CALLABLES; i++) {
        ph_module_train(parts[i], false);
        ph_module_train(control.parts[i], false);
    }
    gn_expect_same(&s, predict(&s, parts, &d), predict(&s, control.parts, &d), "in evaluation");
    assert_ok(ph_tape_clear(s.tape));
    for (int i = 0; i < CALLABLES; i++) {
        assert_int_equal(gn_info(parts[i]).forward_calls, ITERATIONS);
        ph_module_release(parts[i]);
    }
    data_close(&d);
    model_close(&graphed);
    model_close(&control);
    t_scene_close(&s);
}

TEST(test_graph_make_graphed_callables)
{
    graphed_and_plain(off);
    graphed_and_plain(f16);
}

/* Nothing in it is differentiable: there is no backward graph, and no unused input. Inputs that
 * require a gradient may come. */
static void parameterless(bool allow_unused, ph_autocast autocast)
{
    t_scene s;
    t_scene_open(&s);
    seed(&s, 5);
    ph_module *control = gn_function(&s, "gather", gather_forward, NULL, 2, 1), *graphed = NULL;
    ph_tensor *const in[] = {random_tensor(&s, PH_DTYPE_F32, scaled(D_IN), false),
                             random_tensor(&s, PH_DTYPE_F32, scaled(H), false)};
    const ph_sample sample = {
        .tensors = in, .count = 2, .structure = &named_inputs, .out_structure = &named_output};
    ph_graphed_options options = {.allow_unused_input = allow_unused, .autocast = with_cache};
    assert_error(ph_make_graphed_callables(&graphed, &control, &sample, 1, &options),
                 PH_ERROR_ARGUMENT, "autocast with its cache of weights");
    options.autocast = autocast;
    (void)ph_tape_set_autocast(s.tape, autocast);
    assert_ok(ph_make_graphed_callables(&graphed, &control, &sample, 1, &options));
    assert_int_equal(gn_info(graphed).backward_nodes, 0);
    for (int training = 1; training >= 0; training--) {
        ph_module_train(graphed, training);
        ph_module_train(control, training);
        for (int i = 0; i < 10; i++) {
            ph_tensor *now[2] = {random_tensor(&s, PH_DTYPE_F32, scaled(D_IN), true),
                                 random_tensor(&s, PH_DTYPE_F32, scaled(H), true)};
            ph_tensor *got, *want;
            ph_call_structured(s.tape, graphed, &got, 1, now, 2, &named_inputs, &named_output);
            ph_call_structured(s.tape, control, &want, 1, now, 2, &named_inputs, &named_output);
            gn_expect_same(&s, got, want, "a call");
            if (training)
                assert_false(ph_tensor_requires_grad(got));
            assert_ok(ph_tape_clear(s.tape));
            ph_tensor_release(now[0]);
            ph_tensor_release(now[1]);
        }
        assert_int_equal(gn_info(graphed).forward_calls, 10);
    }
    ph_module_release(graphed);
    ph_module_release(control);
    ph_tensor_release(in[0]);
    ph_tensor_release(in[1]);
    t_scene_close(&s);
}

TEST(test_graph_make_graphed_callables_parameterless_nograd_module)
{
    parameterless(true, off);
    parameterless(false, off);
    parameterless(true, f16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph_make_graphed_callables),
        cmocka_unit_test(test_graph_make_graphed_callables_parameterless_nograd_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
