/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/profile.h: the time of a graph, by node and by annotation: the critical path,
 * idle gaps, a timeline for Perfetto, and the gain over eager runs (docs/reference/profile.md). */
#ifndef PHONOGRAPH_INSPECT_PROFILE_H
#define PHONOGRAPH_INSPECT_PROFILE_H
#include <phonograph/annotation.h>

PH_BEGIN_DECLS

typedef struct ph_profile ph_profile;

typedef enum ph_profile_source {
    PH_PROFILE_AUTO = 0,   /* the first of the sources below that the device has */
    PH_PROFILE_DEVICE = 1, /* the device's own clock for each node: the host device */
    /* CUPTI's activity records (loaded at run time) of kernels, copies and fills. A process has one
     * user of them, which may be another tool. */
    PH_PROFILE_CUPTI = 2,
    /* A copy of the graph as captured, with an event node behind each node.
     * - The resolution is about 0.5 us, and the replay is slower.
     * - A node begins when its last dependency is done, so that its time includes waiting for the
     *   device.
     * - UNSUPPORTED: nodes were set or updated (slots and cells are followed), or the driver does
     *   not copy the graph. */
    PH_PROFILE_EVENTS = 3
} ph_profile_source;
typedef struct ph_profile_options {
    /* measured replays; 0: 10. ARGUMENT: their times would take more than 1 GiB */
    unsigned replays;
    unsigned warmup; /* replays before the measured ones; 0: 2; PH_ZERO: none */
    ph_profile_source source;
    uint64_t reserved[4];
} ph_profile_options;

/* Replays the graph on the stream, and measures each node. First come the warmup replays, then at
 * least one more with the source, then the measured ones.
 * - A replay writes as any other, and needs the same state. Slots keep their values.
 * - A graph with breaks (breaks.h) is measured by events around its segments: each segment is a
 *   node, and so is each break, with the time between two segments. PH_PROFILE_DEVICE and CUPTI are
 *   UNSUPPORTED there; a segment can be profiled alone.
 * - Errors: as ph_graph_replay; CAPTURE inside a capture; UNSUPPORTED: the source is missing, and
 *   the message says why.
 * - Blocks. Not legal in a capture. */
PH_CALL ph_graph_profile(ph_profile **out, ph_graph *graph, ph_stream *stream,
                         const ph_profile_options *options);
PH_API void ph_profile_destroy(ph_profile *profile); /* takes NULL */

/* A profile is immutable, and does not need the graph any more. All times are nanoseconds.
 * Durations are medians over the replays. Start times are those of one replay, whose length is the
 * median. */
typedef struct ph_profile_summary {
    ph_profile_source source;
    unsigned replays;
    size_t node_count, lane_count;
    uint64_t replay_ns; /* from the start of the first node to the end of the last */
    uint64_t busy_ns;   /* the part of replay_ns in which at least one node runs */
    uint64_t idle_ns;   /* the part in which no node runs */
    uint64_t work_ns;   /* sum of the nodes' medians */
    /* the same sum over the critical path; no order of the nodes on any number of lanes is
     * faster */
    uint64_t critical_ns;
    size_t critical_count;
    uint64_t reserved[4];
} ph_profile_summary;
PH_CALL ph_profile_get(ph_profile_summary *out, const ph_profile *profile);

typedef struct ph_profile_node {
    uint64_t start_ns; /* after the start of the first node, in the median replay */
    /* of a programmatic launch: from the end of its dependencies, for which the kernel itself
     * waits */
    uint64_t median_ns, least_ns, most_ns;
    /* time that the node can lose without a longer critical path; 0 on that path */
    uint64_t slack_ns;
    uint32_t lane; /* nodes that overlap are in different ones */
    /* measured is false for nodes that take no time (empty, disabled), and for nodes that the
     * source does not report */
    bool critical, measured;
    uint64_t reserved[4];
} ph_profile_node;
/* The one of that index. NOT_FOUND: index is not below the count. */
PH_CALL ph_profile_node_at(ph_profile_node *out, const ph_profile *profile, size_t node);
/* Nodes of the longest chain of dependencies by time, in order; borrowed. */
PH_CALL ph_profile_critical_path(const size_t **nodes, size_t *count, const ph_profile *profile);

