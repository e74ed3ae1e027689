/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/diff.h: the differences between two captures, and whether one's executable can
 * have the other's parameters (docs/reference/diff.md). */
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
    PH_CHANGE_VALUE = 6, /* a parameter, or the value of a fill, differs */
    /* size of a copy, a fill or its elements, an allocation, or the parameters */
    PH_CHANGE_SIZE = 7,
    PH_CHANGE_EDGE = 8, /* other dependencies, or another kind of them */
    PH_CHANGE_ANNOTATION = 9
} ph_change_kind;
PH_API const char *ph_change_kind_name(ph_change_kind kind); /* "added"...; static storage */

typedef struct ph_change {
    ph_change_kind kind;
    /* node indices; SIZE_MAX: none. In nested graphs: those of the outermost graph node */
    size_t a, b;
    /* ph_graph_update refuses it, as far as the records show. From ph_graph_update_diff: it did
     * refuse it */
    bool blocks_update;
    /* the driver's rule that it breaks, in words, static; NULL: it blocks no update */
    const char *rule;
    /* "node 3 (saxpy) x: 4096-byte allocation +0 -> 8192-byte allocation +256"; one line,
     * borrowed from the diff */
    const char *text;
    uint64_t reserved[4];
} ph_change;

/* Compares two records. Changes come in the order of the nodes; equal records have none.
 * - Nodes are matched in order: by the longest common subsequence over kind, kernel, dimensions and
 *   sizes.
 * - Addresses are compared as (allocation, offset). Two captures of the same work in different
 *   memory are equal if their allocations correspond one to one.
 * - Neither record is kept. Thread-safe.
 * - Errors: ARGUMENT, HOST_MEMORY. */
PH_CALL ph_record_diff(ph_diff **out, const ph_record *a, const ph_record *b);
/* Compares the records of two graphs. STATE: one has none; the message says whether a or b. */
PH_CALL ph_graph_diff(ph_diff **out, ph_graph *a, ph_graph *b);
/* Whether the nodes of two captures of the same work address the same memory, one node after the
 * other, of all that was allocated up to a generation (ph_allocation.generation) and is no memory
 * of the captures. Graphed callables compare their captures so.
 * - true: certain, but for one kind of word: a number that nothing proves to be an address, in
 *   memory of other code's that was not announced, where neither record was asked for before.
 * - false: not shown; only the words of both records tell.
 * - The driver is not asked: where a word may prove to be an address of other code's memory that
 *   was not announced, it is false. Nested graphs and breaks: false, too.
 * - Errors: ARGUMENT; STATE as ph_graph_diff. */
PH_CALL ph_graph_same_addresses(bool *out, ph_graph *a, ph_graph *b, uint64_t generation);
PH_API void ph_diff_destroy(ph_diff *diff); /* takes NULL */
PH_API size_t ph_diff_count(const ph_diff *diff);
PH_CALL ph_diff_at(ph_change *out, const ph_diff *diff, size_t index); /* NOT_FOUND */
/* Writes all changes as text, one line each. The last line has the number of equal nodes, and
 * whether an update would be possible. Freed with ph_string_free. */
PH_CALL ph_diff_text(char **out, const ph_diff *diff);

/* Explains why the graph's last ph_graph_update failed with MISMATCH: the diff between the
 * executable's capture and the other graph's. At least one change blocks the update; the first of
 * them is in the update's message.
 * - Borrowed until the next update, or the graph's reset. Legal in every state.
 * - NOT_FOUND: there was no update, or the last one did not fail so. HOST_MEMORY: the update had no
 *   memory for the diff. */
PH_CALL ph_graph_update_diff(const ph_diff **out, ph_graph *graph);

/* ---- records from files ---- Makes a record from the text of ph_record_json, whose addresses are
 * numbers of a process that may be gone. Everything is copied and checked. ARGUMENT names the node:
 * - Dependencies have lower indices. Kinds are known.
 * - Words are in order, and inside the parameters, which have at most 1 MiB.
 * - Bodies nest at most 32 deep. They take at most 4 GiB, if each is counted for every node that
 *   has it. */
typedef struct ph_record_source_node {
    /* index and dependent_count are ignored. name NULL: that of the kind. args NULL: those of the
     * words. body is borrowed: it must outlive the record */
    ph_node_info info;
    const size_t *dependencies;
    const ph_edge_kind *dependency_kinds; /* NULL: all full */
    const ph_word *words;
    const ph_annotation_pair *annotation;
    size_t annotation_count;
} ph_record_source_node;
PH_CALL ph_record_create(ph_record **out, const ph_record_source_node *nodes, size_t count);
PH_API void ph_record_destroy(ph_record *record); /* Only for ph_record_create. Takes NULL. */

PH_END_DECLS
#endif
