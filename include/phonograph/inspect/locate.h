/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/locate.h: finding the place: how far a replay came that faults or hangs,
 * which output first had a NaN, and which node of a replay differs from an eager run.
 * docs/reference/locate.md. */
#ifndef PHONOGRAPH_INSPECT_LOCATE_H
#define PHONOGRAPH_INSPECT_LOCATE_H
#include <phonograph/annotation.h>

PH_BEGIN_DECLS

/* ---- breadcrumbs ---- ph_capture_options.breadcrumbs (with enable_annotations): at the
 * beginning and at the end of each scope that is begun on a stream of the capture
 * (ph_annotation_push) a small kernel node, "phonograph_crumb", is captured on that stream, and one
 * before all of them. They are off: a disabled node does nothing, and its edges still order the
 * others (a kernel that is launched programmatically behind one waits for what came before it).
 * Switched on, each tells a word of pinned host memory when the replay comes by. Switching is no
 * new capture and no new executable: it takes some microseconds for each crumb, and holds for
 * later replays. Off after each instantiate; an update leaves them as they are. In a copy of the
 * graph (a replay into another capture) they write nothing. A capture in which no scope is begun
 * on one of its streams keeps that first node alone, off for good: it costs what a disabled node
 * does. STATE: captured without breadcrumbs or without such scopes, or no executable. Errors
 * also: HOST_MEMORY. */
PH_CALL ph_graph_breadcrumbs_enable(ph_graph *graph, bool enabled);

typedef struct ph_progress {
    /* the replay has passed every crumb; it may still run what lies behind the last */
    bool complete;
    /* crumbs of the replay that were passed, of those at scopes: the one before all of them is
     * not counted */
    size_t passed, count;
    /* The scopes that have begun and not ended, those that began last first, as paths: "layer
     * 3/attention" for one that was opened in another; a scope without a name of its own is
     * called by the pairs that it adds, "layer=3". Borrowed until the graph's next call. NULL,
     * count 0: before the first scope, between two, or complete. A scope that was not ended on a
     * stream of the capture, or was unwound (ph_annotation_unwind names no stream), counts as begun
     * until all crumbs are passed. */
    const char *const *open;
    size_t open_count;
    const char *last;  /* the scope whose beginning or end was passed last; NULL: none. As open */
    char message[400]; /* the whole in a sentence */
    uint64_t reserved[4];
} ph_progress;
/* Of the last replay with breadcrumbs switched on that has begun; STATE when none has, or where
 * the capture left none. Reads the host's memory alone: no call of the driver, so that it works
 * while the replay runs or hangs, and after the device was lost. Not in a signal handler: it
 * formats the message. For a watchdog: also while another thread is inside ph_graph_replay of
 * the graph, as long as that has no replay hooks. */
PH_CALL ph_graph_where(ph_progress *out, ph_graph *graph);

/* ---- checks for NaN and infinity ---- captures a check of `count` numbers at address (a
 * multiple of their size): a kernel node, "phonograph_check_finite", that is off until checks
 * are switched on. It lies in the stream's order, after what was submitted before. name is
 * copied; NULL: "". Outside a capture it checks its arguments and does nothing, so that a body
 * can also be run eagerly. Legal in a capture, which is what it is for. Errors: ARGUMENT (also
 * memory that is neither the device's nor pinned), SIZE (beyond the allocation), NOT_FOUND
 * (memory of this library's that is not allocated), HOST_MEMORY, CAPTURE (a capture that this
 * library did not begin). */
typedef enum ph_number_type {
    PH_NUMBER_F32 = 0,
    PH_NUMBER_F64 = 1,
    PH_NUMBER_F16 = 2,
    PH_NUMBER_BF16 = 3
} ph_number_type;
PH_CALL ph_finite_check(ph_stream *stream, const void *address, ph_number_type type, size_t count,
                        const char *name);
/* All checks of the graph, as with breadcrumbs; a single one, whose node ph_finite_at
 * tells, with ph_graph_node_set_enabled while they are on. STATE: none were captured. */
PH_CALL ph_finite_enable(ph_graph *graph, bool enabled);
typedef struct ph_finite_result {
    const char *name; /* borrowed until the graph is reset or captured again, as scope is */
    /* the annotated scope that it was captured in, as in ph_progress; "" for none */
    const char *scope;
    size_t node; /* of the check, in the record */
    /* in the last replay with checks on; otherwise nothing is known, and nothing was found */
    bool ran;
    uint64_t bad;   /* numbers that are NaN or infinite */
    uint64_t first; /* index of the first of them; UINT64_MAX: there are none */
    double value;   /* it: NaN or an infinity; 0: there are none */
    uint64_t reserved[4];
} ph_finite_result;
/* Of the last replay with checks switched on, in order of capture: wait for it before. No call
 * of the driver. NOT_FOUND beyond the last. */
PH_CALL ph_finite_count(size_t *out, ph_graph *graph);
PH_CALL ph_finite_at(ph_finite_result *out, ph_graph *graph, size_t index);

