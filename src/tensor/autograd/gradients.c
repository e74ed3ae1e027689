/* SPDX-License-Identifier: MIT */
/* tensor/autograd/gradients.c: gradients where they meet: sums on the way, and what becomes of
 * them in leaves. */
#include "tensor/autograd/gradients.h"
#include "base/status.h"
#include "tensor/autograd/hooks_run.h"
#include "tensor/autograd/marks.h"
#include "tensor/autograd/pass.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/tape.h"

/* ---- sums ---- */
bool ph__gradient_is_ours(const ph_tensor *x)
{
    const ph__storage *storage = x->storage;
    return atomic_load_explicit(&x->references, memory_order_acquire) == 1 &&
           atomic_load_explicit(&storage->references, memory_order_acquire) == 1 && x->contiguous &&
           !storage->read_only && storage->kind == PH__STORAGE_CACHED && !x->overwrite_tag;
}

bool ph__gradient_add(ph_tape *tape, ph_tensor **sum, ph_tensor *grad)
{
    if (!*sum) {
        *sum = ph_tensor_retain(grad);
    } else if (ph__gradient_is_ours(*sum)) {
        ph_tensor_add(tape, *sum, grad, 1.0);
    } else {
        ph_tensor *fresh = ph_tensor_retain(ph_add(tape, *sum, grad));
        if (fresh) {
            ph_tensor_release(*sum);
            *sum = fresh;
        }
    }
    return !ph__tape_failed(tape);
}

/* ---- leaves ---- */
/* A gradient in memory that a later replay writes is borrowed as it is: it is never added to. */
static void borrow_gradient(ph_tape *tape, ph__leaf *leaf, ph__gradient_slot *slot)
{
    if (ph__tensor_is_overwritten(slot->grad)) {
        ph_tape_check(tape, ph__fail_overwritten(slot->grad, "backward", "the gradient of a leaf"));
        return;
    }
    leaf->grad = slot->grad;
    slot->grad = NULL;
}

static void add_beside(ph_tape *tape, ph__leaf *leaf, ph_tensor *grad)
{
    ph_tensor *borrowed = leaf->grad, *sum = ph_tensor_retain(ph_add(tape, borrowed, grad));
    if (!sum)
        return;
    leaf->grad = sum;
    ph_tensor_release(borrowed);
}

/* Work that is done here is in no scope. */
static void accumulate_slot(ph__pass *pass, ph__gradient_slot *slot)
{
    ph_tape *tape = pass->tape;
    ph__leaf *leaf = slot->leaf->leaf;
    if (!leaf->grad && slot->grad->overwrite_tag) {
        borrow_gradient(tape, leaf, slot);
    } else if (!leaf->grad && ph__gradient_is_ours(slot->grad)) {
        leaf->grad = slot->grad;
        slot->grad = NULL;
    } else if (!ph__pass_mark_own(pass, leaf->grad ? "accumulate" : "copy", NULL, slot->leaf)) {
        return;
    } else if (!leaf->grad) {
        leaf->grad = ph_tensor_retain(ph_clone(tape, slot->grad));
    } else if (leaf->grad->overwrite_tag) {
        add_beside(tape, leaf, slot->grad);
    } else {
        ph_tensor_add(tape, leaf->grad, slot->grad, 1.0);
    }
}

static bool run_leaf_hooks(ph__pass *pass, ph__gradient_slot *slot)
{
    ph_tape *tape = pass->tape;
    if (!ph__pass_mark(pass, NULL))
        return false;
    size_t mark = ph_tape_scope_begin(tape);
    ph_tensor *grad = ph__tensor_hooks_run(tape, &slot->leaf->leaf->hooks, 0, slot->grad);
    ph_tape_scope_end(tape, mark, NULL, 0);
    ph_tensor_release(slot->grad);
    slot->grad = grad;
    return grad;
}

bool ph__pass_finish_leaf(ph__pass *pass, ph__gradient_slot *slot)
{
    ph_tape *tape = pass->tape;
    if (slot->leaf->leaf->hooks && !tape->recaptures && !run_leaf_hooks(pass, slot))
        return false;
    size_t mark = ph_tape_scope_begin(tape);
    if (pass->inputs)
        ph__pass_found(pass, slot->leaf, slot->grad);
    else
        accumulate_slot(pass, slot);
    ph_tape_scope_end(tape, mark, NULL, 0);
    ph_tensor *grad = slot->grad;
    slot->grad = NULL;
    ph_tensor_release(grad);
    return !ph__tape_failed(tape);
}
