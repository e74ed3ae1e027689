/* SPDX-License-Identifier: MIT */
/* base/text_file.h: a text as a file. */
#ifndef PH_BASE_TEXT_FILE_H
#define PH_BASE_TEXT_FILE_H
#include "base/text.h"

/* Writes the whole text to a new file beside path and renames it over path, so that the previous
 * file survives every failure (full disk, no permission). A symbolic link stays and its target
 * is replaced; the mode of a previous file is kept; what is no regular file (a pipe,
 * /dev/stdout) is written in place. The text stays the caller's. Fails with PH_ERROR_IO (native
 * code: errno) or PH_ERROR_HOST_MEMORY. */
ph_status ph__text_write_file(ph__text *text, const char *path, const char *call);
#endif
