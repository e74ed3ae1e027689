/* SPDX-License-Identifier: MIT */
/* graph/capture/planned.c: a capture whose function runs twice: the first run is noted and dropped,
 * the second one gets its blocks where the plan has them. */
#include "graph/capture/planned.h"
#include "base/log.h"
#include "base/unwind.h"
#include "graph/capture/capture.h"
#include "graph/capture/options.h"
#include "graph/object/graph.h"
#include "memory/alloc/replay_run.h"
#include "memory/alloc/slow_path.h"
#include "memory/capture/allocation_log.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"
#include "memory/plan/plan.h"
#include "memory/pool/pool.h"

static const char call[] = "ph_graph_capture";

/* A block that the first run left. */
typedef struct left_block {
    const void *base;
    uint64_t generation;
    size_t size;
} left_block;

typedef struct planned {
    ph_graph *graph;
    ph_stream *stream;
    const ph_capture_options *options;
    ph_capture_fn body;
    void *user;
    ph__plan_notes *notes[2]; /* of the two runs */
    unsigned run;
    ph__memory_plan first, plan; /* of the first run; the same with its offsets */
    PH__VEC(left_block) left;
    ph_pool *pool; /* of the second run; retained */
    void *arena;   /* its block, in which all planned ones lie; NULL: the allocator has it */
    ph__layout log;
    ph__replay_allocator *allocator;
    const char *reason; /* why the plan ended; static */
    bool stays;         /* the first run is as good as a plan */
    bool drop;          /* the capture */
} planned;

ph_status ph__fail_plan(const char *whose, const char *why)
{
    return ph_fail(PH_ERROR_ARGUMENT, "%s: ph_capture_options.plan: %s", whose, why);
}

/* ---- a run ---- */
static void stop_run(void *what)
{
    planned *p = what;
    if (p->notes[p->run])
        ph__plan_notes_end(p->notes[p->run]);
    if (p->allocator)
        ph__replay_allocator_stop(p->allocator);
}

/* Without host memory for the list nothing is said about them. */
static void list_left_blocks(planned *p)
{
    size_t cursor = 0;
    uint64_t address;
    void *number;
    while (ph__map_next(&p->notes[0]->live, &cursor, &address, &number)) {
        ph_allocation found;
        const void *base = (const void *)(uintptr_t)address;
        bool held = p->notes[0]->blocks.at[(uintptr_t)number - 1].held;
        if (!held && ph__memory_find(&found, p->stream->device, base)) {
            left_block left = {found.base, found.generation, found.size};
            if (!ph__vec_push(&p->left, left))
                return;
        }
    }
}

/* The pools that the run used, which were new, have 3 % or less that was not alive at once: the
 * second run, and giving all of it back before, would gain nothing. */
static bool has_no_gaps(const planned *p)
{
    size_t reserved = 0, most = p->plan.bound + p->plan.bound / 100 * 3;
    const ph_graph *graph = p->graph;
    for (size_t i = 0; i < graph->pools.count; i++) {
        ph_memory_stats stats;
        if (ph_pool_stats(&stats, graph->pools.at[i]->pool) != PH_OK)
            return false;
        reserved += stats.reserved;
    }
    return reserved <= most;
}

static void judge_first_run(planned *p)
{
    p->reason = ph__memory_plan_read(&p->first, p->notes[0], p->stream->id);
    if (p->reason == NULL)
        p->reason = ph__memory_plan_place(&p->plan, &p->first, 1);
    p->stays = p->reason == NULL && !p->options->pool && has_no_gaps(p);
    if (p->stays)
        p->reason = "the first run stays: its memory is at most 1.03 times what was alive at once";
    list_left_blocks(p);
    /* without a plan its graph may stay, unless it belongs into the caller's pool */
    p->drop = p->reason == NULL || p->options->pool;
}

static void judge_second_run(planned *p)
{
    if (ph__replay_allocator_ended_at(p->allocator) != SIZE_MAX)
        p->reason = "the second run asked for other sizes than the first, or in another order";
    else
        p->reason = ph__memory_plan_check(&p->plan, p->notes[0], p->notes[1]);
    p->drop = p->reason != NULL;
}

/* The requests of the second run go to the plan. */
static ph_status serve_plan(planned *p)
{
    uint64_t own = p->stream->id;
    PH_TRY(ph__replay_allocator_begin(&p->allocator, p->pool, p->pool, &p->log, own, own, call));
    ph__replay_allocator_order(p->allocator, p->arena);
    p->arena = NULL;
    return PH_OK;
}

static ph_status run_noted(ph_stream *stream, void *user)
{
    planned *p = user;
    p->notes[p->run] = ph__plan_notes_begin(ph__memory_of(p->stream->device), p->graph->capture.id);
    if (p->notes[p->run] == NULL)
        return ph__fail_host_memory(call, "the notes of the plan");
    PH__UNWIND unwind = {stop_run, p};
    p->notes[p->run]->served = p->run == 1;
    ph_status status = p->run == 1 ? serve_plan(p) : PH_OK;
    if (status == PH_OK)
        status = p->body(stream, p->user);
    unwind.undo = NULL;
    stop_run(p);
    if (status == PH_OK && p->run == 0)
        judge_first_run(p);
    else if (status == PH_OK)
        judge_second_run(p);
    return status;
}

