/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_make.c: the calls that make slots of what the record proves or the caller
 * declares, and those that show slots. */
#include "graph/slots/slots_make.h"
#include "base/option.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"
#include "graph/slots/slots_check.h"
#include "graph/slots/slots_groups.h"
#include "graph/slots/slots_room.h"
#include "record/sparse.h"
#include <string.h>

/* ---- find ---- */
typedef struct span {
    uintptr_t base;
    size_t bytes;
} span;

static bool touches_span(const span *s, uint64_t address, size_t bytes)
{
    return address - s->base < s->bytes || (s->base - address < bytes && bytes > 0);
}

static ph_status refuse_word(const ph_node_info *info, const ph_word *word, const char *what,
                             const char *call)
{
    return ph_fail(PH_ERROR_UNSUPPORTED,
                   "%s: word %s of node %zu (%s), 0x%llx, lies in the span, but %s", call,
                   word->name, info->index, info->name, (unsigned long long)word->value, what);
}

/* Whatever of a nested graph may address the span cannot be set. */
static ph_status check_body(const ph_node_info *outer, const ph_record *body, const span *s,
                            const char *call)
{
    for (size_t n = 0; n < body->node_count; n++) {
        const ph__record_node *node = &body->nodes[n];
        for (size_t w = 0; w < node->kept_count; w++) {
            ph_word room;
            const ph_word *word = ph__record_kept(&room, node, w);
            if (word->kind != PH_WORD_VALUE &&
                touches_span(s, word->value,
                             node->info.kind == PH_NODE_KERNEL ? 1 : node->info.bytes))
                return refuse_word(outer, word, "it is a nested graph's, which cannot be set",
                                   call);
        }
        if (node->info.body)
            PH_TRY(check_body(outer, node->info.body, s, call));
    }
    return PH_OK;
}

static ph_status find_in_node(ph__slot_draft *draft, ph_graph *graph, size_t index, const span *s,
                              const char *call)
{
    const ph__record_node *node = &graph->record->nodes[index];
    bool field = node->info.kind == PH_NODE_MEMCPY || node->info.kind == PH_NODE_MEMSET;
    for (size_t w = 0; w < node->kept_count; w++) {
        ph_word room;
        const ph_word *word = ph__record_kept(&room, node, w);
        if (word->kind == PH_WORD_VALUE ||
            !touches_span(s, word->value, field ? node->info.bytes : 1))
            continue;
        if (word->kind == PH_WORD_SUSPECTED)
            return refuse_word(
                &node->info, word,
                "nothing proves that it is an address; prove (ph_graph_slot_prove) or declare it",
                call);
        PH_TRY(ph__slot_add(draft, graph, index, word->offset, call));
    }
    return node->info.body ? check_body(&node->info, node->info.body, s, call) : PH_OK;
}

static ph_status find_places(ph__slot_draft *draft, ph_graph *graph, const span *s,
                             const char *call)
{
    for (size_t n = 0; n < graph->record->node_count; n++)
        PH_TRY(find_in_node(draft, graph, n, s, call));
    if (draft->places.count)
        return PH_OK;
    return ph_fail(PH_ERROR_NOT_FOUND,
                   "%s: no node of the graph is known to use the %zu bytes at %p; an untyped "
                   "kernel's parameters "
                   "can be proved (ph_graph_slot_prove) or declared",
                   call, s->bytes, (void *)s->base);
}

static ph_status check_making(size_t *slot, ph_graph *graph, ph__graph_call which)
{
    if (slot == NULL)
        return ph__fail_null(ph__graph_calls[which].name, "slot");
    *slot = PH_SLOT_NONE;
    return ph__graph_check(graph, which);
}

/* Makes the one slot, or abandons it. */
static ph_status finish_slot(size_t *slot, ph_graph *graph, ph__slot_draft *draft, ph_status status,
                             const char *call)
{
    size_t number = graph->slots ? graph->slots->list.count : 0;
    if (status == PH_OK)
        status = ph__slots_commit(graph, draft, 1, call);
    if (status == PH_OK)
        *slot = number;
    else
        ph__slot_abandon(draft);
    return status;
}

