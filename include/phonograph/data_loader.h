/* SPDX-License-Identifier: MIT */
/* phonograph/data_loader.h: data loaders: batches that threads fetch ahead into pinned memory, and
 * that are copied to the device while the work before them runs. */
#ifndef PHONOGRAPH_DATA_LOADER_H
#define PHONOGRAPH_DATA_LOADER_H
#include <phonograph/tensor.h>

PH_BEGIN_DECLS

typedef struct ph_data_loader ph_data_loader;

/* ---- what is loaded ---- A data set has `count` examples, 0 to count - 1. An epoch goes through
 * them once, in batches. A batch is a tensor for each field. */
typedef struct ph_batch_field {
    ph_dtype dtype;
    ph_shape shape; /* of one example, rank 7 at most; a batch has its rows in front of it */
    /* NULL: the loader makes the tensors. Else each batch is copied into this one, such as the
     * input of a captured step: retained; of shape [batch_size, shape...], contiguous, a leaf */
    ph_tensor *into;
} ph_batch_field;

/* One call of the user's function. Borrowed: valid during the call. */
typedef struct ph_fetch_request {
    uint64_t epoch, batch; /* batch: its number in the epoch, from 0 */
    const int64_t *index;  /* the examples, one a row */
    size_t count;          /* rows: batch_size, or fewer in the last batch of an epoch */
    /* pinned memory of each field: row r of field f is at data[f] + r * bytes of an example. Its
     * contents are undefined before; NULL where a field has no elements */
    void *const *data;
    size_t thread; /* which of the loader's threads calls, from 0: for files of its own, say */
} ph_fetch_request;

/* Fills all rows of all fields.
 *
 * - Called on threads of the loader's, with no lock held, for several batches at once, also for
 *   later ones than the next. The capture mode of these threads is relaxed.
 * - A call may block. The function may not call the loader that calls it (STATE).
 * - A status other than PH_OK fails the batch, with the message that it gave ph_fail. */
typedef ph_status (*ph_fetch_fn)(const ph_fetch_request *request, void *user);

typedef struct ph_data_loader_options {
    int64_t count, batch_size; /* at least 1 */
    const ph_batch_field *fields;
    size_t field_count; /* 1 to 16 */
    ph_fetch_fn fetch;
    void *user;
    size_t threads;  /* number of fetching threads, 256 at most; 0: one a processor, 4 at most */
    size_t prefetch; /* batches ahead, 1024 at most; 0: twice the threads */
    /* Each epoch has an order of its own: that of epoch e is ph_randperm(count) of a generator
     * with this seed and offset 8 * e, whatever the threads do. Else: 0, 1, 2, ... */
    bool shuffle;
    uint64_t seed;
    bool drop_last; /* the examples of a last batch that would be smaller are left out */
    /* Several processes share an epoch: this one takes elements rank, rank + world, ... of its
     * order. All get equally many: with drop_last those over are left out, else the order's first
     * ones come again at its end. world 0: 1 */
    uint32_t rank, world;
    uint64_t epochs; /* none is begun behind so many; 0: no end */
    uint64_t reserved[4];
} ph_data_loader_options;

/* Starts the threads, which begin with batch 0 of epoch 0.
 *
 * - `fields` is read during the call. `user` must live until destroy has returned.
 * - The loader takes prefetch + 1 batches of pinned and of device memory.
 * - Errors: ARGUMENT (numbers, dtypes, shapes, a tensor in `into` that does not fit; `into` without
 *   drop_last, where the last batch would be smaller; no whole batch at all), WRONG_DEVICE (of
 *   `into`), SIZE, DEVICE_MEMORY, HOST_MEMORY (also a thread that the system refuses).
 * - Legal in a capture. Thread-safe. */
PH_CALL ph_data_loader_create(ph_data_loader **out, ph_device *device,
                              const ph_data_loader_options *options);

/* Ends the threads, and waits for calls of fetch that run; takes NULL.
 *
 * - Batches that were not given are dropped. Tensors that the user retained stay.
 * - Waits for no work of the device; legal in a capture.
 * - Any thread may call it: a ph_data_loader_next that waits on another one gives STATE first.
 *   Inside of fetch it does nothing, and the log says so. */
