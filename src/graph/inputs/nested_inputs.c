/* SPDX-License-Identifier: MIT */
/* graph/inputs/nested_inputs.c: the inputs of a graph that becomes a part of a capture which checks
 * its own. The words are looked up anew at that capture's end, when another allocation may live
 * where an input did. So dead inputs are refused here, and the others are declared. */
#include "graph/inputs/nested_inputs.h"
#include "base/line.h"
#include "graph/inputs/input_state.h"
#include "graph/inputs/inputs.h"
#include "graph/inputs/inputs_declared.h"
#include "graph/inputs/inputs_report.h"
#include "graph/inputs/liveness.h"
#include "graph/memory/born.h"
#include "graph/object/deferred_record.h"
#include "memory/observe/hold.h"
#include "memory/observe/lookup.h"
#include "memory/pool/pool.h"

typedef struct passing {
    ph_graph *graph;
    uint64_t capture_id;
    const char *call;
    ph__dead dead;
    ph__declarations live; /* the proved inputs */
} passing;

static bool capture_checks_inputs(ph_device *device, uint64_t capture_id)
{
    pthread_mutex_lock(&device->capture_lock);
    const ph_graph *outer = ph__capture_owner_locked(device, capture_id);
    const bool checking = outer && outer->liveness;
    pthread_mutex_unlock(&device->capture_lock);
    return checking;
}

/* Memory that was allocated while the capture is open, freed or not: it belongs to its graph. */
static bool is_born_in(const ph_graph *outer, const ph_device *device, const ph__input *input)
{
    ph__born born;
    return input->generation >= ph__pool_record_from(outer->own->pool) &&
           ph__memory_find_born(&born, outer->own->pool, device, (uintptr_t)input->base) ==
               PH__BORN_HERE &&
           born.generation == input->generation;
}

/* Memory that the capture holds, or that graphs write which it has already, is no input of it,
 * freed or not. */
static bool is_of_capture(const passing *p, const ph__input *input)
{
    ph_device *device = p->graph->device;
    ph_pool_id pool = {0, 0};
    bool found = false;
    (void)ph__memory_reserved_by(&pool, device, input->base);
    pthread_mutex_lock(&device->capture_lock);
    const ph_graph *outer = ph__capture_owner_locked(device, p->capture_id);
    if (outer && input->generation)
        found = ph__held_has(&outer->held, device, input->base, input->generation) ||
                is_born_in(outer, device, input);
    for (const ph__lent *lent = outer ? outer->lent : NULL; lent && !found; lent = lent->next) {
        ph_pool_id id = ph__pool_id(lent->pool);
        found = lent->anywhere && id.first == pool.first && id.second == pool.second;
        for (size_t i = 0; i < lent->sets.count && !found; i++)
            found = ph__ranges_find(&lent->sets.at[i], (uintptr_t)input->value) != NULL;
    }
    pthread_mutex_unlock(&device->capture_lock);
    return found;
}

/* By its word. What the graph declared itself is passed with its name. */
static ph_status declare_input(passing *p, const ph__input *input)
{
    ph_allocation now;
    ph__declared declared = {.address = input->value,
                             .generation = input->generation,
                             .base = input->base,
                             .bytes = input->bytes,
                             .requested = input->requested,
                             .buffer_id = input->foreign ? input->foreign->buffer_id : 0,
                             .pinned = input->pinned,
                             .announced = input->announced,
                             .nested = true};
    if (input->node == SIZE_MAX || input->base == NULL)
        return PH_OK;
    if (input->generation && ph__memory_find(&now, p->graph->device, input->base) &&
        now.generation == input->generation)
        declared.pool = ph__pool_id(now.pool);
    ph__line_format(declared.name, sizeof declared.name, "%s %s", input->node_name,
                    input->word_name);
    return ph__declarations_add(&p->live, &declared)
               ? PH_OK
               : ph__fail_host_memory(p->call, "the inputs of the graph");
}

static ph_status check_input(passing *p, ph__input *input)
{
    ph_input_state state = ph__input_state(p->graph, input);
    bool proved = ph__input_is_proved(p->graph, input);
    if (state == PH_INPUT_UNKNOWN)
        return PH_OK;
    if (state == PH_INPUT_LIVE)
        return proved ? declare_input(p, input) : PH_OK;
    if (is_of_capture(p, input))
        return PH_OK;
    if (proved)
        ph__dead_add(&p->dead, input);
    else
        ph__warn_suspected(p->graph, input, p->call);
    return PH_OK;
}

static ph_status pass_inputs(passing *p, const ph__inputs *inputs)
{
    ph_graph *graph = p->graph;
    ph_status status = PH_OK;
    for (ph__foreign *at = graph->foreign; at && status == PH_OK; at = at->next)
        status = ph__foreign_ask(at, graph, p->call);
    for (size_t i = 0; i < inputs->count && status == PH_OK; i++)
        status = check_input(p, &inputs->at[i]);
    if (status == PH_OK && p->dead.count)
        status = ph__fail_stale(graph, &p->dead, true, p->call);
    if (status == PH_OK)
        status = ph__declarations_pass(graph, &graph->declared, p->capture_id, p->call);
    if (status == PH_OK)
        status = ph__declarations_pass(graph, &p->live, p->capture_id, p->call);
    ph__declarations_free(&p->live);
    return status;
}

/* Nodes that were set or updated since are in the capture as they were captured. */
static ph_status pass_captured(passing *p)
{
    ph__inputs captured = {0};
    PH_TRY(ph__graph_need_record(p->graph, p->call));
    PH_TRY(ph__inputs_of_graph(&captured, p->graph, p->graph, p->call));
    ph_status status = pass_inputs(p, &captured);
    ph__inputs_free(&captured, p->graph);
    return status;
}

ph_status ph__nested_inputs_pass(ph_graph *graph, uint64_t capture_id, const char *call)
{
    passing p = {.graph = graph, .capture_id = capture_id, .call = call};
    if (!capture_checks_inputs(graph->device, capture_id))
        return PH_OK;
    if (graph->changed)
        return pass_captured(&p);
    PH_TRY(ph__graph_collect_inputs(graph, call));
    return pass_inputs(&p, &graph->inputs);
}
