/* SPDX-License-Identifier: MIT */
/* cli/record_make.h: a record of the library's, made of one that was read from a file. */
#ifndef CLI_RECORD_MAKE_H
#define CLI_RECORD_MAKE_H
#include "record_file.h"
#include <phonograph/inspect/diff.h>

/* The outermost record comes last, behind the bodies that it needs. Zero is empty. */
typedef struct made_record {
    ph_record **at;
    size_t count, capacity;
} made_record;

/* path: for messages. Errors: IO, for what a record cannot be; HOST_MEMORY. To be freed in any
 * case; the file's may go before. */
ph_status record_make(made_record *out, const file_record *file, const char *path);
/* of the file at path; "-": standard input */
ph_status record_read(made_record *out, const char *path);
const ph_record *record_made(const made_record *made);
void record_unmake(made_record *made);
#endif
