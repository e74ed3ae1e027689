/* SPDX-License-Identifier: MIT */
/* bench/nn_memory_plan.c: a training step of examples/gpt's model as one graph, its memory planned
 * and not: what the capture takes, what the graph's pool and the device reserve, a replay. The same
 * of its transformer blocks as graphed callables. On a GPU GPT-2 124M, batch 4 x 64 and 4 x 1024;
 * on the host device models of a hundredth. The loss is to be the same to the bit.
 *
 *     bench_nn_memory_plan [ROUNDS [FILE]]    FILE: JSON lines are appended to it */
#include "../examples/gpt/model.h"
#include "clock.h"
#include "nn/timing.h"
#include <string.h>

enum {
    CAPTURES = 5
};

typedef struct training {
    ph_tape *tape;
    ph_module *model;
    ph_optimizer *optimizer;
    model_shape shape;
    ph_tensor *x, *y, *loss;
} training;

static ph_status step(ph_stream *stream, void *user)
{
    training *t = user;
    (void)stream;
    ph_optimizer_zero_grad(t->tape, t->optimizer);
    ph_tensor *loss = model_loss(t->tape, &t->shape, ph_call(t->tape, t->model, t->x), t->y);
    ph_tensor_copy(t->tape, t->loss, loss);
    ph_backward(t->tape, loss);
    ph_optimizer_step(t->tape, t->optimizer);
    return ph_tape_clear(t->tape);
}

static ph_status replay(ph_stream *stream, void *user)
{
    return ph_graph_replay(user, stream);
}

static void make_model(timing *t, training *g, int64_t batch, int64_t time)
{
    ph_generator *generator;

    ph_adam_options options = {.lr = 3e-4, .weight_decay = 0.1};
    OK(ph_generator_default(&generator, t->device));
    OK(ph_generator_seed(generator, 7));
    OK(model_create(&g->model, t->device, &g->shape));
    OK(ph_adamw_create(&g->optimizer, g->model, &options));
    g->x = ph_tensor_retain(
        ph_randint(g->tape, PH_DTYPE_I32, PH_SHAPE(batch, time), 0, g->shape.vocabulary));
    g->y = ph_tensor_retain(
        ph_randint(g->tape, PH_DTYPE_I32, PH_SHAPE(batch, time), 0, g->shape.vocabulary));
    g->loss = ph_tensor_retain(ph_zeros(g->tape, PH_DTYPE_F32, PH_SCALAR));
    OK(ph_tape_clear(g->tape));
}

static void drop_model(training *g)
{
    ph_tensor_release(g->x);
    ph_tensor_release(g->y);
    ph_tensor_release(g->loss);
    ph_optimizer_destroy(g->optimizer);
    ph_module_release(g->model);
}

/* The bits of the loss behind the replays. */
static uint32_t measure(timing *t, training *g, const char *what, bool plan)
{
    const char *side = plan ? "planned" : "plain";
    const ph_capture_options options = {.plan = plan, .prepare = true};
    double least = 0;
    ph_graph *graph;
    ph_memory_stats stats;
    ph_graph_memory memory;
    uint32_t loss;
    OK(ph_graph_create(&graph, NULL));
    (void)timing_run(t, 3, 1, 1, step, g);
    for (int i = 0; i < CAPTURES; i++) {
        OK(ph_graph_reset(graph));
        OK(ph_device_synchronize(t->device));
        OK(ph_memory_trim(t->device));
        double before = clock_now();
        OK(ph_graph_capture(graph, t->stream, &options, step, g));
        double taken = clock_now() - before;
        least = i == 0 || taken < least ? taken : least;
    }
    timing_line(t, what, side, (timing_result){least, least});
    timing_line(t, "  a replay", side, timing_run(t, 5, t->rounds, 1, replay, graph));
    OK(ph_graph_get_memory(&memory, graph));
    OK(ph_memory_get_stats(&stats, t->device));
    printf("  %s: pool %.2f MiB, device %.2f MiB reserved, %.2f at most in use (%.3f times)", side,
           (double)memory.pool_reserved / 1048576, (double)stats.reserved / 1048576,
           (double)stats.allocated_peak / 1048576,
           (double)stats.reserved / (double)stats.allocated_peak);
    if (plan && memory.plan_bound)
        printf("; %.4f times the bound",
               (double)(memory.planned ? memory.planned : memory.pool_reserved) /
                   (double)memory.plan_bound);
    if (plan && memory.plan_ended)
        printf("; no plan: %s", memory.plan_ended);
    printf("\n");
    if (t->json)
        fprintf(t->json,
                "{\"bench\": \"nn_memory_plan\", \"what\": \"%s\", \"side\": \"%s\", "
                "\"pool_bytes\": %zu, \"reserved_bytes\": %zu, \"planned_bytes\": %zu, "
                "\"bound_bytes\": %zu}\n",
                what, side, memory.pool_reserved, stats.reserved, memory.planned,
                memory.plan_bound);
    OK(ph_tensor_read(g->tape, g->loss, &loss, sizeof loss));
    ph_graph_destroy(graph);
    return loss;
}

