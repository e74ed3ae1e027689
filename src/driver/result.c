/* SPDX-License-Identifier: MIT */
/* driver/result.c: the words behind the drivers' numbers, and the statuses that they become. */
#include "driver/result.h"
#include <stddef.h>

typedef struct result_words {
    int number;
    const char *name, *text;
} result_words;

/* Words of our own: a driver need not be there to have them. The names cudaError... are numbers
 * that the runtime API alone gives: programs hand them to ph_fail_cuda. */
/* clang-format off */
static const result_words words[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "the driver is not initialised"},
    {4, "CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"},
    {5, "CUDA_ERROR_PROFILER_DISABLED", "profiling is off in this process"},
    {6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED", "the profiler was not set up"},
    {7, "CUDA_ERROR_PROFILER_ALREADY_STARTED", "the profiler is running already"},
    {8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED", "the profiler does not run"},
    {9, "cudaErrorInvalidConfiguration", "the launch asks for dimensions or resources that the device does not have"},
    {12, "cudaErrorInvalidPitchValue", "the pitch is out of range"},
    {13, "cudaErrorInvalidSymbol", "no symbol of that name or address"},
    {16, "cudaErrorInvalidHostPointer", "a host address is not valid"},
    {17, "cudaErrorInvalidDevicePointer", "a device address is not valid"},
    {18, "cudaErrorInvalidTexture", "the texture is not valid"},
    {19, "cudaErrorInvalidTextureBinding", "the texture is not bound"},
    {20, "cudaErrorInvalidChannelDescriptor", "the channel format is not valid"},
    {21, "cudaErrorInvalidMemcpyDirection", "the direction of the copy is not one of those that there are"},
    {22, "cudaErrorAddressOfConstant", "the address of constant memory was taken"},
    {23, "cudaErrorTextureFetchFailed", "a texture could not be read"},
    {24, "cudaErrorTextureNotBound", "the texture is not bound"},
    {25, "cudaErrorSynchronizationError", "a synchronisation has failed"},
    {26, "cudaErrorInvalidFilterSetting", "the texture's filter does not fit its format"},
    {27, "cudaErrorInvalidNormSetting", "the texture's normalised reads do not fit its format"},
    {28, "cudaErrorMixedDeviceExecution", "code for the device and emulated code were mixed"},
    {31, "cudaErrorNotYetImplemented", "CUDA does not have this call"},
    {32, "cudaErrorMemoryValueTooLarge", "an emulated address is out of range"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "the loaded driver library is a stub for linking"},
    {35, "cudaErrorInsufficientDriver", "the installed driver is older than the CUDA runtime library needs"},
    {36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "the installed driver is too old for this call"},
    {37, "cudaErrorInvalidSurface", "the surface is not valid"},
    {43, "cudaErrorDuplicateVariableName", "two variables share a name"},
    {44, "cudaErrorDuplicateTextureName", "two textures share a name"},
    {45, "cudaErrorDuplicateSurfaceName", "two surfaces share a name"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device cannot be used now"},
    {49, "cudaErrorIncompatibleDriverContext", "the current context is one that the runtime API cannot use"},
    {52, "cudaErrorMissingConfiguration", "the launch was not configured"},
    {53, "cudaErrorPriorLaunchFailure", "an earlier launch has failed"},
    {65, "cudaErrorLaunchMaxDepthExceeded", "kernels launch kernels too deeply"},
    {66, "cudaErrorLaunchFileScopedTex", "a kernel that a kernel launches uses a texture of its file"},
    {67, "cudaErrorLaunchFileScopedSurf", "a kernel that a kernel launches uses a surface of its file"},
    {68, "cudaErrorSyncDepthExceeded", "kernels wait for kernels too deeply"},
    {69, "cudaErrorLaunchPendingCountExceeded", "too many launches by kernels are pending"},
    {98, "cudaErrorInvalidDeviceFunction", "the function is no kernel, or has no form for this device"},
    {100, "CUDA_ERROR_NO_DEVICE", "there is no such device"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "no device has this number"},
    {102, "CUDA_ERROR_DEVICE_NOT_LICENSED", "the device has no licence"},
    {103, "cudaErrorSoftwareValidityNotEstablished", "the check of the system's software has not passed"},
    {127, "cudaErrorStartupFailure", "the CUDA runtime library could not start"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "the code is not in a form that the driver knows"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "the context is current already"},
    {205, "CUDA_ERROR_MAP_FAILED", "mapping has failed"},
    {206, "CUDA_ERROR_UNMAP_FAILED", "unmapping has failed"},
    {207, "CUDA_ERROR_ARRAY_IS_MAPPED", "the array is mapped"},
    {208, "CUDA_ERROR_ALREADY_MAPPED", "it is mapped already"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "the code has no form for this device"},
    {210, "CUDA_ERROR_ALREADY_ACQUIRED", "it was acquired already"},
    {211, "CUDA_ERROR_NOT_MAPPED", "it is not mapped"},
    {212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "it is not mapped as an array"},
    {213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER", "it is not mapped as a pointer"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "memory of the device had an error that it could not correct"},
    {215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "the device has no such limit"},
    {216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "another thread uses the context"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "these devices cannot reach each other's memory"},
    {218, "CUDA_ERROR_INVALID_PTX", "the PTX text does not compile"},
    {219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "the graphics context is not valid"},
    {220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "NVLink had an error that it could not correct"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "the library that compiles PTX was not found"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX text is newer than the driver"},
    {223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "compiling PTX is switched off"},
    {224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "the device has no such execution affinity"},
    {225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", "the code synchronises on the device in a way that is gone"},
    {226, "CUDA_ERROR_CONTAINED",
     "the device has contained an error, and the process cannot use it any more"},
    {300, "CUDA_ERROR_INVALID_SOURCE", "the source does not compile"},
    {301, "CUDA_ERROR_FILE_NOT_FOUND", "the file was not found"},
    {302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "a symbol of a shared library was not found"},
    {303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "a shared library could not be set up"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "a call of the operating system has failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "not possible in the present state"},
    {402, "CUDA_ERROR_LOSSY_QUERY", "the answer would leave something out"},
    {500, "CUDA_ERROR_NOT_FOUND", "no symbol of that name"},
    {600, "CUDA_ERROR_NOT_READY", "not finished yet"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an address that is not valid on the device was accessed"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "the launch needs more resources than there are"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the kernel ran too long and was stopped"},
    {703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "the kernel's texturing mode does not fit"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "access to the other device is on already"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "access to the other device is not on"},
    {708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "the device's primary context is in use"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context was destroyed"},
    {710, "CUDA_ERROR_ASSERT", "an assertion in a kernel has failed"},
    {711, "CUDA_ERROR_TOO_MANY_PEERS", "no more devices can reach each other"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "the host memory is registered already"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "the host memory is not registered"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "a kernel's stack overflowed or was damaged"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "a kernel met an instruction that is not valid"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "a kernel accessed an address that is not aligned"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "a kernel accessed an address of the wrong kind of memory"},
    {718, "CUDA_ERROR_INVALID_PC", "a kernel ran out of its code"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "a kernel or host function failed"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "the cooperative launch has more blocks than fit at once"},
    {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "a kernel ended without giving its tensor memory back"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "not permitted, as no call is in a host function"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "the system's services for the device do not run yet"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "the driver's library and its kernel module are of different versions"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "the compatibility library does not know this device"},
    {805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "the MPS server cannot be reached"},
    {806, "CUDA_ERROR_MPS_RPC_FAILURE", "a call to the MPS server has failed"},
    {807, "CUDA_ERROR_MPS_SERVER_NOT_READY", "the MPS server is not ready"},
    {808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "the MPS server has no room for another client"},
    {809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "the device has no room for another MPS connection"},
    {810, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "the MPS server has ended this client"},
    {811, "CUDA_ERROR_CDP_NOT_SUPPORTED", "kernels cannot launch kernels here"},
    {812, "CUDA_ERROR_CDP_VERSION_MISMATCH", "code of different versions of launches by kernels was mixed"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier error has invalidated the capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "it would merge two independent captures"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture did not begin on this stream"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a stream that was forked into the capture was not joined"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "it would depend on work that is not in the capture"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "the legacy default stream would depend on a blocking stream that is capturing"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "the event was last recorded in a capture"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "the capture began on another thread"},
    {909, "CUDA_ERROR_TIMEOUT", "the wait has timed out"},
    {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the new graph differs in what an update cannot change"},
    {911, "CUDA_ERROR_EXTERNAL_DEVICE", "a device outside of CUDA has failed"},
    {912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "the cluster does not fit the kernel"},
    {913, "CUDA_ERROR_FUNCTION_NOT_LOADED", "the function is not loaded"},
    {914, "CUDA_ERROR_INVALID_RESOURCE_TYPE", "the resource is of the wrong type"},
    {915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "the resource is not set up for this"},
    {916, "CUDA_ERROR_KEY_ROTATION", "the key of the secure channel is being exchanged"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
/* clang-format on */

static const result_words *find_words(int result)
{
    static const result_words none = {-1, "unknown number",
                                      "newer than this library, or none of CUDA's"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].number == result)
            return &words[i];
    return &none;
}

const char *ph__result_name(int result)
{
    return find_words(result)->name;
}

const char *ph__result_text(int result)
{
    return find_words(result)->text;
}

bool ph__result_is_sticky(int result)
{
    switch (result) {
    case 214: /* errors of the hardware */
    case 220:
    case 226:
    case PH__R_ILLEGAL_ADDRESS:
    case 702: /* a kernel that ran too long */
    case 710: /* a failed assertion in a kernel */
    /* faults of a kernel, to 719; 713 is a host address that is not registered, and harmless */
    case 714:
    case 715:
    case 716:
    case 717:
    case 718:
    case PH__R_LAUNCH_FAILED:
    case 721: /* another fault of a kernel */
    case 911: /* of a device that CUDA waited for */
        return true;
    default:
        return false;
    }
}

const char *ph__result_lost(int result)
{
    return ph__result_is_sticky(result)
               ? "; the device is lost: destroying works, every other call fails until "
                 "the process ends"
               : "";
}

ph_status ph__status_of_result(int result)
{
    if (result >= PH__R_CAPTURE_UNSUPPORTED && result <= PH__R_CAPTURE_WRONG_THREAD)
        return PH_ERROR_CAPTURE;
    switch (result) {
    case PH__R_OK:
        return PH_OK;
    case PH__R_INVALID_VALUE:
        return PH_ERROR_ARGUMENT;
    case PH__R_OUT_OF_MEMORY:
        return PH_ERROR_DEVICE_MEMORY;
    case PH__R_NO_DEVICE:
    case PH__R_INVALID_DEVICE:
        return PH_ERROR_NOT_FOUND;
    case PH__R_ILLEGAL_STATE:
    case PH__R_NOT_PERMITTED:
        return PH_ERROR_STATE;
    case PH__R_NOT_SUPPORTED:
        return PH_ERROR_UNSUPPORTED;
    case PH__R_UPDATE_FAILURE:
        return PH_ERROR_MISMATCH;
    default:
        return PH_ERROR_DEVICE;
    }
}
