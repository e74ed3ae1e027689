/* SPDX-License-Identifier: MIT */
/* inspect/verify/written.h: what the nodes of a graph may write, and was not compared. */
#ifndef PH_INSPECT_VERIFY_WRITTEN_H
#define PH_INSPECT_VERIFY_WRITTEN_H
#include "inspect/verify/verify.h"

/* Memory that the graph's nodes may write, as far as their parameters tell:
 * whole allocations for kernels, destinations for copies and fills. */
typedef struct ph__written {
    size_t compared, bytes; /* bytes of such memory that are compared; all of them */
    ph__ranges left;        /* the others */
    /* the node that addresses the first of them; SIZE_MAX: ph_stream_declare_use named it */
    size_t node;
    uint64_t address;
    char node_name[64], word[48];
    /* nodes that write what no parameter tells, the first; host functions */
    size_t unseen, first_unseen, hosts;
} ph__written;
ph_status ph__verify_written(ph__written *out, ph__verify *verify);
/* Not all of it was compared. */
bool ph__written_is_missed(const ph__written *written);
void ph__written_free(ph__written *written);
#endif
