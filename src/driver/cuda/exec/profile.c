/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/profile.c: launches whose nodes are measured: by CUPTI's records, or by
 * events in a copy of the graph. */
#include "base/line.h"
#include "driver/cuda/exec/activity.h"
#include "driver/cuda/exec/exec.h"
#include "driver/cuda/exec/profile_events.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/list.h"

typedef struct ph__cuda_profile {
    ph__drv_exec *exec;
    ph__cuda_activity *activity; /* one of the two is there */
    ph__cuda_clone *copy;
    ph__cuda_spans spans;
} ph__cuda_profile;

/* The reason against CUPTI is reported with the one against events, where both were wanted. */
static int open_source(ph__cuda_profile *profile, ph_profile_source *source)
{
    char why[256] = "";
    if (*source == PH_PROFILE_DEVICE) {
        ph__driver_set_reason("PH_PROFILE_DEVICE is of the host device; GPUs have PH_PROFILE_CUPTI "
                              "and PH_PROFILE_EVENTS");
        return PH__R_NOT_SUPPORTED;
    }
    if (*source != PH_PROFILE_EVENTS &&
        ph__cuda_activity_open(&profile->activity, profile->exec, why)) {
        *source = PH_PROFILE_CUPTI;
        return PH__R_OK;
    }
    if (*source == PH_PROFILE_CUPTI) {
        ph__driver_set_reason("%s", why);
        return PH__R_NOT_SUPPORTED;
    }
    int result = ph__cuda_clone_open(&profile->copy, profile->exec);
    if (result == PH__R_OK) {
        *source = PH_PROFILE_EVENTS;
    } else if (why[0] && ph__driver_has_reason()) {
        char words[256];
        ph__line_format(words, sizeof words, "%s", ph__driver_reason());
        ph__driver_set_reason("%s; and %s", why, words);
    }
    return result;
}

int ph__cuda_profile_open(ph__drv_profile **out, ph__drv_exec *exec, ph_profile_source *source)
{
    if (!out || !exec || !source)
        return PH__R_INVALID_VALUE;
    if (exec->copies) {
        ph__driver_set_reason("it is being measured already");
        return PH__R_ILLEGAL_STATE;
    }
    ph__cuda_profile *profile = ph__calloc(1, sizeof *profile);
    if (!profile)
        return PH__R_OUT_OF_MEMORY;
    profile->exec = exec;
    int result = ph__cuda_graph_link(exec->graph);
    if (result == PH__R_OK)
        result = open_source(profile, source);
    if (result != PH__R_OK)
        ph__free(profile);
    else
        *out = (ph__drv_profile *)profile;
    return result;
}

int ph__cuda_profile_read(const ph__drv_span **spans, size_t *count, ph__drv_profile *handle)
{
    ph__cuda_profile *profile = (ph__cuda_profile *)handle;
    if (!spans || !count || !profile)
        return PH__R_INVALID_VALUE;
    ph__vec_clear(&profile->spans);
    int result = profile->activity ? ph__cuda_activity_read(profile->activity, &profile->spans)
                                   : ph__cuda_clone_read(profile->copy, &profile->spans);
    if (result != PH__R_OK)
        return result;
    *spans = profile->spans.at;
    *count = profile->spans.count;
    return PH__R_OK;
}

void ph__cuda_profile_close(ph__drv_profile *handle)
{
    ph__cuda_profile *profile = (ph__cuda_profile *)handle;
    if (!profile)
        return;
    ph__cuda_activity_close(profile->activity);
    ph__cuda_clone_close(profile->copy);
    ph__vec_free(&profile->spans);
    ph__free(profile);
}
