/* SPDX-License-Identifier: MIT */
/* inspect/verify/memory.c: the memory that a verification keeps: which it is, its contents,
 * poison over it. */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/line.h"
#include "graph/memory/epochs.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"
#include "inspect/verify/verify.h"
#include <stdlib.h>
#include <string.h>

/* ---- which ---- */
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
    const ph__placing *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Of pinned blocks what was asked for: the rest may never have been written by anybody. Blocks
 * that overlap become one piece, so that no allocation of the capture is in two. Those that
 * touch may be of different segments. */
static ph_status add_layout(ph__verify *verify, const ph_graph *graph, bool compared)
{
    const ph__layout *layout = ph__verify_layout(graph);
    ph_status status = PH_OK;
    ph__placing *sorted = ph__calloc(layout->list.count + 1, sizeof *sorted);
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
        bool there = ph__placing_is_there(graph->device, &sorted[i]);
        for (next = i + 1; next < layout->list.count && sorted[next].address < end; next++) {
            if (sorted[next].address + sorted[next].size > end)
                end = sorted[next].address + sorted[next].size;
            there = there || ph__placing_is_there(graph->device, &sorted[next]);
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
    /* Memory that an update brought, or that the second capture received beyond the layout. */
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
    bool held = is_scratch(graph, found.pool);
    const ph__kept as = {.compared = compared && !held, .held = compared && held};
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

void ph__verify_compare_held(ph__verify *verify)
{
    for (size_t i = 0; i < verify->kept.count; i++) {
        ph__kept *one = &verify->kept.at[i];
        if (one->held && !one->lost &&
            memcmp(verify->start.bytes + one->at, verify->eager.bytes + one->at, one->bytes) != 0)
            one->compared = true;
    }
}

static bool is_scratch_that_differs(const ph__verify *verify, const ph__kept *one)
{
    return one->held && !one->compared && !one->lost &&
           memcmp(verify->replay.bytes + one->at, verify->eager.bytes + one->at, one->bytes) != 0;
}

void ph__verify_swap_held(ph__verify *verify, bool swapped)
{
    if (verify->swapped == swapped)
        return;
    verify->swapped = swapped;
    for (size_t i = 0; i < verify->kept.count; i++) {
        const ph__kept *one = &verify->kept.at[i];
        unsigned char *start = verify->start.bytes + one->at,
                      *replay = verify->replay.bytes + one->at;
        for (size_t at = 0; one->swapped && at < one->bytes; at++) {
            unsigned char byte = start[at];
            start[at] = replay[at];
            replay[at] = byte;
        }
    }
}

ph_status ph__verify_inspect_held(ph__verify *verify, bool *found)
{
    bool any = false;
    *found = false;
    for (size_t i = 0; i < verify->kept.count; i++) {
        ph__kept *one = &verify->kept.at[i];
        one->swapped = is_scratch_that_differs(verify, one);
        any = any || one->swapped;
    }
    if (!any)
        return PH_OK;
    ph__verify_swap_held(verify, true);
    ph_status status = ph__verify_eager(verify, &verify->other);
    for (size_t i = 0; i < verify->kept.count && status == PH_OK; i++) {
        ph__kept *one = &verify->kept.at[i];
        bool written = one->swapped && memcmp(verify->start.bytes + one->at,
                                              verify->other.bytes + one->at, one->bytes) != 0;
        one->compared = one->compared || written;
        *found = *found || written;
    }
    ph__verify_swap_held(verify, false);
    return status;
}

size_t ph__verify_held_bytes(const ph__verify *verify)
{
    size_t bytes = 0;
    for (size_t i = 0; i < verify->kept.count; i++) {
        const ph__kept *one = &verify->kept.at[i];
        bytes += is_scratch_that_differs(verify, one) ? one->bytes : 0;
    }
    return bytes;
}

enum {
    CHUNK = 1 << 18 /* bytes of poison at once; a multiple of 4 */
};

/* ---- contents ---- over the stream: the driver takes pageable memory on either side, and is
 * done with it when it returns */
static ph_status copy_bytes(ph__verify *verify, void *dst, const void *src, size_t bytes)
{
    const ph__drv_memcpy what = {dst, src, bytes};
    int result = verify->driver->copy(verify->stream->handle, &what, NULL);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(verify->call, "a copy");
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_MEMCPY_ASYNC,
                                                "%s: %zu bytes that the graph uses, from %p to %p",
                                                verify->call, bytes, src, dst);
}

static ph_status read_from(ph__verify *verify, ph__image *to, size_t first)
{
    for (size_t i = first; i < verify->kept.count; i++) {
        const ph__kept *one = &verify->kept.at[i];
        if (!one->lost)
            PH_TRY(copy_bytes(verify, to->bytes + one->at, (const void *)one->base, one->bytes));
    }
    return PH_OK;
}

/* The driver describes unknown memory as memory of the host. */
static bool is_known(const ph__verify *verify, uintptr_t address)
{
    ph__drv_pointer where;
    int result =
        verify->driver->pointer_info(&where, verify->graph->device->handle, (const void *)address);
    return result == PH__R_OK && where.kind != PH__MEMORY_PAGEABLE;
}

/* An address range that is reserved and not mapped throughout cannot be read as a whole: it
 * stays as it is. */
static void look_for_lost(ph__verify *verify, size_t first)
{
    for (size_t i = first; i < verify->kept.count; i++) {
        ph__kept *one = &verify->kept.at[i];
        const ph__drv_memcpy what = {verify->start.bytes + one->at, (const void *)one->base,
                                     one->bytes};
        one->lost =
            one->foreign &&
            (!is_known(verify, one->base) || !is_known(verify, one->base + one->bytes - 1) ||
             verify->driver->copy(verify->stream->handle, &what, NULL) == PH__R_INVALID_VALUE);
        one->compared = one->compared && !one->lost;
    }
}

ph_status ph__verify_read(ph__verify *verify, ph__image *to)
{
    return read_from(verify, to, 0);
}

static ph_status fail_contents(const ph__verify *verify)
{
    size_t foreign = 0;
    for (size_t i = 0; i < verify->kept.count; i++)
        foreign += verify->kept.at[i].foreign ? verify->kept.at[i].bytes : 0;
    if (foreign == 0)
        return ph__fail_host_memory(verify->call, "the contents of the memory");
    char what[160];
    ph__line_format(what, sizeof what,
                    "the contents of the memory (%zu bytes, of which %zu are other code's: "
                    "ph_verify_options.skip_foreign leaves those out)",
                    verify->total, foreign);
    return ph__fail_host_memory(verify->call, what);
}

ph_status ph__verify_keep(ph__verify *verify)
{
    unsigned char *bytes = ph__realloc(verify->start.bytes, verify->total + 1);
    if (bytes == NULL)
        return fail_contents(verify);
    verify->start.bytes = bytes;
    look_for_lost(verify, verify->kept_so_far);
    PH_TRY(read_from(verify, &verify->start, verify->kept_so_far));
    verify->kept_so_far = verify->kept.count;
    return PH_OK;
}

ph_status ph__verify_make_images(ph__verify *verify)
{
    ph__image *const images[] = {&verify->eager, &verify->replay, &verify->other};
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        if ((images[i]->bytes = ph__alloc(verify->total + 1)) == NULL)
            return fail_contents(verify);
    verify->chunk = ph__alloc(CHUNK);
    return verify->chunk ? PH_OK : ph__fail_host_memory(verify->call, "the poison");
}

static ph_status write_poison(ph__verify *verify, const ph__kept *one, ph__poison_pattern poison)
{
    for (size_t done = 0; done < one->bytes;) {
        size_t bytes = one->bytes - done < CHUNK ? one->bytes - done : CHUNK;
        ph__poison_fill(verify->chunk, one->base + done, bytes, poison);
        PH_TRY(copy_bytes(verify, (void *)(one->base + done), verify->chunk, bytes));
        done += bytes;
    }
    return PH_OK;
}

/* Only what `start` has; goes on after a failure, so that as much as possible is put back. */
ph_status ph__verify_write(ph__verify *verify, ph__poison_pattern poison)
{
    ph_status first = PH_OK;
    ph_error failure;
    for (size_t i = 0; i < verify->kept_so_far; i++) {
        const ph__kept *one = &verify->kept.at[i];
        if (one->lost)
            continue;
        ph_status status =
            one->poisoned && poison != PH__POISON_NONE
                ? write_poison(verify, one, poison)
                : copy_bytes(verify, (void *)one->base, verify->start.bytes + one->at, one->bytes);
        if (first == PH_OK && status != PH_OK) {
            ph__error_save(&failure);
            first = status;
        }
    }
    if (first == PH_OK)
        return ph_stream_synchronize(verify->stream);
    ph_ignore(ph_stream_synchronize(verify->stream));
    ph__error_restore(&failure);
    return first;
}
