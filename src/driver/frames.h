/* SPDX-License-Identifier: MIT */
/* driver/frames.h: return addresses as words, and which of them a user wants to see: neither those
 * of this library nor those of CUDA's. */
#ifndef PH_DRIVER_FRAMES_H
#define PH_DRIVER_FRAMES_H
#include <stdbool.h>
#include <stddef.h>

enum {
    PH__FRAMES_MOST = 32 /* frames that are described; more are left out */
};

/* The index of the first frame behind this library and CUDA's driver, 0: none is. Where this
 * library is linked statically, its own frames are told apart only where CUDA's driver stands
 * behind them. No symbol table is read: cheap enough for each allocation. frames: innermost first.
 */
int ph__frames_first_outside(void *const *frames, int count);

/* "f+0x12 < g+0x3 (lib.so) < +0x77 (program)", as snprintf does: the length of everything, also of
 * what did not fit.
 *  - Names come from the dynamic symbols, else from the file's .symtab; without a name: the offset
 *    in the object. An object's name stands behind the last of its frames in a row.
 *  - Frames of this library and of CUDA's in front are left out, also where this library is linked
 *    statically and the program has a symbol table.
 *  - most: how many frames at most; named ones are kept before others.
 *  - lines: "f+0x12 at file.c:34" where that is known (source_lines.h), which takes
 *    milliseconds. */
size_t ph__frames_describe(char *out, size_t size, void *const *frames, int count, int most,
                           bool lines);
#endif
