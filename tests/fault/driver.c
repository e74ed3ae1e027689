/* SPDX-License-Identifier: MIT */
/* tests/fault/driver.c: the n-th call of the driver answers a number instead of doing its work,
 * n = 0, 1, 2, ..., in every scenario. */
#include "driver/driver.h"
#include "support/scenes.h"
#include "support/test.h"
#include <stdlib.h>

#define SWEEP(name, scenarios, number)                                                             \
    TEST(name)                                                                                     \
    {                                                                                              \
        t_sweep_all(scenarios, t_driver_fault(number), NULL);                                      \
    }
SWEEP(device_out_of_memory, t_scenarios_device, PH__R_OUT_OF_MEMORY)
SWEEP(memory_out_of_memory, t_scenarios_memory, PH__R_OUT_OF_MEMORY)
SWEEP(graph_out_of_memory, t_scenarios_graph, PH__R_OUT_OF_MEMORY)
SWEEP(device_launch_failed, t_scenarios_device, PH__R_LAUNCH_FAILED)
SWEEP(memory_launch_failed, t_scenarios_memory, PH__R_LAUNCH_FAILED)
SWEEP(graph_launch_failed, t_scenarios_graph, PH__R_LAUNCH_FAILED)
SWEEP(graph_capture_unsupported, t_scenarios_graph, PH__R_CAPTURE_UNSUPPORTED)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_out_of_memory),      cmocka_unit_test(memory_out_of_memory),
        cmocka_unit_test(graph_out_of_memory),       cmocka_unit_test(device_launch_failed),
        cmocka_unit_test(memory_launch_failed),      cmocka_unit_test(graph_launch_failed),
        cmocka_unit_test(graph_capture_unsupported),
    };
    /* Memory whose free was made to fail is still there at the end. */
    (void)setenv("FAKE_CUDA_LENIENT", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
