/* SPDX-License-Identifier: MIT */
/* memory/observe/track.c: what is behind an address, and whether it still lives. */
#include "memory/state.h"
#include <string.h>

static void tell_block(ph_allocation *out, const ph__block *block)
{
    ph_pool *pool = ph__mseg_of(block)->pool;
    *out = (ph_allocation){.base = (void *)block->address,
                           .requested = block->requested,
                           .size = block->size,
                           .generation = block->generation,
                           .pool = ph__pool_is_default(pool) ? NULL : pool};
}

static void tell_pinned(ph_allocation *out, const ph__pinned *pinned)
{
    *out = (ph_allocation){.base = (void *)pinned->address,
                           .requested = pinned->requested,
                           .size = pinned->size,
                           .generation = pinned->generation,
                           .pool = ph__pool_is_default(pinned->pool) ? NULL : pinned->pool,
                           .pinned = true};
}

/* Step by step for all, so that what is slow to come for one address is waited for together with
 * that of the others. Lock held. */
static void find_blocks(ph_allocation *out, const ph__memory *memory, const uintptr_t *addresses,
                        size_t count)
{
    const ph__block *blocks[PH__FIND_MOST];
    for (size_t i = 0; i < count; i++)
        blocks[i] = ph__memory_may_have(memory, addresses[i])
                        ? ph__memory_block(memory, addresses[i])
                        : NULL;
    for (size_t i = 0; i < count; i++) {
        const ph__pinned *pinned = blocks[i] ? NULL : ph__pinned_find(memory, addresses[i]);
        out[i] = (ph_allocation){.base = NULL};
        if (blocks[i] && ph__block_is_live(blocks[i]))
            tell_block(&out[i], blocks[i]);
        else if (pinned)
            tell_pinned(&out[i], pinned);
    }
}

void ph__memory_find_all(ph_allocation *out, const ph_device *device, const uintptr_t *addresses,
                         size_t count)
{
    ph__memory *memory = ph__memory_of(device);
    memset(out, 0, count * sizeof *out);
    if (!memory)
        return;
    ph__spin_lock(&memory->lock);
    find_blocks(out, memory, addresses, count);
    for (size_t i = 0; memory->scripts && i < count; i++) {
        ph_allocation scripted;
        if (ph__script_find(&scripted, memory, addresses[i]))
            out[i] = scripted;
    }
    ph__spin_unlock(&memory->lock);
}

bool ph__memory_find(ph_allocation *out, const ph_device *device, const void *address)
{
    const ph__memory *memory = ph__memory_of(device);
    const uintptr_t at = (uintptr_t)address;
    memset(out, 0, sizeof *out);
    if (!memory || !ph__memory_may_have(memory, at))
        return false;
    ph__memory_find_all(out, device, &at, 1);
    return out->base != NULL;
}

bool ph__memory_taken_by(ph_pool_id *out, const ph_device *device, const void *address)
{
    ph__memory *memory = ph__memory_of(device);
    if (!memory || !ph__memory_may_have(memory, (uintptr_t)address))
        return false;
    ph__spin_lock(&memory->lock);
    const ph__range *segment = ph__range_map_find(&memory->segments, (uintptr_t)address);
    const ph__range *pinned =
        segment ? NULL : ph__range_map_find(&memory->pinned, (uintptr_t)address);
    const ph_pool *pool = NULL;
    if (segment)
        pool = ((const ph__mseg *)((const ph__segment *)segment->value)->user)->pool;
    else if (pinned)
        pool = ((const ph__pinned *)pinned->value)->pool;
    if (pool)
        *out = pool->id;
    ph__spin_unlock(&memory->lock);
    return pool != NULL;
}

bool ph__memory_is_taken(const ph_device *device, const void *address)
{
    ph_pool_id pool;
    return ph__memory_taken_by(&pool, device, address);
}

static void read_hull(uintptr_t *lowest, uintptr_t *highest, const struct ph__hull *hull)
{
    *highest = atomic_load_explicit(&hull->highest, memory_order_acquire);
    *lowest = atomic_load_explicit(&hull->lowest, memory_order_relaxed);
}

void ph__memory_hulls(ph__hulls *out, const ph_device *device)
{
    const ph__memory *memory = ph__memory_of(device);
    *out = (ph__hulls){{0, 0}, {0, 0}};
    if (!memory)
        return;
    read_hull(&out->device.lowest, &out->device.highest, &memory->device_hull);
    read_hull(&out->pinned.lowest, &out->pinned.highest, &memory->pinned_hull);
}

ph_status ph_memory_lookup(ph_allocation *out, const ph_device *device, const void *address)
{
    static const char call[] = "ph_memory_lookup";
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    if (!ph__memory_find(out, device, address))
        return ph__fail_not_live(call, address, device);
    ph__pool_tell(out->pool);
    return PH_OK;
}

/* The allocation at base when it is still that one. Lock held. */
static bool find(const ph__memory *memory, const void *base, uint64_t generation, ph__block **block,
                 ph__pinned **pinned)
{
    *pinned = NULL;
    *block = ph__memory_block(memory, (uintptr_t)base);
    if (*block)
        return (*block)->generation == generation && ph__block_is_live(*block);
    *pinned = ph__pinned_find(memory, (uintptr_t)base);
    return *pinned && (*pinned)->generation == generation;
}

/* ---- watches ---- who is to hear of the death of an allocation, by its generation. An entry
 * stays until it is untracked, also when the allocation has gone: thus freeing one gives nothing
 * back and allocates nothing, and no generation comes twice. */
