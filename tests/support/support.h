/* SPDX-License-Identifier: MIT */
/* tests/support/support.h: what the tests share: a device with kernels on it, reading back,
 * error asserts, the captured log, gates. */
#ifndef PH_TESTS_SUPPORT_H
#define PH_TESTS_SUPPORT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/kernels.h"
#include <phonograph/phonograph.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- asserts ---- a failure prints the error record. assert_error also wants `part` in the
 * record's message. Record untouched. */
void t_check(ph_status got, ph_status want, const char *part, const char *expression,
             const char *file, int line);
#define assert_ok(expression) t_check((expression), PH_OK, NULL, #expression, __FILE__, __LINE__)
#define assert_status(expression, status)                                                          \
    t_check((expression), (status), NULL, #expression, __FILE__, __LINE__)
#define assert_error(expression, status, part)                                                     \
    t_check((expression), (status), (part), #expression, __FILE__, __LINE__)
/* The native code of the thread's record, 900 and so on. */
#define assert_native(code) assert_int_equal(ph_error_last()->native_code, (code))

/* PH_TEST_TIER=nightly asks for the long form of a test. */
bool t_nightly(void);

/* ---- the device under test ---- "host:threads=2", or what PH_TEST_DEVICE names: "cuda", say.
 * Tests of the library run on it; those of the host device's own doing name that one. */
const char *t_device_name(void);
bool t_on_host(void);
/* For tests that the host device alone can run: where another one is tested, says so ("skipped:
 * reason") and skips. */
void t_host_only(const char *reason);
/* The same for tests that the host device cannot run. */
void t_not_on_host(const char *reason);

/* The driver's own handle of the graph's template, or of its executable, as the device under test
 * has it. */
ph_status t_raw(void **out, ph_graph *graph);
ph_status t_raw_exec(void **out, ph_graph *graph);

/* Before many opens in a row: a GPU's context, which takes a tenth of a second to make, then
 * stays until the process ends. PH_TEST_HOLD_CONTEXT=1: from the first use of the device under
 * test on. */
void t_hold_context(void);

/* A device under test that has about so much memory: on the host by its setting, elsewhere by
 * ph_memory_set_limit. On failure *out is NULL. */
ph_status t_open_small(ph_device **out, size_t memory_bytes);
/* What a request beyond that gives, and what its message says. */
ph_status t_shortage(void);
const char *t_shortage_words(void);

/* ---- a device, a stream, and kernels ---- name NULL: the device under test. Fails the test on
 * error. */
typedef struct t_world {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *fill_i32, *add_i32, *fill_f32, *axpy_f32;
} t_world;
void t_open(t_world *world, const char *name);
/* the device under test, with options */
void t_open_with(t_world *world, const ph_device_options *options);
void t_open_world(t_world *world, ph_device *device); /* takes the device over */
void t_close(t_world *world);                         /* zeroes it */

/* Launches with 256 threads a block; for bodies of captures too, so they return the status. */
ph_status t_fill(const t_world *world, ph_stream *stream, int32_t *y, size_t n, int32_t value);
ph_status t_add(const t_world *world, ph_stream *stream, const int32_t *x, int32_t *y, size_t n,
                int32_t value);
ph_status t_fill_f(const t_world *world, ph_stream *stream, float *y, size_t n, float value);
ph_status t_axpy(const t_world *world, ph_stream *stream, float a, const float *x, float *y,
                 size_t n);
ph_launch_config t_config(size_t n);
/* Within the first two pages of block: an address that has all bits from 8 to 11 otherwise than
 * base. */
static inline void *t_opposite(void *block, const void *base)
{
    return (void *)((((uintptr_t)block + 4095) & ~(uintptr_t)4095) + (~(uintptr_t)base & 0xf00));
}

/* Reads back over the stream and waits. The sum; or fails unless every element is `value`. */
int64_t t_sum(const int32_t *y, size_t n, ph_stream *stream);
void t_all(const int32_t *y, size_t n, int32_t value, ph_stream *stream);
void t_read(void *host, const void *device, size_t bytes, ph_stream *stream);

/* ---- gates ---- hold a stream until opened: t_gate_wait submits a host function that blocks.
 * Zero is a closed gate, which must be opened before it goes.
 *
 * Where launches, copies or fills come behind a closed gate, t_gate_wait_guarded: such a call
 * may come back only when the gate is open. So it is under compute-sanitizer, which makes
 * launches of some kinds wait for all that they are ordered behind, and where queues are full
 * sooner. There (PH_TEST_LAUNCHES_WAIT=1) a thread opens a guarded gate that stays closed: the
 * call comes back, with nothing in flight any more. So what a test says of the time before it
 * opens a guarded gate, it says only `if (t_gate_held(&gate))`, asked after it has looked.
 * Elsewhere that is always true.
 *
 * A graph's executable that goes while a replay of it waits behind a closed gate may be waited
 * for by any GPU's driver: where a test resets, destroys or instantiates a graph again there,
 * its gate is {.behind = true}, and guarded on every GPU. */
typedef struct t_gate {
    atomic_uint open;
    atomic_bool forced; /* opened by the guard */
    bool behind;        /* an executable goes with a replay behind the gate */
    bool guarded;
    pthread_t guard;
} t_gate;
ph_status t_gate_wait(t_gate *gate, ph_stream *stream);
ph_status t_gate_wait_guarded(t_gate *gate, ph_stream *stream);
void t_gate_open(t_gate *gate);
/* Closes it again, guarded. Where it was captured: before each replay that it is to hold. */
void t_gate_shut(t_gate *gate);
void t_gate_body(void *gate); /* the host function itself */
bool t_gate_held(const t_gate *gate);
bool t_launches_wait(void); /* whether that is so */

/* ---- the log ---- between start and stop messages are kept instead of printed. */
void t_log_start(void);
size_t t_log_count(const char *part); /* messages that contain part */
void t_log_stop(void);
#endif
