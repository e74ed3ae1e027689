/* SPDX-License-Identifier: MIT */
/* comm/pool/source.c: where the segments of a communicator's pool come from. */
#include "comm/pool/source.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/log.h"
#include "comm/pool/region.h"
#include "memory/block/block_heap.h"

struct ph__comm_source {
    atomic_int references;            /* the pool's, and the communicator's */
    ph_device *device;                /* of both, which hold it */
    ph__comm_source *previous, *next; /* of the communicator's, under `links` */
    ph_comm *listed;                  /* where; NULL: on no list. Under `links` */
    ph__mutex lock;                   /* of the rest */
    ph_comm *comm;                    /* not retained; NULL: it has ended */
    ph__heap *heap;                   /* of regions; its blocks are segments of the pool */
    ph__registered *leaving;          /* regions that go back when they can */
    size_t reserve;
};

/* Of the lists of all communicators; before the lock of a source. */
static pthread_mutex_t links = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_COMM_POOLS, links)

static void release_source(ph__comm_source *source)
{
    if (atomic_fetch_sub(&source->references, 1) != 1)
        return;
    /* Memory that NCCL has not let go of stays, with its records. */
    if (ph__heap_first_segment(source->heap))
        return;
    ph__heap_destroy(source->heap);
    ph__free(source);
}

static void link_source(ph__comm_source *source, ph_comm *comm)
{
    atomic_fetch_add(&source->references, 1);
    pthread_mutex_lock(&links);
    source->next = comm->sources;
    if (source->next)
        source->next->previous = source;
    comm->sources = source;
    source->listed = comm;
    pthread_mutex_unlock(&links);
}

/* Under the lock `links`. */
static void unlink_locked(ph__comm_source *source)
{
    if (source->previous)
        source->previous->next = source->next;
    else
        source->listed->sources = source->next;
    if (source->next)
        source->next->previous = source->previous;
    source->previous = source->next = NULL;
    source->listed = NULL;
}

/* ---- regions ---- under the source's lock */
static bool add_region(ph__comm_source *source, ph__registered *region)
{
    region->segment =
        ph__heap_add_segment(source->heap, (uintptr_t)region->memory, region->bytes, 0, false);
    if (region->segment)
        region->segment->user = region;
    return region->segment != NULL;
}

static void *allocate_block(ph__comm_source *source, size_t bytes, bool *no_memory)
{
    *no_memory = false;
    ph__block *block = ph__heap_acquire(source->heap, bytes, bytes, 0, no_memory);
    return block ? (void *)block->address : NULL;
}

static void deregister_region(ph__comm_source *source, ph__registered *region)
{
    if (region->leaves)
        return;
    region->leaves = true;
    region->next_leaving = source->leaving;
    source->leaving = region;
}

/* Regions that are in use again, or that NCCL has not let go of, stay. */
static void let_go(ph__comm_source *source)
{
    ph__registered *list = source->leaving;
    source->leaving = NULL;
    while (list) {
        ph__registered *region = list;
        list = region->next_leaving;
        region->leaves = false;
        if (region->segment->used_blocks > 0)
            continue;
        if (ph__registered_deregister(region, source->comm)) {
            ph__heap_remove_segment(source->heap, region->segment);
            ph__registered_destroy(region, source->device);
        } else {
            deregister_region(source, region);
        }
    }
}

/* ---- the pool's functions ---- */
/* Adds a region of that size, and takes it or, where it does not matter, an equal piece. */
static ph_status grow_source(void **out, ph__comm_source *source, ph_comm *comm, size_t bytes,
                             bool keep, const char *call)
{
    ph__registered *region = NULL;
    bool no_memory = false;
    PH_TRY(ph__registered_create(&region, comm, bytes, call));
    region->kept = keep;
    ph__mutex_lock(&source->lock);
    bool added = add_region(source, region);
    void *memory = added && out ? allocate_block(source, bytes, &no_memory) : NULL;
    if (!added && ph__registered_deregister(region, comm))
        ph__registered_destroy(region, source->device);
    ph__mutex_unlock(&source->lock);
    if (!added || no_memory)
        return ph__fail_host_memory(call, "the records of registered memory");
    if (out)
        *out = memory;
    return PH_OK;
}

static ph_status refuse_in_capture(ph__comm_source *source)
{
    ph__heap_stats stats;
    ph__mutex_lock(&source->lock);
    ph__heap_get_stats(source->heap, &stats);
    ph__mutex_unlock(&source->lock);
    return ph_fail(PH_ERROR_STATE,
                   "a capture is open on the device, and nothing is registered with a communicator "
                   "then; of %zu registered bytes %zu are free, in no piece that is large enough: "
                   "raise ph_comm_pool_options.reserve (%zu), or allocate and free so much before "
                   "the capture, on its stream",
                   stats.segment_bytes[1], stats.free_bytes[1], source->reserve);
}

/* The communicator, retained; NULL: it has ended. */
static ph_comm *use_comm(ph__comm_source *source)
{
    ph__mutex_lock(&source->lock);
    ph_comm *comm = source->comm;
    int count = comm ? atomic_load(&comm->references) : 0;
    bool used = false;
    while (count > 0 && !used)
        used = atomic_compare_exchange_weak(&comm->references, &count, count + 1);
    ph__mutex_unlock(&source->lock);
    return used ? comm : NULL;
}

