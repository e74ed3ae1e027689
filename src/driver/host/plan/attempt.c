/* SPDX-License-Identifier: MIT */
/* driver/host/plan/attempt.c: list scheduling by several rules; the one with the best prediction is
 * kept. */
#include "driver/host/plan/attempt.h"
#include <string.h>

unsigned ph__attempt_gather(ph__attempt *a, uint32_t node)
{
    memset(a->ready, 0, a->lanes * sizeof *a->ready);
    memset(a->needed, 0, a->lanes * sizeof *a->needed);
    unsigned critical = a->last_lane;
    float latest = -1.0f;
    const ph__schedule_graph *graph = a->graph;
    for (uint32_t i = graph->dependency_begin[node]; i < graph->dependency_begin[node + 1]; i++) {
        uint32_t dependency = graph->dependencies[i];
        const ph__planned_task *part = &a->scratch->planned[a->scratch->first_part[dependency]];
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
static float start_on(const ph__attempt *a, unsigned lane)
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

static void place_piece(ph__attempt *a, unsigned lane, uint32_t node, uint64_t begin, uint64_t end,
                        float cost)
{
    float start = start_on(a, lane);
    for (unsigned from = 0; from < a->lanes; from++)
        if (from != lane && a->needed[from] > a->known[lane][from]) {
            a->known[lane][from] = a->needed[from];
            a->waits++;
        }
    a->free_at[lane] = start + cost;
    a->scratch->planned[a->count++] = (ph__planned_task){.node = node,
                                                         .lane = lane,
                                                         .position = a->tasks[lane]++,
                                                         .begin = begin,
                                                         .end = end,
                                                         .finish = start + cost};
}

/* Of the lanes, which may take a part, so that all finish together: fills up the times at
 * which they are free with the cost. Returns the common finish; lanes that start too late for a
 * worthwhile part are out. */
static float fill_lanes(const ph__attempt *a, float cost, bool in[], float start[])
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
static bool place_split(ph__attempt *a, uint32_t node)
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
        place_piece(a, lane, node, begin, end,
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
static unsigned first_lane(const ph__attempt *a, unsigned preferred)
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

/* ---- chains ---- */

/* Strings nodes to chains along the edges that join a node's last successor to that one's first
 * dependency (far edges: the columns of a grid that was numbered by rows), or the other way
 * round (near edges: its rows). */
static uint32_t string_chains(ph__attempt *a)
{
    ph__schedule_scratch *scratch = a->scratch;
    const ph__schedule_graph *graph = a->graph;
    bool far = a->how.rule == PH__LANES_FAR_CHAINS;
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
static void deal_chains(ph__attempt *a)
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

/* ---- all nodes ---- */

/* Puts every node on a lane; returns when the last lane is done. */
static float place_all(ph__attempt *a, ph__strategy how)
{
    a->how = how;
    a->count = a->waits = a->last_lane = 0;
    a->left_tasks = a->scratch->extra_tasks;
    a->left_waits = a->scratch->extra_waits;
    memset(a->free_at, 0, sizeof a->free_at);
    memset(a->tasks, 0, sizeof a->tasks);
    memset(a->known, 0, a->lanes * sizeof a->known[0]);
    if (how.rule != PH__LANES_GREEDY)
        deal_chains(a);
    for (uint32_t i = 0; i < a->graph->count; i++) {
        uint32_t node = how.by_rank ? (uint32_t)a->scratch->keys[i] : i;
        unsigned preferred = ph__attempt_gather(a, node);
        a->scratch->first_part[node] = a->count;
        if (place_split(a, node))
            continue;
        if (how.rule == PH__LANES_GREEDY)
            preferred = first_lane(a, preferred);
        else
            preferred = (unsigned)a->scratch->chain_cost[a->scratch->chain[node]];
        place_piece(a, preferred, node, 0, a->graph->blocks[node], a->graph->cost_ns[node]);
        a->scratch->part_count[node] = 1;
        a->last_lane = preferred;
    }
    float end = 0;
    for (unsigned lane = 0; lane < a->lanes; lane++)
        if (a->free_at[lane] > end)
            end = a->free_at[lane];
    return end;
}

float ph__attempt_place_best(ph__attempt *a)
{
    float total = 0, largest = 0;
    for (uint32_t n = 0; n < a->graph->count; n++) {
        total += a->graph->cost_ns[n];
        if (a->graph->blocks[n] > 1 && a->graph->cost_ns[n] > largest)
            largest = a->graph->cost_ns[n];
    }
    float mean = a->graph->count ? total / (float)a->graph->count : 0;
    const ph__strategy strategies[] = {
        {PH__LANES_FAR_CHAINS, .by_rank = false},
        {PH__LANES_NEAR_CHAINS, .by_rank = false},
        {PH__LANES_FAR_CHAINS, .by_rank = true},
        {PH__LANES_GREEDY, .by_rank = true},
        {PH__LANES_GREEDY, .by_rank = true, .slack = 4 * mean},
        {PH__LANES_GREEDY, .by_rank = true, .slack = 32 * mean},
        {PH__LANES_GREEDY, .by_rank = false, .slack = 4 * mean},
    };
    ph__strategy best = strategies[0];
    float best_price = -1;
    for (int split = 0; split <= (largest > PH__SPLIT_NS); split++)
        for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
            ph__strategy how = strategies[i];
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
