/* SPDX-License-Identifier: MIT */
/* bench/nn_profile.c: where the time of bench/nn_gpt2.c's captured step goes: for each of its four
 * steps the kernels, how many nodes are of each, and the time of one and of all; then the same with
 * ph_set_benchmark.
 * nn_profile [rounds] [file that a line for each node is appended to]. On the host device a model
 * of a hundredth. */
#include "../examples/gpt/model.h"
#include "nn/timing.h"
#include <stdlib.h>
#include <string.h>

enum {
    MOST_KINDS = 512,
    NAME_BYTES = 100
};

typedef struct training {
    ph_tape *tape;
    ph_module *model;
    ph_optimizer *optimizer;
    model_shape shape;
    ph_tensor *x, *y;
} training;

typedef struct kind {
    char name[NAME_BYTES];
    unsigned count;
    double us;
} kind;

static ph_status step(ph_stream *stream, void *user)
{
    training *t = user;
    (void)stream;
    ph_optimizer_zero_grad(t->tape, t->optimizer);
    ph_backward(t->tape, model_loss(t->tape, &t->shape, ph_call(t->tape, t->model, t->x), t->y));
    ph_optimizer_step(t->tape, t->optimizer);
    return ph_tape_clear(t->tape);
}

static int by_time(const void *a, const void *b)
{
    double x = ((const kind *)a)->us, y = ((const kind *)b)->us;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void add_to_kind(kind *kinds, size_t *count, const char *name, double us)
{
    size_t i = 0;
    while (i < *count && strncmp(kinds[i].name, name, NAME_BYTES - 1) != 0)
        i++;
    if (i == MOST_KINDS)
        return;
    if (i == *count) {
        snprintf(kinds[i].name, NAME_BYTES, "%s", name);
        ++*count;
    }
    kinds[i].count++;
    kinds[i].us += us;
}

static void node_line(timing *t, const char *what, const ph_node_info *info,
                      const ph_profile_node *node)
{
    if (t->json)
        fprintf(t->json,
                "{\"what\": \"%s\", \"node\": %zu, \"start_us\": %.2f, \"us\": %.2f, \"grid\": "
                "[%u, %u, %u], \"block\": %u, \"name\": \"%.90s\"}\n",
                what, info->index, (double)node->start_ns / 1e3, (double)node->median_ns / 1e3,
                info->grid[0], info->grid[1], info->grid[2], info->block[0], info->name);
}

static void print_kinds(timing *t, const char *what, ph_graph *graph, const ph_profile *profile)
{
    static kind kinds[MOST_KINDS];
    size_t count = 0;
    const ph_record *record;
    ph_profile_summary s;
    OK(ph_graph_record(&record, graph));
    OK(ph_profile_get(&s, profile));
    memset(kinds, 0, sizeof kinds);
    for (size_t n = 0; n < s.node_count; n++) {
        ph_profile_node node;
        ph_node_info info;
        OK(ph_profile_node_at(&node, profile, n));
        OK(ph_record_node(&info, record, n));
        add_to_kind(kinds, &count, info.name, (double)node.median_ns / 1e3);
        node_line(t, what, &info, &node);
    }
    qsort(kinds, count, sizeof *kinds, by_time);
    printf("%s: %zu nodes, replay %.1f us: busy %.1f, idle %.1f; work %.1f\n", what, s.node_count,
           (double)s.replay_ns / 1e3, (double)s.busy_ns / 1e3, (double)s.idle_ns / 1e3,
           (double)s.work_ns / 1e3);
    printf("%10s %6s %10s  kernel\n", "us", "nodes", "us of one");
    for (size_t i = 0; i < count; i++)
        printf("%10.1f %6u %10.2f  %s\n", kinds[i].us, kinds[i].count, kinds[i].us / kinds[i].count,
               kinds[i].name);
}

static void profile_step(timing *t, training *g, int64_t batch, int64_t time)
{
    char what[64];
    ph_graph *graph;
    ph_profile *profile;
    ph_profile_options options = {.replays = (unsigned)t->rounds};
    ph_shape shape = PH_SHAPE(batch, time);
    g->x = ph_tensor_retain(ph_randint(t->tape, PH_DTYPE_I32, shape, 0, g->shape.vocabulary));
    g->y = ph_tensor_retain(ph_randint(t->tape, PH_DTYPE_I32, shape, 0, g->shape.vocabulary));
    OK(ph_tape_clear(t->tape));
    snprintf(what, sizeof what, "GPT-2 step, batch %d x %d%s%s", (int)batch, (int)time,
             ph_tape_autocast(t->tape).dtype ? ", bf16" : "", ph_benchmark() ? ", benchmark" : "");
    for (int i = 0; i < 3; i++)
        OK(step(t->stream, g));
    OK(ph_graph_create(&graph, NULL));
    OK(ph_graph_capture(graph, t->stream, NULL, step, g));
    OK(ph_graph_profile(&profile, graph, t->stream, &options));
    print_kinds(t, what, graph, profile);
    ph_profile_destroy(profile);
    ph_graph_destroy(graph);
    ph_module_zero_grad(g->model);
    ph_tensor_release(g->x);
    ph_tensor_release(g->y);
    OK(ph_memory_trim(t->device));
}

static void profile_all(timing *t)
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
        profile_step(t, &g, 4, t->gpu ? 64 : 32);
        profile_step(t, &g, 4, t->gpu ? 1024 : 128);
    }
    ph_optimizer_destroy(g.optimizer);
    ph_module_release(g.model);
}

int main(int argc, char **argv)
{
    timing t;
    timing_open(&t, "nn_profile", 10, argc, argv);
    ph_set_tf32(true);
    profile_all(&t);
    if (timing_benchmark(&t))
        profile_all(&t);
    return timing_close(&t);
}
