/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_parameter_slots.c: parameters and buffers that are added, removed or replaced
 * in a module's struct after the module was made: graphed callables, optimizers and files would go
 * on with those that there were, and refuse. */
#include "support/graphed_nets.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <stdio.h>
#include <unistd.h>

/* y = x * weight + shift, where there are such; count: a buffer. */
typedef struct affine {
    ph_tensor *weight, *shift, *count;
} affine;

static void affine_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const affine *me = self;
    ph_tensor *y = me->weight ? ph_mul(tape, in[0], me->weight) : in[0];
    out[0] = me->shift ? ph_add(tape, y, me->shift) : y;
}

typedef struct scene {
    t_scene s;
    affine me;
    ph_module *inner, *net, *graphed; /* net: a sequence of inner alone */
    ph_tensor *x, *weight, *count;    /* what the module is made with */
} scene;

static void begin(scene *c, bool graphed)
{
    t_scene_open(&c->s);
    c->x = gn_sample(&c->s, PH_SHAPE(2), true);
    c->weight = t_leaf(&c->s, PH_SHAPE(2), 3, 6);
    assert_ok(ph_tensor_create(&c->count, c->s.device, PH_DTYPE_F32, PH_SHAPE(2)));
    c->me = (affine){.weight = c->weight, .count = c->count};
    const ph_parameter parameters[] = {{"weight", &c->me.weight}, {"shift", &c->me.shift}},
                       buffer = {"count", &c->me.count};
    const ph_module_desc desc = {.name = "affine",
                                 .forward = affine_forward,
                                 .self = &c->me,
                                 .parameters = parameters,
                                 .parameter_count = 2,
                                 .buffers = &buffer,
                                 .buffer_count = 1};
    assert_ok(ph_module_create(&c->inner, c->s.device, &desc));
    assert_ok(ph_sequential_create(&c->net, &c->inner, 1));
    c->graphed = graphed ? gn_graph_one(c->net, c->x, NULL) : NULL;
}

static void end(scene *c)
{
    ph_module_release(c->graphed);
    ph_module_release(c->net);
    ph_module_release(c->inner);
    ph_tensor_release(c->x);
    ph_tensor_release(c->weight);
    ph_tensor_release(c->count);
    t_scene_close(&c->s);
}

/* One call, and its backward. */
static void expect_right(const scene *c)
{
    ph_tensor *x = t_leaf(&c->s, PH_SHAPE(2), 1, 2);
    ph_tensor *y = ph_call(c->s.tape, c->graphed, x);
    t_expect_values(c->s.tape, y, PH_SHAPE(2), 3, 12);
    ph_backward(c->s.tape, ph_sum(c->s.tape, y));
    t_expect_grad(&c->s, x, 3, 6);
    assert_ok(ph_tape_clear(c->s.tape));
    t_zero_grad(c->weight);
    ph_tensor_release(x);
}

/* Nothing is launched; the tape goes on. */
static void expect_refused(const scene *c, const char *what)
{
    ph_graphed_info before = gn_info(c->graphed);
    (void)ph_call(c->s.tape, c->graphed, t_input(&c->s, 1, 2));
    assert_error(ph_tape_status(c->s.tape), PH_ERROR_STATE, what);
    assert_int_equal(gn_info(c->graphed).forward_calls, before.forward_calls);
    assert_error(ph_tape_clear(c->s.tape), PH_ERROR_STATE, what);
}

TEST(a_call_is_refused_where_a_struct_has_other_parameters)
{
    scene c;
    begin(&c, true);
    ph_tensor *other = t_leaf(&c.s, PH_SHAPE(2), 1, 1);
    expect_right(&c);
    c.me.weight = other;
    expect_refused(&c, "parameter '0.weight' was replaced by another tensor");
    c.me.weight = NULL;
    expect_refused(&c, "parameter '0.weight' was removed");
    c.me.weight = c.weight;
    expect_right(&c); /* back where it was */
    c.me.shift = other;
    expect_refused(&c, "parameter '0.shift' was added");
    c.me.shift = NULL;
    c.me.count = NULL;
    expect_refused(&c, "buffer '0.count' was removed");
    c.me.count = other;
    expect_refused(&c, "buffer '0.count' was replaced by another tensor");
    c.me.count = c.count;
    expect_right(&c);
    ph_tensor_release(other);
    end(&c);
}

/* The original is called in the other mode, with what its struct keeps. */
TEST(the_original_takes_what_its_struct_holds)
{
    scene c;
    begin(&c, true);
    ph_tensor *other = t_leaf(&c.s, PH_SHAPE(2), 1, 1);
    c.me.weight = other;
    ph_module_train(c.graphed, false);
    t_expect_values(c.s.tape, ph_call(c.s.tape, c.graphed, t_input(&c.s, 1, 2)), PH_SHAPE(2), 1, 2);
    assert_ok(ph_tape_clear(c.s.tape));
    ph_module_train(c.graphed, true);
    expect_refused(&c, "0.weight");
    ph_tensor_release(other);
    end(&c);
}

