/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_prove.c: slots out of several captures of the same work, with the inputs
 * elsewhere in each: what differs by an input's distance is that input's, and nothing else may
 * differ. */
#include "base/line.h"
#include "graph/memory/cells.h"
#include "graph/memory/writes.h"
#include "graph/object/collectives.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"
#include "graph/slots/slots_same.h"
#include "graph/slots/slots_spans.h"
#include "record/sparse.h"
#include "record/words.h"
#include <string.h>

typedef struct proof {
    ph_graph *graph, *const *captures;
    size_t capture_count;
    const ph_slot_span *spans;
    size_t count;
    ph__slot_draft *drafts;
    size_t *found;     /* of each span: places that the capture under comparison has shown again */
    size_t *leads;     /* of each span: the first one that every capture moved by its distance */
    ph_graph *shifted; /* the capture under comparison, and its number */
    size_t at;
    uint64_t lowest, highest; /* all spans, also of that capture, lie there */
    const char *call;
    char reason[sizeof((ph_slot_proof *)0)
                    ->reason]; /* of the first difference that nothing explains; "": none */
} proof;

/* ---- the arguments ---- */
static const void *shifted_span(const proof *p, const ph_slot_span *span)
{
    return span->shifted[p->at];
}

static uint64_t shift_of_span(const proof *p, const ph_slot_span *span)
{
    return (uintptr_t)shifted_span(p, span) - (uintptr_t)span->base;
}

static ph_status check_capture(const proof *p, ph_graph *shifted)
{
    if (shifted == NULL)
        return ph__fail_null(p->call, "one of the captures");
    PH_TRY(ph__graph_check(shifted, PH__CALL_SLOT_PROVE_SHIFTED));
    if (p->graph == shifted)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: a capture is the graph itself; it is another capture of its work",
                       p->call);
    if (p->graph->device != shifted->device)
        return ph__fail_devices(p->call, "the graph", p->graph->device, "the shifted one",
                                shifted->device);
    return PH_OK;
}

static ph_status check_arguments(proof *p, const ph_slot_proof *out)
{
    if (p->count && out == NULL)
        return ph__fail_null(p->call, "out");
    if (p->count && p->spans == NULL)
        return ph__fail_null(p->call, "spans");
    PH_TRY(ph__graph_check(p->graph, PH__CALL_SLOT_PROVE));
    if (p->captures == NULL)
        return ph__fail_null(p->call, "captures");
    if (p->capture_count == 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: 0 captures; one graph alone proves nothing",
                       p->call);
    for (size_t i = 0; i < p->capture_count; i++)
        PH_TRY(check_capture(p, p->captures[i]));
    return ph__slot_check_spans(p->graph, p->spans, p->count, p->capture_count, p->call);
}

/* ---- the comparison ---- every one answers false when it has put a difference into the reason. */
#define UNEXPLAINED(p, ...) (ph__line_format((p)->reason, sizeof(p)->reason, __VA_ARGS__), false)

static bool is_in_span(const proof *p, uint64_t value)
{
    for (size_t i = 0; i < p->count; i++)
        if (value - (uintptr_t)p->spans[i].base < p->spans[i].bytes ||
            value - (uintptr_t)shifted_span(p, &p->spans[i]) < p->spans[i].bytes)
            return true;
    return false;
}

static bool is_own_word(const proof *p, const ph_graph *graph, const ph_word *word)
{
    return ph__slot_is_captures(graph, word) ||
           (ph__slot_is_pools(graph, word) && !is_in_span(p, word->value));
}

/* A plan puts other blocks over memory that is free again than the captures have that prove. */
static bool is_same_own_place(const proof *p, const ph_word *mine, const ph_word *theirs)
{
    ph_word word = *mine;
    if (p->graph->plan_bytes && ph__slot_is_captures(p->graph, mine))
        word.base = NULL;
    return ph__slot_is_same_place(&word, theirs);
}

/* Where a use goes on beyond the span, another address would take it elsewhere. */
static bool extends_beyond(const ph_node_info *info, uint64_t inside, size_t bytes)
{
    return info->kind != PH_NODE_KERNEL && info->bytes > bytes - inside;
}

