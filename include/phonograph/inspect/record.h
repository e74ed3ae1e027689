/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/record.h: a description of a captured graph: nodes, names, dimensions,
 * parameter words, dependencies, and the allocation of each address. docs/reference/record.md has
 * the JSON schema. */
#ifndef PHONOGRAPH_INSPECT_RECORD_H
#define PHONOGRAPH_INSPECT_RECORD_H
#include <phonograph/graph.h>

PH_BEGIN_DECLS

typedef struct ph_record ph_record;

/* The record of the capture: what it was at its end, whatever was freed, set or updated since.
 * - Borrowed, until the graph is reset, captured again or destroyed, or instantiated after an edit
 *   of its template. Immutable: thread-safe to read.
 * - The first call, or another that needs it (slots, inputs, nodes, diff), reads the nodes back
 *   from the driver, unless the end of the capture did: with check_input_liveness, cells,
 *   PH_DEBUG_RECORD or ph_capture_options.record_at_end, and with annotations of nodes that other
 *   code submitted. Kernels of other libraries must still be loaded then: drivers may crash on
 *   those that were unloaded.
 * - The first call asks the driver about memory of other code that the nodes address.
 * - STATE: no capture has ended; capture-end hooks may call it. HOST_MEMORY, also where there was
 *   none when memory of the capture was freed. DEVICE: the driver does not tell a node, as of a
 *   device that is lost; a later call asks again. */
PH_CALL ph_graph_record(const ph_record **out, ph_graph *graph);

typedef enum ph_node_kind {
    PH_NODE_KERNEL = 0, /* CUDA's numbers */
    PH_NODE_MEMCPY = 1,
    PH_NODE_MEMSET = 2,
    PH_NODE_HOST = 3,
    PH_NODE_GRAPH = 4,
    PH_NODE_EMPTY = 5,
    PH_NODE_EVENT_WAIT = 6,
    PH_NODE_EVENT_RECORD = 7,
    /* the following kinds come only from graphs that CUDA's own calls made, or made in part */
    PH_NODE_SEMAPHORE_SIGNAL = 8,
    PH_NODE_SEMAPHORE_WAIT = 9,
    PH_NODE_MEM_ALLOC = 10,
    PH_NODE_MEM_FREE = 11,
    PH_NODE_BATCH_MEM_OP = 12,
    PH_NODE_CONDITIONAL = 13
} ph_node_kind;
PH_API const char *ph_node_kind_name(ph_node_kind kind); /* "kernel"...; static storage */

typedef struct ph_node_info {
    size_t index; /* in topological order: after all its dependencies */
    ph_node_kind kind;
    /* the name of the kernel; for others "memcpy" and so on. Borrowed from the record */
    const char *name;
    uint32_t grid[3], block[3]; /* kernels */
    size_t shared_bytes;
    size_t args_size; /* kernels: bytes of parameters. `args` has the parameters as captured */
    const void *args;
    /* memcpy, memset: addresses as captured; mem_alloc, mem_free: dst */
    const void *dst, *src;
    size_t bytes; /* memcpy, memset: bytes written; mem_alloc: bytes given */
    /* memset: the element and its size in bytes: 1 or 4; 2 only from CUDA's own calls */
    uint32_t value, value_size;
    size_t dependency_count, dependent_count, word_count;
    const ph_record *body; /* PH_NODE_GRAPH: its nodes; else NULL */
    uint64_t reserved[4];
} ph_node_info;
PH_API size_t ph_record_node_count(const ph_record *record);
PH_API size_t ph_record_edge_count(const ph_record *record);
/* NOT_FOUND beyond the last. */
PH_CALL ph_record_node(ph_node_info *out, const ph_record *record, size_t node);
/* The name of a node as its author wrote it: a C++ name ("_Z...") in its readable form, where the
 * process has a C++ runtime; any other name as it is. Cut to size - 1 bytes.
 * - A program that asks for many nodes asks once for each name: to read one takes microseconds.
 * - ARGUMENT (size 0 too), NOT_FOUND; *out is then "". */
PH_CALL ph_record_readable_name(char *out, size_t size, const ph_record *record, size_t node);
/* Why a library added the node by itself, as "breadcrumb" (docs/reference/record.md); NULL: the
 * program did, or nobody told; or there is no such node. Borrowed from the record. */
PH_API const char *ph_record_made_for(const ph_record *record, size_t node);
/* How a node depends on another: fully, or so that it may begin before the other's kernel has ended
 * (programmatic dependent launch). */
typedef enum ph_edge_kind {
    PH_EDGE_FULL = 0,
    PH_EDGE_PROGRAMMATIC = 1
} ph_edge_kind;
/* dependency: index into ph_record_dependencies (NOT_FOUND). */
PH_CALL ph_record_edge(ph_edge_kind *out, const ph_record *record, size_t node, size_t dependency);
/* Borrowed arrays of node indices, ascending. */
PH_API const size_t *ph_record_dependencies(const ph_record *record, size_t node);
PH_API const size_t *ph_record_dependents(const ph_record *record, size_t node);

/* Classes of the 8-byte words of a node's parameters, and of the fields of memcpy and memset: */
typedef enum ph_word_kind {
    PH_WORD_VALUE = 0, /* not an address */
    /* lies in a known allocation, but no proof shows that it is an address */
    PH_WORD_SUSPECTED = 1,
    /* a typed launch's address parameter, or an address of a memcpy, memset or batch memory
     * operation */
    PH_WORD_PROVED = 2
} ph_word_kind;
typedef struct ph_word {
    ph_word_kind kind;
    const char *name; /* "x" (a typed parameter), "dst", "src", "op 0", or "+16" (the offset) */
    size_t offset;    /* in args; dst has 0, src 8, op 1 8 */
    uint64_t value;
    /* the allocation of the value at the capture's end; base NULL: none. See also foreign */
    const void *base;
    size_t allocation_bytes;
    uint64_t generation;
    ph_pool_id pool;
    bool pinned;
    /* allocated in this capture from its own pool, or one of its cells; never an input */
    bool internal;
    /* Memory of other code; pool is {0, 0}. An announced block (ph_foreign_announce) as it was at
     * the capture's end, else what the driver said at the first request for the record: base, size
     * and pinned, and its number for the memory as generation. Memory that was gone by then has no
     * base. */
    bool foreign;
    uint64_t reserved[4];
} ph_word;
PH_CALL ph_record_word(ph_word *out, const ph_record *record, size_t node, size_t word);
/* The first word of the node, from *word on, that addresses memory: its base is not NULL. For those
 * who look for addresses alone: kernels of vendor libraries have hundreds of words.
 * - *word gets the number of that word. None is left: it gets word_count, and *out is zero.
 * - Errors: NOT_FOUND (no such node), ARGUMENT. Legal in a capture. */
PH_CALL ph_record_next_address(ph_word *out, size_t *word, const ph_record *record, size_t node);

/* Writes the whole record as JSON text (freed with ph_string_free), or into a file, which is
 * replaced whole or not at all. */
PH_CALL ph_record_json(char **out, const ph_record *record);
PH_CALL ph_record_dump(const ph_record *record, const char *path);
/* As Graphviz DOT. */
PH_CALL ph_record_dot(char **out, const ph_record *record, bool verbose);

PH_END_DECLS
#endif
