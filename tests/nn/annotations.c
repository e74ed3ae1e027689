/* SPDX-License-Identifier: MIT */
/* tests/nn/annotations.c: scopes in backward beyond PyTorch's own tests: hooks, failures,
 * checkpoints that open scopes themselves, shortages. */
#include "driver/driver.h"
#include "support/annotated.h"
#include "support/test.h"

#define PHASE "autograd_phase=backward"

/* ---- hooks ---- */
static ph_tensor *triple(ph_tape *tape, ph_tensor *grad, void *user)
{
    ++*(int *)user;
    return ph_mul_scalar(tape, grad, 3);
}

static void with_hooks(t_annotated *a)
{
    ph_tensor_hook *hook;
    t_begin(a->tape, "fwd");
    ph_tensor *y = ph_tanh(a->tape, a->x);
    t_end(a->tape);
    assert_ok(ph_tensor_hook_add(&hook, y, triple, a->user));
    ph_backward(a->tape, ph_sum(a->tape, y));
    ph_tensor_hook_remove(hook);
}

/* Of what an operator made: in its scope, as its backward. Of a leaf: in none, as its
 * accumulation. */
TEST(gradients_made_by_hooks_have_the_scope_of_their_operator)
{
    t_annotated a;
    ph_tensor_hook *hook;
    int calls = 0, on_leaf = 0;
    t_annotated_open(&a);
    a.user = &calls;
    t_annotate(&a, with_hooks);
    size_t plain = t_annotated_nodes(a.graph, "");
    t_expect_annotations(a.graph, {"name=fwd", 1}, {BACKWARD "name=fwd", 2});
    t_zero_grad(a.x);
    assert_ok(ph_tensor_hook_add(&hook, a.x, triple, &on_leaf));
    t_annotate(&a, with_hooks);
    t_expect_annotations(a.graph, {"name=fwd", 1}, {BACKWARD "name=fwd", 2}, {"", (int)plain + 1});
    ph_tensor_hook_remove(hook);
    assert_int_equal(calls, 2);
    assert_int_equal(on_leaf, 1);
    t_annotated_close(&a);
}

/* ---- sums ---- of gradients on their way are in no scope; broadcasting's are the operator's. */
static void with_broadcast(t_annotated *a)
{
    ph_tensor *h = ph_exp(a->tape, a->x);
    t_begin(a->tape, "fwd");
    ph_tensor *wide = ph_add(a->tape, h, ph_zeros(a->tape, PH_DTYPE_F32, PH_SHAPE(4, 8)));
    t_end(a->tape);
    ph_tensor *grad, *loss = ph_sum(a->tape, ph_add(a->tape, wide, a->user ? h : wide));
    ph_grad(a->tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
}

TEST(sums_of_gradients_on_their_way_are_in_no_scope)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, with_broadcast);
    int in_scope = (int)t_annotated_nodes(a.graph, BACKWARD "name=fwd");
    assert_in_range(in_scope, 1, 8);
    a.user = &a;
    t_annotate(&a, with_broadcast);
    t_expect_annotations(a.graph, {"name=fwd", AT_LEAST_ONE}, {BACKWARD "name=fwd", in_scope});
    t_annotated_close(&a);
}

/* ---- reasons ---- of what backward adds by itself: the record has them, and no scope. */
static void with_own_work(t_annotated *a)
{
    t_begin(a->tape, "fwd");
    ph_tensor *y = ph_exp(a->tape, a->x);
    t_end(a->tape);
    ph_backward(a->tape, ph_sum(a->tape, ph_add(a->tape, y, ph_tanh(a->tape, y))));
}

static void expect_reason(const char *json, const char *reason)
{
    char part[120];
    (void)snprintf(part, sizeof part, "\"made_for\":\"gradient of %s\"", reason);
    if (!strstr(json, part))
        fail_msg("%s is not in %s", part, json);
}

TEST(nodes_of_backward_itself_have_reasons)
{
    t_annotated a;
    const ph_record *record;
    char *json;
    t_annotated_open(&a);
    t_zero_grad(a.x);
    ph_tensor *zeros = t_leaf(&a.s, PH_SHAPE(8), 0, 0, 0, 0, 0, 0, 0, 0);
    assert_ok(ph_tensor_set_requires_grad(zeros, false));
    assert_ok(ph_tensor_set_grad(a.x, zeros));
    t_annotate(&a, with_own_work);
    assert_ok(ph_graph_record(&record, a.graph));
    assert_ok(ph_record_json(&json, record));
    expect_reason(json, "sum (seed)");
    expect_reason(json, "exp (sum)");
    expect_reason(json, "f32[8] (accumulate)");
    assert_null(strstr(json, "\"annotation\":{}"));
    t_expect_annotations(a.graph, {"name=fwd", AT_LEAST_ONE}, {BACKWARD "name=fwd", AT_LEAST_ONE},
                         {BACKWARD, 0});
    ph_string_free(json);
    ph_tensor_release(zeros);
    t_annotated_close(&a);
}

