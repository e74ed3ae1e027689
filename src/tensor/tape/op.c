/* SPDX-License-Identifier: MIT */
/* tensor/tape/op.c: what every operator does: checking its operands, making its results,
 * launching, being remembered. */
#include "tensor/tape/op.h"
#include "base/checked.h"
#include "base/line.h"
#include "base/status.h"
#include "tensor/backend/kernels.h"
#include "tensor/core/describe.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/released.h"
#include "tensor/core/relied.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/node.h"
#include "tensor/tape/region.h"
#include "tensor/tape/sightings.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"
#include <stdio.h>
#include <string.h>

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Out of line, so that what is usual stays small. */
#define COLD __attribute__((cold, noinline))

/* ---- failing ---- */
/* " (got f32[2, 3], NULL)"; "..." where there is no more room. */
static COLD void describe_operands(char *out, size_t size, const ph__op *op)
{
    char one[PH__DESCRIBE];
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < op->in_count; i++) {
        const char *text = ph__describe(one, op->in[i]);
        const char *before = i == 0 ? " (got " : ", ";
        size_t more = strlen(before) + strlen(text);
        if (used + more + sizeof ", ...)" > size) {
            memcpy(out + used, used ? ", ...)" : " (...)", sizeof ", ...)");
            return;
        }
        (void)stpcpy(stpcpy(out + used, before), text);
        used += more;
    }
    if (used > 0)
        memcpy(out + used, ")", sizeof ")");
}

COLD void *ph__op_fail(ph__op *op, ph_status status, const char *format, ...)
{
    char words[sizeof((ph_error *)0)->message], operands[256];
    if (ph__tape_failed(op->tape))
        return NULL;
    va_list args;
    va_start(args, format);
    ph__line_vformat(words, sizeof words, format, args);
    va_end(args);
    describe_operands(operands, sizeof operands, op);
    ph_tape_fail(op->tape, status, "%s: %s%s", op->name, words, operands);
    return NULL;
}

static COLD bool fail_call(ph__op *op)
{
    char operands[256];
    if (ph__tape_failed(op->tape))
        return false;
    ph__error_prefix("%s", op->name);
    describe_operands(operands, sizeof operands, op);
    ph__error_suffix(operands);
    ph__tape_fail_recorded(op->tape);
    return false;
}

bool ph__op_check(ph__op *op, ph_status status)
{
    return !UNLIKELY(status != PH_OK) || fail_call(op);
}

static COLD bool fail_host_memory(ph__op *op, const char *what_for)
{
    ph__op_fail(op, PH_ERROR_HOST_MEMORY, "no host memory for %s", what_for);
    return false;
}

/* ---- beginning ---- */
static COLD bool fail_operand(ph__op *op, size_t i)
{
    const ph_tensor *x = op->in[i];
    if (!x)
        ph__op_fail(op, PH_ERROR_ARGUMENT, "operand %zu is NULL", i);
    else if (x->storage->backend == &ph__backend_gone)
        ph__op_fail(
            op, PH_ERROR_STATE,
            "operand %zu is gone: its last reference was released, or its tape was cleared; "
            "PH_QUARANTINE=100000 says which",
            i);
    else if (x->storage->backend != op->tape->backend)
        ph__op_fail(op, PH_ERROR_WRONG_DEVICE,
                    "operand %zu is of another device than the tape; ph_to_device copies it there",
                    i);
    else
        ph__op_fail(op, PH_ERROR_STATE,
                    "operand %zu has history on another tape, where its gradient would be lost; "
                    "ph_detach it first",
                    i);
    return false;
}

static COLD bool fail_operand_overwritten(const ph__op *op, size_t i)
{
    char which[32];
    (void)snprintf(which, sizeof which, "operand %zu", i);
    ph_tape_check(op->tape, ph__fail_overwritten(op->in[i], op->name, which));
    return false;
}

static COLD bool begin_slow(const char *name, const ph_tape *tape)
{
    if (!tape)
        ph_ignore(ph__fail_null(name, "tape"));
    else
        ph__tape_skip(tape);
    return false;
}

