/* SPDX-License-Identifier: MIT */
/* tensor/tape/tape.c: the tape: making and clearing it, its first error, its modes, its
 * scopes. */
#include "tensor/tape/tape.h"
#include "base/ended.h"
#include "base/line.h"
#include "base/option.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/generator.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/deferred_failure.h"
#include "tensor/tape/node.h"
#include "tensor/tape/region.h"
#include "tensor/tape/release.h"
#include "tensor/tape/tape_error.h"
#include "tensor/tape/tape_list.h"
#include <string.h>

/* 0 is the device's default stream. */
static atomic_uint_fast64_t last_key;

enum {
    MOST_ROUNDS = 64,
    MOST_KEPT_NODES = 256 /* room for them stays when the tape is cleared */
};

#define FROM_INSIDE                                                                                \
    "called from inside a hook, a module's forward, a custom operator or a checkpointed function " \
    "of this "                                                                                     \
    "tape; "

/* ---- making ---- */
ph_status ph_tape_create(ph_tape **out, ph_stream *stream, const ph_tape_options *options)
{
    static const char call[] = "ph_tape_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!stream)
        return ph__fail_null(call, "stream");
    if (!ph_stream_device(stream))
        return ph__fail_ended(call, "the stream");
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_tape_options");
    if (options)
        PH_TRY(ph__autocast_check(&options->autocast, call));
    if (options && options->generator &&
        options->generator->backend->device != ph_stream_device(stream))
        return ph_fail(PH_ERROR_WRONG_DEVICE,
                       "%s: the generator is of another device than the stream", call);
    ph_tape *tape = ph__alloc(sizeof *tape);
    if (!tape)
        return ph__fail_host_memory(call, "the tape");
    memset(tape, 0, sizeof *tape);
    ph_device *device = ph_stream_device(stream);
    ph_status status = ph__backend_of(&tape->backend, device, call);
    if (status != PH_OK) {
        ph__free(tape);
        return status;
    }
    size_t asked = 0;
    status = ph__quarantine_asked(&asked, call);
    if (options && ph__option_count(options->quarantine, 0) > asked)
        asked = ph__option_count(options->quarantine, 0);
    if (status == PH_OK)
        status = ph__quarantine_enlarge(tape->backend, asked, call);
    if (status != PH_OK) {
        ph__backend_release(tape->backend);
        ph__free(tape);
        return status;
    }
    tape->going = PH__GOING_WORK;
    ph__backend_expect_work(tape->backend);
    tape->stream = stream;
    if (stream != ph_device_default_stream(device))
        tape->key = atomic_fetch_add_explicit(&last_key, 1, memory_order_relaxed) + 1;
    tape->generator = options ? ph_generator_retain(options->generator) : NULL;
    tape->grad_enabled = !(options && options->no_grad);
    tape->refuse_other_streams = options && options->refuse_other_streams;
    tape->mark_modules = options && options->mark_modules;
    if (options)
        tape->autocast = options->autocast;
    tape->owned = tape->owned_inline;
    tape->owned_capacity = PH__OWNED_INLINE;
    tape->spares.tally = ph__alloc_tally_claim();
    ph__tape_join_list(tape);
    *out = tape;
    return PH_OK;
}

static bool is_tape_empty(const ph_tape *tape)
{
    return !tape->casts && tape->nodes.count == 0 && tape->regions.count == 0 &&
           tape->owned_count == 0;
}

/* History first: its saved values are tensors that the tape may own, too. Callbacks of the
 * user's run here: none of them may clear it, and what operators that they call leave goes as
 * well; of callbacks that bring about each other without end, the rest stays. */
static void release_all(ph_tape *tape, ph__going going)
{
    ph__going before = tape->going;
    tape->going = going;
    tape->callbacks++;
    for (int round = 0; round < MOST_ROUNDS && (round == 0 || !is_tape_empty(tape)); round++) {
        if (tape->casts)
            ph__autocast_drop(tape);
        if (tape->nodes.count > 0)
            ph__tape_kill_nodes(tape, 0);
        if (tape->regions.count > 0)
            ph__tape_drop_regions(tape, 0);
        ph__tape_drop(tape, 0, NULL, 0);
    }
    tape->callbacks--;
    tape->going = before;
    if (tape->nodes.capacity > MOST_KEPT_NODES)
        ph__vec_free(&tape->nodes);
    if (tape->regions.at)
        ph__vec_free(&tape->regions);
    if (tape->owned != tape->owned_inline) {
        ph__free(tape->owned);
        tape->owned = tape->owned_inline;
        tape->owned_capacity = PH__OWNED_INLINE;
    }
    tape->depth = 0;
}

/* The rest refuses all work, as a tape that has failed does: no backend, no stream. */
static void bury_tape(ph_tape *tape)
{
    ph_error before;
    ph__error_save(&before);
    memset(tape, 0, sizeof *tape);
    ph_ignore(ph__fail_ended("a call of a tape", "the tape"));
    ph__error_save(&tape->error);
    ph__error_restore(&before);
    tape->owned = tape->owned_inline;
    ph__ended_put(tape);
}

void ph_tape_destroy(ph_tape *tape)
{
    if (!tape)
        return;
    if (!tape->backend) {
        ph__ended_report("ph_tape_destroy", "the tape");
        return;
    }
    if (tape->callbacks > 0) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "ph_tape_destroy: " FROM_INSIDE "destroy it when they are done; it stays");
        return;
    }
    release_all(tape, PH__GOING_DESTROYED);
    ph__vec_free(&tape->nodes);
    ph__tensor_spares_free(&tape->spares);
    ph__tape_leave_list(tape);
    ph_generator_release(tape->generator);
    ph_generator_release(tape->default_one);
    ph__backend_release(tape->backend);
    ph__deferred_failure_release(tape->deferred);
    bury_tape(tape);
}

