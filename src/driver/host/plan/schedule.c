/* SPDX-License-Identifier: MIT */
/* driver/host/plan/schedule.c: list scheduling by several rules; the one with the best
 * prediction is kept. */
#include "driver/host/plan/schedule.h"
#include "base/alloc.h"
#include "base/checked.h"
#include <string.h>

/* One task in the order of planning. */
typedef struct planned_task {
    uint32_t node, lane, position; /* position: among its lane's tasks */
    uint64_t begin, end;
    float finish;
} planned_task;

struct ph__schedule_scratch {
    uint32_t extra_tasks, extra_waits; /* limits of splitting */
    uint64_t *keys, *spare_keys;       /* nodes by rank, the node's number in the low half */
    uint32_t *successors;              /* how many each node has */
    uint32_t *first_part;              /* of each node, into planned */
    uint32_t *part_count;
    uint32_t *chain;           /* of each node */
    float *chain_cost;         /* of each chain, then the chain's lane */
    uint32_t *chain_successor; /* of each node: the successor that may go on with its chain */
    planned_task *planned;
    uint32_t *index;      /* of each planned task, into tasks */
    uint32_t *wait_first; /* of each task, into waits */
    bool *awaited;        /* of each task: somebody waits for it */
};

/* The rule of an attempt. */
typedef enum lane_rule {
    GREEDY, /* each node where it can start first, but rather where it comes from */
    /* nodes are strung to chains along far edges, and each lane gets neighbouring chains */
    FAR_CHAINS,
    NEAR_CHAINS /* the same along near edges */
} lane_rule;
typedef struct strategy {
    lane_rule rule;
    bool by_rank; /* longest path first, else in the caller's order */
    bool split;
    float slack; /* GREEDY: how much later a node may start to stay on its lane */
} strategy;

/* The state of one attempt. */
typedef struct attempt {
    ph__schedule_scratch *scratch;
    const ph__schedule_graph *graph;
    unsigned lanes;
    strategy how;
    uint32_t count, left_tasks, left_waits, waits;
    unsigned last_lane;
    float free_at[PH__SCHEDULE_LANES];
    uint32_t tasks[PH__SCHEDULE_LANES];
    /* how far a lane has waited for another */
    uint32_t known[PH__SCHEDULE_LANES][PH__SCHEDULE_LANES];
    /* Of the node at hand: when what it needs from each lane is ready, and up to which task. */
    float ready[PH__SCHEDULE_LANES];
    uint32_t needed[PH__SCHEDULE_LANES];
} attempt;

static void *array(ph__schedule *schedule, size_t count, size_t size, bool *ok)
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
    schedule->tasks = array(schedule, tasks, sizeof *schedule->tasks, &ok);
    schedule->segments = array(schedule, tasks, sizeof *schedule->segments, &ok);
    schedule->waits = array(schedule, waits, sizeof *schedule->waits, &ok);
    scratch->keys = array(schedule, nodes, sizeof *scratch->keys, &ok);
    scratch->spare_keys = array(schedule, nodes, sizeof *scratch->spare_keys, &ok);
    scratch->successors = array(schedule, nodes, sizeof *scratch->successors, &ok);
    scratch->first_part = array(schedule, nodes, sizeof *scratch->first_part, &ok);
    scratch->part_count = array(schedule, nodes, sizeof *scratch->part_count, &ok);
    scratch->chain = array(schedule, nodes, sizeof *scratch->chain, &ok);
    scratch->chain_cost = array(schedule, nodes, sizeof *scratch->chain_cost, &ok);
    scratch->chain_successor = array(schedule, nodes, sizeof *scratch->chain_successor, &ok);
    scratch->planned = array(schedule, tasks, sizeof *scratch->planned, &ok);
    scratch->index = array(schedule, tasks, sizeof *scratch->index, &ok);
    scratch->wait_first = array(schedule, tasks + 1, sizeof *scratch->wait_first, &ok);
    scratch->awaited = array(schedule, tasks, sizeof *scratch->awaited, &ok);
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

/* ---- order ---- */

/* Sorts by the high halves of the keys; equal ones keep their order. */
static void sort_keys(uint64_t *keys, uint64_t *spare, uint32_t count)
{
    for (unsigned shift = 32; shift < 64; shift += 8) {
        uint32_t starts[256] = {0};
        for (uint32_t i = 0; i < count; i++)
            starts[keys[i] >> shift & 255]++;
        uint32_t start = 0;
        for (unsigned digit = 0; digit < 256; digit++) {
            uint32_t here = starts[digit];
            starts[digit] = start;
            start += here;
        }
        for (uint32_t i = 0; i < count; i++)
            spare[starts[keys[i] >> shift & 255]++] = keys[i];
        uint64_t *swapped = keys;
        keys = spare;
        spare = swapped;
    }
}

