/* SPDX-License-Identifier: MIT */
/* comm/pool/region.c: a piece of memory: from NCCL, or from the device, and back. */
#include "comm/pool/region.h"
#include "base/alloc.h"
#include "comm/nccl/memory.h"
#include "comm/object/gpu.h"
#include "comm/object/wait.h"
#include "device/capture/refuse.h"

bool ph__comm_registers(const ph_comm *comm)
{
    return comm->gpu != NULL;
}

/* NCCL registers, and other threads submit nothing meanwhile. */
static ph_status create_by_nccl(ph__registered *region, ph_comm *comm, size_t bytes)
{
    const ph__operation what = {.kind = PH__OPERATION_REGISTER};
    ph__nccl *nccl = comm->gpu->data;
    ph__mutex_lock(&comm->gpu->calls);
    ph_status status = ph__nccl_memory_create(&region->memory, &region->registration, nccl, bytes);
    if (status == PH_OK)
        status = ph__gpu_wait_launched(comm, nccl, ph__comm_deadline(comm->timeout_ns), &what);
    ph__mutex_unlock(&comm->gpu->calls);
    region->by_nccl = region->memory != NULL;
    return status;
}

static ph_status create_plain(ph__registered *region, const ph_device *device, size_t bytes,
                              const char *call)
{
    int result = device->driver->segment_create(&region->memory, device->handle, bytes);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_MEM_CREATE,
                                                "%s: a segment of %zu bytes", call, bytes);
}

ph_status ph__registered_create(ph__registered **out, ph_comm *comm, size_t bytes, const char *call)
{
    ph__registered *region = ph__calloc(1, sizeof *region);
    if (region == NULL)
        return ph__fail_host_memory(call, "the record of the memory");
    region->bytes = bytes;
    ph_status status = ph__comm_registers(comm) ? create_by_nccl(region, comm, bytes)
                                                : create_plain(region, comm->device, bytes, call);
    if (status == PH_OK) {
        *out = region;
        return PH_OK;
    }
    /* NCCL has failed in the middle: the memory stays, as NCCL may still have it. */
    ph__free(region);
    return status;
}

bool ph__registered_deregister(ph__registered *region, ph_comm *comm)
{
    if (region->registration == NULL)
        return true;
    if (comm == NULL || comm->gpu->data == NULL || !ph__mutex_try(&comm->gpu->calls))
        return false;
    bool over = ph__nccl_deregister(comm->gpu->data, region->registration);
    ph__mutex_unlock(&comm->gpu->calls);
    if (over)
        region->registration = NULL;
    return over;
}

void ph__registered_destroy(ph__registered *region, ph_device *device)
{
    ph_capture_mode mode;
    if (region->by_nccl) {
        ph__nccl_memory_destroy(device, region->memory);
    } else {
        ph__relaxed_begin(device, &mode);
        device->driver->segment_destroy(device->handle, region->memory, region->bytes);
        ph__relaxed_end(device, mode);
    }
    ph__free(region);
}
