/* SPDX-License-Identifier: MIT */
/* A user's program: builds against an installed copy, finds the version it was compiled for, and
 * runs. */
#include <phonograph/device.h>
#include <phonograph/stream.h>
#include <phonograph/version.h>

#include <stdio.h>
#include <string.h>

static ph_status use_a_stream(ph_device *device)
{
    ph_stream *stream = NULL;
    PH_TRY(ph_stream_create(&stream, device, NULL));
    ph_status status = ph_stream_synchronize(stream);
    ph_stream_destroy(stream);
    return status;
}

int main(void)
{
    char compiled[32];
    snprintf(compiled, sizeof compiled, "%d.%d.%d", PH_VERSION_MAJOR, PH_VERSION_MINOR,
             PH_VERSION_PATCH);
    if (strcmp(compiled, ph_version()) != 0) {
        fprintf(stderr, "compiled for %s, running with %s\n", compiled, ph_version());
        return 1;
    }
    ph_device *device = NULL;
    ph_status status = ph_device_open(&device, "host", NULL);
    if (status == PH_OK)
        status = use_a_stream(device);
    ph_device_release(device);
    if (status != PH_OK) {
        fprintf(stderr, "%s\n", ph_error_last()->message);
        return 1;
    }
    printf("phonograph %s works\n", ph_version());
    return 0;
}
