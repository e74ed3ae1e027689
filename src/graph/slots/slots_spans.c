/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_spans.c: the spans that slots are proved of, in the graph and as each capture
 * has shifted them. */
#include "graph/slots/slots_spans.h"
#include "base/line.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"
#include "graph/slots/slots_room.h"

/* Addresses that a slot accepts may differ in all bits below it but those of their alignment. */
enum {
    PAGE = 4096
};

typedef struct checked_spans {
    const ph_slot_span *spans;
    size_t capture_count, at; /* at: the capture that is looked at */
    const char *call;
} checked_spans;

static const void *shifted_base(const checked_spans *p, const ph_slot_span *span)
{
    return span->shifted[p->at];
}

static bool spans_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static ph_status check_span_pair(const checked_spans *p, size_t i, size_t j)
{
    const ph_slot_span *a = &p->spans[i], *b = &p->spans[j];
    const void *at = shifted_base(p, a), *other = shifted_base(p, b);
    if (at == a->base && a->bytes)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: span %zu is not shifted in capture %zu: it lies at %p as in the graph",
                       p->call, i, p->at, a->base);
    if (spans_overlap(at, a->bytes, b->base, b->bytes) ||
        spans_overlap(other, b->bytes, a->base, a->bytes) ||
        (i != j && spans_overlap(at, a->bytes, other, b->bytes)))
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: the shifted memory of spans %zu and %zu overlaps other memory of the spans",
            p->call, i, j);
    return PH_OK;
}

static ph_status check_shifts(checked_spans *p, size_t i)
{
    const ph_slot_span *span = &p->spans[i];
    if (span->shifted == NULL)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: spans[%zu].shifted is NULL; it has an address for each capture",
                       p->call, i);
    for (p->at = 0; p->at < p->capture_count; p->at++) {
        PH_TRY(ph__slot_check_span(shifted_base(p, span), span->bytes, 0, p->call));
        for (size_t j = 0; j <= i; j++)
            PH_TRY(check_span_pair(p, i, j));
    }
    return PH_OK;
}

ph_status ph__slot_check_spans(const ph_graph *graph, const ph_slot_span *spans, size_t count,
                               size_t capture_count, const char *call)
{
    checked_spans all = {.spans = spans, .capture_count = capture_count, .call = call}, *p = &all;
    for (size_t i = 0; i < count; i++) {
        const ph_slot_span *span = &p->spans[i];
        if (!PH__RESERVED_OK(span))
            return ph__fail_reserved(p->call, "ph_slot_span");
        PH_TRY(ph__slot_check_span(span->base, span->bytes, span->alignment, p->call));
        if (!span->skip_lookup)
            PH_TRY(ph__slot_room_check(graph, span->base, span->bytes, p->call));
        PH_TRY(check_shifts(p, i));
    }
    return PH_OK;
}

/* ---- groups ---- */
static bool move_alike(const ph_slot_span *a, const ph_slot_span *b, size_t capture_count)
{
    size_t k = 0;
    while (k < capture_count && (uintptr_t)a->shifted[k] - (uintptr_t)a->base ==
                                    (uintptr_t)b->shifted[k] - (uintptr_t)b->base)
        k++;
    return k == capture_count;
}

size_t ph__slot_span_lead(const ph_slot_span *spans, size_t i, size_t capture_count)
{
    size_t lead = 0;
    while (!move_alike(&spans[lead], &spans[i], capture_count))
        lead++;
    return lead;
}

/* ---- alignments ---- */
/* The address bits that no capture has changed. */
static uint64_t same_bits(const ph_slot_span *span, size_t capture_count)
{
    uint64_t differ = 0;
    for (size_t i = 0; i < capture_count; i++)
        differ |= (uintptr_t)span->base ^ (uintptr_t)span->shifted[i];
    return ~differ & (PAGE - 1);
}

static size_t default_alignment(const ph_slot_span *span)
{
    size_t alignment = PH__SLOT_ALIGNMENT;
    while ((uintptr_t)span->base % alignment)
        alignment /= 2;
    return alignment;
}

size_t ph__slot_span_alignment(const ph_slot_span *span, size_t capture_count)
{
    uint64_t same = same_bits(span, capture_count);
    size_t alignment = span->alignment ? span->alignment : default_alignment(span);
    while (same & ~(uint64_t)(alignment - 1)) {
        alignment *= 2;
        if (span->alignment || (uintptr_t)span->base % alignment)
            return 0;
    }
    return alignment;
}

const char *ph__slot_span_same_bits(const ph_slot_span *span, size_t capture_count, char *text,
                                    size_t size)
{
    size_t alignment = span->alignment ? span->alignment : default_alignment(span);
    uint64_t same = same_bits(span, capture_count) & ~(uint64_t)(alignment - 1);
    if (ph__slot_span_alignment(span, capture_count))
        return NULL;
    ph__line_format(
        text, size,
        "address bits 0x%llx are the same in all captures, and a slot aligned to %zu accepts "
        "others: shift by odd multiples of %zu, in several captures, or ask for more alignment",
        (unsigned long long)same, alignment, alignment);
    return text;
}

void ph__slot_spans_window(uint64_t *lowest, uint64_t *highest, const ph_slot_span *spans,
                           size_t count, size_t capture)
{
    *lowest = count > 0 ? UINT64_MAX : 0;
    *highest = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        const ph_slot_span *span = &spans[i / 2];
        const uint64_t begin = (uintptr_t)(i % 2 ? span->shifted[capture] : span->base),
                       end = begin + span->bytes;
        *lowest = begin < *lowest ? begin : *lowest;
        *highest = end > *highest ? end : *highest;
    }
}