/* A node's rank is the cost of the longest path that begins with it. Costs that differ by
 * measuring noise only should tie, so that equal nodes keep the caller's order: steps of an
 * eighth or so. */
static float rounded(float cost)
{
    uint32_t bits;
    if (!(cost >= 1.0f))
        cost = 1.0f;
    memcpy(&bits, &cost, sizeof bits);
    bits = (bits + (UINT32_C(1) << 20)) & ~((UINT32_C(1) << 21) - 1);
    memcpy(&cost, &bits, sizeof cost);
    return cost;
}

/* Positive floats order like their bits; complemented, the longest path comes first. Ranks do
 * not grow along an edge and ties keep the topological order, so the result is topological. */
static void sort_by_rank(ph__schedule_scratch *scratch, const ph__schedule_graph *graph)
{
    memset(scratch->successors, 0, graph->count * sizeof *scratch->successors);
    float *behind = (float *)(void *)scratch->spare_keys; /* the longest path after the node */
    memset(behind, 0, graph->count * sizeof *behind);
    for (uint32_t n = graph->count; n-- > 0;) {
        float rank = rounded(graph->cost_ns[n]) + behind[n];
        uint32_t bits;
        memcpy(&bits, &rank, sizeof bits);
        scratch->keys[n] = (uint64_t)~bits << 32 | n;
        for (uint32_t i = graph->dependency_begin[n]; i < graph->dependency_begin[n + 1]; i++) {
            uint32_t dependency = graph->dependencies[i];
            scratch->successors[dependency]++;
            if (behind[dependency] < rank)
                behind[dependency] = rank;
        }
    }
    sort_keys(scratch->keys, scratch->spare_keys, graph->count);
}

/* ---- one attempt ---- */

/* Looks at what a node depends on; returns the lane that the last of it comes from, or the lane
 * of the node before when it needs nothing. */
static unsigned gather(attempt *a, uint32_t node)
{
    memset(a->ready, 0, a->lanes * sizeof *a->ready);
    memset(a->needed, 0, a->lanes * sizeof *a->needed);
    unsigned critical = a->last_lane;
    float latest = -1.0f;
    const ph__schedule_graph *graph = a->graph;
    for (uint32_t i = graph->dependency_begin[node]; i < graph->dependency_begin[node + 1]; i++) {
        uint32_t dependency = graph->dependencies[i];
        const planned_task *part = &a->scratch->planned[a->scratch->first_part[dependency]];
        for (uint32_t k = a->scratch->part_count[dependency]; k > 0; k--, part++) {
            if (part->finish > a->ready[part->lane])
                a->ready[part->lane] = part->finish;
            if (part->position + 1 > a->needed[part->lane])
                a->needed[part->lane] = part->position + 1;
            if (part->finish > latest) {
                latest = part->finish;
                critical = part->lane;
            }
        }
    }
    return critical;
}

/* When a lane could start the node at hand. */
static float start_on(const attempt *a, unsigned lane)
{
    float start = a->free_at[lane];
    for (unsigned from = 0; from < a->lanes; from++) {
        if (from == lane || a->needed[from] == 0)
            continue;
        float arrival = a->ready[from] + PH__HAND_OVER_NS;
        if (arrival > start)
            start = arrival;
        if (a->needed[from] > a->known[lane][from])
            start += PH__WAIT_NS;
    }
    return start;
}

static void place(attempt *a, unsigned lane, uint32_t node, uint64_t begin, uint64_t end,
                  float cost)
{
    float start = start_on(a, lane);
    for (unsigned from = 0; from < a->lanes; from++)
        if (from != lane && a->needed[from] > a->known[lane][from]) {
            a->known[lane][from] = a->needed[from];
            a->waits++;
        }
    a->free_at[lane] = start + cost;
    a->scratch->planned[a->count++] = (planned_task){.node = node,
                                                     .lane = lane,
                                                     .position = a->tasks[lane]++,
                                                     .begin = begin,
                                                     .end = end,
                                                     .finish = start + cost};
}

/* Of the lanes, which may take a part, so that all finish together: fills up the times at
 * which they are free with the cost. Returns the common finish; lanes that start too late for a
 * worthwhile part are out. */
