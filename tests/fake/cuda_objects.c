/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_objects.c: the handles that the software libcuda has given out. */
#include "cuda_inside.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ph__map known[FAKE_KINDS];
static int64_t live[FAKE_KINDS];

bool fake_add(fake_object *object, fake_kind kind, ph__cu_context context, const void *handle)
{
    object->kind = kind;
    object->context = context;
    object->handle = (uintptr_t)handle;
    pthread_mutex_lock(&lock);
    bool added = ph__map_put(&known[kind], object->handle, object);
    if (added && !object->uncounted)
        live[kind]++;
    pthread_mutex_unlock(&lock);
    return added;
}

void *fake_find(fake_kind kind, const void *handle)
{
    if (!handle)
        return NULL;
    pthread_mutex_lock(&lock);
    void *object = ph__map_get(&known[kind], (uintptr_t)handle);
    pthread_mutex_unlock(&lock);
    return object;
}

static fake_object *remove_locked(fake_kind kind, uint64_t handle)
{
    fake_object *object = handle ? ph__map_remove(&known[kind], handle) : NULL;
    if (object && !object->uncounted)
        live[kind]--;
    if (known[kind].count == 0)
        ph__map_free(&known[kind]); /* so that nothing is left of an empty one */
    return object;
}

void *fake_remove(fake_kind kind, const void *handle)
{
    pthread_mutex_lock(&lock);
    fake_object *object = remove_locked(kind, (uintptr_t)handle);
    pthread_mutex_unlock(&lock);
    return object;
}

void fake_recount(fake_object *object, bool uncounted)
{
    pthread_mutex_lock(&lock);
    live[object->kind] += (int)object->uncounted - (int)uncounted;
    object->uncounted = uncounted;
    pthread_mutex_unlock(&lock);
}

void *fake_take_any(fake_kind kind, ph__cu_context context)
{
    fake_object *found = NULL;
    size_t cursor = 0;
    uint64_t handle;
    void *object;
    pthread_mutex_lock(&lock);
    while (!found && ph__map_next(&known[kind], &cursor, &handle, &object))
        if (((fake_object *)object)->context == context && !((fake_object *)object)->uncounted)
            found = object;
    if (found)
        (void)remove_locked(kind, found->handle);
    pthread_mutex_unlock(&lock);
    return found;
}

int64_t fake_live(fake_kind kind)
{
    pthread_mutex_lock(&lock);
    int64_t count = live[kind];
    pthread_mutex_unlock(&lock);
    return count;
}
