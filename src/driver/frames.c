/* SPDX-License-Identifier: MIT */
/* driver/frames.c: names of return addresses, and where a backtrace leaves this library and CUDA's.
 */
#include "driver/frames.h"
#include "base/elf.h"
#include "base/line.h"
#include "driver/source_lines.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LEADING = 10, /* frames of this library in front of CUDA's at the most */
    GAP = 4       /* frames without a name of ours between two that have one */
};

/* A return address may lie behind the last instruction of its function. */
static bool find_object(Dl_info *out, const void *frame)
{
    return frame && dladdr((const char *)frame - 1, out) != 0 && out->dli_fbase;
}

static const char *object_name(const Dl_info *info)
{
    const char *path = info->dli_fname ? info->dli_fname : "", *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Where this library was loaded to; NULL when it is a part of the program. */
static const void *own_base(void)
{
    static const char here;
    Dl_info own, program;
    const void *headers = (const void *)getauxval(AT_PHDR);
    if (!dladdr(&here, &own) ||
        (headers && dladdr(headers, &program) && program.dli_fbase == own.dli_fbase))
        return NULL;
    return own.dli_fbase;
}

/* ---- whose a frame is ---- */

typedef enum frame_owner {
    OWNER_OTHER,
    OWNER_LIBRARY, /* this one, where it is shared */
    OWNER_CUDA,    /* the driver, its runtime, its tools */
    OWNER_LIBC
} frame_owner;

static frame_owner owner_of(const void *frame, const void *own)
{
    Dl_info info;
    if (!find_object(&info, frame))
        return OWNER_OTHER;
    const char *name = object_name(&info);
    if (own && info.dli_fbase == own)
        return OWNER_LIBRARY;
    if (begins_with(name, "libcuda.so") || begins_with(name, "libcudart.so") ||
        begins_with(name, "libcupti.so"))
        return OWNER_CUDA;
    return begins_with(name, "libc.so") || begins_with(name, "ld-linux") ? OWNER_LIBC : OWNER_OTHER;
}

/* A log callback of CUDA's comes from inside CUDA: this library's frames stand in front of it. The
 * frames of other code that CUDA calls, a host function's say, stand behind the run of CUDA's that
 * is searched here. */
int ph__frames_first_outside(void *const *frames, int count)
{
    const void *own = own_base();
    int first = 0;
    bool in_cuda = false;
    for (int i = 0; i < count; i++) {
        frame_owner owner = owner_of(frames[i], own);
        if (owner == OWNER_CUDA || (owner == OWNER_LIBRARY && !in_cuda))
            first = i + 1;
        else if (owner == OWNER_OTHER && (own || in_cuda || i >= LEADING))
            break;
        in_cuda = in_cuda || owner == OWNER_CUDA;
    }
    return first < count ? first : 0;
}

/* ---- names ---- */

typedef struct named_frame {
    ph__elf_symbol symbol; /* name, and start as an address in the process */
    Dl_info object;
    bool known;
} named_frame;

/* One loaded object, and those of the frames that lie in it and have no name. */
typedef struct object_search {
    named_frame *frames;
    void *const *addresses;
    int count;
} object_search;

static int open_object(const struct dl_phdr_info *object)
{
    struct stat status;
    const char *path =
        object->dlpi_name && object->dlpi_name[0] ? object->dlpi_name : "/proc/self/exe";
    if (!strchr(path, '/'))
        return -1; /* the kernel's own */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file >= 0 && (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) ||
                      !ph__elf_has_headers(file, object->dlpi_phdr, object->dlpi_phnum))) {
        (void)close(file);
        return -1;
    }
    return file;
}

static bool lies_in(const struct dl_phdr_info *object, uintptr_t address)
{
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - object->dlpi_addr - part->p_vaddr < part->p_memsz)
            return true;
    }
    return false;
}

/* The symbol of a call that does not return ends with it: the byte before the return address is the
 * call's. */
static int name_in_object(struct dl_phdr_info *object, size_t bytes, void *user)
{
    (void)bytes;
    const object_search *search = user;
    ph__elf_symbol symbols[PH__FRAMES_MOST];
    int at[PH__FRAMES_MOST];
    size_t wanted = 0;
    for (int i = 0; i < search->count; i++) {
        uintptr_t address = (uintptr_t)search->addresses[i] - 1;
        if (search->frames[i].symbol.name[0] || !lies_in(object, address))
            continue;
        symbols[wanted].address = address - object->dlpi_addr;
        at[wanted++] = i;
    }
    int file = wanted > 0 ? open_object(object) : -1;
    if (file < 0)
        return 0;
    (void)ph__elf_find(symbols, wanted, file);
    (void)close(file);
    for (size_t k = 0; k < wanted; k++) {
        symbols[k].start += object->dlpi_addr;
        search->frames[at[k]].symbol = symbols[k];
    }
    return 0;
}

