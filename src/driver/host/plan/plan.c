/* SPDX-License-Identifier: MIT */
/* driver/host/plan/plan.c: compiling a DAG into a plan, and changing its nodes. */
#include "driver/host/plan/plan.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "driver/host/plan/plan_lanes.h"
#include <string.h>

/* A zeroed array that starts on a cache line and is freed with the plan. */
static void *plan_array(ph__plan *plan, size_t count, size_t size, bool *ok)
{
    size_t bytes;
    if (!*ok)
        return NULL;
    void *memory = NULL;
    if (ph__mul(count, size, &bytes) && ph__add(bytes, PH__CACHE_LINE, &bytes))
        memory = ph__calloc(bytes, 1);
    if (!memory) {
        *ok = false;
        return NULL;
    }
    plan->memory[plan->memory_count++] = memory;
    plan->memory_bytes += bytes;
    return ph__plan_align(memory);
}

/* ---- shared memory ---- */

static void point_to_shared(ph__plan *plan)
{
    for (uint32_t n = 0; n < plan->count; n++)
        plan->serial[n].range.shared = ph__plan_shared_of(plan, n, 0);
    for (unsigned lane = 0; lane < plan->scheduled; lane++) {
        const ph__schedule_lane *here = &plan->schedule.lane[lane];
        for (uint32_t t = here->first_task; t < here->end_task; t++)
            plan->lane_tasks[t].range.shared =
                ph__plan_shared_of(plan, plan->schedule.tasks[t].node, lane);
    }
}

/* Makes the scratch at least so large for each lane; the tasks are the caller's affair. */
static bool grow_shared(ph__plan *plan, size_t bytes)
{
    size_t stride, total;
    if (bytes <= plan->shared_stride)
        return true;
    if (!ph__round_up(bytes, PH__CACHE_LINE, &stride) ||
        !ph__mul(stride, plan->max_lanes, &total) || !ph__add(total, PH__CACHE_LINE, &total))
        return false;
    void *shared = ph__calloc(1, total);
    if (!shared)
        return false;
    ph__free(plan->shared);
    plan->shared = shared;
    plan->shared_stride = stride;
    return true;
}

/* ---- nodes ---- */

static ph_block_range whole_range(const ph__plan_node *node)
{
    ph_block_range range = {.begin = 0, .end = 1};
    for (int axis = 0; axis < 3; axis++) {
        range.grid[axis] = node->grid[axis] ? node->grid[axis] : 1;
        range.block[axis] = node->block[axis] ? node->block[axis] : 1;
        range.end *= range.grid[axis];
    }
    return range;
}

static void write_node(ph__plan *plan, uint32_t n, const ph__plan_node *value)
{
    ph_block_range range = whole_range(value);
    plan->blocking += (uint32_t)value->may_block - (uint32_t)plan->may_block[n];
    plan->may_block[n] = value->may_block;
    plan->handed += (uint32_t)plan->is_inline[n] - (uint32_t)value->is_inline;
    plan->is_inline[n] = value->is_inline;
    plan->shared_bytes[n] = value->shared_bytes;
    plan->blocks[n] = range.end;
    range.shared = ph__plan_shared_of(plan, n, 0);
    plan->serial[n] = (ph__plan_task){.fn = value->fn, .args = value->args, .range = range};
}

/* ---- create, destroy ---- */

static bool count_edges(size_t *edges, const ph__plan_node *nodes, size_t count)
{
    *edges = 0;
    for (size_t n = 0; n < count; n++)
        if (!ph__add(*edges, nodes[n].dependency_count, edges))
            return false;
    return count < UINT32_MAX && *edges < UINT32_MAX;
}

