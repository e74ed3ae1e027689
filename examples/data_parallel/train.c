/* SPDX-License-Identifier: MIT */
/* data_parallel/train.c: what one rank does: it trains on its part of each batch, eagerly or with
 * the whole step as one graph, the sum of the gradients over all ranks in it. */
#include "data_parallel.h"
#include <stdio.h>
#include <string.h>

enum {
    MOST_PARAMETERS = 8
};

struct training {
    struct run *run;
    common *c;
    int64_t ranks, rank;
    ph_module *net;
    ph_optimizer *optimizer;
    ph_graph *graph;
    ph_tensor *parameters[MOST_PARAMETERS]; /* borrowed from net */
    size_t parameter_count;
    ph_data_parallel *parallel;
    ph_tensor *x, *y; /* this rank's part of the batch */
    ph_tensor *loss;  /* of the whole batch */
};

/* ---- the step ---- */
/* What runs eagerly, and what is captured. Each rank's loss is the mean over its part, and so the
 * mean over the ranks is that of the batch. */
static ph_status step(ph_stream *stream, void *user)
{
    struct training *t = user;
    ph_tape *tape = t->c->tape;
    ph_optimizer_zero_grad(tape, t->optimizer);
    ph_tensor *loss = ph_cross_entropy(tape, ph_call(tape, t->net, t->x), t->y);
    ph_data_parallel_backward(tape, t->parallel, loss);
    ph_tensor_copy(tape, t->loss, ph_detach(tape, loss));
    ph_tape_check(tape,
                  ph_all_reduce(t->run->comm, ph_tensor_data(t->loss), ph_tensor_data(t->loss), 1,
                                PH_DTYPE_F32, PH_REDUCE_MEAN, stream));
    ph_optimizer_step(tape, t->optimizer);
    return ph_tape_clear(tape);
}

/* ---- a run ---- */
static bool collect(const char *name, ph_tensor *parameter, void *user)
{
    struct training *t = user;
    (void)name;
    t->parameters[t->parameter_count++] = parameter;
    return t->parameter_count < MOST_PARAMETERS;
}

static ph_status create(struct training *t)
{
    const int64_t widths[] = {PIXELS, 128, 128, CLASSES};
    const ph_sgd_options options = {.lr = 0.05, .momentum = 0.9};
    const ph_data_parallel_options buckets = {.bucket_bytes = BUCKET_BYTES};
    const int64_t rows = BATCH / t->ranks;
    common *c = t->c;
    /* Other weights on each rank, which become rank 0's. */
    PH_TRY(common_network(&t->net, c, widths, 4, 0, 1 + (uint64_t)t->rank));
    ph_module_parameters(t->net, collect, t);
    PH_TRY(ph_data_parallel_create(&t->parallel, t->net, t->run->comm, &buckets));
    PH_TRY(ph_sgd_create(&t->optimizer, t->net, &options));
    PH_TRY(ph_graph_create(&t->graph, NULL));
    PH_TRY(ph_tensor_create(&t->x, c->device, PH_DTYPE_F32, PH_SHAPE(rows, PIXELS)));
    PH_TRY(ph_tensor_create(&t->y, c->device, PH_DTYPE_I64, PH_SHAPE(rows)));
    return ph_tensor_create(&t->loss, c->device, PH_DTYPE_F32, PH_SCALAR);
}

/* The eager step before the capture makes the momenta. */
static ph_status one_step(struct training *t, int64_t i)
{
    common *c = t->c;
    int64_t rows = BATCH / t->ranks, part = i % (c->train / BATCH) * t->ranks + t->rank;
    ph_tensor_copy(c->tape, t->x, common_batch(c, c->images, part, rows));
    ph_tensor_copy(c->tape, t->y, common_batch(c, c->labels, part, rows));
    PH_TRY(ph_tape_clear(c->tape));
    if (!t->run->graphed || i < WARM_UP)
        return step(c->stream, t);
    if (i == WARM_UP)
        PH_TRY(ph_graph_capture(t->graph, c->stream, NULL, step, t));
    return ph_graph_replay(t->graph, c->stream);
}

static ph_status read_weights(struct training *t, struct result *result)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        const ph_tensor *p = t->parameters[i];
        PH_TRY(ph_tensor_read(t->c->tape, p, result->weights + result->values, ph_tensor_bytes(p)));
        result->values += (size_t)ph_tensor_count(p);
    }
    return PH_OK;
}

static ph_status evaluate(struct training *t, double *right)
{
    common *c = t->c;
    bool before = ph_tape_set_grad_enabled(c->tape, false);
    ph_tensor *logits =
        ph_call(c->tape, t->net, ph_slice(c->tape, c->images, 0, c->train, c->count));
    ph_tensor *labels = ph_slice(c->tape, c->labels, 0, c->train, c->count);
    ph_status st = ph_tensor_item(right, c->tape, common_right(c->tape, logits, labels));
    ph_tape_set_grad_enabled(c->tape, before);
    ph_status cleared = ph_tape_clear(c->tape);
    return cleared != PH_OK ? cleared : st;
}

/* The nodes of collectives, by their names: the library's, or NCCL's. */
static ph_status find_collectives(ph_graph *graph, struct run *run)
{
    const ph_record *record;
    PH_TRY(ph_graph_record(&record, graph));
    run->nodes = ph_record_node_count(record);
    for (size_t i = 0; i < run->nodes; i++) {
        ph_node_info node;
        PH_TRY(ph_record_node(&node, record, i));
        if (node.kind != PH_NODE_KERNEL ||
            (!strstr(node.name, "all_reduce") && !strstr(node.name, "AllReduce")))
            continue;
        run->collectives++;
        (void)snprintf(run->collective, sizeof run->collective, "%s", node.name);
    }
    return PH_OK;
}

static ph_status train_all(struct training *t, struct result *result)
{
    PH_TRY(create(t));
    for (int i = 0; i < STEPS; i++) {
        if (i == t->run->failing_step && t->rank == t->ranks - 1)
            return ph_fail(PH_ERROR_CALLER, "gives up before step %d, as it was told to", i);
        PH_TRY(one_step(t, i));
        PH_TRY(ph_tensor_item(&result->losses[i], t->c->tape, t->loss));
    }
    PH_TRY(read_weights(t, result));
    PH_TRY(evaluate(t, &result->right));
    return t->run->graphed ? find_collectives(t->graph, t->run) : PH_OK;
}

ph_status train(struct run *run, struct result *result)
{
    struct training t = {.run = run, .c = run->c};
    t.ranks = ph_comm_size(run->comm);
    t.rank = ph_comm_rank(run->comm);
    *result = (struct result){.values = 0};
    ph_status status = train_all(&t, result);
    /* The others need not wait until their time is over. */
    if (status != PH_OK)
        ph_comm_abort(run->comm, ph_error_last()->message);
    ph_graph_destroy(t.graph);
    ph_data_parallel_destroy(t.parallel);
    ph_optimizer_destroy(t.optimizer);
    ph_module_release(t.net);
    ph_tensor *tensors[] = {t.x, t.y, t.loss};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        ph_tensor_release(tensors[i]);
    return status;
}
