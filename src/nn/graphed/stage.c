/* SPDX-License-Identifier: MIT */
/* nn/graphed/stage.c: memory that stands for inputs while their pass is captured, several times, at
 * addresses that differ in whatever a program might have looked at: bits, alignments, ends, sums,
 * differences and orders. */
#include "nn/graphed/stage.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/rng.h"
#include "base/status.h"
#include "nn/graphed/binding.h"

enum {
    STEP = 512,      /* the allocator's alignment, for what is not probed */
    SMALLEST = 4096, /* a window: a page */
    LARGEST = 1 << 20,
    ROOM = 32 << 20, /* of all windows, where that leaves them larger than a page */
    WINDOWS = 6,     /* windows of a binding, about: see place_probed */
    LONE = 1,        /* the first probe */
    ENDING = 2,      /* probes by where bindings end */
    RANDOM = 3       /* probes for what else looks at addresses: hashes */
};

/* ---- the plan ---- */
/* Combinations of half of the probes: no binding's set is part of another one's. */
static uint64_t count_combinations(size_t probes)
{
    uint64_t count = 1;
    for (size_t i = 1; i <= probes / 2; i++)
        count = count * (probes - probes / 2 + i) / i;
    return count;
}

ph__stage_plan ph__stage_plan_for(size_t bindings)
{
    ph__stage_plan plan = {.coded = 2, .window = LARGEST};
    while (count_combinations(plan.coded) < bindings)
        plan.coded++;
    while (plan.window > SMALLEST && bindings > ROOM / WINDOWS / plan.window)
        plan.window /= 2;
    plan.probes = LONE + plan.coded + ENDING + RANDOM;
    return plan;
}

/* The next larger number with as many bits (Gosper). */
static uint64_t next_combination(uint64_t set)
{
    uint64_t low = set & (0 - set), ripple = set + low;
    return ripple | (((set ^ ripple) >> 2) / low);
}

static size_t round_up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

/* The place of a binding in its window, in a probe. In the capture itself it lies at the window's
 * begin.
 * - The first probe has each at the last aligned place of the window.
 * - The coded probes put each binding there, or not, so that all bits below the window differ, and
 *   all alignments do.
 * - Of two bindings, each is there once while the other one is not, so that sums and differences
 *   differ too.
 * - Two more probes concern the ends of bindings: one has them at the end of a window, one has all
 *   their bits different from the capture. */
static size_t place_in_window(const ph__stage_plan *plan, size_t probe, size_t binding,
                              uint64_t set, size_t bytes)
{
    size_t window = plan->window, unit = PH__BINDING_ALIGNMENT, last = window - unit;
    if (probe < LONE)
        return last;
    if (probe < LONE + plan->coded)
        return set >> (probe - LONE) & 1 ? last : 0;
    if (probe == LONE + plan->coded)
        return (window - round_up(bytes, unit) % window) % window;
    if (probe == LONE + plan->coded + 1)
        return (0 - 2 * (bytes / unit) - 1) * unit % window;
    ph__rng rng = {binding * plan->probes + probe};
    return (ph__rng_next(&rng) | 1) * PH__BINDING_ALIGNMENT % window;
}

/* ---- places ---- */
static size_t region_bytes(const ph__stage_plan *plan, size_t bytes)
{
    return round_up(bytes + plan->window, 2 * plan->window);
}

/* All captures' places first, each at the begin of a region of its own, then those of the probes,
 * which share them: every other probe has the regions in reverse order. Distances differ within a
 * stage by the order of regions, and between two stages by being odd or even, counted in windows.
 */
