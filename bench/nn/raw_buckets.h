/* SPDX-License-Identifier: MIT */
/* bench/nn/raw_buckets.h: the graphs of bench/nn_buckets.c made by cuBLASLt and the driver
 * alone: what any library's making of them is held against. */
#ifndef BENCH_NN_RAW_BUCKETS_H
#define BENCH_NN_RAW_BUCKETS_H
#include <phonograph/phonograph.h>

typedef struct raw_buckets raw_buckets;

/* `layers` products with bias, width x width in f16, for each of `count` numbers of rows; two
 * buffers in turn, algorithms chosen here. Ends the program where cuBLASLt is not found. */
raw_buckets *raw_buckets_open(ph_device *device, ph_stream *stream, int layers, int width,
                              const int *rows, int count);
/* For each number of rows: begins a capture, submits the products, ends it, instantiates. No
 * upload, no account, no record. */
void raw_buckets_make(raw_buckets *raw);
void raw_buckets_drop(raw_buckets *raw); /* what make made */
void raw_buckets_close(raw_buckets *raw);
#endif
