/* SPDX-License-Identifier: MIT */
/* memory/report/record_history.c: the switch of the history. */
#include "base/alloc.h"
#include "memory/pool/attach.h"
#include "memory/state/history.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"

ph_status ph_memory_record_history(ph_device *device, size_t max_entries)
{
    static const char call[] = "ph_memory_record_history";
    ph__history *fresh = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (max_entries > (SIZE_MAX - sizeof *fresh) / sizeof fresh->at[0])
        return ph__fail_native(PH_ERROR_SIZE, 0, NULL, "%s: %zu entries are too many", call,
                               max_entries);
    ph__memory *memory = ph__memory_attach(device, call);
    if (!memory)
        return ph_error_last()->status;
    if (max_entries > 0) {
        fresh = ph__alloc(sizeof *fresh + max_entries * sizeof fresh->at[0]);
        if (!fresh)
            return ph__fail_host_memory(call, "the history");
        fresh->capacity = max_entries;
        fresh->written = 0;
    }
    ph__memory_lock(memory);
    ph__history *old = memory->history;
    memory->history = fresh;
    ph__set_slow_path(memory, PH__SLOW_HISTORY, fresh != NULL);
    ph__spin_unlock(&memory->lock);
    ph__free(old);
    return PH_OK;
}