static void compare(timing *t, training *g, int64_t batch, int64_t time)
{
    char what[64];
    uint32_t losses[2];
    snprintf(what, sizeof what, "capture, %d layers, batch %d x %d", (int)g->shape.layers,
             (int)batch, (int)time);
    for (int plan = 0; plan < 2; plan++) {
        make_model(t, g, batch, time);
        OK(ph_memory_trim(t->device));
        OK(ph_memory_reset_peaks(t->device));
        losses[plan] = measure(t, g, what, plan);
        drop_model(g);
        OK(ph_memory_trim(t->device));
    }
    printf("  the losses %s\n", losses[0] == losses[1] ? "are equal to the bit" : "DIFFER");
}

/* ---- callables ---- the blocks of the model, in a row. */
enum {
    MOST_BLOCKS = 12
};

typedef struct block_row {
    ph_tape *tape;
    ph_module *blocks[MOST_BLOCKS], *graphed[MOST_BLOCKS];
    size_t count;
    ph_pool *pool;
    ph_tensor *x, *loss;
} block_row;

static ph_status step_row(ph_stream *stream, void *user)
{
    block_row *r = user;
    ph_tensor *x = r->x;
    (void)stream;
    for (size_t i = 0; i < r->count; i++)
        x = ph_call(r->tape, r->graphed[i], x);
    ph_tensor *loss = ph_mean(r->tape, x);
    ph_tensor_copy(r->tape, r->loss, loss);
    for (size_t i = 0; i < r->count; i++)
        ph_module_zero_grad(r->blocks[i]);
    ph_backward(r->tape, loss);
    return ph_tape_clear(r->tape);
}

static void drop_callables(block_row *r)
{
    for (size_t i = 0; i < r->count; i++) {
        ph_module_release(r->graphed[i]);
        r->graphed[i] = NULL;
    }
    ph_pool_release(r->pool);
    r->pool = NULL;
}

/* The least time of some makings; the last stays. */
static double make_callables(const timing *t, block_row *r, bool plan)
{
    ph_sample samples[MOST_BLOCKS];
    double least = 0;
    for (size_t i = 0; i < r->count; i++)
        samples[i] = (ph_sample){.tensors = &r->x, .count = 1};
    for (int i = 0; i < CAPTURES; i++) {
        drop_callables(r);
        OK(ph_device_synchronize(t->device));
        OK(ph_memory_trim(t->device));
        OK(ph_pool_create(&r->pool, t->device, NULL));
        const ph_graphed_options options = {.plan = plan, .pool = r->pool};
        double before = clock_now();
        OK(ph_make_graphed_callables(r->graphed, r->blocks, samples, r->count, &options));
        double taken = clock_now() - before;
        least = i == 0 || taken < least ? taken : least;
    }
    return least;
}

