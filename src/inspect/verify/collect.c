/* SPDX-License-Identifier: MIT */
/* inspect/verify/collect.c: the memory that a verification keeps: which it is. */
#include "inspect/verify/collect.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "graph/memory/epochs.h"
#include "graph/slots/slots.h"
#include "memory/capture/allocation_log.h"
#include "memory/observe/lookup.h"
#include "record/sparse.h"
#include <stdlib.h>
#include <string.h>

static bool add_piece(ph__verify *verify, uintptr_t base, uintptr_t end, const ph__kept *as)
{
    ph__kept one = *as;
    one.base = base;
    one.bytes = end - base;
    one.at = verify->total;
    return ph__add(verify->total, one.bytes, &verify->total) && ph__vec_push(&verify->kept, one) &&
           ph__ranges_add(&verify->places, base, one.bytes, (void *)(uintptr_t)verify->kept.count);
}

/* Adds what of [base, end) is not kept yet. */
static bool add_kept(ph__verify *verify, uintptr_t base, uintptr_t end, const ph__kept *as)
{
    while (base < end) {
        const ph__range *there = ph__ranges_from(&verify->places, base);
        if (there && there->base <= base) {
            base = there->base + there->size;
            continue;
        }
        uintptr_t until = there && there->base < end ? there->base : end;
        if (!add_piece(verify, base, until, as))
            return false;
        base = until;
    }
    return true;
}

static ph_status add_range(ph__verify *verify, uintptr_t base, size_t bytes, const ph__kept *as)
{
    if (bytes == 0 || add_kept(verify, base, base + bytes, as))
        return PH_OK;
    return ph__fail_host_memory(verify->call, "the list of the memory");
}

