/* SPDX-License-Identifier: MIT */
/* driver/source_lines.h: files and lines of return addresses. */
#ifndef PH_DRIVER_SOURCE_LINES_H
#define PH_DRIVER_SOURCE_LINES_H

enum {
    PH__SOURCE_FILE_BYTES = 48
};

typedef struct ph__source_line {
    char file[PH__SOURCE_FILE_BYTES]; /* without its folders */
    int line;                         /* 0: not known, and file is "" */
} ph__source_line;

/* Of each frame the line of its call, from the DWARF of the object that it lies in. libdw reads it,
 * where it is found at run time; without it, and for objects without DWARF, nothing is known.
 * Debug information in files of its own is not looked for, as that may ask a server.
 * PH_LIBDW names the library; "off": none. Thread-safe. Takes milliseconds: for messages of
 * failures alone. */
void ph__source_lines_find(ph__source_line *out, void *const *frames, int count);
#endif
