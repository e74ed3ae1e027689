/* SPDX-License-Identifier: MIT */
/* driver/host/exec/profile.c: launches whose nodes are measured: by the plan itself, as it runs. */
#include "base/clock.h"
#include "driver/host/exec/exec.h"
#include "driver/host/stream/entries.h"

enum {
    WAIT_NS = 20000
};

struct ph__drv_profile {
    ph__host_exec *exec;
    size_t count; /* nodes of the template */
    ph__drv_span spans[];
};

static int start_profile(ph__host_exec *exec)
{
    int result = 0;
    pthread_mutex_lock(&exec->lock);
    if (exec->in_flight > 0) {
        ph__driver_set_reason("a launch of it is in flight");
        result = PH__R_ILLEGAL_STATE;
    } else if (ph__plan_times(exec->image->plan)) {
        ph__driver_set_reason("it is being measured already");
        result = PH__R_ILLEGAL_STATE;
    } else if (!ph__plan_measure(exec->image->plan, true)) {
        result = PH__R_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&exec->lock);
    return result;
}

int ph__host_profile_open(ph__drv_profile **out, ph__drv_exec *handle, ph_profile_source *source)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    if (!out || !exec || !source)
        return PH__R_INVALID_VALUE;
    if (*source != PH_PROFILE_AUTO && *source != PH_PROFILE_DEVICE) {
        ph__driver_set_reason(
            "the host device has only PH_PROFILE_DEVICE (or AUTO), not PH_PROFILE_%s",
            *source == PH_PROFILE_CUPTI ? "CUPTI" : "EVENTS");
        return PH__R_NOT_SUPPORTED;
    }
    size_t count = exec->graph->nodes.count;
    ph__drv_profile *profile = ph__calloc(1, sizeof *profile + count * sizeof profile->spans[0]);
    if (!profile)
        return PH__R_OUT_OF_MEMORY;
    profile->exec = exec;
    int result = start_profile(exec);
    if (result) {
        ph__free(profile);
        return result;
    }
    *source = PH_PROFILE_DEVICE;
    *out = profile;
    return 0;
}

/* A child graph has a slot before its body's and one after: what lies between their ends is its
 * own. */
static bool find_span(ph__drv_span *out, const ph__plan_time *times, const ph__host_node *node)
{
    const ph__host_graph *body = node->work.body;
    const ph__plan_time *last = &times[node->slot];
    const ph__plan_time *first = body ? last - body->slot_count - 1 : last;
    *out = (ph__drv_span){node->self, first->start_ns, last->end_ns};
    return first->start_ns != 0 && last->end_ns != 0;
}

/* An image that a change put in the place of the measured one has no times. */
int ph__host_profile_read(const ph__drv_span **spans, size_t *count, ph__drv_profile *profile)
{
    if (!spans || !count || !profile)
        return PH__R_INVALID_VALUE;
    ph__host_exec *exec = profile->exec;
    int result = 0;
    profile->count = 0;
    pthread_mutex_lock(&exec->lock);
    const ph__plan_time *times = ph__plan_times(exec->image->plan);
    if (exec->in_flight > 0) {
        ph__driver_set_reason("the launch is not over");
        result = PH__R_NOT_READY;
    }
    for (size_t i = 0; !result && times && i < exec->graph->nodes.count; i++)
        profile->count += find_span(&profile->spans[profile->count], times,
                                    ph__host_node_of(exec->graph->nodes.at[i]));
    pthread_mutex_unlock(&exec->lock);
    if (result)
        return result;
    *spans = profile->spans;
    *count = profile->count;
    return 0;
}

/* The plan must not run meanwhile, and a caller that failed may not have waited for its launch. */
void ph__host_profile_close(ph__drv_profile *profile)
{
    if (!profile)
        return;
    ph__host_exec *exec = profile->exec;
    pthread_mutex_lock(&exec->lock);
    while (exec->in_flight > 0) {
        pthread_mutex_unlock(&exec->lock);
        ph__sleep_ns(WAIT_NS);
        pthread_mutex_lock(&exec->lock);
    }
    (void)ph__plan_measure(exec->image->plan, false);
    pthread_mutex_unlock(&exec->lock);
    ph__free(profile);
}