static bool allocate_plan(ph__plan *plan, size_t count, size_t edges)
{
    bool ok = true;
    plan->serial = plan_array(plan, count, sizeof *plan->serial, &ok);
    plan->blocks = plan_array(plan, count, sizeof *plan->blocks, &ok);
    plan->shared_bytes = plan_array(plan, count, sizeof *plan->shared_bytes, &ok);
    plan->may_block = plan_array(plan, count, sizeof *plan->may_block, &ok);
    plan->is_inline = plan_array(plan, count, sizeof *plan->is_inline, &ok);
    plan->dependency_begin = plan_array(plan, count + 1, sizeof *plan->dependency_begin, &ok);
    plan->dependencies = plan_array(plan, edges, sizeof *plan->dependencies, &ok);
    plan->successor_begin = plan_array(plan, count + 1, sizeof *plan->successor_begin, &ok);
    plan->successors = plan_array(plan, edges, sizeof *plan->successors, &ok);
    plan->chaos_nodes = plan_array(plan, count, sizeof *plan->chaos_nodes, &ok);
    plan->chaos_ready = plan_array(plan, count, sizeof *plan->chaos_ready, &ok);
    plan->cost_ns = plan_array(plan, count, sizeof *plan->cost_ns, &ok);
    if (!ok || plan->max_lanes < 2)
        return ok;
    plan->planned_ns = plan_array(plan, count, sizeof *plan->planned_ns, &ok);
    plan->progress = plan_array(plan, plan->max_lanes, sizeof *plan->progress, &ok);
    ok = ok && ph__schedule_init(&plan->schedule, (uint32_t)count, edges, plan->max_lanes);
    if (ok)
        plan->lane_tasks =
            plan_array(plan, plan->schedule.task_capacity, sizeof *plan->lane_tasks, &ok);
    return ok;
}

static void write_edges(ph__plan *plan, const ph__plan_node *nodes)
{
    uint32_t edge = 0;
    for (uint32_t n = 0; n < plan->count; n++) {
        plan->dependency_begin[n] = edge;
        for (uint32_t i = 0; i < nodes[n].dependency_count; i++) {
            plan->dependencies[edge++] = nodes[n].dependencies[i];
            plan->successor_begin[nodes[n].dependencies[i] + 1]++;
        }
    }
    plan->dependency_begin[plan->count] = edge;
    for (uint32_t n = 0; n < plan->count; n++)
        plan->successor_begin[n + 1] += plan->successor_begin[n];
    uint32_t *next = plan->chaos_ready; /* not in use before a run */
    memcpy(next, plan->successor_begin, plan->count * sizeof *next);
    for (uint32_t n = 0; n < plan->count; n++)
        for (uint32_t i = 0; i < nodes[n].dependency_count; i++)
            plan->successors[next[nodes[n].dependencies[i]]++] = n;
}

ph__plan *ph__plan_create(const ph__plan_node *nodes, size_t count, ph__workers *workers)
{
    size_t edges;
    if (!count_edges(&edges, nodes, count))
        return NULL;
    ph__plan *plan = ph__calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->memory_bytes = sizeof *plan;
    plan->workers = workers;
    plan->count = (uint32_t)count;
    plan->max_lanes = ph__workers_count(workers);
    if (plan->max_lanes > PH__SCHEDULE_LANES)
        plan->max_lanes = PH__SCHEDULE_LANES;
    bool ok = allocate_plan(plan, count, edges);
    for (size_t n = 0; ok && n < count; n++)
        ok = grow_shared(plan, nodes[n].shared_bytes);
    if (!ok) {
        ph__plan_destroy(plan);
        return NULL;
    }
    plan->handed = plan->count; /* no node is inline before it was written */
    for (uint32_t n = 0; n < plan->count; n++) {
        write_node(plan, n, &nodes[n]);
        plan->cost_ns[n] = -1;
    }
    write_edges(plan, nodes);
    ph__choice_init(&plan->choice, plan->max_lanes > 1 && plan->blocking == 0);
    return plan;
}

void ph__plan_destroy(ph__plan *plan)
{
    if (!plan)
        return;
    (void)ph__plan_measure(plan, false);
    for (unsigned i = 0; i < plan->memory_count; i++)
        ph__free(plan->memory[i]);
    ph__schedule_free(&plan->schedule);
    ph__free(plan->shared);
    ph__free(plan);
}

