/* SPDX-License-Identifier: MIT */
/* base/demangle.h: names of C++ functions as their authors wrote them. */
#ifndef PH_BASE_DEMANGLE_H
#define PH_BASE_DEMANGLE_H
#include <stdbool.h>
#include <stddef.h>

enum {
    PH__READABLE = 1024
};

/* What a mangled name ("_Z...") says, in *room, cut where it is longer; another name, and one that
 * cannot be read, as it is. The C++ runtime that the process has loaded is asked; where there is
 * none, nothing can be read. Thread-safe. */
const char *ph__readable_name(char room[PH__READABLE], const char *name);
#endif
