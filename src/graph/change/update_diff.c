/* SPDX-License-Identifier: MIT */
/* graph/change/update_diff.c: what differs between two captures, and what made an update fail. */
#include "graph/change/update_diff.h"
#include "base/line.h"
#include "graph/object/graph.h"
#include "record/diff/addresses.h"
#include "record/diff/diff.h"
#include "record/foreign.h"
#include <string.h>

/* Both have a record then. */
static ph_status check_both(const ph_graph *a, const ph_graph *b, ph__graph_call which)
{
    if (a == NULL || b == NULL)
        return ph__fail_null(ph__graph_calls[which].name, a ? "b" : "a");
    ph_status status = ph__graph_check(a, which);
    if (status != PH_OK) {
        ph__error_suffix(" (the graph given as a)");
        return status;
    }
    status = ph__graph_check(b, which);
    if (status != PH_OK)
        ph__error_suffix(" (the graph given as b)");
    return status;
}

ph_status ph_graph_diff(ph_diff **out, ph_graph *a, ph_graph *b)
{
    static const char call[] = "ph_graph_diff";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(check_both(a, b, PH__CALL_DIFF));
    PH_TRY(ph__record_find_foreign(a->record, a->device, call));
    PH_TRY(ph__record_find_foreign(b->record, b->device, call));
    return ph__record_compare(out, a->record, b->record, NULL, call);
}

ph_status ph_graph_same_addresses(bool *out, ph_graph *a, ph_graph *b, uint64_t generation)
{
    if (out == NULL)
        return ph__fail_null("ph_graph_same_addresses", "out");
    *out = false;
    PH_TRY(check_both(a, b, PH__CALL_SAME_ADDRESSES));
    *out = a->device == b->device && !a->segments && !b->segments &&
           ph__records_have_same_addresses(a->record, b->record, a->device, generation);
    return PH_OK;
}

void ph__graph_drop_update_diff(ph_graph *graph)
{
    ph_diff_destroy(graph->update_diff);
    graph->update_diff = NULL;
    graph->update_diff_lost = false;
}

/* The first change that blocks, where the words do not tell it already. */
static void add_change(ph_update_result *out, const ph_change *change)
{
    char words[sizeof out->message];
    if (change == NULL || strstr(out->message, change->text) ||
        (change->a == out->node && change->b == out->from_node))
        return;
    memcpy(words, out->message, sizeof words);
    ph__line_format(out->message, sizeof out->message, "%s; the first difference: %s", words,
                    change->text);
}

void ph__graph_explain_update(ph_graph *graph, const ph_graph *from, ph_update_result *out)
{
    const ph__refusal refusal = {out->reason, out->node, out->from_node, out->message};
    ph_error saved;
    ph__error_save(&saved);
    ph_status status = ph__record_compare(&graph->update_diff, graph->record, from->record,
                                          &refusal, "ph_graph_update");
    graph->update_diff_lost = status != PH_OK;
    add_change(out, ph__diff_first_block(graph->update_diff));
    ph__error_restore(&saved);
}

ph_status ph_graph_update_diff(const ph_diff **out, ph_graph *graph)
{
    static const char call[] = "ph_graph_update_diff";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(ph__graph_check(graph, PH__CALL_UPDATE_DIFF));
    if (graph->update_diff_lost)
        return ph__fail_host_memory(call, "the differences, when the update failed");
    if (graph->update_diff == NULL)
        return ph_fail(
            PH_ERROR_NOT_FOUND,
            "%s: no update of the graph has failed since it was captured, or the last one did not",
            call);
    *out = graph->update_diff;
    return PH_OK;
}