static void expect_not_made(const scene *c, const char *what)
{
    ph_module *out = c->net;
    const ph_sample sample = {.tensors = &c->x, .count = 1};
    assert_error(ph_make_graphed_callables(&out, &c->net, &sample, 1, NULL), PH_ERROR_STATE, what);
    assert_null(out);
}

TEST(no_callable_is_made_where_a_struct_has_other_parameters)
{
    scene c;
    begin(&c, false);
    ph_tensor *other = t_leaf(&c.s, PH_SHAPE(2), 1, 1);
    c.me.weight = other;
    expect_not_made(&c, "callable 0 (sequential): in the struct of a module (sequential) parameter "
                        "'0.weight' was replaced");
    c.me.weight = c.weight;
    c.me.shift = other;
    expect_not_made(&c, "parameter '0.shift' was added");
    c.me.shift = NULL;
    c.me.count = NULL;
    expect_not_made(&c, "buffer '0.count' was removed");
    c.me.count = c.count;
    c.graphed = gn_graph_one(c.net, c.x, NULL);
    expect_right(&c);
    ph_tensor_release(other);
    end(&c);
}

/* y = x * mask, a buffer that the first call makes. */
static void lazy_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    affine *me = self;
    if (!me->count)
        me->count = ph_tensor_retain(ph_full(tape, PH_DTYPE_F32, PH_SHAPE(2), 3));
    out[0] = ph_mul(tape, in[0], me->count);
}

/* By the warm-up, say. */
TEST(test_buffer_that_forward_makes)
{
    t_scene s;
    affine me = {NULL, NULL, NULL};
    ph_module *net;
    t_scene_open(&s);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true);
    const ph_parameter buffer = {"mask", &me.count};
    const ph_module_desc desc = {.name = "lazy",
                                 .forward = lazy_forward,
                                 .self = &me,
                                 .buffers = &buffer,
                                 .buffer_count = 1};
    assert_ok(ph_module_create(&net, s.device, &desc));
    for (int round = 0; round < 2; round++) { /* the second time it is there before */
        ph_module *graphed = gn_graph_one(net, x, NULL);
        assert_non_null(me.count);
        t_expect_values(s.tape, ph_call(s.tape, graphed, t_input(&s, 1, 2)), PH_SHAPE(2), 3, 6);
        assert_ok(ph_tape_clear(s.tape));
        ph_tensor *made = me.count;
        me.count = NULL;
        (void)ph_call(s.tape, graphed, t_input(&s, 1, 2));
        assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE, "buffer 'mask' was removed");
        me.count = made;
        ph_module_release(graphed);
    }
    ph_module_release(net);
    ph_tensor_release(me.count);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* y = x * count, which becomes another tensor: each time, or in the call of that number. */
typedef struct changing {
    affine tensors;
    ph_tensor **changed; /* of tensors */
    int calls, at;       /* at 0: in each call */
} changing;

static void changing_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    changing *me = self;
    if (!*me->changed)
        *me->changed = ph_tensor_retain(ph_full(tape, PH_DTYPE_F32, PH_SHAPE(2), 3));
    out[0] = ph_mul(tape, in[0], *me->changed);
    me->calls++;
    if (me->at != 0 && me->calls != me->at)
        return;
    bool before = ph_tape_set_grad_enabled(tape, false);
    ph_tensor *next = ph_tensor_retain(ph_add_scalar(tape, *me->changed, 1));
    ph_tape_set_grad_enabled(tape, before);
    ph_tensor_release(*me->changed);
    *me->changed = next;
}

/* start: what there is at the creation, or NULL. */
static void expect_change_refused(int at, bool parameter, bool start, const char *what)
{
    t_scene s;
    ph_module *net, *out;
    t_scene_open(&s);
    changing me = {.at = at};
    me.changed = parameter ? &me.tensors.weight : &me.tensors.count;
    if (start) {
        ph_tensor *x = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 1);
        *me.changed = ph_tensor_retain(x);
        assert_ok(ph_tape_clear(s.tape));
    }
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), true);
    const ph_parameter place = {"changed", me.changed};
    const ph_module_desc desc = {.name = "changing",
                                 .forward = changing_forward,
                                 .self = &me,
                                 .parameters = parameter ? &place : NULL,
                                 .parameter_count = parameter,
                                 .buffers = parameter ? NULL : &place,
                                 .buffer_count = !parameter};
    assert_ok(ph_module_create(&net, s.device, &desc));
    const ph_sample sample = {.tensors = &x, .count = 1};
    const ph_graphed_options options = {.allow_unused_input = true};
    assert_error(ph_make_graphed_callables(&out, &net, &sample, 1, &options), PH_ERROR_STATE, what);
    assert_null(out);
    ph_module_release(net);
    ph_tensor_release(*me.changed);
    ph_tensor_release(x);
    t_scene_close(&s);
}

