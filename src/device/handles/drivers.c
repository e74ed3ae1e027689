/* SPDX-License-Identifier: MIT */
/* device/handles/drivers.c: the list of drivers. */
#include "device/handles/drivers.h"

const ph__driver *const ph__drivers[] = {&ph__driver_cuda, &ph__driver_host, NULL};
