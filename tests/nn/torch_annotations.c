/* SPDX-License-Identifier: MIT */
/* tests/nn/torch_annotations.c: what PyTorch's tests ask of annotations in backward. Each test
 * carries the name of the behaviour that it holds. */
#include "support/annotated.h"
#include "support/graphed_nets.h"
#include "support/test.h"

/* Two kernels forward, and two backward. */
static ph_tensor *two(ph_tape *tape, ph_tensor *x)
{
    return ph_tanh(tape, ph_mul_scalar(tape, x, 2));
}

/* They, of x, in a scope. */
static ph_tensor *two_in_scope(t_annotated *a, const char *name)
{
    t_begin(a->tape, name);
    ph_tensor *y = two(a->tape, a->x);
    t_end(a->tape);
    return y;
}

static void check(t_annotated_fn body, const t_wanted *wanted, size_t count)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, body);
    t_expect_annotations_of(a.graph, wanted, count);
    t_annotated_close(&a);
}
#define CHECK(body, ...)                                                                           \
    check((body), (const t_wanted[]){__VA_ARGS__},                                                 \
          sizeof((const t_wanted[]){__VA_ARGS__}) / sizeof(t_wanted))

/* ---- one scope ---- */
static void one_scope(t_annotated *a)
{
    t_grad_of(a, two_in_scope(a, "fwd_scope"));
}

static void with_backward(t_annotated *a)
{
    ph_backward(a->tape, ph_sum(a->tape, two_in_scope(a, "fwd_scope")));
}

/* Also where the gradient is added to one that is there: that addition is in no scope. */
TEST(test_backward_direct_with_preallocated_grad)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, with_backward);
    size_t plain = t_annotated_nodes(a.graph, "");
    size_t tagged = t_annotated_nodes(a.graph, BACKWARD "name=fwd_scope");
    t_expect_annotations(a.graph, {"name=fwd_scope", 2}, {BACKWARD "name=fwd_scope", AT_LEAST_ONE});
    t_zero_grad(a.x);
    ph_tensor *zeros = t_leaf(&a.s, PH_SHAPE(8), 0, 0, 0, 0, 0, 0, 0, 0);
    assert_ok(ph_tensor_set_requires_grad(zeros, false));
    assert_ok(ph_tensor_set_grad(a.x, zeros));
    t_annotate(&a, with_backward);
    assert_int_equal(t_annotated_nodes(a.graph, ""), plain + 1);
    assert_int_equal(t_annotated_nodes(a.graph, BACKWARD "name=fwd_scope"), tagged);
    assert_ptr_equal(ph_tensor_grad(a.x), zeros);
    ph_tensor_release(zeros);
    t_annotated_close(&a);
}

TEST(test_backward_accumulate_grad_excluded)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, one_scope);
    size_t tagged = t_annotated_nodes(a.graph, BACKWARD "name=fwd_scope");
    assert_in_range(tagged, 2, 16);
    t_expect_annotations(a.graph, {"name=fwd_scope", 2}, {BACKWARD "name=fwd_scope", AT_LEAST_ONE});
    for (int pass = 0; pass < 2; pass++) {
        t_annotate(&a, with_backward);
        t_expect_annotations(a.graph, {"name=fwd_scope", 2},
                             {BACKWARD "name=fwd_scope", (int)tagged});
    }
    t_annotated_close(&a);
}

static void from_outputs(t_annotated *a)
{
    ph_tensor *y = two_in_scope(a, "fwd_scope");
    ph_tensor *grad = ph_full(a->tape, PH_DTYPE_F32, PH_SHAPE(8), 1);
    ph_backward_from(a->tape, &y, &grad, 1, NULL);
}

TEST(test_backward_explicit_backward_entry_point)
{
    CHECK(from_outputs, {"name=fwd_scope", 2}, {BACKWARD "name=fwd_scope", AT_LEAST_ONE});
}

/* ---- several ---- */
static void two_uses(t_annotated *a)
{
    t_begin(a->tape, "sin");
    ph_tensor *sin = ph_tanh(a->tape, a->x);
    t_end(a->tape);
    t_begin(a->tape, "cos");
    ph_tensor *cos = ph_exp(a->tape, a->x);
    t_end(a->tape);
    ph_backward(a->tape, ph_sum(a->tape, ph_add(a->tape, sin, cos)));
}