static int by_address(const void *a, const void *b)
{
    const ph__logged_allocation *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Of pinned blocks what was asked for: the rest may never have been written by anybody. Blocks
 * that overlap become one piece, so that no allocation of the capture is in two. Those that
 * touch may be of different segments. */
static ph_status add_layout(ph__verify *verify, const ph_graph *graph, bool compared)
{
    const ph__layout *layout = ph__verify_layout(graph);
    ph_status status = PH_OK;
    ph__logged_allocation *sorted = ph__calloc(layout->list.count + 1, sizeof *sorted);
    if (sorted == NULL)
        return ph__fail_host_memory(verify->call, "the list of the memory");
    if (layout->list.count > 0)
        memcpy(sorted, layout->list.at, layout->list.count * sizeof *sorted);
    for (size_t i = 0; i < layout->list.count; i++)
        if (sorted[i].pinned)
            sorted[i].size = sorted[i].requested;
    qsort(sorted, layout->list.count, sizeof *sorted, by_address);
    for (size_t i = 0, next; i < layout->list.count && status == PH_OK; i = next) {
        uintptr_t end = sorted[i].address + sorted[i].size;
        const ph__kept as = {.own = true, .poisoned = !sorted[i].pinned, .compared = compared};
        bool there = ph__logged_allocation_is_live(graph->device, &sorted[i]);
        for (next = i + 1; next < layout->list.count && sorted[next].address < end; next++) {
            if (sorted[next].address + sorted[next].size > end)
                end = sorted[next].address + sorted[next].size;
            there = there || ph__logged_allocation_is_live(graph->device, &sorted[next]);
        }
        if (there)
            status = add_range(verify, sorted[i].address, end - sorted[i].address, &as);
    }
    ph__free(sorted);
    return status;
}

static ph_status add_given(ph__verify *verify, const ph_graph *graph, bool compared)
{
    PH_TRY(add_layout(verify, graph, compared));
    /* Memory that an update brought, or that the second capture was given beyond the layout. */
    for (size_t i = 0; i < graph->pools.count; i++)
        for (size_t s = 0; s < graph->pools.at[i]->sets.count; s++) {
            const ph__ranges *set = &graph->pools.at[i]->sets.at[s];
            const ph__kept as = {.own = true, .poisoned = true, .compared = compared};
            for (size_t r = 0; r < set->count; r++)
                PH_TRY(add_range(verify, set->at[r].base, set->at[r].size, &as));
        }
    return PH_OK;
}

/* Pools that the graph holds beside its own have memory for scratch: eager work has other. Memory
 * of theirs that the eager run does write is compared (ph__verify_compare_held). */
static bool is_scratch(const ph_graph *graph, const ph_pool *pool)
{
    const ph__writer *writer = pool ? ph__graph_find_pool(graph, pool) : NULL;
    return writer && writer != graph->own && writer->sets.count == 0;
}

static ph_status add_allocation(ph__verify *verify, const ph_graph *graph, uint64_t address,
                                bool compared)
{
    ph_allocation found;
    if (!ph__memory_find(&found, graph->device, (const void *)(uintptr_t)address))
        return PH_OK;
    if (found.foreign && verify->options->skip_foreign)
        return PH_OK;
    bool held = is_scratch(graph, found.pool);
    const ph__kept as = {
        .compared = compared && !held, .held = compared && held, .foreign = found.foreign};
    return add_range(verify, (uintptr_t)found.base, found.pinned ? found.requested : found.size,
                     &as);
}

static bool find_mapped(uintptr_t *base, uintptr_t *end, const ph__verify *verify,
                        uintptr_t address)
{
    size_t bytes = 0;
    int result = verify->driver->pointer_mapped(base, &bytes, verify->graph->device->handle,
                                                (const void *)address);
    *end = *base + bytes;
    return result == PH__R_OK && bytes > 0;
}

/* A range of addresses that was reserved has memory behind some of it: of [*base, *end) what
 * there is around the address, without a gap. */
static void keep_to_mapped(uintptr_t *base, uintptr_t *end, const ph__verify *verify,
                           uintptr_t address)
{
    uintptr_t first, last, low, high;
    if (!find_mapped(&first, &last, verify, address))
        return;
    while (last < *end && find_mapped(&low, &high, verify, last) && low == last)
        last = high;
    while (first > *base && find_mapped(&low, &high, verify, first - 1) && high == first)
        first = low;
    *base = first > *base ? first : *base;
    *end = last < *end ? last : *end;
}

/* Memory of other code's, as the driver describes it. */
static ph_status add_foreign(ph__verify *verify, const ph_input_info *input, bool compared)
{
    uintptr_t base = (uintptr_t)input->base, end = base + input->bytes;
    const ph__kept as = {.compared = compared, .foreign = true};
    if (input->state != PH_INPUT_LIVE || input->bytes == 0)
        return PH_OK;
    if (ph__ranges_find(&verify->foreign, (uintptr_t)input->address))
        return PH_OK;
    if (!input->pinned)
        keep_to_mapped(&base, &end, verify, (uintptr_t)input->address);
    const ph__range *there = ph__ranges_from(&verify->foreign, base);
    if ((there == NULL || there->base >= end) &&
        !ph__ranges_add(&verify->foreign, base, end - base, verify))
        return ph__fail_host_memory(verify->call, "the list of the memory");
    return verify->options->skip_foreign ? PH_OK : add_range(verify, base, end - base, &as);
}

/* Memory of pools that the graph holds is no input of it, and may be from elsewhere than its
 * capture all the same. */
static ph_status add_held(ph__verify *verify, const ph_graph *graph, bool compared)
{
    ph_word room;
    for (size_t n = 0; n < graph->record->node_count; n++) {
        const ph__record_node *node = &graph->record->nodes[n];
        for (size_t i = 0; i < node->kept_count; i++) {
            const ph_word *word = ph__record_kept(&room, node, i);
            if (word->base && !word->internal &&
                !ph__ranges_find(&verify->places, (uintptr_t)word->value))
                PH_TRY(add_allocation(verify, graph, word->value, compared));
        }
    }
    return PH_OK;
}

ph_status ph__verify_collect(ph__verify *verify, ph_graph *graph, bool compared)
{
    size_t count = 0;
    ph_input_info input;
    PH_TRY(add_given(verify, graph, compared && graph == verify->graph));
    PH_TRY(ph_graph_input_count(&count, graph));
    for (size_t i = 0; i < count; i++) {
        PH_TRY(ph_graph_input(&input, graph, i));
        PH_TRY(input.foreign ? add_foreign(verify, &input, compared)
                             : add_allocation(verify, graph, input.address, compared));
    }
    PH_TRY(add_held(verify, graph, compared));
    for (size_t i = 0; graph->slots && i < graph->slots->list.count; i++) {
        const ph__slot *slot = graph->slots->list.at[i];
        if (slot->address && slot->set)
            PH_TRY(add_allocation(verify, graph, slot->current, compared));
    }
    return PH_OK;
}

const ph__kept *ph__verify_find_kept(const ph__verify *verify, uintptr_t address)
{
    const ph__range *place = ph__ranges_find(&verify->places, address);
    const ph__kept *kept = place ? &verify->kept.at[(uintptr_t)place->value - 1] : NULL;
    return kept && !kept->lost ? kept : NULL;
}