typedef struct ph__watcher {
    struct ph__watcher *next; /* of the same generation */
    ph__watch *watch;
    size_t times; /* tracked */
} ph__watcher;

static ph__watcher *find_watcher(const ph__memory *memory, uint64_t generation,
                                 const ph__watch *watch)
{
    ph__watcher *watcher = ph__map_get(&memory->watchers, generation);
    while (watcher && watcher->watch != watch)
        watcher = watcher->next;
    return watcher;
}

/* Takes *fresh when a new entry is needed. Lock held. */
static bool add_watcher(ph__memory *memory, uint64_t generation, ph__watch *watch,
                        ph__watcher **fresh)
{
    ph__watcher *known = find_watcher(memory, generation, watch);
    if (known) {
        known->times++;
        return true;
    }
    if (*fresh == NULL)
        return false;
    ph__watcher *next = ph__map_get(&memory->watchers, generation);
    if (!ph__map_put(&memory->watchers, generation, *fresh))
        return false;
    **fresh = (ph__watcher){next, watch, 1};
    *fresh = NULL;
    return true;
}

/* What is to be freed, or NULL. Lock held. */
static ph__watcher *remove_watcher(ph__memory *memory, uint64_t generation, const ph__watch *watch)
{
    ph__watcher *gone = find_watcher(memory, generation, watch);
    ph__watcher *first = ph__map_get(&memory->watchers, generation);
    if (gone == NULL || --gone->times > 0)
        return NULL;
    if (first != gone) {
        while (first->next != gone)
            first = first->next;
        first->next = gone->next;
    } else if (gone->next) {
        (void)ph__map_put(&memory->watchers, generation, gone->next); /* replaces: cannot fail */
    } else {
        (void)ph__map_remove(&memory->watchers, generation);
    }
    return gone;
}

void ph__track_died(ph__memory *memory, uint64_t generation)
{
    atomic_fetch_add_explicit(&memory->deaths, 1, memory_order_release);
    if (memory->watchers.count == 0)
        return;
    for (ph__watcher *at = ph__map_get(&memory->watchers, generation); at; at = at->next)
        atomic_fetch_add_explicit(&at->watch->deaths, 1, memory_order_release);
}

void ph__watchers_free(ph__memory *memory)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    while (ph__map_next(&memory->watchers, &cursor, &key, &value))
        for (ph__watcher *at = value, *next; at; at = next) {
            next = at->next;
            ph__free(at);
        }
    ph__map_free(&memory->watchers);
}

/* ---- tracking ---- */
/* Lock held. */
static void count(ph__block *block, ph__pinned *pinned)
{
    if (pinned)
        pinned->trackers++;
    else if (((uintptr_t)block->user & PH__TRACKED) < PH__TRACKED)
        block->user = (void *)((uintptr_t)block->user + 1);
}

/* Most of what is tracked again, as by further words of one graph, has its entry already. */
ph__tracking ph__memory_track(ph_device *device, const void *base, uint64_t generation,
                              ph__watch *watch)
{
    ph__memory *memory = ph__memory_of(device);
    ph__watcher *fresh = NULL;
    ph__block *block;
    ph__pinned *pinned;
    if (!memory)
        return PH__TRACK_GONE;
    for (bool again = false;; again = true) {
        ph__spin_lock(&memory->lock);
        bool found = find(memory, base, generation, &block, &pinned);
        bool watched = found && (!watch || add_watcher(memory, generation, watch, &fresh));
        if (watched)
            count(block, pinned);
        ph__spin_unlock(&memory->lock);
        if (!found || watched || again) {
            ph__free(fresh);
            return !found ? PH__TRACK_GONE : watched ? PH__TRACKS : PH__TRACK_NO_MEMORY;
        }
        fresh = ph__alloc(sizeof *fresh);
        if (!fresh)
            return PH__TRACK_NO_MEMORY;
    }
}

void ph__memory_untrack(ph_device *device, const void *base, uint64_t generation, ph__watch *watch)
{
    ph__memory *memory = ph__memory_of(device);
    ph__watcher *gone = NULL;
    ph__block *block;
    ph__pinned *pinned;
    if (!memory)
        return;
    ph__spin_lock(&memory->lock);
    if (watch)
        gone = remove_watcher(memory, generation, watch);
    if (find(memory, base, generation, &block, &pinned)) {
        uintptr_t trackers = block ? (uintptr_t)block->user & PH__TRACKED : 0;
        if (pinned && pinned->trackers > 0)
            pinned->trackers--;
        else if (block && trackers > 0 && trackers < PH__TRACKED)
            block->user = (void *)((uintptr_t)block->user - 1);
    }
    ph__spin_unlock(&memory->lock);
    ph__free(gone);
}

uint64_t ph__memory_deaths(const ph_device *device)
{
    ph__memory *memory = ph__memory_of(device);
    return memory ? atomic_load_explicit(&memory->deaths, memory_order_acquire) : 0;
}

bool ph__memory_is_live(const ph_device *device, const void *base, uint64_t generation)
{
    ph__memory *memory = ph__memory_of(device);
    ph__block *block;
    ph__pinned *pinned;
    if (!memory)
        return false;
    ph__spin_lock(&memory->lock);
    bool live = find(memory, base, generation, &block, &pinned);
    ph__spin_unlock(&memory->lock);
    return live;
}
