/* SPDX-License-Identifier: MIT */
/* nn/module/traverse.c: walking what a module holds, by dotted names, each tensor and module
 * once. */
#include "nn/module/traverse.h"
#include "base/map.h"
#include "base/unwind.h"
#include "nn/module/module.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/release.h"
#include <string.h>

enum {
    PLACES =
        128, /* of a table on the stack: networks with more than MOST objects have a map, too */
    PLACES_LOG2 = 7,
    MOST = 96
};

/* A child on the way from the module that is walked to the place of the walk. */
typedef struct level {
    const struct level *outer;
    const char *name;
} level;

struct ph__walk {
    const void *seen[PLACES];
    size_t count;   /* of what was seen and is in the table */
    ph__map others; /* and the others */
    const level *at;
    ph__text name; /* of the last entry of this level that was asked for; empty: nobody has */
    size_t prefix; /* bytes that all of this level begin with */
    ph__entry_fn visit;
    void *user;
};

static size_t first_place(const void *object)
{
    const uint64_t spread = (uint64_t)(uintptr_t)object * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(spread >> (64 - PLACES_LOG2));
}

static bool first_in_others(ph__walk *w, const void *object, bool *failed)
{
    if (ph__map_get(&w->others, (uintptr_t)object))
        return false;
    /* a network has about that many more, and a map that grows is filled again */
    *failed = (w->others.count == 0 && !ph__map_reserve(&w->others, MOST)) ||
              !ph__map_put(&w->others, (uintptr_t)object, w);
    return !*failed;
}

/* True when it is met for the first time. *failed: no host memory. */
static bool first_time(ph__walk *w, const void *object, bool *failed)
{
    size_t at = first_place(object);
    for (; w->seen[at]; at = (at + 1) % PLACES)
        if (w->seen[at] == object)
            return false;
    if (w->count == MOST)
        return first_in_others(w, object, failed);
    w->seen[at] = object;
    w->count++;
    return true;
}

static bool show_entry(ph__walk *w, const char *name, ph__entry entry)
{
    bool failed = false;
    if (!first_time(w, entry.tensor ? (const void *)entry.tensor : entry.module, &failed))
        return !failed;
    entry.walk = w;
    entry.own = name;
    return w->visit(&entry, w->user);
}

static bool walk_module(ph__walk *w, ph_module *module)
{
    if (!show_entry(w, "", (ph__entry){.module = module}))
        return false;
    for (size_t i = 0; i < module->parameters.count; i++)
        if (!show_entry(w, module->parameters.at[i].name,
                        (ph__entry){.tensor = module->parameters.at[i].tensor, .module = module}))
            return false;
    for (size_t i = 0; i < module->buffers.count; i++)
        if (!show_entry(w, module->buffers.at[i].name,
                        (ph__entry){.tensor = module->buffers.at[i].tensor,
                                    .module = module,
                                    .buffer = true}))
            return false;
    const level *outer = w->at;
    for (size_t i = 0; i < module->children.count; i++) {
        const level child = {outer, module->children.at[i].name};
        w->at = &child;
        w->name.length = 0;
        bool go_on = walk_module(w, module->children.at[i].module);
        w->at = outer;
        w->name.length = 0;
        if (!go_on)
            return false;
    }
    return true;
}

static void end_walk(void *what)
{
    ph__walk *w = what;
    ph__text_free(&w->name);
    ph__map_free(&w->others);
}

bool ph__module_walk(const ph_module *module, ph__entry_fn visit, void *user)
{
    ph__walk w = {.visit = visit, .user = user};
    PH__UNWIND unwind = {end_walk, &w};
    bool whole = walk_module(&w, (ph_module *)(uintptr_t)module);
    unwind.undo = NULL;
    end_walk(&w);
    return whole;
}

/* ---- names ---- most visits need none. */
static void add_prefix(ph__text *name, const level *at)
{
    if (!at)
        return;
    add_prefix(name, at->outer);
    ph__text_add(name, at->name);
    ph__text_add(name, ".");
}

char *ph__entry_name(const ph__entry *entry)
{
    ph__walk *w = entry->walk;
    if (w->name.length == 0) {
        add_prefix(&w->name, w->at);
        w->prefix = w->name.length;
    }
    w->name.length = w->prefix;
    ph__text_add(&w->name, entry->own);
    ph__text_add_bytes(&w->name, "", 1);
    return w->name.failed ? NULL : w->name.at;
}

