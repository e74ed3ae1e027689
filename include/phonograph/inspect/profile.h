/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/profile.h: where the time of a graph goes: per node and per annotation, the
 * critical path, idle gaps, a timeline for Perfetto, and whether the graph is worth having.
 * docs/reference/profile.md. */
#ifndef PHONOGRAPH_INSPECT_PROFILE_H
#define PHONOGRAPH_INSPECT_PROFILE_H
#include <phonograph/annotation.h>

PH_BEGIN_DECLS

typedef struct ph_profile ph_profile;

typedef enum ph_profile_source {
    PH_PROFILE_AUTO = 0,   /* the first of those below that the device has */
    PH_PROFILE_DEVICE = 1, /* the device's own clock for each node: the host device */
    /* CUPTI's activity records (loaded at run time) of kernels, copies and fills. A process has
     * one user of them: another tool may be it. */
    PH_PROFILE_CUPTI = 2,
    /* A copy of the graph as it was captured, with an event node behind each node: about 0.5 us
     * of resolution, and it slows the replay. A node begins when the last that it depends on is
     * done, so that waiting for the device counts as running. UNSUPPORTED where nodes were set
     * or updated (slots and cells are followed), and for graphs that the driver does not copy. */
    PH_PROFILE_EVENTS = 3
} ph_profile_source;
typedef struct ph_profile_options {
    /* measured; 0: 10. ARGUMENT where the times of so many would take more than 1 GiB */
    unsigned replays;
    unsigned warmup; /* before them; 0: 2; PH_ZERO: none */
    ph_profile_source source;
    uint64_t reserved[4];
} ph_profile_options;

/* Replays the graph on the stream (warmup times, at least once more with the source, then the
 * replays that count) and measures each node. What the graph writes is written as by any replay.
 * Needs what a replay needs (slots keep their values). Blocks. Errors: as ph_graph_replay;
 * CAPTURE inside a capture; UNSUPPORTED where the source is not there, and says why. Not legal
 * in a capture. */
PH_CALL ph_graph_profile(ph_profile **out, ph_graph *graph, ph_stream *stream,
                         const ph_profile_options *options);
PH_API void ph_profile_destroy(ph_profile *profile); /* takes NULL */

/* A profile is immutable and keeps what it needs: the graph may go. All times are nanoseconds.
 * What the replays measured is told by its median, and when nodes ran by one replay, that whose
 * length is the median. */
typedef struct ph_profile_summary {
    ph_profile_source source;
    unsigned replays;
    size_t node_count, lane_count;
    uint64_t replay_ns; /* from the start of the first node to the end of the last */
    uint64_t busy_ns;   /* of it: at least one node runs */
    uint64_t idle_ns;   /* none does */
    uint64_t work_ns;   /* sum of the nodes' medians */
    /* the same over the critical path: no order of the nodes on any number of lanes is faster */
    uint64_t critical_ns;
    size_t critical_count;
    uint64_t reserved[4];
} ph_profile_summary;
PH_CALL ph_profile_get(ph_profile_summary *out, const ph_profile *profile);

typedef struct ph_profile_node {
    uint64_t start_ns; /* after the first node's start, in the median replay */
    /* of a kernel that was launched programmatically: from the end of what it depends on, which
     * it waits for by itself */
    uint64_t median_ns, least_ns, most_ns;
    /* how much longer it could take without the critical path being longer; 0 on it */
    uint64_t slack_ns;
    uint32_t lane; /* nodes that overlap are in different ones */
    /* not measured: nodes that take no time (empty, disabled), or that the source does not tell */
    bool critical, measured;
    uint64_t reserved[4];
} ph_profile_node;
/* NOT_FOUND */
PH_CALL ph_profile_node_at(ph_profile_node *out, const ph_profile *profile, size_t node);
/* Nodes of the longest chain of dependencies by time, in order; borrowed. */
PH_CALL ph_profile_critical_path(const size_t **nodes, size_t *count, const ph_profile *profile);

/* Nodes with equal annotations taken together, by descending time; nodes without are the entry
 * with 0 pairs. */
typedef struct ph_profile_scope {
    const ph_annotation_pair *pairs; /* borrowed from the profile */
    size_t pair_count, node_count;
    uint64_t work_ns, critical_ns; /* sums over its nodes; over those on the critical path */
    uint64_t reserved[4];
} ph_profile_scope;
PH_API size_t ph_profile_scope_count(const ph_profile *profile);
/* NOT_FOUND */
PH_CALL ph_profile_scope_at(ph_profile_scope *out, const ph_profile *profile, size_t index);

/* Times in which nothing ran, by descending length. */
typedef struct ph_profile_gap {
    uint64_t start_ns, length_ns;
    size_t before, after; /* the node that ended last before it, the one that began after it */
} ph_profile_gap;
PH_API size_t ph_profile_gap_count(const ph_profile *profile);
/* NOT_FOUND */
PH_CALL ph_profile_gap_at(ph_profile_gap *out, const ph_profile *profile, size_t index);

/* The median replay as a Chrome trace (JSON), which Perfetto opens: a row for each stream that
 * was marked as a lane (annotation.h), and for each lane of the other nodes, annotations as rows
 * of their own above. dump: into a file that is replaced whole or not at all. *out is freed with
 * ph_string_free. */
PH_CALL ph_profile_trace(char **out, const ph_profile *profile);
PH_CALL ph_profile_dump_trace(const ph_profile *profile, const char *path);
/* The record as ph_record_json writes it, with the times in it (docs/reference/record.md): what
 * `phonograph view` shows. The graph is the one that was profiled, not captured again since
 * (STATE). */
PH_CALL ph_profile_dump_record(const ph_profile *profile, ph_graph *graph, const char *path);

/* ---- verdict ---- runs body, which is what was captured, eagerly and the graph, in turns, on
 * the stream; both write what they write. Where an eager run takes less than half of device_ns
 * and of replay_ns, it cannot have done that work: the sentence says so, and worth is false.
 * Scopes that body leaves open are ended. Blocks; not legal in a capture. A failure of body is
 * returned, its error record untouched; others as of ph_graph_profile. */
typedef enum ph_bound {
    PH_BOUND_LAUNCH = 0, /* eager: the device waits for the host, which submits too slowly */
    /* The host is done submitting before the device is done: it is not what the eager run waits
     * for. A graph still saves what launching one by one costs the device: much where kernels
     * are small, little where they are large. */
    PH_BOUND_DEVICE = 1
} ph_bound;
typedef struct ph_verdict_options {
    unsigned rounds; /* of each; 0: 10 */
    uint64_t reserved[4];
} ph_verdict_options;
typedef struct ph_verdict {
    /* end to end: from the first submission until all is done; medians */
    uint64_t eager_ns, replay_ns;
    uint64_t eager_host_ns, replay_host_ns; /* until the calls have returned */
    /* of a replay, when one is submitted behind the other and the device never waits for the
     * host */
    uint64_t device_ns;
    /* of the eager run: whether the host needs longer for it than device_ns */
    ph_bound bound;
    size_t bytes; /* that the graph takes: pool, executable, template */
    /* it saves more than a twentieth of the eager time; false where body does other work */
    bool worth;
    /* what it saves, and whether that is worth its memory, in plain words */
    char sentence[400];
    uint64_t reserved[4];
} ph_verdict;
PH_CALL ph_graph_verdict(ph_verdict *out, ph_graph *graph, ph_stream *stream, ph_capture_fn body,
                         void *user, const ph_verdict_options *options);

PH_END_DECLS
#endif
