/* SPDX-License-Identifier: MIT */
/* tests/cuda/sweep.c: the n-th call of libcuda answers a number instead of doing its work, n =
 * 0, 1, 2, ..., in every scenario. */
#include "fake.h"
#include "support/scenes.h"
#include "support/test.h"

static int64_t before, limit;
static int answer;

static void arm(int64_t n)
{
    before = fake_cuda()->calls();
    limit = n;
    fake_cuda()->fail_after(n, answer);
}

static bool disarm(void)
{
    fake_cuda()->fail_after(-1, 0);
    return fake_cuda()->calls() - before > limit;
}

/* The run before has closed its device: whatever it left in CUDA is seen here. */
static void prepare(ph_device *device)
{
    (void)device;
    if (left_behind()[0])
        fail_msg("after call %lld failed with %d: %s", (long long)limit, answer, left_behind());
    if (fake_cuda()->misuses())
        fail_msg("after call %lld failed with %d: %s", (long long)limit, answer,
                 fake_cuda()->misuse_text());
}

/* A number may be met where it means something else to the library: no memory for a segment
 * makes room first, a missing function is an argument's fault. What it may not be is unnamed. */
static bool expects(ph_status status)
{
    if (status == PH_ERROR_NOT_FOUND) /* for want of GPUs there is none to open */
        return strstr(ph_error_last()->message, "cuDeviceGetCount") != NULL;
    switch (answer) {
    case PH__R_OUT_OF_MEMORY:
        return status == PH_ERROR_HOST_MEMORY || status == PH_ERROR_DEVICE_MEMORY;
    case PH__R_CAPTURE_UNSUPPORTED:
    case PH__R_CAPTURE_INVALIDATED:
        return status == PH_ERROR_CAPTURE;
    case PH__R_INVALID_VALUE:
        return status == PH_ERROR_ARGUMENT || status == PH_ERROR_DEVICE;
    default:
        return status == PH_ERROR_DEVICE;
    }
}

static const t_fault fault = {"call of libcuda", prepare, arm, disarm, expects};

static void sweep(const t_scenario *scenarios, int number)
{
    NEED_FAKE();
    answer = number;
    t_sweep_all(scenarios, &fault, NULL);
    prepare(NULL);
}

#define SWEEP(name, scenarios, number)                                                             \
    TEST(name)                                                                                     \
    {                                                                                              \
        sweep(scenarios, number);                                                                  \
    }
SWEEP(device_out_of_memory, t_scenarios_device, PH__R_OUT_OF_MEMORY)
SWEEP(memory_out_of_memory, t_scenarios_memory, PH__R_OUT_OF_MEMORY)
SWEEP(graph_out_of_memory, t_scenarios_graph, PH__R_OUT_OF_MEMORY)
SWEEP(device_scenarios_survive_unknown_errors, t_scenarios_device, 999)
SWEEP(memory_scenarios_survive_unknown_errors, t_scenarios_memory, 999)
SWEEP(graph_scenarios_survive_unknown_errors, t_scenarios_graph, 999)
SWEEP(graph_capture_unsupported, t_scenarios_graph, PH__R_CAPTURE_UNSUPPORTED)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_out_of_memory),
        cmocka_unit_test(memory_out_of_memory),
        cmocka_unit_test(graph_out_of_memory),
        cmocka_unit_test(device_scenarios_survive_unknown_errors),
        cmocka_unit_test(memory_scenarios_survive_unknown_errors),
        cmocka_unit_test(graph_scenarios_survive_unknown_errors),
        cmocka_unit_test(graph_capture_unsupported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
