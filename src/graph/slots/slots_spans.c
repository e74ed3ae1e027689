/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_spans.c: the spans that slots are proved of, in the graph and as each capture
 * has shifted them. */
#include "graph/slots/slots_spans.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"

typedef struct checked_spans {
    const ph_slot_span *spans;
    size_t capture_count, at; /* at: the capture that is looked at */
    const char *call;
} checked_spans;

static const void *shifted_base(const checked_spans *p, const ph_slot_span *span)
{
    return span->shifted[p->at];
}

static uint64_t distance_of_span(const checked_spans *p, const ph_slot_span *span)
{
    return (uintptr_t)shifted_base(p, span) - (uintptr_t)span->base;
}

static bool spans_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Words of the two cannot be told apart by any capture. */
static bool move_alike(const checked_spans *p, const ph_slot_span *a, const ph_slot_span *b)
{
    size_t k = 0;
    while (k < p->capture_count && (uintptr_t)a->shifted[k] - (uintptr_t)a->base ==
                                       (uintptr_t)b->shifted[k] - (uintptr_t)b->base)
        k++;
    return k == p->capture_count;
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
    if (i != j && p->at == 0 && move_alike(p, a, b))
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: spans %zu and %zu are shifted by the same distance in every capture, 0x%llx in "
            "the "
            "first, so that their uses cannot be distinguished; allocate something between the "
            "buffers of a capture",
            p->call, i, j, (unsigned long long)distance_of_span(p, a));
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

ph_status ph__slot_check_spans(const ph_slot_span *spans, size_t count, size_t capture_count,
                               const char *call)
{
    checked_spans all = {.spans = spans, .capture_count = capture_count, .call = call}, *p = &all;
    for (size_t i = 0; i < count; i++) {
        const ph_slot_span *span = &p->spans[i];
        if (!PH__RESERVED_OK(span))
            return ph__fail_reserved(p->call, "ph_slot_span");
        PH_TRY(ph__slot_check_span(span->base, span->bytes, span->alignment, p->call));
        PH_TRY(check_shifts(p, i));
    }
    return PH_OK;
}
