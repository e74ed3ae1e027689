/* SPDX-License-Identifier: MIT */
/* tests/headers/nvtx_abi.c: holds src/device/annotate/nvtx_abi.h against NVIDIA's own header. It is
 * compiled, not run. */
#include "device/annotate/nvtx_abi.h"
#include "headers/same.h"
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

SAME_NUMBER(PH__NVTX_VERSION, NVTX_VERSION);
SAME_NUMBER(PH__NVTX_COLOR_UNKNOWN, NVTX_COLOR_UNKNOWN);
SAME_NUMBER(PH__NVTX_PAYLOAD_UNKNOWN, NVTX_PAYLOAD_UNKNOWN);
SAME_NUMBER(PH__NVTX_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
_Static_assert(_Generic((ph__nvtx_domain)0, nvtxDomainHandle_t : 1, default : 0),
               "nvtxDomainHandle_t");

_Static_assert(sizeof(ph__nvtx_event) == sizeof(nvtxEventAttributes_t), "nvtxEventAttributes_t");
FIELDS(ph__nvtx_event, nvtxEventAttributes_t)
{
    FIELD(version, version);
    FIELD(size, size);
    FIELD(category, category);
    FIELD(color_type, colorType);
    FIELD(color, color);
    FIELD(payload_type, payloadType);
    FIELD(payload, payload);
    FIELD(message_type, messageType);
    FIELD(message, message);
}

SAME_NUMBER(PH__NVTX_MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME_NUMBER(PH__NVTX_MODULE_CUDA, NVTX_CB_MODULE_CUDA);
SAME_NUMBER(PH__NVTX_MODULE_OPENCL, NVTX_CB_MODULE_OPENCL);
SAME_NUMBER(PH__NVTX_MODULE_CUDART, NVTX_CB_MODULE_CUDART);
SAME_NUMBER(PH__NVTX_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
SAME_NUMBER(PH__NVTX_MODULE_SYNC, NVTX_CB_MODULE_SYNC);
SAME_NUMBER(PH__NVTX_MODULES, NVTX_CB_MODULE_SIZE);
SAME_NUMBER(PH__NVTX_CORE_SIZE, NVTX_CBID_CORE_SIZE);
SAME_NUMBER(PH__NVTX_CUDA_SIZE, NVTX_CBID_CUDA_SIZE);
SAME_NUMBER(PH__NVTX_OPENCL_SIZE, NVTX_CBID_OPENCL_SIZE);
SAME_NUMBER(PH__NVTX_CUDART_SIZE, NVTX_CBID_CUDART_SIZE);
SAME_NUMBER(PH__NVTX_CORE2_SIZE, NVTX_CBID_CORE2_SIZE);
SAME_NUMBER(PH__NVTX_SYNC_SIZE, NVTX_CBID_SYNC_SIZE);
SAME_NUMBER(PH__NVTX_DOMAIN_RANGE_PUSH, NVTX_CBID_CORE2_DomainRangePushEx);
SAME_NUMBER(PH__NVTX_DOMAIN_RANGE_POP, NVTX_CBID_CORE2_DomainRangePop);
SAME_NUMBER(PH__NVTX_DOMAIN_CREATE, NVTX_CBID_CORE2_DomainCreateA);
SAME_NUMBER(PH__NVTX_DOMAIN_CREATE_W, NVTX_CBID_CORE2_DomainCreateW);
SAME_NUMBER(PH__NVTX_DOMAIN_DESTROY, NVTX_CBID_CORE2_DomainDestroy);
SAME_NUMBER(PH__NVTX_DOMAIN_REGISTER_A, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME_NUMBER(PH__NVTX_DOMAIN_REGISTER_W, NVTX_CBID_CORE2_DomainRegisterStringW);
SAME_NUMBER(PH__NVTX_RANGE_PUSH_EX, NVTX_CBID_CORE_RangePushEx);
SAME_NUMBER(PH__NVTX_RANGE_PUSH_A, NVTX_CBID_CORE_RangePushA);
SAME_NUMBER(PH__NVTX_RANGE_PUSH_W, NVTX_CBID_CORE_RangePushW);
SAME_NUMBER(PH__NVTX_RANGE_POP, NVTX_CBID_CORE_RangePop);
SAME_NUMBER(PH__NVTX_MESSAGE_UNICODE, NVTX_MESSAGE_TYPE_UNICODE);
SAME_NUMBER(PH__NVTX_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
SAME_NUMBER(PH__NVTX_NO_LEVEL, NVTX_NO_PUSH_POP_TRACKING);

SAME_NUMBER(PH__NVTX_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME_NUMBER(PH__NVTX_TABLE_VERSION, NVTX_ETID_VERSIONINFO);
FIELDS(ph__nvtx_callbacks, NvtxExportTableCallbacks)
{
    FIELD(size, struct_size);
    FIELD(functions, GetModuleFunctionTable);
}

FIELDS(ph__nvtx_version_info, NvtxExportTableVersionInfo)
{
    FIELD(size, struct_size);
    FIELD(version, version);
    FIELD(set_tool_version, SetInjectionNvtxVersion);
}
_Static_assert(_Generic((ph__nvtx_table_fn)0, NvtxGetExportTableFunc_t : 1, default : 0),
               "NvtxGetExportTableFunc_t");
_Static_assert(_Generic((ph__nvtx_start_fn)0, NvtxInitializeInjectionNvtxFunc_t : 1, default : 0),
               "NvtxInitializeInjectionNvtxFunc_t");
_Static_assert(_Generic((ph__nvtx_pop_fn)0, nvtxDomainRangePop_impl_fntype : 1, default : 0),
               "nvtxDomainRangePop");
_Static_assert(_Generic((ph__nvtx_create_fn)0, nvtxDomainCreateA_impl_fntype : 1, default : 0),
               "nvtxDomainCreateA");
