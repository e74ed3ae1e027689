/* SPDX-License-Identifier: MIT */
/* tests/unit/cuda_logs.c: reading the driver's log lines, and which failures may have killed a
 * capture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "driver/cuda/capture/logs.h"
#include "support/test.h"
#include <stdlib.h>
#include <string.h>

static bool parse(ph__cuda_log_line *out, const char *text)
{
    memset(out, 0x5a, sizeof *out);
    return ph__cuda_log_parse(out, text, strlen(text));
}

TEST(a_report_names_the_number_and_the_call)
{
    static const struct {
        const char *text, *call;
        int result;
    } reports[] = {
        {"Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2", "cuMemAlloc",
         900},
        {"Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuStreamSynchronize",
         "cuStreamSynchronize", 900},
        {"Returning 907 (CUDA_ERROR_CAPTURED_EVENT) from cuEventQuery\n", "cuEventQuery", 907},
        {"Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuPointerGetAttribute.",
         "cuPointerGetAttribute", 1},
        {"[12:00:00.123][4242][CUDA][E] Returning 906 (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) from "
         "cuMemsetD8_v2_ptds",
         "cuMemsetD8", 906},
        {"Returning 900 (X) from cuStreamGetCaptureInfo_v3_ptsz", "cuStreamGetCaptureInfo", 900},
        {"Returning to Returning 901 (X) from cuStreamEndCapture", "cuStreamEndCapture", 901},
        {"Returning 900 (cudaErrorStreamCaptureUnsupported) from cudaMalloc", "cudaMalloc", 900},
        {"Returning 1 (X) from _v2", "_v2", 1},
        {"Returning 1 (X) from cuMemsetD2D8_v", "cuMemsetD2D8_v", 1},
        {"Returning 1 (X) from cuMemcpy2D_v12", "cuMemcpy2D", 1},
    };
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        ph__cuda_log_line line;
        assert_true(parse(&line, reports[i].text));
        assert_int_equal(line.result, reports[i].result);
        assert_string_equal(line.call, reports[i].call);
    }
}

TEST(other_lines_are_no_reports)
{
    static const char *const lines[] = {
        "",
        "Stream handle is not valid",
        "Recorded event not allowed on stream",
        "Returning",
        "Returning ",
        "Returning (CUDA_ERROR_UNKNOWN) from cuInit",
        "Returning 900",
        "Returning 900 (",
        "Returning 900 () from cuInit",
        "Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)",
        "Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from ",
        "Returning 900 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED from cuInit",
        "Returning 99999999999999999999 (X) from cuInit",
        "Returning -1 (X) from cuInit",
        "returning 900 (X) from cuInit",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        ph__cuda_log_line line;
        assert_false(parse(&line, lines[i]));
    }
}

/* Every shorter line, in memory of exactly its bytes: nothing behind them is read. */
TEST(a_line_ends_at_its_length)
{
    static const char whole[] =
        "Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2";
    size_t report = strlen("Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from ");
    for (size_t length = 1; length < sizeof whole; length++) {
        char *text = malloc(length);
        assert_non_null(text);
        memcpy(text, whole, length);
        ph__cuda_log_line line;
        assert_int_equal(ph__cuda_log_parse(&line, text, length), length > report);
        if (length == sizeof whole - 1)
            assert_string_equal(line.call, "cuMemAlloc");
        free(text);
    }
    ph__cuda_log_line line;
    assert_true(ph__cuda_log_parse(&line, "Returning 2 (X) from cuInit\0_v2 more", 36));
    assert_string_equal(line.call, "cuInit");
}

TEST(long_names_are_cut)
{
    char text[256] = "Returning 900 (X) from ";
    size_t length = strlen(text);
    memset(text + length, 'c', 150);
    int64_t before = ph__alloc_count();
    ph__cuda_log_line line;
    assert_true(ph__cuda_log_parse(&line, text, length + 150));
    assert_int_equal(strlen(line.call), sizeof line.call - 1);
    assert_int_equal(ph__alloc_count(), before);
}

TEST(only_what_kills_captures_is_suspected)
{
    assert_true(ph__cuda_may_kill("cuMemAlloc", 900));
    assert_true(ph__cuda_may_kill("cuStreamWaitEvent", 902));
    assert_true(ph__cuda_may_kill("cuStreamEndCapture",
                                  903)); /* of a stream that has joined: the capture is invalid */
    assert_true(ph__cuda_may_kill("cuStreamWaitEvent", 905));
    assert_true(ph__cuda_may_kill("cuMemcpy", 906));
    assert_true(ph__cuda_may_kill("cuEventQuery", 907));
    assert_true(ph__cuda_may_kill("cudaMalloc", 900));
    static const int harmless[] = {0,   1,   2,   201, 400, 401, 600, 700,
                                   801, 899, 901, 908, 909, 910, -1};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        assert_false(ph__cuda_may_kill("cuMemAlloc", harmless[i]));
    assert_false(ph__cuda_may_kill("cuStreamEndCapture", 901));
    assert_false(ph__cuda_may_kill("cuStreamEndCapture", 904));
    assert_false(ph__cuda_may_kill("cuStreamEndCapture", 908));
    assert_false(ph__cuda_may_kill("cuStreamBeginCapture", 900));
    assert_false(ph__cuda_may_kill("cuEventElapsedTime", 907));
    assert_false(ph__cuda_may_kill("cuStreamIsCapturing", 906));
    assert_false(ph__cuda_may_kill("cuStreamGetCaptureInfo", 906));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_names_the_number_and_the_call),
        cmocka_unit_test(other_lines_are_no_reports),
        cmocka_unit_test(a_line_ends_at_its_length),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(only_what_kills_captures_is_suspected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
