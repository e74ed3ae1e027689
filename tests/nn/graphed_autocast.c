/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_autocast.c: graphed callables under autocast: the network's own results in
 * its own precision, or a refusal. */
#include "support/graphed_nets.h"
#include "support/test.h"

static const ph_autocast off;
static const ph_autocast modes[] = {{.dtype = PH_DTYPE_F16, .no_cache = true},
                                    {.dtype = PH_DTYPE_BF16, .no_cache = true}};

static void start_again(const t_scene *s)
{
    ph_generator *generator;
    assert_ok(ph_generator_default(&generator, s->device));
    assert_ok(ph_generator_seed(generator, 3));
    ph_generator_release(generator);
}

static void train(const t_scene *s, ph_module *called, const ph_module *parameters, gn_kind kind)
{
    ph_optimizer *optimizer = gn_sgd((ph_module *)(uintptr_t)parameters);
    start_again(s);
    for (uint64_t i = 0; i < 5; i++)
        gn_train_step(s, called, optimizer, gn_shape(kind), 10 + i);
    ph_optimizer_destroy(optimizer);
}

static bool take_first(const char *name, ph_tensor *x, void *user)
{
    (void)name;
    *(ph_tensor **)user = x;
    return false;
}

static ph_tensor *first_parameter(const ph_module *module)
{
    ph_tensor *x = NULL;
    ph_module_parameters((ph_module *)(uintptr_t)module, take_first, &x);
    assert_non_null(x);
    return x;
}

static bool is_same(const t_scene *s, const ph_module *a, const ph_module *b)
{
    const ph_module *const modules[] = {a, b};
    float values[2][1024];
    size_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        ph_tensor *x = first_parameter(modules[i]);
        bytes = ph_tensor_bytes(x);
        assert_in_range(bytes, 1, sizeof values[0]);
        assert_ok(ph_tensor_read(s->tape, x, values[i], bytes));
    }
    return memcmp(values[0], values[1], bytes) == 0;
}

/* ---- every network ---- graphed under autocast, and called as it is: the same parameters after
 * some steps, to the bit. */
static void check_network(const t_scene *s, gn_kind kind, ph_autocast mode)
{
    ph_module *plain = gn_net(s, kind, 7), *other = gn_net(s, kind, 7), *full = gn_net(s, kind, 7);
    ph_tensor *x = gn_sample(s, gn_shape(kind), false);
    ph_module *graphed = gn_graph_one(plain, x, &(ph_graphed_options){.autocast = mode});
    train(s, full, full, kind);
    (void)ph_tape_set_autocast(s->tape, mode);
    train(s, graphed, plain, kind);
    assert_int_equal(gn_info(graphed).forward_calls, 5);
    mode.no_cache = false; /* of the tape's own casts: it changes no result */
    (void)ph_tape_set_autocast(s->tape, mode);
    train(s, other, other, kind);
    gn_expect_same_parameters(s, plain, other, gn_name(kind));
    assert_false(is_same(s, plain, full)); /* it was in another precision */
    ph_module_train(graphed, false);       /* the module itself, in the tape's precision */
    ph_module_train(other, false);
    ph_tensor *y = ph_call(s->tape, graphed, x), *z = ph_call(s->tape, other, x);
    assert_int_equal(ph_tensor_dtype(y), ph_tensor_dtype(z));
    gn_expect_same(s, y, z, gn_name(kind));
    (void)ph_tape_set_autocast(s->tape, off);
    assert_int_equal(ph_tensor_dtype(ph_call(s->tape, graphed, x)), PH_DTYPE_F32);
    assert_ok(ph_tape_clear(s->tape));
    ph_module *const made[] = {plain, other, full, graphed};
    for (int i = 0; i < 4; i++)
        ph_module_release(made[i]);
    ph_tensor_release(x);
}

TEST(test_every_network)
{
    t_scene s;
    t_scene_open(&s);
    for (int kind = 0; kind < GN_KINDS; kind++)
        for (size_t i = 0; i < 2; i++)
            check_network(&s, (gn_kind)kind, modes[i]);
    t_scene_close(&s);
}

/* ---- a module that switches it on itself ---- uses a weight twice: kept casts are each
 * capture's own. */
