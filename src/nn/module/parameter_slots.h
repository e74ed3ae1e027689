/* SPDX-License-Identifier: MIT */
/* nn/module/parameter_slots.h: where the structs of modules keep their tensors, and whether they
 * keep others now. */
#ifndef PH_NN_MODULE_PARAMETER_SLOTS_H
#define PH_NN_MODULE_PARAMETER_SLOTS_H
#include "nn/module/module.h"

/* note, collect: false: no host memory. */
bool ph__parameter_slots_note(ph_module *module, const ph_module_desc *desc);
void ph__parameter_slots_free(ph_module *module);
/* The slots of a module and of all below it, for as long as the module lives. The tensors there now
 * are retained until drop, so that no other tensor can come to be at their addresses. drop: also
 * after a failure. */
bool ph__parameter_slots_collect(ph__parameter_slots *out, const ph_module *module);
void ph__parameter_slots_drop(ph__parameter_slots *parameter_slots);
/* An empty slot of a buffer accepts the tensor that it has now. */
void ph__parameter_slots_accept_added(ph__parameter_slots *parameter_slots);
static inline bool ph__parameter_slots_have_changed(const ph__parameter_slots *parameter_slots)
{
    const ph__parameter_slot *slot = parameter_slots->at;
    size_t left = parameter_slots->count;
    uintptr_t changed = 0;
    /* Four at a time: nearly always all are looked at. */
    for (; left >= 4; left -= 4, slot += 4)
        changed |= ((uintptr_t)*slot[0].at ^ (uintptr_t)slot[0].was) |
                   ((uintptr_t)*slot[1].at ^ (uintptr_t)slot[1].was) |
                   ((uintptr_t)*slot[2].at ^ (uintptr_t)slot[2].was) |
                   ((uintptr_t)*slot[3].at ^ (uintptr_t)slot[3].was);
    for (; left > 0; left--, slot++)
        changed |= (uintptr_t)*slot->at ^ (uintptr_t)slot->was;
    return changed != 0;
}
/* The first that has, of those of the module: "parameter '0.weight' was removed". Nothing is
 * written where none has. */
void ph__parameter_slots_report(char *text, size_t size, const ph__parameter_slots *parameter_slots,
                                const ph_module *module);
/* STATE where a struct, of it or below, keeps another tensor than its module was made with; not
 * for a buffer that there was none of. */
ph_status ph__module_check_parameter_slots(const ph_module *module, const char *call);
#endif