/* The first capture finds the places, which come in order; each one more is to show the same
 * ones. */
static ph_status match_place(proof *p, size_t i, size_t node, size_t offset, bool *ok)
{
    ph__slot_draft *draft = &p->drafts[i];
    size_t next = p->found[i]++;
    *ok = true;
    if (p->at == 0)
        return ph__slot_add(draft, p->graph, node, offset, p->call);
    *ok = next < draft->places.count && draft->places.at[next].node == node &&
          draft->places.at[next].offset == offset;
    return PH_OK;
}

/* *status: the failure of taking a use down. */
static bool explain_word(proof *p, const ph_node_info *info, const ph_word *mine,
                         const ph_word *theirs, ph_status *status)
{
    uint64_t by = theirs->value - mine->value;
    if (by == 0 && mine->base == theirs->base && !is_in_span(p, mine->value))
        return true;
    bool own = is_own_word(p, p->graph, mine), own_theirs = is_own_word(p, p->shifted, theirs);
    if (own && own_theirs)
        return is_same_own_place(p, mine, theirs) ||
               UNEXPLAINED(
                   p,
                   "node %zu (%s): word %s is 0x%llx and 0x%llx, at other places of memory that "
                   "the captures were given",
                   info->index, info->name, mine->name, (unsigned long long)mine->value,
                   (unsigned long long)theirs->value);
    if (by == 0 && is_in_span(p, mine->value))
        return UNEXPLAINED(p,
                           "node %zu (%s): word %s is 0x%llx in both captures, inside a span: it "
                           "was not taken from the "
                           "span's memory of its capture",
                           info->index, info->name, mine->name, (unsigned long long)mine->value);
    if (by == 0)
        return true;
    for (size_t i = 0; i < p->count && !own && !own_theirs; i++) {
        const ph_slot_span *span = &p->spans[i];
        uint64_t inside = mine->value - (uintptr_t)span->base;
        if (by != shift_of_span(p, span) || inside >= span->bytes)
            continue;
        if (extends_beyond(info, inside, span->bytes))
            return UNEXPLAINED(p, "node %zu (%s): its %zu bytes at %s reach beyond span %zu",
                               info->index, info->name, info->bytes, mine->name, i);
        bool ok;
        *status = match_place(p, i, info->index, mine->offset, &ok);
        if (!ok)
            return UNEXPLAINED(
                p,
                "node %zu (%s): word %s is a use of span %zu in capture %zu, and not in "
                "those before",
                info->index, info->name, mine->name, i, p->at);
        return *status == PH_OK;
    }
    bool negative = by > UINT64_MAX / 2;
    return UNEXPLAINED(
        p,
        "node %zu (%s): word %s differs by %s0x%llx, which is no input's distance where it lies; "
        "name every buffer that the captures move",
        info->index, info->name, mine->name, negative ? "-" : "",
        (unsigned long long)(negative ? 0 - by : by));
}

/* Of vendor kernels' parameters most words are the same number in both: the first one from w on
 * that is not, or is in a span, or ends the parameters. */
static size_t next_to_explain(const proof *p, const ph__record_node *mine,
                              const ph__record_node *theirs, size_t w)
{
    enum {
        WORD = sizeof(uint64_t)
    };
    const char *a = mine->info.args, *b = theirs->info.args;
    if (mine->info.kind != PH_NODE_KERNEL || mine->kernel || theirs->kernel || !a || !b)
        return w;
    for (;; w++) {
        w = ph__slot_next_other(a, b, mine->info.args_size, w, p->lowest, p->highest - p->lowest);
        if ((w + 1) * WORD > mine->info.args_size ||
            memcmp(a + w * WORD, b + w * WORD, WORD) != 0 ||
            is_in_span(p, ph__word_at(a, w * WORD)))
            return w;
    }
}

/* Most words need no explanation: their layout is looked at where one does. */
static inline bool is_same_number(const proof *p, const ph_word *mine, const ph_word *theirs)
{
    return mine->value == theirs->value && mine->base == theirs->base &&
           !(mine->value - p->lowest < p->highest - p->lowest && is_in_span(p, mine->value));
}

