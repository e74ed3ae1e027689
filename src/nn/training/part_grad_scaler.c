/* SPDX-License-Identifier: MIT */
/* nn/training/part_grad_scaler.c: the numbers of a gradient scaler as values; a disabled one has
 * none. */
#include "nn/training/part_grad_scaler.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/gradients/scaler.h"
#include "nn/gradients/scaler_state.h"
#include "nn/module/layers.h"
#include "nn/module/state.h"
#include "tensor/tape/tape.h"

/* ---- saving ---- */
static ph_status read_scaler(ph__grad_scaler_state *out, ph_grad_scaler *scaler)
{
    static const char call[] = "ph_training_save";
    ph_tape *tape;
    PH_TRY(ph__state_begin(&tape, scaler->device, call));
    return ph__layer_finish(tape, ph__grad_scaler_read(out, tape, scaler, call), call);
}

static ph_status save_scaler(const ph__training_entry *entry, ph_values *values, const char *path)
{
    ph_grad_scaler *scaler = entry->object;
    ph__grad_scaler_state state;
    (void)path;
    if (scaler->disabled)
        return PH_OK;
    PH_TRY(read_scaler(&state, scaler));
    PH_TRY(ph_values_set_real(values, "scale", (double)state.scale));
    PH_TRY(ph_values_set_real(values, "growth_factor", state.growth_factor));
    PH_TRY(ph_values_set_real(values, "backoff_factor", state.backoff_factor));
    PH_TRY(ph_values_set_integer(values, "growth_interval", state.growth_interval));
    return ph_values_set_integer(values, "_growth_tracker", state.tracker);
}

/* ---- loading ---- */
typedef struct scaler_load {
    ph__grad_scaler_state state;
    ph_tape *tape; /* NULL: over */
} scaler_load;

static ph_status read_scaler_values(ph__grad_scaler_state *out, const ph_values *values)
{
    double scale;
    int64_t interval, tracker;
    PH_TRY(ph_values_get_real(&scale, values, "scale"));
    PH_TRY(ph_values_get_real(&out->growth_factor, values, "growth_factor"));
    PH_TRY(ph_values_get_real(&out->backoff_factor, values, "backoff_factor"));
    PH_TRY(ph_values_get_integer(&interval, values, "growth_interval"));
    PH_TRY(ph_values_get_integer(&tracker, values, "_growth_tracker"));
    out->scale = (float)scale;
    out->growth_interval = interval;
    out->tracker = tracker;
    return PH_OK;
}

static ph_status begin_scaler(ph__training_entry *entry, const ph_values *values, const char *path)
{
    static const char call[] = "ph_training_load";
    ph_grad_scaler *scaler = entry->object;
    ph__grad_scaler_state state;
    (void)path;
    if (scaler->disabled)
        return PH_OK;
    PH_TRY(read_scaler_values(&state, values));
    PH_TRY(ph__grad_scaler_check_state(&state, entry->name, call));
    scaler_load *load = ph__alloc(sizeof *load);
    if (!load)
        return ph__fail_host_memory(call, "the load of a gradient scaler");
    load->state = state;
    ph_status status = ph__state_begin(&load->tape, scaler->device, call);
    if (status == PH_OK)
        entry->load = load;
    else
        ph__free(load);
    return status;
}

static ph_status apply_scaler(ph__training_entry *entry)
{
    static const char call[] = "ph_training_load";
    scaler_load *load = entry->load;
    if (!load)
        return PH_OK;
    ph_tape *tape = load->tape;
    ph_status status = ph__grad_scaler_write(tape, entry->object, &load->state, call);
    load->tape = NULL;
    return ph__layer_finish(tape, status, call);
}

static void end_scaler(ph__training_entry *entry)
{
    scaler_load *load = entry->load;
    if (!load)
        return;
    ph_tape_destroy(load->tape);
    ph__free(load);
}

const ph__part_kind ph__part_grad_scaler = {.name = "grad_scaler",
                                            .save = save_scaler,
                                            .begin = begin_scaler,
                                            .apply = apply_scaler,
                                            .end = end_scaler};
