/* SPDX-License-Identifier: MIT */
/* phonograph/cells.h: values that a captured graph takes anew at each replay, at the cost of no
 * further launch: seeds and offsets of random numbers, learning rates, step counts.
 * docs/reference/cells.md tells how. */
#ifndef PHONOGRAPH_CELLS_H
#define PHONOGRAPH_CELLS_H
#include <phonograph/graph.h>

PH_BEGIN_DECLS

enum {
    PH_CELLS_MAX = 16 /* cells of one source */
};

/* Where the values come from. values and launched are called under a lock that all replays of
 * graphs with cells on the device share, so that no other such replay falls between them; they
 * must be quick, and must not call the library, ph_fail excepted. No lock is held around
 * captured and release, which may call it, but must leave the graph alone. */
typedef struct ph_cells_source {
    size_t count; /* cells, 1 to PH_CELLS_MAX */
    /* At each replay, before the launch, on the thread that replays: fills count words. A
     * failure stops the replay before the launch, and is its status. */
    ph_status (*values)(uint64_t *values, void *user);
    /* May be NULL. After the launch, for each call of values that went well: whether the launch
     * went out. */
    void (*launched)(void *user, bool launched);
    /* May be NULL. The capture has ended well: once, before the graph's hooks. */
    void (*captured)(void *user);
    /* May be NULL. Once, the last call: the capture was aborted or failed, or the graph was
     * reset or destroyed. */
    void (*release)(void *user);
    void *user;
    uint64_t reserved[4];
} ph_cells_source;

/* On a stream in a capture that this library began: makes count cells for this capture. cells[i]
 * is the device address of cell i: a word of 64 bits that every replay writes before anything
 * that was submitted to this stream from now on. A kernel that reads it gets the value of its
 * own replay, whatever replays follow. Cells are no memory of the capture's pool: each is a
 * block of its own in the default pool (whatever pool scope the thread is in), for as long as
 * the graph has the capture; nothing writes them at capture time. Does also what
 * ph_cells_require does for this stream. cells[0] to cells[count - 1] are NULL on failure, and
 * release is not called then. Errors: STATE when the stream is not capturing; CAPTURE, 900 in a
 * capture that this library did not begin, 901 in one that was invalidated; DEVICE_MEMORY,
 * HOST_MEMORY. Thread-safe. */
PH_CALL ph_cells_create(uint64_t **cells, ph_stream *stream, const ph_cells_source *source);

/* What is submitted to this capturing stream from now on is ordered after the writing of all
 * cells that the capture has by now: for streams that joined the capture before a cell was made,
 * and read it. Costs little when it is so already, and does nothing in a capture without cells.
 * Errors as of ph_cells_create. Thread-safe. */
PH_CALL ph_cells_require(ph_stream *stream);

PH_END_DECLS
#endif
