/* SPDX-License-Identifier: MIT */
/* nn/gradients/gradients.c: the gradients of a module or an optimizer, and runs over them. */
#include "nn/gradients/gradients.h"
#include "base/alloc.h"
#include "nn/module/traverse.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <stdint.h>
#include <string.h>

/* ---- gathering ---- */
typedef struct gathering {
    ph__gradients *gradients;
    ph_tape *tape;
    bool failed;
} gathering;

static bool fail_gradient(gathering *to, const char *name, const char *what)
{
    ph_tape_fail(to->tape, PH_ERROR_STATE, "%s: the gradient of parameter %s %s",
                 to->gradients->call, name, what);
    return false;
}

static bool check_elements(gathering *to, const char *name, const ph_tensor *grad)
{
    const char *shared = to->gradients->writes ? ph__tensor_shared_elements(grad) : NULL;
    if (shared)
        ph_tape_fail(to->tape, PH_ERROR_STATE,
                     "%s: the gradient of parameter %s %s: several of its elements are one; "
                     "ph_contiguous it",
                     to->gradients->call, name, shared);
    return !shared;
}

/* Only memory with several handles can have been met before. */
static bool check_shared(gathering *to, const char *name, const ph_tensor *grad, bool *known)
{
    const ph__gradients *g = to->gradients;
    *known = false;
    if (atomic_load_explicit(&grad->references, memory_order_relaxed) == 1 &&
        atomic_load_explicit(&grad->storage->references, memory_order_relaxed) == 1 &&
        grad->storage->kind == PH__STORAGE_CACHED)
        return true;
    for (size_t i = 0; i < g->list.count && !*known; i++) {
        const ph_tensor *other = g->list.at[i].tensor;
        *known = other == grad || (other->data == grad->data && other->dtype == grad->dtype &&
                                   ph_shape_equal(&other->shape, &grad->shape) &&
                                   other->contiguous && grad->contiguous);
        if (!*known && ph__tensors_overlap(other, grad))
            return fail_gradient(to, name, "overlaps another one in memory; give each its own");
    }
    return true;
}

static bool check_part(gathering *to, const char *name, const ph_tensor *param)
{
    ph__leaf_part part = ph__leaf_part_of(param);
    if (part == PH__LEAF_SHARDED)
        return fail_gradient(
            to, name,
            "is that of its shards, as the network was made with shard_optimizer; see "
            "ph_data_parallel_shards");
    if (part == PH__LEAF_SHARD && to->gradients->whole)
        return fail_gradient(to, name,
                             "is a part of it, and other ranks have the others; call "
                             "ph_data_parallel_clip_grad_norm");
    return true;
}

static bool add_gradient(gathering *to, const char *name, const ph_tensor *param)
{
    bool known;
    if (!check_part(to, name, param))
        return false;
    ph_tensor *grad = param->count > 0 ? ph_tensor_grad(param) : NULL;
    if (!grad)
        return true;
    if (grad->dtype != PH_DTYPE_F32 && grad->dtype != PH_DTYPE_F64) {
        ph_tape_fail(to->tape, PH_ERROR_ARGUMENT,
                     "%s: the gradient of parameter %s is of %s, and must be f32 or f64; autocast "
                     "computes with f32 parameters in f16 or bf16",
                     to->gradients->call, name, ph_dtype_name(grad->dtype));
        return false;
    }
    if (grad->storage->read_only)
        return fail_gradient(to, name, "is in read-only memory");
    if (!check_elements(to, name, grad) || !check_shared(to, name, grad, &known))
        return false;
    if (!ph__vec_push(&to->gradients->params, param)) {
        ph__tape_fail_host_memory(to->tape, to->gradients->call, "a list of parameters");
        return false;
    }
    ph__gradient one = {grad, grad};
    if (known)
        return true;
    if (ph__vec_push(&to->gradients->list, one) && ph__vec_push(&to->gradients->operands, grad)) {
        to->gradients->wide += grad->dtype == PH_DTYPE_F64;
        return true;
    }
    ph__tape_fail_host_memory(to->tape, to->gradients->call, "a list of gradients");
    return false;
}

static bool collect_entry(const ph__entry *entry, void *user)
{
    gathering *to = user;
    if (!entry->tensor || entry->buffer || !ph_tensor_requires_grad(entry->tensor))
        return true;
    const char *name = ph__entry_name(entry);
    to->failed = name && !add_gradient(to, name, entry->tensor);
    return name && !to->failed;
}

static bool gather_gradients(ph__gradients *g, ph_tape *tape, const ph_module *module,
                             const ph_optimizer *optimizer)
{
    gathering to = {.gradients = g, .tape = tape};
    if (module) {
        if (!ph__module_walk(module, collect_entry, &to) && !to.failed)
            ph__tape_fail_host_memory(tape, g->call, "the parameters of a module");
        return !ph__tape_failed(tape);
    }
    for (size_t i = 0; i < optimizer->params.count; i++)
        if (!add_gradient(&to, optimizer->params.at[i].name, optimizer->params.at[i].param))
            return false;
    return true;
}

