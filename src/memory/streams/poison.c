/* SPDX-License-Identifier: MIT */
/* memory/streams/poison.c: debug_poison: freed blocks are filled, so that a read of freed memory is
 * visible. */
#include "memory/streams/poison.h"
#include "base/log.h"
#include "memory/block/block.h"
#include "memory/state/memory_state.h"
#include "memory/state/segment.h"

/* Memory that a captured graph owns is left alone: its replays use it whether it is free or not.
 * While any capture is open nothing is filled, as the fill could become a part of it. */
void ph__poison(ph__memory *memory, const ph__block *block)
{
    ph_device *device = memory->device;
    const ph__mseg *mseg = ph__mseg_of(block);
    if (!device->options.debug_poison || mseg->captured)
        return;
    ph__drv_memset fill = {(void *)block->address, 0xDB, 1, block->size};
    int result = PH__R_OK;
    pthread_mutex_lock(&device->capture_lock);
    if (atomic_load(&device->open_captures) == 0 && ph__stream_capture_id_locked(mseg->stream) == 0)
        result = memory->driver->fill(mseg->stream->handle, &fill);
    pthread_mutex_unlock(&device->capture_lock);
    if (result != PH__R_OK)
        atomic_store(&memory->poison_failure, result);
}

void ph__poison_report(ph__memory *memory)
{
    int result = atomic_exchange(&memory->poison_failure, 0);
    if (result != 0)
        ph__log(PH_LOG_WARNING,
                "ph_free: a block was freed without being poisoned: %s gave %d (%s)",
                PH__NAME_MEMSET_ASYNC, result, ph__result_name(result));
}
