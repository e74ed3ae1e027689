/* SPDX-License-Identifier: MIT */
/* cli/info_text.c: `phonograph info` as text. */
#include "cli.h"
#include "info.h"
#include <inttypes.h>
#include <stdlib.h>

static void put_bytes(const char *label, uint64_t bytes)
{
    (void)printf("    %-12s %" PRIu64 " bytes (%.1f GiB)\n", label, bytes,
                 (double)bytes / (1024.0 * 1024 * 1024));
}

static void put_device(const info_device *device)
{
    const ph_device_info *info = &device->info;
    (void)fputs("  ", stdout);
    cli_put_text(stdout, device->name);
    if (device->status != PH_OK) {
        (void)fputs(": ", stdout);
        cli_put_text(stdout, device->reason);
        (void)putchar('\n');
        return;
    }
    (void)printf("\n    %-12s ", "opens as");
    cli_put_text(stdout, info->name);
    (void)printf("\n    %-12s %s\n    %-12s ", "driver", info->driver, "is");
    cli_put_text(stdout, info->description);
    (void)putchar('\n');
    put_bytes("memory", info->memory_total);
    put_bytes("free", info->memory_free);
    if (info->threads > 0)
        (void)printf("    %-12s %" PRIu32 "\n", "threads", info->threads);
    (void)printf("    %-12s %" PRId32 " (lowest) to %" PRId32 "\n", "priorities",
                 info->stream_priority_lowest, info->stream_priority_highest);
}

static void put_driver(const ph_driver_info *driver)
{
    (void)printf("  %-6s ", driver->name);
    if (driver->reason[0]) {
        (void)fputs("cannot be used: ", stdout);
        cli_put_text(stdout, driver->reason);
        (void)putchar('\n');
        return;
    }
    (void)printf("%" PRIu32 " device%s", driver->device_count,
                 driver->device_count == 1 ? "" : "s");
    if (driver->version[0]) {
        (void)fputs(", ", stdout);
        cli_put_text(stdout, driver->version);
    }
    (void)putchar('\n');
}

/* With its meaning where it is set, too: who sees that can tell whether the value has one. */
static void put_variable(const info_variable *variable)
{
    const char *value = getenv(variable->name);
    (void)printf("  %-16s ", variable->name);
    if (value)
        cli_put_text(stdout, value);
    (void)printf(value ? "  (%s)\n" : "(not set): %s\n", variable->meaning);
}

void info_put_text(const info_list *list)
{
    (void)printf("phonograph %s (this command was compiled for %d.%d.%d)\n\ndrivers\n",
                 ph_version(), PH_VERSION_MAJOR, PH_VERSION_MINOR, PH_VERSION_PATCH);
    for (size_t i = 0; i < list->driver_count; i++)
        put_driver(&list->drivers[i]);
    if (!list->cuda)
        (void)printf("  %-6s not in this build\n", "cuda");
    (void)printf("\nenvironment\n");
    for (size_t i = 0; i < list->variable_count; i++)
        put_variable(&list->variables[i]);
    (void)printf("\ndevices\n");
    for (size_t i = 0; i < list->device_count; i++)
        put_device(&list->devices[i]);
}
