/* SPDX-License-Identifier: MIT */
/* nn/loader/order.h: which examples a batch has. */
#ifndef PH_NN_LOADER_ORDER_H
#define PH_NN_LOADER_ORDER_H
#include <phonograph/data_loader.h>

typedef struct ph__epoch_order {
    uint64_t count, batch_size, rank, world, seed;
    bool shuffle, drop_last;
    uint64_t share;   /* examples of this rank in an epoch */
    uint64_t batches; /* of them */
} ph__epoch_order;

/* ARGUMENT where an epoch has no batch. */
ph_status ph__epoch_order_init(ph__epoch_order *order, const ph_data_loader_options *options,
                               const char *call);
/* The examples of a batch into index, which has room for batch_size; gives how many there are. */
size_t ph__epoch_order_batch(int64_t *index, const ph__epoch_order *order, uint64_t epoch,
                             uint64_t batch);
/* Whether its last batch is smaller than the others. */
static inline bool ph__epoch_order_is_uneven(const ph__epoch_order *order)
{
    return !order->drop_last && order->share % order->batch_size != 0;
}
#endif
