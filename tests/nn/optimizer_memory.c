/* SPDX-License-Identifier: MIT */
/* tests/nn/optimizer_memory.c: the state that a step makes is one allocation, which goes with the
 * optimizer. */
#include "nn/optimizer/optimizer.h"
#include "support/optimizer_check.h"
#include "support/test.h"
#include "tensor/core/tensor.h"

/* The allocation that all state lies in; NULL: there are several. *count: of the tensors. */
static const void *base_of_states(size_t *count, const ph_optimizer *optimizer, ph_device *device)
{
    const void *base = NULL;
    bool one = true;
    *count = 0;
    for (size_t i = 0; i < optimizer->params.count; i++)
        for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++) {
            const ph_tensor *state = optimizer->params.at[i].state[k];
            ph_allocation found;
            if (!state || state->count == 0)
                continue;
            assert_ok(ph_memory_lookup(&found, device, state->data));
            one = one && (*count == 0 || found.base == base);
            base = found.base;
            ++*count;
        }
    return one ? base : NULL;
}

static size_t allocated(ph_device *device)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, device));
    return stats.allocated;
}

TEST(state_of_a_step_is_one_allocation)
{
    const oc_rule rule = oc_adam_rule(0);
    oc_problem p;
    size_t count;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 3);
    ph_device *device = ph_module_device(p.module);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    size_t before = allocated(device);
    oc_gradients(&p, UINT64_MAX);
    assert_ok(oc_step(&p, optimizer));
    assert_non_null(base_of_states(&count, optimizer, device));
    assert_true(count >= 2 * 2);
    size_t with = allocated(device);
    assert_true(with > before);
    oc_gradients(&p, UINT64_MAX);
    assert_ok(oc_step(&p, optimizer)); /* nothing is left to make */
    assert_int_equal(allocated(device), with);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

/* Parameters that get their first gradient later have state of a later step. */
TEST(state_that_comes_later_is_another_one)
{
    const oc_rule rule = oc_adam_rule(0);
    oc_problem p;
    size_t first, all;
    oc_open(&p, PH_DTYPE_F32, NULL, 0, 4);
    ph_device *device = ph_module_device(p.module);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    oc_gradients(&p, 3);
    assert_ok(oc_step(&p, optimizer));
    assert_non_null(base_of_states(&first, optimizer, device));
    oc_gradients(&p, UINT64_MAX);
    assert_ok(oc_step(&p, optimizer));
    assert_null(base_of_states(&all, optimizer, device));
    assert_true(all > first && first > 0);
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_of_a_step_is_one_allocation),
        cmocka_unit_test(state_that_comes_later_is_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