static ph_status start_address(ph__slot_draft *draft, ph_graph *graph, const char *name,
                               const void *base, size_t bytes, const ph_slot_options *options,
                               const char *call)
{
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_slot_options");
    size_t alignment = options ? options->alignment : 0;
    PH_TRY(ph__option_no_zero(alignment, "alignment", call));
    PH_TRY(ph__slot_check_span(base, bytes, alignment, call));
    if (!options || !options->skip_lookup)
        PH_TRY(ph__slot_room_check(graph, base, bytes, call));
    PH_TRY(ph__slot_start(draft, graph, name, base, bytes, alignment, call));
    draft->slot->skip_lookup = options && options->skip_lookup;
    return PH_OK;
}

ph_status ph_graph_slot_find(size_t *slot, ph_graph *graph, const char *name, const void *base,
                             size_t bytes, const ph_slot_options *options)
{
    static const char call[] = "ph_graph_slot_find";
    const span s = {(uintptr_t)base, bytes};
    ph__slot_draft draft;
    ph__slot_room room;
    PH_TRY(check_making(slot, graph, PH__CALL_SLOT_FIND));
    PH_TRY(start_address(&draft, graph, name, base, bytes, options, call));
    ph_status status = find_places(&draft, graph, &s, call);
    if (status == PH_OK)
        status = ph__slot_room_find(&room, graph, &draft, call);
    PH_TRY(finish_slot(slot, graph, &draft, status, call));
    ph__slot_room_report(&room, graph, *slot, call);
    return PH_OK;
}

/* ---- declare ---- */
static ph_status check_declared_places(const ph_slot_place *places, size_t count, const char *call)
{
    if (places == NULL)
        return ph__fail_null(call, "places");
    return count
               ? PH_OK
               : ph_fail(PH_ERROR_ARGUMENT, "%s: 0 places; a slot without any sets nothing", call);
}

static ph_status add_all(ph__slot_draft *draft, ph_graph *graph, const ph_slot_place *places,
                         size_t count, const char *call)
{
    for (size_t i = 0; i < count; i++)
        PH_TRY(ph__slot_add(draft, graph, places[i].node, places[i].offset, call));
    return PH_OK;
}

ph_status ph_graph_slot_declare_address(size_t *slot, ph_graph *graph, const char *name,
                                        const void *base, size_t bytes, const ph_slot_place *places,
                                        size_t count, const ph_slot_options *options)
{
    static const char call[] = "ph_graph_slot_declare_address";
    ph__slot_draft draft;
    PH_TRY(check_making(slot, graph, PH__CALL_SLOT_DECLARE_ADDRESS));
    PH_TRY(check_declared_places(places, count, call));
    PH_TRY(start_address(&draft, graph, name, base, bytes, options, call));
    return finish_slot(slot, graph, &draft, add_all(&draft, graph, places, count, call), call);
}

ph_status ph__slot_check_scalar(size_t bytes, const char *call)
{
    if (bytes == 0 || bytes > PH__SLOT_SCALAR)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: a value of %zu bytes; it has 1 to %d", call, bytes,
                       (int)PH__SLOT_SCALAR);
    return PH_OK;
}

enum {
    SHOWN = 8 /* bytes of a value, in messages */
};

static const char *show_bytes(char out[2 * SHOWN + 4], const void *value, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = value;
    size_t used = 0;
    for (size_t i = 0; i < bytes && i < SHOWN; i++) {
        out[used++] = digits[at[i] >> 4];
        out[used++] = digits[at[i] & 15];
    }
    memcpy(out + used, bytes > SHOWN ? "..." : "", bytes > SHOWN ? 4 : 1);
    return out;
}