bool ph__op_begin(ph__op *op, ph_tape *tape, const char *name, ph_tensor *const *in,
                  size_t in_count, size_t required)
{
    if (UNLIKELY(!tape || ph__tape_failed(tape)))
        return begin_slow(name, tape);
    *op = (ph__op){
        .tape = tape, .name = name, .in = in, .in_count = in_count, .mark = tape->owned_count};
    for (size_t i = 0; i < in_count; i++) {
        ph_tensor *x = in[i];
        if (!x) {
            if (UNLIKELY(i < required))
                return fail_operand(op, i);
            continue;
        }
        ph__storage *storage = x->storage;
        if (UNLIKELY(storage->backend != tape->backend))
            return fail_operand(op, i);
        if (ph__tensor_is_overwritten(x))
            return fail_operand_overwritten(op, i);
        if (storage->key != tape->key) {
            if (atomic_load_explicit(&storage->last_key, memory_order_relaxed) != tape->key &&
                UNLIKELY(ph__storage_use(storage, tape->stream, tape->key) != PH_OK))
                return fail_call(op);
            if (UNLIKELY(tape->sightings != NULL) && !ph__sight(tape->sightings, x, name))
                return fail_host_memory(op, "what it uses");
        }
        if (tape->grad_enabled && ph__needs_grad(x)) {
            if (UNLIKELY(x->node && x->node->alive && x->node->tape != tape))
                return fail_operand(op, i);
            op->tracked = true;
            if (UNLIKELY(tape->hollow) && !x->node && !ph__region_sight(tape->region, x, name))
                return fail_host_memory(op, "what it reads");
        }
    }
    return true;
}

/* ---- results ---- */
static ph_tensor *own_around(ph__op *op, ph__storage *storage, ph_dtype dtype,
                             const ph_shape *shape, const int64_t *strides, size_t offset)
{
    ph_tensor *x = ph__tensor_make(storage, dtype, shape, strides, offset);
    if (UNLIKELY(!x)) {
        fail_host_memory(op, "a tensor");
        return NULL;
    }
    return ph__tape_own(op->tape, x) ? x : NULL;
}

int ph__op_axis(ph__op *op, int axis, size_t rank)
{
    int at = ph__axis(axis, rank);
    if (at < 0)
        ph__op_fail(op, PH_ERROR_ARGUMENT, "there is no axis %d", axis);
    return at;
}

ph_tensor *ph__op_output(ph__op *op, ph_dtype dtype, const ph_shape *shape)
{
    ph_tape *tape = op->tape;
    ph_tensor *x;
    size_t bytes;
    if (UNLIKELY(ph__tape_failed(tape)))
        return NULL;
    int64_t count = ph_shape_count(shape);
    if (UNLIKELY(count < 0 || !ph__mul((size_t)count, ph_dtype_size(dtype), &bytes) ||
                 bytes > PTRDIFF_MAX))
        return ph__op_fail(op, PH_ERROR_SIZE,
                           "the result would have more elements than memory can");
    if (UNLIKELY(ph__tensor_fresh(&x, &tape->spares, tape->backend, dtype, shape, bytes,
                                  tape->stream, tape->key) != PH_OK)) {
        fail_call(op);
        return NULL;
    }
    return ph__tape_own(tape, x) ? x : NULL;
}

ph_tensor *ph__op_output_like(ph__op *op, ph_dtype dtype, const ph_tensor *x)
{
    ph_tape *tape = op->tape;
    ph_tensor *y;
    if (UNLIKELY(ph__tape_failed(tape)))
        return NULL;
    if (UNLIKELY(ph__tensor_fresh_like(&y, &tape->spares, dtype, x, tape->stream, tape->key) !=
                 PH_OK)) {
        fail_call(op);
        return NULL;
    }
    return ph__tape_own(tape, y) ? y : NULL;
}

ph_tensor *ph__op_view(ph__op *op, ph_tensor *base, const ph_shape *shape, const int64_t *strides,
                       int64_t offset)
{
    if (UNLIKELY(ph__tape_failed(op->tape)))
        return NULL;
    uintptr_t from = base->count == 0 ? 0 : (uintptr_t)base->data - (uintptr_t)base->storage->data;
    ph_tensor *x =
        own_around(op, base->storage, base->dtype, shape, strides,
                   base->count == 0 ? 0 : from + (size_t)offset * ph_dtype_size(base->dtype));
    if (x)
        ph__tensor_tag_like(x, base);
    return x;
}

ph_tensor *ph__op_alias(ph__op *op, const ph_tensor *base, int *ahead)
{
    if (UNLIKELY(ph__tape_failed(op->tape)))
        return NULL;
    ph_tensor *x = ph__tensor_alias(&op->tape->spares, base, ahead);
    if (UNLIKELY(!x)) {
        fail_host_memory(op, "a tensor");
        return NULL;
    }
    return ph__tape_own(op->tape, x) ? x : NULL;
}

ph_tensor *ph__op_scratch(ph__op *op, size_t bytes)
{
    if (UNLIKELY(bytes > PTRDIFF_MAX))
        return ph__op_fail(op, PH_ERROR_SIZE, "it would need %zu bytes of scratch", bytes);
    return ph__op_output(op, PH_DTYPE_U8, &PH_SHAPE((int64_t)bytes));
}

