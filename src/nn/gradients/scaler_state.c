/* SPDX-License-Identifier: MIT */
/* nn/gradients/scaler_state.c: the state of a gradient scaler, and its files. */
#include "nn/gradients/scaler_state.h"
#include "base/status.h"
#include "nn/gradients/scaler.h"
#include "nn/module/layers.h"
#include "nn/module/state.h"
#include "tensor/files/safetensors.h"
#include <float.h>
#include <math.h>
#include <phonograph/tensor_file.h>

enum {
    NAMES = 5
};
static const struct {
    const char *name;
    ph_dtype dtype;
} names[NAMES] = {{"scale", PH_DTYPE_F32},
                  {"growth_factor", PH_DTYPE_F64},
                  {"backoff_factor", PH_DTYPE_F64},
                  {"growth_interval", PH_DTYPE_I64},
                  {"_growth_tracker", PH_DTYPE_I64}};

/* Where a state has the number of each name. */
typedef struct places {
    void *at[NAMES];
} places;
static places places_of(ph__grad_scaler_state *s)
{
    return (places){
        {&s->scale, &s->growth_factor, &s->backoff_factor, &s->growth_interval, &s->tracker}};
}

/* ---- numbers ---- */
ph_status ph__grad_scaler_read(ph__grad_scaler_state *out, ph_tape *tape, ph_grad_scaler *scaler,
                               const char *call)
{
    *out = (ph__grad_scaler_state){.growth_factor = scaler->growth_factor,
                                   .backoff_factor = scaler->backoff_factor,
                                   .growth_interval = scaler->growth_interval};
    if (scaler->disabled)
        return ph_fail(PH_ERROR_STATE, "%s: the scaler is disabled, and has no state", call);
    PH_TRY(ph_tensor_read(tape, scaler->scale, &out->scale, sizeof out->scale));
    return ph_tensor_read(tape, scaler->tracker, &out->tracker, sizeof out->tracker);
}

ph_status ph__grad_scaler_check_state(const ph__grad_scaler_state *s, const char *what,
                                      const char *call)
{
    const char *wrong = NULL;
    if (!(s->scale >= FLT_MIN && isfinite(s->scale)))
        wrong = "scale";
    else if (!(s->growth_factor > 1 && isfinite(s->growth_factor)))
        wrong = "growth_factor";
    else if (!(s->backoff_factor > 0 && s->backoff_factor < 1))
        wrong = "backoff_factor";
    else if (s->growth_interval < 1)
        wrong = "growth_interval";
    else if (s->tracker < 0 || s->tracker == INT64_MAX) /* the next one would be no number */
        wrong = "_growth_tracker";
    if (!wrong)
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT,
                   "%s: %s: %s is a number that no gradient scaler has, and nothing was loaded",
                   call, what, wrong);
}

ph_status ph__grad_scaler_write(ph_tape *tape, ph_grad_scaler *scaler,
                                const ph__grad_scaler_state *state, const char *call)
{
    if (scaler->disabled)
        return PH_OK;
    ph_tensor_fill(tape, scaler->scale, (double)state->scale);
    PH_TRY(ph_tape_status(tape));
    PH_TRY(ph_tensor_write(tape, scaler->tracker, &state->tracker, sizeof state->tracker));
    PH_TRY(ph__layer_waited(ph_stream_synchronize(ph_tape_stream(tape)), call));
    scaler->growth_factor = state->growth_factor;
    scaler->backoff_factor = state->backoff_factor;
    scaler->growth_interval = state->growth_interval;
    return PH_OK;
}

/* ---- files ---- */
static ph_status check_call(const ph_grad_scaler *scaler, const char *path, const char *call)
{
    if (!scaler)
        return ph__fail_null(call, "scaler");
    return path ? PH_OK : ph__fail_null(call, "path");
}

static ph_status save_scaler(ph_tape *tape, ph_grad_scaler *scaler, const char *path,
                             const char *call)
{
    ph__grad_scaler_state state;
    ph_named_tensor all[NAMES];
    PH_TRY(ph__grad_scaler_read(&state, tape, scaler, call));
    places p = places_of(&state);
    for (size_t i = 0; i < NAMES; i++)
        all[i] = (ph_named_tensor){names[i].name,
                                   ph_from_memory(tape, names[i].dtype, PH_SCALAR, p.at[i])};
    PH_TRY(ph_tape_status(tape));
    return ph_safetensors_write(tape, path, all, NAMES);
}

ph_status ph_grad_scaler_save(ph_grad_scaler *scaler, const char *path)
{
    static const char call[] = "ph_grad_scaler_save";
    ph_tape *tape;
    PH_TRY(check_call(scaler, path, call));
    PH_TRY(ph__state_begin(&tape, scaler->device, call));
    return ph__layer_finish(tape, save_scaler(tape, scaler, path, call), call);
}

static ph_status check_names(const ph_safetensors *file, const char *path, const char *call)
{
    ph__wanted wanted[NAMES];
    for (size_t i = 0; i < NAMES; i++)
        wanted[i] = (ph__wanted){names[i].name, names[i].dtype, PH_SCALAR, false};
    return ph__state_check(wanted, NAMES, file, path, true, call);
}

static ph_status load_scaler(ph_tape *tape, ph_grad_scaler *scaler, ph_safetensors *file,
                             const char *path, const char *call)
{
    ph__grad_scaler_state state;
    places p = places_of(&state);
    for (size_t i = 0; i < NAMES; i++) {
        ph_tensor *x;
        PH_TRY(ph_safetensors_read(&x, tape, file, names[i].name));
        ph_status status = ph_tensor_read(tape, x, p.at[i], ph_dtype_size(names[i].dtype));
        ph_tensor_release(x);
        PH_TRY(status);
    }
    PH_TRY(ph__grad_scaler_check_state(&state, path, call));
    return ph__grad_scaler_write(tape, scaler, &state, call);
}

ph_status ph_grad_scaler_load(ph_grad_scaler *scaler, const char *path)
{
    static const char call[] = "ph_grad_scaler_load";
    ph_tape *tape;
    ph_safetensors *file = NULL;
    PH_TRY(check_call(scaler, path, call));
    if (scaler->disabled)
        return PH_OK;
    PH_TRY(ph_safetensors_open(&file, path));
    ph_status status = check_names(file, path, call);
    if (status == PH_OK)
        status = ph__state_begin(&tape, scaler->device, call);
    if (status == PH_OK)
        status = ph__layer_finish(tape, load_scaler(tape, scaler, file, path, call), call);
    ph_safetensors_close(file);
    return status;
}
