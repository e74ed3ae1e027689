/* SPDX-License-Identifier: MIT */
/* phonograph/inspect/locate.h: where a fault is: how far a replay came that faults or hangs, which
 * output first had a NaN, and which node of a replay differs from an eager run
 * (docs/reference/locate.md). */
#ifndef PHONOGRAPH_INSPECT_LOCATE_H
#define PHONOGRAPH_INSPECT_LOCATE_H
#include <phonograph/annotation.h>

PH_BEGIN_DECLS

/* ---- breadcrumbs ---- Small kernel nodes, "phonograph_breadcrumb", that report the progress of a
 * replay. ph_capture_options.breadcrumbs, with enable_annotations, captures them: one before all
 * others, and one at the beginning and end of each scope that begins on a stream of the capture
 * (ph_annotation_push), on that stream.
 * - They are off at first, and after each instantiate. An update leaves them as they are.
 * - A disabled node does nothing; its edges still order the others. A programmatic launch behind
 *   one waits for all work before it.
 * - An enabled node writes a word of pinned host memory.
 * - The switch needs no new capture and no new executable. It takes some microseconds for each
 *   breadcrumb, and holds for later replays.
 * - In a copy of the graph (a replay into another capture) they write nothing.
 * - A capture without scopes on its streams has only the first node, which stays off, at the cost
 *   of a disabled node.
 * - STATE: captured without breadcrumbs or without such scopes, or no executable. HOST_MEMORY. */
PH_CALL ph_graph_breadcrumbs_enable(ph_graph *graph, bool enabled);

typedef struct ph_progress {
    /* the replay has passed every breadcrumb; work behind the last may still run */
    bool complete;
    /* breadcrumbs that the replay has passed, and their number, without the one before all
     * others */
    size_t passed, count;
    /* The scopes that have begun and not ended, the latest first, as paths: "layer 3/attention" is
     * a scope in another. A scope without a name has its pairs as name, "layer=3".
     * - Borrowed until the graph's next call.
     * - NULL, count 0: before the first scope, between two, or complete.
     * - A scope that did not end on a stream of the capture, or that ph_annotation_unwind ended,
     *   which names no stream, counts as begun until all breadcrumbs are passed. */
    const char *const *open;
    size_t open_count;
    /* the scope whose beginning or end was passed last, borrowed as open is; NULL: none */
    const char *last;
    char message[400]; /* all of this in a sentence */
    uint64_t reserved[4];
} ph_progress;
/* Reports the progress of the last replay that began with breadcrumbs enabled. STATE: there is
 * none, or the capture has no breadcrumbs.
 * - Reads only host memory, and calls no driver. So it works while the replay runs or hangs, and
 *   after the device was lost.
 * - For a watchdog: legal while another thread is inside ph_graph_replay of the graph, if that has
 *   no replay hooks.
 * - Not legal in a signal handler: it formats the message. */
PH_CALL ph_graph_where(ph_progress *out, ph_graph *graph);

/* ---- checks for NaN and infinity ---- Captures a check of `count` numbers at address, a multiple
 * of their size: a kernel node, "phonograph_check_finite". It is off until checks are enabled. It
 * comes in the order of the stream.
 * - name: copied; NULL: "".
 * - Outside a capture it checks its arguments and does nothing, so that a body can also run
 *   eagerly. Legal in a capture, its purpose.
 * - Errors: ARGUMENT (also memory that is neither the device's nor pinned), SIZE (beyond the
 *   allocation), NOT_FOUND (memory of this library that is not allocated), HOST_MEMORY, CAPTURE (a
 *   capture that this library did not begin). */
typedef enum ph_number_type {
    PH_NUMBER_F32 = 0,
    PH_NUMBER_F64 = 1,
    PH_NUMBER_F16 = 2,
    PH_NUMBER_BF16 = 3
} ph_number_type;
PH_CALL ph_finite_check(ph_stream *stream, const void *address, ph_number_type type, size_t count,
                        const char *name);
/* Switches all checks of the graph, as with breadcrumbs. While they are on,
 * ph_graph_node_set_enabled switches a single one, whose node is in ph_finite_at. STATE: the
 * capture has none. */
