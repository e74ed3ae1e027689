/* SPDX-License-Identifier: MIT */
/* tests/nn/module.c: modules: what they are made of, calling them, training and evaluation,
 * walking what they hold, misuse. */
#include "support/nets.h"
#include "support/test.h"
#include <stdio.h>

TEST(a_module_has_what_its_description_says)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 3);
    assert_string_equal(ph_module_name(module), "scale");
    assert_ptr_equal(ph_module_self(module), &scale);
    assert_ptr_equal(ph_module_device(module), s.device);
    assert_true(ph_module_is_training(module));
    assert_true(ph_tensor_requires_grad(scale.weight));
    assert_false(ph_tensor_requires_grad(scale.count));
    assert_int_equal(ph_module_parameter_count(module), 1);
    t_expect_values(s.tape, ph_call(s.tape, module, t_input(&s, 1, 2)), PH_SHAPE(2), 3, 12);
    assert_int_equal(scale.calls, 1);
    assert_ok(ph_tape_clear(s.tape));
    assert_ptr_equal(ph_module_retain(module), module);
    ph_module_release(module);
    assert_int_equal(scale.destroyed, 0);
    ph_module_release(module);
    assert_int_equal(scale.destroyed, 1);
    t_scene_close(&s);
}

TEST(calls_on_a_null_module_do_nothing)
{
    ph_tensor *out = (ph_tensor *)&out;
    assert_null(ph_module_retain(NULL));
    ph_module_release(NULL);
    assert_null(ph_module_name(NULL));
    assert_null(ph_module_self(NULL));
    assert_null(ph_module_device(NULL));
    assert_null(ph_call(NULL, NULL, NULL));
    ph_call_n(NULL, NULL, &out, 1, NULL, 0);
    assert_null(out);
    ph_module_train(NULL, true);
    assert_false(ph_module_is_training(NULL));
    ph_module_parameters(NULL, NULL, NULL);
    ph_module_buffers(NULL, NULL, NULL);
    ph_module_modules(NULL, NULL, NULL);
    assert_int_equal(ph_module_parameter_count(NULL), 0);
    assert_null(ph_module_parameter(NULL, "weight"));
    assert_null(ph_module_child(NULL, "0"));
    ph_module_zero_grad(NULL);
    assert_false(ph_module_has_hooks(NULL));
}

TEST(test_null_arrays)
{
    t_scene s;
    t_scale scale;
    ph_tensor *out = NULL;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 3);
    ph_call_n(s.tape, module, &out, 1, NULL, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "module scale: in is NULL");
    ph_call_n(s.tape, module, NULL, 1, &out, 1);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "module scale: out is NULL");
    ph_module_release(module);
    t_scene_close(&s);
}

/* ---- descriptions ---- */
static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)tape;
    (void)self;
    out[0] = in[0];
}

