/* SPDX-License-Identifier: MIT */
/* phonograph/clip_grad.h: gradients bounded by their norm, or each by itself, on the device. */
#ifndef PHONOGRAPH_CLIP_GRAD_H
#define PHONOGRAPH_CLIP_GRAD_H
#include <phonograph/optimizer.h>

PH_BEGIN_DECLS

typedef struct ph_clip_grad_options {
    /* p of the norm: above 0 (ARGUMENT); INFINITY: the largest absolute value; 0: 2 */
    double norm_type;
    /* A norm that is not finite is a failure, and the gradients stay as they are. The device finds
     * it, and nobody waits: the failure (STATE) comes with the first call, behind the device, of
     *   - a clip with this option of the same module or optimizer
     *   - a replay of a graph with such a clip, before its launch
     * and is told once. By default the coefficient is 0 for an infinity, NaN for a NaN. */
    bool error_if_nonfinite;
    uint64_t reserved[4];
} ph_clip_grad_options;

/* torch.nn.utils.clip_grad_norm_: multiplies all gradients of the module's parameters, or of the
 * optimizer's, by max_norm / (norm + 1e-6) where that is below 1. Gives the norm of all of them
 * together as it was before: a scalar, the tape's; f64 where all gradients are, else f32.
 *   - Sums are in f64, in a fixed order: eager, captured and replayed give the same bits.
 *   - A parameter without a gradient is passed over; without any the norm is 0.
 *   - A gradient that two parameters share counts once.
 *   - f32 and f64 (ARGUMENT otherwise); memory that overlaps, is read-only or expanded: STATE.
 *   - max_norm: at least 0 (ARGUMENT). options NULL: defaults.
 *   - A call that fails once it has begun to change gradients drops them all, as
 *     ph_module_zero_grad does.
 * Changes gradients in place, in a launch for each 64 of them. Reads nothing back; legal in a
 * capture, with error_if_nonfinite once an eager call had it. Externally synchronised. */
PH_API ph_tensor *ph_clip_grad_norm(ph_tape *tape, ph_module *module, double max_norm,
                                    const ph_clip_grad_options *options);
PH_API ph_tensor *ph_optimizer_clip_grad_norm(ph_tape *tape, ph_optimizer *optimizer,
                                              double max_norm, const ph_clip_grad_options *options);
/* torch.nn.utils.clip_grad_value_: each element into [-value, value], value at least 0
 * (ARGUMENT); NaN stays. The rest is as above. */
PH_API void ph_clip_grad_value(ph_tape *tape, ph_module *module, double value);
PH_API void ph_optimizer_clip_grad_value(ph_tape *tape, ph_optimizer *optimizer, double value);

PH_END_DECLS
#endif
