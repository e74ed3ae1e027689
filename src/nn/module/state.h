/* SPDX-License-Identifier: MIT */
/* nn/module/state.h: what files of parameters must hold. */
#ifndef PH_NN_MODULE_STATE_H
#define PH_NN_MODULE_STATE_H
#include "nn/module/module.h"
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
/* As ph__layer_begin, behind all work on the device; ph__layer_finish ends it. */
ph_status ph__state_begin(ph_tape **tape, ph_device *device, const char *call);
#endif