PH_API void ph_data_loader_destroy(ph_data_loader *loader);

/* ---- batches ---- borrowed: all of it is valid until the loader's next call but those that only
 * look (position, stats, batch_count). */
typedef struct ph_batch {
    uint64_t epoch, number;   /* as in ph_fetch_request */
    size_t count;             /* rows; 0: the epoch is over, and there is no batch */
    ph_tensor *const *tensor; /* one a field: the field's `into`, or a tensor of count rows */
    size_t tensor_count;
    const int64_t *index; /* the examples, one a row */
} ph_batch;

/* The next batch, in order. Its tensors have their contents in order of the stream: the stream
 * waits for the copies, the caller does not. It waits, asleep, where the batch is not fetched yet.
 *
 * - Tensors of the loader's are used on `stream`, or on streams that are joined to it before the
 *   loader's next call: the memory is written again only behind what `stream` has to do by then.
 *   Memory of tensors that are still retained then, or saved by a tape, is not written again: the
 *   loader takes other memory in its place.
 * - `into` is written on `stream`, behind what that has to do: a replay on it comes after.
 * - `stream` must stay until the loader's next call (release is one).
 * - Behind the last batch of an epoch comes, once, a batch of count 0; then the next epoch. Behind
 *   the last of `epochs` there are only such.
 * - A failure of fetch has the batch's number and epoch in front of its message. The position
 *   stays: the next call has the batch fetched again. ph_data_loader_set_position passes over it.
 *
 * Graphs: between replays, on any stream that is not in a capture, also while others are. CAPTURE,
 * 900: `stream` is in one, or the stream of the batch before is; the capture goes on. A captured
 * step reads the same memory at each replay: give its inputs as `into`.
 *
 * One thread at a time calls next, release and set_position; a second one is refused (STATE). */
PH_CALL ph_data_loader_next(ph_batch *out, ph_data_loader *loader, ph_stream *stream);

/* Gives the batch back before the next one is asked for: in order of the stream that next got,
 * which may go after that. Nothing where there is no batch. CAPTURE, 900: that stream is in a
 * capture. */
PH_CALL ph_data_loader_release(ph_data_loader *loader);

/* ---- position ---- the next batch, and all that decides the order: put it into the saved state
 * of a training. A run that set_position continues gives the batches of an uninterrupted run. */
typedef struct ph_data_loader_position {
    uint64_t epoch, batch; /* batch: batch_count of them where the epoch's end comes next */
    uint64_t seed;
    /* as the loader was made: another one that goes on from here must have the same */
    uint64_t count, batch_size, world, shuffle, drop_last;
    uint64_t reserved[4];
} ph_data_loader_position;

/* Thread-safe, and legal in a capture. */
PH_CALL ph_data_loader_get_position(ph_data_loader_position *out, ph_data_loader *loader);
/* Drops what was fetched ahead (waits for calls of fetch that are under way) and goes on from
 * there, with the seed that it says. Releases the batch, as ph_data_loader_release does. MISMATCH:
 * another data set, batch size, world, or order; ARGUMENT: no such batch or epoch. Nothing changed
 * then. Legal in a capture. */
PH_CALL ph_data_loader_set_position(ph_data_loader *loader,
                                    const ph_data_loader_position *position);
/* Batches of an epoch, of this rank; 0 for NULL. */
PH_API uint64_t ph_data_loader_batch_count(const ph_data_loader *loader);

/* Since creation. waited_ns next to a training's time says what faster loading would save. */
typedef struct ph_data_loader_stats {
    uint64_t batches;   /* given by next */
    uint64_t waits;     /* of next, for a batch that was not ready */
    uint64_t waited_ns; /* in them */
    uint64_t fetches;   /* calls of fetch that returned */
    uint64_t fetch_ns;  /* in them, of all threads together */
    uint64_t ready;     /* batches now, that are fetched and not given yet */
    uint64_t reserved[4];
} ph_data_loader_stats;
/* Thread-safe, and legal in a capture. */
PH_CALL ph_data_loader_get_stats(ph_data_loader_stats *out, ph_data_loader *loader);

PH_END_DECLS
#endif
