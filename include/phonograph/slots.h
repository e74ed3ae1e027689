/* SPDX-License-Identifier: MIT */
/* phonograph/slots.h: slots: addresses and values inside a captured graph that another replay
 * may have otherwise, without a new capture. docs/reference/slots.md tells how. */
#ifndef PHONOGRAPH_SLOTS_H
#define PHONOGRAPH_SLOTS_H
#include <phonograph/inspect/record.h>

PH_BEGIN_DECLS

/* A slot is a set of places in the parameters of a graph's kernel, memcpy and memset nodes that
 * are set together: an address slot stands for a span of memory, and its places keep their
 * distances from the span's first byte; a scalar slot stands for a value of up to 256 bytes.
 * Slots are numbered from 0 in the order of making, and live until the graph is reset or
 * captured again. A place belongs to one slot at most (STATE). Nodes that write cells (cells.h),
 * nodes nested in others, and kernels whose parameters the library cannot read have no places
 * (UNSUPPORTED).
 *
 * Making slots needs a record (ENDED or READY), and that no node of the executable has other
 * parameters than the record says (STATE after ph_graph_node_set_launch, _memcpy, _memset or an
 * update from another graph). A node that has a place of a slot can no longer be set by those
 * three (STATE: it names the slot). ph_graph_instantiate and a successful ph_graph_update bring
 * back the addresses and values that the template, or the other graph, has; the next replay sets
 * the slots again that were set before. An update from a capture whose places have other
 * distances is refused (MISMATCH). A replay into another capture (child graph) has what the
 * template has. All calls are externally synchronised, like the graph; making and replaying are
 * refused inside the graph's own hooks (STATE). */
#define PH_SLOT_NONE SIZE_MAX

typedef struct ph_slot_options {
    /* address slots: what every address must be a multiple of, a power of two; 0: the largest
     * power of two, at most 256, that the captured address is a multiple of: kernels may have
     * been chosen by it */
    size_t alignment;
    uint64_t reserved[4];
} ph_slot_options;

/* ---- making ---- name: copied; for messages; NULL: "slot N".
 *
 * find: every use that the record proves: words of kind PROVED and the fields of memcpy and
 * memset nodes that lie in [base, base + bytes). NOT_FOUND: there is none. UNSUPPORTED: a word
 * that is only suspected lies there too (the message names node and word): prove or declare it.
 * ARGUMENT: a memcpy or memset reaches beyond the span. */
PH_CALL ph_graph_slot_find(size_t *slot, ph_graph *graph, const char *name, const void *base,
                           size_t bytes, const ph_slot_options *options);

/* declare: the caller vouches for the places. address: each place is 8 bytes at `offset` of the
 * node's parameters (inspect/record.h says how offsets count; dst 0 and src 8 in memcpy, dst 0 in
 * memset), and holds an address in [base, base + bytes) (ARGUMENT when not). scalar: each place
 * is `bytes` bytes at offset of a kernel node's parameters (1 to 256; ARGUMENT beyond them), and
 * holds `expected` as it was captured (ARGUMENT when not). */
typedef struct ph_slot_place {
    size_t node, offset;
} ph_slot_place;
PH_CALL ph_graph_slot_declare_address(size_t *slot, ph_graph *graph, const char *name,
                                      const void *base, size_t bytes, const ph_slot_place *places,
                                      size_t count, const ph_slot_options *options);
PH_CALL ph_graph_slot_declare_scalar(size_t *slot, ph_graph *graph, const char *name,
                                     const void *expected, size_t bytes,
                                     const ph_slot_place *places, size_t count);

/* prove: compares graph with further captures of the same work, in each of which span i lay
 * elsewhere: at spans[i].shifted[k] in captures[k]. A word that differs by exactly the distance
 * of one span, and lies in it, is a use of that span, in all captures or in none; a word that is
 * in memory of the graphs' own captures in both, or in an allocation of their own pool that was
 * live at the capture's end and is no span's, or in their cells, is their own matter; a word
 * that is equal in both counts as a value, unless it lies in a span, base or shifted; any other
 * difference, in a word, a dimension, a kernel, an edge or a count, is unexplained, and then no
 * span is proved. Nor is any where a node could take addresses from where nobody can see them:
 * host functions, batch memory operations, nested graphs, and copies that read host memory. What
 * a record cannot show stays trusted: kernels that take addresses from device memory or from
 * module globals, and what follows from addresses and came out the same in all captures
 * (docs/reference/slots.md). A slot accepts no address bit below 4096 that no capture has changed:
 * without an alignment of its own it gets the smallest, from the one of ph_slot_options on, whose
 * bits from it to 2048 differ between base and the shifted addresses, in one capture or another; a
 * span for which there is none is not proved. One capture does, with base at a multiple of 4096
 * and shifted 256 below one. The distances of one capture must differ from each other, and its
 * shifted spans must overlap nothing (ARGUMENT). The captures may be reset afterwards. For each
 * span out[i] has a new slot, or PH_SLOT_NONE with the reason; a span without any use is proved
 * (uses 0), and setting it does nothing. PH_OK also when nothing was proved. */