static void own_autocast(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    ph_module *net = *(ph_module *const *)self;
    ph_autocast before = ph_tape_set_autocast(tape, (ph_autocast){.dtype = PH_DTYPE_BF16});
    ph_tensor *y = ph_call(tape, net, ph_call(tape, net, in[0]));
    (void)ph_tape_set_autocast(tape, before);
    out[0] = ph_cast(tape, y, PH_DTYPE_F32);
}

static ph_module *wrapped(const t_scene *s, ph_module **net)
{
    ph_module *made;
    assert_ok(ph_linear_create(net, s->device, 8, 8));
    const ph_child child = {"net", *net};
    const ph_module_desc desc = {
        .name = "own", .forward = own_autocast, .self = net, .children = &child, .child_count = 1};
    assert_ok(ph_module_create(&made, s->device, &desc));
    return made;
}

TEST(test_inside_of_the_module)
{
    ph_module *net[2], *module[2];
    t_scene s;
    t_scene_open(&s);
    for (int i = 0; i < 2; i++) {
        start_again(&s);
        module[i] = wrapped(&s, &net[i]);
    }
    ph_tensor *x = gn_sample(&s, PH_SHAPE(4, 8), true);
    ph_module *graphed = gn_graph_one(module[0], x, NULL);
    ph_optimizer *optimizer[] = {gn_sgd(module[0]), gn_sgd(module[1])};
    for (uint64_t i = 0; i < 5; i++) {
        gn_train_step(&s, graphed, optimizer[0], PH_SHAPE(4, 8), i);
        gn_train_step(&s, module[1], optimizer[1], PH_SHAPE(4, 8), i);
        gn_expect_same_parameters(&s, module[0], module[1], "own autocast");
    }
    ph_module_release(graphed);
    for (int i = 0; i < 2; i++) {
        ph_optimizer_destroy(optimizer[i]);
        ph_module_release(module[i]);
        ph_module_release(net[i]);
    }
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* A module that leaves its mode behind changes none but its own, plain or graphed. */
static void leaves_f16(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    (void)ph_tape_set_autocast(tape, modes[0]);
    out[0] = ph_cast(tape, ph_matmul(tape, in[0], in[0]), PH_DTYPE_F32);
}

static void squared(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_matmul(tape, in[0], in[0]);
}

TEST(test_mode_that_is_left)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *plain[] = {gn_function(&s, "leaves", leaves_f16, NULL, 1, 1),
                          gn_function(&s, "squared", squared, NULL, 1, 1)};
    ph_module *graphed[2];
    ph_tensor *x = gn_sample(&s, PH_SHAPE(4, 4), false);
    const ph_sample sample = {.tensors = &x, .count = 1}, samples[] = {sample, sample};
    assert_ok(ph_make_graphed_callables(graphed, plain, samples, 2, NULL));
    for (int i = 0; i < 2; i++) {
        assert_non_null(ph_call(s.tape, i ? plain[0] : graphed[0], x));
        assert_int_equal(ph_tape_autocast(s.tape).dtype, 0);
    }
    ph_tensor *y = ph_call(s.tape, graphed[1], x);
    assert_int_equal(ph_tensor_dtype(y), PH_DTYPE_F32);
    gn_expect_same(&s, y, ph_call(s.tape, plain[1], x), "squared");
    assert_ok(ph_tape_clear(s.tape));
    for (int i = 0; i < 2; i++) {
        ph_module_release(graphed[i]);
        ph_module_release(plain[i]);
    }
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* ---- a whole step ---- that is captured changes the weights at each replay: eager evaluation
 * sees them, though its tape is not cleared. */
typedef struct training {
    const t_scene *s;
    ph_module *net;
    ph_optimizer *optimizer;
    ph_tensor *x;
} training;

static ph_status step(ph_stream *stream, void *user)
{
    const training *t = user;
    ph_tape *tape = t->s->tape;
    (void)stream;
    ph_optimizer_zero_grad(tape, t->optimizer);
    ph_backward(tape, ph_mse(tape, ph_call(tape, t->net, t->x), t->x));
    ph_optimizer_step(tape, t->optimizer);
    return ph_tape_status(tape);
}

static void evaluate(float out[32], ph_tape *tape, const training *t)
{
    size_t mark = ph_tape_scope_begin(tape);
    (void)ph_tape_set_grad_enabled(tape, false);
    ph_tensor *y = ph_cast(tape, ph_call(tape, t->net, t->x), PH_DTYPE_F32);
    assert_ok(ph_tensor_read(tape, y, out, 32 * sizeof *out));
    (void)ph_tape_set_grad_enabled(tape, true);
    ph_tape_scope_end(tape, mark, NULL, 0);
}

TEST(test_evaluation_between_replays)
{
    ph_graph *graph;
    ph_tape *other;
    float first[32], kept[32], anew[32];
    const ph_tape_options uncached = {.autocast = modes[0]};
    t_scene s;
    t_scene_open(&s);
    training t = {.s = &s, .x = gn_sample(&s, PH_SHAPE(4, 8), false)};
    start_again(&s);
    assert_ok(ph_linear_create(&t.net, s.device, 8, 8));
    t.optimizer = gn_sgd(t.net);
    assert_ok(ph_tape_create(&other, s.stream, &uncached));
    (void)ph_tape_set_autocast(s.tape, (ph_autocast){.dtype = PH_DTYPE_F16});
    evaluate(first, s.tape, &t);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, step, &t));
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(graph, s.stream));
        evaluate(kept, s.tape, &t);
        evaluate(anew, other, &t);
        assert_memory_equal(kept, anew, sizeof kept);
        assert_memory_not_equal(kept, first, sizeof kept);
        memcpy(first, kept, sizeof first);
    }
    ph_tape_destroy(other);
    assert_ok(ph_tape_clear(s.tape));
    ph_graph_destroy(graph);
    ph_optimizer_destroy(t.optimizer);
    ph_module_release(t.net);
    ph_tensor_release(t.x);
    t_scene_close(&s);
}