/* The bits of the loss; *alive: what was alive at once without a plan. */
static uint32_t measure_row(timing *t, block_row *r, const char *what, bool plan, size_t *alive)
{
    const char *side = plan ? "planned" : "plain";
    ph_memory_stats stats;
    ph_graph_memory memory;
    ph_graph *graphs[2];
    uint32_t loss;
    double least = make_callables(t, r, plan);
    OK(ph_pool_stats(&stats, r->pool));
    OK(ph_graphed_callable_graphs(&graphs[0], &graphs[1], r->graphed[0]));
    OK(ph_graph_get_memory(&memory, graphs[0]));
    if (!plan)
        *alive = stats.allocated_peak;
    timing_line(t, what, side, (timing_result){least, least});
    timing_line(t, "  a step", side, timing_run(t, 5, t->rounds, 1, step_row, r));
    printf("  %s: pool %.2f MiB reserved, %.2f alive at once", side,
           (double)stats.reserved / 1048576, (double)*alive / 1048576);
    if (plan)
        printf("; %.4f times that%s%s", (double)memory.planned / (double)*alive,
               memory.plan_ended ? "; no plan: " : "", memory.plan_ended ? memory.plan_ended : "");
    printf("\n");
    if (t->json)
        fprintf(t->json,
                "{\"bench\": \"nn_memory_plan\", \"what\": \"%s\", \"side\": \"%s\", "
                "\"pool_bytes\": %zu, \"planned_bytes\": %zu, \"bound_bytes\": %zu}\n",
                what, side, stats.reserved, memory.planned, *alive);
    OK(ph_tensor_read(r->tape, r->loss, &loss, sizeof loss));
    drop_callables(r);
    return loss;
}

static void compare_callables(timing *t, const model_shape *shape, int64_t batch, int64_t time)
{
    char what[64];
    uint32_t losses[2];
    size_t alive = 0;
    ph_generator *generator;
    block_row r = {.tape = t->tape, .count = (size_t)shape->layers};
    snprintf(what, sizeof what, "callables, %d blocks, batch %d x %d", (int)r.count, (int)batch,
             (int)time);
    OK(ph_generator_create(&generator, t->device, 7));
    const ph_block_options options = {.generator = generator};
    for (size_t i = 0; i < r.count; i++)
        OK(ph_transformer_block_create(&r.blocks[i], t->device, shape->width, shape->heads,
                                       &options));
    r.x = ph_tensor_retain(ph_full(t->tape, PH_DTYPE_F32, PH_SHAPE(batch, time, shape->width), 1));
    r.loss = ph_tensor_retain(ph_zeros(t->tape, PH_DTYPE_F32, PH_SCALAR));
    OK(ph_tensor_set_requires_grad(r.x, true));
    OK(ph_tape_clear(t->tape));
    for (int plan = 0; plan < 2; plan++)
        losses[plan] = measure_row(t, &r, what, plan, &alive);
    printf("  the losses %s\n", losses[0] == losses[1] ? "are equal to the bit" : "DIFFER");
    for (size_t i = 0; i < r.count; i++)
        ph_module_release(r.blocks[i]);
    ph_tensor_release(r.x);
    ph_tensor_release(r.loss);
    ph_generator_release(generator);
}

int main(int argc, char **argv)
{
    timing t;
    training g;
    timing_open(&t, "nn_memory_plan", 31, argc, argv);
    memset(&g, 0, sizeof g);
    g.tape = t.tape;
    if (t.gpu) {
        g.shape = (model_shape){50257, 1024, 768, 12, 12, 0};
        compare(&t, &g, 4, 64);
        compare(&t, &g, 4, 1024);
        compare_callables(&t, &g.shape, 4, 64);
        compare_callables(&t, &g.shape, 4, 1024);
        return timing_close(&t);
    }
    static const model_shape shapes[] = {
        {500, 64, 64, 4, 1, 0}, {1000, 128, 128, 4, 2, 0}, {1000, 128, 96, 4, 6, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        g.shape = shapes[i];
        compare(&t, &g, 4, 32);
        compare(&t, &g, 2, 64);
        compare_callables(&t, &g.shape, 4, 32);
    }
    g.shape = (model_shape){1000, 128, 256, 8, 4, 0};
    compare_callables(&t, &g.shape, 2, 128);
    return timing_close(&t);
}
