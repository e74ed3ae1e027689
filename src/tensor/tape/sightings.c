/* SPDX-License-Identifier: MIT */
/* tensor/tape/sightings.c: noting what the operators of a tape use. */
#include "tensor/tape/sightings.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include <string.h>

enum {
    FIRST = 64 /* storages: of some twenty layers */
};

static uint64_t version_of_storage(const ph__storage *storage)
{
    return atomic_load_explicit(&storage->version, memory_order_relaxed);
}

bool ph__sight(ph__sightings *to, const ph_tensor *x, const char *op)
{
    ph__storage *storage = x->storage;
    if (to->known.count && ph__map_get(&to->known, (uintptr_t)storage))
        return true;
    if (to->known.count == 0 && /* a network has some: what grows is filled again */
        (!ph__map_reserve(&to->known, FIRST) || !ph__vec_reserve(&to->list, FIRST)))
        return false;
    if (!ph__vec_reserve(&to->list, 1) ||
        !ph__map_put(&to->known, (uintptr_t)storage, (void *)(uintptr_t)(to->list.count + 1)))
        return false;
    to->list.at[to->list.count++] = (ph__sighting){
        ph__storage_retain(storage), version_of_storage(storage), op, x->dtype, x->shape};
    return true;
}

bool ph__sight_kernel(ph__sightings *to, const char *name)
{
    return ph__map_put(&to->kernels, (uintptr_t)name, (void *)(uintptr_t)name);
}

bool ph__sightings_have_kernel(const ph__sightings *in, const char *name)
{
    size_t cursor = 0;
    uint64_t key;
    void *known;
    while (ph__map_next(&in->kernels, &cursor, &key, &known))
        if (strcmp(known, name) == 0)
            return true;
    return false;
}

bool ph__sighting_has_changed(const ph__sighting *sighting)
{
    return version_of_storage(sighting->storage) != sighting->version;
}

void ph__sightings_free(ph__sightings *sightings)
{
    for (size_t i = 0; i < sightings->list.count; i++)
        ph__storage_release(sightings->list.at[i].storage);
    ph__vec_free(&sightings->list);
    ph__map_free(&sightings->known);
    ph__map_free(&sightings->kernels);
}
