/* SPDX-License-Identifier: MIT */
/* nn/parallel/shard_state.h: the state of an optimizer of shards, as that of whole parameters. */
#ifndef PH_NN_PARALLEL_SHARD_STATE_H
#define PH_NN_PARALLEL_SHARD_STATE_H
#include "nn/optimizer/optimizer.h"
#include "nn/optimizer/state_entries.h"
#include "nn/parallel/parallel.h"

/* Of each parameter of an optimizer of shards: its segment, and its place in a whole file. */
typedef struct ph__shard_places {
    size_t *segments;
    ph__state_place *at;
} ph__shard_places;

/* ARGUMENT: the optimizer has other parameters. Free with ph__shard_places_free, failed or not. */
ph_status ph__shard_places_make(ph__shard_places *out, const ph_data_parallel *parallel,
                                const ph_optimizer *optimizer, const char *call);
void ph__shard_places_free(ph__shard_places *places);

/* Every rank says whether it has failed. Gives status, or PEER where another rank has failed. */
ph_status ph__parallel_agree(const ph_data_parallel *parallel, ph_status status, const char *call);
/* The arguments of a call on the optimizer's state, and that no capture is open (CAPTURE). */
ph_status ph__shard_state_check(const ph_data_parallel *parallel, const ph_optimizer *optimizer,
                                const char *path, const char *call);
#endif
