/* SPDX-License-Identifier: MIT */
/* driver/source_lines.c: files and lines of return addresses, by libdw. */
#include "driver/source_lines.h"
#include "base/environment.h"
#include "base/fork.h"
#include "base/line.h"
#include "driver/libdw_abi.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

typedef struct libdw_functions {
#define MEMBER(name, result, parameters) result(*name) parameters;
    PH__LIBDW_FUNCTIONS(MEMBER)
    PH__LIBDW_DWARF_FUNCTIONS(MEMBER)
#undef MEMBER
    void *find_elf;
} libdw_functions;

/* libdw's objects are not thread-safe. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_SOURCE_LINES, lock)

static bool load_functions(libdw_functions *out, void *library)
{
#define FIND(prefix, name)                                                                         \
    *(void **)&out->name = dlsym(library, prefix #name);                                           \
    if (!out->name)                                                                                \
        return false;
#define FIND_DWFL(name, result, parameters)  FIND("dwfl_", name)
#define FIND_DWARF(name, result, parameters) FIND("dwarf_", name)
    PH__LIBDW_FUNCTIONS(FIND_DWFL)
    PH__LIBDW_DWARF_FUNCTIONS(FIND_DWARF)
#undef FIND_DWARF
#undef FIND_DWFL
#undef FIND
    out->find_elf = dlsym(library, "dwfl_linux_proc_find_elf");
    return out->find_elf != NULL;
}

/* NULL where there is none. Stays loaded by whoever else has it; else it goes again. */
static void *open_library(void)
{
    const char *own = ph__environment("PH_LIBDW");
    if (own && strcmp(own, "off") == 0)
        return NULL;
    return dlopen(own && own[0] ? own : "libdw.so.1", RTLD_NOW | RTLD_LOCAL);
}

/* The DWARF in the object itself, which was looked for before, is all that counts. */
static int find_no_debuginfo(ph__dwfl_module *module, void **user, const char *name, uint64_t base,
                             const char *file, const char *link, uint32_t check, char **found)
{
    (void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)check;
    *found = NULL;
    return -1;
}

/* By the module's index of addresses, .debug_aranges. */
static const char *find_indexed(int *number, const libdw_functions *libdw, ph__dwfl_module *module,
                                uint64_t address)
{
    ph__dwfl_line *line = libdw->module_getsrc(module, address);
    return line ? libdw->lineinfo(line, NULL, number, NULL, NULL, NULL) : NULL;
}

/* How many of the unit's ranges have the address. A function that the linker has dropped keeps its
 * range, from 0 on: *dropped, where the address lies in one; its lines are among the unit's. */
static size_t count_ranges(bool *dropped, const libdw_functions *libdw, ph__dwarf_die *unit,
                           uint64_t address)
{
    size_t count = 0;
    uint64_t base = 0, start = 0, end = 0;
    *dropped = false;
    for (ptrdiff_t at = 0; (at = libdw->ranges(unit, at, &base, &start, &end)) > 0;)
        if (start <= address && address < end) {
            count += start != 0;
            *dropped = *dropped || start == 0;
        }
    return count;
}

/* By the ranges of its units, one after the other: clang writes no index. A function of a header
 * may be several units', with one line. NULL also where the line might be another's. */
static const char *find_in_units(int *number, const libdw_functions *libdw, ph__dwfl_module *module,
                                 uint64_t address)
{
    uint64_t bias = 0;
    const char *found = NULL;
    for (ph__dwarf_die *unit = NULL; (unit = libdw->module_nextcu(module, unit, &bias)) != NULL;) {
        bool dropped;
        int line_number = 0;
        if (count_ranges(&dropped, libdw, unit, address - bias) == 0)
            continue;
        ph__dwarf_line *line = dropped ? NULL : libdw->getsrc_die(unit, address - bias);
        const char *path = line && libdw->lineno(line, &line_number) == 0
                               ? libdw->linesrc(line, NULL, NULL)
                               : NULL;
        if (!path || (found && (*number != line_number || strcmp(found, path) != 0)))
            return NULL;
        found = path;
        *number = line_number;
    }
    return found;
}

/* The byte before a return address is the call's. */
static void find_line(ph__source_line *out, const libdw_functions *libdw, ph__dwfl *dwfl,
                      const void *frame)
{
    uint64_t address = (uint64_t)(uintptr_t)frame - 1;
    ph__dwfl_module *module = frame ? libdw->addrmodule(dwfl, address) : NULL;
    int number = 0;
    const char *path = module ? find_indexed(&number, libdw, module, address) : NULL;
    if (module && !path)
        path = find_in_units(&number, libdw, module, address);
    if (!path || number <= 0)
        return;
    const char *slash = strrchr(path, '/');
    ph__line_format(out->file, sizeof out->file, "%s", slash ? slash + 1 : path);
    out->line = number;
}

static void find_lines(ph__source_line *out, const libdw_functions *libdw, void *const *frames,
                       int count)
{
    const ph__dwfl_callbacks callbacks = {.find_elf = libdw->find_elf,
                                          .find_debuginfo = find_no_debuginfo};
    ph__dwfl *dwfl = libdw->begin(&callbacks);
    if (!dwfl)
        return;
    if (libdw->linux_proc_report(dwfl, getpid()) == 0 && libdw->report_end(dwfl, NULL, NULL) == 0)
        for (int i = 0; i < count; i++)
            find_line(&out[i], libdw, dwfl, frames[i]);
    libdw->end(dwfl);
}

void ph__source_lines_find(ph__source_line *out, void *const *frames, int count)
{
    libdw_functions libdw;
    for (int i = 0; i < count; i++)
        out[i] = (ph__source_line){.line = 0};
    if (count <= 0)
        return;
    pthread_mutex_lock(&lock);
    void *library = open_library();
    if (library && load_functions(&libdw, library))
        find_lines(out, &libdw, frames, count);
    if (library)
        (void)dlclose(library);
    pthread_mutex_unlock(&lock);
}
