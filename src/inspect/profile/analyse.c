/* SPDX-License-Identifier: MIT */
/* inspect/profile/analyse.c: what the times of a graph's nodes say: medians, the critical path,
 * slack, lanes, idle times. */
#include "inspect/profile/analyse.h"
#include "inspect/profile/profile.h"
#include <stdlib.h>

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool is_known(const ph__profile_time *time)
{
    return time->start_ns != 0 || time->end_ns != 0;
}

static uint64_t length_of(const ph__profile_time *time)
{
    return time->end_ns > time->start_ns ? time->end_ns - time->start_ns : 0;
}

/* A node that depends programmatically begins early, and waits by itself for what it depends on:
 * its time counts from the end of that. */
static uint64_t work_of(const ph__profile_node *node, const ph__profile_time *replay, size_t n)
{
    ph__profile_time time = replay[n];
    for (size_t e = 0; e < node->depend_count; e++) {
        const ph__profile_time *on = &replay[node->depends[e]];
        if (node->edges[e] != PH_EDGE_FULL && is_known(on) && on->end_ns > time.start_ns)
            time.start_ns = on->end_ns;
    }
    return length_of(&time);
}

/* ---- medians ---- of an even number the lower one, so that it is a time that was measured. */

typedef struct extent {
    uint64_t length_ns, first_ns; /* length first: extents are sorted by it */
    size_t replay;
} extent;

static extent extent_of(const ph__profile_times *times, size_t replay)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t n = 0; n < times->nodes; n++) {
        const ph__profile_time *time = &times->at[replay * times->nodes + n];
        if (!is_known(time))
            continue;
        first = time->start_ns < first ? time->start_ns : first;
        last = time->end_ns > last ? time->end_ns : last;
    }
    return (extent){last > first ? last - first : 0, first, replay};
}

static void read_node(ph__profile_node *node, size_t n, const ph__profile_times *times,
                      const extent *median, uint64_t *scratch)
{
    const ph__profile_time *chosen = &times->at[median->replay * times->nodes + n];
    size_t count = 0;
    if (!is_known(chosen))
        return;
    for (size_t r = 0; r < times->replays; r++) {
        const ph__profile_time *replay = &times->at[r * times->nodes];
        if (is_known(&replay[n]))
            scratch[count++] = work_of(node, replay, n);
    }
    qsort(scratch, count, sizeof *scratch, compare_u64);
    node->info.measured = true;
    node->info.start_ns = chosen->start_ns - median->first_ns;
    node->run_ns = length_of(chosen);
    node->info.least_ns = scratch[0];
    node->info.median_ns = scratch[(count - 1) / 2];
    node->info.most_ns = scratch[count - 1];
}

bool ph__profile_acquire_times(ph_profile *profile, const ph__profile_times *times)
{
    extent *extents = ph__calloc(times->replays + 1, sizeof *extents);
    uint64_t *scratch = ph__calloc(times->replays + 1, sizeof *scratch);
    bool ok = extents && scratch;
    for (size_t r = 0; ok && r < times->replays; r++)
        extents[r] = extent_of(times, r);
    if (ok && times->replays > 0) {
        qsort(extents, times->replays, sizeof *extents, compare_u64);
        const extent *median = &extents[(times->replays - 1) / 2];
        profile->summary.replay_ns = median->length_ns;
        for (size_t n = 0; n < times->nodes; n++) {
            read_node(&profile->nodes[n], n, times, median, scratch);
            profile->summary.work_ns += profile->nodes[n].info.median_ns;
        }
    }
    ph__free(extents);
    ph__free(scratch);
    return ok;
}

/* ---- the critical path ---- Nodes stand behind what they depend on, programmatically too: what
 * a node does while it waits is not in its time. */

typedef struct moment {
    /* as early, and as late, as the length of the longest path allows */
    uint64_t start, latest_end;
    size_t before; /* the node on the longest path to it; SIZE_MAX: none */
} moment;

/* The end of the longest path, and the node that it ends with: the first of equals, so that
 * nodes without time do not count. */
static uint64_t walk_forward(const ph_profile *profile, moment *moments, size_t *last)
{
    uint64_t longest = 0;
    *last = SIZE_MAX;
    for (size_t n = 0; n < profile->count; n++) {
        moments[n].before = SIZE_MAX;
        for (size_t e = 0; e < profile->nodes[n].depend_count; e++) {
            size_t on = profile->nodes[n].depends[e];
            uint64_t over = moments[on].start + profile->nodes[on].info.median_ns;
            if (over > moments[n].start) {
                moments[n].start = over;
                moments[n].before = on;
            }
        }
        if (moments[n].start + profile->nodes[n].info.median_ns > longest) {
            longest = moments[n].start + profile->nodes[n].info.median_ns;
            *last = n;
        }
    }
    return longest;
}