/* The sum of the two gradients is neither's. */
TEST(test_backward_multi_use_leaf)
{
    CHECK(two_uses, {"name=sin", 1}, {"name=cos", 1}, {BACKWARD "name=sin", 1},
          {BACKWARD "name=cos", 1});
}

static void forward_only(t_annotated *a)
{
    t_begin_pairs(a->tape, "fwd_only", NULL, 0, true);
    ph_tensor *y = two(a->tape, a->x);
    t_end(a->tape);
    t_grad_of(a, y);
}

TEST(test_backward_false_annotates_forward_only)
{
    CHECK(forward_only, {"name=fwd_only", 2});
}

static void outer_forward_only(t_annotated *a)
{
    const ph_annotation_pair phase[] = {T_TEXT("phase", "P")};
    t_begin_pairs(a->tape, "outer", phase, 1, true);
    ph_tensor *y = two_in_scope(a, "inner");
    t_end(a->tape);
    t_grad_of(a, y);
}

TEST(test_backward_false_outer_keys_inherited_via_inner_scope)
{
    CHECK(outer_forward_only, {"name=inner phase=P", 2},
          {BACKWARD "name=inner phase=P", AT_LEAST_ONE});
}

static void nested_without_names(t_annotated *a)
{
    t_begin_with(a->tape, NULL, T_INTEGER("layer", 1), T_TEXT("kind", "outer"));
    t_begin_with(a->tape, NULL, T_TEXT("kind", "inner"), T_BOOL("extra", true));
    ph_tensor *y = two(a->tape, a->x);
    t_end(a->tape);
    t_end(a->tape);
    t_grad_of(a, y);
}

TEST(test_backward_nested_dict_annotations_without_name)
{
    CHECK(nested_without_names, {"extra=true kind=inner layer=1", 2},
          {BACKWARD "extra=true kind=inner layer=1", AT_LEAST_ONE});
}

static void after_inner(t_annotated *a)
{
    t_begin_with(a->tape, "outer", T_INTEGER("layer", 1));
    t_begin(a->tape, "inner");
    ph_tensor *y = ph_tanh(a->tape, a->x);
    t_end(a->tape);
    y = ph_exp(a->tape, y);
    t_end(a->tape);
    t_grad_of(a, y);
}

TEST(test_backward_node_after_inner_scope_exit)
{
    CHECK(after_inner, {"layer=1 name=inner", 1}, {"layer=1 name=outer", 1},
          {BACKWARD "layer=1 name=inner", AT_LEAST_ONE},
          {BACKWARD "layer=1 name=outer", AT_LEAST_ONE});
}

/* ---- what is in no scope ---- */
static void with_unmarked(t_annotated *a)
{
    ph_tensor *y = a->x;
    if (a->user)
        y = ph_exp(a->tape, y);
    t_begin(a->tape, "marked");
    y = ph_tanh(a->tape, y);
    t_end(a->tape);
    t_grad_of(a, a->user ? ph_square(a->tape, y) : y);
}

TEST(test_backward_unmarked_nodes_not_tagged)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, with_unmarked);
    t_expect_annotations(a.graph, {"name=marked", 1}, {BACKWARD "name=marked", AT_LEAST_ONE});
    size_t tagged = t_annotated_nodes(a.graph, BACKWARD "name=marked");
    size_t plain = t_annotated_nodes(a.graph, "");
    a.user = &a;
    t_annotate(&a, with_unmarked);
    t_expect_annotations(a.graph, {"name=marked", 1}, {BACKWARD "name=marked", (int)tagged});
    assert_in_range(t_annotated_nodes(a.graph, ""), plain + 4, plain + 16);
    t_annotated_close(&a);
}

static void shared_value(t_annotated *a)
{
    ph_tensor *h = two_in_scope(a, "region_a");
    t_begin(a->tape, "region_b");
    ph_tensor *y = ph_exp(a->tape, h);
    y = ph_square(a->tape, y);
    t_end(a->tape);
    if (a->user)
        y = ph_add(a->tape, y, ph_exp(a->tape, h));
    t_grad_of(a, y);
}

