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

static _Atomic(void *) ring[PH__RELEASED_KEPT];
static atomic_uint next;

void ph__released_put(void *block)
{
    if (!PH__RECYCLES || !block) {
        ph__free(block);
        return;
    }
    ph__alloc_set_aside();
    ph__released_keep(block);
}

void ph__released_keep(void *block)
{
    unsigned at = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % PH__RELEASED_KEPT;
    ph__alloc_drop(atomic_exchange_explicit(&ring[at], block, memory_order_acq_rel));
}

/* The library is unloaded, or the process ends. */
__attribute__((destructor)) static void drop_all(void)
{
    for (unsigned i = 0; i < PH__RELEASED_KEPT; i++)
        ph__alloc_drop(atomic_exchange_explicit(&ring[i], NULL, memory_order_acq_rel));
}
