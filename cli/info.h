/* SPDX-License-Identifier: MIT */
/* cli/info.h: what `phonograph info` shows, and its two forms. */
#ifndef CLI_INFO_H
#define CLI_INFO_H
#include <phonograph/phonograph.h>

/* One device, opened and closed again. status: PH_OK, or why it cannot be opened (reason). */
typedef struct info_device {
    const char *name; /* as it was opened */
    ph_status status;
    char reason[sizeof((ph_error *)NULL)->message];
    ph_device_info info;
} info_device;

/* A variable of the environment that the library reads. */
typedef struct info_variable {
    const char *name, *meaning;
} info_variable;

typedef struct info_list {
    ph_driver_info *drivers;
    size_t driver_count;
    info_device *devices;
    size_t device_count;
    char (*names)[40]; /* of devices that the user did not name */
    const info_variable *variables;
    size_t variable_count;
    bool cuda; /* the driver cuda is in this build */
} info_list;

void info_put_text(const info_list *list);
ph_status info_put_json(const info_list *list);
#endif
