/* SPDX-License-Identifier: MIT */
/* tests/unit/dropped/dropped.c: a function that nobody calls, longer than the program of
 * source_lines.c: the linker drops it, and its range in the debug information begins at 0. */
#define TWICE(x) x x
#define MANY(x)  TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(x)))))))

void t_dropped(volatile int *at);
void t_dropped(volatile int *at)
{
    MANY(MANY(*at += 1;))
    MANY(MANY(*at += 3;))
}
