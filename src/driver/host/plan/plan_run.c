/* SPDX-License-Identifier: MIT */
/* driver/host/plan/plan_run.c: running a plan: in order, timed, in lanes, or in an order that a
 * seed picks. */
#include "driver/host/plan/plan_run.h"
#include "base/clock.h"
#include "driver/host/plan/plan_lanes.h"
#include "driver/host/plan/plan_nodes.h"
#include <string.h>

enum {
    SPINS_BEFORE_YIELDING = 1000 /* some 15 to 50 us of pauses */
};
#define TINY_NS         5000.0
#define BUILD_SHARE     0.1    /* of the time in runs that making schedules may take */
#define LEAST_SERIAL_NS 1500.0 /* below this no lanes are thought of */
#define WORK_NS         20.0f  /* the least cost of a node that counts as work */

static void run_tasks(const ph__plan_task *task, const ph__plan_task *end)
{
    for (; task < end; task++)
        task->fn(&task->range, task->args);
}

/* One look at the clock stands for the end of a task and the start of the next one. */
static void measure_tasks(ph__plan_time *time, const ph__plan_task *task, const ph__plan_task *end)
{
    uint64_t last = ph__now_ns();
    for (; task < end; task++, time++) {
        task->fn(&task->range, task->args);
        uint64_t now = ph__now_ns();
        *time = (ph__plan_time){last, now};
        last = now;
    }
}

/* ---- in lanes ---- */

/* The other lane may have lost its processor: after a while the wait leaves ours to others. */
static uint64_t wait_for(const ph__plan_progress *progress, uint64_t tasks)
{
    for (unsigned round = 0;; ph__back_off(&round, SPINS_BEFORE_YIELDING)) {
        uint64_t now = atomic_load_explicit(&progress->tasks, memory_order_acquire);
        if (now >= tasks)
            return now;
    }
}

/* times: NULL, or of each task; a constant where this is called, so that runs that are not
 * measured have no trace of it. */
static inline __attribute__((always_inline)) void walk_lane(const ph__plan *plan, unsigned lane,
                                                            ph__plan_time *times)
{
    const ph__schedule *schedule = &plan->schedule;
    const ph__schedule_lane *here = &schedule->lane[lane];
    uint64_t before = plan->progress_before;
    uint64_t seen[PH__SCHEDULE_LANES];
    for (unsigned other = 0; other < schedule->lanes; other++)
        seen[other] = before;
    for (uint32_t s = here->first_segment; s < here->end_segment; s++) {
        const ph__schedule_segment *segment = &schedule->segments[s];
        for (uint32_t w = segment->wait_first; w < segment->wait_end; w++) {
            ph__schedule_wait wait = schedule->waits[w];
            if (seen[wait.lane] < before + wait.tasks)
                seen[wait.lane] = wait_for(&plan->progress[wait.lane], before + wait.tasks);
        }
        if (times)
            measure_tasks(&times[segment->first], &plan->lane_tasks[segment->first],
                          &plan->lane_tasks[segment->end]);
        else
            run_tasks(&plan->lane_tasks[segment->first], &plan->lane_tasks[segment->end]);
        if (segment->publish)
            atomic_store_explicit(&plan->progress[lane].tasks,
                                  before + (segment->end - here->first_task), memory_order_release);
    }
}

static void run_lane(void *context, unsigned lane)
{
    walk_lane(context, lane, NULL);
}

static void measure_lane(void *context, unsigned lane)
{
    const ph__plan *plan = context;
    walk_lane(plan, lane, plan->task_times);
}

/* Counts go on beyond anything that this run can publish, also when the next schedule is another
 * one. */
static bool run_lanes(ph__plan *plan, void (*lane)(void *context, unsigned lane))
{
    if (!ph__workers_run(plan->workers, plan->scheduled, lane, plan))
        return false;
    plan->progress_before += plan->schedule.task_count;
    plan->parallel_runs++;
    return true;
}

/* ---- in order ---- */

static void run_serial(const ph__plan *plan)
{
    run_tasks(plan->serial, plan->serial + plan->count);
}

static uint64_t clock_cost(void)
{
    uint64_t least = UINT64_MAX, last = ph__now_ns();
    for (int i = 0; i < 16; i++) {
        uint64_t now = ph__now_ns();
        if (now - last < least)
            least = now - last;
        last = now;
    }
    return least;
}

