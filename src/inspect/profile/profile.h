/* SPDX-License-Identifier: MIT */
/* inspect/profile/profile.h: what a profile is made of, which its files share. */
#ifndef PH_INSPECT_PROFILE_PROFILE_H
#define PH_INSPECT_PROFILE_PROFILE_H
#include "base/map.h"
#include "base/text.h"
#include "base/vec.h"
#include "driver/driver.h"
#include "record/record.h"
#include <phonograph/inspect/profile.h>

/* When a node ran in one replay; two zeros: that is not known. */
typedef struct ph__profile_time {
    uint64_t start_ns, end_ns;
} ph__profile_time;

/* Of each replay those of all nodes of the record, replay by replay. */
typedef struct ph__profile_times {
    size_t replays, nodes;
    ph__profile_time *at;
} ph__profile_times;

typedef struct ph__profile_node {
    ph_profile_node info;
    uint64_t run_ns; /* how long it took in the median replay */
    ph_node_kind kind;
    const char *name;          /* the profile's */
    const size_t *depends;     /* the profile's, ascending */
    const ph_edge_kind *edges; /* one for each */
    size_t depend_count;
    size_t scope; /* index into scopes */
} ph__profile_node;

/* In order of their first nodes; `sorted` has the public order. */
typedef struct ph__profile_scope {
    ph_profile_scope info;
    ph_annotation_pair *pairs; /* one block with their texts; NULL for none */
    size_t next;               /* of the same hash; SIZE_MAX: the last */
} ph__profile_scope;

struct ph_profile {
    ph_profile_summary summary;
    uint64_t record_id; /* of what was profiled */
    size_t count;
    ph__profile_node *nodes; /* one block with their names and dependencies */
    size_t *critical;
    size_t *by_start; /* measured nodes in the order in which they began, in the median replay */
    size_t measured_count;
    PH__VEC(ph__profile_scope) scopes;
    size_t *sorted;
    PH__VEC(ph_profile_gap) gaps;
};

#endif
