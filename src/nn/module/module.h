/* SPDX-License-Identifier: MIT */
/* nn/module/module.h: the module as the files of this layer share it. */
#ifndef PH_NN_MODULE_MODULE_H
#define PH_NN_MODULE_MODULE_H
#include "base/text.h"
#include "base/vec.h"
#include <phonograph/module.h>
#include <phonograph/tensor_file.h>
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
};

/* ---- traverse.c ---- everything below a module, by dotted names; false from visit stops. Also
 * false: no host memory. */
typedef struct ph__entry {
    const char *name;
    ph_tensor *tensor; /* NULL: a module */
    ph_module *module; /* the module that has the tensor, or the module itself */
    bool buffer;
} ph__entry;
typedef bool (*ph__entry_fn)(const ph__entry *entry, void *user);
bool ph__module_walk(const ph_module *module, ph__entry_fn visit, void *user);

/* ---- parameter_slots.c ---- note, collect: false: no host memory. */
bool ph__parameter_slots_note(ph_module *module, const ph_module_desc *desc);
void ph__parameter_slots_free(ph_module *module);
/* Collects the parameter slots of the module and of all modules below it, for as long as it lives,
 * with their present tensors. The tensors are retained until they are dropped: no other tensor can
 * get their addresses. Also after a failure. */
bool ph__parameter_slots_collect(ph__parameter_slots *out, const ph_module *module);
void ph__parameter_slots_drop(ph__parameter_slots *parameter_slots);
/* Buffers that there were none of are what they are now. */
void ph__parameter_slots_accept_added(ph__parameter_slots *parameter_slots);
static inline bool ph__parameter_slots_have_changed(const ph__parameter_slots *parameter_slots)
{
    for (size_t i = 0; i < parameter_slots->count; i++)
        if (*parameter_slots->at[i].at != parameter_slots->at[i].was)
            return true;
    return false;
}
/* The first that has, of those of the module: "parameter '0.weight' was removed". Nothing is
 * written where none has. */
void ph__parameter_slots_report(char *text, size_t size, const ph__parameter_slots *parameter_slots,
                                const ph_module *module);
/* STATE where a struct, of it or below, keeps another tensor than its module was made with; not
 * for a buffer that there was none of. */
ph_status ph__module_check_parameter_slots(const ph_module *module, const char *call);

/* ---- hooks.c ---- in: changed by the hooks. */
void ph__module_hooks_run(ph_tape *tape, ph_module *module, ph_module_hook_point point,
                          ph_tensor **tensors, size_t count);
bool ph__module_has_hook(const ph_module *module, ph_module_hook_point point);
/* Puts the outputs behind a node that runs the backward hooks. */
void ph__module_hooks_attach(ph_tape *tape, ph_module *module, ph_tensor **out, size_t count);
void ph__module_hooks_drop(ph_module *module);

/* ---- called.c ---- a call of a module that is under way, on the stack of who makes it.
 * failed: the tape has failed in tape->called: the message says where that is, unless a call
 * inside it has said so. */
struct ph__called {
    const struct ph__called *outer;
    ph_module *module;
};
void ph__called_failed(ph_tape *tape);

/* ---- marks.c ---- the scope of one call, on tapes with mark_modules. begin, false: the
 * tape has failed; end is called in any case. */
typedef struct ph__module_mark {
    struct ph__tensor_place *place, *outer;
    size_t depth; /* of the thread's scopes before it */
} ph__module_mark;
bool ph__module_mark_begin(ph__module_mark *mark, ph_tape *tape, ph_module *module);
void ph__module_mark_end(ph__module_mark *mark, ph_tape *tape);

/* ---- names.c ---- adds the dotted name that a module, or the one that it was graphed
 * from, has in another: of several the first, where children come before what is below them.
 * false: it is not below it. count: ways that were looked through, 0 while none was asked for
 * that is no near child. */
bool ph__module_add_name(ph__text *text, ph_module *in, const ph_module *module);
size_t ph__module_names_count(const ph_module *module);
void ph__module_names_free(ph__module_names *names); /* takes NULL */

/* ---- layers.c ---- a parameter of a layer: an uninitialised leaf. */
ph_status ph__layer_tensor(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape);
/* A tape on the device's default stream, for what a layer starts from; finish waits for it,
 * whatever status is, and gives the first failure. */
ph_status ph__layer_begin(ph_tape **tape, ph_device *device, ph_generator *generator);
ph_status ph__layer_finish(ph_tape *tape, ph_status status, const char *call);
/* Of a wait for the device, which captures refuse: a failure says which call waits. Gives
 * status. */
ph_status ph__layer_waited(ph_status status, const char *call);

/* ---- state.c ---- what a file must hold. may_be_empty: or a tensor of that dtype and shape
 * [0]. */
typedef struct ph__wanted {
    const char *name;
    ph_dtype dtype;
    ph_shape shape;
    bool may_be_empty;
} ph__wanted;
/* MISMATCH, with the list of what is missing (strict), unexpected (strict) or different. */
ph_status ph__state_check(const ph__wanted *wanted, size_t count, const ph_safetensors *file,
                          const char *path, bool strict, const char *call);
bool ph__state_find(const ph_safetensors *file, const char *name, ph_dtype *dtype, ph_shape *shape);
/* As ph__layer_begin, behind all work on the device; ph__layer_finish ends it. */
ph_status ph__state_begin(ph_tape **tape, ph_device *device, const char *call);

/* A module with the name, parameters, buffers and children of another one,
 * and a forward of its own; its training mode goes on to the other one, which it retains. */
ph_status ph__module_like(ph_module **out, ph_module *original, ph_forward_fn forward, void *self,
                          void (*destroy)(void *self), const char *call);
#endif
