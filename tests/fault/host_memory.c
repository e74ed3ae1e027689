/* SPDX-License-Identifier: MIT */
/* tests/fault/host_memory.c: the n-th host allocation and all after it fail, n = 0, 1, 2, ..., in every
 * scenario. */
#include "base/alloc.h"
#include "support/scenes.h"

/* Failed allocations are not counted, so that a run which made fewer than n never came to the fault. */
static int64_t before, limit;

static void arm(int64_t n)
{
    before = ph__alloc_count();
    limit = n;
    ph__alloc_fail_after(n);
}

static bool disarm(void)
{
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    return ph__alloc_count() - before >= limit;
}

static bool expects(ph_status status)
{
    return status == PH_ERROR_HOST_MEMORY;
}

static const t_fault fault = {"host allocation", NULL, arm, disarm, expects};

static void device_scenarios(void **state)
{
    (void)state;
    t_sweep_all(t_scenarios_device, &fault, NULL);
}

static void memory_scenarios(void **state)
{
    (void)state;
    t_sweep_all(t_scenarios_memory, &fault, NULL);
}

static void graph_scenarios(void **state)
{
    (void)state;
    t_sweep_all(t_scenarios_graph, &fault, NULL);
}

/* Work runs in another order here, and with delays: another set of allocations is in flight when one fails.
 */
static void under_chaos(void **state)
{
    (void)state;
    t_host_only("random orders are of the host device");
    t_sweep_all(t_scenarios_graph, &fault, "host:threads=2,chaos=11");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_scenarios),
        cmocka_unit_test(memory_scenarios),
        cmocka_unit_test(graph_scenarios),
        cmocka_unit_test(under_chaos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
