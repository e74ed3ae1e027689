/* SPDX-License-Identifier: MIT */
/* tensor/tape/leaf.c: tensors that have a gradient of their own: whether they require one, and
 * which it is. */
#include "tensor/tape/leaf.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/core/describe.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/relied.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/node.h"

bool ph_tensor_requires_grad(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_requires_grad") &&
           (x->requires_grad || ph__node_is_alive(x->node));
}

bool ph_tensor_is_leaf(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_is_leaf") && !ph__node_is_alive(x->node);
}

ph_status ph_tensor_set_requires_grad(ph_tensor *x, bool requires_grad)
{
    static const char call[] = "ph_tensor_set_requires_grad";
    char text[PH__DESCRIBE];
    if (!x)
        return ph__fail_null(call, "x");
    PH_TRY(ph__tensor_check_there(x, call, "the tensor"));
    if (ph__node_is_alive(x->node))
        return ph_fail(PH_ERROR_STATE,
                       "%s: %s was made by an operator, and is no leaf; ph_detach gives one", call,
                       ph__describe(text, x));
    if (requires_grad && !ph_dtype_is_floating(x->dtype))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %s has no gradient: its dtype is not a floating one",
                       call, ph__describe(text, x));
    /* Made now, while nobody else uses x: tapes of several threads may read a parameter. */
    if (requires_grad && !ph__tensor_leaf(x))
        return ph__fail_host_memory(call, "the gradient of a tensor");
    ph__node_release(x->node);
    x->node = NULL;
    x->output = 0;
    x->requires_grad = requires_grad;
    ph__tensor_altered(x);
    return PH_OK;
}

ph_tensor *ph_tensor_grad(const ph_tensor *x)
{
    return ph__tensor_is_there(x, "ph_tensor_grad") && x->leaf ? x->leaf->grad : NULL;
}

ph__leaf *ph__tensor_leaf(ph_tensor *x)
{
    if (!x->leaf)
        x->leaf = ph__calloc(1, sizeof *x->leaf);
    return x->leaf;
}

ph_status ph__tensor_check_grad(const ph_tensor *x, const ph_tensor *grad, const char *call)
{
    char a[PH__DESCRIBE], b[PH__DESCRIBE];
    PH_TRY(ph__tensor_check_there(x, call, "the tensor"));
    PH_TRY(ph__tensor_check_there(grad, call, "the gradient"));
    if (grad->dtype != x->dtype || !ph_shape_equal(&grad->shape, &x->shape))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the gradient is %s, and must be %s as the tensor is",
                       call, ph__describe(a, grad), ph__describe(b, x));
    if (ph_tensor_device(grad) != ph_tensor_device(x))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the gradient %s is on another device than the tensor", call,
                       ph__describe(a, grad));
    return PH_OK;
}

ph_status ph_tensor_set_grad(ph_tensor *x, ph_tensor *grad)
{
    static const char call[] = "ph_tensor_set_grad";
    if (!x)
        return ph__fail_null(call, "x");
    PH_TRY(ph__tensor_check_there(x, call, "the tensor"));
    if (!grad && !x->leaf)
        return PH_OK;
    if (grad == x)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: a tensor cannot be its own gradient", call);
    if (grad)
        PH_TRY(ph__tensor_check_grad(x, grad, call));
    ph__leaf *leaf = ph__tensor_leaf(x);
    if (!leaf)
        return ph__fail_host_memory(call, "the gradient of a tensor");
    ph_tensor *old = leaf->grad;
    leaf->grad = ph_tensor_retain(grad);
    ph_tensor_release(old);
    return PH_OK;
}