static void run_profile(ph__plan *plan)
{
    double clock = (double)clock_cost(), sum = 0;
    uint64_t last = ph__now_ns();
    for (uint32_t n = 0; n < plan->count; n++) {
        const ph__plan_task *task = &plan->serial[n];
        task->fn(&task->range, task->args);
        uint64_t now = ph__now_ns();
        double cost = (double)(now - last) - clock;
        last = now;
        if (cost < 0)
            cost = 0;
        sum += cost;
        if (plan->cost_ns[n] < 0 || cost < (double)plan->cost_ns[n])
            plan->cost_ns[n] = (float)cost;
    }
    ph__choice_profile_measured(&plan->choice, sum);
}

/* The costs of nodes are out of date. */
static void forget_costs(ph__plan *plan)
{
    plan->decided = false;
    for (uint32_t n = 0; n < plan->count; n++)
        plan->cost_ns[n] = -1;
}

static void run_timed(ph__plan *plan)
{
    uint64_t start = ph__now_ns();
    run_serial(plan);
    ph__choice_serial_measured(&plan->choice, (double)(ph__now_ns() - start));
    if (!plan->choice.serial_known) /* the bodies have changed */
        forget_costs(plan);
}

/* ---- chaos ---- */

/* Takes some of a ready node's blocks from either end of what is left: often all, else about
 * half. */
static ph_block_range cut_blocks(ph__plan_chaos_node *left, const ph_block_range *whole,
                                 ph__rng *chaos)
{
    ph_block_range range = *whole;
    uint64_t blocks = left->end - left->next, part = blocks;
    uint64_t how = ph__rng_below(chaos, 4);
    if (how > 1)
        part = 1 + ph__rng_below(chaos, blocks);
    if (how == 2) {
        range.begin = left->next;
        range.end = left->next += part;
    } else {
        range.end = left->end;
        range.begin = left->end -= part;
    }
    return range;
}

/* Some blocks of a node; other nodes may run between them and the rest. */
static void run_part(const ph__plan *plan, uint32_t n, const ph_block_range *range)
{
    ph__plan_time *time = plan->times ? &plan->times[n] : NULL;
    if (time && time->start_ns == 0)
        time->start_ns = ph__now_ns();
    plan->serial[n].fn(range, plan->serial[n].args);
    if (time)
        time->end_ns = ph__now_ns();
}

static void run_chaos(ph__plan *plan, ph__rng *chaos)
{
    uint32_t ready = 0;
    for (uint32_t n = 0; n < plan->count; n++) {
        plan->chaos_nodes[n] = (ph__plan_chaos_node){.end = plan->blocks[n],
                                                     .waiting_for = plan->dependency_begin[n + 1] -
                                                                    plan->dependency_begin[n]};
        if (plan->chaos_nodes[n].waiting_for == 0)
            plan->chaos_ready[ready++] = n;
    }
    while (ready > 0) {
        uint32_t pick = (uint32_t)ph__rng_below(chaos, ready);
        uint32_t n = plan->chaos_ready[pick];
        ph_block_range range = cut_blocks(&plan->chaos_nodes[n], &plan->serial[n].range, chaos);
        run_part(plan, n, &range);
        if (plan->chaos_nodes[n].next < plan->chaos_nodes[n].end)
            continue;
        plan->chaos_ready[pick] = plan->chaos_ready[--ready];
        for (uint32_t i = plan->successor_begin[n]; i < plan->successor_begin[n + 1]; i++)
            if (--plan->chaos_nodes[plan->successors[i]].waiting_for == 0)
                plan->chaos_ready[ready++] = plan->successors[i];
    }
}

/* ---- which ---- */

/* Handing over is for nodes that do something: calling many that do next to nothing is no faster
 * on two processors. */
static bool has_work(const ph__plan *plan)
{
    double work = 0;
    for (uint32_t n = 0; n < plan->count; n++)
        if (plan->cost_ns[n] >= WORK_NS)
            work += (double)plan->cost_ns[n];
    return plan->choice.serial_ns >= LEAST_SERIAL_NS && work >= plan->choice.serial_ns / 2;
}