TEST(a_bad_description_is_refused_by_its_member)
{
    t_scene s;
    ph_device *other;
    ph_module *module, *child, *elsewhere;
    ph_tensor *none = NULL, *far_away, *integers;
    t_scene_open(&s);
    assert_ok(ph_device_open(&other, "host", NULL));
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 1, 2);
    assert_ok(ph_tensor_create(&far_away, other, PH_DTYPE_F32, PH_SHAPE(2)));
    assert_ok(ph_tensor_create(&integers, s.device, PH_DTYPE_I32, PH_SHAPE(2)));
    ph_tensor *result = ph_mul(s.tape, x, x);
    assert_ok(ph_activation_create(&child, s.device, "relu", ph_relu));
    assert_ok(ph_activation_create(&elsewhere, other, "relu", ph_relu));

    const ph_module_desc good = {.name = "m", .forward = forward};
    ph_module_desc d = good;
    assert_error(ph_module_create(NULL, s.device, &d), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_module_create(&module, NULL, &d), PH_ERROR_ARGUMENT, "device");
    assert_error(ph_module_create(&module, s.device, NULL), PH_ERROR_ARGUMENT, "desc");
    d.forward = NULL;
    assert_error(ph_module_create(&module, s.device, &d), PH_ERROR_ARGUMENT, "forward");
    d = good;
    d.name = NULL;
    assert_error(ph_module_create(&module, s.device, &d), PH_ERROR_ARGUMENT, "name");
    d = good;
    d.reserved[2] = 1;
    assert_error(ph_module_create(&module, s.device, &d), PH_ERROR_ARGUMENT, "reserved");
    d = good;
    d.child_count = 1;
    assert_error(ph_module_create(&module, s.device, &d), PH_ERROR_ARGUMENT, "array is NULL");

    const struct {
        ph_parameter parameters[2], buffer;
        ph_child children[1];
        ph_status status;
        const char *part;
    } bad[] = {
        {{{"a.b", &x}, {"c", &x}},
         {"d", &x},
         {{"e", child}},
         PH_ERROR_ARGUMENT,
         "a name has no dot"},
        {{{"", &x}, {"c", &x}},
         {"d", &x},
         {{"e", child}},
         PH_ERROR_ARGUMENT,
         "parameter 0 has no name"},
        {{{"a", &x}, {"c", &x}},
         {NULL, &x},
         {{"e", child}},
         PH_ERROR_ARGUMENT,
         "buffer 0 has no name"},
        {{{"a", &x}, {"a", &x}},
         {"d", &x},
         {{"e", child}},
         PH_ERROR_ARGUMENT,
         "'a' is there twice"},
        {{{"a", &x}, {"c", &x}},
         {"a", &x},
         {{"e", child}},
         PH_ERROR_ARGUMENT,
         "'a' is there twice"},
        {{{"a", &x}, {"c", &x}},
         {"d", &x},
         {{"d", child}},
         PH_ERROR_ARGUMENT,
         "'d' is there twice"},
        {{{"a", &none}, {"a", &x}},
         {"d", &x},
         {{"e", child}},
         PH_ERROR_ARGUMENT,
         "'a' is there twice"},
        {{{"a", &x}, {"c", &x}},
         {"d", &x},
         {{"e.f", child}},
         PH_ERROR_ARGUMENT,
         "a name has no dot"},
        {{{"a", &x}, {"c", &x}}, {"d", &x}, {{"e", NULL}}, PH_ERROR_ARGUMENT, "child 'e' is NULL"},
        {{{"a", &x}, {"c", &far_away}},
         {"d", &x},
         {{"e", child}},
         PH_ERROR_WRONG_DEVICE,
         "parameter 'c'"},
        {{{"a", &x}, {"c", &x}},
         {"d", &far_away},
         {{"e", child}},
         PH_ERROR_WRONG_DEVICE,
         "buffer 'd'"},
        {{{"a", &x}, {"c", &x}}, {"d", &x}, {{"e", elsewhere}}, PH_ERROR_WRONG_DEVICE, "child 'e'"},
        {{{"a", &x}, {"c", &integers}},
         {"d", &x},
         {{"e", child}},
         PH_ERROR_ARGUMENT,
         "a leaf of i32"},
        {{{"a", &x}, {"c", &result}},
         {"d", &x},
         {{"e", child}},
         PH_ERROR_ARGUMENT,
         "result of an operator"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        d = good;
        d.parameters = bad[i].parameters;
        d.parameter_count = 2;
        d.buffers = &bad[i].buffer;
        d.buffer_count = 1;
        d.children = bad[i].children;
        d.child_count = 1;
        assert_error(ph_module_create(&module, s.device, &d), bad[i].status, bad[i].part);
        assert_null(module);
    }
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(x);
    ph_tensor_release(far_away);
    ph_tensor_release(integers);
    ph_module_release(child);
    ph_module_release(elsewhere);
    ph_device_release(other);
    t_scene_close(&s);
}

/* ---- calls ---- */
static void swap(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    for (int i = 0; i < 2; i++)
        assert_null(out[i]);
    (void)ph_add(tape, in[0], in[1]); /* goes with the scope */
    out[0] = ph_neg(tape, in[1]);
    out[1] = ph_neg(tape, in[0]);
}

static void forget_one(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    out[0] = ph_neg(tape, in[0]);
}

