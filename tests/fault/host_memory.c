/* SPDX-License-Identifier: MIT */
/* tests/fault/host_memory.c: the n-th host allocation and all after it fail, n = 0, 1, 2, ...,
 * in every scenario. */
#include "support/scenes.h"
#include "support/test.h"

TEST(device_scenarios_survive_every_host_shortage)
{
    t_sweep_all(t_scenarios_device, &t_host_memory_fault, NULL);
}

TEST(memory_scenarios_survive_every_host_shortage)
{
    t_sweep_all(t_scenarios_memory, &t_host_memory_fault, NULL);
}

TEST(graph_scenarios_survive_every_host_shortage)
{
    t_sweep_all(t_scenarios_graph, &t_host_memory_fault, NULL);
}

/* Work runs in another order here, and with delays: another set of allocations is in flight when
 * one fails. */
TEST(graph_scenarios_survive_host_shortages_in_random_orders)
{
    t_host_only("random orders are of the host device");
    t_sweep_all(t_scenarios_graph, &t_host_memory_fault, "host:threads=2,chaos=11");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_scenarios_survive_every_host_shortage),
        cmocka_unit_test(memory_scenarios_survive_every_host_shortage),
        cmocka_unit_test(graph_scenarios_survive_every_host_shortage),
        cmocka_unit_test(graph_scenarios_survive_host_shortages_in_random_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
