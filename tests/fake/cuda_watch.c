/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_watch.c: launches of executables whose nodes are told of as they ran, for the
 * tests' own CUPTI. */
#include "cuda_inside.h"
#include "driver/host/stream/wait.h"

static const ph__driver *const host = &ph__driver_host;
static _Atomic(fake_cuda_told) told_to;

void fake_watch_nodes(fake_cuda_told told)
{
    atomic_store(&told_to, told);
}

bool fake_is_watched(void)
{
    return atomic_load(&told_to) != NULL;
}

uint64_t fake_node_id(const void *node)
{
    return UINT64_C(1) << 32 | ph__host_node_of((ph__drv_node *)(uintptr_t)node)->index;
}

uint32_t fake_exec_id(const void *exec)
{
    return ((ph__cu_exec)(uintptr_t)exec)->id;
}

static void tell(ph__cu_exec exec, const ph__drv_span *span, fake_cuda_told told)
{
    const ph__host_node *node = ph__host_node_of(span->node);
    bool enabled = true;
    if (node->work.kind <= PH_NODE_MEMSET &&
        host->exec_get_enabled(&enabled, exec->exec, span->node) != 0)
        return;
    /* The nodes of bodies have names that no node of the template has. */
    uint64_t id = node->work.body ? UINT32_C(0x40000000) + node->index : node->index;
    const fake_cuda_node_run run = {.kind = node->work.kind,
                                    .id = (uint64_t)exec->id << 32 | id,
                                    .start_ns = span->start_ns,
                                    .end_ns = span->end_ns};
    if (enabled)
        told(&run);
}

/* Returns when it is over. */
int fake_launch_watched(ph__cu_exec exec, const fake_target *target)
{
    fake_cuda_told told = atomic_load(&told_to);
    ph__host_stream *stream = (ph__host_stream *)target->stream;
    ph_profile_source source = PH_PROFILE_DEVICE;
    ph__drv_profile *profile;
    const ph__drv_span *spans;
    size_t count = 0;
    fake_wait_for_launches(exec);
    int result = host->profile_open(&profile, exec->exec, &source);
    if (result)
        return result;
    result = host->exec_launch(exec->exec, target->stream);
    if (!result) {
        ph__host_queue_wait(stream, atomic_load(&stream->submitted));
        fake_wait_for_launches(exec);
        result = host->profile_read(&spans, &count, profile);
    }
    for (size_t i = 0; !result && told && i < count; i++)
        tell(exec, &spans[i], told);
    host->profile_close(profile);
    return result;
}
