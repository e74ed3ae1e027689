/* SPDX-License-Identifier: MIT */
/* bench/nn_gpt2.c: a training step of examples/gpt's model at the shape of GPT-2 124M (AdamW,
 * batch 4 x 64 and 4 x 1024), in f32 with TF32 products and with autocast to bf16, eager and as
 * one graph, with the device memory that it takes; then as one graph with ph_set_benchmark. On the
 * host device a model of a hundredth.
 * bench/torch_nn.py has PyTorch's side of the GPU's. */
#include "../examples/gpt/model.h"
#include "nn/timing.h"

typedef struct training {
    ph_tape *tape;
    ph_module *model;
    ph_optimizer *optimizer;
    model_shape shape;
    ph_tensor *x, *y;
} training;

static ph_status step(ph_stream *stream, void *user)
{
    training *t = user;
    (void)stream;
    ph_optimizer_zero_grad(t->tape, t->optimizer);
    ph_backward(t->tape, model_loss(t->tape, &t->shape, ph_call(t->tape, t->model, t->x), t->y));
    ph_optimizer_step(t->tape, t->optimizer);
    return ph_tape_clear(t->tape);
}

static void memory_line(timing *t, const char *what)
{
    ph_memory_stats stats;
    OK(ph_memory_get_stats(&stats, t->device));
    printf("%-44s %.0f MiB in use at most, %.0f MiB reserved at most\n", what,
           (double)stats.allocated_peak / 1048576, (double)stats.reserved_peak / 1048576);
}

static void measure(timing *t, training *g, int64_t batch, int64_t time, int64_t vocabulary)
{
    char what[64];
    g->x =
        ph_tensor_retain(ph_randint(t->tape, PH_DTYPE_I32, PH_SHAPE(batch, time), 0, vocabulary));
    g->y =
        ph_tensor_retain(ph_randint(t->tape, PH_DTYPE_I32, PH_SHAPE(batch, time), 0, vocabulary));
    OK(ph_tape_clear(t->tape));
    snprintf(what, sizeof what, "GPT-2 step, batch %d x %d%s", (int)batch, (int)time,
             ph_tape_autocast(t->tape).dtype ? ", bf16" : "");
    OK(ph_memory_reset_peaks(t->device));
    if (!ph_benchmark()) {
        timing_line(t, what, "eager", timing_run(t, 5, t->rounds, 1, step, g));
        memory_line(t, "  eager");
        OK(ph_memory_reset_peaks(t->device));
    }
    timing_line(t, what, ph_benchmark() ? "benchmark" : "graph",
                timing_replays(t, t->rounds, 1, step, g));
    memory_line(t, "  graph, capture included");
    ph_module_zero_grad(g->model);
    ph_tensor_release(g->x);
    ph_tensor_release(g->y);
    OK(ph_memory_trim(t->device));
}

static void measure_all(timing *t)
{
    training g = {.tape = t->tape};
    ph_adam_options options = {.lr = 3e-4, .weight_decay = 0.1};
    g.shape = t->gpu ? (model_shape){50257, 1024, 768, 12, 12, 0}
                     : (model_shape){1000, 128, 128, 4, 2, 0};
    OK(model_create(&g.model, t->device, &g.shape));
    OK(ph_adamw_create(&g.optimizer, g.model, &options));
    for (int half = 0; half < 2; half++) {
        (void)ph_tape_set_autocast(g.tape,
                                   (ph_autocast){.dtype = half ? PH_DTYPE_BF16 : (ph_dtype)0});
        measure(t, &g, 4, t->gpu ? 64 : 32, g.shape.vocabulary);
        measure(t, &g, 4, t->gpu ? 1024 : 128, g.shape.vocabulary);
    }
    ph_optimizer_destroy(g.optimizer);
    ph_module_release(g.model);
}

int main(int argc, char **argv)
{
    timing t;
    timing_open(&t, "nn_gpt2", 31, argc, argv);
    ph_set_tf32(true);
    measure_all(&t);
    if (timing_benchmark(&t))
        measure_all(&t);
    return timing_close(&t);
}
