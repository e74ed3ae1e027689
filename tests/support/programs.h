/* SPDX-License-Identifier: MIT */
/* tests/support/programs.h: random stream programs: made from a seed, correctly ordered by
 * construction, run on a device or simulated. */
#ifndef PH_TESTS_PROGRAMS_H
#define PH_TESTS_PROGRAMS_H
#include "support/support.h"

enum {
    T_STREAMS = 4,
    T_EVENTS = 6,
    T_DEVICE_SLOTS = 5,
    T_PINNED_SLOTS = 2,
    T_FIXED_SLOTS = T_DEVICE_SLOTS + T_PINNED_SLOTS,
    T_TEMPORARIES = 3, /* slots after the fixed ones: allocated and freed by the program */
    T_SLOTS = T_FIXED_SLOTS + T_TEMPORARIES,
    T_STEPS = 400
};

typedef enum t_step_kind {
    T_MIX,        /* dst[i] = 31 dst[i] + src[(i + shift) mod n] + value, a kernel */
    T_COPY,       /* dst = src */
    T_SET,        /* dst[i] = value */
    T_HOST,       /* dst[i] = 17 dst[i] + value, a host function; dst is pinned */
    T_ALLOC,      /* dst, a temporary, on stream */
    T_USED_BY,    /* dst is used by stream too (ph_record_stream) */
    T_FREE,       /* dst */
    T_RECORD,     /* event on stream */
    T_WAIT,       /* stream waits for event */
    T_WAIT_STREAM /* stream waits for other */
} t_step_kind;

typedef struct t_step {
    t_step_kind kind;
    int stream, other, event, dst, src;
    uint32_t value, shift;
} t_step;

typedef struct t_program {
    size_t n; /* elements of each slot */
    size_t count;
    t_step steps[T_STEPS];
} t_program;

/* kernels_only: no copies, fills, host functions and temporaries. */
void t_program_make(t_program *program, uint64_t seed, size_t operations, bool kernels_only);
/* Removes the k-th wait of stream for stream; false when there are not so many. */
bool t_program_drop_wait(t_program *program, size_t k);

/* What the program leaves in the fixed slots after so many runs, computed in the order of its
 * steps. */
typedef struct t_contents {
    uint32_t *slot[T_FIXED_SLOTS];
} t_contents;
void t_contents_make(t_contents *contents, const t_program *program, int runs);
void t_contents_free(t_contents *contents);

/* A program bound to a device; NULL names the one under test. racy: the host's kernels access
 * memory by relaxed atomics, for programs that are wrong on purpose. */
typedef struct t_bound {
    const t_program *program;
    ph_device *device;
    ph_kernel *mix;
    ph_stream *streams[T_STREAMS];
    ph_event *events[T_EVENTS];
    uint32_t *slots[T_SLOTS];
    struct t_host_call {
        uint32_t *p;
        size_t n;
        uint32_t value;
    } host_calls[T_STEPS];
} t_bound;
void t_bind(t_bound *bound, const t_program *program, const char *device, bool racy);
void t_unbind(t_bound *bound);
/* Sets the slots to what t_contents_make starts from, and waits. */
void t_bound_start(t_bound *bound);
/* Submits one run, forked from stream 0 and joined there; also the body of a capture: user is
 * the t_bound. */
ph_status t_bound_submit(ph_stream *stream, void *user);
/* Waits; true when the slots hold `expected`. */
bool t_bound_equals(t_bound *bound, const t_contents *expected);
#endif
