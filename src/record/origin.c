/* SPDX-License-Identifier: MIT */
/* record/origin.c: where and when a record was made. */
#include "record/origin.h"
#include "base/environment.h"
#include "device/handles/device.h"
#include <errno.h>
#include <phonograph/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Programs whose output is to be the same each time set SOURCE_DATE_EPOCH, seconds since 1970. */
static time_t date_now(void)
{
    const char *fixed = ph__environment("SOURCE_DATE_EPOCH");
    char *end = NULL;
    errno = 0;
    long long seconds = fixed && fixed[0] >= '0' && fixed[0] <= '9' ? strtoll(fixed, &end, 10) : -1;
    bool good = end && *end == '\0' && errno == 0 && seconds <= INT64_C(253402300799); /* 9999 */
    return good ? (time_t)seconds : time(NULL);
}

void ph__record_note_origin(ph_record *record, const ph_device *device, uint64_t graph)
{
    record->origin = (ph__record_origin){device, graph, date_now()};
}

static void put_text(ph__json *json, const char *key, const char *value)
{
    if (value[0] == '\0')
        return;
    ph__json_key(json, key);
    ph__json_string(json, value);
}

static void put_date(ph__json *json, time_t date)
{
    char text[32] = "";
    struct tm parts;
    if (gmtime_r(&date, &parts))
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    put_text(json, "date", text);
}

static void put_device(ph__json *json, const ph_device *device)
{
    ph__drv_device_info info;
    char version[sizeof((ph_driver_info *)NULL)->version] = "";
    char reason[sizeof((ph_driver_info *)NULL)->reason];
    uint32_t count;
    put_text(json, "device", device->name);
    if (device->driver->device_info(&info, device->handle) == PH__R_OK)
        put_text(json, "description", info.description);
    put_text(json, "driver", device->driver->name);
    device->driver->describe(version, &count, reason);
    put_text(json, "driver_version", version);
}

void ph__record_origin_to_json(ph__json *json, const ph_record *record)
{
    const ph__record_origin *origin = &record->origin;
    char graph[40];
    if (origin->device == NULL)
        return;
    ph__json_key(json, "origin");
    ph__json_open(json, '{');
    put_text(json, "program", program_invocation_short_name);
    (void)snprintf(graph, sizeof graph, "graph %llu", (unsigned long long)origin->graph);
    put_text(json, "graph", graph);
    put_date(json, origin->date);
    put_device(json, origin->device);
    put_text(json, "library", ph_version());
    ph__json_close(json, '}');
}
