/* SPDX-License-Identifier: MIT */
/* nn/parallel/parallel.h: the structure of a data-parallel network. */
#ifndef PH_NN_PARALLEL_PARALLEL_H
#define PH_NN_PARALLEL_PARALLEL_H
#include "base/map.h"
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
    /* this rank's part of both after the reduction: all of it without shards */
    ph_tensor *own, *own_reduced;
    ph_dtype dtype;
    int64_t count;         /* elements, with those between gradients, which stay zero */
    size_t last;           /* the part that comes last in it */
    size_t parts, missing; /* gradients; those that have not arrived */
} ph__bucket;

/* The part of a parameter that one rank steps. */
typedef struct ph__shard_segment {
    size_t part;
    uint32_t rank;
    int64_t begin, end;       /* elements of the parameter */
    ph_tensor *values, *grad; /* views, retained; NULL where another rank steps it */
} ph__shard_segment;

struct ph_data_parallel {
    ph_module *module; /* retained */
    ph_comm *comm;     /* retained */
    ph_stream *stream; /* of the collectives */
    ph_tensor *active; /* one f32, the number of ranks in a pass; NULL: inputs are even */
    bool divide_by_active;
    ph_module *shards;                   /* NULL: optimizers are not sharded */
    PH__VEC(ph__shard_segment) segments; /* of all ranks, in the order of the parts */
    uint64_t gathered;                   /* changes of the parameters at the last gather */
    ph_tensor *nonfinite;                /* one f32: whether some rank has found one */
    PH__VEC(ph__bucket_part) parts;
    ph__map trained;             /* the parameters of the parts: key and value */
    PH__VEC(ph__bucket) buckets; /* in the order in which they are reduced */
    bool local;                  /* not sync */
    bool running;                /* a pass */
    bool broken;                 /* a pass ended early: other ranks may stand elsewhere */
    size_t next;                 /* the bucket that is reduced next */
};
#endif
