/* SPDX-License-Identifier: MIT */
/* base/error_text.h: the text of an errno. */
#ifndef PH_BASE_ERROR_TEXT_H
#define PH_BASE_ERROR_TEXT_H
#include <stddef.h>

/* In the buffer, or of static storage. */
const char *ph__error_text(int number, char *buffer, size_t size);
#endif