/* Nodes with equal annotations, as one entry, by descending time. Nodes without annotations are the
 * entry with 0 pairs. */
typedef struct ph_profile_scope {
    const ph_annotation_pair *pairs; /* borrowed from the profile */
    size_t pair_count, node_count;
    /* sums over all its nodes, and over those on the critical path */
    uint64_t work_ns, critical_ns;
    uint64_t reserved[4];
} ph_profile_scope;
PH_API size_t ph_profile_scope_count(const ph_profile *profile);
/* The one of that index. NOT_FOUND: index is not below the count. */
PH_CALL ph_profile_scope_at(ph_profile_scope *out, const ph_profile *profile, size_t index);

/* Times in which no node ran, by descending length. */
typedef struct ph_profile_gap {
    uint64_t start_ns, length_ns;
    size_t before, after; /* the node that ended last before it, the one that began after it */
} ph_profile_gap;
PH_API size_t ph_profile_gap_count(const ph_profile *profile);
/* The one of that index. NOT_FOUND: index is not below the count. */
PH_CALL ph_profile_gap_at(ph_profile_gap *out, const ph_profile *profile, size_t index);

/* The median replay as a Chrome trace (JSON) for Perfetto. Each stream that was marked as a lane
 * (annotation.h) has a row, and so has each lane of the other nodes. Annotations are rows above
 * them. dump replaces the file whole or not at all. *out is freed with ph_string_free. */
PH_CALL ph_profile_trace(char **out, const ph_profile *profile);
PH_CALL ph_profile_dump_trace(const ph_profile *profile, const char *path);
/* The record as ph_record_json writes it (docs/reference/record.md), with the times, the races of
 * ph_graph_find_races, and the last verdict about this capture, where ph_graph_verdict was called.
 * `phonograph view` shows it. STATE: the graph is not the profiled one, or was captured again
 * since. */
PH_CALL ph_profile_dump_record(const ph_profile *profile, ph_graph *graph, const char *path);

/* ---- verdict ---- Compares eager runs of body, the captured function, with replays, in turns on
 * the stream. Both write their results.
 * - An eager run that takes less than half of device_ns and of replay_ns cannot have done the same
 *   work: the sentence says so, and worth is false.
 * - Scopes that body leaves open are ended.
 * - A failure of body is returned, its error record untouched. Other errors: as ph_graph_profile.
 * - Blocks. Not legal in a capture. */
typedef enum ph_bound {
    PH_BOUND_LAUNCH = 0, /* eager: the device waits for the host, whose submission is too slow */
    /* The host finishes submission before the device is done, so the eager run does not wait for
     * the host. A graph still saves the device's cost of single launches: much for small kernels,
     * little for large ones. */
    PH_BOUND_DEVICE = 1
} ph_bound;
typedef struct ph_verdict_options {
    unsigned rounds; /* rounds of each; 0: 10 */
    uint64_t reserved[4];
} ph_verdict_options;
typedef struct ph_verdict {
    /* end to end: from the first submission until all is done; medians */
    uint64_t eager_ns, replay_ns;
    uint64_t eager_host_ns, replay_host_ns; /* until the calls have returned */
    /* of a replay, when replays are submitted back to back and the device never waits for the
     * host */
    uint64_t device_ns;
    /* of the eager run: whether its submission takes longer than device_ns */
    ph_bound bound;
    size_t bytes; /* memory of the graph: pool, executable, template */
    /* the graph saves more than a twentieth of the eager time; false where body does other work */
    bool worth;
    /* the savings, and whether they are worth the memory, in plain words */
    char sentence[400];
    uint64_t reserved[4];
} ph_verdict;
PH_CALL ph_graph_verdict(ph_verdict *out, ph_graph *graph, ph_stream *stream, ph_capture_fn body,
                         void *user, const ph_verdict_options *options);

PH_END_DECLS
#endif
