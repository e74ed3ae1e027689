/* SPDX-License-Identifier: MIT */
/* tensor/generator/generator_state.c: the states of generators, which several generators may
 * share. */
#include "tensor/generator/generator_state.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/generator/generator.h"

ph_generator_state *ph__generator_state_retain(ph_generator_state *state)
{
    atomic_fetch_add_explicit(&state->references, 1, memory_order_relaxed);
    return state;
}

void ph_generator_state_release(ph_generator_state *state)
{
    if (!state || atomic_fetch_sub_explicit(&state->references, 1, memory_order_acq_rel) != 1)
        return;
    ph_device_release(state->device);
    ph__free(state);
}

ph_status ph__generator_state_create(ph_generator_state **out, ph_device *device, uint64_t seed,
                                     uint64_t offset, const char *call)
{
    ph_generator_state *state = ph__calloc(1, sizeof *state);
    *out = state;
    if (!state)
        return ph__fail_host_memory(call, "the state of a generator");
    atomic_init(&state->references, 1);
    state->device = ph_device_retain(device);
    state->seed = seed;
    state->offset = offset;
    return PH_OK;
}

ph_generator_state *ph__generator_state(const ph_generator *generator)
{
    ph_generator *g = (ph_generator *)generator;
    ph__spin_lock(&g->lock);
    ph_generator_state *state = ph__generator_state_retain(g->state);
    ph__spin_unlock(&g->lock);
    return state;
}

ph_generator_state *ph_generator_share_state(ph_generator *generator)
{
    return generator ? ph__generator_state(generator) : NULL;
}

ph_status ph_generator_use_state(ph_generator *generator, ph_generator_state *state)
{
    static const char call[] = "ph_generator_use_state";
    if (generator == NULL)
        return ph__fail_null(call, "generator");
    if (state == NULL)
        return ph__fail_null(call, "state");
    if (state->device != generator->backend->device)
        return ph_fail(PH_ERROR_WRONG_DEVICE, "%s: the state is of a generator of another device",
                       call);
    ph__generator_state_retain(state);
    ph__spin_lock(&generator->lock);
    ph_generator_state *old = generator->state;
    generator->state = state;
    ph__spin_unlock(&generator->lock);
    ph_generator_state_release(old);
    return PH_OK;
}
