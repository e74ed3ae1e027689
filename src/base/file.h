/* SPDX-License-Identifier: MIT */
/* base/file.h: writing a file so that the previous one survives every failure: it is replaced
 * whole or not at all. */
#ifndef PH_BASE_FILE_H
#define PH_BASE_FILE_H
#include <phonograph/status.h>
#include <sys/stat.h>

/* A file that is written and then takes its place at path.
 * - Contents go to a new file beside path, which is renamed over path at the end.
 * - A symbolic link stays: its target is replaced, or made where there is none. Another hard link
 *   of a previous file keeps that file.
 * - The mode of a previous file is kept. A file without write permission is not replaced (IO,
 *   EACCES). A path that is no regular file (a pipe, /dev/stdout) is written in place.
 * - Failures: IO (native code: errno), HOST_MEMORY, ARGUMENT for a NULL path. path and call must
 *   stay until the end. */
typedef struct ph__file {
    const char *path, *call;
    int number;      /* of the open file; -1: none */
    char *temporary; /* its name; NULL: written in place */
    char *target;    /* the name that it gets */
    mode_t mode;     /* of the file that is there; 0: there is none */
} ph__file;
ph_status ph__file_create(ph__file *file, const char *path, const char *call);
/* after a failure: abandon */
ph_status ph__file_write(ph__file *file, const void *bytes, size_t size);
/* ends it, also when it fails: what was there is there still */
ph_status ph__file_commit(ph__file *file);
/* ends it: as if it had never been; the record is untouched */
void ph__file_abandon(ph__file *file);
#endif
