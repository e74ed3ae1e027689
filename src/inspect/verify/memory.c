/* SPDX-License-Identifier: MIT */
/* inspect/verify/memory.c: the contents of the memory that a verification keeps, and poison over
 * it. */
#include "inspect/verify/memory.h"
#include "base/alloc.h"
#include "base/line.h"
#include "inspect/verify/compare.h"

enum {
    CHUNK = 1 << 18 /* bytes of poison at once; a multiple of 4 */
};

/* Over the stream: the driver takes pageable memory on either side, and is
 * done with it when it returns. */
static ph_status copy_bytes(ph__verify *verify, void *dst, const void *src, size_t bytes)
{
    const ph__drv_memcpy what = {dst, src, bytes};
    int result = verify->driver->copy(verify->stream->handle, &what, NULL);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(verify->call, "a copy");
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_MEMCPY_ASYNC,
                                                "%s: %zu bytes that the graph uses, from %p to %p",
                                                verify->call, bytes, src, dst);
}

static ph_status read_from(ph__verify *verify, ph__image *to, size_t first)
{
    for (size_t i = first; i < verify->kept.count; i++) {
        const ph__kept *one = &verify->kept.at[i];
        if (!one->lost)
            PH_TRY(copy_bytes(verify, to->bytes + one->at, (const void *)one->base, one->bytes));
    }
    return PH_OK;
}

/* The driver describes unknown memory as memory of the host. */
static bool is_known(const ph__verify *verify, uintptr_t address)
{
    ph__drv_pointer where;
    int result =
        verify->driver->pointer_info(&where, verify->graph->device->handle, (const void *)address);
    return result == PH__R_OK && where.kind != PH__MEMORY_PAGEABLE;
}

/* An address range that is reserved and not mapped throughout cannot be read as a whole: it
 * stays as it is. */
static void find_lost(ph__verify *verify, size_t first)
{
    for (size_t i = first; i < verify->kept.count; i++) {
        ph__kept *one = &verify->kept.at[i];
        const ph__drv_memcpy what = {verify->start.bytes + one->at, (const void *)one->base,
                                     one->bytes};
        one->lost =
            one->foreign &&
            (!is_known(verify, one->base) || !is_known(verify, one->base + one->bytes - 1) ||
             verify->driver->copy(verify->stream->handle, &what, NULL) == PH__R_INVALID_VALUE);
        one->compared = one->compared && !one->lost;
    }
}

ph_status ph__verify_read(ph__verify *verify, ph__image *to)
{
    return read_from(verify, to, 0);
}

static ph_status fail_contents(const ph__verify *verify)
{
    size_t foreign = 0;
    for (size_t i = 0; i < verify->kept.count; i++)
        foreign += verify->kept.at[i].foreign ? verify->kept.at[i].bytes : 0;
    if (foreign == 0)
        return ph__fail_host_memory(verify->call, "the contents of the memory");
    char what[160];
    ph__line_format(what, sizeof what,
                    "the contents of the memory (%zu bytes, of which %zu are other code's: "
                    "ph_verify_options.skip_foreign leaves those out)",
                    verify->total, foreign);
    return ph__fail_host_memory(verify->call, what);
}

ph_status ph__verify_keep(ph__verify *verify)
{
    unsigned char *bytes = ph__realloc(verify->start.bytes, verify->total + 1);
    if (bytes == NULL)
        return fail_contents(verify);
    verify->start.bytes = bytes;
    find_lost(verify, verify->kept_so_far);
    PH_TRY(read_from(verify, &verify->start, verify->kept_so_far));
    verify->kept_so_far = verify->kept.count;
    return PH_OK;
}

ph_status ph__verify_make_images(ph__verify *verify)
{
    ph__image *const images[] = {&verify->eager, &verify->replay, &verify->other};
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        if ((images[i]->bytes = ph__alloc(verify->total + 1)) == NULL)
            return fail_contents(verify);
    verify->chunk = ph__alloc(CHUNK);
    return verify->chunk ? PH_OK : ph__fail_host_memory(verify->call, "the poison");
}

static ph_status write_poison(ph__verify *verify, const ph__kept *one, ph__poison_pattern poison)
{
    for (size_t done = 0; done < one->bytes;) {
        size_t bytes = one->bytes - done < CHUNK ? one->bytes - done : CHUNK;
        ph__poison_fill(verify->chunk, one->base + done, bytes, poison);
        PH_TRY(copy_bytes(verify, (void *)(one->base + done), verify->chunk, bytes));
        done += bytes;
    }
    return PH_OK;
}

/* Only what `start` has; goes on after a failure, so that as much as possible is put back. */
ph_status ph__verify_write(ph__verify *verify, ph__poison_pattern poison)
{
    ph_status first = PH_OK;
    ph_error failure;
    for (size_t i = 0; i < verify->kept_so_far; i++) {
        const ph__kept *one = &verify->kept.at[i];
        if (one->lost)
            continue;
        ph_status status =
            one->poisoned && poison != PH__POISON_NONE
                ? write_poison(verify, one, poison)
                : copy_bytes(verify, (void *)one->base, verify->start.bytes + one->at, one->bytes);
        if (first == PH_OK && status != PH_OK) {
            ph__error_save(&failure);
            first = status;
        }
    }
    if (first == PH_OK)
        return ph_stream_synchronize(verify->stream);
    ph_ignore(ph_stream_synchronize(verify->stream));
    ph__error_restore(&failure);
    return first;
}
