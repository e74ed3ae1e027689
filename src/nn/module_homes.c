/* SPDX-License-Identifier: MIT */
/* nn/module_homes.c: where structs keep the tensors of their modules, and which of them hold another one since. */
#include "base/alloc.h"
#include "base/line.h"
#include "nn/module.h"
#include <string.h>

static bool note(ph_module *module, const ph_parameter *from, bool buffer)
{
    if (!from->tensor)
        return true;
    char *name = ph__strdup(from->name);
    if (name && ph__vec_push(&module->homes, ((ph__home){from->tensor, *from->tensor, name, buffer})))
        return true;
    ph__free(name);
    return false;
}

bool ph__homes_note(ph_module *module, const ph_module_desc *desc)
{
    for (size_t i = 0; i < desc->parameter_count; i++)
        if (!note(module, &desc->parameters[i], false))
            return false;
    for (size_t i = 0; i < desc->buffer_count; i++)
        if (!note(module, &desc->buffers[i], true))
            return false;
    return true;
}

void ph__homes_free(ph_module *module)
{
    for (size_t i = 0; i < module->homes.count; i++)
        ph__free((void *)(uintptr_t)module->homes.at[i].name);
    ph__vec_free(&module->homes);
}

static bool collect(const ph__entry *entry, void *user)
{
    ph__homes *out = user;
    const ph__homes *own = &entry->module->homes;
    if (entry->tensor || own->count == 0)
        return true;
    if (!ph__vec_reserve(out, own->count))
        return false;
    memcpy(out->at + out->count, own->at, own->count * sizeof *own->at);
    out->count += own->count;
    return true;
}

bool ph__homes_collect(ph__homes *out, const ph_module *module)
{
    return ph__module_walk(module, collect, out);
}

typedef struct looking {
    char *text;
    size_t size;
    bool found;
} looking;

static void tell(looking *l, const char *prefix, const ph__home *home)
{
    const char *how = !home->was ? "added" : *home->at ? "replaced by another tensor" : "removed";
    ph__line_format(l->text, l->size, "%s '%s%s' was %s", home->buffer ? "buffer" : "parameter", prefix,
                    home->name, how);
    l->found = true;
}

static bool look(const ph__entry *entry, void *user)
{
    looking *l = user;
    for (size_t i = 0; !entry->tensor && !l->found && i < entry->module->homes.count; i++)
        if (*entry->module->homes.at[i].at != entry->module->homes.at[i].was)
            tell(l, entry->name, &entry->module->homes.at[i]);
    return !l->found;
}

bool ph__module_has_changed(char *text, size_t size, const ph_module *module)
{
    looking l = {text, size, false};
    (void)ph__module_walk(module, look, &l);
    return l.found;
}
