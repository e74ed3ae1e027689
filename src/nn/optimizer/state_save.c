/* SPDX-License-Identifier: MIT */
/* nn/optimizer/state_save.c: an optimizer's state to safetensors. For every parameter: its state
 * tensors, of shape [0] where they are not made, its steps where the kind counts them, and what
 * is kept beside those; and "steps", of the optimizer. */
#include "nn/optimizer/state_save.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/module/layers.h"
#include "nn/module/state.h"
#include "nn/optimizer/optimizer.h"
#include "nn/optimizer/state_entries.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include <phonograph/optimizer.h>
#include <phonograph/tensor_file.h>
#include <string.h>

/* ---- counters ---- as the device has them, or the host: PH__COUNT_SIZE numbers for each
 * parameter. */
static ph_status read_counters(double *counters, ph_tape *tape, const ph_optimizer *o)
{
    if (o->counters)
        PH_TRY(ph_tensor_read(tape, o->counters, counters, ph_tensor_bytes(o->counters)));
    for (size_t i = 0; i < o->params.count; i++)
        if (ph__group_of(o, &o->params.at[i])->settings.on_host)
            memcpy(counters + i * PH__COUNT_SIZE, o->params.at[i].counter,
                   sizeof o->params.at[i].counter);
    return PH_OK;
}

/* ---- saving ---- */
static ph_tensor *state_of(ph_tape *tape, const ph_optimizer *o, const ph__trained *p, size_t k,
                           double steps)
{
    /* the first step of a kind that does not count may have been skipped on the device, and may be
     * another one than those behind it: the shape alone says that it is to come */
    bool skipped = !o->kind->counts && o->counters && steps == 0;
    bool has = p->started && !(skipped && ph__group_of(o, p)->settings.odd_first);
    return has ? p->state[k] : ph_empty(tape, ph_tensor_dtype(p->param), PH_SHAPE(0));
}

static double kept_of(const ph_optimizer *o, const ph__trained *p, const double *counter, size_t k)
{
    if (counter[0] > 0)
        return counter[1 + k];
    return o->kind->kept_with_lr >> k & 1 ? ph_optimizer_group_lr(o, p->group) : 1;
}

static ph_tensor *tensor_of(ph_tape *tape, const ph_optimizer *o, const ph__state_entry *e,
                            const double *counters)
{
    const double *counter = counters + e->param * PH__COUNT_SIZE;
    if (e->kind == PH__STATE_OPTIMIZER_STEPS)
        return o->steps;
    const ph__trained *p = &o->params.at[e->param];
    if (e->kind == PH__STATE_TENSOR)
        return state_of(tape, o, p, e->number, counter[0]);
    if (e->kind == PH__STATE_STEP) {
        int64_t steps = (int64_t)counter[0];
        return ph_from_memory(tape, PH_DTYPE_I64, PH_SCALAR, &steps);
    }
    double kept = kept_of(o, p, counter, e->number);
    return ph_from_memory(tape, PH_DTYPE_F64, PH_SCALAR, &kept);
}

ph_status ph__optimizer_state_tensors(ph_named_tensor *all, ph_tape *tape, const ph_optimizer *o,
                                      const ph__state_entries *n, const char *call)
{
    double *counters = ph__calloc((o->params.count + 1) * PH__COUNT_SIZE, sizeof *counters);
    if (!counters)
        return ph__fail_host_memory(call, "the steps of an optimizer");
    ph_status status = read_counters(counters, tape, o);
    for (size_t i = 0; status == PH_OK && i < n->count; i++)
        all[i] = (ph_named_tensor){.name = n->at[i].name,
                                   .tensor = tensor_of(tape, o, &n->at[i], counters)};
    ph__free(counters);
    return status == PH_OK ? ph_tape_status(tape) : status;
}

static ph_status save_entries(ph_tape *tape, const ph_optimizer *o, const ph__state_entries *n,
                              const char *path)
{
    static const char call[] = "ph_optimizer_save";
    ph_named_tensor *all = ph__calloc(n->count, sizeof *all);
    if (!all)
        return ph__fail_host_memory(call, "the list of an optimizer's state");
    ph_status status = ph__optimizer_state_tensors(all, tape, o, n, call);
    if (status == PH_OK)
        status = ph_safetensors_write(tape, path, all, n->count);
    ph__free(all);
    return status;
}

ph_status ph_optimizer_save(ph_optimizer *optimizer, const char *path)
{
    static const char call[] = "ph_optimizer_save";
    ph__state_entries n;
    ph_tape *tape;
    if (!optimizer)
        return ph__fail_null(call, "optimizer");
    if (!path)
        return ph__fail_null(call, "path");
    PH_TRY(ph__state_entries_of(&n, optimizer, NULL, call));
    ph_status status = ph__state_begin(&tape, optimizer->device, call);
    if (status == PH_OK)
        status = ph__layer_finish(tape, save_entries(tape, optimizer, &n, path), call);
    ph__state_entries_free(&n);
    return status;
}