/* ---- the public visits ---- */
typedef struct tensor_visit {
    ph_tensor_visit_fn visit;
    void *user;
    bool buffers;
} tensor_visit;

static bool visit_tensor(const ph__entry *entry, void *user)
{
    tensor_visit *v = user;
    if (!entry->tensor || entry->buffer != v->buffers)
        return true;
    const char *name = ph__entry_name(entry);
    return name && v->visit(name, entry->tensor, v->user);
}

void ph_module_parameters(const ph_module *module, ph_tensor_visit_fn visit, void *user)
{
    tensor_visit v = {visit, user, false};
    if (module && visit)
        (void)ph__module_walk(module, visit_tensor, &v);
}

void ph_module_buffers(const ph_module *module, ph_tensor_visit_fn visit, void *user)
{
    tensor_visit v = {visit, user, true};
    if (module && visit)
        (void)ph__module_walk(module, visit_tensor, &v);
}

typedef struct module_visit {
    ph_module_visit_fn visit;
    void *user;
} module_visit;

/* A module's name here ends with the dot that would join it to what it holds. */
static bool visit_module(const ph__entry *entry, void *user)
{
    module_visit *v = user;
    char *name = entry->tensor ? NULL : ph__entry_name(entry);
    if (entry->tensor || !name)
        return entry->tensor != NULL;
    char *last = strrchr(name, '.');
    if (last)
        *last = '\0';
    bool go_on = v->visit(name, entry->module, v->user);
    if (last)
        *last = '.';
    return go_on;
}

void ph_module_modules(ph_module *module, ph_module_visit_fn visit, void *user)
{
    module_visit v = {visit, user};
    if (module && visit)
        (void)ph__module_walk(module, visit_module, &v);
}

static bool count_parameter(const ph__entry *entry, void *count)
{
    *(size_t *)count += entry->tensor && !entry->buffer;
    return true;
}

size_t ph_module_parameter_count(const ph_module *module)
{
    size_t count = 0;
    if (module)
        (void)ph__module_walk(module, count_parameter, &count);
    return count;
}

/* The child whose name is the first `length` bytes. */
static ph_module *module_child(const ph_module *module, const char *name, size_t length)
{
    for (size_t i = 0; i < module->children.count; i++)
        if (strncmp(module->children.at[i].name, name, length) == 0 &&
            module->children.at[i].name[length] == '\0')
            return module->children.at[i].module;
    return NULL;
}

ph_module *ph_module_child(const ph_module *module, const char *name)
{
    ph_module *at = (ph_module *)(uintptr_t)module;
    while (at && name) {
        const char *dot = strchr(name, '.');
        at = module_child(at, name, dot ? (size_t)(dot - name) : strlen(name));
        if (!dot)
            return at;
        name = dot + 1;
    }
    return NULL;
}

ph_tensor *ph_module_parameter(const ph_module *module, const char *name)
{
    const ph_module *at = module;
    const char *dot;
    while (at && name && (dot = strchr(name, '.'))) {
        at = module_child(at, name, (size_t)(dot - name));
        name = dot + 1;
    }
    if (!at || !name)
        return NULL;
    for (size_t i = 0; i < at->parameters.count; i++)
        if (strcmp(at->parameters.at[i].name, name) == 0)
            return at->parameters.at[i].tensor;
    for (size_t i = 0; i < at->buffers.count; i++)
        if (strcmp(at->buffers.at[i].name, name) == 0)
            return at->buffers.at[i].tensor;
    return NULL;
}

static void drop_gradients(const ph_module *module, ph__releases *releases)
{
    for (size_t i = 0; i < module->parameters.count; i++)
        ph__tensor_drop_grad_among(module->parameters.at[i].tensor, releases);
    for (size_t i = 0; i < module->children.count; i++)
        drop_gradients(module->children.at[i].module, releases);
}

void ph_module_zero_grad(ph_module *module)
{
    ph__releases releases = {0};
    if (module)
        drop_gradients(module, &releases);
    ph__releases_end(&releases);
}