static bool prove_words(proof *p, const ph__record_node *mine, const ph__record_node *theirs,
                        ph_status *status)
{
    const ph_node_info *info = &mine->info;
    if (info->word_count != theirs->info.word_count)
        return UNEXPLAINED(p, "node %zu (%s): it has other parameters", info->index, info->name);
    if (ph__cells_are_written_by(p->graph, info->index) &&
        ph__cells_are_written_by(p->shifted, info->index))
        return true;
    ph__slot_walk walk = {.words = {mine->kernel, info->args_size, 0, 0}};
    size_t places[2] = {0};
    for (size_t w = next_to_explain(p, mine, theirs, 0); w < info->word_count;
         w = next_to_explain(p, mine, theirs, w + 1)) {
        ph_word rooms[2];
        ph__word_slot slot = {.size = sizeof rooms[0].value};
        const ph_word *a = ph__record_later_word(&rooms[0], mine, w, &places[0]),
                      *b = ph__record_later_word(&rooms[1], theirs, w, &places[1]);
        if (a->offset == b->offset && is_same_number(p, a, b))
            continue;
        bool known = info->kind != PH_NODE_KERNEL || ph__slot_walk_to(&walk, w, &slot);
        if (!known || a->offset != b->offset)
            return UNEXPLAINED(p, "node %zu (%s): it has other parameters", info->index,
                               info->name);
        if (is_in_span(p, a->value) && ph__collective_is_node(p->graph, info->index))
            return UNEXPLAINED(p, "node %zu (%s): a collective's memory stays as captured",
                               info->index, info->name);
        if (slot.size < sizeof a->value && a->value != b->value)
            return UNEXPLAINED(p, "node %zu (%s): the %zu bytes at %s differ", info->index,
                               info->name, slot.size, a->name);
        if (!explain_word(p, info, a, b, status))
            return false;
    }
    return true;
}

static bool prove_node(proof *p, size_t index, ph_status *status)
{
    const ph__record_node *mine = &p->graph->record->nodes[index],
                          *theirs = &p->shifted->record->nodes[index];
    const char *why;
    *status = ph__slot_other_in(&why, p->graph, mine, theirs, p->call);
    if (*status != PH_OK)
        return false;
    return why ? UNEXPLAINED(p, "node %zu (%s): %s", index, mine->info.name, why)
               : prove_words(p, mine, theirs, status);
}

static bool shows_all_places(proof *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->found[i] != p->drafts[i].places.count)
            return UNEXPLAINED(p, "capture %zu has fewer uses of span %zu than those before", p->at,
                               i);
    return true;
}

static ph_status compare_with(proof *p)
{
    size_t count = p->graph->record->node_count, theirs = p->shifted->record->node_count;
    ph_status status = PH_OK;
    bool same = true;
    if (count != theirs)
        return (void)UNEXPLAINED(p, "the shifted capture has %zu nodes, the graph %zu", theirs,
                                 count),
               PH_OK;
    memset(p->found, 0, p->count * sizeof *p->found);
    ph__slot_spans_window(&p->lowest, &p->highest, p->spans, p->count, p->at);
    for (size_t i = 0; i < count && same; i++)
        same = prove_node(p, i, &status);
    if (same)
        (void)shows_all_places(p);
    return status;
}

static ph_status prove_captures(proof *p)
{
    for (p->at = 0; p->at < p->capture_count && p->reason[0] == '\0'; p->at++) {
        p->shifted = p->captures[p->at];
        PH_TRY(compare_with(p));
    }
    return PH_OK;
}

/* ---- slots of it ---- */
/* A span in memory that a capture gave has no other uses than the capture's own. */
static const char *foreign_reason(const proof *p, const ph_slot_span *span)
{
    bool foreign = ph__graph_writes(p->graph, span->base, span->bytes);
    for (size_t i = 0; i < p->capture_count && !foreign; i++)
        foreign = ph__graph_writes(p->captures[i], span->shifted[i], span->bytes);
    return foreign ? "the span lies in memory of the captures themselves" : NULL;
}

