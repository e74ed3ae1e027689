/* SPDX-License-Identifier: MIT */
/* driver/host/plan/schedule.c: schedules: their memory, and the tasks, waits and segments that the
 * best attempt comes to. */
#include "driver/host/plan/schedule.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "driver/host/plan/attempt.h"
#include "driver/host/plan/rank.h"
#include <string.h>

static void *schedule_array(ph__schedule *schedule, size_t count, size_t size, bool *ok)
{
    void *memory = *ok ? ph__calloc(count ? count : 1, size) : NULL;
    *ok = memory != NULL;
    if (memory)
        schedule->bytes += count * size;
    return memory;
}

/* Splitting is limited by what is set aside here; a graph of many large kernels has enough tasks
 * without. */
static bool size_of_splits(ph__schedule_scratch *scratch, size_t *waits, uint32_t nodes,
                           size_t edges, unsigned max_lanes)
{
    enum {
        MOST_EXTRA_TASKS = 8192,
        MOST_EXTRA_WAITS = 65536
    };
    uint64_t others = max_lanes - 1;
    uint64_t extra_tasks = (uint64_t)nodes * others;
    uint64_t extra_waits = ((uint64_t)nodes * (max_lanes + 1) + edges) * others;
    scratch->extra_tasks =
        (uint32_t)(extra_tasks < MOST_EXTRA_TASKS ? extra_tasks : MOST_EXTRA_TASKS);
    scratch->extra_waits =
        (uint32_t)(extra_waits < MOST_EXTRA_WAITS ? extra_waits : MOST_EXTRA_WAITS);
    return ph__add(edges, scratch->extra_waits, waits) && *waits < UINT32_MAX &&
           nodes < UINT32_MAX - MOST_EXTRA_TASKS;
}

bool ph__schedule_init(ph__schedule *schedule, uint32_t nodes, size_t edges, unsigned max_lanes)
{
    memset(schedule, 0, sizeof *schedule);
    ph__schedule_scratch *scratch = ph__calloc(1, sizeof *scratch);
    size_t waits;
    if (!scratch || !size_of_splits(scratch, &waits, nodes, edges, max_lanes)) {
        ph__free(scratch);
        return false;
    }
    schedule->scratch = scratch;
    schedule->bytes = sizeof *scratch;
    schedule->task_capacity = nodes + scratch->extra_tasks;
    size_t tasks = schedule->task_capacity;
    bool ok = true;
    schedule->tasks = schedule_array(schedule, tasks, sizeof *schedule->tasks, &ok);
    schedule->segments = schedule_array(schedule, tasks, sizeof *schedule->segments, &ok);
    schedule->waits = schedule_array(schedule, waits, sizeof *schedule->waits, &ok);
    scratch->keys = schedule_array(schedule, nodes, sizeof *scratch->keys, &ok);
    scratch->spare_keys = schedule_array(schedule, nodes, sizeof *scratch->spare_keys, &ok);
    scratch->successors = schedule_array(schedule, nodes, sizeof *scratch->successors, &ok);
    scratch->first_part = schedule_array(schedule, nodes, sizeof *scratch->first_part, &ok);
    scratch->part_count = schedule_array(schedule, nodes, sizeof *scratch->part_count, &ok);
    scratch->chain = schedule_array(schedule, nodes, sizeof *scratch->chain, &ok);
    scratch->chain_cost = schedule_array(schedule, nodes, sizeof *scratch->chain_cost, &ok);
    scratch->chain_successor =
        schedule_array(schedule, nodes, sizeof *scratch->chain_successor, &ok);
    scratch->planned = schedule_array(schedule, tasks, sizeof *scratch->planned, &ok);
    scratch->index = schedule_array(schedule, tasks, sizeof *scratch->index, &ok);
    scratch->wait_first = schedule_array(schedule, tasks + 1, sizeof *scratch->wait_first, &ok);
    scratch->awaited = schedule_array(schedule, tasks, sizeof *scratch->awaited, &ok);
    if (!ok)
        ph__schedule_free(schedule);
    return ok;
}

