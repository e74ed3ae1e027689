/* SPDX-License-Identifier: MIT */
/* memory/plan/notes.c: notes of a run: what it allocates and frees, and where in the graph. */
#include "memory/plan/notes.h"
#include "base/alloc.h"
#include "device/handles/hold.h"
#include "memory/state/short_cycle.h"

typedef PH__VEC(ph__drv_node *) node_list;
typedef PH__VEC(ph_stream *) stream_list;

/* ---- lifetime ---- */
ph__plan_notes *ph__plan_notes_begin(ph__memory *memory, uint64_t capture_id)
{
    ph__plan_notes *notes = ph__calloc(1, sizeof *notes);
    if (notes == NULL)
        return NULL;
    notes->memory = memory;
    notes->capture_id = capture_id;
    ph__memory_lock(memory);
    notes->next = memory->plan_notes;
    memory->plan_notes = notes;
    ph__set_slow_path(memory, PH__SLOW_PLAN, true);
    ph__spin_unlock(&memory->lock);
    return notes;
}

void ph__plan_notes_end(ph__plan_notes *notes)
{
    ph__memory *memory = notes->memory;
    ph__memory_lock(memory);
    ph__plan_notes **link = &memory->plan_notes;
    while (*link && *link != notes)
        link = &(*link)->next;
    if (*link)
        *link = notes->next;
    ph__set_slow_path(memory, PH__SLOW_PLAN, memory->plan_notes != NULL);
    ph__spin_unlock(&memory->lock);
}

void ph__plan_notes_free(ph__plan_notes *notes)
{
    if (notes == NULL)
        return;
    ph__plan_notes_end(notes);
    for (size_t i = 0; i < notes->streams.count; i++)
        ph__stream_release(notes->streams.at[i]);
    ph__vec_free(&notes->streams);
    ph__vec_free(&notes->blocks);
    ph__vec_free(&notes->nodes);
    ph__vec_free(&notes->uses);
    ph__map_free(&notes->live);
    ph__free(notes);
}

/* ---- parts of a note ---- lock held */
static ph__plan_notes *find_notes(const ph__memory *memory, uint64_t capture_id)
{
    ph__plan_notes *notes = memory->plan_notes;
    while (notes && notes->capture_id != capture_id)
        notes = notes->next;
    return notes;
}

static ph__planned_block *find_noted_block(ph__plan_notes **notes, const ph__memory *memory,
                                           const void *pointer)
{
    for (*notes = memory->plan_notes; *notes; *notes = (*notes)->next) {
        size_t number = (size_t)(uintptr_t)ph__map_get(&(*notes)->live, (uintptr_t)pointer);
        if (number)
            return &(*notes)->blocks.at[number - 1];
    }
    return NULL;
}

static bool add_noted_stream(size_t *out, ph__plan_notes *notes, ph_stream *stream)
{
    for (*out = notes->streams.count; (*out)-- > 0;)
        if (notes->streams.at[*out] == stream)
            return true;
    *out = notes->streams.count;
    if (!ph__vec_reserve(&notes->streams, 1))
        return false;
    notes->streams.at[notes->streams.count++] = ph__stream_retain(stream);
    return true;
}

static bool add_position(ph__plan_position *out, ph__plan_notes *notes, const node_list *nodes)
{
    *out = (ph__plan_position){notes->nodes.count, nodes->count};
    for (size_t i = 0; i < nodes->count; i++)
        if (!ph__vec_push(&notes->nodes, nodes->at[i]))
            return false;
    return true;
}

/* The nodes that the next node of the stream would depend on. false: the stream is not in the
 * capture, or there is no host memory. No lock held. */
static bool add_stream_ends(node_list *out, const ph__memory *memory, const ph_stream *stream,
                            uint64_t capture_id)
{
    ph__drv_capture capture;
    ph__stream_hold(stream);
    bool ok = memory->driver->capture_get(&capture, stream->handle) == PH__R_OK &&
              capture.status == PH_CAPTURE_ACTIVE && capture.id == capture_id &&
              ph__vec_reserve(out, capture.dependency_count);
    for (size_t i = 0; ok && i < capture.dependency_count; i++)
        out->at[out->count++] = capture.dependencies[i];
    ph__stream_unhold(stream);
    return ok;
}

