/* SPDX-License-Identifier: MIT */
/* tests/nn/module_marks.c: scopes around calls of modules, by their names in the network. */
#include "support/annotated.h"
#include "support/graphed_nets.h"

#define BACKWARD "autograd_phase=backward "

/* A function of one operator. */
typedef ph_tensor *(*unary)(ph_tape *tape, ph_tensor *x);

static ph_module *activation(const t_scene *s, const char *kind, unary fn)
{
    ph_module *module;
    assert_ok(ph_activation_create(&module, s->device, kind, fn));
    return module;
}

/* net: "up" (exp), "layers" [ "0" { "act" (tanh) }, "1" (square) ]; its forward calls up, then both layers, then a module that is not in it. */
typedef struct net {
    ph_module *up, *layer, *act, *square, *layers, *all, *foreign;
    bool checkpointed;
} net;

static void layer_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const net *n = self;
    out[0] = ph_call(tape, n->act, in[0]);
    out[0] = ph_mul_scalar(tape, out[0], 2);
}

static void layer_again(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    const net *n = user;
    out[0] = ph_call(tape, n->layer, in[0]);
}

static void net_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    net *n = self;
    ph_tensor *up = ph_call(tape, n->up, in[0]), *x;
    if (n->checkpointed)
        ph_checkpoint(tape, layer_again, n, &x, 1, &up, 1);
    else
        x = ph_call(tape, n->layer, up);
    x = ph_call(tape, n->square, x); /* "layers" itself is never called */
    x = ph_call(tape, n->foreign, x);
    out[0] = ph_neg(tape, x);
}

static ph_module *parent(const t_scene *s, const char *kind, ph_forward_fn forward, net *n,
                         const ph_child *children, size_t count)
{
    ph_module *module;
    const ph_module_desc desc = {
        .name = kind, .forward = forward, .self = n, .children = children, .child_count = count};
    assert_ok(ph_module_create(&module, s->device, &desc));
    return module;
}

static void net_open(net *n, const t_scene *s)
{
    *n = (net){.up = activation(s, "exp", ph_exp),
               .act = activation(s, "tanh", ph_tanh),
               .square = activation(s, "square", ph_square),
               .foreign = activation(s, "abs", ph_abs)};
    n->layer = parent(s, "layer", layer_forward, n, (const ph_child[]){{"act", n->act}}, 1);
    n->layers = parent(s, "list", layer_forward, n, (const ph_child[]){{"0", n->layer}, {"1", n->square}}, 2);
    n->all = parent(s, "net", net_forward, n, (const ph_child[]){{"up", n->up}, {"layers", n->layers}}, 2);
}

static void net_close(net *n)
{
    ph_module *const all[] = {n->up, n->act, n->square, n->foreign, n->layer, n->layers, n->all};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ph_module_release(all[i]);
}

static void open_marked(t_annotated *a)
{
    t_annotated_open(a);
    ph_tape_destroy(a->tape);
    assert_ok(ph_tape_create(&a->s.tape, a->s.stream, &(ph_tape_options){.mark_modules = true}));
    a->tape = a->s.tape;
}

