/* SPDX-License-Identifier: MIT */
/* nn/module/state.h: what files of parameters must hold. */
#ifndef PH_NN_MODULE_STATE_H
#define PH_NN_MODULE_STATE_H
#include "nn/module/module.h"
#include <phonograph/module_state.h>
#include <phonograph/tensor_file.h>

/* A tensor that a file must hold. may_be_empty: or one of that dtype and shape [0]. */
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
/* A load in two halves. begin: all that can fail without a trace: the file is open, everything in
 * it was read and fits. apply: changes the tensors; what can fail there is the device, and a file
 * that somebody overwrites meanwhile. path and call must stay until end, which takes NULL. */
typedef struct ph__module_load ph__module_load;
ph_status ph__module_load_begin(ph__module_load **out, ph_module *module, const char *path,
                                bool strict, const char *call);
ph_status ph__module_load_apply(ph__module_load *load);
void ph__module_load_end(ph__module_load *load);
/* As ph__layer_begin, behind all work on the device; ph__layer_finish ends it. */
ph_status ph__state_begin(ph_tape **tape, ph_device *device, const char *call);
#endif