TEST(test_backward_shared_nonleaf_multi_consumer)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, shared_value);
    int in_a = (int)t_annotated_nodes(a.graph, BACKWARD "name=region_a");
    int in_b = (int)t_annotated_nodes(a.graph, BACKWARD "name=region_b");
    assert_in_range(in_a, 1, 16);
    assert_in_range(in_b, 1, 16);
    a.user = &a;
    t_annotate(&a, shared_value);
    t_expect_annotations(a.graph, {"name=region_a", 2}, {"name=region_b", 2},
                         {BACKWARD "name=region_a", in_a}, {BACKWARD "name=region_b", in_b});
    t_annotated_close(&a);
}

static void around_backward(t_annotated *a)
{
    t_begin_with(a->tape, "fwd", T_INTEGER("layer", 3));
    ph_tensor *y = ph_tanh(a->tape, a->x);
    t_end(a->tape);
    ph_tensor *loss = ph_sum(a->tape, ph_square(a->tape, y)), *grad;
    t_begin_with(a->tape, "bwd_pass", T_INTEGER("step", 7));
    ph_grad(a->tape, &grad, &a->x, 1, &loss, NULL, 1, NULL);
    t_end(a->tape);
}

TEST(test_backward_scope_around_backward_call_merges)
{
    CHECK(around_backward, {"layer=3 name=fwd", 1},
          {BACKWARD "layer=3 name=fwd step=7", AT_LEAST_ONE},
          {"name=bwd_pass step=7", AT_LEAST_ONE});
}

/* ---- custom operators ---- y = tanh(x), whose backward does what the test asks. */
typedef enum custom_kind {
    INNER_SCOPE,
    NESTED_PASS
} custom_kind;

static void custom_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    out[0] = ph_tanh(tape, in[0]);
    ph_custom_save(custom, in, 1);
}

static void custom_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    const custom_kind *kind = ph_custom_user(custom);
    ph_tensor *grad = ph_mul_scalar(tape, grad_out[0], 3);
    (void)needed;
    if (*kind == INNER_SCOPE) {
        t_begin(tape, "inner");
        grad_in[0] = ph_mul_scalar(tape, grad, 5);
        t_end(tape);
        return;
    }
    ph_tensor *leaf = ph_detach(tape, ph_custom_saved(custom, 0)), *found;
    assert_ok(ph_tensor_set_requires_grad(leaf, true));
    bool enabled = ph_tape_set_grad_enabled(tape, true);
    t_begin(tape, "inner_bwd");
    ph_tensor *again = ph_tanh(tape, leaf);
    t_end(tape);
    ph_grad(tape, &found, &leaf, 1, &again, &grad, 1, NULL);
    ph_tape_set_grad_enabled(tape, enabled);
    grad_in[0] = found;
}

static void with_custom(t_annotated *a)
{
    ph_custom_operator op = {
        .name = "scaled", .forward = custom_forward, .backward = custom_backward, .user = a->user};
    ph_tensor *y;
    t_begin_with(a->tape, "fwd", T_INTEGER("layer", 3));
    ph_custom_call(a->tape, &op, &y, 1, &a->x, 1);
    t_end(a->tape);
    t_grad_of(a, y);
}

static void check_custom(custom_kind kind, t_wanted in_backward)
{
    t_annotated a;
    t_annotated_open(&a);
    a.user = &kind;
    t_annotate(&a, with_custom);
    t_expect_annotations(a.graph, {"layer=3 name=fwd", 1}, {BACKWARD "layer=3 name=fwd", 1},
                         in_backward);
    t_annotated_close(&a);
}

TEST(test_backward_scope_inside_custom_backward_wins)
{
    check_custom(INNER_SCOPE, (t_wanted){BACKWARD "layer=3 name=inner", 1});
}

TEST(test_backward_nested_backward_inside_custom_backward)
{
    /* The inner forward, and its backward. */
    check_custom(NESTED_PASS, (t_wanted){BACKWARD "layer=3 name=inner_bwd", 2});
}

/* ---- lanes ---- */
static void in_lane(t_annotated *a)
{
    assert_ok(ph_annotation_push(a->s.stream, "lane", &(ph_annotation_options){.lane = true}));
    ph_tensor *y = two(a->tape, a->x);
    t_end(a->tape);
    t_grad_of(a, y);
}

