/* SPDX-License-Identifier: MIT */
/* tests/support/sweep.h: failure sweeps: the n-th of something fails in a run, for n = 0, 1, 2,
 * ..., and the run then works again. */
#ifndef PH_TESTS_SWEEP_H
#define PH_TESTS_SWEEP_H
#include "support/support.h"

/* ---- faults ---- make the n-th of something fail. */
typedef struct t_fault {
    const char *what;
    void (*prepare)(
        /* NULL, or what to do with a fresh device before anything is allocated on it: by who
         * opens it */
        ph_device *device);
    void (*arm)(int64_t n);
    bool (*disarm)(void);              /* ends it; whether it came to that */
    bool (*expects)(ph_status status); /* the statuses that such a failure may show as */
} t_fault;
/* The n-th host allocation fails, and each after it. */
extern const t_fault t_host_memory_fault;
/* The n-th call of the driver answers this number (PH__R_..., or CUDA's own) instead of doing
 * its work. One number at a time: the next call gives the same fault another one. */
const t_fault *t_driver_fault(int answer);

/* ---- sweeps ---- */
typedef struct t_swept {
    const char *name; /* in the messages of failures */
    /* Fixtures as cmocka calls them, with NULL, around each n; no host allocation may be left
     * behind. Both NULL: the world is the caller's, one for all n. */
    int (*open)(void **state), (*close)(void **state);
    /* Begins where open or reset left off. On failure the record holds the status and says
     * something. */
    ph_status (*run)(void *user);
    /* After each run, with what it gave: checks, after PH_OK, that all that was to be done is
     * done; then puts back what a run begins with. */
    void (*reset)(ph_status status, void *user);
    /* a run that succeeds in spite of a fault: reset is given PH_ERROR_CALLER then */
    bool may_do_less;
    void *user;
} t_swept;

typedef struct t_faults {
    int64_t reached;  /* runs in which the n-th was come to */
    int64_t failures; /* those of them that failed: in spite of a fault a run may succeed */
} t_faults;

/* For n = 0, 1, 2, ... until the fault is not reached: open; a run with the fault, which fails
 * with a status that the fault expects, or succeeds; reset; a run without it in the same world,
 * which succeeds; reset; close. Messages for the log are kept from being printed. */
t_faults t_sweep(const t_swept *swept, const t_fault *fault);
/* Of host allocations: more than `least` fail the run. */
void t_sweep_host_memory(const t_swept *swept, int64_t least);
/* Of driver calls, which answer PH__R_LAUNCH_FAILED: more than half of them fail the run; some
 * are allowed to fail in silence: asking whether a stream is idle, say. */
void t_sweep_driver(const t_swept *swept);
/* Both, as tests of a program: more than ten host allocations fail the run. In its list:
 * T_SWEEP(test_without_host_memory, &swept), T_SWEEP(test_when_the_driver_fails, &swept) */
void t_test_without_host_memory(void **swept);
void t_test_when_the_driver_fails(void **swept);
#define T_SWEEP(test, swept)                                                                       \
    ((struct CMUnitTest){.name = #test, .test_func = t_##test, .initial_state = (void *)(swept)})
/* The fault that a sweep has come to, for messages: "host allocation 3". */
const char *t_sweep_place(void);
#endif
