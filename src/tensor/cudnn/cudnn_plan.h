/* SPDX-License-Identifier: MIT */
/* tensor/cudnn/cudnn_plan.h: plans of cuDNN's: built once for each key, kept with the device. */
#ifndef PH_TENSOR_CUDNN_CUDNN_PLAN_H
#define PH_TENSOR_CUDNN_CUDNN_PLAN_H
#include "tensor/cudnn/cudnn.h"
#include "tensor/cudnn/cudnn_graph.h"

/* All that a plan depends on: compared and hashed as it lies. */
enum {
    PH__CUDNN_KEY_WORDS = 34
};
typedef struct ph__cudnn_key {
    int64_t word[PH__CUDNN_KEY_WORDS];
} ph__cudnn_key;

typedef struct ph__cudnn_plan {
    ph__cudnn_key key;
    struct ph__cudnn_plan *next;
    void *plan;                                 /* NULL: cuDNN has none for it */
    int64_t workspace;                          /* bytes */
    ph__cudnn_graph graph;                      /* of what the plan was built from, the plan too */
    ph__cudnn_built built[PH__BENCHMARK_LIMIT]; /* of a plan that has not been kept yet */
    int built_count;
    atomic_bool captured; /* its kernels, which go with it, may be in graphs, or run: it stays */
} ph__cudnn_plan;

/* The plan for a key, which `describe` describes where it is new: the search's first. Building one
 * takes about half a second, with the device's context current. NULL: the record is set. */
typedef void (*ph__cudnn_describe)(ph__cudnn_graph *graph, const ph__cudnn_key *key);
ph__cudnn_plan *ph__cudnn_plan_of(ph__cudnn *cudnn, const ph__cudnn_key *key,
                                  ph__cudnn_describe describe, const ph__cudnn_search *search);
ph__cudnn_plan *ph__cudnn_plan_find(ph__cudnn *cudnn, const ph__cudnn_key *key);

/* In two steps: a plan that is the caller's alone, with all that was found and the first of it
 * taken; and the one that stays: this one without the rest, or what another thread made meanwhile.
 * make: NULL: the record is set. */
ph__cudnn_plan *ph__cudnn_plan_make(ph__cudnn *cudnn, const ph__cudnn_key *key,
                                    ph__cudnn_describe describe, const ph__cudnn_search *search);
void ph__cudnn_plan_use(ph__cudnn_plan *plan, int i);
ph__cudnn_plan *ph__cudnn_plan_keep(ph__cudnn *cudnn, ph__cudnn_plan *plan);

/* Submits a plan, with an address for each id: the device's memory, or a number on the host, read
 * before it returns. workspace: of plan->workspace bytes. */
typedef struct ph__cudnn_operands {
    int64_t id[16], count;
    void *address[16];
} ph__cudnn_operands;
ph_status ph__cudnn_submit(ph__cudnn *cudnn, ph__cudnn_plan *plan,
                           const ph__cudnn_operands *operands, void *workspace, ph_stream *stream);
/* All of a device's but those that were captured: these stay until the process ends, as a graph
 * may outlive all tensors. Its context is current. */
void ph__cudnn_plans_free(ph__cudnn *cudnn);
#endif
