/* SPDX-License-Identifier: MIT */
/* data_parallel: a network learns digits on several ranks, each a process with its part of every
 * batch; the whole step of a rank, the sum of the gradients over all ranks in it, is one graph.
 * On GPUs (one a rank; two, four or eight, as there are) NCCL sums; on the host device two
 * processes do, through shared memory. Losses and weights must be the same to the last bit on
 * all ranks, eagerly and replayed; and those of one rank that trains on whole batches, but for
 * rounding.
 *
 *   data_parallel [DEVICE [DATA [STEP]]]
 *
 * DEVICE: host (with settings), cuda, or auto: GPUs where there are some. DATA: "" is the digits
 * of examples/digits. STEP: the last rank gives up before that step of its graph, which shows
 * what becomes of the others. NCCL is libnccl.so.2, wherever the loader finds it
 * (LD_LIBRARY_PATH), or the file that DATA_PARALLEL_NCCL names; without it the exit status is
 * 77. */
#include "data_parallel.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* How far the sums of other orders may drift apart over the steps. */
static const double tolerance = 1e-4;

/* ---- processes ---- this one opens no device and loads no driver: neither would survive a
 * fork. */
typedef int (*process_fn)(const struct team *team, int rank);

static int failed(const char *what)
{
    fprintf(stderr, "data_parallel: %s: %s\n", what, strerror(errno));
    return 1;
}

/* -1: there is none. A process ends when this one does, however that comes. */
static pid_t begin(process_fn fn, const struct team *team, int rank)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _Exit(1);
    exit(fn(team, rank));
}

static void kill_all(const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++)
        if (pids[i] > 0)
            (void)kill(pids[i], SIGKILL);
}

/* Takes out the process that ended, and gives its exit status. stopped: it may have been killed
 * by this one. */
static int ended(pid_t *pids, int count, bool stopped)
{
    int status = 0, rank = 0;
    pid_t pid = waitpid(-1, &status, 0);
    while (rank < count && pids[rank] != pid)
        rank++;
    if (pid < 0 || rank == count)
        return failed("waitpid");
    pids[rank] = 0;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (stopped)
        fprintf(stderr, "data_parallel: rank %d would have waited for it, and was stopped\n", rank);
    else
        fprintf(stderr, "data_parallel: rank %d was ended by a signal: %s\n", rank,
                strsignal(WTERMSIG(status)));
    return 1;
}

/* Runs fn in a process for each rank. When one fails the others wait for it, in the middle of a
 * sum, for ever: they are killed. */
static int run_team(process_fn fn, const struct team *team)
{
    pid_t pids[MOST_RANKS] = {0};
    int status = 0, running = 0;
    fflush(NULL); /* else every process would write what is still in the buffers */
    while (running < team->ranks && status == 0) {
        pids[running] = begin(fn, team, running);
        if (pids[running] < 0)
            status = failed("fork");
        else
            running++;
    }
    if (status != 0)
        kill_all(pids, running);
    for (int left = running; left > 0; left--) {
        int one = ended(pids, running, status != 0);
        if (one != 0 && status == 0) {
            status = one;
            kill_all(pids, running);
        }
    }
    return status;
}

/* The same, with a barrier for so many processes. Where one failed another was killed in it: it
 * is left as it is then. */
static int run_ranks(const struct team *team)
{
    pthread_barrier_t *barrier = &team->shared->barrier;
    pthread_barrierattr_t attributes;
    errno = pthread_barrierattr_init(&attributes);
    if (errno == 0) {
        errno = pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        if (errno == 0)
            errno = pthread_barrier_init(barrier, &attributes, (unsigned)team->ranks);
        (void)pthread_barrierattr_destroy(&attributes);
    }
    if (errno != 0)
        return failed("a barrier for several processes");
    int status = run_team(train_rank, team);
    if (status == 0)
        (void)pthread_barrier_destroy(barrier);
    return status;
}

/* ---- what there is ---- asked in a process of its own, too, as it loads the driver. */
static int look(const struct team *team, int rank)
{
    struct shared *shared = team->shared;
    ph_driver_info info, cuda = {.reason = "not in this build"};
    (void)rank;
    for (size_t i = 0; ph_driver_get_info(&info, i) == PH_OK; i++)
        if (strcmp(info.name, "cuda") == 0)
            cuda = info;
    shared->gpus = cuda.device_count;
    if (shared->gpus == 0 && strcmp(team->device, "cuda") == 0) {
        fprintf(stderr, "data_parallel: no GPU can be used: %s\n", cuda.reason);
        return 1;
    }
    if (shared->gpus == 0)
        return 0;
    shared->nccl = reduce_nccl_version();
    if (shared->nccl != 0)
        return 0;
    printf("skipped: data_parallel has no NCCL to sum with over GPUs: %s\n",
           ph_error_last()->message);
    return SKIPPED;
}

