/* SPDX-License-Identifier: MIT */
/* tests/support/ranks.h: tests of several ranks: the program starts itself, with mpirun. */
#ifndef PH_TESTS_RANKS_H
#define PH_TESTS_RANKS_H
#include "support/support.h"

/* Runs the tests in 2 and in 4 ranks, or as one of these ranks. main returns what this returns: 77
 * where there is no MPI. Every rank must pass all tests. A rank that is killed in a test counts as
 * having passed if it called t_rank_leaves before. */
int t_ranks_run(const struct CMUnitTest *tests, size_t count);
#define t_ranks(tests) t_ranks_run((tests), sizeof(tests) / sizeof *(tests))

/* mpirun, with the environment set so that it starts several ranks here; NULL: there is no MPI. */
const char *t_mpirun(void);

/* They have a GPU each, as PH_TEST_DEVICE says; PH_TEST_WITHOUT_MPI starts them without mpirun. */
bool t_ranks_have_gpus(void);
bool t_ranks_are_without_mpi(void);
unsigned t_rank(void);
unsigned t_rank_count(void);
/* Says that this rank has passed, and ends it at once, without any clean-up. */
void t_rank_leaves(void);
void t_rank_dies(void); /* the same by SIGKILL */
/* Waits until every rank has called it so often, by files: no use of a communicator. */
void t_ranks_meet(void);

/* A device, a stream, and a communicator of all ranks, with this timeout. */
typedef struct t_team {
    ph_device *device;
    ph_stream *stream;
    ph_comm *comm;
    unsigned rank, size;
} t_team;
void t_team_open(t_team *team, uint64_t timeout_ms);
void t_team_close(t_team *team);
#endif
