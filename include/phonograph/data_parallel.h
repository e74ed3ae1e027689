/* SPDX-License-Identifier: MIT */
/* phonograph/data_parallel.h: one network on several ranks, each of which trains on its part of a
 * batch. Gradients are the means over all ranks (docs/notes/distributed.md). */
#ifndef PHONOGRAPH_DATA_PARALLEL_H
#define PHONOGRAPH_DATA_PARALLEL_H
#include <phonograph/comm.h>
#include <phonograph/dtype.h>
#include <phonograph/module.h>
#include <phonograph/optimizer.h>
#include <phonograph/tape.h>

PH_BEGIN_DECLS

/* Sums gradients in buckets: each is all-reduced on a stream of its own as soon as it is whole,
 * while backward goes on. */
typedef struct ph_data_parallel ph_data_parallel;

typedef struct ph_data_parallel_options {
    /* Bytes of gradients in a bucket, at least one gradient. 0: 25 MiB, and 1 MiB for the first
     * one, which has the parameters that come last. The same on all ranks. */
    uint64_t bucket_bytes, first_bucket_bytes;
    /* The type that gradients of f32 have on their way: PH_DTYPE_F16 or PH_DTYPE_BF16; 0: their
     * own. Each rank's is divided by the number of ranks, rounded to that type, and summed; the sum
     * is made f32 again. Parameters and gradients stay f32. The same on all ranks. */
    ph_dtype reduce_dtype;
    /* Some ranks may run out of inputs before others: ph_data_parallel_join. Each pass has one more
     * all-reduce, of one number, and cannot be captured (UNSUPPORTED). The same on all ranks. */
    bool uneven_inputs;
    /* With uneven_inputs: gradients are means over the ranks that still have inputs. false: a rank
     * without inputs counts, with zeros. */
    bool divide_by_active;
    /* Each rank keeps the optimizer's state of its part of the parameters alone (ZeRO, stage 1):
     * ph_data_parallel_shards. The same on all ranks. */
    bool shard_optimizer;
    uint64_t reserved[5];
} ph_data_parallel_options;

/* Every rank calls it with the same module and options, and all parameters and buffers become those
 * of rank 0.
 * - The parameters are the module's tensors that require a gradient now, each once. They and the
 *   buffers are contiguous, of a type that collectives have, and on the communicator's device
 *   (ARGUMENT, WRONG_DEVICE). A pass is refused (STATE) while others require one.
 * - Retains the module and the communicator. Takes the memory of one more gradient per parameter.
 * - Waits for the device, so no capture may be open on it (CAPTURE). Errors of collectives, too.
 * - Threads: externally synchronised, as the module is. */
PH_CALL ph_data_parallel_create(ph_data_parallel **out, ph_module *module, ph_comm *comm,
                                const ph_data_parallel_options *options);
/* Takes NULL. Waits for its stream. Gradients that are views of buckets keep their memory, and so
 * do graphs that captured a pass, until they are reset: they can still be replayed. */
PH_API void ph_data_parallel_destroy(ph_data_parallel *parallel);

/* ph_backward, after which the gradient of every parameter is the mean over all ranks of what its
 * gradient would have been, the same bits on each.
 * - Every rank calls it, in the same order as other collectives of the communicator. Which
 *   parameters the loss depends on may differ: a parameter without a gradient on a rank counts as
 *   zero there, and has a gradient afterwards.
 * - Gradients are views of the buckets from then on, until they are set to others.
 * - A gradient that a parameter had before is added to its rank's own, as by ph_backward, and is
 *   part of the mean.
 * - The tape's stream goes on when all means are there. Legal in a capture: each replay is the same
 *   on all ranks.
 * - Hooks of the program come before the reduction, whenever they were added.
 * - Where the tape fails on a rank, that rank tells no other. ph_comm_abort does. Its later passes
 *   are refused (STATE), unless it is alone or the pass was captured.
 * - STATE: a group of the communicator is open, as for each call of a network. */
PH_API void ph_data_parallel_backward(ph_tape *tape, ph_data_parallel *parallel, ph_tensor *loss);

/* false: ph_data_parallel_backward is ph_backward from now on, and gradients are this rank's, to be
 * summed over several micro-batches. The next one with true reduces them all. Returns what it was;
 * at first true. A captured pass keeps what it was captured with. Takes NULL. */
PH_API bool ph_data_parallel_set_sync(ph_data_parallel *parallel, bool sync);