static void name_frames(named_frame *out, void *const *frames, int count)
{
    object_search search = {out, frames, count};
    bool all = true;
    for (int i = 0; i < count; i++) {
        memset(&out[i], 0, sizeof out[i]);
        out[i].known = find_object(&out[i].object, frames[i]);
        if (out[i].known && out[i].object.dli_sname) {
            ph__line_format(out[i].symbol.name, sizeof out[i].symbol.name, "%s",
                            out[i].object.dli_sname);
            out[i].symbol.start = (uintptr_t)out[i].object.dli_saddr;
        }
        all = all && (!out[i].known || out[i].symbol.name[0]);
    }
    if (!all)
        (void)dl_iterate_phdr(name_in_object, &search);
}

/* Of a library that is a part of the program the names tell: everything up to the first public call
 * is its own, or, where it calls back from inside, what it calls itself. */
static int first_by_name(const named_frame *frames, int count)
{
    int first = 0;
    for (int i = 0; i < count && i <= first + GAP; i++) {
        if (!begins_with(frames[i].symbol.name, "ph_"))
            continue;
        first = i + 1;
        if (!begins_with(frames[i].symbol.name, "ph__"))
            break;
    }
    return first < count ? first : 0;
}

/* ---- words ---- */

static void add_frame(ph__line_buffer *to, const named_frame *frame, const void *address)
{
    if (!frame->known)
        ph__line_add(to, "0x%zx", (size_t)(uintptr_t)address);
    else if (frame->symbol.name[0])
        ph__line_add(to, "%s+0x%zx", frame->symbol.name,
                     (size_t)((uintptr_t)address - frame->symbol.start));
    else
        ph__line_add(to, "+0x%zx",
                     (size_t)((uintptr_t)address - (uintptr_t)frame->object.dli_fbase));
}

/* Which frames are shown: the first `most`, where nameless ones give their place to named ones
 * behind. */
static int choose_frames(int chosen[PH__FRAMES_MOST], const named_frame *frames, int first,
                         int count, int most)
{
    int named = 0, total = 0;
    for (int i = first; i < count; i++)
        named += frames[i].symbol.name[0] != '\0';
    int nameless = most > named ? most - named : 0;
    for (int i = first; i < count && total < most; i++) {
        bool has_name = frames[i].symbol.name[0] != '\0';
        if (has_name || nameless-- > 0)
            chosen[total++] = i;
    }
    return total;
}

size_t ph__frames_describe(char *out, size_t size, void *const *frames, int count, int most,
                           bool lines)
{
    named_frame named[PH__FRAMES_MOST];
    ph__source_line sources[PH__FRAMES_MOST] = {{.line = 0}};
    void *calls[PH__FRAMES_MOST];
    int chosen[PH__FRAMES_MOST];
    ph__line_buffer to = {.out = out, .size = size};
    if (size > 0)
        out[0] = '\0';
    int first = ph__frames_first_outside(frames, count);
    frames += first;
    count = count - first < PH__FRAMES_MOST ? count - first : PH__FRAMES_MOST;
    if (most > PH__FRAMES_MOST)
        most = PH__FRAMES_MOST;
    if (count <= 0 || most <= 0)
        return 0;
    name_frames(named, frames, count);
    int shown =
        choose_frames(chosen, named, own_base() ? 0 : first_by_name(named, count), count, most);
    for (int k = 0; k < shown; k++)
        calls[k] = frames[chosen[k]];
    if (lines)
        ph__source_lines_find(sources, calls, shown);
    for (int k = 0; k < shown; k++) {
        const named_frame *frame = &named[chosen[k]];
        const named_frame *next = k + 1 < shown ? &named[chosen[k + 1]] : NULL;
        ph__line_add(&to, "%s", k == 0 ? "" : " < ");
        add_frame(&to, frame, frames[chosen[k]]);
        if (sources[k].line > 0)
            ph__line_add(&to, " at %s:%d", sources[k].file, sources[k].line);
        if (frame->known &&
            (!next || !next->known || next->object.dli_fbase != frame->object.dli_fbase))
            ph__line_add(&to, " (%s)", object_name(&frame->object));
    }
    return to.length;
}
