/* SPDX-License-Identifier: MIT */
/* nn/module/homes.c: where structs keep the tensors of their modules, and which of them hold
 * another one since. */
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/module/module.h"

static bool note(ph_module *module, const ph_parameter *from, bool buffer)
{
    if (!from->tensor)
        return true;
    char *name = ph__strdup(from->name);
    if (name &&
        ph__vec_push(&module->homes, ((ph__home){from->tensor, *from->tensor, name, buffer})))
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

/* A graphed module has the tensors of the one that it was made from. */
static const ph__homes *homes_of(const ph_module *module)
{
    return module->original ? &module->original->homes : &module->homes;
}

/* ---- of a callable ---- */
static bool collect(const ph__entry *entry, void *user)
{
    ph__homes *out = user;
    const ph__homes *own = homes_of(entry->module);
    if (entry->tensor)
        return true;
    if (!ph__vec_reserve(out, own->count))
        return false;
    for (size_t i = 0; i < own->count; i++) {
        ph__home home = own->at[i];
        home.was = ph_tensor_retain(*home.at);
        out->at[out->count++] = home;
    }
    return true;
}

bool ph__homes_collect(ph__homes *out, const ph_module *module)
{
    return ph__module_walk(module, collect, out);
}

void ph__homes_drop(ph__homes *homes)
{
    for (size_t i = 0; i < homes->count; i++)
        ph_tensor_release(homes->at[i].was);
    ph__vec_free(homes);
}

void ph__homes_accept_added(ph__homes *homes)
{
    for (size_t i = 0; i < homes->count; i++)
        if (!homes->at[i].was && homes->at[i].buffer)
            homes->at[i].was = ph_tensor_retain(*homes->at[i].at);
}

/* ---- what has changed ---- */
static void tell(char *text, size_t size, const char *prefix, const ph__home *home)
{
    const char *how = !home->was ? "added" : *home->at ? "replaced by another tensor" : "removed";
    ph__line_format(text, size, "%s '%s%s' was %s", home->buffer ? "buffer" : "parameter", prefix,
                    home->name, how);
}

typedef struct looking {
    char *text;
    size_t size;
    const ph__home *home; /* the one that is looked for; NULL: one that has changed */
    bool found;
} looking;

/* A buffer that there was none of is no part of the module: forward may make one when it first
 * needs it. */
static bool is_looked_for(const looking *l, const ph__home *home)
{
    if (l->home)
        return home->at == l->home->at;
    return *home->at != home->was && (home->was || !home->buffer);
}

static bool look(const ph__entry *entry, void *user)
{
    looking *l = user;
    const ph__homes *own = homes_of(entry->module);
    for (size_t i = 0; !entry->tensor && !l->found && i < own->count; i++)
        if (is_looked_for(l, &own->at[i])) {
            tell(l->text, l->size, entry->name, l->home ? l->home : &own->at[i]);
            l->found = true;
        }
    return !l->found;
}

void ph__homes_tell(char *text, size_t size, const ph__homes *homes, const ph_module *module)
{
    looking l = {.text = text, .size = size};
    for (size_t i = 0; i < homes->count && !l.home; i++)
        if (*homes->at[i].at != homes->at[i].was)
            l.home = &homes->at[i];
    if (!l.home)
        return;
    /* where there is no memory for the walk that finds its whole name */
    tell(text, size, "", l.home);
    (void)ph__module_walk(module, look, &l);
}

ph_status ph__module_check_homes(const ph_module *module, const char *call)
{
    char changed[160];
    looking l = {.text = changed, .size = sizeof changed};
    bool whole = ph__module_walk(module, look, &l);
    if (!l.found)
        return whole ? PH_OK : ph__fail_host_memory(call, "the names of a module's tensors");
    return ph_fail(
        PH_ERROR_STATE,
        "%s: in the struct of a module (%s) %s since the module was made, which goes on with what "
        "it was made with; put that back (ph_tensor_copy changes its values), or make the module "
        "anew",
        call, module->name, changed);
}
