/* SPDX-License-Identifier: MIT */
/* nn/parallel/backward.h: the pass that reduces buckets as they become whole. */
#ifndef PH_NN_PARALLEL_BACKWARD_H
#define PH_NN_PARALLEL_BACKWARD_H
#include "nn/parallel/parallel.h"
#include <phonograph/collectives.h>

/* The pieces of a pass, in this order, between which backward runs. Failures are the tape's.
 * - count_active: with uneven inputs alone. Ranks without inputs call it, too, with active false.
 * - end: parameters whose gradient has not come count as zero. The parameters have their means when
 *   the tape's stream comes to what follows. */
void ph__parallel_pass_count_active(ph_tape *tape, ph_data_parallel *parallel, bool active);
void ph__parallel_pass_begin(ph_data_parallel *parallel);
void ph__parallel_pass_end(ph_tape *tape, ph_data_parallel *parallel);

/* In a capture: the graph keeps the memory of the buckets. */
void ph__parallel_keep(ph_tape *tape, const ph_data_parallel *parallel);

/* In place, on the stream of the collectives, behind the tape's. wait: the tape's goes on behind
 * it. */
void ph__parallel_all_reduce(ph_tape *tape, const ph_data_parallel *parallel, const ph_tensor *x,
                             ph_reduce_op op);
void ph__parallel_wait(ph_tape *tape, const ph_data_parallel *parallel);

/* A hook on a parameter; user: its ph__bucket_part. */
ph_tensor *ph__bucket_part_arrives(ph_tape *tape, ph_tensor *grad, void *user);
#endif
