/* SPDX-License-Identifier: MIT */
/* tests/cuda/fake.h: for tests of the CUDA driver over the software libcuda, which they also
 * call themselves, as a user's program calls CUDA. */
#ifndef PH_TESTS_CUDA_FAKE_H
#define PH_TESTS_CUDA_FAKE_H
#include "support/support.h"

#include "base/alloc.h"
#include "driver/cuda/load/load.h"
#include "fake/fake_cuda.h"
#include <stdio.h>
#include <string.h>

/* First in every test. The software libcuda has no place beside a real one. */
#define NEED_FAKE()                                                                                \
    do {                                                                                           \
        if (!fake_cuda()) {                                                                        \
            print_message("skipped: it needs the tests' own libcuda, which was not found here\n"); \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

/* A call of CUDA's own that must go well. */
#define cu(call) assert_int_equal(ph__cu.call, 0)

/* ---- contexts ---- */
static inline ph__cu_context primary(int gpu)
{
    ph__cu_context context;
    assert_int_equal(ph__cuda_load(), 0);
    cu(DevicePrimaryCtxRetain(&context, gpu));
    return context;
}

static inline void pop(ph__cu_context expected)
{
    ph__cu_context popped;
    cu(CtxPopCurrent(&popped));
    assert_ptr_equal(popped, expected);
}

/* A stream of the user's in that context, with nothing current before and after. */
static inline ph__cu_stream stream_in(ph__cu_context context)
{
    ph__cu_stream stream;
    cu(CtxPushCurrent(context));
    cu(StreamCreateWithPriority(&stream, PH__STREAM_NON_BLOCKING, 0));
    pop(context);
    return stream;
}

/* What contexts still had when they went, in words; "" for nothing. */
static inline const char *left_behind(void)
{
    static char words[256];
    fake_cuda_counts left;
    fake_cuda()->count(NULL, &left);
    words[0] = '\0';
    if (left.streams || left.events || left.modules || left.graphs || left.execs || left.memories ||
        left.mappings || left.reservations || left.plain || left.pinned)
        (void)snprintf(words, sizeof words,
                       "%d streams, %d events, %d modules, %d graphs, %d executables, %d memories, "
                       "%d mappings, "
                       "%d reservations, %d plain and %d pinned bytes",
                       (int)left.streams, (int)left.events, (int)left.modules, (int)left.graphs,
                       (int)left.execs, (int)left.memories, (int)left.mappings,
                       (int)left.reservations, (int)left.plain, (int)left.pinned);
    return words;
}
#endif
