/* SPDX-License-Identifier: MIT */
/* base/mapping.h: what the kernel says of the memory around an address. */
#ifndef PH_BASE_MAPPING_H
#define PH_BASE_MAPPING_H
#include <stddef.h>

/* The line of /proc/self/maps whose range the address lies in, without the newline; cut at size.
 * Or why there is none. Allocates nothing, keeps errno. */
void ph__mapping_describe(char *out, size_t size, const void *address);
#endif