static void step(t_annotated *a)
{
    const net *n = a->user;
    ph_tensor *grad, *loss = ph_sum(a->tape, ph_call(a->tape, n->all, a->x));
    ph_grad(a->tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
}

#define FORWARD_NODES                                                                                        \
    {"name=net", 1}, {"name=up", 1}, {"name=layers.0", 1}, {"name=layers.0.act", 1}, {"name=layers.1", 1},   \
    {                                                                                                        \
        "name=abs", 1                                                                                        \
    }

static void test_names(void **state)
{
    (void)state;
    t_annotated a;
    net n;
    open_marked(&a);
    net_open(&n, &a.s);
    a.user = &n;
    t_annotate(&a, step);
    t_expect_annotations(a.graph, FORWARD_NODES, {BACKWARD "name=net", AT_LEAST_ONE},
                         {BACKWARD "name=up", AT_LEAST_ONE}, {BACKWARD "name=layers.0", AT_LEAST_ONE},
                         {BACKWARD "name=layers.0.act", AT_LEAST_ONE},
                         {BACKWARD "name=layers.1", AT_LEAST_ONE}, {BACKWARD "name=abs", AT_LEAST_ONE});
    net_close(&n);
    t_annotated_close(&a);
}

static void test_not_asked_for(void **state)
{
    (void)state;
    t_annotated a;
    net n;
    t_annotated_open(&a);
    net_open(&n, &a.s);
    a.user = &n;
    t_annotate(&a, step);
    t_expect_annotations(a.graph, {"", AT_LEAST_ONE});
    net_close(&n);
    t_annotated_close(&a);
}

/* The second run begins where the first did. */
static void test_checkpoints(void **state)
{
    (void)state;
    t_annotated a;
    net n;
    open_marked(&a);
    net_open(&n, &a.s);
    n.checkpointed = true;
    a.user = &n;
    t_annotate(&a, step);
    t_expect_annotations(a.graph, FORWARD_NODES, {BACKWARD "name=net", AT_LEAST_ONE},
                         {BACKWARD "name=up", AT_LEAST_ONE}, {BACKWARD "name=layers.0", 2},
                         {BACKWARD "name=layers.0.act", 2}, {BACKWARD "name=layers.1", AT_LEAST_ONE},
                         {BACKWARD "name=abs", AT_LEAST_ONE});
    net_close(&n);
    t_annotated_close(&a);
}

static void in_scopes(t_annotated *a)
{
    const net *n = a->user;
    t_begin_with(a->tape, "step", T_INTEGER("micro", 4));
    (void)ph_call(a->tape, n->layer, ph_detach(a->tape, a->x));
    t_end(a->tape);
}

static void test_scopes_around(void **state)
{
    (void)state;
    t_annotated a;
    net n;
    open_marked(&a);
    net_open(&n, &a.s);
    a.user = &n;
    t_annotate(&a, in_scopes);
    t_expect_annotations(a.graph, {"micro=4 name=layer", 1}, {"micro=4 name=act", 1});
    net_close(&n);
    t_annotated_close(&a);
}

/* ---- hooks ---- run in the module's scope; one that leaves a scope open does not shift the others. */
static void leave_open(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count, void *user)
{
    (void)module;
    (void)count;
    (void)user;
    tensors[0] = ph_mul_scalar(tape, tensors[0], 3);
    t_begin(tape, "hook");
}

static void test_hooks(void **state)
{
    (void)state;
    t_annotated a;
    net n;
    ph_module_hook *hook;
    open_marked(&a);
    net_open(&n, &a.s);
    a.user = &n;
    assert_ok(ph_module_hook_add(&hook, n.up, PH_MODULE_HOOK_FORWARD_PRE, leave_open, NULL));
    t_annotate(&a, step);
    t_expect_annotations(a.graph, {"name=net", 1}, {"name=up", 1}, {"name=hook", 1}, {"name=layers.0", 1},
                         {"name=layers.0.act", 1}, {"name=layers.1", 1}, {"name=abs", 1},
                         {BACKWARD "name=net", AT_LEAST_ONE}, {BACKWARD "name=up", AT_LEAST_ONE},
                         {BACKWARD "name=hook", AT_LEAST_ONE}, {BACKWARD "name=layers.0", AT_LEAST_ONE},
                         {BACKWARD "name=layers.0.act", AT_LEAST_ONE},
                         {BACKWARD "name=layers.1", AT_LEAST_ONE}, {BACKWARD "name=abs", AT_LEAST_ONE});
    ph_module_hook_remove(hook);
    net_close(&n);
    t_annotated_close(&a);
}

/* ---- graphed callables ---- */
static void test_graphed(void **state)
{
    (void)state;
    t_scene s;
    net n;
    ph_graph *forward, *backward;
    t_scene_open(&s);
    net_open(&n, &s);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(8), true);
    ph_module *graphed =
        gn_graph_one(n.all, x, &(ph_graphed_options){.enable_annotations = true, .mark_modules = true});
    assert_ok(ph_graphed_callable_graphs(&forward, &backward, graphed));
    t_expect_annotations(forward, {"name=net", AT_LEAST_ONE}, {"name=up", 1}, {"name=layers.0", 1},
                         {"name=layers.0.act", 1}, {"name=layers.1", 1}, {"name=abs", 1});
    t_expect_annotations(backward, {BACKWARD "name=net", AT_LEAST_ONE}, {BACKWARD "name=up", AT_LEAST_ONE},
                         {BACKWARD "name=layers.0", AT_LEAST_ONE},
                         {BACKWARD "name=layers.0.act", AT_LEAST_ONE},
                         {BACKWARD "name=layers.1", AT_LEAST_ONE}, {BACKWARD "name=abs", AT_LEAST_ONE});
    ph_tensor_release(x);
    ph_module_release(graphed);
    net_close(&n);
    t_scene_close(&s);
}

static void call_graphed(t_annotated *a)
{
    (void)ph_call(a->tape, a->user, a->x);
}

/* In a capture it calls the module that it was made from, whose names are the same. */
static void test_graphed_in_a_capture(void **state)
{
    (void)state;
    t_annotated a;
    net n;
    open_marked(&a);
    net_open(&n, &a.s);
    ph_tensor *x = gn_sample(&a.s, PH_SHAPE(8), true);
    ph_module *graphed = gn_graph_one(n.all, x, NULL);
    a.user = graphed;
    t_annotate(&a, call_graphed);
    t_expect_annotations(a.graph, FORWARD_NODES);
    ph_tensor_release(x);
    ph_module_release(graphed);
    net_close(&n);
    t_annotated_close(&a);
}

/* ---- shortages ---- */
static void test_no_host_memory(void **state)
{
    (void)state;
    t_annotated a;
    net n;
    bool failed = true;
    open_marked(&a);
    net_open(&n, &a.s);
    n.checkpointed = true;
    a.user = &n;
    t_annotate(&a, step);
    for (int64_t k = 0; failed; k++) {
        assert_true(k < 5000);
        assert_ok(ph_graph_reset(a.graph));
        ph__alloc_fail_after(k);
        ph_status status = t_capture_into(a.graph, &a, step, true, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        failed = status != PH_OK;
        assert_true(!failed || status == PH_ERROR_HOST_MEMORY);
        assert_int_equal(ph_mark_depth(), 0);
        ph_ignore(ph_tape_clear(a.tape));
    }
    net_close(&n);
    t_annotated_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_not_asked_for),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_scopes_around),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_graphed),
        cmocka_unit_test(test_graphed_in_a_capture),
        cmocka_unit_test(test_no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
