/* SPDX-License-Identifier: MIT */
/* nn/gradients/scaler_capture.c: the stages of a scaler's optimizers in captures and replays. */
#include "nn/gradients/scaler_capture.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/tape/tape.h"
#include <phonograph/cells.h>

/* An optimizer that a capture met. */
typedef struct stages {
    ph_optimizer *optimizer; /* retained; NULL: not met */
    ph__scaler_stage before, after;
    bool checked_before, checked_after;
} stages;

/* One for each capture. The graph has a reference, and the call that makes it another until it
 * is listed. */
struct ph__scaler_capture {
    ph__scaler_capture *next;
    int references;         /* under the scaler's lock, as all that follows */
    ph_grad_scaler *scaler; /* retained: the graph addresses its memory */
    uint64_t capture;
    bool over;
    stages optimizers[PH_GRAD_SCALER_OPTIMIZERS];
};

static void drop_capture(ph__scaler_capture *c)
{
    ph_grad_scaler *scaler = c->scaler;
    ph__spin_lock(&scaler->lock);
    bool last = --c->references == 0;
    ph__spin_unlock(&scaler->lock);
    if (!last)
        return;
    for (size_t i = 0; i < PH_GRAD_SCALER_OPTIMIZERS; i++)
        ph_optimizer_destroy(c->optimizers[i].optimizer);
    ph__free(c);
    ph_grad_scaler_destroy(scaler);
}

/* ---- at the capture's end ---- nothing of it has run. */
static void capture_ended(void *user)
{
    ph__scaler_capture *c = user;
    ph_grad_scaler *scaler = c->scaler;
    ph__spin_lock(&scaler->lock);
    ph__scaler_capture **link = &scaler->captures;
    while (*link && *link != c)
        link = &(*link)->next;
    if (*link)
        *link = c->next;
    for (size_t i = 0; !c->over && i < PH_GRAD_SCALER_OPTIMIZERS; i++) {
        ph__scaled_optimizer *o = &scaler->optimizers[i];
        stages *s = &c->optimizers[i];
        if (!s->optimizer)
            continue;
        s->after = o->stage;
        s->checked_after = o->checked;
        o->stage = s->before;
        o->checked = s->checked_before;
    }
    c->over = true;
    ph__spin_unlock(&scaler->lock);
}

static void graph_released(void *user)
{
    capture_ended(user);
    drop_capture(user);
}

/* ---- replays ---- */
static ph_status refuse_replay(const stages *s, const ph__scaled_optimizer *o)
{
    static const char *const names[] = {"not unscaled", "unscaled", "divided by its grad_scale",
                                        "stepped"};
    static const char *const remedies[] = {
        "unscale or step it first, as before the capture",
        "call ph_grad_scaler_update, or replay the graph that does, before the next gradients",
        "call ph_grad_scaler_step, whose last call failed, or ph_grad_scaler_update",
        "call ph_grad_scaler_update, or replay the graph that does, before the next step"};
    return ph_fail(PH_ERROR_STATE,
                   "ph_graph_replay: a gradient scaler met optimizer %s %s in the capture, and has "
                   "it %s now, since the last update; %s",
                   s->optimizer->kind->name, names[s->before], names[o->stage], remedies[o->stage]);
}

static ph_status before_replay(uint64_t *values, void *user)
{
    const ph__scaler_capture *c = user;
    ph_grad_scaler *scaler = c->scaler;
    ph_status status = PH_OK;
    values[0] = 0;
    ph__spin_lock(&scaler->lock);
    for (size_t i = 0; status == PH_OK && i < PH_GRAD_SCALER_OPTIMIZERS; i++)
        if (c->optimizers[i].optimizer && c->optimizers[i].before != scaler->optimizers[i].stage)
            status = refuse_replay(&c->optimizers[i], &scaler->optimizers[i]);
    ph__spin_unlock(&scaler->lock);
    return status;
}

static void after_replay(void *user, bool launched)
{
    const ph__scaler_capture *c = user;
    ph_grad_scaler *scaler = c->scaler;
    ph__spin_lock(&scaler->lock);
    for (size_t i = 0; launched && i < PH_GRAD_SCALER_OPTIMIZERS; i++)
        if (c->optimizers[i].optimizer) {
            scaler->optimizers[i].stage = c->optimizers[i].after;
            scaler->optimizers[i].checked = c->optimizers[i].checked_after;
        }
    ph__spin_unlock(&scaler->lock);
}

/* ---- in the capture ---- */
static ph__scaler_capture *find_capture(ph_grad_scaler *scaler, uint64_t capture)
{
    ph__spin_lock(&scaler->lock);
    ph__scaler_capture *c = scaler->captures;
    while (c && c->capture != capture)
        c = c->next;
    ph__spin_unlock(&scaler->lock);
    return c;
}

static ph_status make_capture(ph__scaler_capture **out, ph_grad_scaler *scaler, ph_stream *stream,
                              uint64_t capture, const char *call)
{
    uint64_t *cell;
    ph__scaler_capture *c = ph__calloc(1, sizeof *c);
    if (!c)
        return ph__fail_host_memory(call, "the note of a capture");
    c->references = 2;
    c->scaler = ph__grad_scaler_retain(scaler);
    c->capture = capture;
    const ph_cells_source source = {.count = 1,
                                    .values = before_replay,
                                    .launched = after_replay,
                                    .captured = capture_ended,
                                    .release = graph_released,
                                    .user = c};
    ph_status status = ph_cells_create(&cell, stream, &source);
    if (status != PH_OK) {
        c->references = 1;
        drop_capture(c);
        return status;
    }
    *out = c;
    ph__spin_lock(&scaler->lock);
    if (!c->over) {
        c->next = scaler->captures;
        scaler->captures = c;
    }
    ph__spin_unlock(&scaler->lock);
    drop_capture(c);
    return PH_OK;
}

bool ph__scaler_capture_begin(ph_tape *tape, ph_grad_scaler *scaler,
                              const ph__scaled_optimizer *met, const char *call)
{
    ph_capture_info info = {0};
    ph_stream *stream = ph_tape_stream(tape);
    ph_tape_check(tape, ph_stream_get_capture_info(&info, stream));
    if (ph__tape_failed(tape) || info.status == PH_CAPTURE_NONE)
        return !ph__tape_failed(tape);
    ph__scaler_capture *c = find_capture(scaler, info.id);
    if (!c)
        ph_tape_check(tape, make_capture(&c, scaler, stream, info.id, call));
    if (ph__tape_failed(tape) || !met)
        return !ph__tape_failed(tape);
    stages *s = &c->optimizers[met - scaler->optimizers];
    ph__spin_lock(&scaler->lock);
    if (!s->optimizer) {
        s->optimizer = ph__optimizer_retain(met->optimizer);
        s->before = met->stage;
        s->checked_before = met->checked;
    }
    ph__spin_unlock(&scaler->lock);
    return true;
}
