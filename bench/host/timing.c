/* SPDX-License-Identifier: MIT */
/* bench/host/timing.c: the command line, medians, the machine. */
#include "host/timing.h"
#include "clock.h"
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

_Noreturn void timing_die(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, ph_error_last()->message);
    exit(1);
}

int timing_rounds(const char *name, int rounds, int most, int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (rounds >= 1 && rounds <= most)
        return rounds;
    (void)fprintf(stderr, "usage: %s [rounds, 1 to %d]\n", name, most);
    exit(2);
}

timing_spread timing_spread_of(double values[], int count)
{
    clock_sort(values, count);
    return (timing_spread){values[0], values[count / 2], values[count - 1]};
}

double timing_median(double values[], int count)
{
    return timing_spread_of(values, count).median;
}

void timing_print_machine(ph_device *device)
{
    struct utsname system;
    ph_device_info info;
    OK(ph_device_get_info(&info, device));
    (void)uname(&system);
    printf("%s, %ld processors; %s %s; compiled by %s\n", info.description,
           sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release, __VERSION__);
}