TEST(inputs_and_outputs_are_counted_at_each_call)
{
    t_scene s;
    ph_module *module, *careless;
    t_scene_open(&s);
    ph_module_desc desc = {.name = "swap", .forward = swap, .in_count = 2, .out_count = 2};
    assert_ok(ph_module_create(&module, s.device, &desc));
    desc.forward = forget_one;
    assert_ok(ph_module_create(&careless, s.device, &desc));
    ph_tensor *in[2] = {t_input(&s, 1, 2), t_input(&s, 3, 4)}, *out[2];
    size_t owned = t_info(&s).tensors;
    ph_call_n(s.tape, module, out, 2, in, 2);
    assert_int_equal(t_info(&s).tensors, owned + 2);
    t_expect_values(s.tape, out[0], PH_SHAPE(2), -3, -4);
    t_expect_values(s.tape, out[1], PH_SHAPE(2), -1, -2);

    assert_null(ph_call(s.tape, module, in[0]));
    t_expect_failure(
        &s, PH_ERROR_ARGUMENT,
        "module swap: takes 2 inputs and gives 2 outputs, and was called with 1 and 1");
    in[0] = t_input(&s, 1, 2);
    in[1] = t_input(&s, 3, 4);
    ph_call_n(s.tape, careless, out, 2, in, 2);
    assert_null(out[0]);
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "left output 1 NULL");
    assert_null(ph_call(s.tape, NULL, NULL));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "ph_call: the module is NULL");
    ph_module_release(module);
    ph_module_release(careless);
    t_scene_close(&s);
}

TEST(test_wrong_device)
{
    t_scene s;
    ph_device *other;
    ph_module *module;
    t_scene_open(&s);
    assert_ok(ph_device_open(&other, "host", NULL));
    assert_ok(ph_activation_create(&module, other, "relu", ph_relu));
    assert_null(ph_call(s.tape, module, t_input(&s, 1, 2)));
    t_expect_failure(&s, PH_ERROR_WRONG_DEVICE, "module relu");
    ph_module_release(module);
    ph_device_release(other);
    t_scene_close(&s);
}

/* What a module makes on its way goes with its scope: memory is that of the result, and what
 * backward needs. */
static void waste(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    ph_tensor *x = in[0];
    for (int i = 0; i < 10; i++)
        x = ph_add_scalar(tape, x, 1);
    out[0] = x;
}

TEST(a_call_keeps_its_outputs_alone)
{
    t_scene s;
    ph_module *module;
    t_scene_open(&s);
    ph_module_desc desc = {.name = "waste", .forward = waste};
    assert_ok(ph_module_create(&module, s.device, &desc));
    ph_tensor *x = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(100000));
    size_t before = t_allocated(&s), owned = t_info(&s).tensors;
    ph_tensor *y = ph_call(s.tape, module, x);
    assert_ok(ph_tape_status(s.tape));
    assert_int_equal(t_info(&s).tensors, owned + 1);
    assert_int_equal(t_info(&s).depth, 0);
    assert_true(t_allocated(&s) - before < 2 * ph_tensor_bytes(y) + 1024);
    ph_module_release(module);
    t_scene_close(&s);
}

/* An identity gives its input, which is not the scope's to release. */
TEST(an_identity_gives_its_input_itself)
{
    t_scene s;
    ph_module *module;
    t_scene_open(&s);
    ph_module_desc desc = {.name = "identity", .forward = forward};
    assert_ok(ph_module_create(&module, s.device, &desc));
    ph_tensor *x = t_input(&s, 1, 2);
    assert_ptr_equal(ph_call(s.tape, module, ph_call(s.tape, module, x)), x);
    t_expect_values(s.tape, x, PH_SHAPE(2), 1, 2);
    ph_module_release(module);
    t_scene_close(&s);
}

/* ---- walking ---- */
typedef struct listing {
    char text[512];
    size_t count, stop_after;
} listing;

static bool list(listing *l, const char *name)
{
    size_t used = strlen(l->text);
    (void)snprintf(l->text + used, sizeof l->text - used, "%s|", name);
    return ++l->count != l->stop_after;
}

static bool list_tensor(const char *name, ph_tensor *tensor, void *user)
{
    assert_non_null(tensor);
    return list(user, name);
}

static bool list_module(const char *name, ph_module *module, void *user)
{
    assert_non_null(module);
    return list(user, name);
}

typedef struct tree {
    t_scene s;
    t_scale scales[2];
    ph_module *leaf[2], *inner, *root;
    ph_tensor *own;
} tree;

