/* SPDX-License-Identifier: MIT */
/* nn/parallel/shard_module.c: the module that has this rank's part of the parameters. */
#include "nn/parallel/shard_module.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/module/module.h"

/* One level: room for its parameters and children. The tensors are the module's own array, as it
 * may outlive the network. */
typedef struct level {
    ph_parameter *parameters;
    ph_tensor **tensors;
    ph_child *children;
    size_t parameter_count, child_count;
} level;

static void refuse_call(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)out;
    (void)in;
    (void)self;
    ph_tape_fail(tape, PH_ERROR_STATE,
                 "the module of ph_data_parallel_shards has parts of parameters, and cannot be "
                 "called; call the network");
}

static void free_tensors(void *tensors)
{
    ph__free(tensors);
}

static ph_tensor *find_segment(const ph_data_parallel *parallel, const ph_tensor *parameter)
{
    for (size_t i = 0; i < parallel->segments.count; i++) {
        const ph__shard_segment *s = &parallel->segments.at[i];
        if (s->values && parallel->parts.at[s->part].parameter == parameter)
            return s->values;
    }
    return NULL;
}

static bool make_room(level *to, const ph_module *of)
{
    to->parameters = ph__calloc(of->parameters.count + 1, sizeof *to->parameters);
    to->tensors = ph__calloc(of->parameters.count + 1, sizeof(ph_tensor *));
    to->children = ph__calloc(of->children.count + 1, sizeof *to->children);
    return to->parameters && to->tensors && to->children;
}

static ph_status make_level(ph_module **out, const ph_data_parallel *parallel, const ph_module *of,
                            const char *call);

static ph_status fill_level(level *to, const ph_data_parallel *parallel, const ph_module *of,
                            const char *call)
{
    if (!make_room(to, of))
        return ph__fail_host_memory(call, "the shards");
    for (size_t i = 0; i < of->parameters.count; i++) {
        ph_tensor *values = find_segment(parallel, of->parameters.at[i].tensor);
        if (!values)
            continue;
        to->tensors[to->parameter_count] = values;
        to->parameters[to->parameter_count] =
            (ph_parameter){of->parameters.at[i].name, &to->tensors[to->parameter_count]};
        to->parameter_count++;
    }
    for (size_t i = 0; i < of->children.count; i++) {
        ph_module *child;
        PH_TRY(make_level(&child, parallel, of->children.at[i].module, call));
        to->children[to->child_count++] = (ph_child){of->children.at[i].name, child};
    }
    return PH_OK;
}

static ph_status make_module(ph_module **out, const ph_data_parallel *parallel, const char *name,
                             const level *from)
{
    const ph_module_desc desc = {.name = name,
                                 .forward = refuse_call,
                                 .self = from->tensors,
                                 .destroy = free_tensors,
                                 .parameters = from->parameters,
                                 .parameter_count = from->parameter_count,
                                 .children = from->children,
                                 .child_count = from->child_count};
    return ph_module_create(out, ph_module_device(parallel->module), &desc);
}

static ph_status make_level(ph_module **out, const ph_data_parallel *parallel, const ph_module *of,
                            const char *call)
{
    level to = {0};
    ph_status status = fill_level(&to, parallel, of, call);
    if (status == PH_OK)
        status = make_module(out, parallel, of->name, &to);
    if (status != PH_OK)
        ph__free(to.tensors);
    for (size_t i = 0; i < to.child_count; i++)
        ph_module_release(to.children[i].module);
    ph__free(to.children);
    ph__free(to.parameters);
    return status;
}

ph_status ph__shard_module_create(ph_module **out, const ph_data_parallel *parallel,
                                  const char *call)
{
    char name[64];
    ph_module *network;
    ph__line_format(name, sizeof name, "shard_%u_of_%u", ph_comm_rank(parallel->comm),
                    ph_comm_size(parallel->comm));
    PH_TRY(make_level(&network, parallel, parallel->module, call));
    const ph_child child = {name, network};
    const ph_module_desc desc = {
        .name = "shards", .forward = refuse_call, .children = &child, .child_count = 1};
    ph_status status = ph_module_create(out, ph_module_device(parallel->module), &desc);
    ph_module_release(network);
    return status;
}
