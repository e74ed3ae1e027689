/* SPDX-License-Identifier: MIT */
/* memory/observe/sites.c: where allocations were made and freed, as backtraces, for messages about
 * memory that a graph reads and that is gone. */
#include "memory/observe/sites.h"
#include "base/alloc.h"
#include "base/backtrace.h"
#include "base/fork.h"
#include "base/map.h"
#include "driver/frames.h"
#include "driver/suspects.h"
#include "memory/block/block.h"
#include "memory/state/find.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include <string.h>

enum {
    LIVE_KEPT = 1 << 16, /* allocations that are remembered at one time */
    DEAD_KEPT = 1 << 10, /* and the newest so many that were freed while a graph tracked them */
    OWN_LEAST = 2,       /* frames that are surely this library's */
    OWN_FRAMES = 8       /* more than it ever has above the user's call */
};

typedef struct entry {
    const ph__memory *memory;
    uint64_t generation;
    ph__site allocated, freed;
} entry;

/* One table for the process: generations are unique in it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_SITES, lock)
static atomic_uint wanted;
static ph__map entries; /* by generation */
static uint64_t dead[DEAD_KEPT];
static size_t dead_count; /* all that were ever recorded: a ring */
/* Some allocation since the switch was not remembered: one without an entry need not be older
 * than that. */
static bool left_out;

bool ph__sites_wanted(void)
{
    return atomic_load_explicit(&wanted, memory_order_acquire) != 0;
}

__attribute__((noinline)) void ph__site_capture(ph__site *out)
{
    out->count = 0;
    out->before = false;
    unsigned frames = atomic_load_explicit(&wanted, memory_order_acquire);
    void *all[PH__SITE_FRAMES + OWN_FRAMES];
    if (frames == 0)
        return;
    int count = ph__backtrace(all, PH__SITE_FRAMES + OWN_FRAMES);
    if (count == 0)
        return;
    int first = ph__frames_first_outside(all, count);
    int most = (int)frames;
    /* the library is a part of the program: its frames are told apart by name */
    if (first < OWN_LEAST) {
        first = count < OWN_LEAST ? count : OWN_LEAST;
        most += OWN_FRAMES;
    }
    int kept = count - first < most ? count - first : most;
    out->count = kept < PH__SITE_FRAMES ? kept : PH__SITE_FRAMES;
    out->wanted = (int)frames;
    memcpy(out->frames, all + first, (size_t)out->count * sizeof all[0]);
}

size_t ph__site_describe(char *out, size_t size, const ph__site *site)
{
    return ph__frames_describe(out, size, site->frames, site->count, site->wanted, false);
}

/* The generation of the live allocation that begins at the address, or 0. No lock held. */
static uint64_t generation_at(ph__memory *memory, const void *address, bool *tracked)
{
    uint64_t generation = 0;
    ph__memory_lock(memory);
    const ph__block *block = ph__memory_block(memory, (uintptr_t)address);
    const ph__pinned *pinned = block ? NULL : ph__pinned_find(memory, (uintptr_t)address);
    if (block && block->address == (uintptr_t)address && ph__block_is_live(block)) {
        generation = block->generation;
        *tracked = ((uintptr_t)block->user & PH__TRACKED) != 0;
    } else if (pinned && pinned->address == (uintptr_t)address) {
        generation = pinned->generation;
        *tracked = pinned->trackers > 0;
    }
    ph__spin_unlock(&memory->lock);
    return generation;
}

/* Remembering is an extra: where there is no room for it, the message says less. */
void ph__sites_allocated(ph__memory *memory, const void *address)
{
    ph__site site;
    bool tracked;
    uint64_t generation = address ? generation_at(memory, address, &tracked) : 0;
    if (generation == 0)
        return;
    entry *made = ph__calloc(1, sizeof *made);
    if (made) {
        ph__site_capture(&site);
        *made = (entry){.memory = memory, .generation = generation, .allocated = site};
    }
    pthread_mutex_lock(&lock);
    bool kept = made && ph__sites_wanted() && entries.count < LIVE_KEPT + DEAD_KEPT &&
                ph__map_put(&entries, generation, made);
    left_out = left_out || !kept;
    pthread_mutex_unlock(&lock);
    if (!kept)
        ph__free(made);
}

