/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/logs.c: hearing from the driver which calls fail while captures are open,
 * those of other code included. */
#include "driver/cuda/capture/logs.h"
#include "base/environment.h"
#include "base/line.h"
#include "base/log.h"
#include "driver/cuda/capture/cupti.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/load/load.h"
#include "driver/suspects.h"
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* ---- reading a line ---- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* How long the name is without an ending that is `letters`, and digits behind it when those are
 * wanted. */
static size_t without_ending(const char *name, size_t length, const char *letters, bool digits)
{
    size_t end = length, count = strlen(letters);
    while (digits && end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
        end--;
    if ((digits && end == length) || end <= count ||
        memcmp(name + end - count, letters, count) != 0)
        return length;
    return end - count;
}

void ph__cuda_call_name(char out[64], const char *name, size_t length)
{
    length = without_ending(name, length, "_ptsz", false);
    length = without_ending(name, length, "_ptds", false);
    length = without_ending(name, length, "_v", true);
    if (length > 63)
        length = 63;
    memcpy(out, name, length);
    out[length] = '\0';
}

/* The part of a line that is left to read. */
typedef struct reader {
    const char *at, *end;
} reader;

static bool skip_word(reader *r, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static bool read_number(reader *r, int *out)
{
    int number = 0, digits = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && digits < 9; r->at++, digits++)
        number = number * 10 + (*r->at - '0');
    *out = number;
    return digits > 0;
}

static size_t skip_name(reader *r)
{
    const char *start = r->at;
    while (r->at < r->end && is_name(*r->at))
        r->at++;
    return (size_t)(r->at - start);
}

static bool read_report(ph__cuda_log_line *out, reader r)
{
    if (!skip_word(&r, "Returning ") || !read_number(&r, &out->result) || !skip_word(&r, " (") ||
        skip_name(&r) == 0 || !skip_word(&r, ") from "))
        return false;
    const char *name = r.at;
    size_t length = skip_name(&r);
    ph__cuda_call_name(out->call, name, length);
    return length > 0;
}

bool ph__cuda_log_parse(ph__cuda_log_line *out, const char *text, size_t length)
{
    reader r = {text, text + strnlen(text, length)};
    for (; r.at < r.end; r.at++)
        if (*r.at == 'R' && read_report(out, r))
            return true;
    return false;
}

/* ---- which failures matter ---- numbers of the capture rules, less those calls that leave the
 * capture as it is (rules.def) or end it themselves, and 901, which only says that it was dead
 * before. Others (1, 2, 201, ...) never kill one. */

bool ph__cuda_may_kill(const char *call, int result)
{
    static const struct {
        const char *call;
        int result;
    } harmless[] = {
        {"cuStreamBeginCapture", PH__R_CAPTURE_UNSUPPORTED}, /* of a default stream: never begins */
        {"cuStreamEndCapture", PH__R_CAPTURE_UNJOINED},
        {"cuEventElapsedTime", PH__R_CAPTURED_EVENT},
        {"cuStreamIsCapturing", PH__R_CAPTURE_IMPLICIT},
        {"cuStreamGetCaptureInfo", PH__R_CAPTURE_IMPLICIT},
    };
    if (result != PH__R_CAPTURE_UNSUPPORTED &&
        (result < PH__R_CAPTURE_MERGE || result > PH__R_CAPTURED_EVENT))
        return false;
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (harmless[i].result == result && strcmp(harmless[i].call, call) == 0)
            return false;
    return true;
}

/* ---- the callback ---- comes on the thread that made the call, from inside it: first lines
 * that explain, then the report. The callback acquires no lock, calls no driver and allocates
 * nothing, with one exception that is glibc's: where this library was loaded by dlopen, a
 * thread's first touch of its thread-local data makes room for them. */

static atomic_uint open_captures;
static _Thread_local char explanation[192];

static void on_line(void *user, int level, char *message, size_t length)
{
    ph__cuda_log_line line;
    (void)user;
    if (level != PH__CU_LOG_ERROR || !message ||
        atomic_load_explicit(&open_captures, memory_order_acquire) == 0)
        return;
    if (!ph__cuda_log_parse(&line, message, length)) {
        size_t bytes =
            strnlen(message, length < sizeof explanation ? length : sizeof explanation - 1);
        memcpy(explanation, message, bytes);
        explanation[bytes] = '\0';
        return;
    }
    if (ph__cuda_may_kill(line.call, line.result))
        ph__suspect_note(0, line.call, line.result, explanation);
    explanation[0] = '\0';
}

/* ---- starting ---- once, for good: to unregister might wait for callbacks that are running on
 * other threads, and the end of a capture is no place for that; a callback while no capture is
 * open costs one load. So this library must not be unloaded after that. */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char trouble[256]; /* for the log */

static void stay_loaded(void)
{
    Dl_info here;
    if (dladdr((void *)trouble, &here) != 0 && here.dli_fname)
        (void)dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static void register_callback(void)
{
    ph__cu_logs handle;
    if (!ph__cu.LogsRegisterCallback)
        return;
    int result = ph__cu.LogsRegisterCallback(on_line, NULL, &handle);
    if (result != PH__R_OK)
        ph__line_format(
            trouble, sizeof trouble,
            "what kills a capture will not be named: cuLogsRegisterCallback gave %d (%s)", result,
            ph__result_name(result));
}

static void start_cupti(void)
{
    char why[256];
    if (ph__cuda_cupti_start(why))
        return;
    ph__line_format(trouble, sizeof trouble, "PH_CULPRIT=cupti: %s", why);
    register_callback();
}

static void start_log_callback(void)
{
    const char *wish = ph__environment("PH_CULPRIT");
    if (wish && strcmp(wish, "off") == 0)
        return;
    stay_loaded();
    if (wish && strcmp(wish, "cupti") == 0) {
        start_cupti();
        return;
    }
    register_callback();
    if (wish && wish[0] && !trouble[0])
        ph__line_format(trouble, sizeof trouble,
                        "PH_CULPRIT is \"%s\": only \"cupti\" and \"off\" are known", wish);
}

void ph__cuda_logs_begin(void)
{
    (void)pthread_once(&once, start_log_callback);
    atomic_fetch_add(&open_captures, 1);
    if (trouble[0])
        PH__LOG_ONCE(PH_LOG_WARNING, "%s", trouble);
}

void ph__cuda_logs_end(void)
{
    atomic_fetch_sub(&open_captures, 1);
}

void ph__cuda_capture_watch(bool begins)
{
    if (begins)
        ph__cuda_logs_begin();
    else
        ph__cuda_logs_end();
}
