/* SPDX-License-Identifier: MIT */
/* tensor/tape/place.h: the module that is being called, for what knows no modules. */
#ifndef PH_TENSOR_TAPE_PLACE_H
#define PH_TENSOR_TAPE_PLACE_H
#include <stddef.h>

/* The module that is being called, with its name: for those that it calls. Made by who knows
 * modules. */
typedef struct ph__tensor_place {
    size_t references;
    void (*destroy)(struct ph__tensor_place *place);
} ph__tensor_place;
static inline ph__tensor_place *ph__place_retain(ph__tensor_place *place)
{
    if (place)
        place->references++;
    return place;
}
static inline void ph__place_release(ph__tensor_place *place)
{
    if (place && --place->references == 0)
        place->destroy(place);
}
#endif
