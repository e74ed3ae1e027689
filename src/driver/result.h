/* SPDX-License-Identifier: MIT */
/* driver/result.h: the numbers that drivers answer, which are CUDA's, and their meaning. */
#ifndef PH_DRIVER_RESULT_H
#define PH_DRIVER_RESULT_H
#include <phonograph/status.h>
#include <stdbool.h>

enum {
    PH__R_OK = 0,
    PH__R_INVALID_VALUE = 1,
    PH__R_OUT_OF_MEMORY = 2,
    PH__R_NO_DEVICE = 100,
    PH__R_INVALID_DEVICE = 101,
    PH__R_INVALID_IMAGE = 200,
    PH__R_INVALID_CONTEXT = 201,
    PH__R_NO_BINARY = 209,
    PH__R_INVALID_PTX = 218,
    PH__R_INVALID_HANDLE = 400,
    PH__R_ILLEGAL_STATE = 401,
    PH__R_NOT_FOUND = 500,
    PH__R_NOT_READY = 600,
    PH__R_ILLEGAL_ADDRESS = 700,
    PH__R_LAUNCH_FAILED = 719,
    PH__R_NOT_PERMITTED = 800,
    PH__R_NOT_SUPPORTED = 801,
    PH__R_CAPTURE_UNSUPPORTED = 900,
    PH__R_CAPTURE_INVALIDATED = 901,
    PH__R_CAPTURE_MERGE = 902,
    PH__R_CAPTURE_UNMATCHED = 903,
    PH__R_CAPTURE_UNJOINED = 904,
    PH__R_CAPTURE_ISOLATION = 905,
    PH__R_CAPTURE_IMPLICIT = 906,
    PH__R_CAPTURED_EVENT = 907,
    PH__R_CAPTURE_WRONG_THREAD = 908,
    PH__R_UPDATE_FAILURE = 910
};

/* CUDA's name and meaning of a number: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not
 * permitted when stream is capturing". */
const char *ph__result_name(int result);
const char *ph__result_text(int result);

/* True for numbers after which every call on the device fails, until the process has ended: 700
 * (an invalid address), 719, ... */
bool ph__result_is_sticky(int result);
/* "; the device is lost: ..." for a sticky number, else "". */
const char *ph__result_lost(int result);

/* The status that a number becomes; 2 as device memory. */
ph_status ph__status_of_result(int result);
#endif
