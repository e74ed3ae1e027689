/* SPDX-License-Identifier: MIT */
/* tensor/generator/draw.c: what is drawn from generators: now, in captures and by their replays;
 * and marks to go back to. */
#include "tensor/generator/draw.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/generator/generator.h"
#include "tensor/generator/generator_state.h"
#include <phonograph/cells.h>

/* ---- captures ---- */
static void unlist_drawn(ph__drawn *t)
{
    if (!t->listed)
        return;
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    t->listed = false;
}

/* Drops a reference. */
static void release_drawn(ph__drawn *t)
{
    ph_generator_state *state = t->state;
    ph__spin_lock(&state->lock);
    bool last = --t->references == 0;
    ph__spin_unlock(&state->lock);
    if (!last)
        return;
    ph__free(t);
    ph_generator_state_release(state);
}

/* Where a replay stands. The whole of what the capture draws is taken in one piece. */
static ph_status replay_values(uint64_t *values, void *user)
{
    ph__drawn *t = user;
    ph_generator_state *state = t->state;
    ph__spin_lock(&state->lock);
    bool enough = t->drawn <= UINT64_MAX - state->offset;
    values[0] = state->seed;
    values[1] = state->offset;
    if (enough && t->drawn) {
        ph__generator_state_put(state, state->seed, state->offset + t->drawn);
        t->moved = state->moves;
    }
    ph__spin_unlock(&state->lock);
    return enough ? PH_OK
                  : ph_fail(PH_ERROR_STATE, "the generator's offset would overflow; seed it");
}

/* A replay that did not go out has drawn nothing; but what was drawn after it stands. */
static void replay_launched(void *user, bool launched)
{
    ph__drawn *t = user;
    if (launched || t->drawn == 0)
        return;
    ph__spin_lock(&t->state->lock);
    if (t->moved == t->state->moves)
        ph__generator_state_put(t->state, t->state->seed, t->state->offset - t->drawn);
    ph__spin_unlock(&t->state->lock);
}

static void end_capture_of_draws(void *user)
{
    ph__drawn *t = user;
    ph__spin_lock(&t->state->lock);
    unlist_drawn(t);
    t->over = true;
    ph__spin_unlock(&t->state->lock);
}

static void graph_released(void *user)
{
    end_capture_of_draws(user);
    release_drawn(user);
}

static ph_status make_drawn(ph_generator_state *state, ph_stream *stream, uint64_t capture)
{
    ph__drawn *t = ph__calloc(1, sizeof *t);
    if (!t)
        return ph__fail_host_memory("a random draw", "the note of a capture");
    t->references = 2;
    t->state = ph__generator_state_retain(state);
    t->capture = capture;
    const ph_cells_source source = {.count = 2,
                                    .values = replay_values,
                                    .launched = replay_launched,
                                    .captured = end_capture_of_draws,
                                    .release = graph_released,
                                    .user = t};
    ph_status status = ph_cells_create(t->cells, stream, &source);
    if (status != PH_OK) {
        t->references = 1;
        release_drawn(t);
        return status;
    }
    /* Where another thread has just made one for this capture, that one counts, and this one
     * draws nothing. */
    ph__spin_lock(&state->lock);
    bool spare = t->over;
    for (const ph__drawn *o = state->open; o; o = o->next)
        spare |= o->capture == capture;
    if (!spare) {
        t->next = state->open;
        t->link = &state->open;
        if (t->next)
            t->next->link = &t->next;
        state->open = t;
        t->listed = true;
    }
    ph__spin_unlock(&state->lock);
    release_drawn(t);
    return PH_OK;
}

static ph__drawn *find_drawn(ph_generator_state *state, uint64_t capture)
{
    ph__drawn *t = state->open;
    while (t && t->capture != capture)
        t = t->next;
    return t;
}

static bool draw_from(ph__draw *out, ph_generator_state *state, uint64_t capture,
                      uint64_t increment)
{
    ph__spin_lock(&state->lock);
    ph__drawn *t = find_drawn(state, capture);
    if (t) {
        *out = (ph__draw){.seed_cell = t->cells[0], .offset_cell = t->cells[1], .offset = t->drawn};
        t->drawn += increment;
    }
    ph__spin_unlock(&state->lock);
    return t != NULL;
}

static ph_status draw_captured(ph__draw *out, ph_generator_state *state, ph_stream *stream,
                               uint64_t capture, uint64_t increment)
{
    while (!draw_from(out, state, capture, increment))
        PH_TRY(make_drawn(state, stream, capture));
    return ph_cells_require(stream);
}

static ph_status draw_now(ph__draw *out, ph_generator_state *state, uint64_t increment)
{
    ph__spin_lock(&state->lock);
    bool enough = increment <= UINT64_MAX - state->offset;
    *out = (ph__draw){.seed = state->seed, .offset = state->offset};
    if (enough)
        ph__generator_state_put(state, state->seed, state->offset + increment);
    ph__spin_unlock(&state->lock);
    return enough ? PH_OK
                  : ph_fail(PH_ERROR_STATE, "the generator's offset would overflow; seed it");
}

ph_status ph__generator_draw(ph__draw *out, ph_generator *generator, ph_stream *stream,
                             unsigned words)
{
    ph_capture_info info;
    PH_TRY(ph_stream_get_capture_info(&info, stream));
    ph_generator_state *state = ph__generator_state(generator);
    ph_status status = info.status == PH_CAPTURE_NONE
                           ? draw_now(out, state, UINT64_C(4) * words)
                           : draw_captured(out, state, stream, info.id, UINT64_C(4) * words);
    ph_generator_state_release(state);
    return status;
}

/* ---- marks ---- */
ph_status ph__generator_save(ph__generator_mark *out, ph_generator *generator, ph_stream *stream)
{
    ph_capture_info info;
    PH_TRY(ph_stream_get_capture_info(&info, stream));
    ph_generator_state *state = ph__generator_state(generator);
    ph__spin_lock(&state->lock);
    if (info.status == PH_CAPTURE_NONE) {
        *out = (ph__generator_mark){.seed = state->seed, .offset = state->offset};
    } else {
        const ph__drawn *t = find_drawn(state, info.id);
        *out = (ph__generator_mark){.capture = info.id, .offset = t ? t->drawn : 0};
    }
    ph__spin_unlock(&state->lock);
    ph_generator_state_release(state);
    return PH_OK;
}

ph_status ph__generator_restore(ph_generator *generator, ph_stream *stream,
                                const ph__generator_mark *mark)
{
    ph_capture_info info;
    PH_TRY(ph_stream_get_capture_info(&info, stream));
    uint64_t capture = info.status == PH_CAPTURE_NONE ? 0 : info.id;
    if (capture != mark->capture)
        return ph_fail(PH_ERROR_STATE, "the random numbers of %s cannot be drawn again %s",
                       mark->capture ? "a capture" : "what was done outside of captures",
                       capture ? "in this capture" : "outside of it");
    ph_generator_state *state = ph__generator_state(generator);
    ph__spin_lock(&state->lock);
    ph__drawn *t = capture ? find_drawn(state, capture) : NULL;
    if (t)
        t->drawn = mark->offset;
    else if (!capture)
        ph__generator_state_put(state, mark->seed, mark->offset);
    ph__spin_unlock(&state->lock);
    ph_generator_state_release(state);
    return PH_OK;
}
