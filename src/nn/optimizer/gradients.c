/* SPDX-License-Identifier: MIT */
/* nn/optimizer/gradients.c: the gradients of an optimizer's parameters: released, filled with
 * zeros, or with a scale. */
#include "nn/optimizer/optimizer.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/release.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

static bool check_optimizer(ph_tape *tape, const ph_optimizer *optimizer, const char *call)
{
    if (!optimizer && tape)
        ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: optimizer is NULL, and must not be", call);
    return optimizer;
}

void ph_optimizer_zero_grad(ph_tape *tape, ph_optimizer *optimizer)
{
    if (!check_optimizer(tape, optimizer, "ph_optimizer_zero_grad"))
        return;
    ph__releases releases = {0};
    for (size_t i = 0; i < optimizer->params.count; i++)
        ph__tensor_drop_grad_among(optimizer->params.at[i].param, &releases);
    ph__releases_end(&releases);
}

/* In a capture the record says what the fills are for, whatever scope they lie in. */
static void fill_gradients(ph_tape *tape, const ph_optimizer *optimizer)
{
    static const ph_annotation_pair why = {
        .key = "made_for", .type = PH_ANNOTATION_TEXT, .text = "gradients (clear)"};
    size_t depth = ph_annotation_depth();
    bool captured = ph_stream_is_capturing(ph_tape_stream(tape));
    if (captured)
        ph_tape_check(tape, ph_annotation_resume(ph_tape_stream(tape), NULL, &why, 1));
    for (size_t i = 0; i < optimizer->params.count; i++) {
        ph_tensor *grad = ph_tensor_grad(optimizer->params.at[i].param);
        if (grad)
            ph_tensor_fill(tape, grad, 0);
    }
    if (ph_annotation_depth() > depth)
        ph_tape_check(tape, ph_annotation_pop(ph_tape_stream(tape)));
}

/* Before anything is filled. */
static bool check_writable(ph_tape *tape, const ph_optimizer *optimizer, const char *call)
{
    for (size_t i = 0; i < optimizer->params.count; i++) {
        const ph__trained *p = &optimizer->params.at[i];
        const ph_tensor *grad = ph_tensor_grad(p->param);
        const char *shared = grad ? ph__tensor_shared_elements(grad) : NULL;
        if (!grad || !(grad->storage->read_only || shared))
            continue;
        ph_tape_fail(
            tape, PH_ERROR_STATE, "%s: the gradient of parameter %s %s%s", call, p->name,
            grad->storage->read_only ? "is in read-only memory" : shared,
            grad->storage->read_only ? "" : ": several of its elements are one; ph_contiguous it");
        return false;
    }
    return true;
}

void ph_optimizer_zero_grad_in_place(ph_tape *tape, ph_optimizer *optimizer)
{
    static const char call[] = "ph_optimizer_zero_grad_in_place";
    if (!tape)
        return;
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return;
    }
    if (!check_optimizer(tape, optimizer, call) || !check_writable(tape, optimizer, call))
        return;
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    fill_gradients(tape, optimizer);
    ph_tape_set_grad_enabled(tape, enabled);
}

void ph_optimizer_set_grad_scale(ph_tape *tape, ph_optimizer *optimizer, ph_tensor *grad_scale)
{
    static const char call[] = "ph_optimizer_set_grad_scale";
    if (!tape)
        return;
    if (ph__tape_failed(tape)) {
        ph__tape_skip(tape);
        return;
    }
    if (!optimizer) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT, "%s: optimizer is NULL, and must not be", call);
        return;
    }
    if (!grad_scale) {
        optimizer->scales = false;
        return;
    }
    ph_status there = ph__tensor_check_there(grad_scale, call, "grad_scale");
    if (there != PH_OK) {
        ph_tape_check(tape, there);
        return;
    }
    if (grad_scale->dtype != PH_DTYPE_F32 || grad_scale->count != 1) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                     "%s: grad_scale is %s of %lld elements, and must be "
                     "an f32 scalar",
                     call, ph_dtype_name(grad_scale->dtype), (long long)grad_scale->count);
        return;
    }
    if (!optimizer->grad_scale && ph_stream_is_capturing(ph_tape_stream(tape))) {
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "%s: the memory of a grad_scale cannot be made in a "
                     "capture; call it once before",
                     call);
        return;
    }
    if (!optimizer->grad_scale)
        ph_tape_check(tape, ph_tensor_create(&optimizer->grad_scale, optimizer->device,
                                             PH_DTYPE_F32, PH_SCALAR));
    bool enabled = ph_tape_set_grad_enabled(tape, false);
    if (!ph__tape_failed(tape))
        ph_tensor_copy(tape, optimizer->grad_scale, ph_reshape(tape, grad_scale, PH_SCALAR));
    ph_tape_set_grad_enabled(tape, enabled);
    optimizer->scales |= !ph__tape_failed(tape);
}
