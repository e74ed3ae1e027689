/* SPDX-License-Identifier: MIT */
/* base/line.h: formatting into a fixed buffer as one line, for the error record and log
 * messages. */
#ifndef PH_BASE_LINE_H
#define PH_BASE_LINE_H
#include <phonograph/export.h>
#include <stdarg.h>

/* One line of UTF-8: newlines, other control characters and what else is hidden (characters.h)
 * become spaces, except that those at the end are dropped, and a byte that is no UTF-8 becomes
 * "?". What does not fit is cut between UTF-8 characters and ends in "...". size >= 4. The
 * arguments must not point into out. */
void ph__line_format(char *out, size_t size, const char *format, ...) PH_PRINTF(3, 4);
void ph__line_vformat(char *out, size_t size, const char *format, va_list args) PH_PRINTF(3, 0);

/* Words one behind the other in a fixed buffer, as snprintf does it: length counts everything, also
 * what did not fit. Zero but for out and size at first. */
typedef struct ph__line_buffer {
    char *out;
    size_t size, length;
} ph__line_buffer;
void ph__line_add(ph__line_buffer *to, const char *format, ...) PH_PRINTF(2, 3);
#endif
