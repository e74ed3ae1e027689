/* SPDX-License-Identifier: MIT */
/* cache/variants.c: the executables of a key that are updated from captures. */
#include "cache/variants.h"
#include "base/status.h"
#include "cache/budget.h"

/* The executable moves to the front. Locked: others look for theirs meanwhile. */
static void use_variant(ph__cache_entry *entry, size_t at)
{
    ph_graph *used = entry->variants[at];
    for (; at > 0; at--)
        entry->variants[at] = entry->variants[at - 1];
    entry->variants[0] = used;
}

bool ph__variants_update(ph__visit *visit, ph_graph *from)
{
    ph__cache_entry *entry = visit->entry;
    ph_error before;
    ph__error_save(&before);
    for (size_t i = 0; i < PH__CACHE_VARIANTS && entry->variants[i]; i++) {
        if (ph_graph_update(entry->variants[i], from, NULL) != PH_OK)
            continue;
        ph__mutex_lock(&entry->lock);
        use_variant(entry, i);
        ph__mutex_unlock(&entry->lock);
        return true;
    }
    ph__error_restore(&before);
    return false;
}

void ph__variants_add(ph__visit *visit, ph_graph *from)
{
    ph__cache_entry *entry = visit->entry;
    ph__visit_let_go(visit, entry->variants[PH__CACHE_VARIANTS - 1]);
    entry->variants[PH__CACHE_VARIANTS - 1] = from;
    use_variant(entry, PH__CACHE_VARIANTS - 1);
    ph__entry_account(visit->cache, entry);
}