/* ---- between the runs ---- */
/* One block for all; p->reason: there is none. */
static ph_status make_arena(planned *p)
{
    ph_device *device = p->stream->device;
    PH_TRY(ph_memory_trim(device));
    if (p->options->pool)
        p->pool = ph_pool_retain(p->options->pool);
    else
        PH_TRY(ph__pool_create_private(&p->pool, device));
    ph_error before;
    ph__error_save(&before);
    if (ph__malloc_from(&p->arena, p->pool, p->stream, p->plan.bytes, call) != PH_OK) {
        ph__error_restore(&before);
        p->arena = NULL;
        p->reason = "there was no memory for the plan's blocks in one piece";
        return PH_OK;
    }
    return ph__memory_plan_log(&p->log, &p->plan, p->notes[0], (uintptr_t)p->arena)
               ? PH_OK
               : ph__fail_host_memory(call, "the memory plan");
}

/* Blocks that the second run left become memory of its pool. */
static ph_status end_allocator(planned *p)
{
    ph__replay_allocator *allocator = p->allocator;
    p->allocator = NULL;
    return ph__replay_allocator_end(allocator)
               ? PH_OK
               : ph__fail_host_memory(call, "blocks that the function left");
}

static void release_plan(void *what)
{
    planned *p = what;
    ph_error before;
    ph__error_save(&before);
    ph_ignore(end_allocator(p));
    if (p->arena)
        ph_free(p->arena, p->stream);
    ph_pool_release(p->pool);
    ph__layout_free(&p->log);
    ph__memory_plan_free(&p->first);
    ph__memory_plan_free(&p->plan);
    ph__plan_notes_free(p->notes[0]);
    ph__plan_notes_free(p->notes[1]);
    ph__vec_free(&p->left);
    ph__stream_release(p->stream);
    ph__error_restore(&before);
}

static void warn_of_left_blocks(const planned *p)
{
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < p->left.count; i++)
        if (ph__memory_is_live(p->stream->device, p->left.at[i].base, p->left.at[i].generation)) {
            count++;
            bytes += p->left.at[i].size;
        }
    if (count > 0)
        ph__log(PH_LOG_WARNING,
                "%s: the function of a planned capture runs twice, and %zu blocks (%zu bytes) "
                "that its first run left are still allocated; release at its begin what the run "
                "before left",
                call, count, bytes);
}

/* ---- the runs ---- */
static ph_status run_second(planned *p, const ph_capture_options *options)
{
    ph_capture_options second = *options;
    second.pool = p->pool;
    p->run = 1;
    PH_TRY(ph__graph_capture_run(p->graph, p->stream, &second, run_noted, p, &p->drop));
    ph_status status = end_allocator(p);
    if (status != PH_OK)
        ph_ignore(ph_graph_reset(p->graph));
    return status;
}

static ph_status run_without_plan(const planned *p, const ph_capture_options *options)
{
    static const bool keep = false;
    ph__log(PH_LOG_WARNING, "%s: the memory plan ended, and the graph is captured without one: %s",
            call, p->reason);
    return ph__graph_capture_run(p->graph, p->stream, options, p->body, p->user, &keep);
}

static ph_status run_all(planned *p)
{
    ph_capture_options options = *p->options;
    options.plan = false;
    options.prepare = true;
    options.pool = NULL;
    p->drop = true;
    PH_TRY(ph__graph_capture_run(p->graph, p->stream, &options, run_noted, p, &p->drop));
    if (!p->drop)
        return PH_OK;
    options.prepare = false;
    options.pool = p->options->pool;
    if (p->reason == NULL)
        PH_TRY(make_arena(p));
    if (p->reason == NULL)
        PH_TRY(run_second(p, &options));
    return p->reason ? run_without_plan(p, &options) : PH_OK;
}

ph_status ph__graph_capture_planned(ph_graph *graph, ph_stream *stream,
                                    const ph_capture_options *options, ph_capture_fn body,
                                    void *user)
{
    PH_TRY(ph__stream_check(stream, call));
    PH_TRY(ph__graph_check_options(options, call));
    if (options->allow_breaks)
        return ph__fail_plan(call, "a plan is of one capture, and allow_breaks makes several; "
                                   "leave one of the two out");
    if (options->pool) {
        PH_TRY(ph__pool_check(options->pool, call));
        if (ph__pool_device(options->pool) != stream->device)
            return ph__fail_devices(call, "the pool", ph__pool_device(options->pool), "the capture",
                                    stream->device);
    }
    planned p = {.graph = graph,
                 .stream = ph__stream_retain(stream),
                 .options = options,
                 .body = body,
                 .user = user};
    PH__UNWIND unwind = {release_plan, &p};
    ph_status status = run_all(&p);
    unwind.undo = NULL;
    if (status == PH_OK) {
        if (!p.stays)
            warn_of_left_blocks(&p);
        graph->plan_bytes = p.reason ? 0 : p.plan.bytes;
        graph->plan_bound = p.reason && !p.stays ? 0 : p.plan.bound;
        graph->plan_ended = p.reason;
    }
    release_plan(&p);
    return status;
}