static void place_probed(ph__stage *stage, void *block, const size_t *bytes,
                         const ph__stage_plan *plan, size_t first)
{
    size_t window = plan->window, total = 0, before = 0;
    uint64_t set = ((uint64_t)1 << plan->coded / 2) - 1;
    char *at = (char *)round_up((uintptr_t)block, window);
    for (size_t i = 0; i < first; i++)
        set = next_combination(set);
    for (size_t i = 0; i < stage->count; i++)
        total += region_bytes(plan, bytes[i]);
    for (size_t i = 0; i < stage->count; i++, set = next_combination(set)) {
        size_t own = region_bytes(plan, bytes[i]), after = total - before - own;
        char *probes = at + total + (first ? window : 0);
        stage->at[i] = (ph__stand_in){at + before, stage->shifted + i * plan->probes, bytes[i]};
        for (size_t k = 0; k < plan->probes; k++)
            stage->at[i].shifted[k] = probes + (k % 2 ? before + 2 * window * i : after) +
                                      place_in_window(plan, k, first + i, set, bytes[i]);
        before += own;
    }
}

static void place_stand_ins(ph__stage *stage, char *at, const size_t *bytes)
{
    for (size_t i = 0; i < stage->count; i++) {
        stage->at[i] = (ph__stand_in){at, NULL, bytes[i]};
        at += round_up(bytes[i], STEP) + STEP;
    }
}

static bool add_up_room(size_t *out, const size_t *bytes, size_t count, const ph__stage_plan *plan)
{
    size_t sum = 0, more;
    for (size_t i = 0; i < count; i++)
        if (!ph__add(bytes[i], plan ? 3 * plan->window : 2 * STEP, &more) ||
            !ph__add(sum, more, &sum))
            return false;
    if (!plan)
        return ph__add(sum, STEP, out);
    return ph__mul(sum, 2, &sum) && ph__mul(count + 1, 2 * plan->window, &more) &&
           ph__add(sum, more, out);
}

/* A new block is at least twice as large as the last, so that a few do. */
static ph_status share_block(void **out, ph__stage_room *room, ph_stream *stream, size_t bytes,
                             const char *call)
{
    if (room->blocks.count == 0 || bytes > room->bytes) {
        size_t twice = 0, all = ph__mul(room->bytes, 2, &twice) && twice > bytes ? twice : bytes;
        void *block;
        if (!ph__vec_reserve(&room->blocks, 1))
            return ph__fail_host_memory(call, "what stands for inputs");
        PH_TRY(ph_malloc(&block, all, 1, stream));
        room->blocks.at[room->blocks.count++] = block;
        room->bytes = all;
    }
    *out = room->blocks.at[room->blocks.count - 1];
    return PH_OK;
}

void ph__stage_room_free(ph__stage_room *room, ph_stream *stream)
{
    for (size_t i = 0; i < room->blocks.count; i++)
        ph_free(room->blocks.at[i], stream);
    ph__vec_free(&room->blocks);
    room->bytes = 0;
}

ph_status ph__stage_make(ph__stage *stage, ph__stage_room *room, ph_stream *stream,
                         const size_t *bytes, size_t count, const ph__stage_plan *plan,
                         size_t first, const char *call)
{
    size_t needed = 0;
    void *block = NULL;
    if (!add_up_room(&needed, bytes, count, plan))
        return ph_fail(PH_ERROR_SIZE, "%s: the inputs of a callable are larger than memory can be",
                       call);
    stage->at = ph__calloc(count + 1, sizeof *stage->at);
    stage->shifted = ph__calloc(count * (plan ? plan->probes : 0) + 1, sizeof *stage->shifted);
    if (!stage->at || !stage->shifted)
        return ph__fail_host_memory(call, "what stands for inputs");
    if (room)
        PH_TRY(share_block(&block, room, stream, needed, call));
    else
        PH_TRY(ph_malloc(&stage->block, needed, 1, stream));
    stage->count = count;
    block = room ? block : stage->block;
    if (plan)
        place_probed(stage, block, bytes, plan, first);
    else
        place_stand_ins(stage, block, bytes);
    return PH_OK;
}

void ph__stage_free(ph__stage *stage, ph_stream *stream)
{
    ph_free(stage->block, stream);
    ph__free(stage->at);
    ph__free(stage->shifted);
    *stage = (ph__stage){0};
}
