/* SPDX-License-Identifier: MIT */
/* memory/streams/uses.c: the stream uses of a block: which other streams use it. */
#include "memory/streams/uses.h"
#include "base/alloc.h"
#include "base/vec.h"
#include "memory/state/memory_state.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/events.h"

ph__stream_uses *ph__stream_uses_create(void)
{
    ph__stream_uses *uses = ph__calloc(1, sizeof *uses);
    if (!uses)
        return NULL;
    if (!ph__vec_reserve(&uses->list, 2)) {
        ph__free(uses);
        return NULL;
    }
    return uses;
}

static void free_list(ph__memory *memory, ph__stream_use_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        ph__mark_recycle(memory, list->at[i].event);
        ph__stream_release(list->at[i].stream);
    }
    ph__vec_free(list);
}

void ph__stream_uses_destroy(ph__memory *memory, ph__stream_uses *uses)
{
    if (!uses)
        return;
    free_list(memory, &uses->list);
    free_list(memory, &uses->later);
    ph__vec_free(&uses->markers);
    ph__free(uses);
}

/* While the record waits its list is in use: what comes then is kept apart. */
bool ph__stream_uses_add(ph__stream_uses *uses, ph_stream *stream, uint64_t capture_id, bool older)
{
    bool waits = uses->state == PH__BLOCK_PENDING || uses->state == PH__BLOCK_DEFERRED;
    ph__stream_use_list *list = waits ? &uses->later : &uses->list;
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].stream == stream && list->at[i].capture_id == capture_id)
            return true;
    if (!ph__vec_reserve(list, 1))
        return false;
    list->at[list->count++] =
        (ph__use){.stream = ph__stream_retain(stream), .capture_id = capture_id, .older = older};
    return true;
}

void ph__stream_uses_drop(ph__memory *memory, ph__stream_uses *uses, size_t i)
{
    ph__use use = uses->list.at[i];
    uses->list.at[i] = uses->list.at[--uses->list.count];
    ph__mark_recycle(memory, use.event);
    ph__stream_release(use.stream);
}