/* ---- forward_only ---- inside another scope: gradients keep that one's pairs. */
static void with_forward_only_inside(t_annotated *a)
{
    const ph_annotation_pair stage[] = {T_TEXT("stage", "embed")};
    ph_tensor *grad;
    t_begin_with(a->tape, "outer", T_INTEGER("layer", 3));
    t_begin_pairs(a->tape, "inner", stage, 1, true);
    ph_tensor *y = ph_tanh(a->tape, a->x);
    t_end(a->tape);
    t_end(a->tape);
    ph_tensor *loss = ph_sum(a->tape, y);
    ph_grad(a->tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
}

TEST(test_forward_only_inside_another_scope)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, with_forward_only_inside);
    t_expect_annotations(a.graph, {"layer=3 name=inner stage=embed", 1},
                         {BACKWARD "layer=3 name=outer", 1});
    t_annotated_close(&a);
}

/* ---- what callbacks leave open, or end too often ---- */
typedef struct careless {
    int begins, ends; /* in backward */
    bool fails;
} careless;

static void careless_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out,
                             ph_tensor *const *in)
{
    (void)custom;
    out[0] = ph_exp(tape, in[0]);
}

static void careless_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                              ph_tensor *const *grad_out, const bool *needed)
{
    const careless *c = ph_custom_user(custom);
    (void)needed;
    for (int i = 0; i < c->begins; i++)
        t_begin(tape, "left");
    for (int i = 0; i < c->ends; i++)
        t_end(tape);
    if (c->fails)
        ph_tape_fail(tape, PH_ERROR_CALLER, "careless");
    grad_in[0] = ph_mul_scalar(tape, grad_out[0], 2);
}

static void with_careless(t_annotated *a)
{
    ph_custom_operator op = {.name = "careless",
                             .forward = careless_forward,
                             .backward = careless_backward,
                             .user = a->user};
    ph_tensor *y, *grad;
    t_begin(a->tape, "first");
    ph_tensor *x = ph_tanh(a->tape, a->x);
    t_end(a->tape);
    t_begin(a->tape, "second");
    ph_custom_call(a->tape, &op, &y, 1, &x, 1);
    t_end(a->tape);
    ph_tensor *loss = ph_sum(a->tape, y);
    ph_grad(a->tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
}

TEST(test_scopes_left_open)
{
    t_annotated a;
    careless c = {.begins = 2};
    t_annotated_open(&a);
    a.user = &c;
    t_annotate(&a, with_careless);
    t_expect_annotations(a.graph, {"name=first", 1}, {"name=second", 1}, {BACKWARD "name=left", 1},
                         {BACKWARD "name=first", 1});
    c = (careless){.ends = 1};
    t_annotate(&a, with_careless);
    t_expect_annotations(a.graph, {"name=first", 1}, {"name=second", 1},
                         {BACKWARD "name=first", 1});
    t_annotated_close(&a);
}

TEST(test_failure_in_backward)
{
    t_annotated a;
    careless c = {.begins = 3, .fails = true};
    t_annotated_open(&a);
    a.user = &c;
    assert_ok(ph_graph_create(&a.graph, NULL));
    t_begin(a.tape, "around"); /* stays */
    assert_error(t_capture_into(a.graph, &a, with_careless, true, NULL), PH_ERROR_CALLER,
                 "careless");
    assert_int_equal(ph_annotation_depth(), 1);
    /* Outside a capture too. */
    with_careless(&a);
    t_expect_failure(&a.s, PH_ERROR_CALLER, "careless");
    assert_int_equal(ph_annotation_depth(), 1);
    t_end(a.tape);
    c = (careless){.begins = 1, .ends = 1};
    ph_graph_destroy(a.graph);
    a.graph = NULL;
    t_annotate(&a, with_careless);
    t_annotated_close(&a);
}

/* ---- functions that leave early ---- */
static ph_tensor *leave_early(ph_tape *tape, ph_tensor *x)
{
    ph_tape_check(tape, ph_annotation_push(ph_tape_stream(tape), "early", NULL));
    ph_tape_check(tape, ph_annotation_push(ph_tape_stream(tape), "earlier", NULL));
    ph_tensor *y = ph_add(tape, x, ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(3)));
    if (!y)
        return NULL;
    ph_tape_check(tape, ph_annotation_pop(ph_tape_stream(tape)));
    ph_tape_check(tape, ph_annotation_pop(ph_tape_stream(tape)));
    return y;
}

