/* SPDX-License-Identifier: MIT */
/* driver/host/stream/scratch.c: shared memory for a stream's kernels, had before they are
 * submitted. */
#include "driver/host/stream/scratch.h"
#include "base/checked.h"
#include "driver/host/stream/command.h"
#include "driver/host/stream/queue.h"

enum {
    SLICE_ALIGNMENT = 64
};

/* Shared memory for a stream's kernels; a command that, when its turn comes, takes the place of
 * the smaller one before it. */
struct ph__host_scratch {
    ph__host_command command;
    ph__host_stream *stream;
    ph__host_slices slices;
};

static void install_scratch(ph__host_command *command)
{
    ph__host_scratch *fresh = (ph__host_scratch *)command;
    ph__free(fresh->stream->scratch);
    fresh->stream->scratch = fresh;
}

static ph__host_scratch *create_scratch(ph__host_stream *stream, size_t bytes)
{
    size_t stride, all;
    if (!ph__round_up(bytes, SLICE_ALIGNMENT, &stride) ||
        !ph__mul(stride, ph__workers_count(stream->device->workers), &all) ||
        !ph__add(all, sizeof(ph__host_scratch) + SLICE_ALIGNMENT, &all))
        return NULL;
    ph__host_scratch *fresh = ph__alloc(all);
    if (!fresh)
        return NULL;
    uintptr_t first = (uintptr_t)(fresh + 1);
    size_t past = first % SLICE_ALIGNMENT;
    *fresh = (ph__host_scratch){.command = {.run = install_scratch}, .stream = stream};
    fresh->slices.at = (unsigned char *)(fresh + 1) + (past ? SLICE_ALIGNMENT - past : 0);
    fresh->slices.stride = stride;
    return fresh;
}

int ph__host_stream_reserve_scratch(ph__host_stream *stream, size_t bytes)
{
    if (bytes == 0)
        return 0;
    ph__spin_lock(&stream->lock);
    bool enough = stream->scratch_promised >= bytes;
    ph__spin_unlock(&stream->lock);
    if (enough)
        return 0;
    ph__host_scratch *fresh = create_scratch(stream, bytes);
    if (!fresh)
        return PH__R_OUT_OF_MEMORY;
    ph__spin_lock(&stream->lock);
    enough = stream->scratch_promised >= bytes;
    bool wake = false;
    if (!enough) {
        stream->scratch_promised = bytes;
        ph__host_queue_append(stream, &fresh->command);
        wake = ph__host_queue_claim_wake(stream);
    }
    ph__spin_unlock(&stream->lock);
    ph__host_queue_appended(stream, wake);
    if (enough)
        ph__free(fresh);
    return 0;
}

ph__host_slices ph__host_stream_scratch(const ph__host_stream *stream)
{
    return stream->scratch ? stream->scratch->slices : (ph__host_slices){0};
}
