/* SPDX-License-Identifier: MIT */
/* data_parallel: a network learns digits on several ranks, each a process with its part of every
 * batch; the whole step of a rank, the means of the gradients over all ranks in it, is one graph.
 * Losses and weights must be the same to the last bit on all ranks, eagerly and replayed; and those
 * of one rank that trains on whole batches, but for rounding.
 *
 *   mpirun -n 2 data_parallel [DEVICE [DATA [STEP]]]
 *   torchrun --no-python --nproc-per-node 2 data_parallel cuda
 *
 * DEVICE: host (with settings), cuda (each rank has a GPU of its own), or auto: GPUs where there
 * are some. DATA: "" is the digits of examples/digits. STEP: the last rank gives up before that
 * step of its graph, which shows what becomes of the others. Host devices need MPI, and GPUs NCCL;
 * one rank alone needs neither. */
#include "data_parallel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How far the sums of other orders may drift apart over the steps. */
static const double tolerance = 1e-4;
enum {
    TIMEOUT_MS = 60000
};

struct program {
    common c;
    ph_comm *team, *alone; /* of all ranks; of this one */
    struct result results[3], *all;
    struct run run; /* the last one of the team */
};

/* ---- ranks ---- */
/* "cuda" becomes this rank's GPU. */
static ph_status name_device(char out[64], const char *named)
{
    ph_driver_info info;
    uint32_t local;
    PH_TRY(ph_comm_local_rank(&local));
    (void)snprintf(out, 64, "%s", named);
    for (size_t i = 0; ph_driver_get_info(&info, i) == PH_OK; i++)
        if (strcmp(info.name, "cuda") == 0 &&
            (strcmp(named, "cuda") == 0 || (strcmp(named, "auto") == 0 && info.device_count > 0)))
            (void)snprintf(out, 64, "cuda:%u", (unsigned)local);
    return PH_OK;
}

static ph_status open_program(struct program *p, const char *device, const char *data)
{
    const ph_comm_options alone = {.size = 1}, team = {.timeout_ms = TIMEOUT_MS};
    char name[64], file[4096];
    char *arguments[] = {"data_parallel", name, file};
    PH_TRY(name_device(name, device));
    (void)snprintf(file, sizeof file, "%s", data ? data : "");
    PH_TRY(common_open(&p->c, data && data[0] ? 3 : 2, arguments));
    PH_TRY(ph_comm_create(&p->alone, p->c.device, &alone));
    PH_TRY(ph_comm_create(&p->team, p->c.device, &team));
    printf("rank %u of %u\n", (unsigned)ph_comm_rank(p->team), (unsigned)ph_comm_size(p->team));
    p->all = calloc(ph_comm_size(p->team), sizeof *p->all);
    if (p->all == NULL)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the results");
    return BATCH % ph_comm_size(p->team) == 0
               ? PH_OK
               : ph_fail(PH_ERROR_ARGUMENT, "a batch of %d is not for %u ranks", BATCH,
                         (unsigned)ph_comm_size(p->team));
}

static void close_program(struct program *p)
{
    ph_comm_release(p->team);
    ph_comm_release(p->alone);
    common_close(&p->c);
    free(p->all);
}

/* Every rank's result, on every rank. */
static ph_status gather(struct program *p, const struct result *mine)
{
    ph_stream *stream = p->c.stream;
    size_t ranks = ph_comm_size(p->team), bytes = sizeof *mine;
    unsigned char *memory;
    PH_TRY(ph_malloc((void **)&memory, ranks, bytes, stream));
    unsigned char *own = memory + ph_comm_rank(p->team) * bytes;
    PH_TRY(ph_memcpy(own, mine, bytes, stream));
    PH_TRY(ph_all_gather(p->team, memory, own, bytes, PH_DTYPE_U8, stream));
    PH_TRY(ph_memcpy(p->all, memory, ranks * bytes, stream));
    PH_TRY(ph_stream_synchronize(stream));
    ph_free(memory, stream);
    return PH_OK;
}

