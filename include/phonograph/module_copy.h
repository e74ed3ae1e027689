/* SPDX-License-Identifier: MIT */
/* phonograph/module_copy.h: a second module with memory of its own: PyTorch's copy.deepcopy. */
#ifndef PHONOGRAPH_MODULE_COPY_H
#define PHONOGRAPH_MODULE_COPY_H
#include <phonograph/module.h>

PH_BEGIN_DECLS

/* A module like this one, and all below it, that shares no tensor and no module with it:
 *
 * - parameters and buffers have new memory, contiguous, with the values of now; whether a parameter
 *   requires a gradient, and the mode (training or evaluation) of each module, are as they are;
 * - tensors and modules that are there twice are one in the copy too;
 * - gradients and hooks stay with the original (PyTorch's Parameter keeps its gradient too; its
 *   hooks go along, and nobody could take them off there).
 *
 * Waits for the device: refused in a capture (CAPTURE, 900). Nothing is left of a copy that fails:
 * UNSUPPORTED: a module has no copy function; STATE: a graphed module, a buffer that an operator
 * made, or a struct with another tensor than its module has; ARGUMENT: a copy function gave
 * another module than it had. The message names it. */
PH_CALL ph_module_copy(ph_module **out, ph_module *module);

/* For copy functions (ph_module_desc.copy).
 * - A copy function makes the new struct, asks for the copy of each tensor and child that it keeps,
 *   and creates the module from them.
 * - The copies are the caller's to release, as those of create calls are. NULL gives NULL.
 * - On failure *out is NULL: the copy function frees its struct, and returns the status. */
PH_CALL ph_module_copier_tensor(ph_tensor **out, ph_module_copier *copier, ph_tensor *tensor);
PH_CALL ph_module_copier_module(ph_module **out, ph_module_copier *copier, ph_module *module);

PH_END_DECLS
#endif
