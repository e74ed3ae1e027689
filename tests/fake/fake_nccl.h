/* SPDX-License-Identifier: MIT */
/* tests/fake/fake_nccl.h: what tests may ask of the software libnccl.so.2 of this folder, and tell
 * it.
 *
 * Its ranks are processes of one machine, and its collectives host functions on streams of the
 * software libcuda, which wait for each other through shared memory. As NVIDIA's it waits for good
 * where ranks do not do the same, until it is aborted. The first group of a communicator is
 * submitted by a thread, as NVIDIA's connects the ranks then. The environment says what it plays:
 *
 *   FAKE_NCCL_VERSION=22809   what ncclGetVersion says
 *
 * A process that ends with communicators or memory of it left says so and exits with 97. So does
 * one that gives back registered memory, or ends a communicator with registrations. */
#ifndef PH_TESTS_FAKE_NCCL_H
#define PH_TESTS_FAKE_NCCL_H
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fake_nccl_controls {
    /* The next `times` calls of one function ("ncclAllReduce") answer `result` and do nothing. */
    void (*fail_call)(const char *name, int result, int times);
    /* From now on every communicator of the process reports this error; 0: no longer. */
    void (*set_async_error)(int result);
    int64_t (*calls_of)(const char *name);
    int64_t (*communicators)(void); /* that are there */
    /* How the newest communicator was told to be used: 1 (2.29 or newer) and 0 (older), captured
     * and eager collectives are not mixed; 2: they are. */
    int (*usage)(void);
    int64_t (*memories)(void); /* pieces of ncclMemAlloc that are there */
    bool (*is_registered)(const void *address, size_t bytes); /* all of it, in one piece */
} fake_nccl_controls;

/* NULL where there is none, or a real one. */
static inline const fake_nccl_controls *fake_nccl(void)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    return library ? (const fake_nccl_controls *)dlsym(library, "fake_nccl_exports") : NULL;
}
#endif
