/* SPDX-License-Identifier: MIT */
/* phonograph/cuda.h: NVIDIA's handles, typed without the toolkit. The CUDA driver itself is not part of this
 * version: on the host device every call here answers UNSUPPORTED (after the same checks of state), never
 * NULL with PH_OK. */
#ifndef PHONOGRAPH_CUDA_H
#define PHONOGRAPH_CUDA_H
#include <phonograph/graph.h>

struct CUstream_st;
struct CUgraph_st;
struct CUgraphExec_st;

PH_BEGIN_DECLS
PH_CALL ph_stream_cuda(struct CUstream_st **out, const ph_stream *stream);
PH_CALL ph_graph_cuda(struct CUgraph_st **out, ph_graph *graph);
PH_CALL ph_graph_exec_cuda(struct CUgraphExec_st **out, ph_graph *graph);
PH_END_DECLS
#endif
