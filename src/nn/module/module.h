/* SPDX-License-Identifier: MIT */
/* nn/module/module.h: the module, as the files of this library share it. */
#ifndef PH_NN_MODULE_MODULE_H
#define PH_NN_MODULE_MODULE_H
#include "base/text.h"
#include "base/vec.h"
#include <phonograph/module_copy.h>
#include <stdatomic.h>

typedef struct ph__named {
    char *name;
    ph_tensor *tensor; /* retained */
} ph__named;
typedef struct ph__named_module {
    char *name;
    ph_module *module; /* retained */
} ph__named_module;

/* Where the struct keeps a tensor, and what was there when the module was made, which has that
 * one for good; or when a callable was captured. */
typedef struct ph__parameter_slot {
    ph_tensor *const *at;
    ph_tensor *was;   /* NULL: there was none */
    const char *name; /* the module's own */
    bool buffer;
} ph__parameter_slot;
typedef PH__VEC(ph__parameter_slot) ph__parameter_slots;

typedef struct ph__module_names ph__module_names;
struct ph_module {
    atomic_int references;
    ph_device *device; /* retained */
    char *name;
    ph_forward_fn forward;
    void *self;
    void (*destroy)(void *self);
    ph_status (*copy)(ph_module **out, ph_module_copier *copier, void *self);
    size_t in_count, out_count;
    PH__VEC(ph__named) parameters;
    PH__VEC(ph__named) buffers;
    PH__VEC(ph__named_module) children;
    ph__parameter_slots parameter_slots; /* of parameters and buffers; of a graphed module: none */
    bool training;
    ph_module *original;   /* retained: its training mode follows; NULL: none */
    ph_module_hook *hooks; /* in order of adding */
    unsigned hooks_running;
    _Atomic(ph__module_names *) names; /* names.c; NULL: nobody has asked */
    ph_tensor *nonfinite; /* norms of gradients that were not: nn/gradients/clip_failure.h */
};

/* ARGUMENT where the two arrays share a place: a handle that is given there would be the only one
 * that the caller has of the module, and be lost. what: the name of the second one. */
ph_status ph__module_check_apart(ph_module *const *out, size_t out_count, ph_module *const *from,
                                 size_t count, const char *what, const char *call);
/* A module with the name, parameters, buffers and children of another one,
 * and a forward of its own; its training mode goes on to the other one, which it retains. */
ph_status ph__module_like(ph_module **out, ph_module *original, ph_forward_fn forward, void *self,
                          void (*destroy)(void *self), const char *call);
#endif
