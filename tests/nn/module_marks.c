/* SPDX-License-Identifier: MIT */
/* tests/nn/module_marks.c: scopes around calls of modules, by their names in the network. */
#include "support/annotated.h"
#include "support/graphed_nets.h"
#include "support/test.h"

/* A function of one operator. */
typedef ph_tensor *(*unary)(ph_tape *tape, ph_tensor *x);

static ph_module *activation(const t_scene *s, const char *kind, unary fn)
{
    ph_module *module;
    assert_ok(ph_activation_create(&module, s->device, kind, fn));
    return module;
}

/* net: "up" (exp), "layers" [ "0" { "act" (tanh) }, "1" (square) ]; its forward calls up, then
 * both layers, then a module that is not in it. */
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
    n->layers = parent(s, "list", layer_forward, n,
                       (const ph_child[]){{"0", n->layer}, {"1", n->square}}, 2);
    n->all = parent(s, "net", net_forward, n,
                    (const ph_child[]){{"up", n->up}, {"layers", n->layers}}, 2);
}

static void net_close(net *n)
{
    ph_module *const all[] = {n->up, n->act, n->square, n->foreign, n->layer, n->layers, n->all};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ph_module_release(all[i]);
}

/* Captures of the net, on a tape that marks calls of modules, or does not. */
typedef struct marked {
    t_annotated a;
    net n;
} marked;

static void marked_open(marked *m, bool mark_modules)
{
    t_annotated *a = &m->a;
    t_annotated_open(a);
    ph_tape_destroy(a->tape);
    assert_ok(
        ph_tape_create(&a->s.tape, a->s.stream, &(ph_tape_options){.mark_modules = mark_modules}));
    a->tape = a->s.tape;
    net_open(&m->n, &a->s);
    a->user = &m->n;
}

static void marked_close(marked *m)
{
    net_close(&m->n);
    t_annotated_close(&m->a);
}

static void step(t_annotated *a)
{
    const net *n = a->user;
    t_grad_of(a, ph_call(a->tape, n->all, a->x));
}

#define LAYERS_NODES                                                                               \
    {"name=up", 1}, {"name=layers.0", 1}, {"name=layers.0.act", 1}, {"name=layers.1", 1},          \
    {                                                                                              \
        "name=abs", 1                                                                              \
    }
#define FORWARD_NODES {"name=net", 1}, LAYERS_NODES
/* With so many in "layers.0", and in the "act" of it. */
#define BACKWARD_NODES(layer, act)                                                                 \
    {BACKWARD "name=net", AT_LEAST_ONE}, {BACKWARD "name=up", AT_LEAST_ONE},                       \
        {BACKWARD "name=layers.0", (layer)}, {BACKWARD "name=layers.0.act", (act)},                \
        {BACKWARD "name=layers.1", AT_LEAST_ONE},                                                  \
    {                                                                                              \
        BACKWARD "name=abs", AT_LEAST_ONE                                                          \
    }

TEST(nodes_have_the_names_of_their_modules)
{
    marked m;
    marked_open(&m, true);
    t_annotate(&m.a, step);
    t_expect_annotations(m.a.graph, FORWARD_NODES, BACKWARD_NODES(AT_LEAST_ONE, AT_LEAST_ONE));
    marked_close(&m);
}

TEST(test_not_asked_for)
{
    marked m;
    marked_open(&m, false);
    t_annotate(&m.a, step);
    t_expect_annotations(m.a.graph, {"", AT_LEAST_ONE});
    marked_close(&m);
}

/* The second run begins where the first did. */
static void check_checkpointed(t_annotated *a)
{
    t_expect_annotations(a->graph, FORWARD_NODES, BACKWARD_NODES(2, 2));
}

TEST(both_runs_of_a_checkpoint_have_the_names_of_modules)
{
    marked m;
    marked_open(&m, true);
    m.n.checkpointed = true;
    t_annotate(&m.a, step);
    check_checkpointed(&m.a);
    marked_close(&m);
}

static void in_scopes(t_annotated *a)
{
    const net *n = a->user;
    t_begin_with(a->tape, "step", T_INTEGER("micro", 4));
    (void)ph_call(a->tape, n->layer, ph_detach(a->tape, a->x));
    t_end(a->tape);
}

TEST(test_scopes_around)
{
    marked m;
    marked_open(&m, true);
    t_annotate(&m.a, in_scopes);
    t_expect_annotations(m.a.graph, {"micro=4 name=layer", 1}, {"micro=4 name=act", 1});
    marked_close(&m);
}

/* ---- hooks ---- run in the module's scope; one that leaves a scope open does not shift the
 * others. */
static void leave_open(ph_tape *tape, ph_module *module, ph_tensor **tensors, size_t count,
                       void *user)
{
    (void)module;
    (void)count;
    (void)user;
    tensors[0] = ph_mul_scalar(tape, tensors[0], 3);
    t_begin(tape, "hook");
}

TEST(a_scope_left_open_by_hooks_ends_with_its_module)
{
    marked m;
    ph_module_hook *hook;
    marked_open(&m, true);
    assert_ok(ph_module_hook_add(&hook, m.n.up, PH_MODULE_HOOK_FORWARD_PRE, leave_open, NULL));
    t_annotate(&m.a, step);
    t_expect_annotations(m.a.graph, FORWARD_NODES, {"name=hook", 1},
                         BACKWARD_NODES(AT_LEAST_ONE, AT_LEAST_ONE),
                         {BACKWARD "name=hook", AT_LEAST_ONE});
    ph_module_hook_remove(hook);
    marked_close(&m);
}

/* ---- graphed callables ---- */
TEST(nodes_of_a_callable_have_the_names_of_modules)
{
    t_scene s;
    net n;
    ph_graph *forward, *backward;
    t_scene_open(&s);
    net_open(&n, &s);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(8), true);
    ph_module *graphed = gn_graph_one(
        n.all, x, &(ph_graphed_options){.enable_annotations = true, .mark_modules = true});
    assert_ok(ph_graphed_callable_graphs(&forward, &backward, graphed));
    t_expect_annotations(forward, {"name=net", AT_LEAST_ONE}, LAYERS_NODES);
    t_expect_annotations(backward, BACKWARD_NODES(AT_LEAST_ONE, AT_LEAST_ONE));
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
TEST(test_graphed_in_a_capture)
{
    marked m;
    marked_open(&m, true);
    ph_tensor *x = gn_sample(&m.a.s, PH_SHAPE(8), true);
    ph_module *graphed = gn_graph_one(m.n.all, x, NULL);
    m.a.user = graphed;
    t_annotate(&m.a, call_graphed);
    t_expect_annotations(m.a.graph, FORWARD_NODES);
    ph_tensor_release(x);
    ph_module_release(graphed);
    marked_close(&m);
}

/* ---- shortages ---- */
TEST(test_no_host_memory)
{
    marked m;
    marked_open(&m, true);
    m.n.checkpointed = true;
    t_faults faults = t_sweep_annotated(&m.a, step, check_checkpointed, &t_host_memory_fault);
    assert_true(faults.failures > 10);
    marked_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_have_the_names_of_their_modules),
        cmocka_unit_test(test_not_asked_for),
        cmocka_unit_test(both_runs_of_a_checkpoint_have_the_names_of_modules),
        cmocka_unit_test(test_scopes_around),
        cmocka_unit_test(a_scope_left_open_by_hooks_ends_with_its_module),
        cmocka_unit_test(nodes_of_a_callable_have_the_names_of_modules),
        cmocka_unit_test(test_graphed_in_a_capture),
        cmocka_unit_test(test_no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
