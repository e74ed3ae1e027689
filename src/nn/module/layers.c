/* SPDX-License-Identifier: MIT */
/* nn/module/layers.c: Linear, Embedding, LayerNorm, RMSNorm, Dropout, activations, Sequential;
 * initialised as PyTorch's are. */
#include "nn/module/layers.h"
#include "base/alloc.h"
#include "base/option.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/module/module.h"
#include "tensor/core/describe.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/generator.h"
#include "tensor/tape/tape.h"
#include <math.h>
#include <stdio.h>

ph_status ph__layer_tensor(ph_tensor **out, ph_device *device, ph_dtype dtype, ph_shape shape)
{
    return ph_tensor_create(out, device, dtype ? dtype : PH_DTYPE_F32, shape);
}

ph_status ph__layer_begin(ph_tape **tape, ph_device *device, ph_generator *generator)
{
    ph_tape_options options = {.no_grad = true, .generator = generator};
    return ph_tape_create(tape, ph_device_default_stream(device), &options);
}

ph_status ph__layer_waited(ph_status status, const char *call)
{
    if (status != PH_OK)
        ph__error_prefix("%s: waits for the device", call);
    return status;
}

ph_status ph__layer_finish(ph_tape *tape, ph_status status, const char *call)
{
    ph_error first;
    ph_stream *stream = ph_tape_stream(tape);
    if (status != PH_OK)
        first = *ph_error_last();
    ph_status cleared = ph_tape_clear(tape);
    if (status == PH_OK && cleared == PH_OK)
        status = ph__layer_waited(ph_stream_synchronize(stream), call);
    else if (status != PH_OK)
        status = ph_error_set(&first);
    else
        status = cleared;
    ph_tape_destroy(tape);
    return status;
}

/* The parts of most layers. */
typedef struct layer {
    ph_tensor *weight, *bias;
    double number;     /* eps or p */
    ph_module *module; /* borrowed: it holds this */
    ph_activation_fn activation;
} layer;

static void free_layer(void *self)
{
    ph__free(self);
}

static ph_status copy_layer(ph_module **out, ph_module_copier *copier, void *self);

static ph_status finish_layer(ph_module **out, ph_device *device, const char *name,
                              ph_forward_fn forward, layer *l)
{
    ph_parameter parameters[] = {{"weight", &l->weight}, {"bias", &l->bias}};
    ph_module_desc desc = {.name = name,
                           .forward = forward,
                           .self = l,
                           .destroy = free_layer,
                           .copy = copy_layer,
                           .parameters = parameters,
                           .parameter_count = 2};
    PH_TRY(ph_module_create(out, device, &desc));
    l->module = *out;
    return PH_OK;
}

static ph_status copy_layer(ph_module **out, ph_module_copier *copier, void *self)
{
    const layer *from = self;
    const ph_module *module = from->module;
    layer *l = ph__alloc(sizeof *l);
    if (!l)
        return ph__fail_host_memory("ph_module_copy", "a layer");
    *l = *from;
    l->bias = NULL;
    ph_status status = ph_module_copier_tensor(&l->weight, copier, from->weight);
    if (status == PH_OK)
        status = ph_module_copier_tensor(&l->bias, copier, from->bias);
    ph_tensor *made[] = {l->weight, l->bias};
    if (status == PH_OK)
        status = finish_layer(out, module->device, module->name, module->forward, l);
    if (status != PH_OK)
        ph__free(l);
    ph_tensor_release(made[0]);
    ph_tensor_release(made[1]);
    return status;
}

typedef struct start {
    enum {
        START_UNIFORM,
        START_NORMAL,
        START_ONES
    } kind;
    double bound;
} start;

