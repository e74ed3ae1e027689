/* SPDX-License-Identifier: MIT */
/* nn/module/hooks.h: a module's hooks. */
#ifndef PH_NN_MODULE_HOOKS_H
#define PH_NN_MODULE_HOOKS_H
#include <phonograph/module.h>

/* tensors: changed by the hooks. */
void ph__module_hooks_run(ph_tape *tape, ph_module *module, ph_module_hook_point point,
                          ph_tensor **tensors, size_t count);
bool ph__module_has_hook(const ph_module *module, ph_module_hook_point point);
/* Puts the outputs behind a node that runs the backward hooks. */
void ph__module_hooks_attach(ph_tape *tape, ph_module *module, ph_tensor **out, size_t count);
void ph__module_hooks_drop(ph_module *module);
#endif
