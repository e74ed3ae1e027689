/* SPDX-License-Identifier: MIT */
/* driver/forked.h: the driver of what the parent of a fork() opened. */
#ifndef PH_DRIVER_FORKED_H
#define PH_DRIVER_FORKED_H
#include "driver/driver.h"

/* In a child of fork(), the driver of what its parent opened: no entry of it looks at a
 * handle. */
extern const ph__driver ph__driver_forked;
extern const char ph__driver_forked_words[];
#endif
