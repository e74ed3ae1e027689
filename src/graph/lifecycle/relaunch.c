/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/relaunch.c: what a launch is told to have failed with. */
#include "graph/lifecycle/relaunch.h"
#include "driver/fail.h"

__attribute__((noinline)) ph_status ph__relaunch_fail(int result, const char *call)
{
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the launch of the graph");
    return ph__driver_fail(result, PH__NAME_GRAPH_LAUNCH, "%s: the graph was not launched", call);
}
