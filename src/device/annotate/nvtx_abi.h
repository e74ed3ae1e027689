/* SPDX-License-Identifier: MIT */
/* device/annotate/nvtx_abi.h: what this library uses of the interface between programs and tools
 * that listen to NVTX ranges (version 3), declared by us. tests/headers/nvtx_abi.c holds it
 * against NVIDIA's header where that is found. */
#ifndef PH_DEVICE_ANNOTATE_NVTX_ABI_H
#define PH_DEVICE_ANNOTATE_NVTX_ABI_H
#include <stddef.h>
#include <stdint.h>

typedef struct nvtxDomainRegistration_st *ph__nvtx_domain; /* nvtxDomainHandle_t */

enum {
    PH__NVTX_VERSION = 3,
    PH__NVTX_COLOR_UNKNOWN = 0,
    PH__NVTX_PAYLOAD_UNKNOWN = 0,
    PH__NVTX_MESSAGE_ASCII = 1,
    PH__NVTX_MESSAGE_UNICODE = 2,
    PH__NVTX_MESSAGE_REGISTERED = 3,
    PH__NVTX_NO_LEVEL = -2 /* of a range, where nobody counts them */
};
typedef struct ph__nvtx_event { /* nvtxEventAttributes_t */
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
} ph__nvtx_event;

/* The functions that a tool may take over, by module; each has a place whose address the tool is
 * given. */
enum {
    PH__NVTX_MODULES = 7, /* numbered from 1 */
    PH__NVTX_MODULE_CORE = 1,
    PH__NVTX_MODULE_CUDA = 2,
    PH__NVTX_MODULE_OPENCL = 3,
    PH__NVTX_MODULE_CUDART = 4,
    PH__NVTX_MODULE_CORE2 = 5,
    PH__NVTX_MODULE_SYNC = 6,
    PH__NVTX_MOST_FUNCTIONS = 16,
    PH__NVTX_CORE_SIZE = 16,
    PH__NVTX_CUDA_SIZE = 9,
    PH__NVTX_OPENCL_SIZE = 15,
    PH__NVTX_CUDART_SIZE = 7,
    PH__NVTX_CORE2_SIZE = 16,
    PH__NVTX_SYNC_SIZE = 7,
    PH__NVTX_RANGE_PUSH_EX = 8, /* of CORE */
    PH__NVTX_RANGE_PUSH_A = 9,
    PH__NVTX_RANGE_PUSH_W = 10,
    PH__NVTX_RANGE_POP = 11,
    PH__NVTX_DOMAIN_RANGE_PUSH = 4, /* of CORE2 */
    PH__NVTX_DOMAIN_RANGE_POP = 5,
    PH__NVTX_DOMAIN_REGISTER_A = 10,
    PH__NVTX_DOMAIN_REGISTER_W = 11,
    PH__NVTX_DOMAIN_CREATE = 12,
    PH__NVTX_DOMAIN_CREATE_W = 13,
    PH__NVTX_DOMAIN_DESTROY = 14
};
typedef void (*ph__nvtx_function)(void);
typedef int (*ph__nvtx_push_fn)(ph__nvtx_domain domain, const ph__nvtx_event *event);
typedef int (*ph__nvtx_pop_fn)(ph__nvtx_domain domain);
typedef ph__nvtx_domain (*ph__nvtx_create_fn)(const char *name);

/* The tables that a tool asks for by number, when it is told where to ask. */
enum {
    PH__NVTX_TABLE_CALLBACKS = 1,
    PH__NVTX_TABLE_VERSION = 3
};
typedef struct ph__nvtx_callbacks { /* NvtxExportTableCallbacks; module is an enumeration there */
    size_t size;
    int (*functions)(int module, ph__nvtx_function ***places, unsigned *count);
} ph__nvtx_callbacks;
typedef struct ph__nvtx_version_info { /* NvtxExportTableVersionInfo */
    size_t size;
    uint32_t version, reserved;
    void (*set_tool_version)(uint32_t version);
} ph__nvtx_version_info;
typedef const void *(*ph__nvtx_table_fn)(uint32_t number);
typedef int (*ph__nvtx_start_fn)(
    ph__nvtx_table_fn table); /* InitializeInjectionNvtx2: not 0 when the tool listens */
#endif
