/* SPDX-License-Identifier: MIT */
/* phonograph/slots.h: slots: addresses and values inside a captured graph that a replay can change
 * without a new capture (docs/reference/slots.md). */
#ifndef PHONOGRAPH_SLOTS_H
#define PHONOGRAPH_SLOTS_H
#include <phonograph/inspect/record.h>

PH_BEGIN_DECLS

/* A slot is a set of places that are set together. A place is a part of the parameters of a kernel,
 * memcpy or memset node.
 * - An address slot stands for a span of memory. Its places keep their distances from the first
 *   byte of the span.
 * - A scalar slot stands for a value of at most 256 bytes.
 * - Slots are numbered from 0 in the order in which they are made. They live until the graph is
 *   reset or captured again.
 * - A place belongs to at most one slot (STATE).
 * - Nodes that write cells (cells.h), nested nodes, and kernels whose parameters the library cannot
 *   read have no places (UNSUPPORTED).
 *
 * Making a slot:
 * - needs a record (ENDED or READY);
 * - needs every node of the executable to have the parameters of the record. STATE after
 *   ph_graph_node_set_launch, _memcpy, _memset or an update from another graph. Later, those three
 *   refuse a node that has a place of a slot (STATE, with the slot's name).
 *
 * Other calls:
 * - ph_graph_instantiate and a successful ph_graph_update restore the addresses and values of the
 *   template, or of the other graph. The next replay sets the slots again that were set before.
 * - An update from a capture whose places have other distances, or that would part slots of a group
 *   (ph_slot_info), is refused (MISMATCH).
 * - A replay into another capture (a child graph) has the values of the template.
 * - Threads: all calls are externally synchronised, as the graph is. Inside the graph's own hooks,
 *   making and replaying are refused (STATE). */
#define PH_SLOT_NONE SIZE_MAX

typedef struct ph_slot_options {
    /* Address slots: every address must be a multiple of it, a power of two. 0: the largest power
     * of two, at most 256, that divides the captured address, as the choice of kernels may depend
     * on it. */
    size_t alignment;
    /* Address slots: addresses that are set are not looked up. The caller answers for them, as for
     * those of a launch: memory that the device reaches, with the span's bytes behind it.
     * - The alignment is checked as ever. Liveness does not watch the memory.
     * - A slot that has a place in a memcpy looks all addresses up. */
    bool skip_lookup;
    uint64_t reserved[3];
} ph_slot_options;

/* ---- making ---- name is copied, and used in messages; NULL: "slot N".
 *
 * find makes a slot of every place that the record proves: words of kind PROVED, and the fields of
 * memcpy and memset nodes, that lie in [base, base + bytes).
 * - NOT_FOUND: there is no such place.
 * - UNSUPPORTED: a suspected word lies there too; the message names node and word. Prove the slot
 *   or declare it.
 * - ARGUMENT: a memcpy or memset reaches beyond the span, or a kernel does, by the extent that its
 *   parameter declares (kernel.h).
 * - ARGUMENT: the span goes on behind the allocation that its first byte lies in, as the library
 *   knows it; of declare and prove too, but with skip_lookup.
 * - Where a kernel's parameter declares none, and the allocation goes on behind the span, a warning
 *   says so, once for a slot: the kernel may read there, and new memory is checked for the span
 *   alone (ph_slot_info.room). */
PH_CALL ph_graph_slot_find(size_t *slot, ph_graph *graph, const char *name, const void *base,
                           size_t bytes, const ph_slot_options *options);

/* declare makes a slot of places that the caller guarantees.
 * - address: each place is 8 bytes at `offset` of the node's parameters, and holds an address in
 *   [base, base + bytes) (else ARGUMENT). Offsets are those of inspect/record.h; in a memcpy dst is
 *   0 and src is 8, in a memset dst is 0.
 * - scalar: each place is `bytes` bytes (1 to 256) at `offset` of a kernel node's parameters (else
 *   ARGUMENT), and holds `expected` as captured (else ARGUMENT). */
