/* SPDX-License-Identifier: MIT */
/* nn/parallel/join.c: passes of the other ranks, on a rank that has no inputs any more. */
#include "base/status.h"
#include "nn/parallel/backward.h"
#include "nn/parallel/check.h"
#include "tensor/tape/tape_error.h"

static ph_status check_join(const ph_data_parallel *parallel, const char *call)
{
    if (!parallel->active)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the network was made without uneven_inputs, and the passes of other "
                       "ranks do not ask whether this one has inputs",
                       call);
    if (parallel->local)
        return ph_fail(PH_ERROR_STATE,
                       "%s: ph_data_parallel_set_sync is false, and no pass reduces; set it to "
                       "true, as the other ranks have it in their next pass that reduces",
                       call);
    return PH_OK;
}

ph_status ph_data_parallel_join(bool *passed, ph_tape *tape, ph_data_parallel *parallel)
{
    static const char call[] = "ph_data_parallel_join";
    double active = 0;
    if (passed == NULL)
        return ph__fail_null(call, "passed");
    *passed = false;
    if (tape == NULL)
        return ph__fail_null(call, "tape");
    PH_TRY(ph__tape_refuse(tape, call));
    if (!ph__parallel_pass_check(tape, parallel, call))
        return ph_tape_status(tape);
    PH_TRY(check_join(parallel, call));
    ph__parallel_pass_count_active(tape, parallel, false);
    PH_TRY(ph_tape_status(tape));
    PH_TRY(ph_tensor_item(&active, tape, parallel->active));
    if (active == 0)
        return PH_OK;
    ph__parallel_pass_begin(parallel);
    ph__parallel_pass_end(tape, parallel);
    PH_TRY(ph_tape_status(tape));
    *passed = true;
    return PH_OK;
}
