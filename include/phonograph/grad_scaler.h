/* SPDX-License-Identifier: MIT */
/* phonograph/grad_scaler.h: the gradient scaler of mixed precision: the loss is multiplied by a
 * scale, gradients are divided by it, and steps whose gradients are not finite are skipped, all
 * on the device. */
#ifndef PHONOGRAPH_GRAD_SCALER_H
#define PHONOGRAPH_GRAD_SCALER_H
#include <phonograph/optimizer.h>

PH_BEGIN_DECLS

/* As torch.amp.GradScaler has it. Around graphs, or a part of one, a step is
 *
 *     ph_backward(tape, ph_grad_scaler_scale(tape, scaler, loss));
 *     ph_grad_scaler_step(tape, scaler, optimizer);
 *     ph_grad_scaler_update(tape, scaler);
 *     ph_optimizer_zero_grad(tape, optimizer);
 *
 * Scale, growth tracker and each optimizer's flag (found_inf) are memory of the device, outside
 * of any graph's pool. No call reads them but those that say so: a whole step, the decision to
 * skip it included, can be captured.
 *
 * Of each optimizer the scaler knows whether its gradients were unscaled, and whether it has
 * stepped, since the last update:
 *   - A capture does not change this state: after the capture it is as it was before.
 *   - A replay needs the state that the capture began with, and leaves the state that the capture
 *     ended with. In any other state the replay is refused (STATE) before its launch.
 *
 * A call that fails after it has begun to divide gradients drops all gradients of that optimizer,
 * as ph_optimizer_zero_grad does: divided gradients never stand beside undivided ones.
 *
 * Externally synchronised. Calls with a tape fail the tape, as operators do. */
typedef struct ph_grad_scaler ph_grad_scaler;

typedef struct ph_grad_scaler_options {
    double init_scale;        /* 0: 65536; a positive normal number of f32 */
    double growth_factor;     /* 0: 2; above 1 */
    double backoff_factor;    /* 0: 0.5; above 0 and below 1 */
    uint64_t growth_interval; /* steps without an infinity before the scale grows; 0: 2000 */
    /* scale gives the loss itself, step is ph_optimizer_step, unscale and update do nothing */
    bool disabled;
    /* step divides gradients in the optimizer's own kernels and leaves them scaled in memory: one
     * write of them less. Not where a grad_scale of the user's is set (optimizer.h). */
    bool fused;
    uint64_t reserved[4];
} ph_grad_scaler_options;

enum {
    PH_GRAD_SCALER_OPTIMIZERS = 64 /* of one scaler, at a time */
};

/* options NULL: defaults. Waits for the device's default stream (CAPTURE, 900, in a capture that
 * is not relaxed). */
PH_CALL ph_grad_scaler_create(ph_grad_scaler **out, ph_device *device,
                              const ph_grad_scaler_options *options);
/* Takes NULL; graphs that captured its calls keep what they need. */
PH_API void ph_grad_scaler_destroy(ph_grad_scaler *scaler);

/* x (of any shape) times the scale; with a gradient. f16 and bf16 become f32, so that the product
 * does not overflow. Legal in a capture. */
PH_API ph_tensor *ph_grad_scaler_scale(ph_tape *tape, ph_grad_scaler *scaler, ph_tensor *x);
/* Divides the optimizer's gradients by the scale, in place, and notes on the device whether one
 * was not finite: for what looks at gradients before the step (clip_grad.h). A gradient that two
 * parameters share is divided once. Legal in a capture. STATE:
 *   - no ph_grad_scaler_scale was called yet
 *   - unscaled, or stepped, since the last update
 *   - gradients overlap in memory, are expanded, or are read-only */
PH_API void ph_grad_scaler_unscale(ph_tape *tape, ph_grad_scaler *scaler, ph_optimizer *optimizer);
/* Unscales, unless that is done, and makes a step that the device skips where a gradient was not
 * finite: parameters, state and step counters stay untouched to the bit. Legal in a capture, where
 * ph_optimizer_step is.
 *   - A skipped step is none of ph_optimizer_steps.
 *   - An optimizer that is not_capturable reads the flag: the call waits.
 *   - STATE, beside ph_grad_scaler_unscale's: stepped since the last update; no parameter has a
 *     gradient. */
PH_API void ph_grad_scaler_step(ph_tape *tape, ph_grad_scaler *scaler, ph_optimizer *optimizer);
/* After the last step of all optimizers:
 *   - If a step found an infinity, the scale backs off. Otherwise the step is counted, and the
 *     scale grows after growth_interval steps. The scale stays if the next scale would be no
 *     normal number of f32.
 *   - Legal in a capture, which keeps the factors and the interval as they are now.
 *   - STATE: no gradients were checked since the last update. */
PH_API void ph_grad_scaler_update(ph_tape *tape, ph_grad_scaler *scaler);
/* The same with a new scale, whatever was found; needs no checks before it. scale: a
 * positive normal number of f32 (ARGUMENT). update_from: an f32 scalar of the device, read in
 * stream order; under one that divides to no finite number all steps are skipped. */
PH_API void ph_grad_scaler_update_to(ph_tape *tape, ph_grad_scaler *scaler, double scale);
PH_API void ph_grad_scaler_update_from(ph_tape *tape, ph_grad_scaler *scaler, ph_tensor *scale);

/* The value that the device has when the tape's stream gets there; waits (refused in a capture,
 * CAPTURE 900). Of a disabled one 1, and 0. */
PH_CALL ph_grad_scaler_get_scale(double *out, ph_tape *tape, ph_grad_scaler *scaler);
PH_CALL ph_grad_scaler_get_growth_tracker(uint64_t *out, ph_tape *tape, ph_grad_scaler *scaler);

/* Safetensors by the names of PyTorch's state: "scale", "growth_factor", "backoff_factor",
 * "growth_interval", "_growth_tracker". Both wait for the device.
 *   - A disabled one has no state: save is refused (STATE), load does nothing.
 *   - load takes all of it or, on a failure, nothing; into the memory that graphs address.
 *   - Factors and interval that a graph has captured stay in it. */
PH_CALL ph_grad_scaler_save(ph_grad_scaler *scaler, const char *path);
PH_CALL ph_grad_scaler_load(ph_grad_scaler *scaler, const char *path);

PH_END_DECLS
#endif
