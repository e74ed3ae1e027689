/* SPDX-License-Identifier: MIT */
/* nn/parallel/parallel.h: the structure of a data-parallel network. */
#ifndef PH_NN_PARALLEL_PARALLEL_H
#define PH_NN_PARALLEL_PARALLEL_H
#include "base/vec.h"
#include <phonograph/data_parallel.h>

/* A parameter, and its place in a bucket. */
typedef struct ph__bucket_part {
    ph_data_parallel *parallel;
    ph_tensor *parameter; /* retained */
    ph_tensor *view;      /* its gradient's memory in the bucket */
    ph_tensor_hook *hook;
    size_t bucket;
    int64_t at;   /* element of the bucket */
    bool arrived; /* in the pass that runs */
} ph__bucket_part;

typedef struct ph__bucket {
    ph_tensor *memory;
    ph_tensor *reduced; /* its copy of reduce_dtype, all-reduced in its place; NULL: none */
    ph_dtype dtype;
    int64_t count;         /* elements, with those between gradients, which stay zero */
    size_t parts, missing; /* gradients; those that have not arrived */
} ph__bucket;

struct ph_data_parallel {
    ph_module *module; /* retained */
    ph_comm *comm;     /* retained */
    ph_stream *stream; /* of the collectives */
    ph_tensor *active; /* one f32, the number of ranks in a pass; NULL: inputs are even */
    bool divide_by_active;
    PH__VEC(ph__bucket_part) parts;
    PH__VEC(ph__bucket) buckets; /* in the order in which they are reduced */
    bool local;                  /* not sync */
    bool running;                /* a pass */
    size_t next;                 /* the bucket that is reduced next */
};
#endif
