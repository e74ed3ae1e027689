/* SPDX-License-Identifier: MIT */
/* nn/module/block.c: a transformer block as GPT-2 has it: attention and an MLP, each behind a
 * norm and beside a residual path. */
#include "base/alloc.h"
#include "base/option.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/module/module.h"
#include "tensor/core/tensor.h"
#include "tensor/operators/heads.h"
#include "tensor/tape/tape.h"

enum {
    PARTS = 7
};
static const char *const part_names[PARTS] = {"norm1", "qkv",  "projection", "norm2",
                                              "up",    "down", "dropout"};

typedef struct block {
    int64_t heads;
    bool causal;
    union {
        struct {
            ph_module *norm1, *qkv, *projection, *norm2, *up, *down, *dropout;
        };
        ph_module *part[PARTS]; /* in the order of part_names; the module retains them */
    };
} block;

/* qkv: [batch, time, 3 * width]. */
static ph_tensor *attend_heads(ph_tape *tape, const block *b, ph_tensor *qkv)
{
    int64_t batch = ph_tensor_dim(qkv, 0), time = ph_tensor_dim(qkv, 1),
            width = ph_tensor_dim(qkv, 2) / 3;
    ph_attention_options options = {.causal = b->causal};
    ph_tensor *heads = ph_reshape(tape, qkv, PH_SHAPE(batch, time, 3, b->heads, width / b->heads)),
              *part[3];
    if (!heads || !ph__split_heads(tape, part, heads))
        return NULL;
    ph_tensor *mixed = ph_attention(tape, part[0], part[1], part[2], &options);
    return ph_reshape(tape, ph_transpose(tape, mixed, 1, 2), PH_SHAPE(batch, time, width));
}

/* The linear layer alone reads what the norm gives, unless a hook does: so it may come in the dtype
 * that autocast would cast it to. */
static ph_tensor *normalize_for_product(ph_tape *tape, ph_module *norm, ph_module *linear,
                                        ph_tensor *x)
{
    bool before = tape->norms_for_products;
    tape->norms_for_products = !norm->hooks && !linear->hooks;
    ph_tensor *y = ph_call(tape, norm, x);
    tape->norms_for_products = before;
    return ph_call(tape, linear, y);
}

static void block_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const block *b = self;
    if (ph_tensor_rank(in[0]) != 3) {
        ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                     "transformer_block: the input must be [batch, time, width], and has rank %zu",
                     ph_tensor_rank(in[0]));
        return;
    }
    ph_tensor *mixed = attend_heads(tape, b, normalize_for_product(tape, b->norm1, b->qkv, in[0]));
    ph_tensor *x =
        ph_add(tape, in[0], ph_call(tape, b->dropout, ph_call(tape, b->projection, mixed)));
    ph_tensor *hidden = ph_gelu_tanh(tape, normalize_for_product(tape, b->norm2, b->up, x));
    out[0] = ph_add(tape, x, ph_call(tape, b->dropout, ph_call(tape, b->down, hidden)));
}

static ph_status create_block_parts(block *b, ph_device *device, int64_t width,
                                    const ph_block_options *options)
{
    ph_layer_options layer = {.no_bias = options->no_bias, .generator = options->generator};
    PH_TRY(ph_layer_norm_create(&b->norm1, device, width, &layer));
    PH_TRY(ph_linear_create_with(&b->qkv, device, width, 3 * width, &layer));
    PH_TRY(ph_linear_create_with(&b->projection, device, width, width, &layer));
    PH_TRY(ph_layer_norm_create(&b->norm2, device, width, &layer));
    PH_TRY(ph_linear_create_with(&b->up, device, width, 4 * width, &layer));
    PH_TRY(ph_linear_create_with(&b->down, device, 4 * width, width, &layer));
    return ph_dropout_create(&b->dropout, device, ph__option_real(options->dropout, 0));
}

static void free_block_state(void *self)
{
    ph__free(self);
}

static ph_status copy_block(ph_module **out, ph_module_copier *copier, void *self);

static ph_status assemble_block(ph_module **out, ph_device *device, block *b)
{
    ph_child children[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        children[i] = (ph_child){part_names[i], b->part[i]};
    ph_module_desc desc = {.name = "transformer_block",
                           .forward = block_forward,
                           .self = b,
                           .destroy = free_block_state,
                           .copy = copy_block,
                           .children = children,
                           .child_count = PARTS};
    return ph_module_create(out, device, &desc);
}

static void release_parts(void *parts)
{
    ph_module **part = parts;
    for (size_t i = 0; i < PARTS; i++)
        ph_module_release(part[i]);
}

static ph_status assemble_copy(ph_module **out, const block *from, ph_module *const *parts)
{
    block *b = ph__calloc(1, sizeof *b);
    if (!b)
        return ph__fail_host_memory("ph_module_copy", "a block");
    b->heads = from->heads;
    b->causal = from->causal;
    for (size_t i = 0; i < PARTS; i++)
        b->part[i] = parts[i];
    ph_status status = assemble_block(out, parts[0]->device, b);
    if (status != PH_OK)
        ph__free(b);
    return status;
}

static ph_status copy_block(ph_module **out, ph_module_copier *copier, void *self)
{
    const block *from = self;
    ph_module *parts[PARTS] = {NULL};
    PH__UNWIND unwind = {release_parts, parts};
    ph_status status = PH_OK;
    for (size_t i = 0; i < PARTS && status == PH_OK; i++)
        status = ph_module_copier_module(&parts[i], copier, from->part[i]);
    if (status == PH_OK)
        status = assemble_copy(out, from, parts);
    unwind.undo = NULL;
    release_parts(parts);
    return status;
}

ph_status ph_transformer_block_create(ph_module **out, ph_device *device, int64_t width,
                                      int64_t heads, const ph_block_options *options)
{
    static const char call[] = "ph_transformer_block_create";
    static const ph_block_options defaults = {.dropout = 0};
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!options)
        options = &defaults;
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_block_options");
    if (width < 1 || heads < 1 || width % heads != 0 || width > INT64_MAX / 4)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: heads must divide width, and %lld does not divide %lld", call,
                       (long long)heads, (long long)width);
    block *b = ph__calloc(1, sizeof *b);
    if (!b)
        return ph__fail_host_memory(call, "a block");
    b->heads = heads;
    b->causal = !options->not_causal;
    ph_status status = create_block_parts(b, device, width, options);
    ph_module *parts[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        parts[i] = b->part[i];
    if (status == PH_OK)
        status = assemble_block(out, device, b);
    if (status != PH_OK)
        ph__free(b);
    for (size_t i = 0; i < PARTS; i++)
        ph_module_release(parts[i]);
    return status;
}
