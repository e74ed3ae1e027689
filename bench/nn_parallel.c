/* SPDX-License-Identifier: MIT */
/* bench/nn_parallel.c: a training step of examples/gpt's model at the shape of GPT-2 124M (bf16,
 * AdamW) on two GPUs, one process and one graph a rank, beside the same step of one GPU alone and
 * the sums of the gradients alone. It starts its ranks by itself, and needs two GPUs and NCCL.
 * bench/torch_parallel.py has PyTorch's side. */
#include "../examples/gpt/model.h"
#include "nn/timing.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RANKS = 2,
    NO_GPUS = 77
};

typedef struct training {
    ph_tape *tape;
    ph_module *model;
    ph_optimizer *optimizer;
    ph_comm *comm;
    ph_data_parallel *parallel; /* NULL: this GPU alone */
    model_shape shape;
    ph_tensor *x, *y;
    float *gradients; /* as many as the model has, to be summed alone */
    size_t count;
} training;

static ph_status step(ph_stream *stream, void *user)
{
    training *t = user;
    (void)stream;
    ph_optimizer_zero_grad(t->tape, t->optimizer);
    ph_tensor *loss = model_loss(t->tape, &t->shape, ph_call(t->tape, t->model, t->x), t->y);
    if (t->parallel)
        ph_data_parallel_backward(t->tape, t->parallel, loss);
    else
        ph_backward(t->tape, loss);
    ph_optimizer_step(t->tape, t->optimizer);
    return ph_tape_clear(t->tape);
}

/* All gradients in buckets of the default size. */
static ph_status sums(ph_stream *stream, void *user)
{
    const size_t bucket = ((size_t)25 << 20) / sizeof(float);
    training *t = user;
    for (size_t at = 0; at < t->count; at += bucket) {
        size_t n = t->count - at < bucket ? t->count - at : bucket;
        PH_TRY(ph_all_reduce(t->comm, t->gradients + at, t->gradients + at, n, PH_DTYPE_F32,
                             PH_REDUCE_MEAN, stream));
    }
    return PH_OK;
}

static void line(timing *t, const training *g, const char *what, const char *side,
                 timing_result result)
{
    if (ph_comm_rank(g->comm) == 0)
        timing_line(t, what, side, result);
}

static void measure(timing *t, training *g, int64_t batch, int64_t time)
{
    char what[64];
    ph_data_parallel *parallel = g->parallel;
    ph_tensor **inputs[] = {&g->x, &g->y};
    for (int i = 0; i < 2; i++)
        *inputs[i] = ph_tensor_retain(
            ph_randint(t->tape, PH_DTYPE_I32, PH_SHAPE(batch, time), 0, g->shape.vocabulary));
    OK(ph_tape_clear(t->tape));
    snprintf(what, sizeof what, "GPT-2 step, batch %d x %d a rank, bf16", (int)batch, (int)time);
    for (int alone = 1; alone >= 0; alone--) {
        g->parallel = alone ? NULL : parallel;
        ph_module_zero_grad(g->model);
        OK(ph_comm_barrier(g->comm, 0));
        line(t, g, what, alone ? "one" : "two", timing_replays(t, t->rounds, 1, step, g));
    }
    ph_tensor_release(g->x);
    ph_tensor_release(g->y);
}

static void open_training(timing *t, training *g, const ph_adam_options *options)
{
    ph_data_parallel_info info;
    *g = (training){.tape = t->tape, .shape = {50257, 1024, 768, 12, 12, 0}};
    OK(ph_comm_create(&g->comm, t->device, &(ph_comm_options){.timeout_ms = 60000}));
    OK(model_create(&g->model, t->device, &g->shape));
    OK(ph_data_parallel_create(&g->parallel, g->model, g->comm, NULL));
    OK(ph_adamw_create(&g->optimizer, g->model, options));
    OK(ph_data_parallel_get_info(&info, g->parallel));
    g->count = info.bytes / sizeof(float);
    OK(PH_NEW(&g->gradients, g->count, t->stream));
    OK(ph_memset(g->gradients, 0, g->count * sizeof(float), t->stream));
    (void)ph_tape_set_autocast(g->tape, (ph_autocast){.dtype = PH_DTYPE_BF16});
}

static int run_rank(int argc, char **argv)
{
    timing t;
    training g;
    timing_open(&t, "nn_parallel", 31, argc, argv);
    open_training(&t, &g, &(ph_adam_options){.lr = 3e-4, .weight_decay = 0.1});
    ph_data_parallel *parallel = g.parallel;
    measure(&t, &g, 4, 1024);
    g.parallel = parallel;
    measure(&t, &g, 4, 64);
    OK(ph_comm_barrier(g.comm, 0));
    line(&t, &g, "GPT-2's gradients, sums of two ranks", "alone",
         timing_replays(&t, t.rounds, 1, sums, &g));
    ph_free(g.gradients, t.stream);
    ph_data_parallel_destroy(parallel);
    ph_optimizer_destroy(g.optimizer);
    ph_module_release(g.model);
    ph_comm_release(g.comm);
    return timing_close(&t);
}

/* ---- the ranks, each with the variables that torchrun sets ---- */
static uint32_t gpu_count(void)
{
    ph_driver_info info;
    for (size_t i = 0; ph_driver_get_info(&info, i) == PH_OK; i++)
        if (strcmp(info.name, "cuda") == 0)
            return info.device_count;
    return 0;
}

static pid_t start_rank(unsigned rank, char **argv)
{
    char number[16], device[16];
    pid_t process = fork();
    if (process != 0)
        return process;
    snprintf(number, sizeof number, "%u", rank);
    snprintf(device, sizeof device, "cuda:%u", rank);
    setenv("RANK", number, 1);
    setenv("LOCAL_RANK", number, 1);
    setenv("PH_BENCH_DEVICE", device, 1);
    execv("/proc/self/exe", argv);
    _exit(127);
}

int main(int argc, char **argv)
{
    pid_t ranks[RANKS];
    int failed = 0;
    if (getenv("RANK"))
        return run_rank(argc, argv);
    if (gpu_count() < RANKS) {
        printf("nn_parallel: needs two GPUs\n");
        return NO_GPUS;
    }
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "29400", 0);
    for (unsigned rank = 0; rank < RANKS; rank++)
        ranks[rank] = start_rank(rank, argv);
    for (unsigned rank = 0; rank < RANKS; rank++) {
        int status = 1;
        if (ranks[rank] < 0 || waitpid(ranks[rank], &status, 0) < 0 || status != 0)
            failed = 1;
    }
    return failed;
}
