/* SPDX-License-Identifier: MIT */
/* tensor/generator/generator.c: generators: seed, offset, and states that they share. */
#include "tensor/generator/generator.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/backend/backend.h"
#include "tensor/generator/generator_state.h"

/* ---- generators ---- */
static ph_status make_generator(ph_generator **out, ph__backend *backend, uint64_t seed,
                                uint64_t offset, const char *call)
{
    ph_generator *generator = ph__calloc(1, sizeof *generator);
    *out = NULL;
    if (!generator)
        return ph__fail_host_memory(call, "a generator");
    ph_status status =
        ph__generator_state_create(&generator->state, backend->device, seed, offset, call);
    if (status != PH_OK) {
        ph__free(generator);
        return status;
    }
    atomic_init(&generator->references, 1);
    generator->backend = backend;
    *out = generator;
    return PH_OK;
}

/* ---- the default one ---- of a device: made, of seed 0, and destroyed with the backend. */
static ph_status create_default(ph__backend *backend, const char *call)
{
    PH_TRY(make_generator(&backend->default_generator, backend, 0, 0, call));
    backend->default_generator->is_default = true;
    return PH_OK;
}

static void destroy_default(ph__backend *backend)
{
    if (backend->default_generator)
        ph_generator_state_release(backend->default_generator->state);
    ph__free(backend->default_generator);
}
PH__BACKEND_PART(.order = PH__BACKEND_GENERATOR, .create = create_default,
                 .destroy = destroy_default)

ph_status ph_generator_create(ph_generator **out, ph_device *device, uint64_t seed)
{
    static const char call[] = "ph_generator_create";
    ph__backend *backend;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (device == NULL)
        return ph__fail_null(call, "device");
    PH_TRY(ph__backend_of(&backend, device, call));
    ph_status status = make_generator(out, backend, seed, 0, call);
    if (status != PH_OK)
        ph__backend_release(backend);
    return status;
}

ph_status ph_generator_default(ph_generator **out, ph_device *device)
{
    static const char call[] = "ph_generator_default";
    ph__backend *backend;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (device == NULL)
        return ph__fail_null(call, "device");
    PH_TRY(ph__backend_of(&backend, device, call));
    *out = backend->default_generator;
    return PH_OK;
}

ph_generator *ph_generator_retain(ph_generator *generator)
{
    if (generator && generator->is_default)
        ph__backend_retain(generator->backend);
    else if (generator)
        atomic_fetch_add_explicit(&generator->references, 1, memory_order_relaxed);
    return generator;
}

void ph_generator_release(ph_generator *generator)
{
    if (!generator)
        return;
    if (generator->is_default) {
        ph__backend_release(generator->backend);
        return;
    }
    if (atomic_fetch_sub_explicit(&generator->references, 1, memory_order_acq_rel) != 1)
        return;
    ph_generator_state_release(generator->state);
    ph__backend_release(generator->backend);
    ph__free(generator);
}

/* Seed and offset of one moment. */
static void read_state(uint64_t *seed, uint64_t *offset, bool *open, const ph_generator *generator)
{
    ph_generator_state *state = ph__generator_state(generator);
    ph__spin_lock(&state->lock);
    *seed = state->seed;
    *offset = state->offset;
    *open = state->open != NULL;
    ph__spin_unlock(&state->lock);
    ph_generator_state_release(state);
}

ph_status ph_generator_clone(ph_generator **out, ph_generator *generator)
{
    static const char call[] = "ph_generator_clone";
    uint64_t seed, offset;
    bool open;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (generator == NULL)
        return ph__fail_null(call, "generator");
    read_state(&seed, &offset, &open, generator);
    PH_TRY(make_generator(out, generator->backend, seed, offset, call));
    ph__backend_retain(generator->backend);
    return PH_OK;
}

