/* SPDX-License-Identifier: MIT */
/* bench/cuda_rebind.c: giving the first kernel of a chain another address and replaying, beside
 * cuGraphExecKernelNodeSetParams and cuGraphLaunch. The driver's call crashes where no context
 * is current; the library's does not, and what that costs is shown too. */
#include "cuda/rebound.h"

static const double limit = 1.1;

static void rebind(void *user)
{
    rebound *r = user;
    bench_args args = bench_link(r->bench, 0);
    args.x = rebound_next(r);
    OK(ph_graph_node_set_launch(r->graph, 0, &r->bench->config, &args, sizeof args));
    OK(ph_graph_replay(r->graph, r->bench->stream));
}

static void drop_context(void *user)
{
    (void)user;
    RAW_OK(raw.set_current(NULL));
}

static void restore_context(void *user)
{
    const rebound *r = user;
    RAW_OK(raw.set_current(r->bench->context));
    bench_wait(r->bench);
}

static void measure(bench *b, int nodes)
{
    rebound r;
    rebound_open(&r, b, nodes);
    bench_side sides[] = {
        {.name = "phonograph", .run = rebind, .after = rebound_wait, .user = &r},
        {.name = "the driver",
         .run = rebound_raw_set_and_launch,
         .after = rebound_wait,
         .user = &r,
         .limit = limit},
        {.name = "phonograph, no context",
         .before = drop_context,
         .run = rebind,
         .after = restore_context,
         .user = &r},
    };
    bench_compare(b, "set one, launch", nodes, sides, 3, 1);
    rebound_close(&r);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {1, 10, 100};
    bench b;
    bench_open(&b, "cuda_rebind", 1001, argc, argv);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, sizes[i]);
    return bench_close(&b);
}