PH_CALL ph_finite_enable(ph_graph *graph, bool enabled);
typedef struct ph_finite_result {
    const char *name; /* name and scope are borrowed until the graph is reset or captured again */
    /* the annotation scope of its capture, as in ph_progress; "" for none */
    const char *scope;
    size_t node; /* node of the check in the record */
    /* whether it ran in the last replay with checks on; if not, nothing is known, and bad is 0 */
    bool ran;
    uint64_t bad;   /* numbers that are NaN or infinite */
    uint64_t first; /* index of the first bad number; UINT64_MAX: none */
    double value;   /* the first bad number, a NaN or an infinity; 0: none */
    uint64_t reserved[4];
} ph_finite_result;
/* Results of the last replay with checks enabled, in the order of capture. Wait for the replay
 * first. No driver call. NOT_FOUND beyond the last. */
PH_CALL ph_finite_count(size_t *out, ph_graph *graph);
PH_CALL ph_finite_at(ph_finite_result *out, ph_graph *graph, size_t index);

/* ---- verify ---- Does a replay do the same as an eager run of the same function?
 *
 * Steps:
 * - Search the graph for races (races.h), unless the executable was changed or has slots. A certain
 *   one is the verdict, and nothing runs. Of possible ones some are run in both orders, after the
 *   first eager run: where the order decides the result, that is the verdict.
 * - Keep the contents of all memory that the nodes address, or that the capture received. Capture
 *   body a second time, with its present parameters.
 * - From those contents, each time with the device memory of the capture poisoned, as it has no
 *   contents before a write: run body eagerly on stream, with its allocations where the capture had
 *   them; replay the graph with two different poisons.
 * - Compare every byte of that memory, or the outputs of the options within their tolerance.
 * - Where these are equal, and the second capture has other nodes or parameters: replay that once,
 *   and compare its result too. Not with skip_foreign, collectives, cells without prepare, or
 *   blocks that the capture was not given; message says so then.
 * - After a difference: run the nodes one after another, and compare prefixes of the replay (later
 *   nodes disabled) with prefixes of the second capture, by bisection, for the first node that
 *   differs.
 * - Restore contents, switches and epoch.
 *
 * Memory and runs:
 * - Memory of other code is kept and compared as the library's own, where the driver knows its base
 *   and size; skip_foreign leaves it out.
 * - body is captured once, or up to three times where it no longer asks for blocks that it has
 *   kept. It runs eagerly once, and up to three times more where a changed parameter is not the
 *   difference, as an eager run may race too.
 * - Host functions, replay hooks and sources of cells run with every replay. Scopes that body and
 *   prepare leave open are ended.
 * - Device memory that body leaves allocated lies where the capture left it, and is live, unless
 *   that place is in use by now.
 * - body and prepare must not use the graph (STATE).
 *
 * Arguments, errors, threads:
 * - Waits for the device. No other work may use that memory meanwhile. Contents are copied to the
 *   host four times.
 * - Instantiates where there is no executable. stream: any but the default one, not capturing.
 * - STATE; errors of ph_graph_replay, ph_graph_capture and body; STALE_INPUT (a proved input was
 *   freed, whatever the options of the graph).
 * - ARGUMENT: an output in memory that the graph does not address or that is left out, an empty or
 *   misaligned output, or a tolerance without outputs.
 * - HOST_MEMORY: no memory for the copies, or for the blocks that body left allocated, which are
 *   then not live.
 * - UNSUPPORTED: the record has memory nodes, nested graphs, conditionals, semaphores or batches.
 * - A difference is no error; *out has it (docs/reference/locate.md). */
