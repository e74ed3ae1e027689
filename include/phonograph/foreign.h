/* SPDX-License-Identifier: MIT */
/* phonograph/foreign.h: blocks of another allocator, as PyTorch's, which are announced to this
 * library: their end is then seen as a free of its own memory is (docs/reference/liveness.md). */
#ifndef PHONOGRAPH_FOREIGN_H
#define PHONOGRAPH_FOREIGN_H
#include <phonograph/device.h>

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

PH_END_DECLS
#endif
