/* SPDX-License-Identifier: MIT */
/* device/name.h: device names: "host:threads=2,chaos=7", "cuda:1", "auto". */
#ifndef PH_DEVICE_NAME_H
#define PH_DEVICE_NAME_H
#include "driver/driver.h"

/* As ph_device_info.name: room for every setting at its longest. */
enum {
    PH__DEVICE_NAME_BYTES = 96
};

typedef struct ph__device_name {
    char driver[16]; /* "auto", "host", "cuda" */
    uint32_t ordinal;
} ph__device_name;

/* Splits name and puts its settings over those in options. Fails with the record set: NOT_FOUND
 * for an unknown driver's name, ARGUMENT for a setting that is unknown or malformed. */
ph_status ph__device_name_parse(ph__device_name *out, ph_device_options *options, const char *name,
                                const char *call);

/* The name that opens the device again: driver, ordinal where it is not 0, and every setting
 * that is not the default. */
void ph__device_name_format(char out[PH__DEVICE_NAME_BYTES], const char *driver, uint32_t ordinal,
                            const ph_device_options *options);
#endif
