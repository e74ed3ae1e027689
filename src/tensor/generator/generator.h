/* SPDX-License-Identifier: MIT */
/* tensor/generator/generator.h: generators from inside the library, and the device's default one.
 * */
#ifndef PH_TENSOR_GENERATOR_GENERATOR_H
#define PH_TENSOR_GENERATOR_GENERATOR_H
#include "tensor/backend/backend.h"
#include "tensor/generator/generator_state.h"

/* The device's default one (seed 0) is a part of its backend, which it keeps no reference to: its
 * references are the backend's. */
struct ph_generator {
    atomic_int references;
    bool is_default;
    ph__backend *backend; /* retained by all others */
    ph__spinlock lock;    /* of the member state; nothing is called under it */
    ph_generator_state *state;
};
#endif
