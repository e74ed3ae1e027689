/* SPDX-License-Identifier: MIT */
/* phonograph/cuda.h: NVIDIA's handles, typed without the toolkit: CUstream and cudaStream_t are
 * both struct CUstream_st *, and so on. For programs with streams, kernels or graphs of CUDA
 * (docs/guide/cuda.md). On the host device the calls return UNSUPPORTED, after the same checks of
 * state, never NULL with PH_OK. */
#ifndef PHONOGRAPH_CUDA_H
#define PHONOGRAPH_CUDA_H
#include <phonograph/graph.h>

struct CUstream_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUfunc_st;

PH_BEGIN_DECLS

/* Makes a ph_stream of a user's CUDA stream.
 * - The stream must outlive the wrapper, whose destroy does not touch it. An open capture that this
 *   library began on it is aborted. Destroy the wrapper while the stream is in no capture.
 * - Its device is the oldest open device of its GPU. If none is open, one is opened, and goes with
 *   the last object on it.
 * - Its context must be the GPU's primary one, which the runtime API uses too (WRONG_DEVICE).
 * - ARGUMENT: CUDA's names of default streams. The legacy stream (NULL, cudaStreamLegacy) cannot
 *   capture, and is ph_device_default_stream. cudaStreamPerThread can capture, but is another
 *   stream on each thread.
 * - NOT_FOUND: CUDA cannot be used. CAPTURE, 900: the stream is capturing; its capture goes on.
 * - CUDA's own calls may capture the wrapped stream. Work that this library submits is captured
 *   then. Allocations, and a capture by this library, are refused.
 * - Thread-safe, legal in a capture. */
PH_CALL ph_stream_wrap_cuda(ph_stream **out, struct CUstream_st *stream);
/* The same for a stream of a device that the caller knows, also while it is capturing, as in a
 * capture that ph_pool_capture_begin is to record.
 * - The caller vouches that the stream is of the primary context of the device's GPU. CUDA can be
 *   asked only while the stream is not capturing (then WRONG_DEVICE).
 * - One that is capturing counts as not blocking, and of priority 0.
 * - Other errors: as ph_stream_wrap_cuda; UNSUPPORTED on the host device. */
PH_CALL ph_stream_wrap_cuda_on(ph_stream **out, ph_device *device, struct CUstream_st *stream);
/* The CUDA stream of a ph_stream, borrowed. NULL with PH_OK is the legacy default stream. */
PH_CALL ph_stream_cuda(struct CUstream_st **out, const ph_stream *stream);
/* The same for work alone: kernels, copies, calls of cuBLAS, events that are recorded.
 * - The caller vouches that no call of CUDA begins or ends a capture on the stream, or makes it
 *   join one that this library did not begin (cuStreamWaitEvent). ph_stream_cuda is for these.
 * - So the library need not ask the driver about captures from then on: a replay is cheaper. */
PH_CALL ph_stream_lend_cuda(struct CUstream_st **out, const ph_stream *stream);

/* Makes a ph_kernel of a user's function: a CUfunction, or a cudaKernel_t by cuKernelGetFunction.
 * It must stay loaded while the kernel, and graphs that launch it, live. params as in
 * ph_kernel_source: optional, for typed launches. args_size of a launch: ph_kernel_args_size. */
PH_CALL ph_kernel_wrap_cuda(ph_kernel **out, ph_device *device, struct CUfunc_st *function,
                            const ph_param *params, size_t param_count);

/* Takes over a CUgraph that other code built. A NEW graph becomes ENDED (keep_graph) or READY, as
 * after a capture, with record, node changes, liveness options and replays.
 * - Success: cuda_graph belongs to the graph. To keep it, pass a cuGraphClone.
 * - Failure: cuda_graph stays the caller's, and the graph is as it was.
 * - options: only pool, check_input_liveness, check_foreign_every, strict and scopes have a
 *   meaning; NULL: defaults. UNSUPPORTED: enable_annotations. */
PH_CALL ph_graph_import_cuda(ph_graph *graph, ph_device *device, struct CUgraph_st *cuda_graph,
                             const ph_capture_options *options);
/* Looks at a CUgraph, and the CUgraphExec made of it, that other code owns and launches, as
 * PyTorch. A NEW graph becomes READY.
 * - Both handles stay the owner's. They must live until the graph is reset or destroyed, which
 *   destroys neither.
 * - Legal: record, diff, races, inputs, ph_graph_check_inputs, slots, ph_graph_slots_set,
 *   ph_graph_node_set_*. The owner's next launch has the values. No other thread may launch
 *   meanwhile.
 * - Before the first change, the executable is uploaded, and that is waited for: one that is
 *   changed before its first upload stays slower.
 * - STATE: replay, instantiate, upload, update, profile, verify and verdict, the owner's part.
 * - No hook runs. Failure: the graph is as it was. */
PH_CALL ph_graph_view_cuda(ph_graph *graph, ph_device *device, struct CUgraph_st *cuda_graph,
                           struct CUgraphExec_st *exec);
/* CUDA's own handles of a graph, valid until the next instantiate or reset. ph_graph_cuda needs
 * keep_graph, or a capture-end hook. ph_graph_exec_cuda needs an executable. */
PH_CALL ph_graph_cuda(struct CUgraph_st **out, ph_graph *graph);
PH_CALL ph_graph_exec_cuda(struct CUgraphExec_st **out, ph_graph *graph);

/* Makes the device's context current on the calling thread, for direct calls to CUDA's libraries,
 * as cuBLAS. pop restores the context before. Pushes nest; each successful one needs its pop on the
 * same thread. Costs about 25 ns. UNSUPPORTED on the host device. Legal in a capture,
 * thread-safe. */
PH_CALL ph_context_push_cuda(ph_device *device);
/* Takes NULL. Never touches the error record. */
PH_API void ph_context_pop_cuda(ph_device *device);

/* Converts a CUresult or cudaError_t to a status, for CUDA code in capture bodies.
 * - 0 is PH_OK, and sets nothing.
 * - Otherwise the thread's record gets the number, its name and meaning, and `call`, the name of
 *   the failed call.
 * - Where a capture that this thread began is dead (for 901: of any thread), the record also names
 *   the call that killed it. */
PH_API ph_status ph_fail_cuda(int code, const char *call);

PH_END_DECLS
#endif
