/* SPDX-License-Identifier: MIT */
/* inspect/verify/second.c: what a replay of the second capture gives, where that has other nodes or
 * parameters than a graph that gives what an eager run gives. */
#include "inspect/verify/second.h"
#include "inspect/verify/change.h"
#include "inspect/verify/compare.h"
#include "inspect/verify/run.h"

/* A further replay must begin as the others did, and no other rank or code may have to take part in
 * it. Blocks that the capture was not given lie elsewhere in each run. */
static bool can_be_compared(const ph__verify *verify)
{
    return verify->prepared && !verify->options->skip_foreign && verify->missed == 0 &&
           verify->graph->collectives == NULL && verify->second->collectives == NULL;
}

ph_status ph__verify_try_second(ph__verify *verify, ph__difference *difference)
{
    verify->second_gives = PH__SECOND_UNKNOWN;
    verify->other_nodes = ph__verify_has_other_nodes(verify);
    verify->other_parameters = ph__verify_has_other_parameters(verify);
    if (!can_be_compared(verify) || !(verify->other_nodes || verify->other_parameters))
        return PH_OK;
    PH_TRY(ph__verify_replay_second(verify, &verify->other));
    bool other = ph__verify_compare(difference, verify, &verify->other, &verify->eager, 0);
    verify->second_gives = other ? PH__SECOND_OTHER : PH__SECOND_SAME;
    return PH_OK;
}
