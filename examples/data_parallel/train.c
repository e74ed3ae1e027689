/* SPDX-License-Identifier: MIT */
/* data_parallel/train.c: what one rank does: it trains on its part of each batch, eagerly or with
 * the whole step as one graph, the sum of the gradients over all ranks in it. */
#include "data_parallel.h"
#include <phonograph/annotation.h>
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
    ph_tensor *x, *y; /* this rank's part of the batch */
    /* all gradients in a row, and the loss behind them: of this rank, and of all */
    ph_tensor *mine, *sum;
};

/* ---- the step ---- */
/* Gradients and loss become one row, so that one collective carries them all. */
static void put_in_row(struct training *t, ph_tensor *loss)
{
    ph_tape *tape = t->c->tape;
    ph_tensor *parts[MOST_PARAMETERS + 1];
    for (size_t i = 0; i < t->parameter_count; i++)
        parts[i] = ph_reshape(tape, ph_tensor_grad(t->parameters[i]), PH_SHAPE(-1));
    parts[t->parameter_count] = ph_reshape(tape, loss, PH_SHAPE(1));
    ph_tensor_copy(tape, t->mine, ph_concat(tape, parts, t->parameter_count + 1, 0));
}

/* The gradients are then views of the sums: nothing is copied back. */
static void take_from_row(struct training *t)
{
    ph_tape *tape = t->c->tape;
    int64_t at = 0;
    for (size_t i = 0; i < t->parameter_count; i++) {
        int64_t count = ph_tensor_count(t->parameters[i]);
        ph_tensor *part = ph_slice(tape, t->sum, 0, at, at + count);
        part = ph_reshape(tape, part, ph_tensor_shape(t->parameters[i]));
        if (part)
            ph_tape_check(tape, ph_tensor_set_grad(t->parameters[i], part));
        at += count;
    }
}

/* In a scope, so that the record tells which nodes it became. */
static ph_status sum_over_ranks(struct training *t, ph_stream *stream)
{
    PH_TRY(ph_annotation_push(stream, "all_reduce", NULL));
    PH_TRY(ph_all_reduce(t->run->comm, ph_tensor_data(t->sum), ph_tensor_data(t->mine),
                         (size_t)ph_tensor_count(t->sum), PH_DTYPE_F32, PH_REDUCE_SUM, stream));
    return ph_annotation_pop(stream);
}

/* What runs eagerly, and what is captured. Each rank's loss is the mean over its part, so the
 * sum over the ranks is divided by their number. */
static ph_status step(ph_stream *stream, void *user)
{
    struct training *t = user;
    ph_tape *tape = t->c->tape;
    ph_optimizer_zero_grad(tape, t->optimizer);
    ph_tensor *loss = ph_cross_entropy(tape, ph_call(tape, t->net, t->x), t->y);
    loss = ph_mul_scalar(tape, loss, 1.0 / (double)t->ranks);
    ph_backward(tape, loss);
    bool before = ph_tape_set_grad_enabled(tape, false);
    put_in_row(t, loss);
    ph_tape_check(tape, sum_over_ranks(t, stream));
    take_from_row(t);
    ph_tape_set_grad_enabled(tape, before);
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

/* The fills make the tape's stream wait for the memory's earlier users, of which the collective
 * would know nothing. */
static ph_status make_rows(struct training *t)
{
    common *c = t->c;
    int64_t count = 1;
    for (size_t i = 0; i < t->parameter_count; i++)
        count += ph_tensor_count(t->parameters[i]);
    if (count > MOST_VALUES)
        return ph_fail(PH_ERROR_SIZE, "%lld values are too many", (long long)count);
    PH_TRY(ph_tensor_create(&t->mine, c->device, PH_DTYPE_F32, PH_SHAPE(count)));
    PH_TRY(ph_tensor_create(&t->sum, c->device, PH_DTYPE_F32, PH_SHAPE(count)));
    ph_tensor_fill(c->tape, t->mine, 0);
    ph_tensor_fill(c->tape, t->sum, 0);
    return ph_tape_clear(c->tape);
}

/* Rank 0's weights, on all ranks. */
static ph_status share_weights(struct training *t)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        const ph_tensor *p = t->parameters[i];
        PH_TRY(ph_broadcast(t->run->comm, ph_tensor_data(p), ph_tensor_data(p),
                            (size_t)ph_tensor_count(p), PH_DTYPE_F32, 0, t->c->stream));
    }
    return PH_OK;
}

