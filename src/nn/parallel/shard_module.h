/* SPDX-License-Identifier: MIT */
/* nn/parallel/shard_module.h: the module that has this rank's part of the parameters. */
#ifndef PH_NN_PARALLEL_SHARD_MODULE_H
#define PH_NN_PARALLEL_SHARD_MODULE_H
#include "nn/parallel/parallel.h"

/* Modules of the names of the network's, below "shard_<rank>_of_<size>", of the segments of this
 * rank. */
ph_status ph__shard_module_create(ph_module **out, const ph_data_parallel *parallel,
                                  const char *call);
#endif
