/* SPDX-License-Identifier: MIT */
/* graph/liveness.c: whether the memory from elsewhere that a graph's nodes address is still allocated. */
#include "base/alloc.h"
#include "base/line.h"
#include "base/log.h"
#include "graph/graph.h"
#include <string.h>

/* ---- what the inputs are ---- */
/* Memory of the capture itself, or of any pool that the graph holds, is never an input. */
static bool is_input(const ph_graph *graph, const ph_word *word)
{
    if (word->kind == PH_WORD_VALUE || word->internal || word->base == NULL)
        return false;
    for (size_t i = 0; i < graph->pools.count; i++) {
        const ph__writer *writer = graph->pools.at[i];
        ph_pool_id id = ph_pool_get_id(writer->pool);
        if ((id.first == word->pool.first && id.second == word->pool.second) ||
            ph__writer_covers(writer, (uintptr_t)word->value))
            return false;
    }
    return true;
}

ph_status ph__inputs_of_word(ph__inputs *out, const ph_graph *graph, size_t node, const ph_word *word,
                             const char *node_name, const char *call)
{
    if (!is_input(graph, word))
        return PH_OK;
    if (!ph__vec_reserve(out, 1))
        return ph__fail_host_memory(call, "the inputs of the graph");
    ph__input *input = &out->at[out->count++];
    memset(input, 0, sizeof *input);
    input->node = node;
    input->offset = word->offset;
    input->value = word->value;
    input->base = word->base;
    input->bytes = word->allocation_bytes;
    input->generation = word->generation;
    input->proved = word->kind == PH_WORD_PROVED;
    ph__line_format(input->node_name, sizeof input->node_name, "%s", node_name);
    ph__line_format(input->word_name, sizeof input->word_name, "%s", word->name);
    input->tracked = graph->liveness && ph__memory_track(graph->device, word->base, word->generation);
    return PH_OK;
}

/* Those of a node, and of all nodes nested in it, which are told apart by their names. */
static ph_status inputs_of_node(ph__inputs *out, const ph_graph *graph, size_t at,
                                const ph__record_node *node, const char *name, const char *call)
{
    for (size_t w = 0; w < node->info.word_count; w++)
        PH_TRY(ph__inputs_of_word(out, graph, at, &node->words[w], name, call));
    const ph_record *body = node->info.body;
    for (size_t n = 0; body && n < body->node_count; n++) {
        char nested[sizeof((ph__input *)0)->node_name];
        ph__line_format(nested, sizeof nested, "%s: %s", name, body->nodes[n].info.name);
        PH_TRY(inputs_of_node(out, graph, at, &body->nodes[n], nested, call));
    }
    return PH_OK;
}

ph_status ph__inputs_of_record(ph__inputs *out, const ph_graph *graph, const ph_record *record,
                               const char *call)
{
    for (size_t n = 0; n < record->node_count; n++) {
        ph_status status = inputs_of_node(out, graph, n, &record->nodes[n], record->nodes[n].info.name, call);
        if (status != PH_OK) {
            ph__inputs_free(out, graph->device);
            return status;
        }
    }
    return PH_OK;
}

/* ---- keeping them ---- */
ph_status ph__graph_take_inputs(ph_graph *graph, const char *call)
{
    ph__inputs inputs = {0};
    if (graph->liveness)
        PH_TRY(ph__inputs_of_record(&inputs, graph, graph->record, call));
    ph__graph_set_inputs(graph, &inputs);
    graph->inputs_due = !graph->liveness;
    return PH_OK;
}

ph_status ph__graph_collect_inputs(ph_graph *graph, const char *call)
{
    ph__inputs inputs = {0};
    if (graph->inputs_due) {
        PH_TRY(ph__inputs_of_record(&inputs, graph, graph->record, call));
        graph->inputs = inputs; /* there were none */
        graph->inputs_due = false;
        graph->deaths = UINT64_MAX;
    }
    return ph__graph_collect_sets(graph, call);
}

static void untrack(const ph__input *input, ph_device *device)
{
    if (input->tracked)
        ph__memory_untrack(device, input->base, input->generation);
}

void ph__inputs_free(ph__inputs *inputs, ph_device *device)
{
    for (size_t i = 0; i < inputs->count; i++)
        untrack(&inputs->at[i], device);
    ph__vec_free(inputs);
}

