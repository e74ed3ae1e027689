/* SPDX-License-Identifier: MIT */
/* tests/nn/module_copy.c: copies of modules: equal to the bit, with nothing shared; what is shared
 * inside stays so; and what is refused, by name. */
#include "support/nets.h"
#include "support/sweep.h"
#include "support/test.h"
#include <pthread.h>
#include <stdlib.h>

/* ---- a module of a user's: one weight, used by two children too ---- */
typedef struct tied {
    ph_tensor *weight, *seen; /* a parameter, a buffer */
    ph_module *inner;         /* NULL: none */
    ph_tensor *taken;         /* what a copy function that is wrong takes */
    int fail;                 /* how it is wrong */
} tied;

static int live; /* structs */

enum {
    SHARES_WEIGHT = 1,
    GIVES_NOTHING,
    GIVES_OTHER,
    FAILS,
    LEAVES
};

static void tied_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const tied *t = self;
    ph_tensor *x = ph_mul(tape, in[0], t->weight);
    out[0] = t->inner ? ph_call(tape, t->inner, x) : x;
}

static void tied_destroy(void *self)
{
    live--;
    free(self);
}

static ph_status tied_copy(ph_module **out, ph_module_copier *copier, void *self);

static ph_status tied_assemble(ph_module **out, ph_device *device, tied *t, bool can_copy)
{
    ph_parameter parameter = {"weight", &t->weight}, buffer = {"seen", &t->seen};
    ph_child child = {"inner", t->inner};
    ph_module_desc desc = {.name = "tied",
                           .forward = tied_forward,
                           .self = t,
                           .destroy = tied_destroy,
                           .parameters = &parameter,
                           .parameter_count = 1,
                           .buffers = &buffer,
                           .buffer_count = 1,
                           .children = &child,
                           .child_count = t->inner ? 1 : 0,
                           .copy = can_copy ? tied_copy : NULL};
    return ph_module_create(out, device, &desc);
}

static ph_status tied_copy(ph_module **out, ph_module_copier *copier, void *self)
{
    const tied *from = self;
    if (from->fail == GIVES_NOTHING)
        return PH_OK;
    if (from->fail == FAILS)
        return ph_fail(PH_ERROR_CALLER, "no copies on Mondays");
    if (from->fail == LEAVES)
        pthread_exit(NULL);
    tied *t = calloc(1, sizeof *t);
    assert_non_null(t);
    live++;
    ph_status status = ph_module_copier_tensor(&t->weight, copier, from->weight);
    if (status == PH_OK)
        status = ph_module_copier_tensor(&t->seen, copier, from->seen);
    if (status == PH_OK)
        status = ph_module_copier_module(&t->inner, copier, from->inner);
    ph_tensor *made[] = {t->weight, t->seen};
    ph_module *inner = t->inner;
    if (from->fail == SHARES_WEIGHT)
        t->weight = from->weight;
    if (from->fail == GIVES_OTHER)
        t->inner = NULL;
    if (status == PH_OK)
        status = tied_assemble(out, ph_tensor_device(from->weight), t, true);
    if (status != PH_OK)
        tied_destroy(t);
    ph_tensor_release(made[0]);
    ph_tensor_release(made[1]);
    ph_module_release(inner);
    return status;
}

/* weight: the caller's, or NULL for one of its own. */
static ph_module *tied_open(const t_scene *s, ph_tensor *weight, ph_module *inner, bool can_copy)
{
    ph_module *module;
    tied *t = calloc(1, sizeof *t);
    assert_non_null(t);
    live++;
    t->inner = inner;
    t->weight = weight ? ph_tensor_retain(weight) : t_leaf(s, PH_SHAPE(2), 3, 4);
    assert_ok(ph_tensor_create(&t->seen, s->device, PH_DTYPE_I64, PH_SCALAR));
    assert_ok(ph_tensor_write(s->tape, t->seen, &(int64_t){7}, sizeof(int64_t)));
    assert_ok(tied_assemble(&module, s->device, t, can_copy));
    ph_tensor_release(t->weight);
    ph_tensor_release(t->seen);
    ph_module_release(inner);
    return module;
}

