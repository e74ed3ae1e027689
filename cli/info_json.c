/* SPDX-License-Identifier: MIT */
/* cli/info_json.c: `phonograph info --json`. docs/reference/info.md describes the members. */
#include "cli.h"
#include "info.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Text that is no UTF-8 has its other bytes as \xNN. */
static json_t *make_string(const char *text)
{
    json_t *string = json_string(text);
    if (string)
        return string;
    char *shown = malloc(strlen(text) * SHOWN_CHARACTER + 1);
    if (!shown)
        return NULL;
    size_t used = 0;
    for (size_t bytes; *text; text += bytes) {
        char room[SHOWN_CHARACTER];
        const char *part = cli_show_character(room, &bytes, text);
        size_t length = strlen(part);
        memcpy(shown + used, part, length);
        used += length;
    }
    shown[used] = '\0';
    string = json_string(shown);
    free(shown);
    return string;
}

static json_t *make_driver(const ph_driver_info *driver)
{
    if (driver->reason[0])
        return json_pack("{s:s, s:b, s:o}", "name", driver->name, "usable", 0, "reason",
                         make_string(driver->reason));
    return json_pack("{s:s, s:b, s:i, s:o}", "name", driver->name, "usable", 1, "devices",
                     (int)driver->device_count, "version", make_string(driver->version));
}

static json_t *make_variable(const info_variable *variable)
{
    const char *value = getenv(variable->name);
    return json_pack("{s:s, s:o, s:s}", "name", variable->name, "value",
                     value ? make_string(value) : json_null(), "meaning", variable->meaning);
}

static json_t *make_device(const info_device *device)
{
    const ph_device_info *info = &device->info;
    if (device->status != PH_OK)
        return json_pack("{s:o, s:b, s:s, s:o}", "name", make_string(device->name), "opens", 0,
                         "status", ph_status_name(device->status), "reason",
                         make_string(device->reason));
    return json_pack(
        "{s:o, s:b, s:o, s:s, s:i, s:o, s:I, s:I, s:i, s:i, s:i, s:i, s:I, s:[i, i]}", "name",
        make_string(device->name), "opens", 1, "opens_as", make_string(info->name), "driver",
        info->driver, "ordinal", (int)info->ordinal, "description", make_string(info->description),
        "memory_bytes", (json_int_t)info->memory_total, "free_bytes", (json_int_t)info->memory_free,
        "threads", (int)info->threads, "multiprocessors", (int)info->multiprocessors,
        "compute_capability_major", (int)(info->compute_capability / 10),
        "compute_capability_minor", (int)(info->compute_capability % 10),
        "shared_bytes_per_block_max", (json_int_t)info->shared_bytes_per_block_max,
        "stream_priorities", (int)info->stream_priority_lowest, (int)info->stream_priority_highest);
}

/* false: no memory. item: NULL, or owned by the list afterwards. */
static bool append(json_t *list, json_t *item)
{
    return json_array_append_new(list, item) == 0;
}

static bool fill_lists(json_t *drivers, json_t *variables, json_t *devices, const info_list *list)
{
    bool ok = true;
    for (size_t i = 0; ok && i < list->driver_count; i++)
        ok = append(drivers, make_driver(&list->drivers[i]));
    for (size_t i = 0; ok && i < list->variable_count; i++)
        ok = append(variables, make_variable(&list->variables[i]));
    for (size_t i = 0; ok && i < list->device_count; i++)
        ok = append(devices, make_device(&list->devices[i]));
    return ok;
}

ph_status info_put_json(const info_list *list)
{
    char compiled[32];
    (void)snprintf(compiled, sizeof compiled, "%d.%d.%d", PH_VERSION_MAJOR, PH_VERSION_MINOR,
                   PH_VERSION_PATCH);
    json_t *drivers = json_array(), *variables = json_array(), *devices = json_array();
    bool ok = drivers && variables && devices && fill_lists(drivers, variables, devices, list);
    json_t *all = json_pack("{s:s, s:i, s:s, s:s, s:o?, s:o?, s:o?}", "format", "phonograph.info",
                            "version", 1, "library", ph_version(), "command", compiled, "drivers",
                            drivers, "environment", variables, "devices", devices);
    ok = ok && all;
    if (ok && json_dumpf(all, stdout, JSON_INDENT(1)) == 0)
        (void)fputc('\n', stdout); /* else stdout says what is wrong with it */
    json_decref(all);
    return ok ? PH_OK : ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the list of devices");
}
