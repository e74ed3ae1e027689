/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state_entries.c: the names and kinds of what a file of an optimizer's state has. */
#include "nn/optimizer/state_entries.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"

static char *join_names(const char *name, const char *suffix)
{
    ph__text text = {.at = NULL};
    ph__text_format(&text, "%s.%s", name, suffix);
    return ph__text_detach(&text);
}

void ph__state_entries_free(ph__state_entries *all)
{
    for (size_t i = 0; i < all->count; i++)
        ph__free(all->at[i].name);
    ph__vec_free(all);
}

static bool add_entry(ph__state_entries *all, const char *of, ph__state_kind kind, size_t param,
                      size_t number, const char *suffix)
{
    char *name = kind == PH__STATE_OPTIMIZER_STEPS ? ph__strdup(suffix) : join_names(of, suffix);
    if (name && ph__vec_push(all, ((ph__state_entry){name, kind, param, number})))
        return true;
    ph__free(name);
    return false;
}

static bool add_param(ph__state_entries *all, const ph_optimizer *o, size_t i, const char *name)
{
    const ph__optimizer_group *group = ph__group_of(o, &o->params.at[i]);
    bool whole = true;
    for (size_t k = 0; k < PH__OPTIMIZER_STATES; k++)
        if (group->settings.states >> k & 1)
            whole = whole && add_entry(all, name, PH__STATE_TENSOR, i, k, o->kind->state_names[k]);
    if (o->kind->counts)
        whole = whole && add_entry(all, name, PH__STATE_STEP, i, 0, "step");
    for (size_t k = 0; k < PH__COUNT_KEPT; k++)
        if (o->kind->kept_names[k])
            whole = whole && add_entry(all, name, PH__STATE_KEPT, i, k, o->kind->kept_names[k]);
    return whole;
}

ph_status ph__state_entries_of(ph__state_entries *all, const ph_optimizer *o,
                               const ph__state_place *places, const char *call)
{
    *all = (ph__state_entries){.at = NULL};
    bool whole = add_entry(all, NULL, PH__STATE_OPTIMIZER_STEPS, 0, 0, "steps");
    for (size_t i = 0; whole && i < o->params.count; i++)
        whole = add_param(all, o, i, places ? places[i].name : o->params.at[i].name);
    if (whole)
        return PH_OK;
    ph__state_entries_free(all);
    return ph__fail_host_memory(call, "the names of an optimizer's state");
}