static tied *self_of(const ph_module *module)
{
    return ph_module_self(module);
}

/* ---- looking ---- */
typedef struct pair {
    ph_tape *tape;
    ph_module *other;
    size_t count;
} pair;

static bool expect_twin(const char *name, ph_tensor *x, void *user)
{
    pair *p = user;
    ph_tensor *y = ph_module_parameter(p->other, name);
    char a[4096], b[4096];
    assert_non_null(y);
    assert_ptr_not_equal(x, y);
    assert_true(ph_tensor_bytes(x) == 0 || ph_tensor_data(x) != ph_tensor_data(y));
    assert_int_equal(ph_tensor_requires_grad(x), ph_tensor_requires_grad(y));
    assert_int_equal(ph_tensor_bytes(x), ph_tensor_bytes(y));
    assert_true(ph_tensor_bytes(x) <= sizeof a);
    assert_ok(ph_tensor_read(p->tape, x, a, ph_tensor_bytes(x)));
    assert_ok(ph_tensor_read(p->tape, y, b, ph_tensor_bytes(y)));
    assert_memory_equal(a, b, ph_tensor_bytes(x));
    p->count++;
    return true;
}

static void expect_twins(const t_scene *s, ph_module *a, ph_module *b)
{
    pair p = {.tape = s->tape, .other = b}, q = {.tape = s->tape, .other = a};
    ph_module_parameters(a, expect_twin, &p);
    ph_module_buffers(a, expect_twin, &p);
    ph_module_parameters(b, expect_twin, &q);
    ph_module_buffers(b, expect_twin, &q);
    assert_int_equal(p.count, q.count);
}

static void expect_outputs(const t_scene *s, ph_module *a, ph_module *b, ph_shape shape)
{
    float x[64], y[64];
    ph_tensor *in = t_counting(s->tape, shape);
    ph_tensor *one = ph_call(s->tape, a, in), *two = ph_call(s->tape, b, in);
    assert_ok(ph_tape_status(s->tape));
    size_t bytes = ph_tensor_bytes(one);
    assert_true(bytes > 0 && bytes <= sizeof x);
    assert_ok(ph_tensor_read(s->tape, one, x, bytes));
    assert_ok(ph_tensor_read(s->tape, two, y, bytes));
    assert_memory_equal(x, y, bytes);
    assert_ok(ph_tape_clear(s->tape));
}

/* ---- the library's own modules ---- */
TEST(layers_are_copied_with_memory_of_their_own)
{
    t_scene s;
    ph_module *part[6], *net, *copy;
    ph_layer_options no_bias = {.no_bias = true};
    t_scene_open(&s);
    assert_ok(ph_linear_create(&part[0], s.device, 4, 6));
    assert_ok(ph_activation_create(&part[1], s.device, "gelu", ph_gelu));
    assert_ok(ph_linear_create_with(&part[2], s.device, 6, 4, &no_bias));
    assert_ok(ph_layer_norm_create(&part[3], s.device, 4, NULL));
    assert_ok(ph_rms_norm_create(&part[4], s.device, 4, NULL));
    assert_ok(ph_dropout_create(&part[5], s.device, 0.5));
    assert_ok(ph_sequential_create(&net, part, 6));
    ph_module_train(net, false);
    ph_module_train(part[2], true);
    assert_ok(ph_tensor_set_requires_grad(ph_module_parameter(net, "0.weight"), false));
    assert_ok(ph_module_copy(&copy, net));
    expect_twins(&s, net, copy);
    expect_outputs(&s, net, copy, PH_SHAPE(2, 4));
    assert_false(ph_module_is_training(copy));
    assert_true(ph_module_is_training(ph_module_child(copy, "2")));
    assert_false(ph_module_is_training(ph_module_child(copy, "5")));
    for (int i = 0; i < 6; i++)
        ph_module_release(part[i]);
    ph_module_release(net); /* the copy needs nothing of it */
    expect_outputs(&s, copy, copy, PH_SHAPE(2, 4));
    ph_module_release(copy);
    t_scene_close(&s);
}

