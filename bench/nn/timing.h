/* SPDX-License-Identifier: MIT */
/* bench/nn/timing.h: what the benchmarks of libphonograph_nn share: a device and a tape,
 * medians, lines. They run on the device that PH_BENCH_DEVICE names ("host" when nothing is
 * said). */
#ifndef BENCH_NN_TIMING_H
#define BENCH_NN_TIMING_H
#include <phonograph/nn.h>
#include <stdio.h>

#define OK(call) timing_check((call), #call)
/* ends the program with the message of a failure */
void timing_check(ph_status status, const char *call);

typedef struct timing {
    const char *name;
    int rounds;
    FILE *json; /* NULL: not asked for */
    bool headed, gpu;
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
} timing;

/* name [rounds] [file that JSON lines are appended to]. Ends the program with 77 where there is
 * no such device. */
void timing_open(timing *t, const char *name, int rounds, int argc, char **argv);
int timing_close(timing *t); /* the exit status */

/* The body runs `warm_up` times, then `rounds` times, each time timed from its call to its
 * return (cpu) and to the end of the device's work (whole), in nanoseconds divided by `count`. */
typedef struct timing_result {
    double cpu, whole;
} timing_result;
timing_result timing_run(timing *t, int warm_up, int rounds, double count,
                         ph_status (*body)(ph_stream *stream, void *user), void *user);
/* The same of replays of the body, captured after three eager runs. */
timing_result timing_replays(timing *t, int rounds, double count,
                             ph_status (*body)(ph_stream *stream, void *user), void *user);
/* From here on with ph_set_benchmark, on a GPU, for shapes that are used before, too: every tensor
 * but the tape's is gone. False: it makes no difference on the host device. */
bool timing_benchmark(timing *t);
void timing_line(timing *t, const char *what, const char *side, timing_result result);
#endif
