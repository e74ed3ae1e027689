/* SPDX-License-Identifier: MIT */
/* graphed/buckets.c: a server that answers batches of any size with graphs, whose sizes are
 * fixed: one graph for each of 35 sizes, all in one pool, and every batch padded to the next of
 * them. */
#include "common/common.h"
#include <stdio.h>

enum {
    BUCKETS = 35, /* 1, 2, 4, then 8, 16, 24, ... 256 */
    LARGEST = 256
};

struct server {
    common c;
    ph_module *net, *graphed[BUCKETS];
    int64_t rows[BUCKETS];
    ph_pool *pool;
    ph_tensor *padded; /* [LARGEST, PIXELS]: what graphs read */
};

/* A network that answers and does not learn: with parameters that want no gradient, no backward
 * graph is made. */
static bool freeze(const char *name, ph_tensor *parameter, void *user)
{
    (void)name;
    ph_status *st = user;
    *st = ph_tensor_set_requires_grad(parameter, false);
    return *st == PH_OK;
}

static ph_status create_network(struct server *s)
{
    const int64_t widths[] = {PIXELS, 512, 512, CLASSES};
    ph_status st = PH_OK;
    PH_TRY(common_network(&s->net, &s->c, widths, 4, 0, 1));
    ph_module_parameters(s->net, freeze, &st);
    PH_TRY(st);
    ph_tape_set_grad_enabled(s->c.tape, false);
    s->padded = ph_tensor_retain(ph_zeros(s->c.tape, PH_DTYPE_F32, PH_SHAPE(LARGEST, PIXELS)));
    return ph_tape_clear(s->c.tape);
}

static void report(const char *what, const ph_memory_stats *stats)
{
    printf("%s: %zu KiB reserved in %zu segments, of which outputs hold %zu KiB\n", what,
           stats->reserved / 1024, stats->segments, stats->allocated / 1024);
}

/* The largest first: what it needs for a moment (activations) the smaller ones take again, from
 * the same pool; and on the same stream, as a pool gives memory again to the stream that had it.
 * What stays for each is its output. */
static ph_status capture_all(struct server *s)
{
    ph_memory_stats first, all;
    PH_TRY(ph_pool_create(&s->pool, s->c.device, NULL));
    const ph_graphed_options options = {.pool = s->pool, .stream = s->c.stream};
    for (int i = BUCKETS - 1; i >= 0; i--) {
        s->rows[i] = i < 3 ? 1 << i : 8 * (i - 2);
        ph_tensor *x = ph_tensor_retain(ph_slice(s->c.tape, s->padded, 0, 0, s->rows[i]));
        ph_status st = ph_tape_clear(s->c.tape);
        if (st == PH_OK)
            st = ph_make_graphed_callables(&s->graphed[i], &s->net,
                                           &(ph_sample){.tensors = &x, .count = 1}, 1, &options);
        ph_tensor_release(x);
        PH_TRY(st);
        if (i == BUCKETS - 1)
            PH_TRY(ph_pool_stats(&first, s->pool));
    }
    PH_TRY(ph_pool_stats(&all, s->pool));
    report("the graph of 256 rows alone", &first);
    report("all 35 graphs", &all);
    /* Activations of all sizes would be eighteen times those of the largest. */
    if (all.reserved > 2 * first.reserved)
        return ph_fail(PH_ERROR_CALLER, "35 graphs take %zu bytes where one takes %zu",
                       all.reserved, first.reserved);
    return PH_OK;
}

/* Rows behind the batch hold what an earlier one left there: each row is answered by itself, so
 * they do no harm. The answer is the graph's own memory until the bucket's next call: use it, or
 * clone it, before that. */
static ph_tensor *answer(struct server *s, ph_tensor *batch)
{
    ph_tape *tape = s->c.tape;
    int64_t rows = ph_tensor_dim(batch, 0);
    int i = 0;
    while (s->rows[i] < rows)
        i++;
    ph_tensor_copy(tape, ph_slice(tape, s->padded, 0, 0, rows), batch);
    ph_tensor *out = ph_call(tape, s->graphed[i], ph_slice(tape, s->padded, 0, 0, s->rows[i]));
    return ph_slice(tape, out, 0, 0, rows);
}

static ph_status serve(struct server *s, int64_t first, int64_t rows, double *apart)
{
    ph_tape *tape = s->c.tape;
    ph_tensor *batch = ph_slice(tape, s->c.images, 0, first, first + rows);
    ph_status st = common_distance(apart, tape, answer(s, batch), ph_call(tape, s->net, batch));
    ph_status cleared = ph_tape_clear(tape);
    return cleared != PH_OK ? cleared : st;
}

static ph_status run(struct server *s, int argc, char **argv)
{
    double worst = 0;
    PH_TRY(common_open(&s->c, argc, argv));
    PH_TRY(create_network(s));
    PH_TRY(capture_all(s));
    for (int64_t rows = 1; rows <= LARGEST; rows++) {
        double apart = 0;
        PH_TRY(serve(s, 3 * rows, rows, &apart));
        worst = apart > worst ? apart : worst;
    }
    /* Products of another size may sum in another order: a bound, not the same bits. */
    printf("every batch from 1 to %d rows was answered, within %.1e of the network itself\n",
           LARGEST, worst);
    return worst < 1e-4 ? PH_OK : ph_fail(PH_ERROR_CALLER, "answers differ by %g", worst);
}

int main(int argc, char **argv)
{
    struct server s = {0};
    int status = common_end("buckets", run(&s, argc, argv));
    for (int i = 0; i < BUCKETS; i++)
        ph_module_release(s.graphed[i]);
    ph_module_release(s.net);
    ph_pool_release(s.pool);
    ph_tensor_release(s.padded);
    common_close(&s.c);
    return status;
}
