/* SPDX-License-Identifier: MIT */
/* nn/graphed/info.c: what a graphed callable is made of, for those who ask. */
#include "base/status.h"
#include "base/text.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/call.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/replay.h"
#include "nn/graphed/used.h"
#include "tensor/core/describe.h"
#include "tensor/core/tensor.h"
#include <phonograph/breaks.h>
#include <string.h>

bool ph_module_is_graphed(const ph_module *module)
{
    return ph__module_is_graphed(module);
}

static ph_status find_callable(const ph__callable **out, const ph_module *module, const char *call)
{
    if (!module)
        return ph__fail_null(call, "module");
    if (!ph__module_is_graphed(module))
        return ph_fail(PH_ERROR_STATE,
                       "%s: module '%s' is not graphed; ph_make_graphed_callables makes such ones",
                       call, module->name);
    *out = module->self;
    return PH_OK;
}

static ph_status count_nodes(size_t *out, const ph__callable *callable,
                             const ph__callable_graph *callable_graph)
{
    ph_graph *graph = callable_graph->graph;
    *out = 0;
    if (callable_graph->gone)
        return ph__callable_graph_failed(PH_ERROR_STATE, callable, callable_graph);
    for (size_t i = 0; i < ph_graph_segment_count(graph); i++) {
        const ph_record *record;
        ph_graph *segment;
        PH_TRY(ph_graph_segment(&segment, graph, i));
        PH_TRY(ph_graph_record(&record, segment));
        *out += ph_record_node_count(record);
    }
    return PH_OK;
}

ph_status ph_graphed_callable_info(ph_graphed_info *out, const ph_module *module)
{
    static const char call[] = "ph_graphed_callable_info";
    const ph__callable *callable = NULL;
    if (!out)
        return ph__fail_null(call, "out");
    *out = (ph_graphed_info){0};
    PH_TRY(find_callable(&callable, module, call));
    ph_graphed_info info = {.input_count = callable->in_count,
                            .output_count = callable->out_count,
                            .parameter_count = callable->parameter_count,
                            .saved_bytes = callable->backward.graph ? callable->saved_bytes : 0,
                            .forward_calls = callable->forward.calls,
                            .backward_calls = callable->backward.calls,
                            .gradients = callable->set->options.gradients,
                            .backwards = callable->backward.graph ? 1 + callable->other_count : 0};
    PH_TRY(count_nodes(&info.forward_nodes, callable, &callable->forward));
    PH_TRY(count_nodes(&info.backward_nodes, callable, &callable->backward));
    *out = info;
    return PH_OK;
}

static ph_graphed_input input_of(const ph__binding *binding)
{
    return (ph_graphed_input){.rebound = binding->rebound,
                              .backward_reads =
                                  binding->rebound && binding->backward_slot != PH_SLOT_NONE,
                              .uses = binding->rebound ? binding->uses : 0,
                              .reason = binding->rebound ? "" : binding->reason};
}

ph_status ph_graphed_callable_input(ph_graphed_input *out, const ph_module *module, size_t index,
                                    bool grad_outputs)
{
    static const char call[] = "ph_graphed_callable_input";
    const ph__callable *callable = NULL;
    if (!out)
        return ph__fail_null(call, "out");
    *out = (ph_graphed_input){.reason = ""};
    PH_TRY(find_callable(&callable, module, call));
    size_t count = grad_outputs ? callable->out_count : callable->in_count;
    if (index >= count)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s: graphed callable '%s' has %zu %s, and no number %zu", call,
                       module->name, count, grad_outputs ? "outputs" : "inputs", index);
    *out = input_of(grad_outputs ? &callable->grad_outputs[index] : &callable->inputs[index]);
    return PH_OK;
}

ph_status ph_graphed_callable_graphs(ph_graph **forward, ph_graph **backward,
                                     const ph_module *module)
{
    static const char call[] = "ph_graphed_callable_graphs";
    const ph__callable *callable = NULL;
    if (!forward || !backward)
        return ph__fail_null(call, forward ? "backward" : "forward");
    *forward = *backward = NULL;
    PH_TRY(find_callable(&callable, module, call));
    *forward = callable->forward.graph;
    *backward = callable->backward.graph;
    return PH_OK;
}

ph_status ph_graphed_callable_structures(const ph_structure **inputs, const ph_structure **outputs,
                                         const ph_module *module)
{
    const ph__callable *callable = NULL;
    if (inputs)
        *inputs = NULL;
    if (outputs)
        *outputs = NULL;
    PH_TRY(find_callable(&callable, module, "ph_graphed_callable_structures"));
    if (inputs)
        *inputs = callable->structure;
    if (outputs)
        *outputs = callable->out_structure;
    return PH_OK;
}