/* ---- work ---- */
static inline __attribute__((always_inline)) bool
launch(ph__op *op, ph__kernel_def *def, const ph_launch_config *config, const void *args)
{
    ph_tape *tape = op->tape;
    ph_kernel *kernel = ph__kernel_get(tape->backend, def);
    if (UNLIKELY(!kernel))
        return fail_call(op);
    if (UNLIKELY(tape->sightings != NULL) && !ph__sight_kernel(tape->sightings, def->name))
        return fail_host_memory(op, "what it launches");
    return ph__op_check(op, ph_launch(tape->stream, kernel, config, args, def->args_size));
}

/* Every kernel of ours waits for what is before it by itself: programmatic. */
bool ph__op_launch_grid(ph__op *op, ph__kernel_def *def, const uint32_t grid[3],
                        const uint32_t block[3], size_t shared_bytes, const void *args)
{
    if (UNLIKELY(ph__tape_failed(op->tape)))
        return false;
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return true;
    ph_launch_config config = {.grid = {grid[0], grid[1], grid[2]},
                               .block = {block[0], block[1], block[2]},
                               .shared_bytes = shared_bytes,
                               .programmatic = true};
    return launch(op, def, &config, args);
}

bool ph__op_launch(ph__op *op, ph__kernel_def *def, uint64_t blocks, uint32_t threads,
                   size_t shared_bytes, const void *args)
{
    if (UNLIKELY(blocks > INT32_MAX))
        return ph__op_fail(op, PH_ERROR_SIZE,
                           "it would take %llu blocks, more than a grid can have",
                           (unsigned long long)blocks);
    if (UNLIKELY(ph__tape_failed(op->tape)))
        return false;
    ph_launch_config config = {.grid = {(uint32_t)blocks},
                               .block = {threads},
                               .shared_bytes = shared_bytes,
                               .programmatic = true};
    return blocks == 0 || launch(op, def, &config, args);
}

bool ph__op_uses(ph__op *op, const void *address)
{
    return ph__op_check(op, ph_stream_declare_use(op->tape->stream, address, op->name));
}

/* ---- the end ---- */
static void give_history(ph__op *op, ph_tensor *x, size_t i)
{
    if (!x || !ph_dtype_is_floating(x->dtype) || x->node)
        return;
    x->node = ph__node_retain_new(op->node);
    x->output = (uint32_t)i;
    ph__tensor_altered(x);
}

ph_tensor *ph__op_done(ph__op *op, ph_tensor *out)
{
    const ph_tape *tape = op->tape;
    if (!op->node && !ph__tape_failed(tape) && !ph__quarantine_is_on(tape->backend) &&
        ph__tape_is_newest(tape, op->mark, out))
        return out;
    return ph__op_done_n(op, &out, 1) ? out : NULL;
}

bool ph__op_done_n(ph__op *op, ph_tensor **out, size_t count)
{
    ph_tape *tape = op->tape;
    for (size_t i = 0; i < count && UNLIKELY(ph__quarantine_is_on(tape->backend)); i++)
        if (out[i])
            ph__quarantine_name(out[i], op->name);
    if (op->node && !ph__tape_failed(tape)) {
        if (UNLIKELY(!ph__node_set_outputs(op->node, count)))
            fail_host_memory(op, "its history");
        else
            for (size_t i = 0; i < count; i++)
                give_history(op, out[i], i);
    }
    if (UNLIKELY(ph__tape_failed(tape))) {
        for (size_t i = 0; i < count; i++)
            out[i] = NULL;
        return false;
    }
    if (count != 1 || !ph__tape_is_newest(tape, op->mark, out[0]))
        ph__tape_drop(tape, op->mark, out, count);
    return true;
}

/* ---- in place ---- */
bool ph__op_change(ph__op *op, ph_tensor *dst)
{
    if (UNLIKELY(ph__tape_failed(op->tape)))
        return false;
    if (UNLIKELY(dst->storage->read_only))
        return ph__op_fail(op, PH_ERROR_STATE,
                           "its memory is read-only, and cannot be changed in place");
    if (UNLIKELY(op->tape->grad_enabled && ph__needs_grad(dst)))
        return ph__op_fail(op, PH_ERROR_STATE,
                           "a tensor that requires a gradient cannot be changed in place while "
                           "gradients are enabled; "
                           "ph_tape_set_grad_enabled(tape, false) around it, or ph_detach");
    ph_capture_info info;
    if (!ph__op_check(op, ph_stream_get_capture_info(&info, op->tape->stream)))
        return false;
    ph__storage_changed(dst->storage, info.id, op->tape->key);
    return true;
}
