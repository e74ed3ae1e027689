/* SPDX-License-Identifier: MIT */
/* cli/info.c: `phonograph info`: finds the drivers, variables and devices. */
#include "info.h"
#include "cli.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* docs/reference/debugging.md has the same table. */
static const info_variable variables[] = {
    {"PH_DEBUG", "liveness, annotations, breadcrumbs, strict, log=off|warning|info"},
    {"PH_DEBUG_RECORD", "a folder: the record of each capture as JSON"},
    {"PH_GRAPHS", "0: ph::graphed of phonograph.hpp runs eagerly"},
    {"PH_QUARANTINE", "handles of tensors that are kept after their end"},
    {"PH_CACHE_DIR", "where compiled kernels are kept"},
    {"PH_NVRTC", "the NVRTC library"},
    {"PH_COMM_MPI", "the plug-in for communicators of several ranks"},
    {"PH_NCCL", "the NCCL library"},
    {"PH_COMM_PORT", "where the ranks of GPUs meet, without MPI"},
    {"PH_CUBLASLT", "the cuBLASLt library"},
    {"PH_PRODUCTS", "cublaslt: cuBLASLt is called for each matrix product"},
    {"PH_CUDNN", "the cuDNN library; none: no cuDNN"},
    {"PH_BLAS", "the BLAS library of the host device"},
    {"PH_LIBDW", "the libdw library, which finds lines of calls; off: none"},
    {"PH_CULPRIT", "cupti, off: how a dead capture's culprit is found"},
    {"PH_NVTX_SCOPES", "1: NVTX ranges are scopes"},
    {"PH_NVTX_NEXT", "the next tool of NVTX"},
};

/* NOT_FOUND is the end of the list. */
static ph_status count_drivers(size_t *count)
{
    ph_driver_info driver;
    for (*count = 0;; ++*count) {
        ph_status st = ph_driver_get_info(&driver, *count);
        if (st == PH_ERROR_NOT_FOUND)
            return PH_OK;
        PH_TRY(st);
    }
}

static ph_status open_device(ph_device_info *out, const char *name)
{
    ph_device *device = NULL;
    PH_TRY(ph_device_open(&device, name, NULL));
    ph_status st = ph_device_get_info(out, device);
    ph_device_release(device);
    return st;
}

static void read_device(info_device *out, const char *name)
{
    out->name = name;
    out->status = open_device(&out->info, name);
    if (out->status != PH_OK)
        memcpy(out->reason, ph_error_last()->message, sizeof out->reason);
}

/* The devices of usable drivers. */
static size_t count_devices(const info_list *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->driver_count; i++)
        count += list->drivers[i].reason[0] ? 0 : list->drivers[i].device_count;
    return count;
}

static void read_all_devices(info_list *list)
{
    for (size_t i = 0; i < list->driver_count; i++) {
        const ph_driver_info *driver = &list->drivers[i];
        for (uint32_t n = 0; !driver->reason[0] && n < driver->device_count; n++) {
            char *name = list->names[list->device_count];
            (void)snprintf(name, sizeof *list->names,
                           driver->device_count > 1 ? "%s:%" PRIu32 : "%s", driver->name, n);
            read_device(&list->devices[list->device_count++], name);
        }
    }
}

static ph_status allocate(void **out, size_t count, size_t bytes)
{
    *out = calloc(count ? count : 1, bytes);
    return *out ? PH_OK
                : ph_fail(PH_ERROR_HOST_MEMORY, "no memory for %zu devices or drivers", count);
}

/* The named devices; all where none is named. */
static ph_status read_list(info_list *list, char *const *names, size_t count)
{
    PH_TRY(count_drivers(&list->driver_count));
    PH_TRY(allocate((void **)&list->drivers, list->driver_count, sizeof *list->drivers));
    for (size_t i = 0; i < list->driver_count; i++) {
        PH_TRY(ph_driver_get_info(&list->drivers[i], i));
        list->cuda = list->cuda || strcmp(list->drivers[i].name, "cuda") == 0;
    }
    size_t devices = count ? count : count_devices(list);
    PH_TRY(allocate((void **)&list->devices, devices, sizeof *list->devices));
    PH_TRY(allocate((void **)&list->names, devices, sizeof *list->names));
    if (count == 0)
        read_all_devices(list);
    for (size_t i = 0; i < count; i++)
        read_device(&list->devices[list->device_count++], names[i]);
    return PH_OK;
}

static bool opens_all(const info_list *list)
{
    for (size_t i = 0; i < list->device_count; i++)
        if (list->devices[i].status != PH_OK)
            return false;
    return true;
}

static int show(char *const *names, size_t count, bool json)
{
    info_list list = {.variables = variables,
                      .variable_count = sizeof variables / sizeof *variables};
    ph_status st = read_list(&list, names, count);
    if (st == PH_OK && json)
        st = info_put_json(&list);
    else if (st == PH_OK)
        info_put_text(&list);
    int status = st == PH_OK ? EXIT_SUCCESS : cli_failed();
    if (st == PH_OK && !opens_all(&list)) {
        (void)fflush(stdout); /* the reasons stand before this line where both go to one place */
        (void)fputs("phonograph: not every device can be opened\n", stderr);
        status = EXIT_FAILURE;
    }
    free(list.names);
    free(list.devices);
    free(list.drivers);
    return status;
}

int cli_info(int argc, char **argv)
{
    char **names = calloc((size_t)argc, sizeof *names);
    size_t count = 0;
    bool json = false;
    if (!names) {
        ph_ignore(ph_fail(PH_ERROR_HOST_MEMORY, "no memory for %d arguments", argc));
        return cli_failed();
    }
    int status = EXIT_SUCCESS;
    for (int i = 1; i < argc && status == EXIT_SUCCESS; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
            names[count++] = argv[++i];
        else if (strcmp(argv[i], "--device") == 0)
            status = cli_usage_error("info: --device wants a name, such as host:threads=2");
        else
            status = cli_usage_error("info: unknown argument '%s'", argv[i]);
    }
    if (status == EXIT_SUCCESS)
        status = show(names, count, json);
    free(names);
    return status;
}