TEST(test_backward_mark_stream_differentiable)
{
    t_annotated a;
    uint32_t lane;
    char forward[64], backward[64];
    t_annotated_open(&a);
    assert_ok(ph_stream_lane(&lane, a.s.stream));
    (void)snprintf(forward, sizeof forward, "name=lane stream=%u", lane);
    (void)snprintf(backward, sizeof backward, BACKWARD "name=lane stream=%u", lane);
    t_annotate(&a, in_lane);
    t_expect_annotations(a.graph, {forward, 2}, {backward, AT_LEAST_ONE});
    t_annotated_close(&a);
}

/* ---- checkpoints ---- */
static void checkpointed(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *user)
{
    (void)user;
    out[0] = two(tape, in[0]);
}

static void with_checkpoint(t_annotated *a)
{
    ph_tensor *y;
    t_begin(a->tape, "block");
    ph_checkpoint(a->tape, checkpointed, NULL, &y, 1, &a->x, 1);
    t_end(a->tape);
    t_grad_of(a, y);
}

TEST(test_backward_checkpoint_recompute_attributed)
{
    /* What is run again, and the gradients. */
    CHECK(with_checkpoint, {"name=block", 2}, {BACKWARD "name=block", 4});
}

/* ---- more than one capture ---- */
typedef struct separate {
    ph_tensor *loss;
    bool retain;
} separate;

static void forward_alone(t_annotated *a)
{
    separate *s = a->user;
    t_begin(a->tape, "fwd_scope");
    s->loss = ph_sum(a->tape, two(a->tape, a->x));
    t_end(a->tape);
}

static void backward_alone(t_annotated *a)
{
    separate *s = a->user;
    ph_tensor *grad;
    ph_grad(a->tape, &grad, &a->x, 1, &s->loss, NULL, 1,
            &(ph_grad_options){.retain_graph = s->retain});
}

/* Forward is captured, and its history kept. */
static void open_separate(t_annotated *a, separate *s)
{
    t_annotated_open(a);
    *s = (separate){.retain = true};
    a->user = s;
    a->keep_history = true;
    t_annotate(a, forward_alone);
}

/* In a graph of its own, with the pool of forward's. */
static ph_graph *capture_backward(t_annotated *a)
{
    ph_graph *graph;
    ph_pool *pool;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_pool(&pool, a->graph));
    assert_ok(t_capture_into(graph, a, backward_alone, true, pool));
    return graph;
}

static void close_separate(t_annotated *a, ph_graph *backward)
{
    assert_ok(ph_tape_clear(a->tape));
    ph_graph_destroy(backward);
    t_annotated_close(a);
}

TEST(test_backward_captured_in_separate_graph)
{
    t_annotated a;
    separate s;
    open_separate(&a, &s);
    t_expect_annotations(a.graph, {"name=fwd_scope", AT_LEAST_ONE});
    ph_graph *backward = capture_backward(&a);
    t_expect_annotations(backward, {BACKWARD "name=fwd_scope", AT_LEAST_ONE});
    close_separate(&a, backward);
}

TEST(test_backward_clear_then_retained_backward)
{
    t_annotated a;
    separate s;
    open_separate(&a, &s);
    ph_clear_kernel_annotations();
    ph_graph *backward = capture_backward(&a);
    t_expect_annotations(backward, {"", AT_LEAST_ONE});
    assert_int_equal(t_all_annotations(), 0);
    close_separate(&a, backward);
}

TEST(test_backward_scope_after_clear_records)
{
    t_annotated a;
    t_annotated_open(&a);
    t_annotate(&a, one_scope);
    ph_clear_kernel_annotations();
    t_annotate(&a, one_scope);
    t_expect_annotations(a.graph, {"name=fwd_scope", 2}, {BACKWARD "name=fwd_scope", AT_LEAST_ONE});
    t_annotated_close(&a);
}

