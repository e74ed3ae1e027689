/* SPDX-License-Identifier: MIT */
/* driver/libdw_abi.h: what is called of libdw (elfutils 0.142 and newer), declared here: its
 * headers are not needed to build. tests/headers/libdw_abi.c holds it against them. */
#ifndef PH_DRIVER_LIBDW_ABI_H
#define PH_DRIVER_LIBDW_ABI_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct ph__dwfl ph__dwfl;
typedef struct ph__dwfl_module ph__dwfl_module;
typedef struct ph__dwfl_line ph__dwfl_line;
typedef struct ph__dwarf_die ph__dwarf_die;
typedef struct ph__dwarf_line ph__dwarf_line;

/* Dwfl_Callbacks */
typedef struct ph__dwfl_callbacks {
    void *find_elf; /* dwfl_linux_proc_find_elf */
    int (*find_debuginfo)(ph__dwfl_module *module, void **user, const char *name, uint64_t base,
                          const char *file, const char *link, uint32_t check, char **found);
    void *section_address;
    char **debuginfo_path;
} ph__dwfl_callbacks;

/* dwfl_<name> */
#define PH__LIBDW_FUNCTIONS(X)                                                                     \
    X(begin, ph__dwfl *, (const ph__dwfl_callbacks *callbacks))                                    \
    X(linux_proc_report, int, (ph__dwfl * dwfl, pid_t process))                                    \
    X(report_end, int, (ph__dwfl * dwfl, void *removed, void *user))                               \
    X(addrmodule, ph__dwfl_module *, (ph__dwfl * dwfl, uint64_t address))                          \
    X(module_getsrc, ph__dwfl_line *, (ph__dwfl_module * module, uint64_t address))                \
    X(lineinfo, const char *,                                                                      \
      (ph__dwfl_line * line, uint64_t * address, int *number, int *column, uint64_t *time,         \
       uint64_t *length))                                                                          \
    X(module_nextcu, ph__dwarf_die *,                                                              \
      (ph__dwfl_module * module, ph__dwarf_die * last, uint64_t * bias))                           \
    X(end, void, (ph__dwfl * dwfl))
/* dwarf_<name> */
#define PH__LIBDW_DWARF_FUNCTIONS(X)                                                               \
    X(ranges, ptrdiff_t,                                                                           \
      (ph__dwarf_die * unit, ptrdiff_t at, uint64_t * base, uint64_t * start, uint64_t * end))     \
    X(getsrc_die, ph__dwarf_line *, (ph__dwarf_die * unit, uint64_t address))                      \
    X(linesrc, const char *, (ph__dwarf_line * line, uint64_t * time, uint64_t * length))          \
    X(lineno, int, (ph__dwarf_line * line, int *number))
#endif