/* Tries fewer lanes too: more of them than the graph is wide only cost hand-overs. */
static void choose_lanes(ph__plan *plan)
{
    plan->decided = true;
    plan->spent_ns = 0;
    plan->scheduled = 0;
    ph__choice_scheduled(&plan->choice, 1, 0);
    if (plan->max_lanes < 2 || !has_work(plan))
        return;
    uint64_t start = ph__now_ns();
    unsigned best = 0;
    double best_ns = 0;
    for (unsigned lanes = plan->max_lanes; lanes >= 2; lanes /= 2) {
        ph__plan_make_lanes(plan, lanes);
        double ns = plan->schedule.predicted_ns;
        if (best && ns > best_ns * 1.05)
            break;
        best = lanes;
        best_ns = ns;
    }
    if (!ph__choice_worth(&plan->choice, best_ns)) {
        plan->scheduled = 0;
        ph__choice_rejected(&plan->choice);
    } else {
        if (plan->scheduled != best)
            ph__plan_make_lanes(plan, best);
        ph__choice_scheduled(&plan->choice, best, best_ns);
    }
    plan->build_ns = (double)(ph__now_ns() - start);
}

static void run_chosen(ph__plan *plan)
{
    if (!plan->decided && plan->choice.serial_known &&
        plan->spent_ns * BUILD_SHARE >= plan->build_ns)
        choose_lanes(plan);
    bool awake = plan->choice.have_lanes && ph__workers_awake(plan->workers, plan->choice.lanes);
    switch (ph__choice_next(&plan->choice, awake)) {
    case PH__RUN_PROFILE:
        if (plan->decided) /* the decision is doubted */
            forget_costs(plan);
        run_profile(plan);
        break;
    case PH__RUN_TIMED:
        run_timed(plan);
        break;
    case PH__RUN_SERIAL:
        run_serial(plan);
        break;
    case PH__RUN_LANES: {
        uint64_t start = ph__now_ns();
        if (run_lanes(plan, run_lane))
            ph__choice_lanes_measured(&plan->choice, (double)(ph__now_ns() - start), awake);
        else
            run_serial(plan);
        break;
    }
    }
    plan->spent_ns += plan->choice.serial_ns;
    bool tiny = plan->handed == 0 && plan->choice.serial_known && plan->choice.serial_ns <= TINY_NS;
    if (tiny != ph__plan_is_tiny(plan))
        atomic_store_explicit(&plan->tiny, tiny, memory_order_relaxed);
}

/* ---- measured ---- */

static void merge_task_times(ph__plan *plan)
{
    for (uint32_t t = 0; t < plan->schedule.task_count; t++) {
        const ph__plan_time *part = &plan->task_times[t];
        ph__plan_time *node = &plan->times[plan->schedule.tasks[t].node];
        if (node->start_ns == 0 || part->start_ns < node->start_ns)
            node->start_ns = part->start_ns;
        if (part->end_ns > node->end_ns)
            node->end_ns = part->end_ns;
    }
}

/* In the lanes that the next run would have, or in order. Out of the way of runs that are not
 * measured. */
__attribute__((noinline, cold)) static void run_measured(ph__plan *plan, ph__rng *chaos)
{
    bool lanes = plan->task_times && plan->blocking == 0 && plan->scheduled > 1 &&
                 (plan->forced > 1 || (plan->forced == 0 && plan->choice.have_lanes));
    memset(plan->times, 0, plan->count * sizeof *plan->times);
    if (chaos)
        run_chaos(plan, chaos);
    else if (lanes && run_lanes(plan, measure_lane))
        merge_task_times(plan);
    else
        measure_tasks(plan->times, plan->serial, plan->serial + plan->count);
}

void ph__plan_run(ph__plan *plan, ph__rng *chaos)
{
    plan->runs++;
    if (__builtin_expect(plan->times != NULL, 0)) {
        run_measured(plan, chaos);
    } else if (chaos) {
        run_chaos(plan, chaos);
    } else if (plan->blocking > 0 || plan->forced == 1) {
        run_serial(plan);
    } else if (plan->forced > 1) {
        if (plan->scheduled != plan->forced)
            ph__plan_make_lanes(plan, plan->forced);
        if (!run_lanes(plan, run_lane))
            run_serial(plan);
    } else {
        run_chosen(plan);
    }
}
