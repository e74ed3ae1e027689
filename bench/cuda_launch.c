/* SPDX-License-Identifier: MIT */
/* bench/cuda_launch.c: ph_launch beside cuLaunchKernel, with its arguments as a list of pointers
 * and as one buffer: a hundred launches at a time on an idle stream, fewer than it has room for. */
#include "cuda/bench.h"

enum {
    LAUNCHES = 100
};
static const double limit = 1.15;

static void ours(void *user)
{
    OK(bench_chain(user, LAUNCHES));
}

static void list(void *user)
{
    const bench *b = user;
    for (int i = 0; i < LAUNCHES; i++) {
        bench_args args = bench_link(b, i);
        bench_raw_launch(b, &args, b->native);
    }
}

static void buffer(void *user)
{
    const bench *b = user;
    for (int i = 0; i < LAUNCHES; i++) {
        bench_args args = bench_link(b, i);
        size_t size = offsetof(bench_args, n) + sizeof args.n;
        void *extra[] = {RAW_PARAM_POINTER, &args, RAW_PARAM_SIZE, &size, RAW_PARAM_END};
        RAW_OK(raw.launch(b->function, BENCH_BLOCKS, 1, 1, BENCH_THREADS, 1, 1, 0, b->native, NULL,
                          extra));
    }
}

static void wait(void *user)
{
    bench_wait(user);
}

int main(int argc, char **argv)
{
    bench b;
    bench_open(&b, "cuda_launch", 501, argc, argv);
    bench_side sides[] = {
        {.name = "ph_launch", .run = ours, .after = wait, .user = &b},
        {.name = "cuLaunchKernel, list", .run = list, .after = wait, .user = &b, .limit = limit},
        {.name = "cuLaunchKernel, buffer",
         .run = buffer,
         .after = wait,
         .user = &b,
         .limit = limit},
    };
    bench_compare(&b, "a launch", 1, sides, 3, LAUNCHES);
    return bench_close(&b);
}
