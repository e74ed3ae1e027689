/* SPDX-License-Identifier: MIT */
/* graph/capture/memory_plan.c: one memory plan for several captures: their notes, the plan of all,
 * and the block in which they are served. */
#include "base/alloc.h"
#include "base/log.h"
#include "base/unwind.h"
#include "graph/capture/planned.h"
#include "graph/object/graph.h"
#include "memory/alloc/replay_run.h"
#include "memory/alloc/slow_path.h"
#include "memory/capture/allocation_log.h"
#include "memory/plan/plan.h"
#include "memory/pool/pool.h"
#include <phonograph/memory_plan.h>

/* One of the captures. */
typedef struct capture_notes {
    ph__plan_notes *notes[2]; /* of both times */
    size_t first;             /* of its blocks among all */
} capture_notes;

struct ph_memory_plan {
    ph_stream *stream; /* retained, as is the pool */
    ph_pool *pool;
    size_t count;
    capture_notes *captures; /* count, as runs */
    ph__memory_plan *runs;
    ph__memory_plan all;
    bool placed, finished, running; /* running: inside one of its captures */
    size_t next;                    /* the lowest capture that may be served */
    void *arena;                    /* a block of the pool; NULL: the allocator has it */
    ph__layout log;
    ph__replay_allocator *allocator; /* NULL: no capture was served yet, or all were */
    const char *reason;              /* why the plan ended; static */
};

/* ---- lifetime ---- */
static ph_status check_plan(const ph_memory_plan *plan, const char *call)
{
    if (plan == NULL)
        return ph__fail_null(call, "plan");
    return plan->running
               ? ph_fail(PH_ERROR_STATE,
                         "%s: inside one of the plan's own captures; call it behind that", call)
               : PH_OK;
}

static ph_status allocate_plan(ph_memory_plan **out, ph_pool *pool, ph_stream *stream, size_t count,
                               const char *call)
{
    ph_memory_plan *plan = ph__calloc(1, sizeof *plan);
    if (plan) {
        plan->stream = ph__stream_retain(stream);
        plan->pool = ph_pool_retain(pool);
        plan->captures = ph__calloc(count, sizeof *plan->captures);
        plan->runs = ph__calloc(count, sizeof *plan->runs);
        plan->count = plan->captures && plan->runs ? count : 0;
    }
    if (plan && plan->count) {
        *out = plan;
        return PH_OK;
    }
    ph_memory_plan_destroy(plan);
    return ph__fail_host_memory(call, "the memory plan");
}

ph_status ph_memory_plan_create(ph_memory_plan **out, ph_pool *pool, ph_stream *stream,
                                size_t count)
{
    static const char call[] = "ph_memory_plan_create";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (pool == NULL)
        return ph__fail_null(call, "pool");
    PH_TRY(ph__pool_check(pool, call));
    PH_TRY(ph__stream_check(stream, call));
    if (ph__pool_device(pool) != stream->device)
        return ph__fail_devices(call, "the pool", ph__pool_device(pool), "the stream",
                                stream->device);
    if (count == 0)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: count is 0; give the number of captures that are to be planned", call);
    return allocate_plan(out, pool, stream, count, call);
}

static ph_status end_plan_allocator(ph_memory_plan *plan, const char *call)
{
    ph__replay_allocator *allocator = plan->allocator;
    plan->allocator = NULL;
    return ph__replay_allocator_end(allocator)
               ? PH_OK
               : ph__fail_host_memory(call, "blocks that the captures left");
}

static void free_arena(ph_memory_plan *plan)
{
    if (plan->arena)
        ph_free(plan->arena, plan->stream);
    plan->arena = NULL;
}

ph_status ph_memory_plan_finish(ph_memory_plan *plan)
{
    static const char call[] = "ph_memory_plan_finish";
    PH_TRY(check_plan(plan, call));
    PH_TRY(ph__device_check(plan->stream->device, call));
    plan->finished = true;
    free_arena(plan);
    return end_plan_allocator(plan, call);
}

void ph_memory_plan_destroy(ph_memory_plan *plan)
{
    static const char call[] = "ph_memory_plan_destroy";
    ph_error before;
    if (plan == NULL)
        return;
    ph__error_save(&before);
    if (check_plan(plan, call) != PH_OK) {
        ph__log(PH_LOG_WARNING, "%s; nothing was done", ph_error_last()->message);
        ph__error_restore(&before);
        return;
    }
    ph_ignore(end_plan_allocator(plan, call));
    free_arena(plan);
    ph_pool_release(plan->pool);
    ph__layout_free(&plan->log);
    ph__memory_plan_free(&plan->all);
    for (size_t i = 0; i < plan->count; i++) {
        ph__memory_plan_free(&plan->runs[i]);
        ph__plan_notes_free(plan->captures[i].notes[0]);
        ph__plan_notes_free(plan->captures[i].notes[1]);
    }
    ph__free(plan->runs);
    ph__free(plan->captures);
    ph__stream_release(plan->stream);
    ph__free(plan);
    ph__error_restore(&before);
}

