/* SPDX-License-Identifier: MIT */
/* nn/loader/loader.h: a data loader, its slots, and the states that they go through. */
#ifndef PH_NN_LOADER_LOADER_H
#define PH_NN_LOADER_LOADER_H
#include "base/sync.h"
#include "nn/loader/order.h"
#include "tensor/core/storage.h"

enum {
    PH__LOADER_FIELDS = 16
};

/* A slot belongs to the threads while it is OPEN, to one thread while it is FETCHING, and else to
 * the call that takes batches. */
typedef enum ph__slot_state {
    PH__BATCH_NONE = 0, /* its batch is behind the last epoch, or the position is being set */
    PH__BATCH_OPEN,     /* a thread may fetch it */
    PH__BATCH_FETCHING,
    PH__BATCH_READY, /* its copies were submitted: `copied` is behind them */
    PH__BATCH_FAILED,
    PH__BATCH_REPORTED, /* failed, and the caller knows */
    PH__BATCH_GIVEN     /* to the caller */
} ph__slot_state;

typedef struct ph__loader_slot {
    ph__slot_state state;
    uint64_t batch; /* since the beginning of epoch 0 */
    size_t rows;
    int64_t *index;
    void *pinned[PH__LOADER_FIELDS];
    ph__storage *device[PH__LOADER_FIELDS]; /* NULL: others hold it, the next copy makes another */
    ph_event *copied; /* on the loader's stream: behind the copies to the device */
    ph_event *used;   /* on the caller's: behind what it did with the batch */
    ph_error error;
} ph__loader_slot;

typedef struct ph__loader_field {
    ph_dtype dtype;
    ph_shape shape;   /* of a whole batch */
    size_t row_bytes; /* of one example */
    ph_tensor *into;  /* retained, or NULL */
    ph_tensor *given; /* with the caller now: of the loader's memory, retained, or NULL */
} ph__loader_field;

struct ph_data_loader {
    ph_device *device; /* borrowed from the backend */
    ph__backend *backend;
    ph_stream *stream; /* of the copies, which no capture is on */
    ph__epoch_order order;
    uint64_t epochs; /* 0: no end */
    ph_fetch_fn fetch;
    void *user;
    size_t field_count, slot_count, thread_count;
    bool fixed; /* every field has its `into`: a slot is free again when next has copied */
    ph__loader_field fields[PH__LOADER_FIELDS];
    ph__loader_slot *slots;
    struct ph__loader_thread *threads;
    /* Guards the states of slots, and all below. */
    ph__mutex lock;
    atomic_uint opened; /* counts what threads wait for: a slot that is OPEN, the end */
    atomic_uint moved;  /* counts what callers wait for: a slot that was fetched, the end */
    bool stopping;
    size_t alive;          /* threads; one that the user's function ends is none any more */
    bool busy;             /* a call that takes batches, or sets the position, is under way */
    uint64_t epoch, batch; /* of the next batch; batch may be order.batches: the epoch's end */
    ph__loader_slot *given;
    ph_stream *given_stream; /* the one on which the given batch is used */
    ph_data_loader_stats stats;
    /* of the batch that was given */
    ph_tensor *tensors[PH__LOADER_FIELDS];
    int64_t *index;
};
#endif