void ph__plan_force_lanes(ph__plan *plan, unsigned lanes)
{
    plan->forced = lanes > plan->max_lanes ? plan->max_lanes : lanes;
    plan->scheduled = 0;
    plan->decided = plan->choice.have_lanes = false;
    if (plan->forced > 1)
        ph__plan_make_lanes(plan, plan->forced);
}

/* ---- set ---- */

static unsigned lane_of(const ph__plan *plan, uint32_t task)
{
    unsigned lane = 0;
    while (task >= plan->schedule.lane[lane].end_task)
        lane++;
    return lane;
}

bool ph__plan_set(ph__plan *plan, size_t node, const ph__plan_node *value)
{
    uint32_t n = (uint32_t)node;
    char *shared_before = plan->shared;
    if (!grow_shared(plan, value->shared_bytes))
        return false;
    ph__plan_task before = plan->serial[n];
    uint32_t blocking = plan->blocking;
    write_node(plan, n, value);
    const ph__plan_task *now = &plan->serial[n];
    bool same = before.fn == now->fn &&
                memcmp(before.range.grid, now->range.grid, sizeof now->range.grid) == 0 &&
                memcmp(before.range.block, now->range.block, sizeof now->range.block) == 0;
    if (!same) {
        plan->cost_ns[n] = -1;
        plan->scheduled = 0;
        plan->decided = false;
        ph__choice_forget(&plan->choice, true);
    } else if (plan->scheduled) {
        for (uint32_t part = 0; part < ph__schedule_parts(&plan->schedule, n); part++) {
            uint32_t task = ph__schedule_part(&plan->schedule, n, part);
            ph__plan_write_lane_task(plan, task, lane_of(plan, task));
        }
    }
    if (plan->shared != shared_before)
        point_to_shared(plan);
    if ((blocking == 0) != (plan->blocking == 0)) {
        ph__choice_init(&plan->choice, plan->max_lanes > 1 && plan->blocking == 0);
        plan->scheduled = 0;
        plan->decided = false;
    }
    atomic_store_explicit(
        &plan->tiny, same && plan->blocking == 0 && plan->handed == 0 && ph__plan_is_tiny(plan),
        memory_order_relaxed);
    return true;
}

/* ---- measuring ---- */

bool ph__plan_measure(ph__plan *plan, bool on)
{
    ph__free(plan->times);
    ph__free(plan->task_times);
    plan->times = plan->task_times = NULL;
    if (!on)
        return true;
    plan->times = ph__calloc((size_t)plan->count + 1, sizeof *plan->times);
    if (plan->max_lanes > 1)
        plan->task_times =
            ph__calloc((size_t)plan->schedule.task_capacity + 1, sizeof *plan->task_times);
    if (plan->times && (plan->task_times || plan->max_lanes < 2))
        return true;
    (void)ph__plan_measure(plan, false);
    return false;
}

const ph__plan_time *ph__plan_times(const ph__plan *plan)
{
    return plan->times;
}

bool ph__plan_is_tiny(const ph__plan *plan)
{
    return atomic_load_explicit(&plan->tiny, memory_order_relaxed);
}

size_t ph__plan_bytes(const ph__plan *plan)
{
    size_t shared = plan->shared ? plan->shared_stride * plan->max_lanes + PH__CACHE_LINE : 0;
    return plan->memory_bytes + plan->schedule.bytes + shared;
}

void ph__plan_get_stats(ph__plan_stats *out, const ph__plan *plan)
{
    bool lanes =
        plan->blocking == 0 && plan->scheduled && (plan->forced > 1 || plan->choice.have_lanes);
    *out = (ph__plan_stats){.lanes = lanes ? plan->scheduled : 1,
                            .tasks = lanes ? plan->schedule.task_count : plan->count,
                            .flags = lanes ? plan->schedule.wait_count : 0,
                            .runs = plan->runs,
                            .parallel_runs = plan->parallel_runs,
                            .serial_ns = plan->choice.serial_known ? plan->choice.serial_ns : 0,
                            .predicted_ns = plan->scheduled ? plan->schedule.predicted_ns : 0};
}