/* ---- seed and offset ---- */
static ph_status fail_open(const char *call, const char *what)
{
    return ph_fail(PH_ERROR_STATE,
                   "%s: a capture that has not ended draws from this generator: %s; do it before "
                   "the capture or "
                   "between replays, which take seed and offset as they are then",
                   call, what);
}

/* seed NULL: the one it has. */
static ph_status set_state(ph_generator *generator, const uint64_t *seed, uint64_t offset,
                           const char *call)
{
    if (offset % 4 != 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the offset is %llu; it must be a multiple of 4",
                       call, (unsigned long long)offset);
    ph_generator_state *state = ph__generator_state(generator);
    ph__spin_lock(&state->lock);
    bool open = state->open != NULL;
    if (!open)
        ph__generator_state_put(state, seed ? *seed : state->seed, offset);
    ph__spin_unlock(&state->lock);
    ph_generator_state_release(state);
    return open ? fail_open(call, "its state cannot be set") : PH_OK;
}

ph_status ph_generator_seed(ph_generator *generator, uint64_t seed)
{
    static const char call[] = "ph_generator_seed";
    if (generator == NULL)
        return ph__fail_null(call, "generator");
    ph_generator_state *state = ph__generator_state(generator);
    ph__spin_lock(&state->lock);
    bool open = state->open != NULL, same = state->seed == seed;
    if (!open)
        ph__generator_state_put(state, seed, 0);
    ph__spin_unlock(&state->lock);
    ph_generator_state_release(state);
    return open && !same ? fail_open(call, "only the seed that it has may be set") : PH_OK;
}

uint64_t ph_generator_get_seed(const ph_generator *generator)
{
    uint64_t seed = 0, offset;
    bool open;
    if (generator)
        read_state(&seed, &offset, &open, generator);
    return seed;
}

ph_status ph_generator_set_offset(ph_generator *generator, uint64_t offset)
{
    static const char call[] = "ph_generator_set_offset";
    if (generator == NULL)
        return ph__fail_null(call, "generator");
    return set_state(generator, NULL, offset, call);
}

static ph_status get_state(uint64_t *seed, uint64_t *offset, const ph_generator *generator,
                           const char *call)
{
    bool open;
    read_state(seed, offset, &open, generator);
    return open ? fail_open(call, "its offset is that of no moment") : PH_OK;
}

ph_status ph_generator_get_offset(uint64_t *out, const ph_generator *generator)
{
    static const char call[] = "ph_generator_get_offset";
    uint64_t seed, offset;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = 0;
    if (generator == NULL)
        return ph__fail_null(call, "generator");
    PH_TRY(get_state(&seed, &offset, generator, call));
    *out = offset;
    return PH_OK;
}

static void write_word(unsigned char *bytes, uint64_t word)
{
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(word >> 8 * i);
}

static uint64_t read_word(const unsigned char *bytes)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

ph_status ph_generator_get_state(void *bytes16, const ph_generator *generator)
{
    static const char call[] = "ph_generator_get_state";
    uint64_t seed, offset;
    if (bytes16 == NULL)
        return ph__fail_null(call, "bytes16");
    if (generator == NULL)
        return ph__fail_null(call, "generator");
    PH_TRY(get_state(&seed, &offset, generator, call));
    write_word(bytes16, seed);
    write_word((unsigned char *)bytes16 + 8, offset);
    return PH_OK;
}

ph_status ph_generator_set_state(ph_generator *generator, const void *bytes, size_t size)
{
    static const char call[] = "ph_generator_set_state";
    if (generator == NULL)
        return ph__fail_null(call, "generator");
    if (bytes == NULL)
        return ph__fail_null(call, "bytes");
    if (size != 8 && size != 16)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: %zu bytes; a state has 16, seed and offset, or 8, the seed alone", call,
                       size);
    uint64_t seed = read_word(bytes);
    uint64_t offset = size == 16 ? read_word((const unsigned char *)bytes + 8) : 0;
    return set_state(generator, &seed, offset, call);
}
