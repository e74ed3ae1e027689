/* SPDX-License-Identifier: MIT */
/* tests/support/ranks.c: tests of several ranks. */
#include "support/ranks.h"
#include "support/command.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TIME_LIMIT_S = 100,
    NAP_NS = 2000000
};
static unsigned meetings;

static unsigned number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

bool t_ranks_have_gpus(void)
{
    const char *device = getenv("PH_TEST_DEVICE");
    return device && strncmp(device, "cuda", 4) == 0;
}

bool t_ranks_are_without_mpi(void)
{
    return getenv("PH_TEST_WITHOUT_MPI") != NULL;
}

unsigned t_rank(void)
{
    if (t_ranks_are_without_mpi())
        return number_of("RANK");
    return number_of(getenv("OMPI_COMM_WORLD_RANK") ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK");
}

unsigned t_rank_count(void)
{
    return number_of("PH_TEST_RANKS");
}

const char *t_mpirun(void)
{
    (void)setenv("PH_COMM_MPI", PH_TEST_MPI_PLUG_IN, 1);
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    (void)setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    (void)setenv("OMPI_MCA_orte_enable_recovery", "1", 1);
    (void)setenv("OMPI_MCA_btl", "self,vader", 1);
    /* Open MPI asks for the machine's own name, which not every machine resolves. */
    (void)setenv("RES_OPTIONS", "timeout:1 attempts:1", 1);
    return PH_TEST_MPIEXEC[0] ? PH_TEST_MPIEXEC : NULL;
}

static void path_of(char path[512], const char *kind, unsigned meeting, unsigned rank)
{
    (void)snprintf(path, 512, "%s/%s.%u.%u", getenv("PH_TEST_RANK_FOLDER"), kind, meeting, rank);
}

static void leave_mark(const char *kind, unsigned meeting)
{
    char path[512];
    path_of(path, kind, meeting, t_rank());
    FILE *file = fopen(path, "we");
    if (file)
        (void)fclose(file);
}

static unsigned count_marks(const char *folder, const char *kind, unsigned meeting, unsigned ranks)
{
    unsigned count = 0;
    char path[512];
    for (unsigned rank = 0; rank < ranks; rank++) {
        (void)snprintf(path, sizeof path, "%s/%s.%u.%u", folder, kind, meeting, rank);
        count += access(path, F_OK) == 0;
    }
    return count;
}

/* Those that have left count as having come. */
static void wait_for_marks(const char *kind, unsigned meeting)
{
    const char *folder = getenv("PH_TEST_RANK_FOLDER");
    const struct timespec nap = {0, NAP_NS};
    for (unsigned rank = 0; rank < t_rank_count(); rank++) {
        char come[512], left[512];
        (void)snprintf(come, sizeof come, "%s/%s.%u.%u", folder, kind, meeting, rank);
        (void)snprintf(left, sizeof left, "%s/passed.0.%u", folder, rank);
        while (access(come, F_OK) != 0 && access(left, F_OK) != 0)
            (void)nanosleep(&nap, NULL);
    }
}

void t_ranks_meet(void)
{
    meetings++;
    leave_mark("meeting", meetings);
    wait_for_marks("meeting", meetings);
}

void t_rank_leaves(void)
{
    leave_mark("passed", 0);
    _exit(0);
}

void t_rank_dies(void)
{
    leave_mark("passed", 0);
    (void)raise(SIGKILL);
}

/* A launcher ends the other ranks when one ends with an error, so each waits for the others. */
static int run_rank(const struct CMUnitTest *tests, size_t count)
{
    (void)alarm(TIME_LIMIT_S);
    int failed = _cmocka_run_group_tests("ranks", tests, count, NULL, NULL);
    if (failed == 0)
        leave_mark("passed", 0);
    leave_mark("over", 0);
    wait_for_marks("over", 0);
    return failed;
}

/* Each with the variables that torchrun sets. */
static pid_t start_rank(const char *program, unsigned rank)
{
    char number[16];
    pid_t process = fork();
    if (process != 0)
        return process;
    (void)snprintf(number, sizeof number, "%u", rank);
    (void)setenv("RANK", number, 1);
    (void)setenv("LOCAL_RANK", number, 1);
    (void)execl(program, program, (char *)NULL);
    _exit(127);
}

/* The status of the last one that failed. */
static int run_processes(const char *program, unsigned count)
{
    char port[16];
    pid_t processes[16];
    int result = 0;
    /* below the ports that the system gives to others, from 32768 on */
    (void)snprintf(port, sizeof port, "%u", 20000 + (unsigned)getpid() % 12000);
    (void)setenv("WORLD_SIZE", getenv("PH_TEST_RANKS"), 1);
    (void)setenv("MASTER_ADDR", "127.0.0.1", 1);
    (void)setenv("MASTER_PORT", port, 1);
    for (unsigned rank = 0; rank < count; rank++)
        processes[rank] = start_rank(program, rank);
    for (unsigned rank = 0; rank < count; rank++) {
        int status = 0;
        if (processes[rank] < 0 || waitpid(processes[rank], &status, 0) < 0 || status != 0)
            result = status ? status : -1;
    }
    return result;
}

static int run_program(const char *program, const char *ranks, unsigned count)
{
    if (t_ranks_are_without_mpi())
        return run_processes(program, count);
    /* Some launchers put the system's libraries before those that the test has named. */
    char path[1024];
    const char *libraries = getenv("LD_LIBRARY_PATH");
    (void)snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", libraries ? libraries : "");
    const t_command command = {.argv = {PH_TEST_MPIEXEC, "-n", ranks, "env", path, program}};
    t_result result = t_run(&command);
    int status = result.status;
    if (count_marks(getenv("PH_TEST_RANK_FOLDER"), "passed", 0, count) != count)
        print_error("%s\n%s\n", result.out, result.err);
    t_result_free(&result);
    return status;
}

static bool run_ranks(const char *ranks)
{
    char folder[] = "/tmp/phonograph-ranks-XXXXXX", program[512] = "";
    unsigned count = (unsigned)strtoul(ranks, NULL, 10);
    assert_non_null(mkdtemp(folder));
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    (void)setenv("PH_TEST_RANK_FOLDER", folder, 1);
    (void)setenv("PH_TEST_RANKS", ranks, 1);
    (void)t_mpirun();
    int status = run_program(program, ranks, count);
    unsigned passed = count_marks(folder, "passed", 0, count);
    if (passed != count)
        print_error("%u of %u ranks passed; they ended with %d\n", passed, count, status);
    t_remove_tree(folder);
    return passed == count;
}

/* NULL: nothing. */
static const char *find_missing(void)
{
    ph_driver_info info;
    uint32_t gpus = 0;
    if (PH_TEST_MPIEXEC[0] == '\0' && !t_ranks_are_without_mpi())
        return "no MPI was found";
    if (!t_ranks_have_gpus())
        return NULL;
    for (size_t i = 0; ph_driver_get_info(&info, i) == PH_OK; i++)
        gpus = strcmp(info.name, "cuda") == 0 ? info.device_count : gpus;
    const char *named = getenv("PH_NCCL");
    if (gpus < 2)
        return "the machine has not two GPUs";
    return dlopen(named ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL) ? NULL
                                                                         : "no NCCL was found";
}

int t_ranks_run(const struct CMUnitTest *tests, size_t count)
{
    if (t_rank_count() > 0)
        return run_rank(tests, count);
    const char *missing = find_missing();
    if (missing) {
        (void)printf("skipped: %s: no test of several ranks was run\n", missing);
        return 77;
    }
    const char *most = getenv("PH_TEST_MOST_RANKS");
    return run_ranks("2") && ((most && strcmp(most, "2") == 0) || run_ranks("4")) ? 0 : 1;
}

void t_team_open(t_team *team, uint64_t timeout_ms)
{
    const ph_comm_options options = {.timeout_ms = timeout_ms};
    char device[32] = "host:threads=2";
    if (t_ranks_have_gpus())
        /* the software NCCL takes several ranks on one GPU */
        (void)snprintf(device, sizeof device, "cuda:%u", t_rank() % 2);
    assert_ok(ph_device_open(&team->device, device, NULL));
    assert_ok(ph_stream_create(&team->stream, team->device, NULL));
    assert_ok(ph_comm_create(&team->comm, team->device, &options));
    team->rank = ph_comm_rank(team->comm);
    team->size = ph_comm_size(team->comm);
    assert_int_equal(team->rank, t_rank());
    assert_int_equal(team->size, t_rank_count());
}

void t_team_close(t_team *team)
{
    ph_comm_release(team->comm);
    ph_stream_destroy(team->stream);
    ph_device_release(team->device);
}