/* Makes weight and bias, starts them, and makes the module; on failure nothing is left. */
static ph_status make_layer(ph_module **out, ph_device *device, const char *name,
                            ph_forward_fn forward, const layer *from,
                            const ph_layer_options *options, ph_shape weight, ph_shape bias,
                            bool has_bias, start how, const char *call)
{
    static const ph_layer_options defaults = {.no_bias = false};
    char text[PH__DESCRIBE];
    ph_tape *tape;
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (!options)
        options = &defaults;
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_layer_options");
    PH_TRY(ph__option_named((unsigned)options->dtype, "dtype", call));
    if (options->dtype && !ph_dtype_is_floating(options->dtype))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: parameters are of a floating dtype, not %s", call,
                       ph_dtype_name(options->dtype));
    if (ph_shape_count(&weight) < 0)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: a size of the layer is negative, or all of them together too large (its weight "
            "would "
            "be of %s)",
            call,
            ph__describe_shape(text, options->dtype ? options->dtype : PH_DTYPE_F32, &weight));
    layer *l = ph__alloc(sizeof *l);
    if (!l)
        return ph__fail_host_memory(call, "a layer");
    *l = *from;
    ph_status status = ph__layer_tensor(&l->weight, device, options->dtype, weight);
    if (status == PH_OK && has_bias && !options->no_bias)
        status = ph__layer_tensor(&l->bias, device, options->dtype, bias);
    if (status == PH_OK)
        status = ph__layer_begin(&tape, device, options->generator);
    if (status == PH_OK) {
        if (how.kind == START_UNIFORM)
            ph_tensor_uniform(tape, l->weight, -how.bound, how.bound);
        else if (how.kind == START_NORMAL)
            ph_tensor_normal(tape, l->weight, 0, how.bound);
        else
            ph_tensor_fill(tape, l->weight, 1);
        if (l->bias && how.kind == START_UNIFORM)
            ph_tensor_uniform(tape, l->bias, -how.bound, how.bound);
        else if (l->bias)
            ph_tensor_fill(tape, l->bias, 0);
        status = ph__layer_finish(tape, PH_OK, call);
    }
    ph_tensor *made[] = {l->weight, l->bias};
    if (status == PH_OK)
        status = finish_layer(out, device, name, forward, l);
    if (status != PH_OK)
        ph__free(l);
    ph_tensor_release(made[0]);
    ph_tensor_release(made[1]);
    return status;
}

/* ---- linear ---- */
static void linear_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const layer *l = self;
    out[0] = ph_linear(tape, in[0], l->weight, l->bias);
}

static ph_status check_no_eps(ph_module **out, const ph_layer_options *options, const char *call)
{
    if (!options || options->eps != (double)PH_ZERO)
        return PH_OK;
    if (out)
        *out = NULL;
    return ph_fail(PH_ERROR_ARGUMENT, "%s: eps is PH_ZERO, and this layer has no eps", call);
}

ph_status ph_linear_create_with(ph_module **out, ph_device *device, int64_t in, int64_t n,
                                const ph_layer_options *options)
{
    start how = {START_UNIFORM, in > 0 ? 1 / sqrt((double)in) : 0};
    PH_TRY(check_no_eps(out, options, "ph_linear_create"));
    return make_layer(out, device, "linear", linear_forward, &(layer){.number = 0}, options,
                      PH_SHAPE(n, in), PH_SHAPE(n), true, how, "ph_linear_create");
}

ph_status ph_linear_create(ph_module **out, ph_device *device, int64_t in, int64_t n)
{
    return ph_linear_create_with(out, device, in, n, NULL);
}

/* ---- embedding and norms ---- */
static void embedding_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const layer *l = self;
    out[0] = ph_embedding(tape, l->weight, in[0]);
}

ph_status ph_embedding_create(ph_module **out, ph_device *device, int64_t count, int64_t width,
                              const ph_layer_options *options)
{
    PH_TRY(check_no_eps(out, options, "ph_embedding_create"));
    return make_layer(out, device, "embedding", embedding_forward, &(layer){.number = 0}, options,
                      PH_SHAPE(count, width), PH_SCALAR, false, (start){START_NORMAL, 1},
                      "ph_embedding_create");
}

static void layer_norm_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const layer *l = self;
    out[0] = ph_layer_norm(tape, in[0], l->weight, l->bias, l->number);
}

ph_status ph_layer_norm_create(ph_module **out, ph_device *device, int64_t width,
                               const ph_layer_options *options)
{
    return make_layer(out, device, "layer_norm", layer_norm_forward,
                      &(layer){.number = options ? options->eps : 0}, options, PH_SHAPE(width),
                      PH_SHAPE(width), true, (start){START_ONES, 0}, "ph_layer_norm_create");
}

static void rms_norm_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const layer *l = self;
    out[0] = ph_rms_norm(tape, in[0], l->weight, l->number);
}

ph_status ph_rms_norm_create(ph_module **out, ph_device *device, int64_t width,
                             const ph_layer_options *options)
{
    return make_layer(out, device, "rms_norm", rms_norm_forward,
                      &(layer){.number = options ? options->eps : 0}, options, PH_SHAPE(width),
                      PH_SCALAR, false, (start){START_ONES, 0}, "ph_rms_norm_create");
}

/* ---- without parameters ---- */
static ph_status make_plain(ph_module **out, ph_device *device, const char *name,
                            ph_forward_fn forward, const layer *from, const char *call)
{
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    layer *l = ph__alloc(sizeof *l);
    if (!l)
        return ph__fail_host_memory(call, "a layer");
    *l = *from;
    ph_status status = finish_layer(out, device, name, forward, l);
    if (status != PH_OK)
        ph__free(l);
    return status;
}

