/* SPDX-License-Identifier: MIT */
/* bench/host/timing.h: what the benchmarks of the host device share: their command line,
 * medians, what they say of the machine. */
#ifndef BENCH_HOST_TIMING_H
#define BENCH_HOST_TIMING_H
#include <phonograph/phonograph.h>
#include <stdio.h>

/* Of a call that fails. It stands in loops that are timed, so the comparison is here. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != PH_OK)                                                                       \
            timing_die(#call);                                                                     \
    } while (0)
/* Ends the program with the thread's last error. */
_Noreturn void timing_die(const char *what);

/* `name [rounds, 1 to most]`; ends the program with its usage where the command line says
 * something else. */
int timing_rounds(const char *name, int rounds, int most, int argc, char **argv);

/* Both sort the values. */
typedef struct timing_spread {
    double low, median, high;
} timing_spread;
timing_spread timing_spread_of(double values[], int count);
double timing_median(double values[], int count);

/* A line: the processor, the system and the compiler. */
void timing_print_machine(ph_device *device);
#endif