static float fill_lanes(const attempt *a, float cost, bool in[], float start[])
{
    float sum = cost;
    unsigned count = a->lanes;
    for (unsigned lane = 0; lane < a->lanes; lane++) {
        start[lane] = start_on(a, lane);
        in[lane] = true;
        sum += start[lane];
    }
    for (;;) {
        float level = sum / (float)count;
        unsigned last = a->lanes;
        for (unsigned lane = 0; lane < a->lanes; lane++)
            if (in[lane] && (last == a->lanes || start[lane] > start[last]))
                last = lane;
        if (count == 1 || level - start[last] >= PH__SPLIT_MIN_NS)
            return level;
        in[last] = false;
        sum -= start[last];
        count--;
    }
}

/* False: it is not worth a split, or no room is left for one. */
static bool place_split(attempt *a, uint32_t node)
{
    float cost = a->graph->cost_ns[node];
    uint64_t blocks = a->graph->blocks[node];
    uint32_t waits = (a->lanes - 1) * (a->lanes + a->scratch->successors[node]);
    if (!a->how.split || cost <= PH__SPLIT_NS || blocks < 2 || a->left_tasks < a->lanes - 1 ||
        (a->scratch->successors[node] > UINT16_MAX) || a->left_waits < waits)
        return false;
    bool in[PH__SCHEDULE_LANES];
    float start[PH__SCHEDULE_LANES];
    float level = fill_lanes(a, cost, in, start);
    double share = 0;
    uint64_t begin = 0;
    uint32_t parts = 0;
    for (unsigned lane = 0; lane < a->lanes; lane++) {
        if (!in[lane])
            continue;
        share += (double)(level - start[lane]) / (double)cost;
        uint64_t end = share >= 1.0 ? blocks : (uint64_t)(share * (double)blocks + 0.5);
        if (end > blocks)
            end = blocks;
        bool last = true;
        for (unsigned later = lane + 1; later < a->lanes; later++)
            last = last && !in[later];
        if (last)
            end = blocks;
        if (end <= begin)
            continue;
        place(a, lane, node, begin, end,
              (float)((double)cost * (double)(end - begin) / (double)blocks));
        begin = end;
        parts++;
    }
    a->scratch->part_count[node] = parts;
    a->left_tasks -= parts - 1;
    a->left_waits -= parts > 1 ? waits : 0;
    return true;
}

/* Where the node at hand goes: to the preferred lane unless another could start it earlier by
 * more than the slack. */
static unsigned first_lane(const attempt *a, unsigned preferred)
{
    unsigned best = preferred;
    float preferred_start = start_on(a, preferred), best_start = preferred_start;
    for (unsigned lane = 0; lane < a->lanes; lane++) {
        float start = lane == preferred ? preferred_start : start_on(a, lane);
        if (start < best_start) {
            best = lane;
            best_start = start;
        }
    }
    return preferred_start <= best_start + a->how.slack ? preferred : best;
}

/* Strings nodes to chains along the edges that join a node's last successor to that one's first
 * dependency (far edges: the columns of a grid that was numbered by rows), or the other way
 * round (near edges: its rows). */
static uint32_t string_chains(attempt *a)
{
    ph__schedule_scratch *scratch = a->scratch;
    const ph__schedule_graph *graph = a->graph;
    bool far = a->how.rule == FAR_CHAINS;
    uint32_t chains = 0;
    memset(scratch->chain_successor, 0, graph->count * sizeof *scratch->chain_successor);
    for (uint32_t n = 0; n < graph->count; n++)
        for (uint32_t i = graph->dependency_begin[n]; i < graph->dependency_begin[n + 1]; i++)
            if (far || scratch->chain_successor[graph->dependencies[i]] == 0)
                scratch->chain_successor[graph->dependencies[i]] = n;
    for (uint32_t n = 0; n < graph->count; n++) {
        uint32_t begin = graph->dependency_begin[n], end = graph->dependency_begin[n + 1];
        uint32_t from = begin < end ? graph->dependencies[begin] : n;
        for (uint32_t i = begin; i < end; i++)
            if (far ? graph->dependencies[i] < from : graph->dependencies[i] > from)
                from = graph->dependencies[i];
        if (from != n && scratch->chain_successor[from] == n) {
            scratch->chain[n] = scratch->chain[from];
        } else {
            scratch->chain_cost[chains] = 0;
            scratch->chain[n] = chains++;
        }
        scratch->chain_cost[scratch->chain[n]] += graph->cost_ns[n];
    }
    return chains;
}

/* Deals the chains out in order, so that all lanes have about the same to do. */
static void deal_chains(attempt *a)
{
    uint32_t chains = string_chains(a);
    double total = 0, before = 0;
    for (uint32_t c = 0; c < chains; c++)
        total += (double)a->scratch->chain_cost[c];
    for (uint32_t c = 0; c < chains; c++) {
        double cost = (double)a->scratch->chain_cost[c];
        double lane = total > 0 ? (before + cost / 2) / total * a->lanes : 0;
        before += cost;
        a->scratch->chain_cost[c] = (float)(unsigned)(lane < a->lanes ? lane : a->lanes - 1);
    }
}

