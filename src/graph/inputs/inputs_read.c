/* SPDX-License-Identifier: MIT */
/* graph/inputs/inputs_read.c: the public questions to a graph's inputs: which there are, how
 * they are now, and what cannot be seen. */
#include "base/alloc.h"
#include "base/line.h"
#include "base/text.h"
#include "graph/inputs/input_state.h"
#include "graph/inputs/liveness.h"
#include "graph/object/graph.h"
#include "graph/slots/slots_life.h"
#include "memory/observe/labels.h"
#include "memory/observe/lookup.h"
#include "memory/observe/sites.h"
#include <string.h>

/* ---- which there are ---- */
ph_status ph_graph_input_count(size_t *out, ph_graph *graph)
{
    static const char call[] = "ph_graph_input_count";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = 0;
    PH_TRY(ph__graph_check(graph, PH__CALL_INPUT_COUNT));
    PH_TRY(ph__graph_collect_inputs(graph, call));
    *out = graph->inputs.count;
    return PH_OK;
}

enum {
    SITE_TEXT = 4096
};

/* The texts of an announced block are told in place of sites. */
static bool describe_places(char *allocated, char *freed, const ph_graph *graph,
                            const ph__input *input)
{
    ph__site sites[2];
    if (input->announced)
        return ph__labels_copy(allocated, freed, SITE_TEXT, graph->device, input->base,
                               input->generation);
    if (!ph__sites_find(&sites[0], &sites[1], input->generation))
        return false;
    if (sites[0].before)
        ph__line_format(allocated, SITE_TEXT, "before ph_memory_record_sites");
    else
        ph__site_describe(allocated, SITE_TEXT, &sites[0]);
    ph__site_describe(freed, SITE_TEXT, &sites[1]);
    return true;
}

static ph_status describe_sites(ph_input_info *out, ph_graph *graph, const ph__input *input,
                                const char *call)
{
    out->allocated_at = out->freed_at = "";
    if (input->generation == 0 || (!input->announced && !ph__sites_wanted()))
        return PH_OK;
    if (graph->site_texts == NULL)
        graph->site_texts = ph__alloc((size_t)2 * SITE_TEXT);
    if (graph->site_texts == NULL)
        return ph__fail_host_memory(call, "the places");
    if (!describe_places(graph->site_texts, graph->site_texts + SITE_TEXT, graph, input))
        return PH_OK;
    out->allocated_at = graph->site_texts;
    out->freed_at = graph->site_texts + SITE_TEXT;
    return PH_OK;
}

/* A slot was set to memory of which it knows nothing: that of others, or any. */
static ph_status ask_slot(ph_input_info *out, ph_graph *graph, const char *call)
{
    ph__drv_pointer where;
    ph_allocation found;
    const void *address = (const void *)(uintptr_t)out->address;
    if (ph__memory_find(&found, graph->device, address)) { /* of a slot that skips the lookup */
        out->base = found.base;
        out->bytes = found.requested;
        out->pinned = found.pinned;
        out->foreign = found.foreign;
        out->state = PH_INPUT_LIVE;
        return PH_OK;
    }
    if (ph__memory_is_reserved(graph->device, address)) {
        out->state = PH_INPUT_FREED;
        return PH_OK;
    }
    int result = graph->device->driver->pointer_info(&where, graph->device->handle, address);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: address %p", call,
                               address);
    if (where.kind == PH__MEMORY_PAGEABLE)
        return PH_OK;
    out->base = (const void *)where.base;
    out->bytes = where.size;
    out->pinned = where.kind == PH__MEMORY_PINNED;
    out->foreign = true;
    out->state = PH_INPUT_LIVE;
    return PH_OK;
}

ph_status ph_graph_input(ph_input_info *out, ph_graph *graph, size_t index)
{
    static const char call[] = "ph_graph_input";
    if (out == NULL)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__graph_check(graph, PH__CALL_INPUT));
    PH_TRY(ph__graph_collect_inputs(graph, call));
    if (index >= graph->inputs.count)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s: input %zu does not exist; the graph has %zu, numbered from 0", call,
                       index, graph->inputs.count);
    const ph__input *input = &graph->inputs.at[index];
    ph__input now = *input;
    if (!input->nested && input->node != SIZE_MAX)
        ph__slots_move(graph, &now);
    ph_input_info info = {.node = input->node == SIZE_MAX ? PH_INPUT_DECLARED : input->node,
                          .node_name = input->node_name,
                          .word = input->word_name,
                          .offset = input->offset,
                          .address = now.value,
                          .base = now.base,
                          .bytes = now.bytes,
                          .proved = ph__input_is_proved(graph, input),
                          .foreign = now.foreign != NULL || now.announced,
                          .pinned = now.pinned};
    if (now.foreign)
        PH_TRY(ph__foreign_ask(now.foreign, graph, call));
    info.state = ph__input_state(graph, &now);
    if (input->base && now.base == NULL)
        PH_TRY(ask_slot(&info, graph, call));
    PH_TRY(describe_sites(&info, graph, &now, call));
    *out = info;
    return PH_OK;
}