static ph_status start_drafts(proof *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const ph_slot_span *span = &p->spans[i];
        PH_TRY(ph__slot_start(&p->drafts[i], p->graph, span->name, span->base, span->bytes,
                              ph__slot_span_alignment(span, p->capture_count), p->call));
        p->drafts[i].slot->skip_lookup = span->skip_lookup;
    }
    return PH_OK;
}

static void give_reasons(const proof *p, ph_slot_proof *out)
{
    for (size_t i = 0; i < p->count; i++) {
        char bits[sizeof out->reason];
        const char *why = p->reason[0] ? p->reason : foreign_reason(p, &p->spans[i]);
        if (why == NULL)
            why = ph__slot_span_same_bits(&p->spans[i], p->capture_count, bits, sizeof bits);
        if (why)
            ph__line_format(out[i].reason, sizeof out[i].reason, "%s", why);
    }
}

/* A word in one of the spans may follow another one of its group: all are proved, or none is. */
static void finish_group(const proof *p, size_t lead, ph_slot_proof *out)
{
    size_t lost = lead;
    while (lost < p->count && (p->leads[lost] != lead || out[lost].reason[0] == '\0'))
        lost++;
    for (size_t i = lead; i < p->count; i++) {
        if (p->leads[i] != lead)
            continue;
        if (i != lead)
            p->drafts[lead].slot->lead = p->drafts[i].slot->lead = p->drafts[lead].slot;
        if (lost < p->count && out[i].reason[0] == '\0')
            ph__line_format(
                out[i].reason, sizeof out[i].reason,
                "every capture moved it by the distance of span %zu, which is not proved: %s", lost,
                out[lost].reason);
    }
}

static ph_status finish_proof(proof *p, ph_slot_proof *out)
{
    size_t first = ph_graph_slot_count(p->graph), made = 0;
    bool grouped = false;
    give_reasons(p, out);
    for (size_t i = 0; i < p->count; i++)
        if (p->leads[i] == i)
            finish_group(p, i, out);
    for (size_t i = 0; i < p->count; i++) {
        if (out[i].reason[0])
            continue;
        out[i].slot = first + made;
        out[i].uses = p->drafts[i].places.count;
        grouped = grouped || p->drafts[i].slot->lead;
        ph__slot_draft own = p->drafts[i];
        p->drafts[i] = p->drafts[made];
        p->drafts[made++] = own;
    }
    if (made)
        PH_TRY(ph__slots_commit(p->graph, p->drafts, made, p->call));
    if (grouped)
        p->graph->slots->grouped = true;
    return PH_OK;
}

static void clear_proofs(ph_slot_proof *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (ph_slot_proof){.slot = PH_SLOT_NONE};
}

ph_status ph_graph_slot_prove(ph_slot_proof *out, ph_graph *graph, ph_graph *const *captures,
                              size_t capture_count, const ph_slot_span *spans, size_t count)
{
    proof p = {.graph = graph,
               .captures = captures,
               .capture_count = capture_count,
               .spans = spans,
               .count = count,
               .call = "ph_graph_slot_prove"};
    if (out)
        clear_proofs(out, count);
    PH_TRY(check_arguments(&p, out));
    p.drafts = ph__calloc(count + 1, sizeof *p.drafts);
    p.found = ph__calloc(count + 1, sizeof *p.found);
    p.leads = ph__calloc(count + 1, sizeof *p.leads);
    ph_status status =
        p.drafts && p.found && p.leads ? PH_OK : ph__fail_host_memory(p.call, "the slots");
    for (size_t i = 0; status == PH_OK && i < count; i++)
        p.leads[i] = ph__slot_span_lead(spans, i, capture_count);
    if (status == PH_OK)
        status = start_drafts(&p);
    if (status == PH_OK)
        status = prove_captures(&p);
    if (status == PH_OK)
        status = finish_proof(&p, out);
    if (status != PH_OK)
        clear_proofs(out, count);
    for (size_t i = 0; p.drafts && i < count; i++)
        ph__slot_abandon(&p.drafts[i]);
    ph__free(p.drafts);
    ph__free(p.found);
    ph__free(p.leads);
    return status;
}