/* root: own, inner (first: leaf 0, second: leaf 1), again: leaf 0 once more. */
static void open_tree(tree *t)
{
    t_scene_open(&t->s);
    for (int i = 0; i < 2; i++)
        t->leaf[i] = t_scale_open(&t->s, &t->scales[i], (float)(i + 1));
    t->own = t_leaf(&t->s, PH_SHAPE(2), 5, 6);
    ph_child parts[] = {{"first", t->leaf[0]}, {"second", t->leaf[1]}};
    ph_module_desc inner = {
        .name = "inner", .forward = forward, .children = parts, .child_count = 2};
    assert_ok(ph_module_create(&t->inner, t->s.device, &inner));
    /* The same tensor under a second name is one tensor. */
    ph_parameter own[] = {{"own", &t->own}, {"alias", &t->scales[1].weight}};
    ph_child children[] = {{"inner", t->inner}, {"again", t->leaf[0]}};
    ph_module_desc root = {.name = "root",
                           .forward = forward,
                           .parameters = own,
                           .parameter_count = 2,
                           .children = children,
                           .child_count = 2};
    assert_ok(ph_module_create(&t->root, t->s.device, &root));
}

static void close_tree(tree *t)
{
    ph_tensor_release(t->own);
    ph_module_release(t->root);
    ph_module_release(t->inner);
    ph_module_release(t->leaf[0]);
    ph_module_release(t->leaf[1]);
    t_scene_close(&t->s);
}

TEST(a_walk_names_each_tensor_once_by_its_first_path)
{
    tree t;
    open_tree(&t);
    listing l = {.count = 0};
    ph_module_parameters(t.root, list_tensor, &l);
    assert_string_equal(l.text, "own|alias|inner.first.weight|");
    l = (listing){.count = 0};
    ph_module_buffers(t.root, list_tensor, &l);
    assert_string_equal(l.text, "inner.first.count|inner.second.count|");
    l = (listing){.count = 0};
    ph_module_modules(t.root, list_module, &l);
    assert_string_equal(l.text, "|inner|inner.first|inner.second|");
    l = (listing){.stop_after = 2};
    ph_module_parameters(t.root, list_tensor, &l);
    assert_string_equal(l.text, "own|alias|");
    l = (listing){.stop_after = 3};
    ph_module_modules(t.root, list_module, &l);
    assert_string_equal(l.text, "|inner|inner.first|");
    assert_int_equal(ph_module_parameter_count(t.root), 3);
    assert_int_equal(ph_module_parameter_count(t.inner), 2);

    assert_ptr_equal(ph_module_parameter(t.root, "own"), t.own);
    assert_ptr_equal(ph_module_parameter(t.root, "inner.second.weight"), t.scales[1].weight);
    assert_ptr_equal(ph_module_parameter(t.root, "again.count"), t.scales[0].count);
    assert_null(ph_module_parameter(t.root, "inner"));
    assert_null(ph_module_parameter(t.root, "inner.third.weight"));
    assert_null(ph_module_parameter(t.root, "inn.first.weight"));
    assert_null(ph_module_parameter(t.root, ""));
    assert_null(ph_module_parameter(t.root, "inner."));
    assert_null(ph_module_parameter(t.root, NULL));
    assert_ptr_equal(ph_module_child(t.root, "again"), t.leaf[0]);
    assert_ptr_equal(ph_module_child(t.root, "inner.second"), t.leaf[1]);
    assert_null(ph_module_child(t.root, "inner.own"));
    assert_null(ph_module_child(t.root, ""));
    assert_null(ph_module_child(t.root, "own"));
    assert_null(ph_module_child(t.root, NULL));
    close_tree(&t);
}

TEST(the_training_mode_is_set_for_all_below)
{
    tree t;
    open_tree(&t);
    ph_module_train(t.inner, false);
    assert_true(ph_module_is_training(t.root));
    assert_false(ph_module_is_training(t.leaf[0]));
    assert_false(ph_module_is_training(t.leaf[1]));
    ph_module_train(t.root, true);
    assert_true(ph_module_is_training(t.leaf[1]));
    ph_module_train(t.root, false);
    assert_false(ph_module_is_training(t.root));
    assert_false(ph_module_is_training(t.inner));
    assert_false(ph_module_is_training(t.leaf[0]));
    close_tree(&t);
}