/* ---- an operation ---- */
static bool make_flat(ph__gradients *g)
{
    for (size_t i = 0; i < g->list.count; i++) {
        ph__gradient *one = &g->list.at[i];
        if (!one->tensor->contiguous && !(one->flat = ph_contiguous(g->op.tape, one->tensor)))
            return false;
        g->blocks += ((uint64_t)one->flat->count + PH__GRADIENT_CHUNK - 1) / PH__GRADIENT_CHUNK;
    }
    return true;
}

bool ph__gradients_begin(ph__gradients *g, ph_tape *tape, const ph_module *module,
                         const ph_optimizer *optimizer, ph_tensor *const *more, size_t count,
                         const char *call)
{
    *g =
        (ph__gradients){.writes = g->writes, .whole = g->whole, .call = call, .op = {.tape = tape}};
    g->grad_enabled = ph_tape_set_grad_enabled(tape, false);
    if (!gather_gradients(g, tape, module, optimizer))
        return false;
    g->all_wide = g->list.count > 0 && g->wide == g->list.count;
    for (size_t i = 0; i < count; i++)
        if (more[i] && !ph__vec_push(&g->operands, more[i])) {
            ph__tape_fail_host_memory(tape, call, "a list of gradients");
            return false;
        }
    size_t operands = g->operands.count;
    return ph__op_begin(&g->op, tape, call, g->operands.at, operands, operands) && make_flat(g);
}

/* From *next on the gradients of dtype that fit; *next moves behind them. */
static uint64_t fill_chunk(ph__gradients_args *a, const ph__gradients *g, ph_dtype dtype,
                           size_t *next)
{
    uint64_t blocks = 0;
    for (; *next < g->list.count && a->tensors < PH__GRADIENT_TENSORS; ++*next) {
        const ph_tensor *flat = g->list.at[*next].flat;
        uint32_t i = a->tensors;
        if (flat->dtype != dtype)
            continue;
        a->grad[i] = flat->data;
        a->count[i] = flat->count;
        a->first[i] = (uint32_t)blocks;
        blocks += ((uint64_t)flat->count + PH__GRADIENT_CHUNK - 1) / PH__GRADIENT_CHUNK;
        a->tensors++;
    }
    return blocks;
}

bool ph__gradients_make(ph__gradients *g, ph__kernel_def *const defs[2])
{
    const bool needed[] = {g->wide<g->list.count, g->wide> 0};
    for (int wide = 0; wide < 2; wide++)
        if (needed[wide] && !ph__kernel_get(g->op.tape->backend, defs[wide])) {
            ph__tape_fail_recorded(g->op.tape);
            return false;
        }
    return true;
}

bool ph__gradients_run(ph__gradients *g, ph__kernel_def *const defs[2],
                       const ph__gradients_args *with, bool writes)
{
    double *partial = with->partial;
    if (!ph__gradients_make(g, defs))
        return false;
    for (int wide = 0; wide < 2; wide++)
        for (size_t next = 0; next < g->list.count;) {
            ph__gradients_args args = *with;
            args.partial = partial;
            uint64_t blocks = fill_chunk(&args, g, wide ? PH_DTYPE_F64 : PH_DTYPE_F32, &next);
            if (!ph__op_launch(&g->op, defs[wide], blocks, PH__GRADIENT_THREADS, 0, &args))
                return false;
            g->written = g->written || writes;
            partial = partial ? partial + blocks : NULL;
        }
    return true;
}

static void drop_gradients(const ph__gradients *g)
{
    for (size_t i = 0; i < g->params.count; i++)
        ph_ignore(ph_tensor_set_grad((ph_tensor *)(uintptr_t)g->params.at[i], NULL));
}

ph_tensor *ph__gradients_end(ph__gradients *g, bool changed, ph_tensor *out)
{
    ph_tape *tape = g->op.tape;
    for (size_t i = 0; changed && i < g->list.count && !ph__tape_failed(tape); i++) {
        const ph__gradient *one = &g->list.at[i];
        if (one->flat != one->tensor)
            ph_tensor_copy(tape, one->tensor, one->flat);
        else
            ph__op_change(&g->op, one->tensor);
    }
    if (!ph__tape_failed(tape))
        ph__op_done_n(&g->op, &out, out ? 1 : 0);
    if (ph__tape_failed(tape) && g->written && !ph_stream_is_capturing(ph_tape_stream(tape)))
        drop_gradients(g);
    ph_tape_set_grad_enabled(tape, g->grad_enabled);
    ph__vec_free(&g->list);
    ph__vec_free(&g->params);
    ph__vec_free(&g->operands);
    return ph__tape_failed(tape) ? NULL : out;
}
