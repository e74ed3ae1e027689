/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_checks.c: what ph_make_graphed_callables refuses, each with its own message;
 * a refusal leaves nothing behind, and the modules as they were. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include <time.h>

/* ---- what is tried ---- */
typedef struct attempt {
    t_scene *s;
    ph_module *module[2];
    ph_sample sample[2];
    ph_tensor *in[3];
    size_t count;
    ph_graphed_options options;
    ph_stream *stream; /* of the captures, unless the options have one: none is made each time */
} attempt;

enum {
    MESSAGES = 40
};
static char messages[MESSAGES][sizeof ph_error_last()->message];
static size_t message_count;

/* With these words. Once it was refused some times, another attempt changes nothing: no memory
 * of the device or of the host, no reference to a pool. */
static void refuse(attempt *a, ph_status status, const char *part)
{
    assert_true(*part); /* no words would match any message */
    ph_memory_stats before, after;
    ph_module *out[2];
    int64_t live = 0;
    ph_graphed_options options = a->options;
    options.stream = options.stream ? options.stream : a->stream;
    for (int round = 0; round < 4; round++) { /* caches have grown by then */
        memset(out, 0xAB, sizeof out);
        assert_ok(ph_device_synchronize(a->s->device));
        live = ph__alloc_live();
        assert_ok(ph_memory_get_stats(&before, a->s->device));
        assert_error(ph_make_graphed_callables(out, a->module, a->sample, a->count, &options),
                     status, part);
        ph_error refusal = *ph_error_last();
        assert_ok(ph_device_synchronize(a->s->device));
        (void)ph_error_set(&refusal);
        assert_ok(ph_memory_get_stats(&after, a->s->device));
        assert_int_equal(after.allocated, before.allocated);
        assert_int_equal(after.pinned, before.pinned);
        for (size_t i = 0; i < a->count; i++)
            assert_null(out[i]);
    }
    assert_int_equal(after.reserved, before.reserved);
    /* Threads of the device let go a little later. */
    for (int i = 0; i < 2000 && ph__alloc_live() > live; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (ph__alloc_live() > live)
        fail_msg("%lld host allocations were left behind: %s", (long long)(ph__alloc_live() - live),
                 ph_error_last()->message);
    assert_ok(ph_tape_status(a->s->tape));
}

/* With a message of its own. */
static void expect_refused(attempt *a, ph_status status, const char *part)
{
    refuse(a, status, part);
    for (size_t i = 0; i < message_count; i++)
        if (strcmp(messages[i], ph_error_last()->message) == 0)
            fail_msg("two refusals have the same message: %s", messages[i]);
    assert_true(message_count < MESSAGES);
    memcpy(messages[message_count++], ph_error_last()->message, sizeof messages[0]);
}

/* As the one before it, to the letter: one message for several faults of a kind. */
static void expect_refused_alike(attempt *a, ph_status status, const char *part)
{
    refuse(a, status, part);
    assert_true(message_count > 0);
    assert_string_equal(ph_error_last()->message, messages[message_count - 1]);
}

/* The module is called as before, and can be graphed. */
static void expect_usable(const attempt *a, t_scale *scale)
{
    ph_tensor *x = gn_sample(a->s, PH_SHAPE(2), true);
    t_expect_values(a->s->tape, ph_call(a->s->tape, a->module[0], t_input(a->s, 1, 2)), PH_SHAPE(2),
                    3, 12);
    assert_ok(ph_tape_clear(a->s->tape));
    ph_module *graphed = gn_graph_one(a->module[0], x, NULL);
    ph_backward(a->s->tape, ph_sum(a->s->tape, ph_call(a->s->tape, graphed, t_input(a->s, 1, 2))));
    t_expect_grad(a->s, scale->weight, 1, 2);
    assert_ok(ph_tape_clear(a->s->tape));
    t_zero_grad(scale->weight);
    ph_module_release(graphed);
    ph_tensor_release(x);
}

static attempt attempt_open(t_scene *s, t_scale *scale)
{
    attempt a = {.s = s, .count = 1};
    t_scene_open(s);
    assert_ok(ph_stream_create(&a.stream, s->device, NULL));
    a.module[0] = t_scale_open(s, scale, 3);
    a.in[0] = gn_sample(s, PH_SHAPE(2), true);
    return a;
}

static void attempt_close(attempt *a)
{
    ph_module_release(a->module[0]);
    ph_tensor_release(a->in[0]);
    ph_stream_destroy(a->stream);
    t_scene_close(a->s);
}

/* ---- samples and lists ---- */
TEST(samples_that_do_not_fit_the_module_are_refused)
{
    t_scene s, elsewhere;
    t_scale scale;
    attempt a = attempt_open(&s, &scale);
    ph_module *out[1] = {NULL};
    a.sample[0] = (ph_sample){.tensors = a.in, .count = 2};
    a.in[1] = a.in[0];
    expect_refused(&a, PH_ERROR_ARGUMENT, "(scale) takes 1 inputs, and its sample has 2");
    a.sample[0].count = 0;
    expect_refused(&a, PH_ERROR_ARGUMENT, "(scale) takes 1 inputs, and its sample has 0");
    ph_tensor *keep = a.in[0];
    a.sample[0].count = 1;
    a.in[0] = NULL;
    expect_refused(&a, PH_ERROR_ARGUMENT, "NULL");
    t_scene_open(&elsewhere);
    a.in[0] = t_leaf(&elsewhere, PH_SHAPE(2), 1, 2);
    if (t_on_host()) /* elsewhere the two are one device */
        expect_refused(&a, PH_ERROR_WRONG_DEVICE, "device");
    ph_tensor_release(a.in[0]);
    t_scene_close(&elsewhere);
    a.in[0] = keep;
    a.sample[0].tensors = NULL;
    expect_refused(&a, PH_ERROR_ARGUMENT, "tensors");
    static const char *const twice[] = {"x", "x"}, *const named[] = {"x", "y"};
    ph_structure structure = {.kind = PH_STRUCTURE_DICT, .count = 2, .keys = twice};
    a.sample[0] = (ph_sample){.tensors = a.in, .count = 1, .structure = &structure};
    expect_refused(&a, PH_ERROR_ARGUMENT,
                   "is malformed, or has not as many tensors as the sample: 1");
    structure.keys = named; /* well formed, of two tensors: the message names both faults */
    expect_refused_alike(&a, PH_ERROR_ARGUMENT,
                         "is malformed, or has not as many tensors as the sample: 1");

    a.sample[0] = (ph_sample){.tensors = a.in, .count = 1};
    assert_error(ph_make_graphed_callables(NULL, a.module, a.sample, 1, NULL), PH_ERROR_ARGUMENT,
                 "out");
    assert_error(ph_make_graphed_callables(out, NULL, a.sample, 1, NULL), PH_ERROR_ARGUMENT,
                 "modules");
    assert_error(ph_make_graphed_callables(out, a.module, NULL, 1, NULL), PH_ERROR_ARGUMENT,
                 "samples");
    assert_null(out[0]);
    ph_module *module = a.module[0];
    a.module[0] = NULL;
    expect_refused(&a, PH_ERROR_ARGUMENT, "NULL");
    a.module[0] = a.module[1] = module;
    a.sample[1] = a.sample[0];
    a.count = 2;
    expect_refused(&a, PH_ERROR_ARGUMENT, "once more");
    /* A later one is refused, by what its first layer says of the shape: the ones before it are
     * not made either. */
    a.module[1] = gn_net(&s, GN_MLP, 1);
    expect_refused(&a, PH_ERROR_ARGUMENT,
                   "linear: the last dimension of x must be the weight's last one");
    ph_module_release(a.module[1]);
    expect_usable(&a, &scale);
    attempt_close(&a);
}

/* ---- modules ---- */
static void no_hook(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count, void *user)
{
    (void)tape;
    (void)module;
    (void)tensors;
    (void)count;
    (*(int *)user)++;
}

static ph_tensor *no_tensor_hook(ph_tape *tape, ph_tensor *grad, void *user)
{
    (void)tape;
    (void)user;
    return grad;
}

TEST(modules_with_hooks_are_not_graphed)
{
    t_scene s;
    t_scale scale;
    attempt a = attempt_open(&s, &scale);
    ph_module_hook *hook;
    ph_tensor_hook *tensor_hook;
    int runs = 0;
    a.sample[0] = (ph_sample){.tensors = a.in, .count = 1};
    for (int point = PH_MODULE_HOOK_FORWARD_PRE; point <= PH_MODULE_HOOK_BACKWARD; point++) {
        assert_ok(
            ph_module_hook_add(&hook, a.module[0], (ph_module_hook_point)point, no_hook, &runs));
        /* Of one module those at all points are alike: they are removed together. */
        (point == PH_MODULE_HOOK_FORWARD_PRE ? expect_refused : expect_refused_alike)(
            &a, PH_ERROR_ARGUMENT, "callable 0 (scale) has hooks, of its own or below");
        ph_module_hook_remove(hook);
    }
    assert_ok(ph_tensor_hook_add(&tensor_hook, scale.weight, no_tensor_hook, NULL));
    expect_refused(&a, PH_ERROR_ARGUMENT, "callable 0 (scale): parameter 'weight' has a hook");
    ph_tensor_hook_remove(tensor_hook);

    /* Below. */
    ph_module *inner = a.module[0], *outer;
    assert_ok(ph_sequential_create(&outer, &inner, 1));
    a.module[0] = outer;
    for (int point = PH_MODULE_HOOK_FORWARD_PRE; point <= PH_MODULE_HOOK_BACKWARD; point++) {
        assert_ok(ph_module_hook_add(&hook, inner, (ph_module_hook_point)point, no_hook, &runs));
        (point == PH_MODULE_HOOK_FORWARD_PRE ? expect_refused : expect_refused_alike)(
            &a, PH_ERROR_ARGUMENT, "callable 0 (sequential) has hooks, of its own or below");
        ph_module_hook_remove(hook);
    }
    assert_ok(ph_tensor_hook_add(&tensor_hook, scale.weight, no_tensor_hook, NULL));
    expect_refused(&a, PH_ERROR_ARGUMENT,
                   "callable 0 (sequential): parameter '0.weight' has a hook");
    ph_tensor_hook_remove(tensor_hook);
    ph_module_release(outer);
    a.module[0] = inner;
    assert_int_equal(runs, 0);
    expect_usable(&a, &scale);

    /* Added later, they act on the graphed module's own calls: not on the original's. */
    ph_module *graphed = gn_graph_one(inner, a.in[0], NULL);
    assert_ok(ph_module_hook_add(&hook, graphed, PH_MODULE_HOOK_FORWARD, no_hook, &runs));
    assert_ok(ph_tensor_hook_add(&tensor_hook, scale.weight, no_tensor_hook, NULL));
    t_expect_values(s.tape, ph_call(s.tape, graphed, t_input(&s, 1, 2)), PH_SHAPE(2), 3, 12);
    assert_int_equal(runs, 1);
    assert_int_equal(gn_info(graphed).forward_calls, 1);
    (void)ph_call(s.tape, inner, t_input(&s, 1, 2));
    assert_int_equal(runs, 1);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_hook_remove(hook);
    ph_tensor_hook_remove(tensor_hook);
    ph_module_release(graphed);
    attempt_close(&a);
}

/* y = x * weight + shift, of which only what it has is a parameter or buffer. */
typedef struct loose {
    ph_tensor *weight, *shift;
    bool reads; /* waits for a value, which no capture can do */
} loose;

static void loose_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const loose *me = self;
    double value;
    if (me->reads && ph_tensor_item(&value, tape, ph_sum(tape, in[0])) != PH_OK)
        return;
    out[0] = ph_add(tape, ph_mul(tape, in[0], me->weight), me->shift);
}