/* The places were added: they are there. */
static ph_status check_expected(const ph_graph *graph, const ph_slot_place *places, size_t count,
                                const void *expected, size_t bytes, const char *call)
{
    char want[2 * SHOWN + 4], have[2 * SHOWN + 4];
    for (size_t i = 0; i < count; i++) {
        const ph_node_info *info = &graph->record->nodes[places[i].node].info;
        const char *at = (const char *)info->args + places[i].offset;
        if (memcmp(at, expected, bytes) != 0)
            return ph_fail(
                PH_ERROR_ARGUMENT,
                "%s: node %zu (%s) has the bytes %s at offset %zu, and not %s as expected: the "
                "place holds something else, or the capture had another value",
                call, info->index, info->name, show_bytes(have, at, bytes), places[i].offset,
                show_bytes(want, expected, bytes));
    }
    return PH_OK;
}

ph_status ph_graph_slot_declare_scalar(size_t *slot, ph_graph *graph, const char *name,
                                       const void *expected, size_t bytes,
                                       const ph_slot_place *places, size_t count)
{
    static const char call[] = "ph_graph_slot_declare_scalar";
    ph__slot_draft draft;
    PH_TRY(check_making(slot, graph, PH__CALL_SLOT_DECLARE_SCALAR));
    PH_TRY(check_declared_places(places, count, call));
    if (expected == NULL)
        return ph__fail_null(call, "expected");
    PH_TRY(ph__slot_check_scalar(bytes, call));
    PH_TRY(ph__slot_start(&draft, graph, name, NULL, bytes, 0, call));
    ph_status status = add_all(&draft, graph, places, count, call);
    if (status == PH_OK)
        status = check_expected(graph, places, count, expected, bytes, call);
    return finish_slot(slot, graph, &draft, status, call);
}

/* ---- looking ---- */
size_t ph_graph_slot_count(const ph_graph *graph)
{
    return graph && graph->slots ? graph->slots->list.count : 0;
}

static ph_status find_slot(const ph__slot **out, const ph_graph *graph, size_t slot,
                           ph__graph_call which)
{
    PH_TRY(ph__graph_check(graph, which));
    if (slot >= ph_graph_slot_count(graph))
        return ph__slot_fail_missing(graph, slot, ph__graph_calls[which].name);
    *out = graph->slots->list.at[slot];
    return PH_OK;
}

ph_status ph_graph_slot_get(ph_slot_info *out, const ph_graph *graph, size_t slot)
{
    const ph__slot *found = NULL;
    if (out == NULL)
        return ph__fail_null("ph_graph_slot_get", "out");
    memset(out, 0, sizeof *out);
    PH_TRY(find_slot(&found, graph, slot, PH__CALL_SLOT_GET));
    out->name = found->name;
    out->address = found->address;
    out->bytes = found->bytes;
    out->alignment = found->alignment;
    out->uses = found->uses.count;
    out->group = ph__slot_group_of(graph->slots, found);
    out->room = found->room;
    out->current = found->address ? (const void *)(uintptr_t)found->current : found->value;
    return PH_OK;
}

ph_status ph_graph_slot_place_at(ph_slot_place *out, const ph_graph *graph, size_t slot,
                                 size_t index)
{
    const ph__slot *found = NULL;
    if (out == NULL)
        return ph__fail_null("ph_graph_slot_place_at", "out");
    memset(out, 0, sizeof *out);
    PH_TRY(find_slot(&found, graph, slot, PH__CALL_SLOT_PLACE_AT));
    if (index >= found->uses.count)
        return ph_fail(
            PH_ERROR_NOT_FOUND,
            "ph_graph_slot_place_at: slot %zu (%s) has no place %zu; it has %zu, numbered from 0",
            slot, found->name, index, found->uses.count);
    const ph__slot_use *use = &found->uses.at[index];
    *out = (ph_slot_place){use->node->index, use->offset};
    return PH_OK;
}