typedef struct ph_slot_span {
    const char *name;
    const void *base;
    const void *const *shifted; /* capture_count of them */
    size_t bytes;
    size_t alignment; /* as in ph_slot_options */
    uint64_t reserved[2];
} ph_slot_span;
typedef struct ph_slot_proof {
    size_t slot; /* PH_SLOT_NONE: not proved */
    size_t uses; /* places */
    /* why not: "node 3 (gemm): word +48 differs by 0x20, which is no input's distance"; "" when
     * proved */
    char reason[200];
    uint64_t reserved[2];
} ph_slot_proof;
PH_CALL ph_graph_slot_prove(ph_slot_proof *out, ph_graph *graph, ph_graph *const *captures,
                            size_t capture_count, const ph_slot_span *spans, size_t count);

/* prove_scalar: the same of a value of 1 to 256 bytes: graph was captured with old_value and
 * `changed`, a capture of the same work on the same memory, with new_value. Where kernels'
 * parameters differ from old_value to exactly new_value is a place; any other difference is
 * unexplained but for that of addresses in the captures' own memory, and then nothing is proved;
 * nor is anything where no parameter differs (the value comes by a way that nobody can see, or
 * not at all), or where prove would not prove anything: host functions, nested graphs, copies
 * out of host memory. Values whose bytes are all different show most: what follows from the
 * value and came out the same with both stays as captured (docs/reference/slots.md). ARGUMENT: the
 * values are equal. *out as above; PH_OK also when nothing was proved. */
PH_CALL ph_graph_slot_prove_scalar(ph_slot_proof *out, ph_graph *graph, ph_graph *changed,
                                   const char *name, const void *old_value, const void *new_value,
                                   size_t bytes);

/* ---- setting ---- value: of an address slot the address itself, of a scalar slot where its
 * bytes are (read during the call).
 *
 * ph_graph_replay_with: sets, then replays: one call, so that no other work of the graph falls
 * between. A value stays until it is set again; one that is as it was costs a compare. Naming a
 * slot twice is refused, whatever the values (ARGUMENT). Replays in flight keep what they had.
 * Checks, before anything is changed: an address must be a multiple of the slot's alignment and
 * have the span's bytes behind it, in one allocation of the graph's device, pinned memory of it,
 * or, for memory that the library did not allocate, memory that the driver says the device can
 * reach (ARGUMENT; WRONG_DEVICE); where a memcpy has a place of the slot, pinned memory if the
 * captured span was, and only then (ARGUMENT). Whether two slots may overlap, or overlap what
 * the graph writes (ph_graph_writes), is for the caller to know. After a failure of the driver
 * half-way slots may have the new values, and the next replay sets them all. Errors otherwise as
 * ph_graph_replay; STATE on a capturing stream. */
typedef struct ph_slot_value {
    size_t slot;
    const void *value;
} ph_slot_value;
PH_CALL ph_graph_replay_with(ph_graph *graph, ph_stream *stream, const ph_slot_value *values,
                             size_t count);
/* *out: whether ph_graph_replay_with would take the value for that slot, by the checks above;
 * nothing is set. value NULL: false. Of memory that the library did not allocate the driver is
 * asked. NOT_FOUND: no such slot. Legal in a capture. */
PH_CALL ph_graph_slot_takes(bool *out, const ph_graph *graph, size_t slot, const void *value);

/* ---- looking ---- */
typedef struct ph_slot_info {
    const char *name; /* borrowed from the graph */
    bool address;
    size_t bytes;     /* of the span, or of the value */
    size_t alignment; /* 0: scalar */
    size_t uses;      /* places */
    /* the address that replays have, or where the value's bytes are, borrowed until the next
     * call */
    const void *current;
    uint64_t reserved[4];
} ph_slot_info;
PH_API size_t ph_graph_slot_count(const ph_graph *graph);                         /* 0 for NULL */
PH_CALL ph_graph_slot_get(ph_slot_info *out, const ph_graph *graph, size_t slot); /* NOT_FOUND */
PH_CALL ph_graph_slot_place_at(ph_slot_place *out, const ph_graph *graph, size_t slot,
                               size_t index);

/* *out: whether a replay may write into [address, address + bytes): memory that its captures
 * were given, from their pools or as cells; not memory from elsewhere that its nodes address.
 * Cheap (a binary search). */
PH_CALL ph_graph_writes(bool *out, const ph_graph *graph, const void *address, size_t bytes);

PH_END_DECLS
#endif
