/* SPDX-License-Identifier: MIT */
/* tests/fake/cudnn_inside.h: the parts of the software cuDNN: descriptors, and graphs of
 * operations that a kernel of the software libcuda goes through step by step. */
#ifndef PH_TESTS_FAKE_CUDNN_INSIDE_H
#define PH_TESTS_FAKE_CUDNN_INSIDE_H
#include "tensor/cudnn/cudnn_abi.h"
#include <phonograph/kernel.h>
#include <stdbool.h>

enum {
    FAKE_CUDNN_BAD = 2000, /* CUDNN_STATUS_BAD_PARAM */
    FAKE_CUDNN_UNSUPPORTED = 3000,
    FAKE_CUDNN_NO_MEMORY = 4001,
    FAKE_CUDNN_FAILED = 5000,
    FAKE_CUDNN_TENSORS = 64,
    FAKE_CUDNN_STEPS = 32,
    FAKE_CUDNN_OPERANDS = 16,
    FAKE_CUDNN_WORKSPACE = 64 /* bytes that a graph of more than 16 operations wants */
};

/* ---- descriptors ---- */
typedef struct fake_attribute {
    int name;
    int64_t count;
    void *values;
} fake_attribute;
typedef struct fake_descriptor {
    int type, attributes;
    bool final;
    fake_attribute attribute[12];
    const void *made; /* by finalize, or by the heuristics */
    int proposal;     /* of a configuration, its engine and its plan */
} fake_descriptor;
/* The attribute's values; NULL: it was not set. */
const void *fake_cudnn_values(const fake_descriptor *of, int name, int64_t *count);
int fake_cudnn_number(const fake_descriptor *of, int name, int otherwise);
fake_descriptor *fake_cudnn_part(const fake_descriptor *of, int name);

/* ---- programs ---- */
typedef struct fake_tensor {
    int64_t id, dim[4], stride[4];
    int dtype;
    bool between, number; /* without memory; on the host */
} fake_tensor;
typedef struct fake_step {
    int type, how, axis; /* of descriptor; mode or reduction */
    int x, b, t, y;      /* tensors; -1: none */
} fake_step;
typedef struct fake_program {
    fake_tensor tensor[FAKE_CUDNN_TENSORS];
    fake_step step[FAKE_CUDNN_STEPS];
    int tensors, steps;
    bool atomic; /* a sum in memory, and its conversion: its kernel has another name */
} fake_program;
/* Of the operations of a graph, checked. 0, or why not. Programs stay until the process ends:
 * graphs that were captured have them. */
int fake_cudnn_compile(const fake_program **out, const fake_descriptor *operations);

/* What the kernel is given. */
typedef struct fake_cudnn_call {
    const fake_program *program;
    int64_t count, id[FAKE_CUDNN_OPERANDS];
    void *address[FAKE_CUDNN_OPERANDS];
    float number[FAKE_CUDNN_OPERANDS];
    void *workspace;
} fake_cudnn_call;
void fake_cudnn_run(const ph_block_range *range, const void *call);
#endif