ph_status ph_memory_plan_get_info(ph_memory_plan_info *out, const ph_memory_plan *plan)
{
    static const char call[] = "ph_memory_plan_get_info";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = (ph_memory_plan_info){0};
    PH_TRY(check_plan(plan, call));
    out->ended = plan->reason;
    out->planned = plan->reason ? 0 : plan->all.bytes;
    out->plan_bound = plan->reason ? 0 : plan->all.bound;
    return PH_OK;
}

/* Where there was nothing to plan nobody is warned. */
static void end_plan(ph_memory_plan *plan, const char *why, const char *call)
{
    if (plan->reason || why == NULL)
        return;
    plan->reason = why;
    if (why != ph__memory_plan_empty)
        ph__log(PH_LOG_WARNING, "%s: the memory plan of several captures ended: %s", call, why);
}

/* ---- the plan ---- */
/* One block for all. A device that failed is the call's failure, want of memory the plan's end. */
static ph_status acquire_arena(ph_memory_plan *plan, const char *call)
{
    ph_error before;
    ph__error_save(&before);
    ph_status status =
        ph__malloc_from(&plan->arena, plan->pool, plan->stream, plan->all.bytes, call);
    if (status == PH_OK)
        return PH_OK;
    plan->arena = NULL;
    if (status == PH_ERROR_DEVICE) {
        plan->reason = "the device failed when the memory of the plan was made";
        return status;
    }
    ph__error_restore(&before);
    end_plan(plan, "there was no memory for the plan's blocks in one piece", call);
    return PH_OK;
}

/* The log has the blocks of all captures, one capture behind the other. */
static ph_status write_log(ph_memory_plan *plan, const char *call)
{
    bool ok = true;
    for (size_t i = 0; i < plan->count && ok; i++) {
        capture_notes *capture = &plan->captures[i];
        capture->first = plan->log.list.count;
        ok = capture->notes[0] == NULL ||
             ph__memory_plan_log(&plan->log, &plan->runs[i], capture->notes[0],
                                 (uintptr_t)plan->arena);
    }
    return ok ? PH_OK : ph__fail_host_memory(call, "the memory plan");
}

ph_status ph_memory_plan_place(ph_memory_plan *plan)
{
    static const char call[] = "ph_memory_plan_place";
    PH_TRY(check_plan(plan, call));
    PH_TRY(ph__device_check(plan->stream->device, call));
    if (plan->placed || plan->finished)
        return ph_fail(PH_ERROR_STATE, "%s: the plan has its places, or was finished; make another",
                       call);
    plan->placed = true;
    if (plan->reason == NULL)
        end_plan(plan, ph__memory_plan_place(&plan->all, plan->runs, plan->count), call);
    if (plan->reason == NULL)
        PH_TRY(acquire_arena(plan, call));
    return plan->reason ? PH_OK : write_log(plan, call);
}

/* ---- the captures ---- */
typedef struct noted_run {
    ph_memory_plan *plan;
    ph_graph *graph;
    size_t at;
    ph_capture_fn body;
    void *user;
    bool noted; /* the plan has not ended before it */
} noted_run;

static const char capture_call[] = "ph_memory_plan_capture";

static void stop_noted_run(void *what)
{
    const noted_run *r = what;
    ph__plan_notes *notes = r->plan->captures[r->at].notes[r->plan->placed];
    if (notes)
        ph__plan_notes_end(notes);
    if (r->plan->allocator)
        ph__replay_allocator_stop(r->plan->allocator);
}

/* A capture may ask for less than its notes have: the next one begins where its own do. */
static ph_status serve_capture(ph_memory_plan *plan, size_t at)
{
    const uint64_t own = plan->stream->id;
    if (plan->allocator == NULL) {
        PH_TRY(ph__replay_allocator_begin(&plan->allocator, plan->pool, plan->pool, &plan->log, own,
                                          own, capture_call));
        ph__replay_allocator_order(plan->allocator, plan->arena);
        plan->arena = NULL;
    }
    ph__replay_allocator_resume(plan->allocator, plan->captures[at].first);
    return PH_OK;
}

static ph_status begin_noted_run(const noted_run *r)
{
    ph_memory_plan *plan = r->plan;
    ph__plan_notes **notes = &plan->captures[r->at].notes[plan->placed];
    *notes = ph__plan_notes_begin(ph__memory_of(plan->stream->device), r->graph->capture.id);
    if (*notes == NULL)
        return ph__fail_host_memory(capture_call, "the notes of the plan");
    (*notes)->served = plan->placed;
    return plan->placed ? serve_capture(plan, r->at) : PH_OK;
}

