/* SPDX-License-Identifier: MIT */
/* base/string.c: strings that calls gave to the user. */
#include "base/alloc.h"
#include <phonograph/memory.h>

void ph_string_free(char *string)
{
    ph__free(string);
}