/* As many for each as a batch can be divided among. */
static int ranks_on(unsigned gpus)
{
    unsigned ranks = 1;
    while (2 * ranks <= gpus && 2 * ranks <= MOST_RANKS)
        ranks *= 2;
    return (int)ranks;
}

/* How many ranks, on what. */
static int choose(struct team *team)
{
    const struct shared *shared = team->shared;
    if (strcmp(team->device, "auto") == 0 || strcmp(team->device, "cuda") == 0) {
        team->ranks = 1;
        int status = run_team(look, team);
        if (status != 0)
            return status;
        team->gpus = shared->gpus > 0;
        team->device = team->gpus ? "cuda" : "host";
    } else if (strcmp(team->device, "host") != 0 && strncmp(team->device, "host:", 5) != 0) {
        fprintf(stderr, "data_parallel: '%s' is none of host, cuda and auto\n", team->device);
        return 1;
    }
    team->ranks = team->gpus ? ranks_on(shared->gpus) : 2;
    if (team->gpus)
        printf("NCCL %d.%d.%d sums over the ranks%s\n", shared->nccl / 10000,
               shared->nccl / 100 % 100, shared->nccl % 100,
               team->ranks > 1 ? "" : ": there is one GPU, so one rank, whose sum is a copy");
    else
        printf("a host function sums over the ranks, through memory that they share\n");
    return 0;
}

/* ---- the comparison ---- */
static void print_result(const char *name, const struct result *r)
{
    printf("%-32s%10.4f%10.4f%9.1f %%\n", name, r->losses[0], r->losses[STEPS - 1], 100 * r->right);
}

static void print_table(const struct team *team)
{
    static const char *const runs[] = {"eagerly", "one graph"};
    const struct shared *shared = team->shared;
    printf("\n%-32s%10s%10s%11s\n", "", "loss", "at last", "right");
    for (int rank = 0; rank < team->ranks; rank++)
        for (int graphed = 0; graphed < 2; graphed++) {
            char name[40];
            (void)snprintf(name, sizeof name, "rank %d, %s", rank, runs[graphed]);
            print_result(name, &shared->results[rank][graphed]);
        }
    print_result("one rank, whole batches, eagerly", &shared->whole);
    const struct result *graph = &shared->results[0][1];
    printf("\nthe graph of a step: %zu nodes; the sum over the ranks in it: %s\n", graph->nodes,
           graph->collective);
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

static int compare(const struct team *team)
{
    const struct shared *shared = team->shared;
    const struct result *first = &shared->results[0][0];
    double apart = distance(first, &shared->whole);
    bool all = true;
    for (int rank = 0; rank < team->ranks; rank++)
        all =
            all && same(first, &shared->results[rank][0]) && same(first, &shared->results[rank][1]);
    print_table(team);
    printf(
        "the losses and weights %s the same to the last bit, on all ranks, eagerly and replayed\n",
        all ? "are" : "ARE NOT");
    printf("they are within %.1e of those of one rank with whole batches\n", apart);
    if (!all || !(apart < tolerance))
        fprintf(stderr, "data_parallel: the runs differ by more than they may\n");
    return !all || !(apart < tolerance);
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
    struct team team = {.device = argc > 1 ? argv[1] : "auto",
                        .data = argc > 2 && argv[2][0] ? argv[2] : NULL,
                        .failing_step = step_of(argc > 3 ? argv[3] : NULL)};
    if (team.failing_step == -2) {
        fprintf(stderr, "data_parallel: '%s' is no step from 0 to %d\n", argv[3], STEPS - 1);
        return 1;
    }
    team.shared =
        mmap(NULL, sizeof *team.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (team.shared == MAP_FAILED)
        return failed("mmap");
    int status = choose(&team);
    if (status == 0)
        status = run_ranks(&team);
    struct team one = team;
    one.ranks = 1;
    one.reference = true;
    if (status == 0)
        status = run_ranks(&one);
    if (status == 0)
        status = compare(&team);
    return munmap(team.shared, sizeof *team.shared) == 0 ? status : failed("munmap");
}
