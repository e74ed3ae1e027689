/* SPDX-License-Identifier: MIT */
/* memory/poison.c: debug_poison: freed blocks are filled, so that a read of freed memory is visible. */
#include "memory/state.h"

/* Memory that a captured graph owns is left alone: its replays use it whether it is free or not. While any
 * capture is open nothing is filled, as the fill could become a part of it. */
void ph__poison(ph__memory *memory, const ph__block *block)
{
    ph_device *device = memory->device;
    const ph__mseg *mseg = ph__mseg_of(block);
    if (!device->options.debug_poison || mseg->captured)
        return;
    ph__drv_memset fill = {(void *)block->address, 0xDB, 1, block->size};
    pthread_mutex_lock(&device->capture_lock);
    if (atomic_load(&device->open_captures) == 0)
        (void)memory->driver->fill(mseg->stream->handle, &fill);
    pthread_mutex_unlock(&device->capture_lock);
}
