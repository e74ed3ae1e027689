/* SPDX-License-Identifier: MIT */
/* tests/headers/libdw_abi.c: holds src/driver/libdw_abi.h against elfutils' own header. It is
 * compiled, not run. */
#include "headers/same.h"
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#define ph__dwfl        Dwfl
#define ph__dwfl_module Dwfl_Module
#define ph__dwfl_line   Dwfl_Line
#include "driver/libdw_abi.h"

STRUCT(ph__dwfl_callbacks, Dwfl_Callbacks)
{
    FIELD(find_elf, find_elf);
    FIELD(find_debuginfo, find_debuginfo);
    FIELD(section_address, section_address);
    FIELD(debuginfo_path, debuginfo_path);
}

/* begin and report_end take our callbacks, which differ in name alone: their numbers of arguments
 * are held. */
typedef Dwfl *begin_function(const Dwfl_Callbacks *callbacks);
SAME_TYPE(__typeof__(dwfl_begin), begin_function);
typedef int removed_function(Dwfl_Module *module, void *user, const char *name, Dwarf_Addr base,
                             void *argument);
typedef int report_end_function(Dwfl *dwfl, removed_function *removed, void *user);
SAME_TYPE(__typeof__(dwfl_report_end), report_end_function);

struct libdw_functions {
#define MEMBER(name, result, parameters) result(*name) parameters;
    PH__LIBDW_FUNCTIONS(MEMBER)
    PH__LIBDW_DWARF_FUNCTIONS(MEMBER)
#undef MEMBER
};
#define SAME_FUNCTION(name)                                                                        \
    SAME_TYPE(__typeof__(((struct libdw_functions *)0)->name), __typeof__(&dwfl_##name))
SAME_FUNCTION(linux_proc_report);
SAME_FUNCTION(addrmodule);
SAME_FUNCTION(module_getsrc);
SAME_FUNCTION(lineinfo);
SAME_FUNCTION(end);

/* Dwarf_Die has no tag that ours could be called by: these are the same but for its name. */
typedef Dwarf_Die *nextcu_function(Dwfl_Module *module, Dwarf_Die *last, uint64_t *bias);
SAME_TYPE(__typeof__(dwfl_module_nextcu), nextcu_function);
typedef ptrdiff_t ranges_function(Dwarf_Die *unit, ptrdiff_t at, uint64_t *base, uint64_t *start,
                                  uint64_t *end);
SAME_TYPE(__typeof__(dwarf_ranges), ranges_function);
typedef Dwarf_Line *getsrc_die_function(Dwarf_Die *unit, uint64_t address);
SAME_TYPE(__typeof__(dwarf_getsrc_die), getsrc_die_function);
typedef const char *linesrc_function(Dwarf_Line *line, uint64_t *time, uint64_t *length);
SAME_TYPE(__typeof__(dwarf_linesrc), linesrc_function);
typedef int lineno_function(Dwarf_Line *line, int *number);
SAME_TYPE(__typeof__(dwarf_lineno), lineno_function);