static void early_custom(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    (void)custom;
    out[0] = leave_early(tape, in[0]);
}

static void early_checkpoint(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = leave_early(tape, in[0]);
}

TEST(test_functions_that_leave_early)
{
    t_annotated a;
    ph_tensor *y;
    ph_module *module;
    const ph_custom_operator op = {
        .name = "early", .forward = early_custom, .backward = careless_backward};
    const ph_module_desc desc = {.name = "early", .forward = early_checkpoint};
    t_annotated_open(&a);
    assert_ok(ph_module_create(&module, a.s.device, &desc));
    t_begin(a.tape, "around");
    ph_custom_call(a.tape, &op, &y, 1, &a.x, 1);
    t_expect_failure(&a.s, PH_ERROR_ARGUMENT, "add");
    assert_int_equal(ph_annotation_depth(), 1);
    ph_checkpoint(a.tape, early_checkpoint, NULL, &y, 1, &a.x, 1);
    t_expect_failure(&a.s, PH_ERROR_ARGUMENT, "add");
    assert_int_equal(ph_annotation_depth(), 1);
    assert_null(ph_call(a.tape, module, a.x));
    t_expect_failure(&a.s, PH_ERROR_ARGUMENT, "add");
    assert_int_equal(ph_annotation_depth(), 1);
    t_end(a.tape);
    ph_module_release(module);
    t_annotated_close(&a);
}

/* ---- checkpoints ---- whose functions open scopes, and nest. */
static void inner_function(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    t_begin(tape, "inner");
    out[0] = ph_exp(tape, in[0]);
    t_end(tape);
}

static void outer_function(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    ph_tensor *x = ph_square(tape, in[0]);
    t_begin(tape, "outer");
    out[0] = x = ph_tanh(tape, x);
    if (user)
        ph_checkpoint(tape, inner_function, NULL, out, 1, &x, 1);
    t_end(tape);
}

static void with_checkpoint(t_annotated *a)
{
    ph_tensor *y, *grad;
    ph_checkpoint(a->tape, outer_function, a->user, &y, 1, &a->x, 1);
    ph_tensor *loss = ph_sum(a->tape, y);
    ph_grad(a->tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
}

/* The function is called in no scope: what it runs again outside of its own has the phase alone. */
TEST(test_checkpoint_that_opens_scopes)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, with_checkpoint);
    t_expect_annotations(a.graph, {"name=outer", 1}, {PHASE, 1}, {BACKWARD "name=outer", 2});
    /* exp is run three times: alone, in the second run of what is around it, and in its own */
    a.user = &a;
    t_annotate(&a, with_checkpoint);
    t_expect_annotations(a.graph, {"name=outer", 1}, {"name=inner", 1}, {PHASE, 1},
                         {BACKWARD "name=outer", 2}, {BACKWARD "name=inner", 3});
    t_annotated_close(&a);
}

static void plain_function(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = ph_tanh(tape, in[0]);
}

static void with_plain_checkpoint(t_annotated *a)
{
    ph_tensor *y, *grad;
    ph_checkpoint(a->tape, plain_function, NULL, &y, 1, &a->x, 1);
    t_begin(a->tape, "after");
    ph_tensor *loss = ph_sum(a->tape, ph_exp(a->tape, y));
    t_end(a->tape);
    ph_grad(a->tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
}

TEST(test_checkpoint_in_no_scope)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, with_plain_checkpoint);
    t_expect_annotations(a.graph, {"name=after", AT_LEAST_ONE},
                         {BACKWARD "name=after", AT_LEAST_ONE});
    t_annotated_close(&a);
}

/* ---- threads ---- history may be made on one, and used on another, which has scopes of its
 * own. */
static void forward_alone(t_annotated *a)
{
    t_begin(a->tape, "fwd");
    a->user = ph_sum(a->tape, ph_tanh(a->tape, a->x));
    t_end(a->tape);
}