TEST(a_block_is_copied_and_trains_alone)
{
    t_scene s;
    ph_module *block, *copy;
    ph_optimizer *optimizer;
    float before[16], after[16];
    t_scene_open(&s);
    assert_ok(ph_transformer_block_create(&block, s.device, 4, 2, NULL));
    assert_ok(ph_module_copy(&copy, block));
    expect_twins(&s, block, copy);
    expect_outputs(&s, block, copy, PH_SHAPE(1, 3, 4));
    ph_tensor *weight = ph_module_parameter(block, "projection.weight");
    assert_ok(ph_tensor_read(s.tape, weight, before, sizeof before));
    assert_ok(ph_sgd_create(&optimizer, copy, &(ph_sgd_options){.lr = 1}));
    ph_tensor *x = t_counting(s.tape, PH_SHAPE(1, 3, 4));
    ph_backward(s.tape, ph_sum(s.tape, ph_square(s.tape, ph_call(s.tape, copy, x))));
    ph_optimizer_step(s.tape, optimizer);
    assert_ok(ph_tape_clear(s.tape));
    assert_null(ph_tensor_grad(weight));
    assert_ok(ph_tensor_read(s.tape, weight, after, sizeof after));
    assert_memory_equal(before, after, sizeof before);
    assert_ok(ph_tensor_read(s.tape, ph_module_parameter(copy, "projection.weight"), after,
                             sizeof after));
    assert_memory_not_equal(before, after, sizeof before);
    ph_optimizer_destroy(optimizer);
    ph_module_release(block);
    ph_module_release(copy);
    t_scene_close(&s);
}

/* ---- what is shared ---- */
TEST(what_is_shared_inside_is_shared_inside_the_copy)
{
    t_scene s;
    ph_module *copy;
    t_scene_open(&s);
    ph_tensor *weight = t_leaf(&s, PH_SHAPE(2), 3, 4);
    ph_module *shared = tied_open(&s, weight, NULL, true);
    ph_module *children[] = {tied_open(&s, weight, ph_module_retain(shared), true), shared, shared};
    ph_module *net;
    assert_ok(ph_sequential_create(&net, children, 3));
    assert_ok(ph_module_copy(&copy, net));
    expect_twins(&s, net, copy);
    expect_outputs(&s, net, copy, PH_SHAPE(2));
    ph_module *first = ph_module_child(copy, "0"), *second = ph_module_child(copy, "1");
    assert_ptr_equal(second, ph_module_child(copy, "2"));
    assert_ptr_equal(second, ph_module_child(copy, "0.inner"));
    assert_ptr_not_equal(second, shared);
    assert_ptr_equal(self_of(first)->weight, self_of(second)->weight);
    assert_ptr_not_equal(self_of(first)->weight, weight);
    ph_module_release(children[0]);
    ph_module_release(shared);
    ph_module_release(net);
    ph_module_release(copy);
    ph_tensor_release(weight);
    assert_int_equal(live, 0);
    t_scene_close(&s);
}

static void hook(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count, void *user)
{
    (void)tape;
    (void)module;
    (void)tensors;
    (void)count;
    ++*(int *)user;
}

TEST(gradients_and_hooks_stay_with_the_original)
{
    t_scene s;
    ph_module *copy;
    ph_module_hook *added;
    int calls = 0;
    t_scene_open(&s);
    ph_module *module = tied_open(&s, NULL, NULL, true);
    assert_ok(ph_module_hook_add(&added, module, PH_MODULE_HOOK_FORWARD, hook, &calls));
    ph_backward(s.tape, ph_sum(s.tape, ph_call(s.tape, module, t_input(&s, 1, 2))));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_module_copy(&copy, module));
    assert_non_null(ph_tensor_grad(self_of(module)->weight));
    assert_null(ph_tensor_grad(self_of(copy)->weight));
    assert_false(ph_module_has_hooks(copy));
    assert_int_equal(calls, 1);
    ph_module_hook_remove(added);
    ph_module_release(module);
    ph_module_release(copy);
    t_scene_close(&s);
}

/* ---- what is refused ---- */
static void expect_refused(ph_module *module, ph_status status, const char *words)
{
    ph_module *copy = module;
    int before = live;
    assert_error(ph_module_copy(&copy, module), status, words);
    assert_null(copy);
    assert_int_equal(live, before);
}

