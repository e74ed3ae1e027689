/* SPDX-License-Identifier: MIT */
/* nn/optimizer/groups.c: groups of parameters: whom the options name; their learning rates. */
#include "nn/optimizer/groups.h"
#include "base/status.h"
#include "nn/optimizer/options.h"
#include <string.h>

/* ---- who belongs where ---- */
/* '*' stands for any characters, also for none. */
static bool name_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static ph_status choose_by_name(ph_optimizer *o, size_t group, const ph_parameter_choice *choice,
                                const char *call)
{
    for (size_t k = 0; k < choice->name_count; k++) {
        const char *pattern = choice->names[k];
        bool any = false, before = false, own = false;
        if (!pattern)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: groups[%zu].parameters->names[%zu] is NULL",
                           call, group, k);
        for (size_t i = 0; i < o->params.count; i++) {
            ph__trained *p = &o->params.at[i];
            if (!name_matches(pattern, p->name))
                continue;
            before |= p->group < group;
            own |= p->group == group;
            any |= p->group > group;
            p->group = p->group < group ? p->group : group;
        }
        if (!any)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: groups[%zu] names \"%s\", and %s; names are those of "
                           "ph_optimizer_parameter_name, and * stands for any characters",
                           call, group, pattern,
                           own      ? "has all parameters of that name already"
                           : before ? "groups before it have all parameters of that name"
                                    : "no parameter that requires a gradient has that name");
    }
    return PH_OK;
}

static ph_status choose_by_number(ph_optimizer *o, size_t group, const ph_parameter_choice *choice,
                                  const char *call)
{
    for (size_t k = 0; k < choice->index_count; k++) {
        size_t i = choice->indices[k];
        if (i >= o->params.count)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: groups[%zu] has the parameter of number %zu, and there are %zu "
                           "that require a gradient",
                           call, group, i, o->params.count);
        if (o->params.at[i].group <= group)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: groups[%zu] has the parameter of number %zu, %s, which "
                           "groups[%zu] has already",
                           call, group, i, o->params.at[i].name, o->params.at[i].group);
        o->params.at[i].group = group;
    }
    return PH_OK;
}

ph_status ph__groups_choose(ph_optimizer *o, const ph_parameter_choice *const *choices,
                            const char *call)
{
    size_t last = o->group_count - 1;
    for (size_t i = 0; i < o->params.count; i++)
        o->params.at[i].group = last;
    for (size_t group = 0; group < last; group++) {
        const ph_parameter_choice *choice = choices[group];
        if (!choice || choice->name_count + choice->index_count == 0)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: groups[%zu] names no parameter: set its member parameters", call,
                           group);
        if ((choice->name_count > 0 && !choice->names) ||
            (choice->index_count > 0 && !choice->indices))
            return ph_fail(PH_ERROR_ARGUMENT, "%s: groups[%zu].parameters->%s is NULL", call, group,
                           choice->name_count > 0 && !choice->names ? "names" : "indices");
        PH_TRY(choose_by_name(o, group, choice, call));
        PH_TRY(choose_by_number(o, group, choice, call));
    }
    for (size_t i = 0; i < o->params.count; i++)
        ph__group_of(o, &o->params.at[i])->param_count++;
    return PH_OK;
}

size_t ph_optimizer_group_count(const ph_optimizer *optimizer)
{
    return optimizer ? optimizer->group_count : 0;
}

size_t ph_optimizer_parameter_count(const ph_optimizer *optimizer)
{
    return optimizer ? optimizer->params.count : 0;
}

const char *ph_optimizer_parameter_name(const ph_optimizer *optimizer, size_t index)
{
    return optimizer && index < optimizer->params.count ? optimizer->params.at[index].name : NULL;
}

size_t ph_optimizer_parameter_group(const ph_optimizer *optimizer, size_t index)
{
    return optimizer && index < optimizer->params.count ? optimizer->params.at[index].group
                                                        : SIZE_MAX;
}

/* ---- learning rates ---- */
static ph_status check_group(const ph_optimizer *optimizer, size_t group, const char *call)
{
    if (!optimizer)
        return ph__fail_null(call, "optimizer");
    if (group < optimizer->group_count)
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT, "%s: there is no group of number %zu: the optimizer has %zu",
                   call, group, optimizer->group_count);
}

ph_status ph_optimizer_group_set_lr(ph_optimizer *optimizer, size_t group, double lr)
{
    static const char call[] = "ph_optimizer_group_set_lr";
    PH_TRY(check_group(optimizer, group, call));
    PH_TRY(ph__option_at_least_0(lr, "lr", call));
    atomic_store_explicit(&optimizer->groups[group].lr, ph__bits_of(lr), memory_order_relaxed);
    return PH_OK;
}

ph_status ph_optimizer_set_lr(ph_optimizer *optimizer, double lr)
{
    static const char call[] = "ph_optimizer_set_lr";
    if (!optimizer)
        return ph__fail_null(call, "optimizer");
    PH_TRY(ph__option_at_least_0(lr, "lr", call));
    for (size_t i = 0; i < optimizer->group_count; i++)
        atomic_store_explicit(&optimizer->groups[i].lr, ph__bits_of(lr), memory_order_relaxed);
    return PH_OK;
}

double ph_optimizer_group_lr(const ph_optimizer *optimizer, size_t group)
{
    if (!optimizer || group >= optimizer->group_count)
        return 0;
    return ph__double_of(atomic_load_explicit(&optimizer->groups[group].lr, memory_order_relaxed));
}

double ph_optimizer_lr(const ph_optimizer *optimizer)
{
    return optimizer ? ph_optimizer_group_lr(optimizer, optimizer->group_count - 1) : 0;
}
