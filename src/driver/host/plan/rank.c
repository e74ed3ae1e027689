/* SPDX-License-Identifier: MIT */
/* driver/host/plan/rank.c: the order of planning: longest path first. */
#include "driver/host/plan/rank.h"
#include "driver/host/plan/attempt.h"
#include <string.h>

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
static float rounded_cost(float cost)
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
void ph__schedule_rank(ph__schedule_scratch *scratch, const ph__schedule_graph *graph)
{
    memset(scratch->successors, 0, graph->count * sizeof *scratch->successors);
    float *behind = (float *)(void *)scratch->spare_keys; /* the longest path after the node */
    memset(behind, 0, graph->count * sizeof *behind);
    for (uint32_t n = graph->count; n-- > 0;) {
        float rank = rounded_cost(graph->cost_ns[n]) + behind[n];
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