/* ---- refused ---- */
static void call_in(const t_scene *s, ph_module *graphed, ph_tensor *x, ph_autocast mode,
                    const char *part)
{
    (void)ph_tape_set_autocast(s->tape, mode);
    assert_null(ph_call(s->tape, graphed, x));
    t_expect_failure(s, PH_ERROR_STATE, part);
    (void)ph_tape_set_autocast(s->tape, off);
}

TEST(test_another_precision)
{
    char *text;
    t_scene s;
    t_scene_open(&s);
    ph_module *plain = gn_net(&s, GN_MLP, 1);
    ph_tensor *x = gn_sample(&s, gn_shape(GN_MLP), false);
    ph_module *graphed = gn_graph_one(plain, x, &(ph_graphed_options){.autocast = modes[1]});
    call_in(&s, graphed, x, off, "made with autocast to bf16, and called with autocast off");
    call_in(&s, graphed, x, modes[0],
            "made with autocast to bf16, and called with autocast to f16");
    (void)ph_tape_set_autocast(s.tape, modes[1]);
    assert_int_equal(ph_tensor_dtype(ph_call(s.tape, graphed, x)), PH_DTYPE_BF16);
    ph_tensor *old = ph_call(s.tape, graphed, x);
    assert_non_null(ph_call(s.tape, graphed, x));
    assert_null(ph_softmax(s.tape, old, 0));
    t_expect_failure(&s, PH_ERROR_OVERWRITTEN, "softmax: operand 0");
    assert_ok(ph_graphed_callable_describe(&text, graphed));
    assert_non_null(strstr(text, "(training, autocast to bf16)"));
    ph_string_free(text);
    assert_null(ph_call(s.tape, graphed, ph_cast(s.tape, x, PH_DTYPE_BF16)));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "under autocast give it a sample of the dtype");
    (void)ph_tape_set_autocast(s.tape, off);
    ph_module_release(graphed);
    graphed = gn_graph_one(plain, x, NULL);
    call_in(&s, graphed, x, modes[0], "made with autocast off, and called with autocast to f16");
    ph_module_release(graphed);
    ph_module_release(plain);
    ph_tensor_release(x);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_network),     cmocka_unit_test(test_inside_of_the_module),
        cmocka_unit_test(test_mode_that_is_left), cmocka_unit_test(test_evaluation_between_replays),
        cmocka_unit_test(test_another_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
