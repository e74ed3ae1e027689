/* SPDX-License-Identifier: MIT */
/* phonograph/cells.h: values that a captured graph gets anew at each replay, without a further
 * launch: seeds and offsets of random numbers, learning rates, step counts
 * (docs/reference/cells.md). */
#ifndef PHONOGRAPH_CELLS_H
#define PHONOGRAPH_CELLS_H
#include <phonograph/graph.h>

PH_BEGIN_DECLS

enum {
    PH_CELLS_MAX = 16 /* cells of one source */
};

/* The source of the values.
 * - values and launched are called under a lock that all replays of graphs with cells on the device
 *   share, so that no other such replay comes between. They must be quick, and must not call the
 *   library, except ph_fail.
 * - captured and release are called with no lock held. They may call the library, but must not use
 *   the graph. */
typedef struct ph_cells_source {
    size_t count; /* cells, 1 to PH_CELLS_MAX */
    /* Called at each replay, before the launch, on the replaying thread. Writes count words. A
     * failure stops the replay before the launch, and is its status. */
    ph_status (*values)(uint64_t *values, void *user);
    /* Called after the launch, once for each successful call of values: whether the launch
     * succeeded. May be NULL. */
    void (*launched)(void *user, bool launched);
    /* Called once, before the graph's hooks, when the capture has ended with success. May be
     * NULL. */
    void (*captured)(void *user);
    /* The last call, once: the capture was aborted or failed, or the graph was reset or destroyed.
     * May be NULL. */
    void (*release)(void *user);
    void *user;
    uint64_t reserved[4];
} ph_cells_source;

/* Makes count cells for the capture that the stream is in. This library must have begun the
 * capture.
 * - cells[i] is the device address of cell i, a word of 64 bits. Every replay writes it before all
 *   work that is submitted to this stream from now on. A kernel reads the value of its own replay,
 *   whatever replays follow.
 * - Each cell is a block of its own in the default pool, whatever pool scope the thread is in, for
 *   as long as the graph has the capture. It is no memory of the capture's pool. Nothing writes it
 *   during the capture.
 * - The call includes ph_cells_require for this stream.
 * - On failure, cells[0] to cells[count - 1] are NULL, and release is not called.
 * - Errors: STATE (the stream is not capturing), CAPTURE (900: a capture that this library did not
 *   begin; 901: an invalidated one), DEVICE_MEMORY, HOST_MEMORY. Thread-safe. */
PH_CALL ph_cells_create(uint64_t **cells, ph_stream *stream, const ph_cells_source *source);

/* Orders later work on this capturing stream after the writes of all present cells of the capture.
 * For a stream that reads a cell, but joined the capture before it was made. Cheap if the order
 * exists already; does nothing in a capture without cells. Errors: as ph_cells_create.
 * Thread-safe. */
PH_CALL ph_cells_require(ph_stream *stream);

PH_END_DECLS
#endif
