/* SPDX-License-Identifier: MIT */
/* memory/alloc/limit.c: the limit of a device. */
#include "memory/pool/attach.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"

ph_status ph_memory_set_limit(ph_device *device, size_t bytes)
{
    static const char call[] = "ph_memory_set_limit";
    if (!device)
        return ph__fail_null(call, "device");
    ph__memory *memory = ph__memory_attach(device, call);
    if (!memory)
        return ph_error_last()->status;
    ph__memory_lock(memory);
    memory->limit = bytes;
    ph__spin_unlock(&memory->lock);
    return PH_OK;
}
