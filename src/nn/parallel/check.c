/* SPDX-License-Identifier: MIT */
/* nn/parallel/check.c: what must hold before a pass, and before other
 * collectives of the network. */
#include "nn/parallel/check.h"
#include "base/status.h"
#include "nn/parallel/shards.h"
#include "tensor/tape/tape_error.h"
#include <phonograph/collectives.h>

ph_status ph__parallel_check_group(const ph_comm *comm, const char *call)
{
    if (!ph_comm_in_group(comm))
        return PH_OK;
    return ph_fail(PH_ERROR_STATE,
                   "%s: a group of the communicator is open, and results of collectives would be "
                   "there at its end alone; end it first (ph_comm_group_end)",
                   call);
}

/* ---- parameters ---- */
typedef struct visit {
    const ph_data_parallel *parallel;
    ph_tape *tape;
    const char *call;
} visit;

static bool check_parameter(const char *name, ph_tensor *x, void *user)
{
    const visit *v = user;
    bool trained = ph__map_get(&v->parallel->trained, (uintptr_t)x) != NULL;
    if (ph_tensor_requires_grad(x) == trained)
        return true;
    ph_tape_fail(v->tape, PH_ERROR_STATE,
                 "%s: parameter %s of %s %s since ph_data_parallel_create; make the network again "
                 "with the parameters that it has now",
                 v->call, name, ph_module_name(v->parallel->module),
                 trained ? "was frozen" : "was unfrozen or put in");
    return false;
}

static void check_parameters(ph_tape *tape, const ph_data_parallel *parallel, const char *call)
{
    visit v = {parallel, tape, call};
    ph_module_parameters(parallel->module, check_parameter, &v);
}

bool ph__parallel_pass_check(ph_tape *tape, const ph_data_parallel *parallel, const char *call)
{
    if (parallel == NULL)
        ph_tape_check(tape, ph__fail_null(call, "parallel"));
    else if (parallel->running)
        ph_tape_fail(tape, PH_ERROR_STATE, "%s: called from inside of its own pass", call);
    else if (parallel->broken)
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: an earlier pass failed on this rank, and other ranks may be in another "
                     "one; end them with ph_comm_abort, and make communicator and network again",
                     call);
    else if (ph_tape_device(tape) != ph_module_device(parallel->module))
        ph_tape_fail(tape, PH_ERROR_WRONG_DEVICE, "%s: the tape is of another device than %s", call,
                     ph_module_name(parallel->module));
    else if (parallel->active && !parallel->local && ph_stream_is_capturing(ph_tape_stream(tape)))
        ph_tape_fail(tape, PH_ERROR_UNSUPPORTED,
                     "%s: with uneven_inputs no pass is captured, as a rank without inputs would "
                     "not replay it; create the network without it, or run the pass eagerly",
                     call);
    else if (!parallel->local && ph__parallel_check_group(parallel->comm, call) != PH_OK)
        ph_tape_check(tape, ph_error_last()->status);
    else
        check_parameters(tape, parallel, call);
    if (!ph__tape_failed(tape) && parallel->shards)
        ph__shards_check(tape, parallel, call);
    return !ph__tape_failed(tape);
}