/* Of one that was allocated before anybody asked where, the end is remembered all the same. Lock
 * held. */
static entry *enter_freed(ph__memory *memory, uint64_t generation)
{
    entry *made = ph__sites_wanted() && entries.count < LIVE_KEPT + DEAD_KEPT
                      ? ph__calloc(1, sizeof *made)
                      : NULL;
    if (made == NULL)
        return NULL;
    made->memory = memory;
    made->generation = generation;
    made->allocated.before = !left_out;
    if (ph__map_put(&entries, generation, made))
        return made;
    ph__free(made);
    return NULL;
}

/* The dead one whose place is taken is forgotten. Lock held. */
static void *remember_freed(uint64_t generation)
{
    uint64_t *place = &dead[dead_count++ % DEAD_KEPT];
    void *oldest = *place ? ph__map_remove(&entries, *place) : NULL;
    *place = generation;
    return oldest;
}

void ph__sites_freeing(ph__memory *memory, const void *address)
{
    ph__site site;
    void *gone = NULL;
    bool tracked = false;
    uint64_t generation = generation_at(memory, address, &tracked);
    if (generation == 0)
        return;
    if (tracked)
        ph__site_capture(&site);
    pthread_mutex_lock(&lock);
    entry *known = entries.count ? ph__map_get(&entries, generation) : NULL;
    if (known == NULL && tracked)
        known = enter_freed(memory, generation);
    if (known && tracked) {
        known->freed = site;
        gone = remember_freed(generation);
    } else if (known) {
        gone = ph__map_remove(&entries, generation);
    }
    pthread_mutex_unlock(&lock);
    ph__free(gone);
}

bool ph__sites_find(ph__site *allocated, ph__site *freed, uint64_t generation)
{
    allocated->count = freed->count = 0;
    allocated->before = freed->before = false;
    if (!ph__sites_wanted() || generation == 0)
        return false;
    pthread_mutex_lock(&lock);
    const entry *known = entries.count ? ph__map_get(&entries, generation) : NULL;
    if (known) {
        *allocated = known->allocated;
        *freed = known->freed;
    }
    pthread_mutex_unlock(&lock);
    return known != NULL;
}

/* All entries, or those of one memory. */
static void forget_entries(const ph__memory *memory)
{
    size_t cursor = 0, kept = 0;
    uint64_t key;
    void *value;
    ph__map left = {0};
    pthread_mutex_lock(&lock);
    ph__map all = entries;
    while (ph__map_next(&all, &cursor, &key, &value)) {
        bool keep = memory && ((const entry *)value)->memory != memory;
        if (!keep || !ph__map_put(&left, key, value))
            ph__free(value);
    }
    ph__map_free(&all);
    entries = left;
    for (size_t i = 0; i < DEAD_KEPT; i++) {
        uint64_t generation = dead[i];
        dead[i] = 0;
        if (generation && entries.count && ph__map_get(&entries, generation))
            dead[kept++] = generation;
    }
    dead_count = kept;
    left_out = left_out && memory;
    pthread_mutex_unlock(&lock);
}

void ph__sites_forget(const ph__memory *memory)
{
    pthread_mutex_lock(&lock);
    bool any = entries.count != 0;
    pthread_mutex_unlock(&lock);
    if (any)
        forget_entries(memory);
}

ph_status ph_memory_record_sites(unsigned frames)
{
    static const char call[] = "ph_memory_record_sites";
    if (frames > PH__SITE_FRAMES)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %u frames; at most %d are kept", call, frames,
                       PH__SITE_FRAMES);
    ph__suspects_prepare();
    atomic_store_explicit(&wanted, frames, memory_order_release);
    ph__memories_set_slow_path(PH__SLOW_SITES, frames != 0);
    if (frames == 0)
        forget_entries(NULL);
    return PH_OK;
}
