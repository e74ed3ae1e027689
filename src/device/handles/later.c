/* SPDX-License-Identifier: MIT */
/* device/handles/later.c: work that a thread of a stream hands over. */
#include "device/handles/later.h"

static void *run_item(void *argument)
{
    ph__deferred *item = argument;
    item->fn(item);
    return NULL;
}

bool ph__later_run(ph__deferred *item)
{
    pthread_t thread;
    if (!ph__thread_start(&thread, "ph-later", run_item, item))
        return false;
    (void)pthread_detach(thread);
    return true;
}
