/* SPDX-License-Identifier: MIT */
/* driver/host/device/driver.c: the host device's table. */
#include "driver/callback.h"
#include "driver/host/stream/entries.h"
#include <phonograph/version.h>
#include <stdio.h>

void ph__host_describe(char version[48], uint32_t *device_count, char reason[256])
{
    (void)snprintf(version, 48, "%s", ph_version());
    *device_count = 1;
    reason[0] = '\0';
}

#define PH__TABLE_OWN(name) ph__host_##name
#include "driver/table.def"

const ph__driver ph__driver_host = {
    .name = "host",
#define PH__FALLIBLE(name, parameters, arguments) .name = ph__cleared_##name,
#define PH__ENTRY(type, name, parameters)         .name = ph__host_##name,
#define PH__OPTIONAL(type, name, parameters)
#include "driver/driver.def"
};