void ph__schedule_free(ph__schedule *schedule)
{
    ph__schedule_scratch *scratch = schedule->scratch;
    if (scratch) {
        ph__free(scratch->keys);
        ph__free(scratch->spare_keys);
        ph__free(scratch->successors);
        ph__free(scratch->first_part);
        ph__free(scratch->part_count);
        ph__free(scratch->chain);
        ph__free(scratch->chain_cost);
        ph__free(scratch->chain_successor);
        ph__free(scratch->planned);
        ph__free(scratch->index);
        ph__free(scratch->wait_first);
        ph__free(scratch->awaited);
        ph__free(scratch);
    }
    ph__free(schedule->tasks);
    ph__free(schedule->segments);
    ph__free(schedule->waits);
    memset(schedule, 0, sizeof *schedule);
}

/* ---- result ---- */

static void list_tasks(ph__schedule *schedule, const ph__attempt *a)
{
    uint32_t first = 0;
    for (unsigned lane = 0; lane < a->lanes; lane++) {
        schedule->lane[lane].first_task = first;
        first += a->tasks[lane];
        schedule->lane[lane].end_task = first;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const ph__planned_task *p = &a->scratch->planned[i];
        uint32_t at = schedule->lane[p->lane].first_task + p->position;
        schedule->tasks[at] =
            (ph__schedule_task){.node = p->node, .begin = p->begin, .end = p->end};
        a->scratch->index[i] = at;
    }
    schedule->task_count = a->count;
}

/* A lane that has waited for another's task has waited for all before it too. */
static void list_waits(ph__schedule *schedule, ph__attempt *a)
{
    ph__schedule_scratch *scratch = a->scratch;
    memset(scratch->awaited, 0, a->count * sizeof *scratch->awaited);
    memset(a->known, 0, a->lanes * sizeof a->known[0]);
    uint32_t waits = 0;
    for (unsigned lane = 0; lane < a->lanes; lane++)
        for (uint32_t t = schedule->lane[lane].first_task; t < schedule->lane[lane].end_task; t++) {
            scratch->wait_first[t] = waits;
            ph__attempt_gather(a, schedule->tasks[t].node);
            for (unsigned from = 0; from < a->lanes; from++) {
                if (from == lane || a->needed[from] <= a->known[lane][from])
                    continue;
                a->known[lane][from] = a->needed[from];
                schedule->waits[waits++] =
                    (ph__schedule_wait){.lane = from, .tasks = a->needed[from]};
                scratch->awaited[schedule->lane[from].first_task + a->needed[from] - 1] = true;
            }
        }
    scratch->wait_first[a->count] = waits;
    schedule->wait_count = waits;
}

static void list_segments(ph__schedule *schedule, const ph__attempt *a)
{
    const ph__schedule_scratch *scratch = a->scratch;
    uint32_t segments = 0;
    for (unsigned lane = 0; lane < a->lanes; lane++) {
        ph__schedule_lane *here = &schedule->lane[lane];
        here->first_segment = segments;
        for (uint32_t t = here->first_task; t < here->end_task; t++) {
            bool waits = scratch->wait_first[t + 1] > scratch->wait_first[t];
            if (t == here->first_task || waits || scratch->awaited[t - 1])
                schedule->segments[segments++] =
                    (ph__schedule_segment){.first = t,
                                           .wait_first = scratch->wait_first[t],
                                           .wait_end = scratch->wait_first[t + 1]};
            schedule->segments[segments - 1].end = t + 1;
            schedule->segments[segments - 1].publish = scratch->awaited[t];
        }
        here->end_segment = segments;
    }
}

void ph__schedule_build(ph__schedule *schedule, const ph__schedule_graph *graph, unsigned lanes)
{
    ph__attempt a;
    a.scratch = schedule->scratch;
    a.graph = graph;
    a.lanes = lanes;
    schedule->lanes = lanes;
    ph__schedule_rank(schedule->scratch, graph);
    schedule->predicted_ns = (double)ph__attempt_place_best(&a);
    list_tasks(schedule, &a);
    list_waits(schedule, &a);
    list_segments(schedule, &a);
}

uint32_t ph__schedule_parts(const ph__schedule *schedule, uint32_t node)
{
    return schedule->scratch->part_count[node];
}

uint32_t ph__schedule_part(const ph__schedule *schedule, uint32_t node, uint32_t part)
{
    return schedule->scratch->index[schedule->scratch->first_part[node] + part];
}