TEST(modules_without_a_copy_function_are_refused_by_name)
{
    t_scene s;
    ph_module *net;
    t_scene_open(&s);
    ph_module *plain = tied_open(&s, NULL, NULL, false);
    expect_refused(plain, PH_ERROR_UNSUPPORTED,
                   "ph_module_copy: the module itself (tied) has no copy function");
    ph_module *outer = tied_open(&s, NULL, plain, true);
    assert_ok(ph_sequential_create(&net, &outer, 1));
    expect_refused(net, PH_ERROR_UNSUPPORTED, "'0.inner' (tied) has no copy function");
    ph_module_release(outer);
    ph_module_release(net);
    t_scene_close(&s);
}

TEST(graphed_modules_are_refused_by_name)
{
    t_scene s;
    ph_module *linear, *graphed, *net;
    t_scene_open(&s);
    assert_ok(ph_linear_create(&linear, s.device, 2, 2));
    ph_tensor *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(1, 2));
    ph_sample sample = {.tensors = &x, .count = 1};
    assert_ok(ph_make_graphed_callables(&graphed, &linear, &sample, 1, NULL));
    expect_refused(graphed, PH_ERROR_STATE, "the module itself (linear) is a graphed module");
    assert_ok(ph_sequential_create(&net, &graphed, 1));
    expect_refused(net, PH_ERROR_STATE, "'0' (linear) is a graphed module");
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(net);
    ph_module_release(graphed);
    ph_module_release(linear);
    t_scene_close(&s);
}

TEST(copy_functions_that_are_wrong_are_refused)
{
    static const struct {
        int fail;
        ph_status status;
        const char *words;
    } cases[] = {
        {SHARES_WEIGHT, PH_ERROR_ARGUMENT, "without the copier's copy of weight"},
        {GIVES_OTHER, PH_ERROR_ARGUMENT, "without the copier's copy of inner"},
        {GIVES_NOTHING, PH_ERROR_ARGUMENT, "gave no module of its own kind"},
        {FAILS, PH_ERROR_CALLER, "no copies on Mondays"},
    };
    t_scene s;
    t_scene_open(&s);
    ph_module *module = tied_open(&s, NULL, tied_open(&s, NULL, NULL, true), true);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        self_of(module)->fail = cases[i].fail;
        expect_refused(module, cases[i].status, cases[i].words);
    }
    ph_module_release(module);
    t_scene_close(&s);
}

static void *copy_on_a_thread(void *module)
{
    ph_module *copy;
    ph_ignore(ph_module_copy(&copy, module));
    return module; /* not reached */
}

static void end_a_thread_in_a_copy(ph_module *net)
{
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, copy_on_a_thread, net), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
}

/* The host device keeps up to so many commands of a stream for later, and lets go of others a
 * little later. */
enum {
    ROUNDS = 50,
    KEPT = 20
};

TEST(a_copy_function_whose_thread_ends_leaves_nothing)
{
    t_scene s;
    ph_module *net, *copy;
    int64_t objects = 0;
    t_scene_open(&s);
    ph_module *children[] = {tied_open(&s, NULL, NULL, true), tied_open(&s, NULL, NULL, true)};
    assert_ok(ph_sequential_create(&net, children, 2));
    assert_ok(ph_module_copy(&copy, net)); /* what is made once is there */
    ph_module_release(copy);
    self_of(children[1])->fail = LEAVES;
    assert_ok(ph_device_synchronize(s.device));
    size_t allocated = t_allocated(&s);
    int before = live;
    for (int i = 0; i < ROUNDS; i++) {
        end_a_thread_in_a_copy(net);
        assert_int_equal(live, before);
        assert_ok(ph_device_synchronize(s.device));
        assert_int_equal(t_allocated(&s), allocated);
        if (i == 0)
            objects = ph__alloc_live();
    }
    /* one that each round left behind would be more than all that is kept */
    assert_in_range(ph__alloc_live(), 0, objects + KEPT);
    ph_module_release(children[0]);
    ph_module_release(children[1]);
    ph_module_release(net);
    t_scene_close(&s);
}

