/* SPDX-License-Identifier: MIT */
/* nn/loader/order.c: which examples a batch has: it hangs on the seed, the epoch and the batch's
 * number alone. */
#include "nn/loader/order.h"
#include "base/option.h"
#include "tensor/random/permutation.h"

enum {
    EPOCH_OFFSET = 8 /* a ph_randperm moves a generator by so much */
};

ph_status ph__epoch_order_init(ph__epoch_order *order, const ph_data_loader_options *options,
                               const char *call)
{
    uint64_t count = (uint64_t)options->count, world = options->world ? options->world : 1;
    uint64_t size = (uint64_t)options->batch_size;
    uint64_t share = count / world + (!options->drop_last && count % world != 0);
    *order = (ph__epoch_order){.count = count,
                               .batch_size = size,
                               .rank = ph__option_count(options->rank, 0),
                               .world = world,
                               .seed = ph__option_count(options->seed, 0),
                               .shuffle = options->shuffle,
                               .drop_last = options->drop_last,
                               .share = share,
                               .batches = share / size + (!options->drop_last && share % size)};
    if (order->batches > 0)
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT,
                   "%s: with drop_last an epoch has no batch: %lld examples, a world of %llu, "
                   "batch_size %lld",
                   call, (long long)options->count, (unsigned long long)world,
                   (long long)options->batch_size);
}

/* Elements rank, rank + world, ... of the epoch's order, which begins again where it ends: only
 * the last ones of a rank come to that. */
size_t ph__epoch_order_batch(int64_t *index, const ph__epoch_order *order, uint64_t epoch,
                             uint64_t batch)
{
    uint64_t first = batch * order->batch_size, rest = order->share - first;
    size_t rows = (size_t)(rest < order->batch_size ? rest : order->batch_size);
    for (size_t i = 0; i < rows; i++)
        index[i] = (int64_t)(((first + i) * order->world + order->rank) % order->count);
    if (order->shuffle)
        ph__permutation_at(index, rows, order->count, order->seed, EPOCH_OFFSET * epoch);
    return rows;
}
