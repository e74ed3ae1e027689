/* SPDX-License-Identifier: MIT */
/* comm/nccl/memory.c: memory that NCCL allocates, and registers with one communicator. */
#include "comm/nccl/memory.h"
#include "device/capture/refuse.h"
#include <phonograph/cuda.h>

bool ph__nccl_has_memory(void)
{
    const ph__nccl_memory_functions *f = &ph__nccl_memory_api;
    return f->MemAlloc && f->MemFree && f->CommRegister && f->CommDeregister;
}

static bool is_good(int result)
{
    return result == PH__NCCL_SUCCESS || result == PH__NCCL_IN_PROGRESS;
}

ph_status ph__nccl_memory_create(void **out, void **registration, ph__nccl *nccl, size_t bytes)
{
    char reason[PH__ENGINE_REASON];
    ph_capture_mode mode;
    void *memory = NULL;
    ph__nccl_raw *raw = ph__nccl_enter(nccl, &mode);
    if (raw == NULL)
        return ph_fail(PH_ERROR_PEER, "NCCL's communicator was aborted");
    const int allocated = ph__nccl_memory_api.MemAlloc(&memory, bytes);
    int result = allocated;
    if (allocated == PH__NCCL_SUCCESS)
        result = ph__nccl_memory_api.CommRegister(raw, memory, bytes, registration);
    if (!is_good(result)) {
        ph__nccl_reason(reason, raw, result, memory ? "ncclCommRegister" : "ncclMemAlloc");
        if (memory)
            (void)ph__nccl_memory_api.MemFree(memory);
    }
    ph__nccl_leave(nccl, mode);
    if (!is_good(result))
        return ph_fail(allocated == PH__NCCL_SUCCESS ? PH_ERROR_DEVICE : PH_ERROR_DEVICE_MEMORY,
                       "%zu bytes that NCCL is to register: %s", bytes, reason);
    *out = memory;
    return PH_OK;
}

bool ph__nccl_deregister(ph__nccl *nccl, void *registration)
{
    ph_capture_mode mode;
    ph__nccl_raw *raw = ph__nccl_enter(nccl, &mode);
    if (raw == NULL)
        return ph__nccl_is_over(nccl);
    int result = ph__nccl_memory_api.CommDeregister(raw, registration);
    ph__nccl_leave(nccl, mode);
    return is_good(result);
}

void ph__nccl_memory_destroy(ph_device *device, void *memory)
{
    ph_capture_mode mode;
    if (ph_context_push_cuda(device) != PH_OK)
        return; /* the context has gone, and the memory with it */
    ph__relaxed_begin(device, &mode);
    (void)ph__nccl_memory_api.MemFree(memory);
    ph__relaxed_end(device, mode);
    ph_context_pop_cuda(device);
}