/* A pass of the other ranks, on a rank that has no input for it (uneven_inputs).
 *
 * Effect:
 * - Blocks until every rank is in a pass, or here. *passed: some rank is in a pass.
 * - true: the parameters have gradients as after ph_data_parallel_backward, the same bits as on all
 *   ranks. This rank then does the same as the others: it clips, steps the optimizer, sets
 *   gradients to zero. So parameters and optimizers stay the same on all ranks.
 * - false: no rank has inputs any more, and no gradient was changed. The next
 *   ph_data_parallel_backward may follow, on all ranks.
 * - Call it again until it says false:
 *       while (ph_data_parallel_join(&passed, tape, parallel) == PH_OK && passed)
 *           step(tape, optimizer);
 * - A gradient that a parameter had before counts, as in ph_data_parallel_backward.
 * - Other collectives of the communicator between the passes are the program's to match.
 *
 * Errors: STATE (the network was made without uneven_inputs, or set_sync is false), UNSUPPORTED
 * (the tape's stream is capturing), PEER and other failures of the communicator, those of the tape.
 * Failures of the work fail the tape, too.
 * Threads: as ph_data_parallel_backward. */
PH_CALL ph_data_parallel_join(bool *passed, ph_tape *tape, ph_data_parallel *parallel);

/* ---- shard_optimizer ---- Gradients are reduced by reduce_scatter, and each rank steps its part
 * of the parameters:
 *     ph_adam_create(&optimizer, ph_data_parallel_shards(parallel), &options);
 *     ...
 *     ph_data_parallel_backward(tape, parallel, loss);
 *     ph_data_parallel_clip_grad_norm(tape, parallel, 1.0);
 *     ph_optimizer_step(tape, optimizer);
 *     ph_data_parallel_gather(tape, parallel);
 *     ph_optimizer_zero_grad(tape, optimizer);
 * - Steps of one element do not depend on others, so results are those without shards, to the bit.
 * - After a pass the network's parameters have no gradients; those of the shards have. Clipping the
 *   network's by norm or value, and the shards' by norm, is refused (STATE), and so are optimizers
 *   of the network: new ones, and the steps of older ones.
 * - An infinity or NaN in the part of one rank makes one gradient of every rank NaN: gradient
 *   scalers of all ranks skip the same steps.
 * - The optimizer's state is saved and loaded by each rank for itself. Its names begin with
 *   "shard_<rank>_of_<size>.", so that no other rank and no other number of ranks loads it.
 *   ph_data_parallel_save_optimizer writes that of all ranks.
 * - At creation: ARGUMENT (a rank would have no element, a parameter is not f32 or f64), STATE
 *   (parameters that another network has sharded). */

/* A module with this rank's part of every parameter that it has a part of: a tensor of one
 * dimension, a view of the parameter's memory, named as the parameter, behind
 * "shard_<rank>_of_<size>.". It cannot be called. Borrowed; lives as long as the network, and
 * longer if retained. NULL: made without shard_optimizer, or parallel is NULL. */
PH_API ph_module *ph_data_parallel_shards(const ph_data_parallel *parallel);
/* Every rank gets the parts that the others have stepped. Every rank calls it after each step of
 * the optimizer; the next pass is refused otherwise (STATE). Without shard_optimizer it does
 * nothing. Legal in a capture. */
PH_API void ph_data_parallel_gather(ph_tape *tape, ph_data_parallel *parallel);
/* ph_clip_grad_norm over all ranks, by the 2-norm: gives the norm, a scalar of the tape. Every rank
 * calls it. Without shard_optimizer it is ph_clip_grad_norm of the network. Legal in a capture. */
PH_API ph_tensor *ph_data_parallel_clip_grad_norm(ph_tape *tape, ph_data_parallel *parallel,
                                                  double max_norm);

/* Save and load the optimizer of all shards as the one file that it would be without shards, for
 * any number of ranks, and for ph_optimizer_load. Without shard_optimizer they do so, too.
 * - Every rank calls them, outside of captures (CAPTURE). They wait for the device and all ranks.
 * - save: rank 0 writes its path, and has all of the state in host memory meanwhile.
 * - load: every rank reads its path, and keeps its part. All ranks load, or none.
 * - Errors: those of ph_optimizer_save and load; ARGUMENT (an optimizer of other parameters);
 *   MISMATCH (save: the kinds, options or steps of ranks differ); PEER (another rank failed). */
PH_CALL ph_data_parallel_save_optimizer(ph_data_parallel *parallel, ph_optimizer *optimizer,
                                        const char *path);
PH_CALL ph_data_parallel_load_optimizer(ph_data_parallel *parallel, ph_optimizer *optimizer,
                                        const char *path);

/* Buckets, and the bytes of all: at most a few more than the parameters' own. */
typedef struct ph_data_parallel_info {
    size_t buckets, parameters;
    uint64_t bytes;
    uint64_t reduced_bytes; /* all-reduced by a pass: fewer with reduce_dtype */
    uint64_t reserved[3];
} ph_data_parallel_info;
PH_CALL ph_data_parallel_get_info(ph_data_parallel_info *out, const ph_data_parallel *parallel);

PH_END_DECLS
#endif
