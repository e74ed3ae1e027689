/* SPDX-License-Identifier: MIT */
/* nn/module/parameter_slots.c: where structs keep the tensors of their modules, and which of them
 * hold another one since. */
#include "nn/module/parameter_slots.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/module/module.h"
#include "nn/module/traverse.h"

static bool note_slot(ph_module *module, const ph_parameter *from, bool buffer)
{
    if (!from->tensor)
        return true;
    char *name = ph__strdup(from->name);
    if (name && ph__vec_push(&module->parameter_slots,
                             ((ph__parameter_slot){from->tensor, *from->tensor, name, buffer})))
        return true;
    ph__free(name);
    return false;
}

bool ph__parameter_slots_note(ph_module *module, const ph_module_desc *desc)
{
    for (size_t i = 0; i < desc->parameter_count; i++)
        if (!note_slot(module, &desc->parameters[i], false))
            return false;
    for (size_t i = 0; i < desc->buffer_count; i++)
        if (!note_slot(module, &desc->buffers[i], true))
            return false;
    return true;
}

void ph__parameter_slots_free(ph_module *module)
{
    for (size_t i = 0; i < module->parameter_slots.count; i++)
        ph__free((void *)(uintptr_t)module->parameter_slots.at[i].name);
    ph__vec_free(&module->parameter_slots);
}

/* A graphed module has the tensors of the one that it was made from. */
static const ph__parameter_slots *slots_of(const ph_module *module)
{
    return module->original ? &module->original->parameter_slots : &module->parameter_slots;
}

/* ---- of a callable ---- */
static bool collect_slots(const ph__entry *entry, void *user)
{
    ph__parameter_slots *out = user;
    const ph__parameter_slots *own = slots_of(entry->module);
    if (entry->tensor)
        return true;
    if (!ph__vec_reserve(out, own->count))
        return false;
    for (size_t i = 0; i < own->count; i++) {
        ph__parameter_slot slot = own->at[i];
        slot.was = ph_tensor_retain(*slot.at);
        out->at[out->count++] = slot;
    }
    return true;
}

bool ph__parameter_slots_collect(ph__parameter_slots *out, const ph_module *module)
{
    return ph__module_walk(module, collect_slots, out);
}

void ph__parameter_slots_drop(ph__parameter_slots *parameter_slots)
{
    for (size_t i = 0; i < parameter_slots->count; i++)
        ph_tensor_release(parameter_slots->at[i].was);
    ph__vec_free(parameter_slots);
}

void ph__parameter_slots_accept_added(ph__parameter_slots *parameter_slots)
{
    for (size_t i = 0; i < parameter_slots->count; i++)
        if (!parameter_slots->at[i].was && parameter_slots->at[i].buffer)
            parameter_slots->at[i].was = ph_tensor_retain(*parameter_slots->at[i].at);
}

/* ---- what has changed ---- */
static void describe_slot(char *text, size_t size, const char *prefix,
                          const ph__parameter_slot *slot)
{
    const char *how = !slot->was ? "added" : *slot->at ? "replaced by another tensor" : "removed";
    ph__line_format(text, size, "%s '%s%s' was %s", slot->buffer ? "buffer" : "parameter", prefix,
                    slot->name, how);
}

typedef struct search {
    char *text;
    size_t size;
    const ph__parameter_slot *slot; /* the one that is looked for; NULL: one that has changed */
    bool found;
} search;

/* A buffer that there was none of is no part of the module: forward may make one when it first
 * needs it. */
static bool is_searched(const search *l, const ph__parameter_slot *slot)
{
    if (l->slot)
        return slot->at == l->slot->at;
    return *slot->at != slot->was && (slot->was || !slot->buffer);
}

static bool visit_slot(const ph__entry *entry, void *user)
{
    search *l = user;
    const ph__parameter_slots *own = slots_of(entry->module);
    for (size_t i = 0; !entry->tensor && !l->found && i < own->count; i++)
        if (is_searched(l, &own->at[i])) {
            const char *prefix = ph__entry_name(entry);
            if (!prefix)
                return false;
            describe_slot(l->text, l->size, prefix, l->slot ? l->slot : &own->at[i]);
            l->found = true;
        }
    return !l->found;
}

void ph__parameter_slots_report(char *text, size_t size, const ph__parameter_slots *parameter_slots,
                                const ph_module *module)
{
    search l = {.text = text, .size = size};
    for (size_t i = 0; i < parameter_slots->count && !l.slot; i++)
        if (*parameter_slots->at[i].at != parameter_slots->at[i].was)
            l.slot = &parameter_slots->at[i];
    if (!l.slot)
        return;
    /* where there is no memory for the walk that finds its whole name */
    describe_slot(text, size, "", l.slot);
    (void)ph__module_walk(module, visit_slot, &l);
}

ph_status ph__module_check_parameter_slots(const ph_module *module, const char *call)
{
    char changed[160];
    search l = {.text = changed, .size = sizeof changed};
    bool whole = ph__module_walk(module, visit_slot, &l);
    if (!l.found)
        return whole ? PH_OK : ph__fail_host_memory(call, "the names of a module's tensors");
    return ph_fail(
        PH_ERROR_STATE,
        "%s: in the struct of a module (%s) %s since the module was made, which goes on with what "
        "it was made with; put that back (ph_tensor_copy changes its values), or make the module "
        "anew",
        call, module->name, changed);
}