typedef struct ph_slot_place {
    size_t node, offset;
} ph_slot_place;
PH_CALL ph_graph_slot_declare_address(size_t *slot, ph_graph *graph, const char *name,
                                      const void *base, size_t bytes, const ph_slot_place *places,
                                      size_t count, const ph_slot_options *options);
PH_CALL ph_graph_slot_declare_scalar(size_t *slot, ph_graph *graph, const char *name,
                                     const void *expected, size_t bytes,
                                     const ph_slot_place *places, size_t count);

/* prove compares graph with further captures of the same work. In captures[k], span i lies at
 * spans[i].shifted[k]. Classes of words:
 * - A place of a span: it lies in the span, and differs by exactly the distance of that span, in
 *   all captures or in none.
 * - Memory of the graph itself: in both captures it lies in memory of their own captures, in a
 *   block of their own pool that was live at the end of the capture and is no span, or in their
 *   cells.
 * - A value: it is equal in both captures, and lies in no span, base or shifted.
 * - Any other difference in a word, a dimension, a kernel, an edge or a count is unexplained. No
 *   span is proved then.
 *
 * Limits:
 * - No span is proved where a node could get addresses from a source that the library cannot see:
 *   host functions, batch memory operations, nested graphs, copies that read host memory.
 * - Trusted, as a record cannot show it: kernels that get addresses from device memory or module
 *   globals, and values that follow from addresses but are equal in all captures
 *   (docs/reference/slots.md).
 *
 * Alignment:
 * - A slot accepts no address bit below 4096 that no capture has changed.
 * - A slot without an alignment of its own gets the smallest possible one. It starts at the one of
 *   ph_slot_options. Every bit from it to 2048 must differ between base and the shifted addresses
 *   of some capture. A span without such an alignment is not proved.
 * - One capture is enough with base at a multiple of 4096 and shifted 256 below such a multiple.
 *
 * Arguments and results:
 * - The shifted spans of a capture must overlap nothing (ARGUMENT).
 * - Spans that every capture shifts by one distance, as the views of a cache, are a group: a word
 *   in one of them may follow another. Replays move their slots by one distance. All of a group
 *   are proved, or none. A further capture that shifts them apart tells them apart.
 * - The captures may be reset afterwards.
 * - out[i] has a new slot for span i, or PH_SLOT_NONE with the reason. A span without any place is
 *   proved (uses 0); setting it has no effect.
 * - PH_OK also when nothing was proved. */
typedef struct ph_slot_span {
    const char *name;
    const void *base;
    const void *const *shifted; /* capture_count entries */
    size_t bytes;
    size_t alignment; /* as in ph_slot_options */
    bool skip_lookup; /* as in ph_slot_options */
    uint64_t reserved[1];
} ph_slot_span;
typedef struct ph_slot_proof {
    size_t slot; /* PH_SLOT_NONE: not proved */
    size_t uses; /* places */
    /* the reason, "node 3 (gemm): word +48 differs by 0x20, which is no input's distance"; "" when
     * proved */
    char reason[200];
    uint64_t reserved[2];
} ph_slot_proof;
PH_CALL ph_graph_slot_prove(ph_slot_proof *out, ph_graph *graph, ph_graph *const *captures,
                            size_t capture_count, const ph_slot_span *spans, size_t count);

/* prove_scalar does the same for a value of 1 to 256 bytes. graph was captured with old_value.
 * `changed` is a capture of the same work on the same memory with new_value.
 * - Places are the kernel parameters that differ from old_value to exactly new_value.
 * - Any other difference is unexplained, except addresses in the captures' own memory. Nothing is
 *   proved then.
 * - Nothing is proved where no parameter differs: the value takes a way that the library cannot
 *   see, or none.
 * - Nothing is proved where prove would not: host functions, nested graphs, copies out of host
 *   memory.
 * - Values whose bytes are all different show most. Data that follows from the value but is equal
 *   in both captures stays as captured (docs/reference/slots.md).
 * - ARGUMENT: the values are equal. *out is as for prove. PH_OK also when nothing was proved. */