/* Puts every node on a lane; returns when the last lane is done. */
static float place_all(attempt *a, strategy how)
{
    a->how = how;
    a->count = a->waits = a->last_lane = 0;
    a->left_tasks = a->scratch->extra_tasks;
    a->left_waits = a->scratch->extra_waits;
    memset(a->free_at, 0, sizeof a->free_at);
    memset(a->tasks, 0, sizeof a->tasks);
    memset(a->known, 0, a->lanes * sizeof a->known[0]);
    if (how.rule != GREEDY)
        deal_chains(a);
    for (uint32_t i = 0; i < a->graph->count; i++) {
        uint32_t node = how.by_rank ? (uint32_t)a->scratch->keys[i] : i;
        unsigned preferred = gather(a, node);
        a->scratch->first_part[node] = a->count;
        if (place_split(a, node))
            continue;
        if (how.rule == GREEDY)
            preferred = first_lane(a, preferred);
        else
            preferred = (unsigned)a->scratch->chain_cost[a->scratch->chain[node]];
        place(a, preferred, node, 0, a->graph->blocks[node], a->graph->cost_ns[node]);
        a->scratch->part_count[node] = 1;
        a->last_lane = preferred;
    }
    float end = 0;
    for (unsigned lane = 0; lane < a->lanes; lane++)
        if (a->free_at[lane] > end)
            end = a->free_at[lane];
    return end;
}

/* No rule is good for every graph: tries some, and keeps the best. The fewer waits the better,
 * since each is a chance to be held up. */
static float place_best(attempt *a)
{
    float total = 0, largest = 0;
    for (uint32_t n = 0; n < a->graph->count; n++) {
        total += a->graph->cost_ns[n];
        if (a->graph->blocks[n] > 1 && a->graph->cost_ns[n] > largest)
            largest = a->graph->cost_ns[n];
    }
    float mean = a->graph->count ? total / (float)a->graph->count : 0;
    const strategy strategies[] = {
        {FAR_CHAINS, .by_rank = false},
        {NEAR_CHAINS, .by_rank = false},
        {FAR_CHAINS, .by_rank = true},
        {GREEDY, .by_rank = true},
        {GREEDY, .by_rank = true, .slack = 4 * mean},
        {GREEDY, .by_rank = true, .slack = 32 * mean},
        {GREEDY, .by_rank = false, .slack = 4 * mean},
    };
    strategy best = strategies[0];
    float best_price = -1;
    for (int split = 0; split <= (largest > PH__SPLIT_NS); split++)
        for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
            strategy how = strategies[i];
            how.split = split;
            float price = place_all(a, how);
            price += (float)a->waits * PH__RISK_NS;
            if (best_price >= 0 && price >= best_price)
                continue;
            best = how;
            best_price = price;
        }
    return place_all(a, best);
}

/* ---- result ---- */

static void list_tasks(ph__schedule *schedule, const attempt *a)
{
    uint32_t first = 0;
    for (unsigned lane = 0; lane < a->lanes; lane++) {
        schedule->lane[lane].first_task = first;
        first += a->tasks[lane];
        schedule->lane[lane].end_task = first;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const planned_task *p = &a->scratch->planned[i];
        uint32_t at = schedule->lane[p->lane].first_task + p->position;
        schedule->tasks[at] =
            (ph__schedule_task){.node = p->node, .begin = p->begin, .end = p->end};
        a->scratch->index[i] = at;
    }
    schedule->task_count = a->count;
}

/* A lane that has waited for another's task has waited for all before it too. */
static void list_waits(ph__schedule *schedule, attempt *a)
{
    ph__schedule_scratch *scratch = a->scratch;
    memset(scratch->awaited, 0, a->count * sizeof *scratch->awaited);
    memset(a->known, 0, a->lanes * sizeof a->known[0]);
    uint32_t waits = 0;
    for (unsigned lane = 0; lane < a->lanes; lane++)
        for (uint32_t t = schedule->lane[lane].first_task; t < schedule->lane[lane].end_task; t++) {
            scratch->wait_first[t] = waits;
            gather(a, schedule->tasks[t].node);
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

static void list_segments(ph__schedule *schedule, const attempt *a)
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
    attempt a;
    a.scratch = schedule->scratch;
    a.graph = graph;
    a.lanes = lanes;
    schedule->lanes = lanes;
    sort_by_rank(schedule->scratch, graph);
    schedule->predicted_ns = (double)place_best(&a);
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
