/* SPDX-License-Identifier: MIT */
/* nn/module/traverse.c: walking what a module holds, by dotted names, each tensor and module
 * once. */
#include "nn/module/traverse.h"
#include "base/map.h"
#include "base/unwind.h"
#include "nn/module/module.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/leaf.h"
#include <string.h>

enum {
    FEW = 16 /* are found faster by looking at all of them */
};

typedef struct walk {
    ph__text name; /* of where it is */
    const void *first[FEW];
    size_t count; /* of what was seen: the first few, and the others */
    ph__map others;
    ph__entry_fn visit;
    void *user;
} walk;

/* True when it is met for the first time. *failed: no host memory. */
static bool first_time(walk *w, const void *object, bool *failed)
{
    for (size_t i = 0; i < w->count && i < FEW; i++)
        if (w->first[i] == object)
            return false;
    if (w->count < FEW) {
        w->first[w->count++] = object;
        return true;
    }
    if (ph__map_get(&w->others, (uintptr_t)object))
        return false;
    /* a network has about that many more, and a map that grows is filled again */
    if (w->others.count == 0 && !ph__map_reserve(&w->others, 4 * FEW)) {
        *failed = true;
        return false;
    }
    *failed = !ph__map_put(&w->others, (uintptr_t)object, w);
    return !*failed;
}

static bool show_entry(walk *w, const char *name, ph__entry entry)
{
    bool failed = false;
    if (!first_time(w, entry.tensor ? (const void *)entry.tensor : entry.module, &failed))
        return !failed;
    size_t length = w->name.length;
    ph__text_add(&w->name, name);
    ph__text_add_bytes(&w->name, "", 1);
    entry.name = w->name.at;
    bool go_on = !w->name.failed && w->visit(&entry, w->user);
    w->name.length = length;
    return go_on;
}

static bool walk_module(walk *w, ph_module *module)
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
    for (size_t i = 0; i < module->children.count; i++) {
        size_t length = w->name.length;
        ph__text_add(&w->name, module->children.at[i].name);
        ph__text_add(&w->name, ".");
        bool go_on = !w->name.failed && walk_module(w, module->children.at[i].module);
        w->name.length = length;
        if (!go_on)
            return false;
    }
    return true;
}

static void end_walk(void *what)
{
    walk *w = what;
    ph__text_free(&w->name);
    ph__map_free(&w->others);
}

bool ph__module_walk(const ph_module *module, ph__entry_fn visit, void *user)
{
    walk w = {.visit = visit, .user = user};
    PH__UNWIND unwind = {end_walk, &w};
    bool whole = walk_module(&w, (ph_module *)(uintptr_t)module);
    unwind.undo = NULL;
    end_walk(&w);
    return whole;
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
    return !entry->tensor || entry->buffer != v->buffers ||
           v->visit(entry->name, entry->tensor, v->user);
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
    char *last = entry->tensor || !*entry->name ? NULL : strrchr(entry->name, '.');
    if (entry->tensor)
        return true;
    if (last)
        *last = '\0';
    bool go_on = v->visit(entry->name, entry->module, v->user);
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

static bool count_one(const char *name, ph_tensor *tensor, void *count)
{
    (void)name;
    (void)tensor;
    ++*(size_t *)count;
    return true;
}

size_t ph_module_parameter_count(const ph_module *module)
{
    size_t count = 0;
    ph_module_parameters(module, count_one, &count);
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

/* As ph_tensor_set_grad(x, NULL). */
static inline void drop_gradient(ph_tensor *x)
{
    if (__builtin_expect(x->gone, 0)) {
        ph_ignore(ph_tensor_set_grad(x, NULL));
        return;
    }
    ph_tensor *grad = x->leaf ? x->leaf->grad : NULL;
    if (!grad)
        return;
    x->leaf->grad = NULL;
    ph_tensor_release(grad);
}

void ph_module_zero_grad(ph_module *module)
{
    if (!module)
        return;
    for (size_t i = 0; i < module->parameters.count; i++)
        drop_gradient(module->parameters.at[i].tensor);
    for (size_t i = 0; i < module->children.count; i++)
        ph_module_zero_grad(module->children.at[i].module);
}