/* Gradients come to a tensor by all its names, and go together. */
TEST(gradients_of_a_tensor_with_several_names_go_together)
{
    tree t;
    open_tree(&t);
    ph_tape *tape = t.s.tape;
    ph_tensor *x = t_input(&t.s, 1, 1);
    ph_backward(tape, ph_sum(tape, ph_call(tape, t.leaf[0], ph_call(tape, t.leaf[0], x))));
    assert_ok(ph_tape_status(tape));
    t_expect_grad(&t.s, t.scales[0].weight, 2, 4);
    assert_null(ph_tensor_grad(t.scales[1].weight));
    assert_ok(ph_tape_clear(tape));
    ph_module_zero_grad(t.root);
    assert_null(ph_tensor_grad(t.scales[0].weight));
    close_tree(&t);
}

/* The n-th allocation fails, for every n. */
TEST(modules_without_host_memory_are_not_made)
{
    tree t;
    open_tree(&t);
    ph_child children[] = {{"a", t.leaf[0]}, {"b", t.leaf[1]}};
    ph_parameter own = {"own", &t.own};
    ph_module_desc desc = {.name = "swept",
                           .forward = forward,
                           .parameters = &own,
                           .parameter_count = 1,
                           .children = children,
                           .child_count = 2};
    ph_module *module = NULL;
    int64_t at = 0;
    for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK; at++) {
        int64_t live = ph__alloc_live();
        ph__alloc_fail_after(at);
        status = ph_module_create(&module, t.s.device, &desc);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK) {
            assert_error(status, PH_ERROR_HOST_MEMORY, "no host memory");
            assert_null(module);
            assert_int_equal(ph__alloc_live(), live);
        }
    }
    assert_true(at > 5);
    ph_module_release(module);
    close_tree(&t);
}

/* ---- where a failure was ---- */
static ph_tensor *broken(ph_tape *tape, ph_tensor *x)
{
    return ph_add(tape, x, ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(3)));
}

static void expect_where(const t_scene *s, ph_module *module, const char *where)
{
    assert_null(ph_call(s->tape, module, t_input(s, 1, 2)));
    assert_error(ph_tape_status(s->tape), PH_ERROR_ARGUMENT,
                 "add: the shapes do not broadcast (got f32[2], f32[3])");
    assert_string_equal(strstr(ph_error_last()->message, "; in "), where);
    assert_error(ph_tape_clear(s->tape), PH_ERROR_ARGUMENT, where);
}

/* The innermost module, by its name in the outermost one; another failure of the tape has its
 * own. */
TEST(test_where_it_failed)
{
    t_scene s;
    ph_module *relu, *fails, *inner, *net;
    t_scene_open(&s);
    assert_ok(ph_activation_create(&relu, s.device, "relu", ph_relu));
    assert_ok(ph_activation_create(&fails, s.device, "broken", broken));
    assert_ok(ph_sequential_create(&inner, (ph_module *[]){relu, relu, fails}, 3));
    assert_ok(ph_sequential_create(&net, (ph_module *[]){relu, inner}, 2));
    expect_where(&s, net, "; in 1.2 of module sequential");
    expect_where(&s, inner, "; in 2 of module sequential");
    expect_where(&s, fails, "; in module broken");
    assert_null(broken(s.tape, t_input(&s, 1, 2)));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_ARGUMENT, "add: ");
    assert_null(strstr(ph_error_last()->message, "; in "));
    ph_module_release(net);
    ph_module_release(inner);
    ph_module_release(fails);
    ph_module_release(relu);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_it_failed),
        cmocka_unit_test(a_module_has_what_its_description_says),
        cmocka_unit_test(calls_on_a_null_module_do_nothing),
        cmocka_unit_test(test_null_arrays),
        cmocka_unit_test(a_bad_description_is_refused_by_its_member),
        cmocka_unit_test(inputs_and_outputs_are_counted_at_each_call),
        cmocka_unit_test(test_wrong_device),
        cmocka_unit_test(a_call_keeps_its_outputs_alone),
        cmocka_unit_test(an_identity_gives_its_input_itself),
        cmocka_unit_test(a_walk_names_each_tensor_once_by_its_first_path),
        cmocka_unit_test(the_training_mode_is_set_for_all_below),
        cmocka_unit_test(gradients_of_a_tensor_with_several_names_go_together),
        cmocka_unit_test(modules_without_host_memory_are_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
