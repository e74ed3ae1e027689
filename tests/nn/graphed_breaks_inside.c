/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_breaks_inside.c: what the function of a break may do with graphed callables,
 * while one of them replays its forward around it. */
#include "support/graphed_nets.h"
#include "support/test.h"

enum {
    WIDTH = 2
};
static t_scene s;
static ph_module *graphed[2];
static ph_tensor *sample, *earlier;
static ph_tensor *two, *five; /* filled so */
static ph_tape *other;        /* what functions of breaks work on */
static void (*inside)(void);

static ph_status call_inside(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    if (inside)
        inside();
    return PH_OK;
}

/* ((2 in) ^ 2) * 3, with the break in the middle: the square's gradient reads what is before it. */
static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    ph_tensor *twice = ph_mul_scalar(tape, in[0], 2);
    ph_tape_check(tape, ph_break(ph_tape_stream(tape), call_inside, NULL));
    out[0] = ph_mul_scalar(tape, ph_mul(tape, twice, twice), 3);
}

static void expect_values(ph_tape *tape, ph_tensor *y, float in)
{
    t_expect_values(tape, y, PH_SHAPE(WIDTH), 12 * in * in, 12 * in * in);
}

static bool original_is_gone;

static void note_end(void *self)
{
    (void)self;
    original_is_gone = true;
}

/* Two callables; with one pool, or with one each. */
static void make_both(bool apart)
{
    const ph_module_desc desc = {.name = "squared", .forward = forward, .destroy = note_end};
    for (size_t i = 0; i < 2; i++) {
        ph_pool *pool;
        ph_module *module;
        static ph_pool *shared;
        assert_ok(ph_module_create(&module, s.device, &desc));
        if (apart || i == 0)
            assert_ok(ph_pool_create(&shared, s.device, NULL));
        pool = shared;
        graphed[i] = gn_graph_one(module, sample, &(ph_graphed_options){.pool = pool});
        ph_module_release(module);
        if (apart || i == 1)
            ph_pool_release(pool);
    }
}

FIXTURE(open_scene)
{
    t_scene_open(&s);
    sample = t_leaf(&s, PH_SHAPE(WIDTH), 1, 1);
    two = t_leaf(&s, PH_SHAPE(WIDTH), 2, 2);
    five = t_leaf(&s, PH_SHAPE(WIDTH), 5, 5);
    assert_ok(ph_tape_create(&other, s.stream, NULL));
    make_both(false);
    original_is_gone = false;
    return 0;
}

FIXTURE(close_scene)
{
    inside = NULL;
    ph_tape_destroy(other);
    for (size_t i = 0; i < 2; i++)
        ph_module_release(graphed[i]);
    ph_tensor_release(five);
    ph_tensor_release(two);
    ph_tensor_release(sample);
    t_scene_close(&s);
    return 0;
}

/* A call around the function, and its backward. */
static void call_around(void (*function)(void))
{
    t_zero_grad(two);
    inside = function;
    ph_tensor *y = ph_call(s.tape, graphed[0], two);
    inside = NULL;
    assert_ok(ph_tape_status(s.tape));
    expect_values(s.tape, y, 2);
    ph_backward(s.tape, ph_sum(s.tape, y));
    t_expect_grad(&s, two, 48, 48); /* 24 x */
    assert_ok(ph_tape_clear(s.tape));
}

static void expect_refused(ph_module *module)
{
    (void)ph_call(other, module, five);
    assert_error(ph_tape_status(other), PH_ERROR_STATE,
                 "graphed callable 'squared': the function of a break of 'squared' calls it, and "
                 "both share a pool");
    assert_status(ph_tape_clear(other), PH_ERROR_STATE);
}

static void call_itself(void)
{
    expect_refused(graphed[0]);
}

static void call_its_neighbour(void)
{
    expect_refused(graphed[1]);
}

TEST(a_call_of_the_callable_itself_is_refused)
{
    call_around(call_itself);
    call_around(call_itself);
}

TEST(a_call_of_another_one_of_the_pool_is_refused)
{
    call_around(call_its_neighbour);
    call_around(NULL);
}

static void call_the_other(void)
{
    inside = NULL;
    expect_values(other, ph_call(other, graphed[1], five), 5);
    assert_ok(ph_tape_clear(other));
}

TEST(a_callable_of_another_pool_can_be_called)
{
    for (size_t i = 0; i < 2; i++)
        ph_module_release(graphed[i]);
    make_both(true);
    call_around(call_the_other);
    call_around(call_the_other);
}

static void go_backward(void)
{
    ph_backward(other, ph_sum(other, earlier));
    assert_error(ph_tape_status(other), PH_ERROR_STATE,
                 "backward of the graphed callable 'squared': the function of a break of "
                 "'squared' calls it");
    assert_status(ph_tape_clear(other), PH_ERROR_STATE);
}

TEST(a_backward_of_another_one_of_the_pool_is_refused)
{
    earlier = ph_call(other, graphed[1], five);
    assert_ok(ph_tape_status(other));
    call_around(go_backward);
}

/* The first segment has written there. */
static void read_earlier(void)
{
    (void)ph_mul_scalar(other, earlier, 2);
    assert_error(ph_tape_status(other), PH_ERROR_OVERWRITTEN,
                 "of the graphed callable 'squared', whose memory call 2 of 'squared' has written");
    assert_status(ph_tape_clear(other), PH_ERROR_OVERWRITTEN);
}

TEST(outputs_of_earlier_calls_are_gone)
{
    earlier = ph_tensor_retain(ph_call(s.tape, graphed[0], sample));
    assert_ok(ph_tape_clear(s.tape));
    call_around(read_earlier);
    ph_tensor_release(earlier);
}

static void let_go(void)
{
    ph_module_release(graphed[0]);
    graphed[0] = NULL;
    assert_false(original_is_gone);
}

TEST(the_callable_can_be_released_and_lives_to_the_end_of_the_call)
{
    inside = let_go;
    ph_tensor *y = ph_tensor_retain(ph_call(s.tape, graphed[0], two));
    assert_ok(ph_tape_status(s.tape));
    expect_values(s.tape, y, 2);
    assert_false(original_is_gone); /* the backward to come */
    assert_ok(ph_tape_clear(s.tape));
    assert_true(original_is_gone);
    expect_values(s.tape, y, 2);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(y);
}

/* The same of any module's forward. */
static ph_module *mine;

static void release_mine(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)self;
    ph_module_release(mine);
    assert_false(original_is_gone);
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

TEST(a_forward_function_can_release_its_module)
{
    const ph_module_desc desc = {.name = "mine", .forward = release_mine, .destroy = note_end};
    assert_ok(ph_module_create(&mine, s.device, &desc));
    (void)ph_call(s.tape, mine, sample);
    assert_ok(ph_tape_status(s.tape));
    assert_true(original_is_gone);
}

#define WITH_BOTH(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOTH(a_call_of_the_callable_itself_is_refused),
        WITH_BOTH(a_call_of_another_one_of_the_pool_is_refused),
        WITH_BOTH(a_callable_of_another_pool_can_be_called),
        WITH_BOTH(a_backward_of_another_one_of_the_pool_is_refused),
        WITH_BOTH(outputs_of_earlier_calls_are_gone),
        WITH_BOTH(the_callable_can_be_released_and_lives_to_the_end_of_the_call),
        WITH_BOTH(a_forward_function_can_release_its_module),
    };
    return cmocka_run_group_tests_name("nn.graphed_breaks_inside", tests, NULL, NULL);
}