TEST(leaves_that_are_no_parameters_are_refused)
{
    t_scene s;
    t_scale scale;
    attempt a = attempt_open(&s, &scale);
    ph_module *keep = a.module[0];
    loose me = {t_leaf(&s, PH_SHAPE(2), 3, 6), t_leaf(&s, PH_SHAPE(2), 1, 1), false};
    const ph_parameter weight = {"weight", &me.weight}, shift = {"shift", &me.shift};
    ph_module_desc desc = {.name = "loose",
                           .forward = loose_forward,
                           .self = &me,
                           .parameters = &weight,
                           .parameter_count = 1};
    a.sample[0] = (ph_sample){.tensors = a.in, .count = 1};
    assert_ok(ph_module_create(&a.module[0], s.device, &desc));
    expect_refused(&a, PH_ERROR_ARGUMENT, "loose"); /* shift: neither an input nor a parameter */
    ph_module_release(a.module[0]);
    desc.buffers = &shift;
    desc.buffer_count = 1;
    assert_ok(ph_module_create(&a.module[0], s.device, &desc));
    expect_refused(&a, PH_ERROR_ARGUMENT, "shift"); /* a buffer that requires a gradient */
    assert_ok(ph_tensor_set_requires_grad(me.shift, false));
    me.reads = true;
    expect_refused(&a, PH_ERROR_CAPTURE, "item");
    me.reads = false;
    ph_module *graphed = gn_graph_one(a.module[0], a.in[0], NULL);
    t_expect_values(s.tape, ph_call(s.tape, graphed, t_input(&s, 1, 2)), PH_SHAPE(2), 4, 13);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(graphed);
    ph_module_release(a.module[0]);
    ph_tensor_release(me.weight);
    ph_tensor_release(me.shift);
    a.module[0] = keep;
    attempt_close(&a);
}

