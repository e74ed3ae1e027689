/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_frozen.c: numbers of the host that forward reads, and that change between its
 * calls: replays keep those of the capture, and the log says so. */
#include "support/graphed_nets.h"
#include "support/test.h"

typedef struct counter {
    double number, step;
} counter;

static void scale(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    counter *c = self;
    c->number += c->step;
    out[0] = ph_mul_scalar(tape, in[0], c->number);
}

static size_t warnings_of(double step, ph_graphed_inputs inputs)
{
    t_scene s;
    t_scene_open(&s);
    counter c = {2, step};
    ph_module *plain;
    const ph_module_desc desc = {.name = "counted", .forward = scale, .self = &c};
    const ph_graphed_options options = {.inputs = inputs};
    assert_ok(ph_module_create(&plain, s.device, &desc));
    ph_tensor *x = t_leaf(&s, PH_SHAPE(2), 1, 2);
    t_log_start();
    ph_module *graphed = gn_graph_one(plain, x, &options);
    size_t said = t_log_count(
        step > 0 ? "callable 'counted': two captures of its forward differ in a number of "
                   "the host: word "
                 : ""); /* nothing at all is said */
    t_log_stop();
    ph_module_release(graphed);
    ph_tensor_release(x);
    ph_module_release(plain);
    t_scene_close(&s);
    return said;
}

TEST(a_number_that_changes_is_said_once)
{
    assert_int_equal(warnings_of(0.5, PH_GRAPHED_AUTO), 1);
    assert_int_equal(warnings_of(0.5, PH_GRAPHED_COPY_INPUTS), 1);
}

TEST(a_number_that_stays_is_not)
{
    assert_int_equal(warnings_of(0, PH_GRAPHED_AUTO), 0);
    assert_int_equal(warnings_of(0, PH_GRAPHED_COPY_INPUTS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_that_changes_is_said_once),
        cmocka_unit_test(a_number_that_stays_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