/* While the capture is open: its nodes are asked about. */
static const char *judge_noted_run(const noted_run *r)
{
    ph_memory_plan *plan = r->plan;
    const capture_notes *capture = &plan->captures[r->at];
    if (r->graph->segments)
        return "a capture has breaks (ph_break), and so several graphs";
    if (!plan->placed)
        return ph__memory_plan_read(&plan->runs[r->at], capture->notes[0], plan->stream->id);
    if (capture->notes[0] == NULL)
        return capture->notes[1]->blocks.count ? "a capture was not noted, and allocates" : NULL;
    if (ph__replay_allocator_ended_at(plan->allocator) != SIZE_MAX)
        return "a capture asked for other sizes than at the first time, or in another order";
    return ph__memory_plan_check(&plan->runs[r->at], capture->notes[0], capture->notes[1]);
}

static ph_status run_of_plan(ph_stream *stream, void *user)
{
    noted_run *r = user;
    PH__UNWIND unwind = {stop_noted_run, r};
    ph_status status = begin_noted_run(r);
    if (status == PH_OK)
        status = r->body(stream, r->user);
    unwind.undo = NULL;
    stop_noted_run(r);
    if (status == PH_OK)
        end_plan(r->plan, judge_noted_run(r), capture_call);
    if (r->plan->placed && !r->plan->reason) {
        r->graph->plan_bytes = r->plan->all.bytes;
        r->graph->plan_bound = r->plan->all.bound;
    }
    return status;
}

static ph_status check_order(const ph_memory_plan *plan, size_t at)
{
    if (plan->finished)
        return ph_fail(PH_ERROR_STATE, "%s: the plan was finished; make another", capture_call);
    if (!plan->placed && plan->captures[at].notes[0])
        return ph_fail(PH_ERROR_STATE,
                       "%s: capture %zu was noted before; ph_memory_plan_place comes before its "
                       "second time",
                       capture_call, at);
    if (plan->placed && at < plan->next)
        return ph_fail(PH_ERROR_STATE,
                       "%s: capture %zu comes behind capture %zu; captures that are served come "
                       "in rising order, each once",
                       capture_call, at, plan->next - 1);
    return PH_OK;
}

static ph_status check_planned_capture(const ph_memory_plan *plan, size_t at,
                                       const ph_capture_options *options, ph_capture_fn body)
{
    PH_TRY(check_plan(plan, capture_call));
    if (body == NULL)
        return ph__fail_null(capture_call, "body");
    if (at >= plan->count)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: there is no capture %zu: the plan was made for %zu, from 0 on",
                       capture_call, at, plan->count);
    if (options->plan)
        return ph__fail_plan(capture_call, "the plan of several captures is theirs already");
    if (plan->placed && options->pool && options->pool != plan->pool)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: ph_capture_options.pool is another pool than the plan's, in which its "
                       "memory is; leave it out",
                       capture_call);
    return plan->reason ? PH_OK : check_order(plan, at);
}

/* Notes of it are of no capture; memory that it was served others may have by now. */
static void fail_noted_run(ph_memory_plan *plan, size_t at)
{
    if (plan->placed) {
        end_plan(plan, "a capture that it served failed", capture_call);
        return;
    }
    ph__plan_notes_free(plan->captures[at].notes[0]);
    plan->captures[at].notes[0] = NULL;
    ph__memory_plan_free(&plan->runs[at]);
}

/* An exception has left the body. */
static void abandon_noted_run(void *what)
{
    const noted_run *r = what;
    r->plan->running = false;
    if (r->noted)
        fail_noted_run(r->plan, r->at);
}

ph_status ph_memory_plan_capture(ph_memory_plan *plan, size_t at, ph_graph *graph,
                                 const ph_capture_options *options, ph_capture_fn body, void *user)
{
    static const ph_capture_options defaults;
    ph_capture_options room = options ? *options : defaults;
    PH_TRY(check_planned_capture(plan, at, &room, body));
    if (plan->placed)
        room.pool = plan->pool;
    noted_run r = {plan, graph, at, body, user, plan->reason == NULL};
    plan->running = true;
    PH__UNWIND unwind = {abandon_noted_run, &r};
    ph_status status = r.noted ? ph_graph_capture(graph, plan->stream, &room, run_of_plan, &r)
                               : ph_graph_capture(graph, plan->stream, &room, body, user);
    unwind.undo = NULL;
    plan->running = false;
    if (status == PH_OK && plan->placed)
        plan->next = at + 1;
    if (status != PH_OK && r.noted)
        fail_noted_run(plan, at);
    if (status == PH_OK && plan->reason) {
        graph->plan_bytes = graph->plan_bound = 0;
        graph->plan_ended = plan->reason;
    }
    return status;
}
