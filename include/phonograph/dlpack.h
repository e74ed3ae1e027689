/* SPDX-License-Identifier: MIT */
/* phonograph/dlpack.h: exchange of tensors with other libraries without copies, by DLPack
 * (dmlc.github.io/dlpack), versioned and unversioned. The structs are DLPack's own; its dlpack.h
 * defines them. */
#ifndef PHONOGRAPH_DLPACK_H
#define PHONOGRAPH_DLPACK_H
#include <phonograph/tensor.h>

struct DLManagedTensorVersioned;
struct DLManagedTensor;

PH_BEGIN_DECLS

/* Exports a tensor. The memory stays until the consumer calls the deleter.
 * - Stream rule: later work on `consumer` is ordered after the present work of the tape's stream,
 *   and the memory is not used again before that work is done. consumer NULL has no such order: it
 *   is the same stream, or the caller synchronizes.
 * - Memory of a GPU is kDLCUDA, of the host device kDLCPU; pinned memory is kDLCUDAHost.
 * - STATE: a tensor that requires a gradient (ph_detach it), or read-only memory in the unversioned
 *   form, which has no flag for it. */
PH_CALL ph_tensor_to_dlpack(struct DLManagedTensorVersioned **out, ph_tape *tape, ph_tensor *x,
                            ph_stream *consumer);
PH_CALL ph_tensor_to_dlpack_unversioned(struct DLManagedTensor **out, ph_tape *tape, ph_tensor *x,
                                        ph_stream *consumer);
/* Imports a tensor. On success it owns the managed tensor, whose deleter is called when the last
 * view is gone, in host order: synchronize its users first.
 * - The producer has made its work visible to the tape's stream, as DLPack's __dlpack__(stream)
 *   requires.
 * - UNSUPPORTED: a dtype, device, rank or major version that this library does not have.
 *   WRONG_DEVICE: memory of another device than the tape's.
 * - Read-only memory cannot be changed in place (STATE). */
PH_CALL ph_tensor_from_dlpack(ph_tensor **out, ph_tape *tape,
                              struct DLManagedTensorVersioned *managed);
PH_CALL ph_tensor_from_dlpack_unversioned(ph_tensor **out, ph_tape *tape,
                                          struct DLManagedTensor *managed);

PH_END_DECLS
#endif