static void backward_alone(t_annotated *a)
{
    ph_tensor *grad, *loss = a->user;
    t_begin_with(a->tape, NULL, T_INTEGER("step", 7));
    ph_grad(a->tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
    t_end(a->tape);
}

typedef struct on_thread {
    t_annotated *a;
    ph_graph *graph;
    ph_pool *pool;
    size_t depth; /* on arrival */
} on_thread;

static void *capture_there(void *user)
{
    on_thread *t = user;
    t->depth = ph_annotation_depth();
    assert_ok(t_capture_into(t->graph, t->a, backward_alone, true, t->pool));
    return NULL;
}

TEST(test_another_thread)
{
    t_annotated a;
    on_thread t = {.a = &a};
    pthread_t thread;
    t_annotated_open(&a);
    a.keep_history = true;
    t_annotate(&a, forward_alone);
    assert_ok(ph_graph_create(&t.graph, NULL));
    assert_ok(ph_graph_pool(&t.pool, a.graph));
    t_begin(a.tape, "here");
    assert_int_equal(pthread_create(&thread, NULL, capture_there, &t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    t_end(a.tape);
    assert_int_equal(t.depth, 0);
    t_expect_annotations(t.graph, {BACKWARD "name=fwd step=7", AT_LEAST_ONE}, {"", 0},
                         {"step=7", 1});
    assert_ok(ph_tape_clear(a.tape));
    ph_graph_destroy(t.graph);
    t_annotated_close(&a);
}

/* ---- values ---- are the same in scopes as without. */
static void interleaved(t_annotated *a)
{
    ph_tensor *x = a->x;
    for (int i = 0; i < 12; i++) {
        if (a->user)
            t_begin_with(a->tape, i % 3 ? "some" : "others", T_INTEGER("i", i / 2));
        x = i % 2 ? ph_tanh(a->tape, x) : ph_add(a->tape, x, a->x);
        if (a->user)
            t_end(a->tape);
    }
    ph_backward(a->tape, ph_sum(a->tape, x));
}

TEST(annotations_leave_the_gradients_as_they_are)
{
    t_annotated a;
    float want[8], got[8];
    t_annotated_open(&a);
    for (int marked = 0; marked < 2; marked++) {
        t_zero_grad(a.x);
        a.user = marked ? &a : NULL;
        t_annotate(&a, interleaved);
        assert_ok(ph_graph_replay(a.graph, a.s.stream));
        assert_ok(ph_tensor_read(a.tape, ph_tensor_grad(a.x), marked ? got : want, sizeof got));
        assert_ok(ph_tape_clear(a.tape));
    }
    assert_memory_equal(got, want, sizeof got);
    assert_int_equal(t_annotated_nodes(a.graph, BACKWARD "i=0 name=some") +
                         t_annotated_nodes(a.graph, BACKWARD "i=0 name=others"),
                     1); /* that of tanh: add's gradients are those that came */
    t_annotated_close(&a);
}

/* ---- shortages ---- */
static void all_of_it(t_annotated *a)
{
    ph_tape *tape = a->tape;
    ph_stream *stream = ph_tape_stream(tape);
    ph_tensor *y, *grad;
    ph_tape_check(tape, ph_annotation_push(stream, "block", NULL));
    ph_checkpoint(tape, plain_function, NULL, &y, 1, &a->x, 1);
    ph_tensor *z = ph_exp(tape, y);
    if (ph_annotation_depth() > 0)
        ph_tape_check(tape, ph_annotation_pop(stream));
    ph_tensor *loss = ph_sum(tape, ph_add(tape, z, ph_tanh(tape, a->x)));
    ph_grad(tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
}

static void check_all(t_annotated *a)
{
    t_expect_annotations(a->graph, {"name=block", 2}, {BACKWARD "name=block", 3});
}

static t_faults sweep(const t_fault *fault)
{
    t_annotated a;
    t_annotated_open(&a);
    t_faults faults = t_sweep_annotated(&a, all_of_it, check_all, fault);
    t_annotated_close(&a);
    return faults;
}

TEST(test_no_host_memory)
{
    assert_true(sweep(&t_host_memory_fault).failures > 10);
}

/* Each of the driver's calls in turn, those that scopes make in backward among them. */
TEST(test_driver_faults)
{
    t_faults faults = sweep(t_driver_fault(PH__R_LAUNCH_FAILED));
    assert_true(faults.failures > faults.reached / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_made_by_hooks_have_the_scope_of_their_operator),
        cmocka_unit_test(sums_of_gradients_on_their_way_are_in_no_scope),
        cmocka_unit_test(nodes_of_backward_itself_have_reasons),
        cmocka_unit_test(test_forward_only_inside_another_scope),
        cmocka_unit_test(test_scopes_left_open),
        cmocka_unit_test(test_failure_in_backward),
        cmocka_unit_test(test_functions_that_leave_early),
        cmocka_unit_test(test_checkpoint_that_opens_scopes),
        cmocka_unit_test(test_checkpoint_in_no_scope),
        cmocka_unit_test(test_another_thread),
        cmocka_unit_test(annotations_leave_the_gradients_as_they_are),
        cmocka_unit_test(test_no_host_memory),
        cmocka_unit_test(test_driver_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