/* ---- as text ---- */
static void describe_binding(ph__text *text, const ph__callable *callable,
                             const ph__binding *binding, size_t i, bool grad_outputs)
{
    char path[96], type[PH__DESCRIBE];
    const ph_tensor like = {.dtype = binding->dtype, .shape = binding->shape};
    (void)ph_structure_path(path, sizeof path,
                            grad_outputs ? callable->out_structure : callable->structure, i);
    ph__text_add(text, grad_outputs ? "  gradient of output " : "  input ");
    ph__text_add_shown(text, path, strlen(path));
    ph__text_format(text, " %s: ", ph__describe(type, &like));
    if (!binding->used)
        ph__text_format(text, "none\n");
    else if (!binding->rebound)
        ph__text_format(text, "copied: %s\n", binding->reason);
    else if (binding->uses == 0)
        ph__text_format(text, "rebound, nothing reads it\n");
    else
        ph__text_format(
            text, "rebound, %zu use%s%s\n", binding->uses, binding->uses == 1 ? "" : "s",
            binding->backward_slot != PH_SLOT_NONE ? "; kept until backward, which reads it again"
                                                   : "");
}

static const char *const gradient_names[] = {[PH_GRAPHED_COPY] = "new tensors",
                                             [PH_GRAPHED_ACCUMULATE] = "added to the leaves' own",
                                             [PH_GRAPHED_BORROW] = "the graph's own memory"};

static ph_status describe_others(ph__text *text, const ph__callable *callable)
{
    for (const ph__callable *other = callable->others; other; other = other->next) {
        char names[256];
        size_t nodes;
        PH_TRY(count_nodes(&nodes, callable, &other->backward));
        ph__callable_name_used(names, sizeof names, other);
        ph__text_add(text, "  backward of output ");
        ph__text_add_shown(text, names, strlen(names));
        ph__text_format(text, " alone: %zu nodes\n", nodes);
    }
    return PH_OK;
}

static ph_status describe_plan(ph__text *text, const ph__callable *callable)
{
    ph_graph_memory memory;
    if (!callable->set->options.plan)
        return PH_OK;
    PH_TRY(ph_graph_get_memory(&memory, callable->forward.graph));
    if (memory.plan_ended)
        ph__text_format(text, "  memory: not planned: %s\n", memory.plan_ended);
    else
        ph__text_format(text,
                        "  memory: planned with that of the callables that were made with it: %zu "
                        "bytes, %zu alive at once\n",
                        memory.planned, memory.plan_bound);
    return PH_OK;
}

ph_status ph_graphed_callable_describe(char **out, const ph_module *module)
{
    static const char call[] = "ph_graphed_callable_describe";
    const ph__callable *callable = NULL;
    ph_graphed_info info;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(find_callable(&callable, module, call));
    PH_TRY(ph_graphed_callable_info(&info, module));
    ph__text text = {0};
    ph__text_add(&text, "graphed callable '");
    ph__text_add_shown(&text, module->name, strlen(module->name));
    ph_dtype autocast = callable->set->options.autocast.dtype;
    ph__text_format(&text, "' (%s%s%s)\n", callable->modes[0].training ? "training" : "evaluation",
                    autocast ? ", autocast to " : "", autocast ? ph_dtype_name(autocast) : "");
    ph__text_format(&text, "  forward: %zu nodes, replayed %llu times\n", info.forward_nodes,
                    (unsigned long long)info.forward_calls);
    if (callable->backward.graph)
        ph__text_format(
            &text,
            "  backward: %zu nodes, replayed %llu times, reads %zu bytes that forward leaves; "
            "gradients are %s\n",
            info.backward_nodes, (unsigned long long)info.backward_calls, info.saved_bytes,
            gradient_names[info.gradients]);
    else
        ph__text_format(&text, "  backward: none, no output has a gradient\n");
    ph_status status = describe_others(&text, callable);
    if (status == PH_OK)
        status = describe_plan(&text, callable);
    if (status != PH_OK) {
        ph__text_free(&text);
        return status;
    }
    for (size_t i = 0; i < callable->in_count; i++)
        describe_binding(&text, callable, &callable->inputs[i], i, false);
    for (size_t i = 0; callable->backward.graph && i < callable->out_count; i++)
        describe_binding(&text, callable, &callable->grad_outputs[i], i, true);
    *out = ph__text_detach(&text);
    return *out ? PH_OK : ph__fail_host_memory(call, "the description");
}