typedef struct ph_verify_output {
    const void *address;
    ph_number_type type;
    size_t count;
    const char *name; /* for messages; may be NULL */
} ph_verify_output;
typedef struct ph_verify_options {
    const ph_verify_output *outputs; /* NULL, with an output_count of 0: every byte, exactly */
    size_t output_count;
    /* For outputs only: |a - b| <= absolute + relative * |b|, where b is the eager value. NaN
     * equals NaN. */
    double relative, absolute;
    /* Called before each run, eager, captured or replayed, with the user of body. Sets state that
     * is no memory of the graph: states of generators, step counts. May be NULL. Without it, graphs
     * with cells (cells.h) are replayed with one poison only, and not node by node. */
    ph_status (*prepare)(ph_stream *stream, void *user);
    /* Memory of other code is neither kept nor compared nor restored: each run changes it. For
     * memory that other code uses meanwhile (buffers of a collective library), or that is too large
     * to keep four times on the host. */
    bool skip_foreign;
    uint64_t reserved[2];
} ph_verify_options;
typedef enum ph_verify_verdict {
    PH_VERIFY_NONE = 0, /* the call failed: nothing is known */
    /* message also names parameters that differ in a second capture: addresses, learning rates,
     * seeds. Each time it says whether a replay of that capture gave the same result from these
     * contents, or was not compared. */
    PH_VERIFY_EQUAL = 1,
    /* The second capture has other nodes or edges, which message names (diff.h). different is 0
     * where a replay of the graph gives what an eager run gives all the same; message then also
     * says what a replay of the second capture gives. */
    PH_VERIFY_CAPTURE_DIFFERS = 2,
    /* node: the first whose result differs from its result in the second capture. Also where the
     * eager run gave what the graph gives, as of a body that alternates; message says so. */
    PH_VERIFY_NODE_DIFFERS = 3,
    /* A dependency is missing. message names such nodes where it finds some. Either of these:
     * - The nodes one after another give the eager result, and all at once they do not. node is the
     *   first that shows it.
     * - Eager runs differ from one another, and two nodes without a path between them share memory
     *   that one of them writes. node is the later one. */
    PH_VERIFY_ORDER = 4,
    /* The replay reads memory of its own before it writes it. node: the first that shows it. */
    PH_VERIFY_POISON = 5,
    /* Both captures give the same result, and an eager run does not: body does work that no capture
     * sees. node: the last that changed the memory; SIZE_MAX: none did. */
    PH_VERIFY_BODY_DIFFERS = 6,
    /* Eager runs from the same contents differ, and no such two nodes are found: body is not
     * deterministic, or uses state that ph_verify_options.prepare must set. */
    PH_VERIFY_EAGER_DIFFERS = 7,
    /* All compared memory is equal, and message names what is missing. Never with named outputs,
     * which are compared in full. Any of these:
     * - The nodes may write more (`compared` and `written`): memory of other code that is left out,
     *   or that the driver cannot read or does not know, or writes that no parameter shows.
     * - body submits work to streams outside of its capture, which runs at once there and in no
     *   replay.
     * - A call of body was refused while it was captured, and body dropped the status. message has
     *   the message of that call. */
    PH_VERIFY_PARTLY = 8,
    /* Two nodes use the same memory, at least one writes it, and no path leads from one to the
     * other: a wait is missing. node: the later one. message names both, and the bytes. Either the
     * race is certain (ph_graph_find_races), and `different` and `compared` are 0, or the two, one
     * after another, give another result in the other order. */
    PH_VERIFY_RACE = 9,
    /* Nothing was found, and nothing was compared: no node of the graph writes memory that is kept,
     * as of a capture whose work all went elsewhere. message says what is known. */
    PH_VERIFY_NOTHING = 10
} ph_verify_verdict;
typedef struct ph_verify_result {
    ph_verify_verdict verdict; /* NONE after an error */
    size_t node;               /* SIZE_MAX: none */
    /* the address of the first number, or 4 bytes, that differ; NULL: none */
    const void *address;
    /* Bytes, or numbers of the outputs. For a node with NODE_DIFFERS or POISON always bytes. */
    size_t different, compared;
    char message[600]; /* node, kernel, annotation, parameter, both values */
    /* Bytes that the nodes may write, as far as their parameters show: allocations that kernels
     * address, and the targets of copies and fills. Without named outputs, `compared` counts those
     * of them that were compared. */
    size_t written;
    uint64_t reserved[3];
} ph_verify_result;
PH_CALL ph_graph_verify(ph_verify_result *out, ph_graph *graph, ph_stream *stream,
                        ph_capture_fn body, void *user, const ph_verify_options *options);

PH_END_DECLS
#endif
