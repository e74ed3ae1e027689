/* SPDX-License-Identifier: MIT */
/* inspect/verify/blocks.c: the block that an address is in: of the capture, of other code, or of
 * the library. */
#include "inspect/verify/blocks.h"
#include "memory/observe/lookup.h"

bool ph__verify_find_block(ph_allocation *out, const ph__verify *verify, uintptr_t address)
{
    const ph__logged_allocation *block = ph__block_index_find(&verify->blocks, address);
    if (block == NULL) {
        const ph__range *foreign = ph__ranges_find(&verify->foreign, address);
        if (foreign == NULL)
            return ph__memory_find(out, verify->graph->device, (const void *)address);
        out->base = (void *)foreign->base;
        out->requested = out->size = foreign->size;
        return true;
    }
    out->base = (void *)block->address;
    out->requested = block->requested;
    return true;
}