/* ---- verify ---- does a replay do what an eager run of the same function does? Keeps the
 * contents of all memory that the nodes address or that the capture was given, and captures body
 * a second time, for what it would be now. Then, each time from those contents, with the device
 * memory of the capture poisoned (what it was given has no contents before it is written): runs
 * body eagerly on stream, with its allocations where the capture had them, and replays the
 * graph, with two different poisons. Compares every byte of that memory, or the outputs that the
 * options name, within the tolerance. Where something differs: runs the nodes one after another;
 * compares prefixes of the replay (later nodes switched off) with prefixes of the second
 * capture, by bisection, for the first node that differs. At the end contents, switches and
 * epoch are as before. Memory that other code allocated is kept and compared as the library's
 * own, where the driver tells its base and size (skip_foreign leaves it out). body is captured
 * once, or up to three times where it no longer asks for blocks that it has kept, and runs
 * eagerly once, and up to three times more where a changed parameter is not what differs (an
 * eager run may race, too). Host functions, replay hooks and cells' sources run with every
 * replay. Scopes that body and prepare leave open are ended. Device memory that body leaves
 * allocated lies where the capture left it, and is live, unless another has that place by now.
 * body and prepare must leave the graph alone (STATE).
 *
 * Waits for the device; other work on that memory must be at rest, and contents are copied to
 * the host: four times. Instantiates where there is no executable. stream: any but the default
 * one, not capturing. Errors: STATE; as ph_graph_replay and ph_graph_capture; body's own;
 * STALE_INPUT (a proved input was freed, whatever the graph's options); ARGUMENT (an output in
 * memory that the graph does not address or that is left out; one that is empty or not at a
 * multiple of its numbers' size; a tolerance without outputs); HOST_MEMORY (no room for the
 * copies, or for what body left allocated, which is then not live); UNSUPPORTED (memory nodes,
 * nested graphs, conditionals, semaphores, batches: the record has them). A difference is no
 * error: *out tells. docs/reference/locate.md. */
typedef struct ph_verify_output {
    const void *address;
    ph_number_type type;
    size_t count;
    const char *name; /* for messages; may be NULL */
} ph_verify_output;
typedef struct ph_verify_options {
    const ph_verify_output *outputs; /* NULL, with an output_count of 0: every byte, exactly */
    size_t output_count;
    /* Of outputs alone: |a - b| <= absolute + relative * |b|, b being eager's; NaN is as NaN. */
    double relative, absolute;
    /* May be NULL. Before each run, eager, captured or replayed, with body's user: sets what
     * they start from and what is no memory of the graph: states of generators, step counts.
     * Without it, graphs with cells (cells.h) are replayed with one poison alone, and not node
     * by node. */
    ph_status (*prepare)(ph_stream *stream, void *user);
    /* Memory that other code allocated is neither kept nor compared nor put back: each run
     * changes it. For memory that other code uses meanwhile (buffers of a collective library),
     * or that is too large to keep four times on the host. */
    bool skip_foreign;
    uint64_t reserved[2];
} ph_verify_options;
typedef enum ph_verify_verdict {
    PH_VERIFY_NONE = 0, /* the call failed: nothing is known */
    /* message also names parameters that are others in a second capture, though from these
     * contents they give the same: addresses, learning rates, seeds. */
    PH_VERIFY_EQUAL = 1,
    /* And the second capture has other nodes or edges: message says which (diff.h). */
    PH_VERIFY_CAPTURE_DIFFERS = 2,
    /* node: the first whose result is not the one that it has in the second capture. */
    PH_VERIFY_NODE_DIFFERS = 3,
    /* The nodes one after another give what eager gives, at once they do not: node is the first
     * that shows it. Or eager runs differ from one another, and two nodes without a path between
     * them share memory that one of them writes: node is the later one. A dependency is missing;
     * message names such nodes where it finds some. */
    PH_VERIFY_ORDER = 4,
    /* The replay reads memory of its own that it has not written: node is the first that shows
     * it. */
    PH_VERIFY_POISON = 5,
    /* Both captures give the same, body run eagerly does not: it does something that no capture
     * sees. node: the last that changed the memory; SIZE_MAX where none does. */
    PH_VERIFY_BODY_DIFFERS = 6,
    /* Eager runs from the same contents differ, and no such two nodes are seen: body is not
     * deterministic, or goes by state that ph_verify_options.prepare is to set. */
    PH_VERIFY_EAGER_DIFFERS = 7,
    /* What was compared is the same, and that is not all that the graph's nodes may write
     * (`compared` and `written`): memory of other code's that is left out, that the driver
     * cannot read or does not know, or nodes that write what no parameter of theirs tells. Never
     * with named outputs, which are compared as a whole. message says what is missing. */
    PH_VERIFY_PARTLY = 8
} ph_verify_verdict;
typedef struct ph_verify_result {
    ph_verify_verdict verdict; /* NONE after an error */
    size_t node;               /* SIZE_MAX: none */
    const void *address;       /* of the number, or the 4 bytes, that differ first; NULL: none */
    /* Bytes, or numbers of the outputs; of a node with NODE_DIFFERS and POISON always bytes. */
    size_t different, compared;
    char message[600]; /* node, kernel, annotation, parameter, both values */
    /* Bytes that the nodes may write, as far as their parameters tell: the allocations that
     * kernels address, and what copies and fills write. Without named outputs `compared` counts
     * those of them that were compared. */
    size_t written;
    uint64_t reserved[3];
} ph_verify_result;
PH_CALL ph_graph_verify(ph_verify_result *out, ph_graph *graph, ph_stream *stream,
                        ph_capture_fn body, void *user, const ph_verify_options *options);

PH_END_DECLS
#endif