TEST(test_forward_that_replaces)
{
    expect_change_refused(0, false, true,
                          "buffer 'changed' was replaced by another tensor by its own forward");
    expect_change_refused(1, false, true,
                          "buffer 'changed' was replaced by another tensor by its own forward");
    expect_change_refused(1, true, true,
                          "parameter 'changed' was replaced by another tensor by its own forward");
    expect_change_refused(0, false, false,
                          "buffer 'changed' was replaced by another tensor by its own forward");
}

/* The one that was captured is held, so that none that is made later can pass for it. */
TEST(test_buffer_that_is_made_again)
{
    t_scene s;
    affine me = {NULL, NULL, NULL};
    ph_module *net;
    t_scene_open(&s);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    const ph_parameter buffer = {"mask", &me.count};
    const ph_module_desc desc = {.name = "lazy",
                                 .forward = lazy_forward,
                                 .self = &me,
                                 .buffers = &buffer,
                                 .buffer_count = 1};
    assert_ok(ph_module_create(&net, s.device, &desc));
    ph_module *graphed = gn_graph_one(net, x, NULL);
    assert_int_equal(atomic_load(&me.count->references), 2);
    ph_tensor_release(me.count);
    me.count = NULL;
    (void)ph_call(s.tape, net, t_input(&s, 1, 2));
    assert_ok(ph_tape_clear(s.tape));
    (void)ph_call(s.tape, graphed, t_input(&s, 1, 2));
    assert_error(ph_tape_clear(s.tape), PH_ERROR_STATE,
                 "buffer 'mask' was replaced by another tensor");
    ph_module_release(graphed);
    ph_module_release(net);
    ph_tensor_release(me.count);
    ph_tensor_release(x);
    t_scene_close(&s);
}

/* Without host memory it is still told what it was, if not in which module. */
TEST(test_message_without_memory)
{
    scene c;
    begin(&c, true);
    ph_tensor *other = t_leaf(&c.s, PH_SHAPE(2), 1, 1), *x = ph_tensor_retain(t_input(&c.s, 1, 2));
    assert_ok(ph_tape_clear(c.s.tape));
    c.me.weight = other;
    ph__alloc_fail_after(0);
    (void)ph_call(c.s.tape, c.graphed, x);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_error(ph_tape_clear(c.s.tape), PH_ERROR_STATE,
                 "parameter 'weight' was replaced by another tensor");
    ph_tensor_release(x);
    ph_tensor_release(other);
    end(&c);
}

/* They would train, save and load a tensor that forward does not read. */
static void expect_nothing_else(const scene *c, ph_module *module, const char *what)
{
    char path[64];
    ph_optimizer *optimizer;
    const ph_sgd_options sgd = {.lr = 0.1};
    (void)snprintf(path, sizeof path, "/tmp/ph_slots_%ld", (long)getpid());
    assert_error(ph_sgd_create(&optimizer, module, &sgd), PH_ERROR_STATE, what);
    assert_null(optimizer);
    assert_error(ph_adamw_create(&optimizer, module, NULL), PH_ERROR_STATE, what);
    assert_null(optimizer);
    assert_error(ph_module_save(module, path), PH_ERROR_STATE, what);
    assert_int_equal(access(path, F_OK), -1);
    assert_error(ph_module_load(module, path, true), PH_ERROR_STATE, what);
    assert_ok(ph_tape_status(c->s.tape));
}

TEST(test_optimizers_and_files)
{
    scene c;
    begin(&c, true);
    ph_tensor *other = t_leaf(&c.s, PH_SHAPE(2), 1, 1);
    const ph_sample sample = {.tensors = &c.x, .count = 1};
    ph_module *whole;
    assert_ok(
        /* the struct is the module's own */
        ph_make_graphed_callables(&whole, &c.inner, &sample, 1, NULL));
    c.me.weight = other;
    expect_nothing_else(&c, c.inner, "parameter 'weight' was replaced");
    expect_nothing_else(&c, whole, "parameter 'weight' was replaced");
    expect_nothing_else(&c, c.net, "parameter '0.weight' was replaced");
    expect_nothing_else(&c, c.graphed, "parameter '0.weight' was replaced");
    c.me.weight = c.weight;
    ph_optimizer *optimizer = gn_sgd(c.graphed);
    ph_optimizer_destroy(optimizer);
    ph_module_release(whole);
    ph_tensor_release(other);
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_refused_where_a_struct_has_other_parameters),
        cmocka_unit_test(the_original_takes_what_its_struct_holds),
        cmocka_unit_test(no_callable_is_made_where_a_struct_has_other_parameters),
        cmocka_unit_test(test_buffer_that_forward_makes),
        cmocka_unit_test(test_forward_that_replaces),
        cmocka_unit_test(test_buffer_that_is_made_again),
        cmocka_unit_test(test_message_without_memory),
        cmocka_unit_test(test_optimizers_and_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