/* ---- what cannot be seen ---- */
typedef struct unseen {
    ph__text text;
    size_t kernels, suspected; /* words that nothing proves */
    const char *example;       /* a kernel that has one */
    bool others;               /* so have other ones */
} unseen;

static void add_unseen_name(unseen *to, const char *name)
{
    ph__text_add_shown(&to->text, name, strlen(name));
}

static void say_node(unseen *to, const char *prefix, size_t node, const ph__record_node *at,
                     const char *what)
{
    ph__text_format(&to->text, "node %zu (%s", node, prefix);
    add_unseen_name(to, at->info.name);
    ph__text_format(&to->text, "): %s\n", what);
}

static void collect_unseen_input(unseen *to, const ph_graph *graph, const ph__input *input)
{
    if (ph__input_is_proved(graph, input))
        return;
    if (to->suspected++ == 0)
        to->example = input->node_name;
    to->others = to->others || strcmp(to->example, input->node_name) != 0;
}

static void collect_unseen(unseen *to, const ph_record *record, size_t outer, const char *prefix)
{
    for (size_t n = 0; n < record->node_count; n++) {
        const ph__record_node *node = &record->nodes[n];
        size_t at = outer == SIZE_MAX ? n : outer;
        switch (node->info.kind) {
        case PH_NODE_KERNEL:
            to->kernels++;
            break;
        case PH_NODE_HOST:
            say_node(to, prefix, at, node, "what the host's function reads and writes");
            break;
        case PH_NODE_MEMCPY:
            if (node->info.dst == NULL || node->info.src == NULL)
                say_node(to, prefix, at, node, "an array, which has no address");
            break;
        case PH_NODE_CONDITIONAL:
            say_node(to, prefix, at, node,
                     "the bodies of a conditional, which the driver does not show");
            break;
        case PH_NODE_SEMAPHORE_SIGNAL:
        case PH_NODE_SEMAPHORE_WAIT:
            say_node(to, prefix, at, node, "external semaphores");
            break;
        case PH_NODE_GRAPH:
            if (node->info.body)
                collect_unseen(to, node->info.body, at, "graph: ");
            break;
        default:
            break;
        }
    }
}

static void say_inputs(unseen *to, const ph_graph *graph)
{
    if (to->kernels)
        ph__text_format(&to->text,
                        "%zu kernel%s: addresses that a kernel finds in memory, or in its module's "
                        "globals, stand in "
                        "no parameter, and no driver reports them\n",
                        to->kernels, to->kernels == 1 ? "" : "s");
    for (size_t i = 0; i < graph->inputs.count; i++)
        collect_unseen_input(to, graph, &graph->inputs.at[i]);
    if (to->suspected) {
        ph__text_format(&to->text, "%zu word%s of ", to->suspected, to->suspected == 1 ? "" : "s");
        add_unseen_name(to, to->example);
        ph__text_format(
            &to->text,
            "%s: nothing proves that they are addresses, so that a dead one warns and refuses "
            "nothing; ph_stream_declare_use, or typed parameters, prove them\n",
            to->others ? " and other nodes" : "");
    }
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const ph__input *input = &graph->inputs.at[i];
        if (input->base || input->foreign)
            continue;
        if (input->node != SIZE_MAX)
            ph__text_format(&to->text, "node %zu (", input->node);
        add_unseen_name(to, input->node_name);
        ph__text_add(&to->text, input->node == SIZE_MAX ? ": " : ") ");
        add_unseen_name(to, input->word_name);
        ph__text_format(&to->text,
                        " = 0x%llx: memory that neither this library nor the driver knows\n",
                        (unsigned long long)input->value);
    }
}

ph_status ph_graph_unseen(char **text, ph_graph *graph)
{
    static const char call[] = "ph_graph_unseen";
    unseen to = {0};
    if (text == NULL)
        return ph__fail_null(call, "text");
    *text = NULL;
    PH_TRY(ph__graph_check(graph, PH__CALL_UNSEEN));
    PH_TRY(ph__graph_collect_inputs(graph, call));
    collect_unseen(&to, graph->record, SIZE_MAX, "");
    say_inputs(&to, graph);
    ph__text_add(&to.text, "");
    *text = ph__text_detach(&to.text);
    return *text ? PH_OK : ph__fail_host_memory(call, "the text");
}