static void walk_backward(const ph_profile *profile, moment *moments, uint64_t longest)
{
    for (size_t n = 0; n < profile->count; n++)
        moments[n].latest_end = longest;
    for (size_t n = profile->count; n-- > 0;) {
        const ph__profile_node *node = &profile->nodes[n];
        uint64_t start = moments[n].latest_end - node->info.median_ns;
        for (size_t e = 0; e < node->depend_count; e++) {
            uint64_t *limit = &moments[node->depends[e]].latest_end;
            *limit = start < *limit ? start : *limit;
        }
        profile->nodes[n].info.slack_ns = start - moments[n].start;
    }
}

bool ph__profile_find_critical(ph_profile *profile)
{
    moment *moments = ph__calloc(profile->count + 1, sizeof *moments);
    size_t last, count = 0;
    if (!moments)
        return false;
    uint64_t longest = walk_forward(profile, moments, &last);
    walk_backward(profile, moments, longest);
    for (size_t n = last; n != SIZE_MAX; n = moments[n].before)
        count++;
    profile->critical = ph__calloc(count + 1, sizeof *profile->critical);
    bool ok = profile->critical != NULL;
    profile->summary.critical_ns = longest;
    profile->summary.critical_count = count;
    for (size_t n = last; ok && n != SIZE_MAX; n = moments[n].before) {
        profile->critical[--count] = n;
        profile->nodes[n].info.critical = true;
    }
    ph__free(moments);
    return ok;
}

/* ---- lanes and idle times ---- */

typedef struct begin {
    uint64_t start_ns, node; /* sorted by both */
} begin;

static int compare_begins(const void *a, const void *b)
{
    const begin *x = a, *y = b;
    int order = (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
    return order ? order : (x->node > y->node) - (x->node < y->node);
}

static bool sort_by_start(ph_profile *profile)
{
    begin *begins = ph__calloc(profile->count + 1, sizeof *begins);
    profile->by_start = ph__calloc(profile->count + 1, sizeof *profile->by_start);
    bool ok = begins && profile->by_start;
    size_t count = 0;
    for (size_t n = 0; ok && n < profile->count; n++)
        if (profile->nodes[n].info.measured)
            begins[count++] = (begin){profile->nodes[n].info.start_ns, n};
    if (ok && count > 0)
        qsort(begins, count, sizeof *begins, compare_begins);
    for (size_t i = 0; i < count; i++)
        profile->by_start[i] = (size_t)begins[i].node;
    profile->measured_count = count;
    ph__free(begins);
    return ok;
}

static int compare_gaps(const void *a, const void *b)
{
    const ph_profile_gap *x = a, *y = b;
    if (x->length_ns != y->length_ns)
        return x->length_ns < y->length_ns ? 1 : -1;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

typedef PH__VEC(uint64_t) lane_ends;

/* The first lane in which nothing runs any more. */
static bool put_into_lane(lane_ends *lanes, ph_profile_node *node, uint64_t end)
{
    size_t lane = 0;
    while (lane < lanes->count && lanes->at[lane] > node->start_ns)
        lane++;
    if (lane == lanes->count && !ph__vec_push(lanes, 0))
        return false;
    lanes->at[lane] = end;
    node->lane = (uint32_t)lane;
    return true;
}

bool ph__profile_find_lanes(ph_profile *profile)
{
    lane_ends lanes = {0};
    uint64_t over = 0; /* until then something ran */
    size_t last = SIZE_MAX;
    bool ok = sort_by_start(profile);
    for (size_t i = 0; ok && i < profile->measured_count; i++) {
        size_t n = profile->by_start[i];
        ph__profile_node *node = &profile->nodes[n];
        uint64_t start = node->info.start_ns, end = start + node->run_ns;
        ok = put_into_lane(&lanes, &node->info, end);
        if (ok && last != SIZE_MAX && start > over) {
            ok = ph__vec_push(&profile->gaps, ((ph_profile_gap){over, start - over, last, n}));
            profile->summary.idle_ns += start - over;
        }
        if (last == SIZE_MAX || end > over) {
            over = end;
            last = n;
        }
    }
    profile->summary.lane_count = lanes.count;
    profile->summary.busy_ns = profile->summary.replay_ns - profile->summary.idle_ns;
    if (ok && profile->gaps.count > 0)
        qsort(profile->gaps.at, profile->gaps.count, sizeof *profile->gaps.at, compare_gaps);
    ph__vec_free(&lanes);
    return ok;
}
