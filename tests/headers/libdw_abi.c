/* SPDX-License-Identifier: MIT */
/* tests/headers/libdw_abi.c: holds src/driver/libdw_abi.h against elfutils' own header. It is
 * compiled, not run. */
#include "headers/same.h"
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
#undef MEMBER
};
#define SAME_FUNCTION(name)                                                                        \
    SAME_TYPE(__typeof__(((struct libdw_functions *)0)->name), __typeof__(&dwfl_##name))
SAME_FUNCTION(linux_proc_report);
SAME_FUNCTION(addrmodule);
SAME_FUNCTION(module_getsrc);
SAME_FUNCTION(lineinfo);
SAME_FUNCTION(end);