PH_CALL ph_graph_slot_prove_scalar(ph_slot_proof *out, ph_graph *graph, ph_graph *changed,
                                   const char *name, const void *old_value, const void *new_value,
                                   size_t bytes);

/* ---- setting ---- value is the address itself for an address slot, and a pointer to the bytes for
 * a scalar slot, which are read during the call.
 *
 * ph_graph_replay_with sets slots and replays in one call, so that no other work of the graph runs
 * between.
 * - A value stays until it is set again. An unchanged value costs a compare. Replays in flight keep
 *   their values.
 * - ARGUMENT: a slot is named twice, whatever the values.
 * - Checks come before any change (ARGUMENT, WRONG_DEVICE). An address is a multiple of the slot's
 *   alignment, with the span's bytes behind it in one allocation: of the graph's device, or of its
 *   pinned memory. Of memory that the library did not allocate, the driver must say that the device
 *   can reach it. With skip_lookup the alignment alone is checked.
 * - Where a memcpy has a place of the slot, the new memory is pinned exactly if the captured span
 *   was (ARGUMENT).
 * - Slots of a group (ph_slot_info) stay at one distance from their captured addresses, those that
 *   the call does not name included (ARGUMENT, with both slots and distances).
 * - Overlaps are not checked: the caller knows whether two slots may overlap each other, or memory
 *   that the graph writes (ph_graph_writes).
 * - After a failure of the driver half-way, slots may have the new values; the next replay sets
 *   them all.
 * - Other errors: as ph_graph_replay; STATE on a capturing stream. */
typedef struct ph_slot_value {
    size_t slot;
    const void *value;
} ph_slot_value;
PH_CALL ph_graph_replay_with(ph_graph *graph, ph_stream *stream, const ph_slot_value *values,
                             size_t count);
/* Sets slots as ph_graph_replay_with does, and launches nothing: the next launch has the values.
 * For executables that other code launches (ph_graph_view_cuda), and to set ahead of a replay.
 * - Checks and failures are those of ph_graph_replay_with. Launches in flight keep their values.
 * - STATE: there is no executable. Legal while other streams capture. */
PH_CALL ph_graph_slots_set(ph_graph *graph, const ph_slot_value *values, size_t count);
/* *out: whether ph_graph_replay_with would accept the value for that slot, by the checks above but
 * for the distances of its group. Nothing is set. The driver is asked about memory that the library
 * did not allocate. value NULL: false. NOT_FOUND: no such slot. Legal in a capture. */
PH_CALL ph_graph_slot_takes(bool *out, const ph_graph *graph, size_t slot, const void *value);

/* ---- queries ---- */
typedef struct ph_slot_info {
    const char *name; /* borrowed from the graph */
    bool address;
    size_t bytes;     /* of the span or of the value */
    size_t alignment; /* 0: scalar */
    size_t uses;      /* places */
    /* the address that replays use, or a pointer to the value's bytes, borrowed until the next
     * call */
    const void *current;
    size_t group; /* not 0: slots of one number move by one distance (ph_graph_slot_prove) */
    /* address slots of ph_graph_slot_find: the bytes from the span's first to the end of the
     * allocation that it was made of. 0: not known, or a slot of another call */
    size_t room;
    uint64_t reserved[2];
} ph_slot_info;
PH_API size_t ph_graph_slot_count(const ph_graph *graph);                         /* 0 for NULL */
PH_CALL ph_graph_slot_get(ph_slot_info *out, const ph_graph *graph, size_t slot); /* NOT_FOUND */
PH_CALL ph_graph_slot_place_at(ph_slot_place *out, const ph_graph *graph, size_t slot,
                               size_t index);

/* *out: whether a replay may write into [address, address + bytes): blocks that its captures
 * received from their pools, and cells. Memory from elsewhere that its nodes address does not
 * count. Cheap: a binary search. */
PH_CALL ph_graph_writes(bool *out, const ph_graph *graph, const void *address, size_t bytes);

PH_END_DECLS
#endif