/* ---- unused inputs and parameters ---- out = in[0] * weight. */
static void first_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const loose *me = self;
    out[0] = ph_mul(tape, in[0], me->weight);
}

TEST(inputs_and_parameters_without_gradients_are_refused)
{
    t_scene s;
    t_scale scale;
    attempt a = attempt_open(&s, &scale);
    ph_module *keep = a.module[0];
    loose me = {t_leaf(&s, PH_SHAPE(2), 3, 6), t_leaf(&s, PH_SHAPE(2), 1, 1), false};
    const ph_parameter all[] = {{"weight", &me.weight}, {"shift", &me.shift}};
    ph_module_desc desc = {.name = "first",
                           .forward = first_forward,
                           .self = &me,
                           .in_count = 2,
                           .parameters = all,
                           .parameter_count = 1};
    assert_ok(ph_module_create(&a.module[0], s.device, &desc));
    a.in[1] = gn_sample(&s, PH_SHAPE(2), true);
    a.sample[0] = (ph_sample){.tensors = a.in, .count = 2};
    expect_refused(&a, PH_ERROR_ARGUMENT, "[1]");
    assert_ok(ph_tensor_set_requires_grad(a.in[1], false));
    ph_module *graphed = gn_graph(a.module[0], a.in, 2, NULL); /* nothing is missing then */
    ph_module_release(graphed);
    ph_module_release(a.module[0]);

    desc.parameter_count = 2; /* shift is not used */
    assert_ok(ph_module_create(&a.module[0], s.device, &desc));
    expect_refused(&a, PH_ERROR_ARGUMENT, "shift");
    assert_ok(ph_tensor_set_requires_grad(a.in[1], true));
    a.options.allow_unused_input = true;
    graphed = gn_graph(a.module[0], a.in, 2, &a.options);
    ph_tensor *in[2] = {t_leaf(&s, PH_SHAPE(2), 1, 2), t_leaf(&s, PH_SHAPE(2), 1, 2)}, *y;
    ph_call_n(s.tape, graphed, &y, 1, in, 2);
    t_expect_values(s.tape, y, PH_SHAPE(2), 3, 12);
    ph_backward(s.tape, ph_sum(s.tape, y));
    t_expect_grad(&s, in[0], 3, 6);
    t_expect_grad(&s, me.weight, 1, 2);
    assert_null(ph_tensor_grad(in[1]));
    assert_null(ph_tensor_grad(me.shift));
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(graphed);
    ph_module_release(a.module[0]);
    ph_tensor *made[] = {me.weight, me.shift, in[0], in[1], a.in[1]};
    for (int i = 0; i < 5; i++)
        ph_tensor_release(made[i]);
    a.module[0] = keep;
    attempt_close(&a);
}

