/* SPDX-License-Identifier: MIT */
/* base/demangle.h: names of C++ functions as their authors wrote them. */
#ifndef PH_BASE_DEMANGLE_H
#define PH_BASE_DEMANGLE_H
#include <stdbool.h>
#include <stddef.h>

enum {
    PH__READABLE = 1024
};

/* Writes the readable form of a mangled name ("_Z...") into *room, cut where it is longer. Another
 * name, and one that cannot be demangled, is written as it is. Uses the C++ runtime that the
 * process has loaded; without one, no name can be demangled. Thread-safe. */
const char *ph__readable_name(char room[PH__READABLE], const char *name);
#endif
