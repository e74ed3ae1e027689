/* SPDX-License-Identifier: MIT */
/* phonograph/cuda.h: NVIDIA's handles, typed without the toolkit: CUstream and cudaStream_t are
 * both struct CUstream_st *, and so on. For programs that own streams, kernels or graphs of
 * CUDA's and adopt this library. docs/guide/cuda.md tells how. On the host device the calls answer
 * UNSUPPORTED (after the same checks of state), never NULL with PH_OK. */
#ifndef PHONOGRAPH_CUDA_H
#define PHONOGRAPH_CUDA_H
#include <phonograph/graph.h>

struct CUstream_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUfunc_st;

PH_BEGIN_DECLS

/* A stream of the user's, to be used like any other here; it must outlive the wrapper, whose
 * destroy leaves it alone (an open capture that this library began on it is aborted). Its
 * device: of those open for its GPU the oldest; where none is, it is opened, and goes with the
 * last thing that lives on it. Its context must be the GPU's primary one, which the runtime API
 * uses too (WRONG_DEVICE). Destroy the wrapper while the stream is in no capture. ARGUMENT for
 * CUDA's names of default streams: the legacy one (NULL, cudaStreamLegacy) cannot capture, and
 * is ph_device_default_stream; cudaStreamPerThread can, but is another stream on each thread
 * that names it. NOT_FOUND where CUDA cannot be used. A stream that is capturing is refused
 * (CAPTURE, 900), and its capture goes on. A wrapped stream may be captured by CUDA's own calls:
 * work submitted to it here is captured then; allocations, and a capture of ours, are refused.
 * Thread-safe, legal in a capture. */
PH_CALL ph_stream_wrap_cuda(ph_stream **out, struct CUstream_st *stream);
/* The CUDA stream behind it: borrowed; NULL (with PH_OK) is the legacy default stream. */
PH_CALL ph_stream_cuda(struct CUstream_st **out, const ph_stream *stream);

/* A function of the user's (CUfunction; of a cudaKernel_t by cuKernelGetFunction), which must
 * stay loaded for as long as the kernel and graphs that launch it live. params as in
 * ph_kernel_source: optional, makes its launches typed. args_size of a launch: that of
 * ph_kernel_args_size. */
PH_CALL ph_kernel_wrap_cuda(ph_kernel **out, ph_device *device, struct CUfunc_st *function,
                            const ph_param *params, size_t param_count);

/* Takes a CUgraph that was built elsewhere over: a NEW graph becomes ENDED (keep_graph) or
 * READY, as after a capture, with record, node changes, liveness options and replays. On success
 * cuda_graph belongs to the graph; pass a cuGraphClone to keep one's own. On failure it stays
 * the caller's and the graph is as it was. options: pool and check_input_liveness are looked at;
 * NULL: defaults. */
PH_CALL ph_graph_import_cuda(ph_graph *graph, ph_device *device, struct CUgraph_st *cuda_graph,
                             const ph_capture_options *options);
/* CUDA's own handles of a graph. ph_graph_cuda needs keep_graph, or to be inside a capture-end
 * hook; ph_graph_exec_cuda needs an executable. Valid until the next instantiate or reset. */
PH_CALL ph_graph_cuda(struct CUgraph_st **out, ph_graph *graph);
PH_CALL ph_graph_exec_cuda(struct CUgraphExec_st **out, ph_graph *graph);

/* Makes the device's context current on the calling thread, for calls of the program's own to
 * CUDA's libraries (cuBLAS and the like), until the pop, which puts back what was current
 * before. Nests; each push that went well needs its pop, on the same thread. Legal in a capture,
 * thread-safe. Costs some 25 ns. UNSUPPORTED on the host device. */
PH_CALL ph_context_push_cuda(ph_device *device);
PH_API void ph_context_pop_cuda(ph_device *device); /* takes NULL; never touches the error record */

/* For code of CUDA's inside capture bodies: a CUresult or cudaError_t as a status. 0 is PH_OK
 * and sets nothing; else the thread's record gets the number, its name and meaning, and `call`,
 * which says what failed; and, where a capture that this thread began is dead (for 901: of any
 * thread), which call killed it. */
PH_API ph_status ph_fail_cuda(int code, const char *call);

PH_END_DECLS
#endif