ph_stream *ph_tape_stream(const ph_tape *tape)
{
    return tape ? tape->stream : NULL;
}

ph_device *ph_tape_device(const ph_tape *tape)
{
    return tape && tape->backend ? tape->backend->device : NULL;
}

ph_status ph_tape_clear(ph_tape *tape)
{
    static const char call[] = "ph_tape_clear";
    if (!tape)
        return ph__fail_null(call, "tape");
    if (!tape->backend)
        return ph__fail_ended(call, "the tape");
    if (tape->callbacks > 0)
        return ph_fail(PH_ERROR_STATE, "%s: " FROM_INSIDE "clear it when they are done", call);
    release_all(tape, PH__GOING_CLEARED);
    if (!ph__tape_failed(tape))
        return PH_OK;
    ph_error first = tape->error;
    ph__tape_forgive(tape);
    return ph_error_set(&first);
}

/* ---- modes ---- */
bool ph_tape_set_grad_enabled(ph_tape *tape, bool enabled)
{
    if (!tape)
        return false;
    bool before = tape->grad_enabled;
    tape->grad_enabled = enabled;
    return before;
}

bool ph_tape_grad_enabled(const ph_tape *tape)
{
    return tape && tape->grad_enabled;
}

void ph_tape_set_generator(ph_tape *tape, ph_generator *generator)
{
    if (!tape || !tape->backend)
        return;
    ph_generator *before = tape->generator;
    tape->generator = ph_generator_retain(generator);
    ph_generator_release(before);
}

ph_generator *ph__tape_generator(ph_tape *tape)
{
    if (!tape || ph__tape_failed(tape))
        return NULL;
    if (tape->generator)
        return tape->generator;
    if (!tape->default_one)
        ph_tape_check(tape, ph_generator_default(&tape->default_one, tape->backend->device));
    return tape->default_one;
}

/* ---- what it owns ---- */
static bool grow_owned(ph_tape *tape)
{
    bool inline_ones = tape->owned == tape->owned_inline;
    void *at = inline_ones ? NULL : tape->owned;
    size_t capacity = inline_ones ? 0 : tape->owned_capacity;
    if (!ph__vec_grow(&at, &capacity, inline_ones ? 0 : tape->owned_count, tape->owned_count + 1,
                      sizeof(ph_tensor *)))
        return false;
    if (inline_ones)
        memcpy(at, tape->owned_inline, tape->owned_count * sizeof *tape->owned);
    tape->owned = at;
    tape->owned_capacity = capacity;
    return true;
}

bool ph__tape_own_more(ph_tape *tape, ph_tensor *x)
{
    if (grow_owned(tape))
        return ph__tape_own(tape, x);
    ph_tensor_release(x);
    ph__tape_fail_host_memory(tape, "tape", "another tensor");
    return false;
}

void ph__tape_drop(ph_tape *tape, size_t mark, ph_tensor *const *keep, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (keep[i] && keep[i]->tape == tape)
            keep[i]->kept = true;
    size_t kept = mark;
    for (size_t i = mark; i < tape->owned_count; i++) {
        ph_tensor *x = tape->owned[i];
        if (x->kept) {
            tape->owned[kept++] = x;
        } else {
            x->tape = NULL;
            ph__tensor_release_on(x, tape);
        }
    }
    if (kept < tape->owned_count)
        tape->owned_count = kept;
    for (size_t i = 0; i < count; i++)
        if (keep[i] && keep[i]->tape == tape)
            keep[i]->kept = false;
}

size_t ph_tape_scope_begin(ph_tape *tape)
{
    if (!tape)
        return 0;
    tape->depth++;
    return tape->owned_count;
}

/* Out of line: most scopes leave what they keep, and nothing else. */
static __attribute__((noinline)) void end_scope(ph_tape *tape, size_t mark, ph_tensor *const *keep,
                                                size_t count)
{
    ph__going before = tape->going;
    tape->going = PH__GOING_SCOPE;
    ph__tape_drop(tape, mark, keep, count);
    tape->going = before;
}

void ph_tape_scope_end(ph_tape *tape, size_t mark, ph_tensor *const *keep, size_t count)
{
    if (!tape)
        return;
    if (tape->depth > 0)
        tape->depth--;
    for (size_t i = 0; keep && i < count; i++)
        if (keep[i] && __builtin_expect(keep[i]->gone, 0))
            ph_tape_check(tape,
                          ph__tensor_check_there(keep[i], "ph_tape_scope_end", "a tensor to keep"));
    if (!ph__tape_is_newest(tape, mark, keep && count == 1 ? keep[0] : NULL))
        end_scope(tape, mark, keep, keep ? count : 0);
}

ph_status ph_tape_get_info(ph_tape_info *out, const ph_tape *tape)
{
    static const char call[] = "ph_tape_get_info";
    if (!out)
        return ph__fail_null(call, "out");
    *out = (ph_tape_info){0};
    if (!tape)
        return ph__fail_null(call, "tape");
    out->tensors = tape->owned_count;
    out->nodes = tape->nodes.count;
    out->saved = tape->saved;
    out->depth = tape->depth;
    return PH_OK;
}
