/* SPDX-License-Identifier: MIT */
/* device/capture/forks.c: which streams have joined a capture, and which of them nobody has
 * waited for: what the driver does not say when a capture ends with work that is not joined. */
#include "device/capture/forks.h"
#include "base/line.h"
#include "device/annotate/ambient.h"
#include "device/annotate/annotation.h"
#include "device/handles/device.h"

static ph__fork *find_fork(ph__capture *capture, const ph_stream *stream)
{
    size_t place = (size_t)(uintptr_t)ph__map_get(&capture->fork_of, (uintptr_t)stream);
    return place > 0 ? &capture->forks.at[place - 1] : NULL;
}

static void add_fork(ph__capture *capture, const ph_stream *stream)
{
    ph__fork fork = {.stream = stream};
    ph__line_format(fork.scope, sizeof fork.scope, "%s",
                    ph__annotation_name(ph__scope_annotation()));
    /* Without memory its name is missing in a message. */
    if (ph__vec_push(&capture->forks, fork) &&
        !ph__map_put(&capture->fork_of, (uintptr_t)stream, (void *)(uintptr_t)capture->forks.count))
        capture->forks.count--;
}

void ph__forks_wait(const ph_stream *stream, const ph_stream *on, uint64_t capture_id, bool joins)
{
    ph_device *device = stream->device;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++) {
        ph__capture *capture = device->captures.at[i];
        if (capture->id != capture_id)
            continue;
        ph__fork *known = find_fork(capture, stream), *waited = find_fork(capture, on);
        if (waited)
            waited->waited = true;
        if (joins && known)
            known->waited = false;
        else if (joins && stream != capture->stream)
            add_fork(capture, stream);
    }
    pthread_mutex_unlock(&device->capture_lock);
}

void ph__forks_describe(char *out, size_t size, ph__capture *capture)
{
    size_t open = 0;
    const ph__fork *first = NULL;
    pthread_mutex_lock(&capture->device->capture_lock);
    for (size_t i = 0; i < capture->forks.count; i++)
        if (!capture->forks.at[i].waited) {
            first = first ? first : &capture->forks.at[i];
            open++;
        }
    if (open == 0)
        ph__line_format(out, size, "%s",
                        capture->forks.count
                            ? "each that joined was waited for once, so one got work after that"
                            : "it joined through calls of other code");
    else
        ph__line_format(out, size, "nobody has waited for stream %p%s%s%s%s",
                        (const void *)first->stream,
                        first->scope[0] ? ", which joined in scope \"" : "", first->scope,
                        first->scope[0] ? "\"" : "", open > 1 ? ", nor for others" : "");
    pthread_mutex_unlock(&capture->device->capture_lock);
}