/* ---- options, and where it may be called ---- */
TEST(options_and_places_that_do_not_fit_are_refused)
{
    t_scene s, other;
    t_scale scale;
    attempt a = attempt_open(&s, &scale);
    ph_pool *pool;
    ph_generator *generator;
    a.sample[0] = (ph_sample){.tensors = a.in, .count = 1};
    for (int i = 0; i < (int)(sizeof a.options.reserved / sizeof a.options.reserved[0]); i++) {
        a.options = (ph_graphed_options){.inputs = PH_GRAPHED_AUTO};
        a.options.reserved[i] = 1;
        /* All of reserved is one field. */
        (i == 0 ? expect_refused : expect_refused_alike)(&a, PH_ERROR_ARGUMENT, "reserved");
    }
    a.options = (ph_graphed_options){.gradients = (ph_graphed_gradients)3};
    expect_refused(&a, PH_ERROR_ARGUMENT, "gradients");
    a.options = (ph_graphed_options){.inputs = (ph_graphed_inputs)-1};
    expect_refused(&a, PH_ERROR_ARGUMENT, "inputs");
    a.options = (ph_graphed_options){.mode = (ph_capture_mode)9};
    expect_refused(&a, PH_ERROR_ARGUMENT, "mode");
    a.options = (ph_graphed_options){.autocast = {.dtype = PH_DTYPE_F16}};
    expect_refused(&a, PH_ERROR_ARGUMENT, "set autocast.no_cache");
    a.options = (ph_graphed_options){.autocast = {.dtype = PH_DTYPE_F32, .no_cache = true}};
    expect_refused(&a, PH_ERROR_ARGUMENT, "ph_make_graphed_callables: autocast is to f16 or bf16");
    a.options = (ph_graphed_options){.stream = ph_device_default_stream(s.device)};
    expect_refused(&a, PH_ERROR_DEFAULT_STREAM, "other than the default stream");
    if (t_on_host()) {
        t_scene_open(&other);
        assert_ok(ph_pool_create(&pool, other.device, NULL));
        assert_ok(ph_generator_create(&generator, other.device, 1));
        a.options = (ph_graphed_options){.pool = pool};
        expect_refused(&a, PH_ERROR_WRONG_DEVICE, "pool");
        a.options = (ph_graphed_options){.generator = generator};
        expect_refused(&a, PH_ERROR_WRONG_DEVICE, "generator");
        a.options = (ph_graphed_options){.stream = other.stream};
        expect_refused(&a, PH_ERROR_WRONG_DEVICE, "stream");
        ph_generator_release(generator);
        ph_pool_release(pool);
        t_scene_close(&other);
    }
    expect_usable(&a, &scale);
    attempt_close(&a);
}