ph_status ph__source_alloc(void **out, size_t bytes, ph_stream *stream, void *user)
{
    static const char call[] = "a pool of a communicator";
    ph__comm_source *source = user;
    bool no_memory;
    (void)stream;
    ph__mutex_lock(&source->lock);
    *out = allocate_block(source, bytes, &no_memory);
    if (*out == NULL && !no_memory)
        let_go(source);
    ph__mutex_unlock(&source->lock);
    if (*out)
        return PH_OK;
    if (no_memory)
        return ph__fail_host_memory(call, "the records of registered memory");
    if (atomic_load(&source->device->open_captures) != 0)
        return refuse_in_capture(source);
    ph_comm *comm = use_comm(source);
    if (comm == NULL)
        return ph_fail(PH_ERROR_STATE,
                       "the communicator of the pool has ended, so that no more memory can be "
                       "registered with it; take another pool, or keep the communicator");
    ph_status status = ph__comm_check_usable(comm, call);
    if (status == PH_OK)
        status = grow_source(out, source, comm, bytes, false, call);
    ph_comm_release(comm);
    return status;
}

void ph__source_free(void *memory, size_t bytes, void *user)
{
    ph__comm_source *source = user;
    ph_error saved;
    (void)bytes;
    ph__error_save(&saved);
    ph__mutex_lock(&source->lock);
    ph__block *block = ph__heap_find(source->heap, (uintptr_t)memory);
    ph__segment *segment = ph__heap_give(source->heap, block);
    if (segment->used_blocks == 0 && !((ph__registered *)segment->user)->kept)
        deregister_region(source, segment->user);
    let_go(source);
    ph__mutex_unlock(&source->lock);
    ph__error_restore(&saved);
}

/* ---- lifetimes ---- */
/* Under the lock. */
static void leave_all(ph__comm_source *source)
{
    for (ph__segment *s = ph__heap_first_segment(source->heap); s; s = s->next)
        deregister_region(source, s->user);
    let_go(source);
}

void ph__source_end(void *user)
{
    ph__comm_source *source = user;
    ph_error saved;
    bool listed = false;
    ph__error_save(&saved);
    ph__mutex_lock(&source->lock);
    leave_all(source);
    bool empty = source->leaving == NULL;
    ph__mutex_unlock(&source->lock);
    pthread_mutex_lock(&links);
    if (empty && source->listed) {
        unlink_locked(source);
        listed = true;
    }
    pthread_mutex_unlock(&links);
    if (listed)
        release_source(source);
    release_source(source);
    ph__error_restore(&saved);
}

static ph__comm_source *next_source(ph_comm *comm)
{
    pthread_mutex_lock(&links);
    ph__comm_source *source = comm->sources;
    if (source)
        unlink_locked(source);
    pthread_mutex_unlock(&links);
    return source;
}

/* over: NCCL holds nothing of the regions any more. */
static void end_registrations(ph__comm_source *source, bool over)
{
    size_t stuck = 0;
    for (ph__segment *s = ph__heap_first_segment(source->heap); s; s = s->next) {
        ph__registered *region = s->user;
        if (over)
            region->registration = NULL;
        else if (!ph__registered_deregister(region, source->comm))
            stuck += region->bytes;
    }
    if (stuck)
        ph__log(PH_LOG_WARNING,
                "the end of a communicator: NCCL does not let go of %zu bytes that are registered; "
                "they stay allocated until the process ends",
                stuck);
}

static void leave_sources(ph_comm *comm, bool over)
{
    for (ph__comm_source *source; (source = next_source(comm)) != NULL;) {
        ph__mutex_lock(&source->lock);
        end_registrations(source, over);
        source->comm = NULL;
        let_go(source);
        ph__mutex_unlock(&source->lock);
        release_source(source);
    }
}

bool ph__sources_have(ph_comm *comm, const void *address)
{
    bool found = false;
    pthread_mutex_lock(&links);
    for (ph__comm_source *source = comm->sources; source && !found; source = source->next) {
        ph__mutex_lock(&source->lock);
        found = ph__heap_find(source->heap, (uintptr_t)address) != NULL;
        ph__mutex_unlock(&source->lock);
    }
    pthread_mutex_unlock(&links);
    return found;
}

ph_status ph__source_create(ph__comm_source **out, ph_comm *comm, size_t reserve, const char *call)
{
    ph__comm_source *source = ph__calloc(1, sizeof *source);
    ph__heap *heap = ph__heap_create(NULL);
    if (source == NULL || heap == NULL) {
        ph__heap_destroy(heap);
        ph__free(source);
        return ph__fail_host_memory(call, "the source of the pool");
    }
    atomic_init(&source->references, 1);
    source->device = comm->device;
    source->comm = comm;
    source->heap = heap;
    source->reserve = reserve;
    comm->leave_sources = leave_sources;
    ph_status status = reserve ? grow_source(NULL, source, comm, reserve, true, call) : PH_OK;
    if (status != PH_OK) {
        release_source(source);
        return status;
    }
    link_source(source, comm);
    *out = source;
    return PH_OK;
}