/* ---- what happens ---- */
void ph__plan_note_allocation(ph__memory *memory, const ph__request *request, const void *address)
{
    ph__memory_lock(memory);
    bool noted = find_notes(memory, request->capture_id) != NULL;
    ph__spin_unlock(&memory->lock);
    if (!noted || request->capture_id == 0)
        return;
    node_list ends = {0};
    size_t stream;
    bool ok = add_stream_ends(&ends, memory, request->stream, request->capture_id);
    ph__planned_block block = {.requested = request->bytes,
                               .size = request->rounded,
                               .stream = request->stream->id,
                               .freed = PH__PLAN_NEVER};
    ph__memory_lock(memory);
    ph__plan_notes *notes = find_notes(memory, request->capture_id);
    if (notes) {
        block.allocated = notes->events++;
        ok = ok && add_noted_stream(&stream, notes, request->stream) &&
             add_position(&block.at_allocation, notes, &ends) &&
             ph__vec_push(&notes->blocks, block) &&
             ph__map_put(&notes->live, (uintptr_t)address,
                         (void *)(uintptr_t)notes->blocks.count); /* numbers are no addresses */
        notes->lost = notes->lost || !ok;
    }
    ph__spin_unlock(&memory->lock);
    ph__vec_free(&ends);
}

void ph__plan_note_use(ph__memory *memory, const void *pointer, ph_stream *stream)
{
    ph__plan_notes *notes;
    ph__memory_lock(memory);
    ph__planned_block *block = find_noted_block(&notes, memory, pointer);
    if (block && block->stream != stream->id) {
        ph__plan_use use = {.next = block->uses};
        if (add_noted_stream(&use.stream, notes, stream) && ph__vec_push(&notes->uses, use))
            block->uses = notes->uses.count;
        else
            notes->lost = true;
    }
    ph__spin_unlock(&memory->lock);
}

/* The streams that work on the block, each retained: its own, those of its uses, and the one that
 * it is freed on. Lock held. */
static bool acquire_block_streams(stream_list *out, const ph__plan_notes *notes,
                                  const ph__planned_block *block, ph_stream *freed_on)
{
    size_t own = 0;
    while (own < notes->streams.count && notes->streams.at[own]->id != block->stream)
        own++;
    bool ok =
        own < notes->streams.count && ph__vec_push(out, ph__stream_retain(notes->streams.at[own]));
    for (size_t use = block->uses; ok && use; use = notes->uses.at[use - 1].next)
        ok =
            ph__vec_push(out, ph__stream_retain(notes->streams.at[notes->uses.at[use - 1].stream]));
    if (ok && freed_on && freed_on->id != block->stream)
        ok = ph__vec_push(out, ph__stream_retain(freed_on));
    return ok;
}

void ph__plan_note_free(ph__memory *memory, const void *pointer, ph_stream *stream)
{
    ph__plan_notes *notes;
    stream_list users = {0};
    node_list ends = {0};
    uint64_t capture_id = 0;
    bool ok = false;
    ph__memory_lock(memory);
    const ph__planned_block *found = find_noted_block(&notes, memory, pointer);
    if (found) {
        capture_id = notes->capture_id;
        ok = acquire_block_streams(&users, notes, found, stream);
    }
    ph__spin_unlock(&memory->lock);
    for (size_t i = 0; i < users.count; i++) {
        ok = ok && add_stream_ends(&ends, memory, users.at[i], capture_id);
        ph__stream_release(users.at[i]);
    }
    ph__vec_free(&users);
    if (!capture_id)
        return;
    size_t place;
    ph__memory_lock(memory);
    ph__planned_block *block = find_noted_block(&notes, memory, pointer);
    if (block) {
        (void)ph__map_remove(&notes->live, (uintptr_t)pointer);
        size_t event = notes->events++;
        /* a position that is not known: as if it had never been freed */
        if (ok && (!stream || add_noted_stream(&place, notes, stream)) &&
            add_position(&block->at_free, notes, &ends))
            block->freed = event;
    }
    ph__spin_unlock(&memory->lock);
    ph__vec_free(&ends);
}

bool ph__plan_note_hold(ph__memory *memory, const void *base)
{
    ph__plan_notes *notes;
    ph__memory_lock(memory);
    ph__planned_block *block = find_noted_block(&notes, memory, base);
    if (block)
        block->held = true;
    const bool served = block && notes->served;
    ph__spin_unlock(&memory->lock);
    return served;
}
