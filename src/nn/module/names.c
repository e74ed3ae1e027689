/* SPDX-License-Identifier: MIT */
/* nn/module/names.c: what modules below a module are called from there. Children never change,
 * so that they are looked through once, and not for each call of one of them. */
#include "nn/module/names.h"
#include "base/alloc.h"
#include "base/map.h"
#include "nn/module/module.h"

enum {
    FEW = 16 /* children that are compared before anything is made */
};
static const size_t nothing_above = SIZE_MAX;

/* A way to a module. */
typedef struct way {
    size_t up; /* the way to the module that it is a child of */
    const char *name;
} way;

struct ph__module_names {
    /* near ones first: all children of a module, then what is below the first of them, and so on */
    PH__VEC(way)
    ways;
    ph__map first; /* module -> the first way to it, counted from 1 */
};

static bool add_way(ph__module_names *names, const ph__named_module *child, size_t up)
{
    uint64_t key = (uint64_t)(uintptr_t)child->module;
    if (!ph__vec_push(&names->ways, ((way){up, child->name})))
        return false;
    return ph__map_get(&names->first, key) ||
           ph__map_put(&names->first, key, (void *)(uintptr_t)names->ways.count);
}

/* Modules below one that was met before have names from there. */
static bool collect_names_below(ph__module_names *names, ph__map *met, const ph_module *in,
                                size_t up)
{
    size_t first = names->ways.count;
    if (ph__map_get(met, (uint64_t)(uintptr_t)in))
        return true;
    bool ok = ph__map_put(met, (uint64_t)(uintptr_t)in, names);
    for (size_t i = 0; ok && i < in->children.count; i++)
        ok = add_way(names, &in->children.at[i], up);
    for (size_t i = 0; ok && i < in->children.count; i++)
        ok = collect_names_below(names, met, in->children.at[i].module, first + i);
    return ok;
}

void ph__module_names_free(ph__module_names *names)
{
    if (!names)
        return;
    ph__vec_free(&names->ways);
    ph__map_free(&names->first);
    ph__free(names);
}

static ph__module_names *make_names(const ph_module *module)
{
    ph__map met = {0};
    ph__module_names *names = ph__calloc(1, sizeof *names);
    if (names && !collect_names_below(names, &met, module, nothing_above)) {
        ph__module_names_free(names);
        names = NULL;
    }
    ph__map_free(&met);
    return names;
}

/* Of threads that make them at once the first one's stay. */
static const ph__module_names *names_of(ph_module *module)
{
    ph__module_names *there = atomic_load_explicit(&module->names, memory_order_acquire);
    if (there)
        return there;
    ph__module_names *made = make_names(module);
    if (made && !atomic_compare_exchange_strong(&module->names, &there, made)) {
        ph__module_names_free(made);
        return there;
    }
    return made;
}

static size_t first_way(const ph__module_names *names, const ph_module *module)
{
    return module ? (size_t)(uintptr_t)ph__map_get(&names->first, (uint64_t)(uintptr_t)module) : 0;
}

static void add_way_name(ph__text *text, const ph__module_names *names, size_t at)
{
    const way *last = &names->ways.at[at];
    if (last->up != nothing_above) {
        add_way_name(text, names, last->up);
        ph__text_add(text, ".");
    }
    ph__text_add(text, last->name);
}

bool ph__module_add_name(ph__text *text, ph_module *in, const ph_module *module)
{
    for (size_t i = 0; i < in->children.count && i < FEW; i++)
        if (in->children.at[i].module == module || in->children.at[i].module == module->original) {
            ph__text_add(text, in->children.at[i].name);
            return true;
        }
    if (in->children.count == 0)
        return false;
    const ph__module_names *names = names_of(in);
    if (!names) {
        text->failed = true;
        return true;
    }
    size_t at = first_way(names, module), other = first_way(names, module->original);
    if (at == 0 || (other > 0 && other < at))
        at = other;
    if (at > 0)
        add_way_name(text, names, at - 1);
    return at > 0;
}

size_t ph__module_names_count(const ph_module *module)
{
    const ph__module_names *names = atomic_load(&module->names);
    return names ? names->ways.count : 0;
}