static void dropout_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const layer *l = self;
    out[0] = ph_module_is_training(l->module) ? ph_dropout(tape, in[0], l->number) : in[0];
}

ph_status ph_dropout_create(ph_module **out, ph_device *device, double p)
{
    static const char call[] = "ph_dropout_create";
    if (out)
        *out = NULL;
    if (p == (double)PH_ZERO)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: p is PH_ZERO, which is for members of options; give 0", call);
    if (!(p >= 0 && p <= 1))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: p is a probability, from 0 to 1, and not %g", call,
                       p);
    return make_plain(out, device, "dropout", dropout_forward, &(layer){.number = p}, call);
}

static void activation_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const layer *l = self;
    out[0] = l->activation(tape, in[0]);
}

ph_status ph_activation_create(ph_module **out, ph_device *device, const char *name,
                               ph_activation_fn fn)
{
    static const char call[] = "ph_activation_create";
    if (out)
        *out = NULL;
    if (!fn)
        return ph__fail_null(call, "fn");
    return make_plain(out, device, name, activation_forward, &(layer){.activation = fn}, call);
}

/* ---- sequential ---- */
typedef struct sequence {
    size_t count;
    ph_module *child[]; /* the module retains them */
} sequence;

static void sequential_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const sequence *s = self;
    ph_tensor *x = in[0];
    size_t mark = ph_tape_scope_begin(tape);
    for (size_t i = 0; i < s->count; i++) {
        x = ph_call(tape, s->child[i], x);
        ph__tape_drop(tape, mark, &x, 1);
    }
    ph_tape_scope_end(tape, mark, &x, 1);
    out[0] = x;
}

typedef struct copies {
    size_t count;
    ph_module *child[];
} copies;

static void drop_copies(void *what)
{
    copies *c = what;
    for (size_t i = 0; i < c->count; i++)
        ph_module_release(c->child[i]);
    ph__free(c);
}

static ph_status copy_sequence(ph_module **out, ph_module_copier *copier, void *self)
{
    const sequence *from = self;
    copies *c = ph__calloc(1, sizeof *c + from->count * sizeof c->child[0]);
    if (!c)
        return ph__fail_host_memory("ph_module_copy", "a sequence of modules");
    PH__UNWIND unwind = {drop_copies, c};
    ph_status status = PH_OK;
    for (; c->count < from->count && status == PH_OK; c->count++)
        status = ph_module_copier_module(&c->child[c->count], copier, from->child[c->count]);
    if (status == PH_OK)
        status = ph_sequential_create(out, c->child, c->count);
    unwind.undo = NULL;
    drop_copies(c);
    return status;
}

ph_status ph_sequential_create(ph_module **out, ph_module *const *children, size_t count)
{
    static const char call[] = "ph_sequential_create";
    if (!out)
        return ph__fail_null(call, "out");
    PH_TRY(ph__module_check_apart(out, 1, children, count, "children", call));
    *out = NULL;
    if (!children || count == 0)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: needs at least one child, whose device is the module's", call);
    for (size_t i = 0; i < count; i++) {
        if (!children[i])
            return ph_fail(PH_ERROR_ARGUMENT, "%s: child %zu is NULL", call, i);
        if (children[i]->in_count != 1 || children[i]->out_count != 1)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: child %zu (%s) takes %zu inputs and gives %zu outputs; here each "
                           "takes and gives one",
                           call, i, children[i]->name, children[i]->in_count,
                           children[i]->out_count);
    }
    sequence *s = ph__alloc(sizeof *s + count * sizeof s->child[0]);
    ph_child *named = ph__calloc(count, sizeof *named);
    char(*names)[24] = ph__calloc(count, sizeof *names);
    ph_status status =
        s && named && names ? PH_OK : ph__fail_host_memory(call, "a sequence of modules");
    for (size_t i = 0; i < count && status == PH_OK; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        named[i] = (ph_child){names[i], children[i]};
        s->child[i] = children[i];
    }
    if (status == PH_OK) {
        s->count = count;
        ph_module_desc desc = {.name = "sequential",
                               .forward = sequential_forward,
                               .self = s,
                               .destroy = free_layer,
                               .copy = copy_sequence,
                               .children = named,
                               .child_count = count};
        status = ph_module_create(out, children[0]->device, &desc);
    }
    ph__free(named);
    ph__free(names);
    if (status != PH_OK)
        ph__free(s);
    return status;
}
