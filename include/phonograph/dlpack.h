/* SPDX-License-Identifier: MIT */
/* phonograph/dlpack.h: tensors to and from other libraries without copies, by DLPack
 * (dmlc.github.io/dlpack), versioned and unversioned. The structs are DLPack's own: include its
 * dlpack.h to look inside. */
#ifndef PHONOGRAPH_DLPACK_H
#define PHONOGRAPH_DLPACK_H
#include <phonograph/tensor.h>

struct DLManagedTensorVersioned;
struct DLManagedTensor;

PH_BEGIN_DECLS

/* Out: the memory stays until the consumer calls the deleter. The stream rule: work submitted to
 * `consumer` later is ordered after what the tape's stream has now, and the memory is not used
 * anew before that work is done (consumer NULL: neither: it is the same stream, or the caller
 * synchronizes). A GPU's memory is kDLCUDA, the host device's kDLCPU, pinned memory kDLCUDAHost.
 * STATE: a tensor that requires a gradient (ph_detach it), and read-only memory without a
 * version, which could not say so. */
PH_CALL ph_tensor_to_dlpack(struct DLManagedTensorVersioned **out, ph_tape *tape, ph_tensor *x,
                            ph_stream *consumer);
PH_CALL ph_tensor_to_dlpack_unversioned(struct DLManagedTensor **out, ph_tape *tape, ph_tensor *x,
                                        ph_stream *consumer);
/* In: takes the managed tensor over on success: its deleter is called when the last view is
 * gone, in host order (synchronize what uses it first). The producer has made its work visible
 * to the tape's stream, as DLPack's __dlpack__(stream) asks. UNSUPPORTED: a dtype, a device, a
 * rank or a major version that this library does not have; WRONG_DEVICE: memory of another
 * device than the tape's. Read-only memory cannot be changed in place (STATE). */
PH_CALL ph_tensor_from_dlpack(ph_tensor **out, ph_tape *tape,
                              struct DLManagedTensorVersioned *managed);
PH_CALL ph_tensor_from_dlpack_unversioned(ph_tensor **out, ph_tape *tape,
                                          struct DLManagedTensor *managed);

PH_END_DECLS
#endif