/* In a capture: refused, and the capture goes on. */
TEST(test_in_a_capture)
{
    t_scene s;
    t_scale scale;
    attempt a = attempt_open(&s, &scale);
    ph_graph *graph;
    ph_pool *pool;
    a.sample[0] = (ph_sample){.tensors = a.in, .count = 1};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(
        ph_graph_capture_begin(graph, s.stream, &(ph_capture_options){.mode = PH_CAPTURE_RELAXED}));
    ph_module *out = NULL;
    assert_error(ph_make_graphed_callables(&out, a.module, a.sample, 1, NULL), PH_ERROR_CAPTURE,
                 "capture");
    assert_native(900);
    assert_null(out);
    assert_true(ph_stream_is_capturing(s.stream));
    (void)ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_graph_destroy(graph);

    /* A pool that the user gave is as it was. */
    assert_ok(ph_pool_create(&pool, s.device, NULL));
    size_t uses = ph_pool_use_count(pool);
    a.options = (ph_graphed_options){.pool = pool};
    a.sample[0].count = 0;
    /* A sample of another count is refused. */
    refuse(&a, PH_ERROR_ARGUMENT, "takes 1 inputs, and its sample has 0");
    assert_int_equal(ph_pool_use_count(pool), uses);
    ph_pool_release(pool);
    expect_usable(&a, &scale);
    attempt_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_that_do_not_fit_the_module_are_refused),
        cmocka_unit_test(modules_with_hooks_are_not_graphed),
        cmocka_unit_test(leaves_that_are_no_parameters_are_refused),
        cmocka_unit_test(inputs_and_parameters_without_gradients_are_refused),
        cmocka_unit_test(options_and_places_that_do_not_fit_are_refused),
        cmocka_unit_test(test_in_a_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
