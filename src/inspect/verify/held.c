/* SPDX-License-Identifier: MIT */
/* inspect/verify/held.c: pools that a graph holds beside its own: which of their memory is
 * compared. */
#include "inspect/verify/held.h"
#include "inspect/verify/run.h"
#include <string.h>

void ph__verify_compare_held(ph__verify *verify)
{
    for (size_t i = 0; i < verify->kept.count; i++) {
        ph__kept *one = &verify->kept.at[i];
        if (one->held && !one->lost &&
            memcmp(verify->start.bytes + one->at, verify->eager.bytes + one->at, one->bytes) != 0)
            one->compared = true;
    }
}

static bool is_scratch_that_differs(const ph__verify *verify, const ph__kept *one)
{
    return one->held && !one->compared && !one->lost &&
           memcmp(verify->replay.bytes + one->at, verify->eager.bytes + one->at, one->bytes) != 0;
}

void ph__verify_swap_held(ph__verify *verify, bool swapped)
{
    if (verify->swapped == swapped)
        return;
    verify->swapped = swapped;
    for (size_t i = 0; i < verify->kept.count; i++) {
        const ph__kept *one = &verify->kept.at[i];
        unsigned char *start = verify->start.bytes + one->at,
                      *replay = verify->replay.bytes + one->at;
        for (size_t at = 0; one->swapped && at < one->bytes; at++) {
            unsigned char byte = start[at];
            start[at] = replay[at];
            replay[at] = byte;
        }
    }
}

ph_status ph__verify_inspect_held(ph__verify *verify, bool *found)
{
    bool any = false;
    *found = false;
    for (size_t i = 0; i < verify->kept.count; i++) {
        ph__kept *one = &verify->kept.at[i];
        one->swapped = is_scratch_that_differs(verify, one);
        any = any || one->swapped;
    }
    if (!any)
        return PH_OK;
    ph__verify_swap_held(verify, true);
    ph_status status = ph__verify_eager(verify, &verify->other);
    for (size_t i = 0; i < verify->kept.count && status == PH_OK; i++) {
        ph__kept *one = &verify->kept.at[i];
        bool written = one->swapped && memcmp(verify->start.bytes + one->at,
                                              verify->other.bytes + one->at, one->bytes) != 0;
        one->compared = one->compared || written;
        *found = *found || written;
    }
    ph__verify_swap_held(verify, false);
    return status;
}

size_t ph__verify_held_bytes(const ph__verify *verify)
{
    size_t bytes = 0;
    for (size_t i = 0; i < verify->kept.count; i++) {
        const ph__kept *one = &verify->kept.at[i];
        bytes += is_scratch_that_differs(verify, one) ? one->bytes : 0;
    }
    return bytes;
}