TEST(test_backward_outside_capture_is_noop)
{
    t_annotated a;
    separate s;
    open_separate(&a, &s);
    size_t before = t_all_annotations();
    assert_in_range(before, 1, 64);
    assert_ok(ph_graph_replay(a.graph, a.s.stream));
    backward_alone(&a);
    assert_ok(ph_tape_status(a.tape));
    assert_int_equal(t_all_annotations(), before);
    assert_int_equal(ph_annotation_depth(), 0);
    t_annotated_close(&a);
}

TEST(test_eager_forward_backward_noop)
{
    t_annotated a;
    t_annotated_open(&a);
    size_t before = t_all_annotations();
    one_scope(&a);
    assert_ok(ph_tape_status(a.tape));
    assert_int_equal(t_all_annotations(), before);
    t_annotated_close(&a);
}

/* ---- graphed callables ---- */
typedef struct scoped {
    ph_module *linear; /* the module retains it */
} scoped;

static void scoped_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const scoped *s = self;
    ph_tape_check(tape, ph_annotation_push(ph_tape_stream(tape), "graphed_fwd", NULL));
    out[0] = ph_relu(tape, ph_call(tape, s->linear, in[0]));
    ph_tape_check(tape, ph_annotation_pop(ph_tape_stream(tape)));
}

TEST(test_make_graphed_callables_annotations)
{
    t_scene s;
    scoped self;
    ph_module *module, *graphed;
    ph_graph *forward, *backward;
    t_scene_open(&s);
    assert_ok(ph_linear_create(&self.linear, s.device, 8, 8));
    const ph_child child = {"linear", self.linear};
    const ph_module_desc desc = {.name = "scoped",
                                 .forward = scoped_forward,
                                 .self = &self,
                                 .children = &child,
                                 .child_count = 1};
    assert_ok(ph_module_create(&module, s.device, &desc));
    ph_tensor *x = gn_sample(&s, PH_SHAPE(4, 8), true);
    graphed = gn_graph_one(module, x, &(ph_graphed_options){.enable_annotations = true});
    assert_ok(ph_graphed_callable_graphs(&forward, &backward, graphed));
    t_expect_annotations(forward, {"name=graphed_fwd", AT_LEAST_ONE});
    t_expect_annotations(backward, {BACKWARD "name=graphed_fwd", AT_LEAST_ONE});
    ph_backward(s.tape, ph_sum(s.tape, ph_call(s.tape, graphed, x)));
    assert_ok(ph_tape_clear(s.tape));
    assert_non_null(ph_tensor_grad(x));
    assert_non_null(ph_tensor_grad(ph_module_parameter(module, "linear.weight")));
    assert_non_null(ph_tensor_grad(ph_module_parameter(module, "linear.bias")));
    ph_tensor_release(x);
    ph_module_release(graphed);
    ph_module_release(module);
    ph_module_release(self.linear);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward_direct_with_preallocated_grad),
        cmocka_unit_test(test_backward_accumulate_grad_excluded),
        cmocka_unit_test(test_backward_explicit_backward_entry_point),
        cmocka_unit_test(test_backward_multi_use_leaf),
        cmocka_unit_test(test_backward_false_annotates_forward_only),
        cmocka_unit_test(test_backward_false_outer_keys_inherited_via_inner_scope),
        cmocka_unit_test(test_backward_nested_dict_annotations_without_name),
        cmocka_unit_test(test_backward_node_after_inner_scope_exit),
        cmocka_unit_test(test_backward_unmarked_nodes_not_tagged),
        cmocka_unit_test(test_backward_shared_nonleaf_multi_consumer),
        cmocka_unit_test(test_backward_scope_around_backward_call_merges),
        cmocka_unit_test(test_backward_scope_inside_custom_backward_wins),
        cmocka_unit_test(test_backward_nested_backward_inside_custom_backward),
        cmocka_unit_test(test_backward_mark_stream_differentiable),
        cmocka_unit_test(test_backward_checkpoint_recompute_attributed),
        cmocka_unit_test(test_backward_captured_in_separate_graph),
        cmocka_unit_test(test_backward_clear_then_retained_backward),
        cmocka_unit_test(test_backward_scope_after_clear_records),
        cmocka_unit_test(test_backward_outside_capture_is_noop),
        cmocka_unit_test(test_eager_forward_backward_noop),
        cmocka_unit_test(test_make_graphed_callables_annotations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
