/* SPDX-License-Identifier: MIT */
/* nn/loader/loader.c: data loaders: what they are made from, and their end. */
#include "base/alloc.h"
#include "base/option.h"
#include "base/status.h"
#include "nn/loader/slots.h"
#include "nn/loader/threads.h"
#include "tensor/core/describe.h"
#include "tensor/core/tensor.h"
#include <phonograph/log.h>

enum {
    MOST_THREADS = 256,
    MOST_AHEAD = 1024,
    THREADS = 4 /* by default, at most */
};

/* ---- what is allowed ---- */
static ph_status check_numbers(const ph_data_loader_options *o, const char *call)
{
    if (!ph__reserved_ok(o->reserved, sizeof o->reserved / sizeof o->reserved[0]))
        return ph__fail_reserved(call, "ph_data_loader_options");
    PH_TRY(ph__option_no_zero((uint64_t)o->count, "count", call));
    PH_TRY(ph__option_no_zero((uint64_t)o->batch_size, "batch_size", call));
    PH_TRY(ph__option_no_zero(o->field_count, "field_count", call));
    PH_TRY(ph__option_no_zero(o->world, "world", call));
    PH_TRY(ph__option_no_zero(o->epochs, "epochs", call));
    PH_TRY(ph__option_no_zero(o->threads, "threads", call));
    PH_TRY(ph__option_no_zero(o->prefetch, "prefetch", call));
    if (o->count < 1 || o->batch_size < 1)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: count %lld, batch_size %lld: both are at least 1",
                       call, (long long)o->count, (long long)o->batch_size);
    if (!o->fetch)
        return ph__fail_null(call, "fetch");
    if (!o->fields || o->field_count < 1 || o->field_count > PH__LOADER_FIELDS)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %zu fields; a batch has 1 to %d", call,
                       o->fields ? o->field_count : (size_t)0, PH__LOADER_FIELDS);
    if (o->threads > MOST_THREADS || o->prefetch > MOST_AHEAD)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: %zu threads, %zu batches ahead: at most %d and %d are allowed", call,
                       o->threads, o->prefetch, MOST_THREADS, MOST_AHEAD);
    if (ph__option_count(o->rank, 0) > 0 && o->rank >= o->world)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: rank %u of a world of %u: ranks are 0 to world - 1",
                       call, o->rank, o->world);
    return PH_OK;
}

static ph_status check_into(const ph_data_loader *loader, const ph__loader_field *field, size_t i,
                            const char *call)
{
    char text[PH__DESCRIBE];
    const ph_tensor *x = field->into;
    if (ph_tensor_device(x) != loader->device)
        return ph_fail(PH_ERROR_WRONG_DEVICE, "%s: `into` of field %zu is of another device", call,
                       i);
    if (x->dtype != field->dtype || !ph_shape_equal(&x->shape, &field->shape) || !x->contiguous)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: `into` of field %zu is %s%s; a batch needs %s, contiguous, with %llu "
                       "rows of the field's shape",
                       call, i, ph__describe(text, x), x->contiguous ? "" : ", not contiguous",
                       ph_dtype_name(field->dtype), (unsigned long long)loader->order.batch_size);
    if (!ph_tensor_is_leaf(x) || x->storage->read_only)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: `into` of field %zu %s, and cannot be written; make one with "
                       "ph_tensor_create",
                       call, i,
                       x->storage->read_only ? "is read-only memory" : "was made by an operator");
    if (ph__epoch_order_is_uneven(&loader->order))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the last batch of an epoch has %llu rows, and `into` of field %zu has "
                       "%llu; set drop_last, or leave `into` NULL",
                       call, (unsigned long long)(loader->order.share % loader->order.batch_size),
                       i, (unsigned long long)loader->order.batch_size);
    return PH_OK;
}