void ph__graph_set_inputs(ph_graph *graph, ph__inputs *inputs)
{
    ph__inputs_free(&graph->inputs, graph->device);
    graph->inputs = *inputs;
    graph->inputs_due = false;
    ph__graph_drop_sets(graph);
    memset(inputs, 0, sizeof *inputs);
    graph->deaths = UINT64_MAX;
}

bool ph__graph_reserve_inputs(ph_graph *graph, size_t extra)
{
    return ph__vec_reserve(&graph->inputs, extra);
}

void ph__graph_replace_inputs(ph_graph *graph, size_t node, ph__inputs *inputs)
{
    size_t kept = 0;
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i].node == node)
            untrack(&graph->inputs.at[i], graph->device);
        else
            graph->inputs.at[kept++] = graph->inputs.at[i];
    graph->inputs.count = kept;
    for (size_t i = 0; i < inputs->count; i++)
        graph->inputs.at[graph->inputs.count++] = inputs->at[i];
    ph__vec_free(inputs);
    graph->deaths = UINT64_MAX;
}

/* ---- the check ---- */
enum {
    LISTED = 5
};
typedef struct dead_list {
    size_t count;
    ph__input at[LISTED];
} dead_list;

/* Each dead allocation counts once, however many words address it, as far as the list reaches. */
static void add_dead(dead_list *dead, const ph__input *input)
{
    for (size_t i = 0; i < dead->count && i < LISTED; i++)
        if (dead->at[i].generation == input->generation)
            return;
    if (dead->count < LISTED)
        dead->at[dead->count] = *input;
    dead->count++;
}

static void add_dead_slot(void *user, const ph__input *input)
{
    add_dead(user, input);
}

static void warn_once(ph__input *input, const char *call)
{
    if (input->warned)
        return;
    input->warned = true;
    ph__log(PH_LOG_WARNING,
            "%s: word %s of node %zu (%s) looks like an address (0x%llx) in an allocation of %zu bytes that "
            "was freed "
            "since; nothing proves that it is one: give the kernel typed parameters to know",
            call, input->word_name, input->node, input->node_name, (unsigned long long)input->value,
            input->bytes);
}

static ph_status fail_stale(const dead_list *dead, const char *call)
{
    char list[400];
    size_t used = 0;
    list[0] = 0;
    for (size_t i = 0; i < dead->count && i < LISTED && used + 8 < sizeof list; i++) {
        const ph__input *input = &dead->at[i];
        ph__line_format(list + used, sizeof list - used, "%snode %zu (%s) %s = 0x%llx, %zu bytes",
                        i ? "; " : "", input->node, input->node_name, input->word_name,
                        (unsigned long long)input->value, input->bytes);
        used += strlen(list + used);
    }
    return ph_fail(
        PH_ERROR_STALE_INPUT,
        "%s: refused, %zu input%s freed since the capture; keep inputs allocated while the graph is "
        "replayed, or capture again: %s",
        call, dead->count, dead->count == 1 ? " was" : "s were", list);
}

ph_status ph__graph_check_live(ph_graph *graph, bool as_captured, const char *call)
{
    dead_list dead;
    dead.count = 0;
    uint64_t deaths =
        ph__memory_deaths(graph->device); /* before the look: what dies meanwhile is seen next time */
    PH_TRY(ph__graph_collect_inputs(graph, call));
    for (size_t i = 0; i < graph->inputs.count; i++) {
        ph__input *input = &graph->inputs.at[i];
        if (ph__memory_is_live(graph->device, input->base, input->generation) ||
            (!as_captured && ph__slots_have(graph, input->node, input->offset)))
            continue;
        if (input->proved)
            add_dead(&dead, input);
        else
            warn_once(input, call);
    }
    if (!as_captured)
        ph__slots_look(graph, add_dead_slot, &dead);
    if (dead.count)
        return fail_stale(&dead, call);
    if (!as_captured)
        graph->deaths = deaths;
    return PH_OK;
}

ph_status ph_graph_check_inputs(ph_graph *graph)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_CHECK_INPUTS));
    return ph__graph_check_live(graph, false, "ph_graph_check_inputs");
}
