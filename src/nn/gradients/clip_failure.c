/* SPDX-License-Identifier: MIT */
/* nn/gradients/clip_failure.c: norms that were not finite, reported by the next call or replay. */
#include "nn/gradients/clip_failure.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <phonograph/cells.h>
#include <string.h>

/* Of several threads one reports a failure. */
static ph_status report_nonfinite(const ph_tensor *nonfinite, const char *call)
{
    int64_t *counts = (int64_t *)(void *)nonfinite->data;
    int64_t met = __atomic_load_n(&counts[0], __ATOMIC_RELAXED);
    int64_t reported = __atomic_exchange_n(&counts[1], met, __ATOMIC_RELAXED);
    if (met == reported)
        return PH_OK;
    return ph_fail(PH_ERROR_STATE,
                   "%s: the norm of the gradients was not finite in a clip before this call "
                   "(error_if_nonfinite), and they were not clipped; look for infinities and NaN "
                   "in them, or clip without error_if_nonfinite",
                   call);
}

/* ---- replays ---- */
static ph_status before_replay(uint64_t *values, void *user)
{
    const ph_tensor *nonfinite = user;
    values[0] = 0;
    return report_nonfinite(nonfinite, "ph_graph_replay");
}

static void graph_released(void *user)
{
    ph_tensor_release(user);
}

static ph_status watch_replays(ph_tape *tape, ph_tensor *nonfinite)
{
    uint64_t *cell;
    const ph_cells_source source = {.count = 1,
                                    .values = before_replay,
                                    .release = graph_released,
                                    .user = ph_tensor_retain(nonfinite)};
    ph_status status = ph_cells_create(&cell, ph_tape_stream(tape), &source);
    if (status != PH_OK)
        ph_tensor_release(nonfinite);
    return status;
}

/* ---- calls ---- */
static void make_nonfinite(ph_tape *tape, ph_tensor **nonfinite, const char *call)
{
    if (ph_stream_is_capturing(ph_tape_stream(tape))) {
        ph_tape_fail(
            tape, PH_ERROR_STATE,
            "%s: the memory that error_if_nonfinite counts in cannot be made in a capture; "
            "clip once before it with this option",
            call);
        return;
    }
    ph_tape_check(
        tape, ph_tensor_create_pinned(nonfinite, ph_tape_device(tape), PH_DTYPE_I64, PH_SHAPE(2)));
    if (!ph__tape_failed(tape))
        memset((*nonfinite)->data, 0, 2 * sizeof(int64_t));
}

bool ph__clip_failure_begin(ph_tape *tape, ph_tensor **nonfinite, const char *call)
{
    if (!*nonfinite)
        make_nonfinite(tape, nonfinite, call);
    if (ph__tape_failed(tape))
        return false;
    ph_tape_check(tape, report_nonfinite(*nonfinite, call));
    if (!ph__tape_failed(tape) && ph_stream_is_capturing(ph_tape_stream(tape)))
        ph_tape_check(tape, watch_replays(tape, *nonfinite));
    return !ph__tape_failed(tape);
}