static ph_status copy_in_capture(ph_stream *stream, void *module)
{
    (void)stream;
    expect_refused(module, PH_ERROR_CAPTURE, "ph_module_copy: waits for the device");
    assert_native(900);
    return PH_OK;
}

TEST(bad_arguments_to_a_copy_are_refused)
{
    t_scene s;
    ph_module *module, *copy;
    ph_graph *graph;
    t_scene_open(&s);
    assert_ok(ph_linear_create(&module, s.device, 2, 2));
    assert_error(ph_module_copy(NULL, module), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_module_copy(&copy, NULL), PH_ERROR_ARGUMENT, "module");
    assert_error(ph_module_copier_tensor(NULL, NULL, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_module_copier_tensor(&(ph_tensor *){NULL}, NULL, NULL), PH_ERROR_ARGUMENT,
                 "copier");
    assert_error(ph_module_copier_module(NULL, NULL, NULL), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_module_copier_module(&copy, NULL, NULL), PH_ERROR_ARGUMENT, "copier");
    t_log_start();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, copy_in_capture, module));
    ph_graph_destroy(graph);
    t_log_stop();
    ph_module_release(module);
    t_scene_close(&s);
}

TEST(a_shortage_leaves_nothing_of_a_copy)
{
    t_scene s;
    ph_module *net, *copy = NULL;
    t_scene_open(&s);
    ph_module *children[] = {tied_open(&s, NULL, tied_open(&s, NULL, NULL, true), true), NULL};
    assert_ok(ph_activation_create(&children[1], s.device, "relu", ph_relu));
    assert_ok(ph_sequential_create(&net, children, 2));
    assert_ok(ph_module_copy(&copy, net)); /* what is made once is there */
    ph_module_release(copy);
    assert_ok(ph_device_synchronize(s.device));
    int64_t at = 0, objects = live;
    size_t allocated = t_allocated(&s);
    for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK; at++) {
        ph__alloc_fail_after(at);
        status = ph_module_copy(&copy, net);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK)
            continue;
        assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        assert_null(copy);
        assert_int_equal(live, objects);
        assert_ok(ph_device_synchronize(s.device));
        assert_int_equal(t_allocated(&s), allocated);
    }
    assert_true(at > 20);
    expect_twins(&s, net, copy);
    ph_module_release(children[0]);
    ph_module_release(children[1]);
    ph_module_release(net);
    ph_module_release(copy);
    assert_int_equal(live, 0);
    t_scene_close(&s);
}

/* ---- when the driver fails ---- */
static ph_status copy_and_release(void *module)
{
    ph_module *copy;
    ph_status status = ph_module_copy(&copy, module);
    ph_module_release(copy);
    return status;
}

static void expect_no_copy(ph_status status, void *module)
{
    (void)status;
    assert_int_equal(live, 2);
    assert_ok(ph_device_synchronize(ph_module_device(module)));
}

TEST(a_driver_that_fails_leaves_nothing_of_a_copy)
{
    t_scene s;
    t_scene_open(&s);
    ph_module *module = tied_open(&s, NULL, tied_open(&s, NULL, NULL, true), true);
    const t_swept swept = {
        .name = "ph_module_copy", .run = copy_and_release, .reset = expect_no_copy, .user = module};
    assert_ok(copy_and_release(module));
    t_sweep_driver(&swept);
    ph_module_release(module);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_copied_with_memory_of_their_own),
        cmocka_unit_test(a_block_is_copied_and_trains_alone),
        cmocka_unit_test(what_is_shared_inside_is_shared_inside_the_copy),
        cmocka_unit_test(gradients_and_hooks_stay_with_the_original),
        cmocka_unit_test(modules_without_a_copy_function_are_refused_by_name),
        cmocka_unit_test(graphed_modules_are_refused_by_name),
        cmocka_unit_test(copy_functions_that_are_wrong_are_refused),
        cmocka_unit_test(a_copy_function_whose_thread_ends_leaves_nothing),
        cmocka_unit_test(bad_arguments_to_a_copy_are_refused),
        cmocka_unit_test(a_shortage_leaves_nothing_of_a_copy),
        cmocka_unit_test(a_driver_that_fails_leaves_nothing_of_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
