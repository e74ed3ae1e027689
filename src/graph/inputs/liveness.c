/* SPDX-License-Identifier: MIT */
/* graph/inputs/liveness.c: whether the memory from elsewhere that a graph's nodes address is still
 * allocated. */
#include "graph/inputs/liveness.h"
#include "base/alloc.h"
#include "base/line.h"
#include "graph/inputs/brought.h"
#include "graph/inputs/input_state.h"
#include "graph/inputs/inputs.h"
#include "graph/inputs/inputs_report.h"
#include "graph/inputs/rebind.h"
#include "graph/object/graph.h"
#include "graph/object/segments.h"
#include "graph/slots/slots_life.h"
#include <string.h>

/* ---- keeping them ---- */
void ph__graph_set_checks(ph_graph *graph, const ph_capture_options *options)
{
    enum {
        USUAL = 64
    };
    uint32_t every = options->check_foreign_every ? options->check_foreign_every : USUAL;
    graph->liveness = options->check_input_liveness;
    graph->foreign_every = every == UINT32_MAX ? 0 : every;
    graph->foreign_turn = 0;
    graph->strict = options->strict;
    graph->read_at_end = options->record_at_end;
    graph->allow_breaks = options->allow_breaks;
    graph->defer_breaks = options->defer_breaks;
}

ph_status ph__graph_collect_inputs(ph_graph *graph, const char *call)
{
    ph__inputs inputs = {0};
    if (graph->inputs_due) {
        PH_TRY(ph__graph_need_record(graph, call));
        if (graph->brought)
            PH_TRY(ph__brought_inputs(&inputs, graph, call));
        else
            PH_TRY(ph__inputs_of_graph(&inputs, graph, graph, call));
        graph->inputs = inputs; /* there were none */
        graph->inputs_due = false;
        graph->free_count = UINT64_MAX;
    }
    return ph__graph_collect_sets(graph, call);
}

void ph__graph_set_inputs(ph_graph *graph, ph__inputs *inputs)
{
    ph__inputs_free(&graph->inputs, graph);
    graph->inputs = *inputs;
    graph->inputs_due = false;
    ph__graph_drop_sets(graph);
    memset(inputs, 0, sizeof *inputs);
    graph->free_count = UINT64_MAX;
}

/* ---- the check ---- */
/* Dead inputs are reported while the code that captured them is at hand. */
static void warn_of_dead(ph_graph *graph, const char *call)
{
    ph__dead dead;
    dead.count = 0;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const ph__input *input = &graph->inputs.at[i];
        ph_input_state state = ph__input_state(graph, input);
        if (input->proved && (state == PH_INPUT_FREED || state == PH_INPUT_REPLACED))
            ph__dead_add(&dead, input);
    }
    if (dead.count)
        ph__warn_stale(graph, &dead, call);
}

ph_status ph__graph_acquire_inputs(ph_graph *graph, const char *call)
{
    ph__inputs inputs = {0};
    if (graph->liveness)
        PH_TRY(ph__inputs_of_graph(&inputs, graph, graph, call));
    ph__graph_set_inputs(graph, &inputs);
    graph->inputs_due = !graph->liveness;
    if (graph->liveness)
        warn_of_dead(graph, call);
    return PH_OK;
}

static void add_dead_slot(void *user, const ph__input *input)
{
    ph__dead_add(user, input);
}

/* Whether a slot has set the word since: then the memory that was captured is not addressed any
 * more. */
static bool is_moved(const ph_graph *graph, const ph__input *input)
{
    return !input->nested && input->node != SIZE_MAX &&
           ph__slots_have(graph, input->node, input->offset);
}

static ph_status ask_foreign(ph_graph *graph, const char *call)
{
    for (ph__foreign *at = graph->foreign; at; at = at->next)
        PH_TRY(ph__foreign_ask(at, graph, call));
    return PH_OK;
}

/* "ph_graph_replay: segment 1": the numbers of nodes are those of a segment. */
static const char *name_segment(char room[96], const ph_graph *graph, const char *call)
{
    const ph__segments *all = graph->whole ? graph->whole->segments : NULL;
    for (size_t i = 0; all && i < all->list.count; i++)
        if (all->list.at[i].graph == graph) {
            ph__line_format(room, 96, "%s: segment %zu", call, i);
            return room;
        }
    return call;
}

ph_status ph__graph_check_live(ph_graph *graph, unsigned how, const char *call)
{
    bool as_captured = how & PH__LIVE_AS_CAPTURED;
    char room[96];
    ph__dead dead;
    call = name_segment(room, graph, call);
    dead.count = 0;
    /* Before the look: what dies meanwhile is seen next time. */
    uint64_t free_count = atomic_load_explicit(&graph->watch.free_count, memory_order_acquire);
    PH_TRY(ph__graph_collect_inputs(graph, call));
    if (how & PH__LIVE_FOREIGN)
        PH_TRY(ask_foreign(graph, call));
    for (size_t i = 0; i < graph->inputs.count; i++) {
        ph__input *input = &graph->inputs.at[i];
        ph_input_state state = ph__input_state(graph, input);
        if (state == PH_INPUT_LIVE || state == PH_INPUT_UNKNOWN ||
            (!as_captured && is_moved(graph, input)))
            continue;
        if (ph__input_is_proved(graph, input))
            ph__dead_add(&dead, input);
        else
            ph__warn_suspected(graph, input, call);
    }
    if (!as_captured)
        ph__slots_report_dead(graph, add_dead_slot, &dead);
    if (dead.count)
        return ph__fail_stale(graph, &dead, (how & PH__LIVE_ONLY_ASK) == 0, call);
    if (how & PH__LIVE_FOREIGN)
        graph->foreign_turn = 0;
    if (!as_captured && !graph->watch_lost)
        graph->free_count = free_count;
    return PH_OK;
}

ph_status ph_graph_check_inputs(ph_graph *graph)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_CHECK_INPUTS));
    for (size_t i = 0; graph->segments && i < graph->segments->list.count; i++)
        PH_TRY(ph_graph_check_inputs(graph->segments->list.at[i].graph));
    if (graph->segments)
        return PH_OK;
    return ph__graph_check_live(graph, PH__LIVE_FOREIGN | PH__LIVE_ONLY_ASK,
                                "ph_graph_check_inputs");
}
