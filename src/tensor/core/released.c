/* SPDX-License-Identifier: MIT */
/* tensor/core/released.c: the blocks of the last handles that were released, in a ring. */
#include "tensor/core/released.h"
#include "base/alloc.h"
#include "base/line.h"

ph__backend ph__backend_gone;
ph__storage ph__storage_gone = {.kind = PH__STORAGE_FOREIGN, .backend = &ph__backend_gone};

static void report_release(const ph__overwrite_tag *tag, uint64_t sequence, uint64_t call,
                           char *text, size_t size)
{
    (void)tag;
    (void)sequence;
    (void)call;
    ph__line_format(text, size, "it was let go of");
}
ph__overwrite_tag ph__released_tag = {.references = 1, .now = 1, .describe = report_release};

typedef struct ring {
    _Atomic(void *) *at;
    unsigned count;
    atomic_uint next;
} ring;
static _Atomic(void *) kept[PH__RELEASED_KEPT], kept_batches[PH__RELEASED_BATCHES];
static ring handles = {kept, PH__RELEASED_KEPT, 0},
            batches = {kept_batches, PH__RELEASED_BATCHES, 0};

static void keep_block(ring *in, void *block)
{
    unsigned at = atomic_fetch_add_explicit(&in->next, 1, memory_order_relaxed) % in->count;
    ph__alloc_drop(atomic_exchange_explicit(&in->at[at], block, memory_order_acq_rel));
}

static void put_block(ring *in, void *block)
{
    if (!PH__RECYCLES || !block) {
        ph__free(block);
        return;
    }
    ph__alloc_set_aside();
    keep_block(in, block);
}

void ph__released_put(void *block)
{
    put_block(&handles, block);
}

void ph__released_put_batch(void *batch)
{
    put_block(&batches, batch);
}

void ph__released_keep(void *block)
{
    keep_block(&handles, block);
}

static void drop_ring(ring *of)
{
    for (unsigned i = 0; i < of->count; i++)
        ph__alloc_drop(atomic_exchange_explicit(&of->at[i], NULL, memory_order_acq_rel));
}

/* The library is unloaded, or the process ends. */
__attribute__((destructor)) static void drop_all(void)
{
    drop_ring(&handles);
    drop_ring(&batches);
}
