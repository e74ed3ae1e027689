/* SPDX-License-Identifier: MIT */
/* nn/gradients/scaler.c: gradient scalers: what they are made from, scaled losses, and what the
 * device has. */
#include "nn/gradients/scaler.h"
#include "base/alloc.h"
#include "base/option.h"
#include "base/status.h"
#include "nn/gradients/scaler_capture.h"
#include "nn/module/layers.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <float.h>
#include <math.h>

/* ---- making ---- */
ph_grad_scaler *ph__grad_scaler_retain(ph_grad_scaler *scaler)
{
    atomic_fetch_add_explicit(&scaler->references, 1, memory_order_relaxed);
    return scaler;
}

void ph_grad_scaler_destroy(ph_grad_scaler *scaler)
{
    if (!scaler || atomic_fetch_sub_explicit(&scaler->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < PH_GRAD_SCALER_OPTIMIZERS; i++) {
        ph_optimizer_destroy(scaler->optimizers[i].optimizer);
        ph_tensor_release(scaler->optimizers[i].found_inf);
    }
    ph_tensor_release(scaler->scale);
    ph_tensor_release(scaler->tracker);
    ph_tensor_release(scaler->found_inf);
    ph_device_release(scaler->device);
    ph__free(scaler);
}

static ph_status make_tensors(ph_grad_scaler *scaler, double scale, const char *call)
{
    ph_tape *tape;
    ph_device *device = scaler->device;
    PH_TRY(ph_tensor_create(&scaler->scale, device, PH_DTYPE_F32, PH_SCALAR));
    PH_TRY(ph_tensor_create(&scaler->tracker, device, PH_DTYPE_I64, PH_SCALAR));
    PH_TRY(ph_tensor_create(&scaler->found_inf, device, PH_DTYPE_F32,
                            PH_SHAPE(PH_GRAD_SCALER_OPTIMIZERS)));
    PH_TRY(ph__layer_begin(&tape, device, NULL));
    ph_tensor_fill(tape, scaler->scale, scale);
    ph_tensor_fill(tape, scaler->tracker, 0);
    ph_tensor_fill(tape, scaler->found_inf, 0);
    return ph__layer_finish(tape, PH_OK, call);
}

static ph_status check_numbers(const ph_grad_scaler *scaler, double scale, uint64_t interval,
                               const char *call)
{
    if (!(scale >= (double)FLT_MIN && scale <= (double)FLT_MAX))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: init_scale is %g, and must be from 2^-126 to the largest f32", call,
                       scale);
    if (!(scaler->growth_factor > 1 && isfinite(scaler->growth_factor)))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: growth_factor is %g, and must be finite and above 1",
                       call, scaler->growth_factor);
    if (!(scaler->backoff_factor > 0 && scaler->backoff_factor < 1))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: backoff_factor is %g, and must be above 0 and below 1", call,
                       scaler->backoff_factor);
    if (interval < 1 || interval > INT64_MAX)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: growth_interval is %llu, and must be 1 or more",
                       call, (unsigned long long)interval);
    return PH_OK;
}

ph_status ph_grad_scaler_create(ph_grad_scaler **out, ph_device *device,
                                const ph_grad_scaler_options *options)
{
    static const char call[] = "ph_grad_scaler_create";
    static const ph_grad_scaler_options defaults = {.init_scale = 0};
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (!options)
        options = &defaults;
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_grad_scaler_options");
    double scale = ph__option_real(options->init_scale, 65536);
    uint64_t interval = ph__option_count(options->growth_interval, 2000);
    ph_grad_scaler from = {.growth_factor = ph__option_real(options->growth_factor, 2),
                           .backoff_factor = ph__option_real(options->backoff_factor, 0.5),
                           .growth_interval = (int64_t)interval,
                           .disabled = options->disabled,
                           .fused = options->fused};
    PH_TRY(check_numbers(&from, scale, interval, call));
    ph_grad_scaler *scaler = ph__alloc(sizeof *scaler);
    if (!scaler)
        return ph__fail_host_memory(call, "a gradient scaler");
    *scaler = from;
    atomic_init(&scaler->references, 1);
    scaler->device = ph_device_retain(device);
    ph_status status = scaler->disabled ? PH_OK : make_tensors(scaler, scale, call);
    if (status != PH_OK) {
        ph_grad_scaler_destroy(scaler);
        return status;
    }
    *out = scaler;
    return PH_OK;
}

/* ---- scaling ---- */
bool ph__grad_scaler_check(ph_tape *tape, const ph_grad_scaler *scaler, const void *operand,
                           const char *what, const char *call)
{
    if (!tape)
        return false;
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return false;
    }
    if (!scaler || !operand) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: %s is NULL, and must not be", call,
                     scaler ? what : "scaler");
        return false;
    }
    if (ph_tape_device(tape) == scaler->device)
        return true;
    ph_tape_fail(tape, PH_ERROR_WRONG_DEVICE,
                 "%s: the scaler is of another device than the tape; each device has a scaler of "
                 "its own",
                 call);
    return false;
}

ph_tensor *ph_grad_scaler_scale(ph_tape *tape, ph_grad_scaler *scaler, ph_tensor *x)
{
    static const char call[] = "ph_grad_scaler_scale";
    if (!ph__grad_scaler_check(tape, scaler, x, "x", call))
        return NULL;
    if (scaler->disabled)
        return x;
    if (!ph_dtype_is_floating(x->dtype)) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: x is of %s, and must be floating", call,
                     ph_dtype_name(x->dtype));
        return NULL;
    }
    if (!ph__scaler_capture_begin(tape, scaler, NULL, call))
        return NULL;
    scaler->scaled = true;
    ph_tensor *scale = scaler->scale;
    if (x->dtype == PH_DTYPE_F64)
        scale = ph_cast(tape, scale, PH_DTYPE_F64);
    else if (x->dtype != PH_DTYPE_F32)
        x = ph_cast(tape, x, PH_DTYPE_F32);
    return ph_mul(tape, x, scale);
}

/* ---- what the device has ---- */
ph_status ph_grad_scaler_get_scale(double *out, ph_tape *tape, ph_grad_scaler *scaler)
{
    static const char call[] = "ph_grad_scaler_get_scale";
    float scale = 1;
    if (!out)
        return ph__fail_null(call, "out");
    *out = 1;
    if (!tape)
        return ph__fail_null(call, "tape");
    if (!scaler)
        return ph__fail_null(call, "scaler");
    if (!scaler->disabled)
        PH_TRY(ph_tensor_read(tape, scaler->scale, &scale, sizeof scale));
    *out = (double)scale;
    return PH_OK;
}

ph_status ph_grad_scaler_get_growth_tracker(uint64_t *out, ph_tape *tape, ph_grad_scaler *scaler)
{
    static const char call[] = "ph_grad_scaler_get_growth_tracker";
    int64_t tracker = 0;
    if (!out)
        return ph__fail_null(call, "out");
    *out = 0;
    if (!tape)
        return ph__fail_null(call, "tape");
    if (!scaler)
        return ph__fail_null(call, "scaler");
    if (!scaler->disabled)
        PH_TRY(ph_tensor_read(tape, scaler->tracker, &tracker, sizeof tracker));
    *out = (uint64_t)tracker;
    return PH_OK;
}
