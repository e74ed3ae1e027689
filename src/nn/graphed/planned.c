/* SPDX-License-Identifier: MIT */
/* nn/graphed/planned.c: the memory plan of all captures that are made together.
 *
 * A probe asks for the same blocks as the real capture of its pass, so that its notes are those of
 * a first run. Probes have a pool of their own: what they take goes when they go. */
#include "nn/graphed/planned.h"
#include "base/status.h"
#include "nn/graphed/callable.h"

static bool has_ended(const ph__graphed_set *set)
{
    ph_memory_plan_info info;
    return ph_memory_plan_get_info(&info, set->plan) == PH_OK && info.ended;
}

static ph_status name_call(ph_status status, const char *call)
{
    if (status != PH_OK)
        ph__error_prefix("%s", call);
    return status;
}

ph_status ph__set_plan_begin(ph__graphed_set *set, size_t captures, const char *call)
{
    if (!set->options.plan || set->plan)
        return PH_OK;
    PH_TRY(name_call(ph_memory_plan_create(&set->plan, set->pool, set->stream, captures), call));
    return ph_pool_create(&set->probe_pool, set->device, NULL);
}

bool ph__set_is_noted(const ph__graphed_set *set)
{
    return set->plan && !has_ended(set);
}

bool ph__trial_is_planned(const ph__trial *trial)
{
    return trial->callable->set->plan && !(trial->probe && trial->number > 0);
}

ph_pool *ph__trial_pool(const ph__trial *trial)
{
    const ph__graphed_set *set = trial->callable->set;
    return trial->probe && set->probe_pool ? set->probe_pool : set->pool;
}

ph_status ph__set_plan_place(ph__graphed_set *set, const char *call)
{
    if (!set->plan || set->plan_ended)
        return PH_OK;
    PH_TRY(name_call(ph_memory_plan_place(set->plan), call));
    set->plan_ended = has_ended(set);
    return PH_OK;
}

bool ph__set_plan_broke(ph__graphed_set *set)
{
    if (!set->plan || set->plan_ended)
        return false;
    set->plan_ended = has_ended(set);
    return set->plan_ended;
}

ph_status ph__set_plan_finish(ph__graphed_set *set, const char *call)
{
    return set->plan ? name_call(ph_memory_plan_finish(set->plan), call) : PH_OK;
}

void ph__set_plan_drop(ph__graphed_set *set, bool again)
{
    if (set->plan && again && has_ended(set)) {
        set->plan_ended = true;
        ph_ignore(ph_memory_plan_finish(set->plan));
    } else {
        ph_memory_plan_destroy(set->plan);
        set->plan = NULL;
    }
    ph_pool_release(set->probe_pool);
    set->probe_pool = NULL;
}
