/* SPDX-License-Identifier: MIT */
/* cli/info.c: `phonograph info`: version, drivers, devices, settings. */
#include "cli.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_bytes(const char *label, uint64_t bytes)
{
    (void)printf("    %-12s %" PRIu64 " bytes (%.1f GiB)\n", label, bytes,
                 (double)bytes / (1024.0 * 1024 * 1024));
}

static ph_status show_device(const char *name)
{
    ph_device *device = NULL;
    ph_device_info info;
    PH_TRY(ph_device_open(&device, name, NULL));
    ph_status st = ph_device_get_info(&info, device);
    ph_device_release(device);
    PH_TRY(st);
    (void)fputs("  ", stdout);
    cli_put_text(stdout, name);
    (void)printf("\n    %-12s ", "opens as");
    cli_put_text(stdout, info.name);
    (void)printf("\n    %-12s %s\n    %-12s ", "driver", info.driver, "is");
    cli_put_text(stdout, info.description);
    (void)putchar('\n');
    put_bytes("memory", info.memory_total);
    put_bytes("free", info.memory_free);
    if (info.threads > 0)
        (void)printf("    %-12s %" PRIu32 "\n", "threads", info.threads);
    (void)printf("    %-12s %" PRId32 " (lowest) to %" PRId32 "\n", "priorities",
                 info.stream_priority_lowest, info.stream_priority_highest);
    return PH_OK;
}

/* A build lists the drivers that it has: *cuda tells whether that is one of them. */
static ph_status show_driver(const ph_driver_info *driver, void *user)
{
    bool *cuda = user;
    *cuda = *cuda || strcmp(driver->name, "cuda") == 0;
    (void)printf("  %-6s ", driver->name);
    if (driver->reason[0]) {
        (void)fputs("cannot be used: ", stdout);
        cli_put_text(stdout, driver->reason);
        (void)putchar('\n');
        return PH_OK;
    }
    (void)printf("%" PRIu32 " device%s", driver->device_count,
                 driver->device_count == 1 ? "" : "s");
    if (driver->version[0]) {
        (void)fputs(", ", stdout);
        cli_put_text(stdout, driver->version);
    }
    (void)putchar('\n');
    return PH_OK;
}

static bool show_device_or_why_not(const char *name)
{
    if (show_device(name) == PH_OK)
        return true;
    (void)fputs("  ", stdout);
    cli_put_text(stdout, name);
    (void)fputs(": ", stdout);
    cli_put_text(stdout, ph_error_last()->message);
    (void)putchar('\n');
    return false;
}

static ph_status show_all_devices(const ph_driver_info *driver, void *user)
{
    bool *all = user;
    char name[40];
    for (uint32_t i = 0; !driver->reason[0] && i < driver->device_count; i++) {
        (void)snprintf(name, sizeof name, driver->device_count > 1 ? "%s:%" PRIu32 : "%s",
                       driver->name, i);
        *all = show_device_or_why_not(name) && *all;
    }
    return PH_OK;
}

/* NOT_FOUND is the end of the list. */
static ph_status for_each_driver(ph_status (*visit)(const ph_driver_info *driver, void *user),
                                 void *user)
{
    ph_driver_info driver;
    for (size_t i = 0;; i++) {
        ph_status st = ph_driver_get_info(&driver, i);
        if (st == PH_ERROR_NOT_FOUND)
            return PH_OK;
        PH_TRY(st);
        PH_TRY(visit(&driver, user));
    }
}

/* docs/reference/debugging.md has the same table. */
static void show_environment(void)
{
    static const char *const variables[][2] = {
        {"PH_DEBUG", "liveness, annotations, breadcrumbs, strict, log=off|warning|info"},
        {"PH_DEBUG_RECORD", "a folder: the record of each capture as JSON"},
        {"PH_GRAPHS", "0: ph::graphed of phonograph.hpp runs eagerly"},
        {"PH_QUARANTINE", "handles of tensors that are kept after their end"},
        {"PH_CACHE_DIR", "where compiled kernels are kept"},
        {"PH_NVRTC", "the NVRTC library"},
        {"PH_CUBLASLT", "the cuBLASLt library"},
        {"PH_BLAS", "the BLAS library of the host device"},
        {"PH_CULPRIT", "cupti, off: how a dead capture's culprit is found"},
        {"PH_NVTX_SCOPES", "1: NVTX ranges are scopes"},
        {"PH_NVTX_NEXT", "the next tool of NVTX"},
    };
    (void)printf("\nenvironment\n");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i][0]);
        (void)printf("  %-16s %s%s%s\n", variables[i][0], value ? value : "(not set)",
                     value ? "" : ": ", value ? "" : variables[i][1]);
    }
}

static ph_status show(bool *all, char *const *names, size_t count)
{
    bool cuda = false;
    *all = true;
    (void)printf("phonograph %s (this command was compiled for %d.%d.%d)\n\ndrivers\n",
                 ph_version(), PH_VERSION_MAJOR, PH_VERSION_MINOR, PH_VERSION_PATCH);
    PH_TRY(for_each_driver(show_driver, &cuda));
    if (!cuda)
        (void)printf("  %-6s not in this build\n", "cuda");
    show_environment();
    (void)printf("\ndevices\n");
    if (count == 0)
        return for_each_driver(show_all_devices, all);
    for (size_t i = 0; i < count; i++)
        *all = show_device_or_why_not(names[i]) && *all;
    return PH_OK;
}

int cli_info(int argc, char **argv)
{
    char **names = calloc((size_t)argc, sizeof *names);
    size_t count = 0;
    if (!names) {
        ph_ignore(ph_fail(PH_ERROR_HOST_MEMORY, "no memory for %d arguments", argc));
        return cli_failed();
    }
    int status = EXIT_SUCCESS;
    for (int i = 1; i < argc && status == EXIT_SUCCESS; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            names[count++] = argv[++i];
        else if (strcmp(argv[i], "--device") == 0)
            status = cli_usage_error("info: --device wants a name, such as host:threads=2");
        else
            status = cli_usage_error("info: unknown argument '%s'", argv[i]);
    }
    bool all = true;
    if (status == EXIT_SUCCESS && show(&all, names, count) != PH_OK)
        status = cli_failed();
    if (!all) {
        (void)fflush(stdout); /* the reasons stand before this line where both go to one place */
        (void)fputs("phonograph: not every device can be opened\n", stderr);
        status = EXIT_FAILURE;
    }
    free(names);
    return status;
}
