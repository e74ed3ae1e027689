/* SPDX-License-Identifier: MIT */
/* device/capture/forks.c: which streams have joined a capture, and which of them nobody has
 * waited for: what the driver does not say when a capture ends with work that is not joined. */
#include "device/capture/forks.h"
#include "base/line.h"
#include "base/status.h"
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

/* ---- before the end ---- under the device's capture_lock. A stream that joined an open capture
 * is there, and keeps its handle, though its user has destroyed it. */
typedef PH__VEC(ph__drv_node *) node_list;

/* The nodes that the stream's next one would depend on; none where it is not in the capture. */
static int add_ends(node_list *out, const ph__capture *capture, const ph_stream *stream)
{
    ph__drv_capture seen;
    int result = capture->device->driver->capture_get(&seen, stream->handle);
    bool in = result == PH__R_OK && seen.status == PH_CAPTURE_ACTIVE && seen.id == capture->id;
    for (size_t i = 0; in && i < seen.dependency_count; i++)
        if (!ph__vec_push(out, seen.dependencies[i]))
            return PH__R_OUT_OF_MEMORY;
    return result;
}

/* All that the capture's stream is ordered behind. */
static int find_ancestors(ph__map *out, const ph__capture *capture)
{
    node_list open = {0};
    int result = add_ends(&open, capture, capture->stream);
    while (result == PH__R_OK && open.count > 0) {
        ph__drv_node *node = open.at[--open.count];
        ph__drv_node_info info;
        if (ph__map_get(out, (uintptr_t)node))
            continue;
        result = capture->device->driver->node_info(&info, node);
        if (result == PH__R_OK && !ph__map_put(out, (uintptr_t)node, node))
            result = PH__R_OUT_OF_MEMORY;
        for (size_t i = 0; result == PH__R_OK && i < info.dependency_count; i++)
            if (!ph__vec_push(&open, info.dependencies[i]))
                result = PH__R_OUT_OF_MEMORY;
    }
    ph__vec_free(&open);
    return result;
}

static int find_unjoined(const ph__fork **out, const ph__capture *capture)
{
    ph__map ancestors = {0};
    node_list ends = {0};
    int result = find_ancestors(&ancestors, capture);
    for (size_t i = 0; result == PH__R_OK && !*out && i < capture->forks.count; i++) {
        ends.count = 0;
        result = add_ends(&ends, capture, capture->forks.at[i].stream);
        for (size_t k = 0; k < ends.count && !*out; k++)
            if (!ph__map_get(&ancestors, (uintptr_t)ends.at[k]))
                *out = &capture->forks.at[i];
    }
    ph__map_free(&ancestors);
    ph__vec_free(&ends);
    return result;
}

ph_status ph__forks_find_unjoined(bool *found, char *out, size_t size, ph__capture *capture,
                                  const char *call)
{
    const ph__fork *fork = NULL;
    pthread_mutex_lock(&capture->device->capture_lock);
    int result = capture->forks.count ? find_unjoined(&fork, capture) : PH__R_OK;
    *found = fork != NULL;
    if (fork)
        ph__line_format(out, size, "stream %p%s%s%s", (const void *)fork->stream,
                        fork->scope[0] ? ", which joined in scope \"" : "", fork->scope,
                        fork->scope[0] ? "\"" : "");
    pthread_mutex_unlock(&capture->device->capture_lock);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the forks of the capture");
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_STREAM_GET_CAPTURE_INFO,
                                                "%s: asking which forked streams are joined", call);
}
