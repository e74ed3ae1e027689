/* SPDX-License-Identifier: MIT */
/* bench/nn_kernels.c: operators at GPT-2's sizes, forward and forward with backward: 20 of them
 * in one graph, the time of one. f32 (TF32 allowed in products) and bf16; attention in bf16 also
 * without ph_set_deterministic_algorithms, attention and linear also with ph_set_benchmark. On the
 * host device sizes are smaller. bench/torch_nn.py has PyTorch's side of the GPU's. */
#include "nn/timing.h"
#include <string.h>

enum {
    REPEATS = 20
};

typedef struct job {
    ph_tape *tape;
    ph_tensor *in[4], *grad;
    bool backward;
    ph_tensor *(*apply)(struct job *job);
} job;

static ph_tensor *attention(job *j)
{
    ph_attention_options options = {.causal = true};
    return ph_attention(j->tape, j->in[0], j->in[1], j->in[2], &options);
}

static ph_tensor *softmax(job *j)
{
    return ph_softmax(j->tape, j->in[0], -1);
}

static ph_tensor *layer_norm(job *j)
{
    return ph_layer_norm(j->tape, j->in[0], j->in[1], j->in[2], 1e-5);
}

static ph_tensor *cross_entropy(job *j)
{
    return ph_cross_entropy(j->tape, j->in[0], j->in[3]);
}

static ph_tensor *gelu(job *j)
{
    return ph_gelu_tanh(j->tape, j->in[0]);
}

static ph_tensor *linear(job *j)
{
    return ph_linear(j->tape, j->in[0], j->in[1], j->in[2]);
}

static ph_status run(ph_stream *stream, void *user)
{
    job *j = user;
    (void)stream;
    for (int i = 0; i < REPEATS; i++) {
        bool before = ph_tape_set_grad_enabled(j->tape, j->backward);
        ph_tensor *y = j->apply(j);
        if (j->backward) {
            ph_tensor *grads[3], *inputs[3];
            size_t count = 0;
            for (size_t k = 0; k < 3; k++)
                if (j->in[k])
                    inputs[count++] = j->in[k];
            ph_grad(j->tape, grads, inputs, count, &y, j->grad ? &j->grad : NULL, 1, NULL);
        }
        ph_tape_set_grad_enabled(j->tape, before);
        PH_TRY(ph_tape_clear(j->tape));
    }
    return PH_OK;
}

static ph_tensor *leaf(timing *t, ph_dtype dtype, ph_shape shape)
{
    ph_tensor *x =
        ph_tensor_retain(ph_cast(t->tape, ph_randn(t->tape, PH_DTYPE_F32, shape), dtype));
    OK(ph_tape_clear(t->tape));
    OK(ph_tensor_set_requires_grad(x, true));
    return x;
}

static job attention_job(timing *t, ph_dtype dtype, ph_shape shape)
{
    job j = {.apply = attention};
    for (int i = 0; i < 3; i++)
        j.in[i] = leaf(t, dtype, shape);
    j.grad = leaf(t, dtype, shape);
    return j;
}

static void measure(timing *t, job *j, const char *name, ph_dtype dtype)
{
    char what[64];
    j->tape = t->tape;
    for (int backward = 0; backward < 2; backward++) {
        j->backward = backward != 0;
        snprintf(what, sizeof what, "%s, %s%s", name, ph_dtype_name(dtype),
                 backward ? ", forward + backward" : "");
        timing_line(t, what, ph_benchmark() ? "benchmark" : "graph",
                    timing_replays(t, t->rounds, REPEATS, run, j));
    }
    for (size_t i = 0; i < 4; i++)
        ph_tensor_release(j->in[i]);
    ph_tensor_release(j->grad);
}

static int64_t batch_of(const timing *t)
{
    return t->gpu ? 4 : 1;
}

static int64_t time_of(const timing *t)
{
    return t->gpu ? 1024 : 128;
}

/* What the libraries have several algorithms for. */
static void measure_libraries(timing *t, ph_dtype dtype)
{
    int64_t rows = batch_of(t) * time_of(t);
    ph_shape heads = PH_SHAPE(batch_of(t), 12, time_of(t), 64);
    job j = attention_job(t, dtype, heads);
    measure(t, &j, "attention", dtype);
    if (dtype == PH_DTYPE_BF16) {
        j = attention_job(t, dtype, heads);
        ph_set_deterministic_algorithms(false);
        measure(t, &j, "attention, any order", dtype);
        ph_set_deterministic_algorithms(true);
    }
    j = (job){.apply = linear,
              .in = {leaf(t, dtype, PH_SHAPE(rows, 768)), leaf(t, dtype, PH_SHAPE(3072, 768)),
                     leaf(t, dtype, PH_SHAPE(3072))},
              .grad = leaf(t, dtype, PH_SHAPE(rows, 3072))};
    measure(t, &j, "linear", dtype);
}

static void measure_own(timing *t, ph_dtype dtype)
{
    int64_t rows = batch_of(t) * time_of(t), classes = t->gpu ? 50257 : 5025;
    ph_shape wide = PH_SHAPE(rows, 768), scores = PH_SHAPE(rows, 1024), one = PH_SHAPE(768);
    ph_shape hidden = PH_SHAPE(rows, 3072), logits = PH_SHAPE(rows, classes);
    job j = {.apply = softmax, .in = {leaf(t, dtype, scores)}, .grad = leaf(t, dtype, scores)};
    measure(t, &j, "softmax", dtype);
    j = (job){.apply = layer_norm,
              .in = {leaf(t, dtype, wide), leaf(t, dtype, one), leaf(t, dtype, one)},
              .grad = leaf(t, dtype, wide)};
    measure(t, &j, "layer_norm", dtype);
    j = (job){.apply = gelu, .in = {leaf(t, dtype, hidden)}, .grad = leaf(t, dtype, hidden)};
    measure(t, &j, "gelu", dtype);
    j = (job){.apply = cross_entropy, .in = {leaf(t, dtype, logits)}};
    j.in[3] = ph_tensor_retain(ph_randint(t->tape, PH_DTYPE_I64, PH_SHAPE(rows), 0, classes));
    OK(ph_tape_clear(t->tape));
    measure(t, &j, "cross_entropy", dtype);
}

int main(int argc, char **argv)
{
    timing t;
    timing_open(&t, "nn_kernels", 31, argc, argv);
    ph_set_tf32(true);
    for (int half = 0; half < 2; half++) {
        measure_libraries(&t, half ? PH_DTYPE_BF16 : PH_DTYPE_F32);
        measure_own(&t, half ? PH_DTYPE_BF16 : PH_DTYPE_F32);
    }
    for (int half = timing_benchmark(&t) ? 0 : 2; half < 2; half++)
        measure_libraries(&t, half ? PH_DTYPE_BF16 : PH_DTYPE_F32);
    return timing_close(&t);
}
