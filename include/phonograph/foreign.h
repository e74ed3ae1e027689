/* SPDX-License-Identifier: MIT */
/* phonograph/foreign.h: memory and captures of other code. Blocks of another allocator, as
 * PyTorch's, are announced: their end is then seen as a free is (docs/reference/liveness.md).
 * Captures that other code began get their memory from a pool (docs/reference/memory.md). */
#ifndef PHONOGRAPH_FOREIGN_H
#define PHONOGRAPH_FOREIGN_H
#include <phonograph/memory.h>

PH_BEGIN_DECLS

/* The driver knows the segments of another caching allocator, and nothing of the blocks in them. An
 * announced block is known until its end:
 * - Words of records, slots, inputs of graphs and ph_memory_lookup find it, with `foreign` set and
 *   a generation of its own. A record and a check of inputs have the blocks that were announced
 *   when the capture ended.
 * - Its end is a free: a graph that checks its inputs and has a proved word in it refuses the next
 *   replay (STALE_INPUT), also where another block was announced at the same address since.
 *   A replay still compares one counter, however many blocks there are.
 * - This library neither reads, frees nor holds the memory, and counts it in no statistics and no
 *   snapshot. Copies and fills are bounded by what the driver says, not by the block.
 *
 * All calls here are thread-safe, call no driver, and are legal in a capture. Announcing, ending
 * and looking up take time that grows with the logarithm of the number of blocks. The announcements
 * of a device handle end with the device. */
typedef struct ph_foreign_block {
    const void *address;
    size_t bytes;
    /* whose it is and where it was allocated, for messages: the first line stands in each message,
     * all of it in ph_input_info.allocated_at. Copied, cut after 4,095 bytes; NULL: "". */
    const char *label;
    bool pinned; /* pinned host memory */
    uint64_t reserved[4];
} ph_foreign_block;

/* Announces a block. The call makes a new block, also at the place of an older one.
 * - generation: set to the number of the block, which is unique in the process and never 0. 0 on
 *   failure. May be NULL.
 * - Announced blocks that overlap it end, as by ph_foreign_end.
 * - A block that this library's allocator takes from the driver later, at a place that overlaps
 *   announced blocks, ends them.
 * - ARGUMENT: device, block or the address is NULL; the block has 0 bytes, or overlaps memory of
 *   this library's allocator. SIZE: it leaves the address space. HOST_MEMORY: it is not announced,
 *   and blocks that it overlaps may have ended. */
PH_CALL ph_foreign_announce(uint64_t *generation, ph_device *device, const ph_foreign_block *block);

/* Ends the announced block that begins at the address: its owner has freed it.
 * - generation: of ph_foreign_announce. 0: whatever block is announced there.
 * - where: what ended it, for messages about graphs that address it (ph_input_info.freed_at).
 *   Copied, cut as a label; may be NULL. The texts of the newest 1,024 such blocks are kept.
 * - NOT_FOUND: no such block. It has ended, or another one was announced there since: who ends
 *   blocks in finalizers ignores it.
 * - ARGUMENT: device or address is NULL. */
PH_CALL ph_foreign_end(ph_device *device, const void *address, uint64_t generation,
                       const char *where);

/* The label of the announced block around the address, which may be an interior one. *out is freed
 * with ph_string_free; NULL on failure. NOT_FOUND: no announced block of this device is there. */
PH_CALL ph_foreign_label(char **out, const ph_device *device, const void *address);

/* How many blocks are announced. 0 for NULL. */
PH_API size_t ph_foreign_count(const ph_device *device);

/* ---- captures that this library did not begin ---- Without a pool, allocations on their streams
 * are refused, as nothing would keep the memory for the graph.
 *
 * begin: `stream` is in a capture that other code began. Until end, allocations on every stream of
 * that capture, by any thread, come from the pool, which records that capture alone.
 * - Blocks are reused inside the capture, in the order of its graph. Memory of other pools that the
 *   capturing thread frees meanwhile waits for end. Nothing blocks and nothing goes back to the
 *   device until then, as in a capture of this library.
 * - The pool is held from begin to release, as by a graph: its memory goes back to nobody else.
 *   A further capture may begin after end, in the same pool, and gets memory that was freed there.
 * - Memory of other pools is not kept for the graph, although its nodes may address it.
 * - Work in the pool beside the captures, as allocations in ph_pool_begin, is not ordered behind
 *   replays of the other code: use such a pool for captures alone.
 * - STATE: stream is in no capture, in one of this library, or in one that has a pool. CAPTURE:
 *   its capture is broken. POOL_BUSY: the pool is being recorded to. WRONG_DEVICE.
 *
 * end: the capture is over, or about to be. Call it in any case, also after a capture that failed.
 * STATE: no capture of other code records to the pool.
 *
 * release: the graph of one ended capture is gone, and the work of its replays done. STATE: none
 * was ended and not released; the pool is still recorded to.
 *
 * Thread-safe, but for two begins with one capture at a time. Legal in a capture. */
PH_CALL ph_pool_capture_begin(ph_pool *pool, ph_stream *stream);
PH_CALL ph_pool_capture_end(ph_pool *pool);
PH_CALL ph_pool_capture_release(ph_pool *pool);

/* ---- what killed a capture of other code ---- Between begin and end failing calls of the driver
 * are noted, as they are for captures of this library (docs/guide/cuda.md).
 *
 * begin: the calling thread has begun the capture with that number on the device
 * (cuStreamGetCaptureInfo has it).
 * - The driver reports calls of other code from CUDA 12.9 on, or by PH_CULPRIT=cupti.
 * - ARGUMENT: out or device is NULL, or capture_id is 0. HOST_MEMORY.
 *
 * end: ends the watch in any case, on any thread.
 * - *text: the call that may have killed the capture, its number and meaning, its thread, and the
 *   functions that it came from. NULL: no such call was seen. Free it with ph_string_free. text may
 *   be NULL.
 * - ARGUMENT: watch is NULL. HOST_MEMORY: no memory for the text.
 *
 * Thread-safe. Legal in a capture. */
typedef struct ph_culprit_watch ph_culprit_watch;
PH_CALL ph_culprit_watch_begin(ph_culprit_watch **out, ph_device *device, uint64_t capture_id);
PH_CALL ph_culprit_watch_end(char **text, ph_culprit_watch *watch);

PH_END_DECLS
#endif
