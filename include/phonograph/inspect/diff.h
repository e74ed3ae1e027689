/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/diff.h: what differs between two captures, and whether one's executable can
 * take the other's parameters. docs/reference/diff.md. */
#ifndef PHONOGRAPH_INSPECT_DIFF_H
#define PHONOGRAPH_INSPECT_DIFF_H
#include <phonograph/annotation.h>

PH_BEGIN_DECLS

typedef struct ph_diff ph_diff;

typedef enum ph_change_kind {
    PH_CHANGE_ADDED = 0,      /* a node of b alone */
    PH_CHANGE_REMOVED = 1,    /* a node of a alone */
    PH_CHANGE_KIND = 2,       /* the node is of another kind */
    PH_CHANGE_KERNEL = 3,     /* another kernel */
    PH_CHANGE_DIMENSIONS = 4, /* grid, block or shared memory */
    /* a parameter addresses another allocation, or another offset in it */
    PH_CHANGE_ADDRESS = 5,
    PH_CHANGE_VALUE = 6, /* a parameter, or what a fill writes, has another value */
    /* bytes of a copy, a fill or its elements, an allocation, or of the parameters */
    PH_CHANGE_SIZE = 7,
    PH_CHANGE_EDGE = 8, /* depends on other nodes, or otherwise on them */
    PH_CHANGE_ANNOTATION = 9
} ph_change_kind;
PH_API const char *ph_change_kind_name(ph_change_kind kind); /* "added"...; static storage */

typedef struct ph_change {
    ph_change_kind kind;
    /* node indices; SIZE_MAX: none. Of changes in nested graphs: of the outermost graph node */
    size_t a, b;
    /* ph_graph_update refuses it, as far as the records tell; those of ph_graph_update_diff: it
     * did */
    bool blocks_update;
    /* the driver's rule that it breaks, in words; NULL: it blocks no update. Static */
    const char *rule;
    /* "node 3 (saxpy) x: 4096-byte allocation +0 -> 8192-byte allocation +256"; one line,
     * borrowed from the diff */
    const char *text;
    uint64_t reserved[4];
} ph_change;

/* Compares two records: nodes are matched in order (longest common subsequence over kind,
 * kernel, dimensions and sizes), then compared; changes come in the order of the nodes.
 * Addresses are compared as (allocation, offset): two captures of the same work in different
 * memory are alike as far as allocations correspond one to one. Neither record is kept.
 * Thread-safe. Errors: ARGUMENT, HOST_MEMORY. Nodes with equal records: no change. */
PH_CALL ph_record_diff(ph_diff **out, const ph_record *a, const ph_record *b);
/* Of the records of two graphs. STATE where one has none, and says which: the one given as a, or
 * as b. */
PH_CALL ph_graph_diff(ph_diff **out, ph_graph *a, ph_graph *b);
PH_API void ph_diff_destroy(ph_diff *diff); /* takes NULL */
PH_API size_t ph_diff_count(const ph_diff *diff);
PH_CALL ph_diff_at(ph_change *out, const ph_diff *diff, size_t index); /* NOT_FOUND */
/* All of it as text, a line for each change, the last line saying how many nodes are alike and
 * whether an update would be possible; freed with ph_string_free. */
PH_CALL ph_diff_text(char **out, const ph_diff *diff);

/* Why the graph's last ph_graph_update failed with MISMATCH: the diff between its executable's
 * capture and the other graph's, in which at least one change blocks; the first of them is in
 * the update's message. Borrowed until the next update, or the graph's reset. Legal in every
 * state. NOT_FOUND: the last update did not fail so, or there was none. HOST_MEMORY: there was
 * none for the diff when the update failed. */
PH_CALL ph_graph_update_diff(const ph_diff **out, ph_graph *graph);

/* ---- records from files ---- for readers of ph_record_json's text, in which addresses are
 * numbers of a process that may be gone: makes a record of what a file says. Everything is
 * copied and checked (dependencies of lower index, words in order and inside the parameters, at
 * most 1 MiB of these, kinds, at most 32 bodies in one another, which take at most 4 GiB when
 * each is counted for every node that it is in): ARGUMENT, naming the node. */
typedef struct ph_record_source_node {
    /* index, dependent_count ignored; name NULL: the kind's; args NULL: as the words have it;
     * body borrowed: it must outlive the record */
    ph_node_info info;
    const size_t *dependencies;
    const ph_edge_kind *dependency_kinds; /* NULL: all full */
    const ph_word *words;
    const ph_annotation_pair *annotation;
    size_t annotation_count;
} ph_record_source_node;
PH_CALL ph_record_create(ph_record **out, const ph_record_source_node *nodes, size_t count);
PH_API void ph_record_destroy(ph_record *record); /* of ph_record_create alone; takes NULL */

PH_END_DECLS
#endif
