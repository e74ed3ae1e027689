/* SPDX-License-Identifier: MIT */
/* graph/object/states.c: what a call answers in a state, out of the one table. */
#include "graph/object/states.h"
#include "base/ended.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include "graph/object/segments.h"
#include <string.h>

enum {
    FREE = 0,
    BUSY = 1
};
#define GO      PH__ANSWER_GO
#define NOTHING PH__ANSWER_NOTHING
#define OPEN    PH__ANSWER_OPEN
#define AGAIN   PH__ANSWER_AGAIN
#define OWNS    PH__ANSWER_OWNS
#define SPENT   PH__ANSWER_SPENT
#define IDLE    PH__ANSWER_IDLE
#define OVER    PH__ANSWER_OVER
#define BARE    PH__ANSWER_BARE
#define KEEP    PH__ANSWER_KEEP
#define VISIBLE PH__ANSWER_VISIBLE
#define OWN     PH__ANSWER_OWN

const ph__state_row ph__graph_calls[PH__CALL_COUNT] = {
#define PH__STATE_ROW(id, name, busy, new, capturing, ended, ready, failed)                        \
    {name, busy, {new, capturing, ended, ready, failed}},
#include "graph/object/states.def"
#undef PH__STATE_ROW
};

const ph__answer_row ph__answers[PH__ANSWER_COUNT] = {
#define PH__ANSWER_ROW(id, summary, why, remedy) {#id, summary, why, remedy},
#include "graph/object/states.def"
#undef PH__ANSWER_ROW
};

const char *ph__graph_state_name(ph_graph_state state)
{
    static const char *const names[PH__GRAPH_STATES] = {"NEW", "CAPTURING", "ENDED", "READY",
                                                        "FAILED"};
    return (unsigned)state < PH__GRAPH_STATES ? names[state] : "unknown";
}

static const bool reads_record[PH__CALL_COUNT] = {
#define PH__RECORD_CALL(id) [PH__CALL_##id] = true,
#include "graph/object/states.def"
#undef PH__RECORD_CALL
};

static const bool of_owner[PH__CALL_COUNT] = {
#define PH__OWNER_CALL(id) [PH__CALL_##id] = true,
#include "graph/object/states.def"
#undef PH__OWNER_CALL
};

/* Graphs are never const themselves: the record is as if it had been there. */
static ph_status need_what_it_reads(const ph_graph *graph, ph__graph_call call)
{
    if (!reads_record[call] || graph->state == PH_GRAPH_CAPTURING)
        return PH_OK;
    return ph__graph_need_record((ph_graph *)(uintptr_t)graph, ph__graph_calls[call].name);
}

static const bool is_whole[PH__CALL_COUNT] = {
#define PH__WHOLE_CALL(id) [PH__CALL_##id] = true,
#include "graph/object/states.def"
#undef PH__WHOLE_CALL
};

/* Whole graphs have no nodes, and segments no life of their own. */
static ph_status refuse_parts(const ph_graph *graph, ph__graph_call call)
{
    const char *name = ph__graph_calls[call].name;
    if (graph->segments && !is_whole[call])
        return ph_fail(PH_ERROR_UNSUPPORTED,
                       "%s: the graph has breaks, and the call works on the nodes of one segment; "
                       "pass a graph of ph_graph_segment, which gives its %zu segments",
                       name, graph->segments->list.count);
    if (graph->whole && (call == PH__CALL_RESET || call == PH__CALL_INSTANTIATE))
        return ph_fail(PH_ERROR_STATE,
                       "%s: the graph is a segment of graph %llu, which has breaks; call it for "
                       "that graph",
                       name, (unsigned long long)graph->whole->id);
    return PH_OK;
}

static ph_status check_parts(const ph_graph *graph, ph__graph_call call)
{
    PH_TRY(refuse_parts(graph, call));
    return need_what_it_reads(graph, call);
}

/* A cause that says some of it already is not told twice. */
static void add_way_out(void)
{
    const char *cause = ph_error_last()->message;
    if (strstr(cause, "ph_graph_reset"))
        return;
    ph__error_suffix(strstr(cause, "capture again") ? "; call ph_graph_reset first"
                                                    : "; call ph_graph_reset, then capture again");
}

/* Refusals, and what is seldom. Out of line, so that what is usual stays small. */
static __attribute__((noinline)) ph_status check_in_full(const ph_graph *graph, ph__graph_call call)
{
    const ph__state_row *row = &ph__graph_calls[call];
    if (graph == NULL)
        return ph__fail_null(row->name, "graph");
    if ((unsigned)graph->state >= PH__GRAPH_STATES)
        return ph__fail_ended(row->name, "the graph");
    if (graph->device)
        PH_TRY(ph__device_check(graph->device, row->name));
    if (row->busy && graph->busy && graph->doomed)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the graph was destroyed, inside of a function of its own, and goes "
                       "when the call that runs that function returns; use another graph",
                       row->name);
    if (row->busy && graph->busy)
        return ph_fail(
            PH_ERROR_STATE,
            "%s: called from inside a hook of the same graph, the function of one of its breaks, "
            "or a function that ph_graph_verify runs; do it after the call that runs it has "
            "returned",
            row->name);
    if (graph->viewed && of_owner[call])
        return ph_fail(PH_ERROR_STATE,
                       "%s: the graph and its executable belong to other code, which launches it "
                       "(ph_graph_view_cuda); let that code do it, or import a cuGraphClone with "
                       "ph_graph_import_cuda",
                       row->name);
    ph__answer answer = row->answer[graph->state];
    bool visible = graph->keep || (answer == PH__ANSWER_VISIBLE && graph->in_end_hooks);
    if (answer == GO || (visible && (answer == PH__ANSWER_KEEP || answer == PH__ANSWER_VISIBLE)))
        return graph->segments || graph->whole ? check_parts(graph, call)
                                               : need_what_it_reads(graph, call);
    if (answer == PH__ANSWER_OWN) {
        ph__error_restore(&graph->failure);
        ph__error_prefix("%s on a FAILED graph", row->name);
        add_way_out();
        return graph->failure.status;
    }
    return ph_fail(PH_ERROR_STATE, "%s: %s (%s); %s", row->name, ph__answers[answer].why,
                   ph__graph_state_name(graph->state), ph__answers[answer].remedy);
}

ph_status ph__graph_check(const ph_graph *graph, ph__graph_call call)
{
    const ph__state_row *row = &ph__graph_calls[call];
    bool usual = graph && (unsigned)graph->state < PH__GRAPH_STATES &&
                 row->answer[graph->state] == GO && !(row->busy && graph->busy) && !graph->viewed &&
                 !graph->segments && !graph->whole && !reads_record[call];
    if (!usual)
        return check_in_full(graph, call);
    return graph->device ? ph__device_check(graph->device, row->name) : PH_OK;
}

ph_status ph__graph_fail(ph_graph *graph, ph_status status)
{
    ph__error_save(&graph->failure);
    if (graph->failure.status != status) {
        ph__fail_given(status, "the capture");
        ph__error_save(&graph->failure);
    }
    graph->state = PH_GRAPH_FAILED;
    return status;
}