static ph_status add_field(ph_data_loader *loader, const ph_batch_field *from, size_t i,
                           const char *call)
{
    ph__loader_field *field = &loader->fields[i];
    size_t rank = from->shape.rank;
    int64_t elements = rank < PH_MAX_RANK ? ph_shape_count(&from->shape) : -1;
    *field = (ph__loader_field){.dtype = from->dtype,
                                .shape = {rank + 1, {(int64_t)loader->order.batch_size}}};
    if (ph_dtype_size(from->dtype) == 0 || elements < 0)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: field %zu: dtype %s, rank %zu: a dtype, and a shape of rank 7 at most "
                       "without negative dimensions are needed",
                       call, i, ph_dtype_name(from->dtype), rank);
    for (size_t k = 0; k < rank; k++)
        field->shape.dim[k + 1] = from->shape.dim[k];
    if (ph_shape_count(&field->shape) < 0)
        return ph_fail(PH_ERROR_SIZE, "%s: field %zu: a batch has too many elements", call, i);
    field->row_bytes = (size_t)elements * ph_dtype_size(from->dtype);
    if (!from->into)
        return PH_OK;
    field->into = ph_tensor_retain(from->into);
    return check_into(loader, field, i, call);
}

/* ---- making ---- */
static ph_status build_loader(ph_data_loader *loader, ph_device *device,
                              const ph_data_loader_options *o, const char *call)
{
    PH_TRY(ph__epoch_order_init(&loader->order, o, call));
    PH_TRY(ph__backend_of(&loader->backend, device, call));
    loader->device = device;
    loader->fixed = true;
    for (size_t i = 0; i < o->field_count; i++) {
        loader->field_count = i + 1;
        PH_TRY(add_field(loader, &o->fields[i], i, call));
        loader->fixed = loader->fixed && loader->fields[i].into;
    }
    PH_TRY(ph_stream_create(&loader->stream, device, NULL));
    PH_TRY(ph__slots_create(loader, call));
    ph__slots_assign(loader, 0);
    return ph__loader_threads_start(loader, call);
}

static size_t default_threads(void)
{
    unsigned processors = ph__cpu_count();
    return processors < THREADS ? processors : THREADS;
}

ph_status ph_data_loader_create(ph_data_loader **out, ph_device *device,
                                const ph_data_loader_options *options)
{
    static const char call[] = "ph_data_loader_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device || !options)
        return ph__fail_null(call, device ? "options" : "device");
    PH_TRY(check_numbers(options, call));
    ph_data_loader *loader = ph__calloc(1, sizeof *loader);
    if (!loader)
        return ph__fail_host_memory(call, "a data loader");
    loader->fetch = options->fetch;
    loader->user = options->user;
    loader->epochs = options->epochs;
    loader->thread_count = options->threads ? options->threads : default_threads();
    loader->slot_count = (options->prefetch ? options->prefetch : 2 * loader->thread_count) + 1;
    ph_status status = build_loader(loader, device, options, call);
    if (status == PH_OK)
        *out = loader;
    else
        ph_data_loader_destroy(loader);
    return status;
}

/* ---- the end ---- */
static void free_loader(ph_data_loader *loader)
{
    ph__slots_destroy(loader);
    for (size_t i = 0; i < loader->field_count; i++) {
        ph_tensor_release(loader->fields[i].into);
        ph_tensor_release(loader->fields[i].given);
    }
    ph_stream_destroy(loader->stream);
    ph__backend_release(loader->backend);
    ph__free(loader);
}

void ph_data_loader_destroy(ph_data_loader *loader)
{
    ph_error saved;
    if (!loader || (loader->backend && loader->backend->forked))
        return;
    if (ph__loader_is_fetching(loader)) {
        ph_log_write(PH_LOG_WARNING,
                     "ph_data_loader_destroy: called inside of the loader's own fetch "
                     "function, which it would wait for; nothing was done");
        return;
    }
    ph__error_save(&saved);
    ph__loader_threads_stop(loader);
    free_loader(loader);
    ph__error_restore(&saved);
}
