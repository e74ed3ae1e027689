/* SPDX-License-Identifier: MIT */
/* base/text.h: building text piece by piece into a growing buffer; the first error sticks. */
#ifndef PH_BASE_TEXT_H
#define PH_BASE_TEXT_H
#include <phonograph/status.h>

typedef struct ph__text {
    char *at; /* not NUL-terminated until ph__text_detach */
    size_t length, capacity;
    bool failed; /* out of memory (or JSON nested wrongly): later calls do nothing */
} ph__text;

void ph__text_add(ph__text *text, const char *string);
void ph__text_add_bytes(ph__text *text, const char *bytes, size_t length);
/* A part of the text once more. */
void ph__text_repeat(ph__text *text, size_t begin, size_t length);
void ph__text_format(ph__text *text, const char *format, ...) PH_PRINTF(2, 3);
/* A text that comes from elsewhere, for people to read: as ph__line_format (line.h) has it,
 * spaces at the end included. Reads at most `length` bytes, and a character that begins in them
 * to its end. */
void ph__text_add_shown(ph__text *text, const char *string, size_t length);
/* the NUL-terminated string, freed with ph__free; NULL when failed. text is empty then */
char *ph__text_detach(ph__text *text);
void ph__text_free(ph__text *text);
#endif
