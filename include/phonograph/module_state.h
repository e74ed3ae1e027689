/* SPDX-License-Identifier: MIT */
/* phonograph/module_state.h: a module's parameters and buffers in files. */
#ifndef PHONOGRAPH_MODULE_STATE_H
#define PHONOGRAPH_MODULE_STATE_H
#include <phonograph/module.h>

PH_BEGIN_DECLS

/* Parameters and buffers by name, as safetensors. Both calls wait for the device.
 * - load needs every name, dtype and shape to match. MISMATCH: the message lists the missing,
 *   unexpected and different ones.
 * - A failed load changes nothing, also where the file cannot be read or memory is lacking: the
 *   whole file is read before the first tensor changes.
 * - strict false: missing and unexpected names are left alone. A warning (log.h) has the number of
 *   loaded tensors, and the other names. A file without a name in common: MISMATCH. */
PH_CALL ph_module_save(ph_module *module, const char *path);
PH_CALL ph_module_load(ph_module *module, const char *path, bool strict);

/* As load with strict false, without the warning: visit is called for each name afterwards, those
 * of the module in its order, then the unexpected ones by name. It is not called when loading
 * fails. name: valid during the call. */
typedef enum ph_module_loaded {
    PH_MODULE_LOADED = 1,
    PH_MODULE_MISSING = 2,   /* the file has none of that name */
    PH_MODULE_UNEXPECTED = 3 /* the module has none */
} ph_module_loaded;
typedef void (*ph_module_loaded_fn)(const char *name, ph_module_loaded what, void *user);
PH_CALL ph_module_load_matching(ph_module *module, const char *path, ph_module_loaded_fn visit,
                                void *user);

PH_END_DECLS
#endif