/* ---- the comparison ---- */
static void print_result(const char *name, const struct result *r)
{
    printf("%-32s%10.4f%10.4f%9.1f %%\n", name, r->losses[0], r->losses[STEPS - 1], 100 * r->right);
}

static bool same(const struct result *a, const struct result *b)
{
    return a->values == b->values && memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->weights, b->weights, a->values * sizeof *a->weights) == 0;
}

/* What is no number is as far away as can be. */
static double farther(double worst, double a, double b)
{
    double apart = fabs(a - b);
    return apart <= worst ? worst : isnan(apart) ? INFINITY : apart;
}

static double distance(const struct result *a, const struct result *b)
{
    double worst = a->values == b->values ? 0 : INFINITY;
    for (size_t i = 0; i < STEPS; i++)
        worst = farther(worst, a->losses[i], b->losses[i]);
    for (size_t i = 0; i < a->values && i < b->values; i++)
        worst = farther(worst, (double)a->weights[i], (double)b->weights[i]);
    return worst;
}

static void print_table(const struct program *p)
{
    printf("\n%-32s%10s%10s%11s\n", "", "loss", "at last", "right");
    print_result("eagerly", &p->results[0]);
    print_result("one graph", &p->results[1]);
    print_result("one rank, whole batches, eagerly", &p->results[2]);
    printf("\nthe graph of a step: %zu nodes, %zu of which sum over the ranks%s%s\n", p->run.nodes,
           p->run.collectives, p->run.collectives ? ": " : "", p->run.collective);
}

static ph_status compare(const struct program *p)
{
    uint32_t ranks = ph_comm_size(p->team);
    double apart = distance(&p->results[0], &p->results[2]);
    bool all = same(&p->results[0], &p->results[1]);
    for (uint32_t rank = 0; rank < ranks; rank++)
        all = all && same(&p->results[1], &p->all[rank]);
    if (ph_comm_rank(p->team) == 0) {
        print_table(p);
        printf("the losses and weights %s the same to the last bit, on all %u ranks, eagerly and "
               "replayed\nthey are within %.1e of those of one rank with whole batches\n",
               all ? "are" : "ARE NOT", (unsigned)ranks, apart);
    }
    return all && apart < tolerance
               ? PH_OK
               : ph_fail(PH_ERROR_CALLER, "the runs differ by more than they may");
}

static ph_status run_all(struct program *p, int failing_step)
{
    for (int i = 0; i < 3; i++) {
        struct run run = {
            .c = &p->c, .graphed = i == 1, .failing_step = i == 1 ? failing_step : -1};
        run.comm = i == 2 ? p->alone : p->team;
        PH_TRY(train(&run, &p->results[i]));
        if (i == 1)
            p->run = run;
    }
    PH_TRY(gather(p, &p->results[1]));
    return compare(p);
}

/* -1: none was named; -2: it is no number. */
static int step_of(const char *text)
{
    char *end;
    if (!text)
        return -1;
    long step = strtol(text, &end, 10);
    return *text && !*end && step >= 0 && step < STEPS ? (int)step : -2;
}

int main(int argc, char **argv)
{
    static struct program p;
    char name[48];
    int failing_step = step_of(argc > 3 ? argv[3] : NULL);
    if (failing_step == -2) {
        fprintf(stderr, "data_parallel: '%s' is no step from 0 to %d\n", argv[3], STEPS - 1);
        return 1;
    }
    ph_status status = open_program(&p, argc > 1 ? argv[1] : "auto", argc > 2 ? argv[2] : NULL);
    if (status == PH_OK)
        status = run_all(&p, failing_step);
    (void)snprintf(name, sizeof name, "data_parallel: rank %u", (unsigned)ph_comm_rank(p.team));
    int exit_status = common_end(name, status);
    close_program(&p);
    return exit_status;
}
