/* SPDX-License-Identifier: MIT */
/* torch/hooks.h: the functions of libphonograph_torch.so, whose addresses PyTorch's pluggable
 * allocator takes (torch.cuda.memory.CUDAPluggableAllocator). They are found by dlsym: the plug-in
 * has no public header, as torch is its only caller, with phonograph.torch.use_allocator().
 *
 * torch's conventions, of 64-bit x86 and Arm:
 * - A pool's pair of numbers is two arguments. A std::function is the address of an object that
 *   lives until the hook returns.
 * - A stream is a cudaStream_t; NULL is the legacy default stream. On a host device it is a
 *   ph_stream.
 * - A hook that fails throws std::runtime_error with the text of ph_error_last, "CUDA out of
 *   memory" in front where it is that. In a process without C++ it returns NULL, or nothing, and
 *   ph_error_last says why.
 *
 * All of them are thread-safe. */
#ifndef PH_TORCH_HOOKS_H
#define PH_TORCH_HOOKS_H
#include <phonograph/memory.h>

/* The device that requests for torch's GPU of that number go to. NULL is "cuda:<index>", opened at
 * the first request. STATE: the number has a device. ARGUMENT: no such number, from 0 to 63. */
PH_CALL ph_torch_set_device(int index, ph_device *device);
/* The device of the number, borrowed: it stays open until the process ends. */
PH_CALL ph_torch_device(ph_device **out, int index);

/* A request of 0 bytes gives NULL. A stream that is in a capture needs a pool that began to
 * allocate: its memory is then of that pool (ph_pool_capture_begin). */
PH_API void *ph_torch_malloc(ptrdiff_t bytes, int index, void *stream);
PH_API void ph_torch_free(void *pointer, ptrdiff_t bytes, int index, void *stream);
PH_API void ph_torch_record_stream(void *pointer, void *stream);
/* The limit of all pools together: a fraction of the device's memory. */
PH_API void ph_torch_memory_fraction(double fraction, int index);
PH_API void ph_torch_empty_cache(void); /* trims all devices */

/* Requests on streams that the filter accepts come from the pool, until end. filter: a
 * std::function<bool(cudaStream_t)> of libstdc++. Throws where the pool is begun already.
 * - A stream in a capture: the pool records the capture, and is held until release.
 * - Another one: the request alone is routed there.
 * The first begin makes the pool. */
PH_API void ph_torch_begin_pool(int index, uint64_t first, uint64_t second, const void *filter);
PH_API void ph_torch_end_pool(int index, uint64_t first, uint64_t second);
/* As often as it was begun, and once it was: the last one lets go of the pool, when the device's
 * work is done. While any pool is begun that is put off, as torch may be capturing. */
PH_API void ph_torch_release_pool(int index, uint64_t first, uint64_t second);

/* torch's numbers of the pool that has the id; false: none. */
PH_API bool ph_torch_pool_name(uint64_t name[2], const ph_pool_id *id);
#endif
