/* SPDX-License-Identifier: MIT */
/* base/ended.c: the blocks of the last handles that were destroyed, in a ring. */
#include "base/ended.h"
#include "base/alloc.h"
#include "base/line.h"
#include <phonograph/log.h>
#include <stdatomic.h>

enum {
    KEPT = 64
};
static _Atomic(void *) kept[KEPT];
static atomic_uint next;

void ph__ended_put(void *block)
{
    if (!PH__RECYCLES || !block) {
        ph__free(block);
        return;
    }
    ph__alloc_set_aside();
    unsigned at = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % KEPT;
    ph__alloc_drop(atomic_exchange_explicit(&kept[at], block, memory_order_acq_rel));
}

/* The library is unloaded, or the process ends. */
__attribute__((destructor)) static void drop_all(void)
{
    for (unsigned i = 0; i < KEPT; i++)
        ph__alloc_drop(atomic_exchange_explicit(&kept[i], NULL, memory_order_acq_rel));
}

ph_status ph__fail_ended(const char *call, const char *what)
{
    return ph_fail(PH_ERROR_STATE,
                   "%s: %s was destroyed before this call; keep it until its last use, or create "
                   "another",
                   call, what);
}

void ph__ended_report(const char *call, const char *what)
{
    char text[200];
    ph__line_format(text, sizeof text, "%s: %s was destroyed already; nothing is done", call, what);
    ph_log_write(PH_LOG_WARNING, text);
}