static ph_status create(struct training *t)
{
    const int64_t widths[] = {PIXELS, 128, 128, CLASSES};
    const ph_sgd_options options = {.lr = 0.05, .momentum = 0.9};
    const int64_t rows = BATCH / t->ranks;
    common *c = t->c;
    PH_TRY(common_network(&t->net, c, widths, 4, 0, 1));
    ph_module_parameters(t->net, collect, t);
    PH_TRY(ph_sgd_create(&t->optimizer, t->net, &options));
    PH_TRY(ph_graph_create(&t->graph, NULL));
    PH_TRY(ph_tensor_create(&t->x, c->device, PH_DTYPE_F32, PH_SHAPE(rows, PIXELS)));
    PH_TRY(ph_tensor_create(&t->y, c->device, PH_DTYPE_I64, PH_SHAPE(rows)));
    PH_TRY(make_rows(t));
    return share_weights(t);
}

/* The eager step before the capture makes the momenta. */
static ph_status one_step(struct training *t, int64_t i)
{
    const ph_capture_options options = {.enable_annotations = true};
    common *c = t->c;
    int64_t rows = BATCH / t->ranks, part = i % (c->train / BATCH) * t->ranks + t->rank;
    ph_tensor_copy(c->tape, t->x, common_batch(c, c->images, part, rows));
    ph_tensor_copy(c->tape, t->y, common_batch(c, c->labels, part, rows));
    PH_TRY(ph_tape_clear(c->tape));
    if (!t->run->graphed || i < WARM_UP)
        return step(c->stream, t);
    if (i == WARM_UP)
        PH_TRY(ph_graph_capture(t->graph, c->stream, &options, step, t));
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

/* The nodes of the scope "all_reduce", by kind and name. */
static ph_status find_collective(ph_graph *graph, struct run *run)
{
    const ph_record *record;
    PH_TRY(ph_graph_record(&record, graph));
    run->nodes = ph_record_node_count(record);
    for (size_t i = 0; i < run->nodes; i++) {
        const ph_annotation_pair *pairs;
        ph_node_info node;
        size_t count, used = strlen(run->collective);
        PH_TRY(ph_record_annotation(&pairs, &count, record, i));
        if (count == 0)
            continue;
        PH_TRY(ph_record_node(&node, record, i));
        (void)snprintf(run->collective + used, sizeof run->collective - used, "%s%s%s%s",
                       used > 0 ? ", " : "", ph_node_kind_name(node.kind),
                       node.kind == PH_NODE_KERNEL ? " " : "",
                       node.kind == PH_NODE_KERNEL ? node.name : "");
    }
    return run->collective[0] ? PH_OK
                              : ph_fail(PH_ERROR_CALLER, "the graph has no collective in it");
}

static ph_status train_all(struct training *t, struct result *result)
{
    PH_TRY(create(t));
    for (int i = 0; i < STEPS; i++) {
        if (i == t->run->failing_step && t->rank == t->ranks - 1)
            return ph_fail(PH_ERROR_CALLER, "gives up before step %d, as it was told to", i);
        PH_TRY(one_step(t, i));
        ph_tensor *loss = ph_slice(t->c->tape, t->sum, 0, -1, ph_tensor_count(t->sum));
        PH_TRY(ph_tensor_item(&result->losses[i], t->c->tape, loss));
    }
    PH_TRY(read_weights(t, result));
    PH_TRY(evaluate(t, &result->right));
    return t->run->graphed ? find_collective(t->graph, t->run) : PH_OK;
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
    ph_optimizer_destroy(t.optimizer);
    ph_module_release(t.net);
    ph_tensor *tensors[] = {t.x, t.y, t.mine, t.sum};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        ph_tensor_release(tensors[i]);
    return status;
}
