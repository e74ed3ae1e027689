/* SPDX-License-Identifier: MIT */
/* bench/cuda_slots.c: replaying a chain whose input is a slot, with another address each time
 * and with the same one, beside cuGraphExecKernelNodeSetParams and cuGraphLaunch, which look
 * nothing up. */
#include "cuda/rebound.h"
#include <stddef.h>

static const double limit = 1.15;

typedef struct state {
    rebound r;
    size_t slot;
} state;

static void replay_with(void *user)
{
    state *s = user;
    const ph_slot_value value = {s->slot, rebound_next(&s->r)};
    OK(ph_graph_replay_with(s->r.graph, s->r.bench->stream, &value, 1));
}

static void replay_unchanged(void *user)
{
    state *s = user;
    const ph_slot_value value = {s->slot, s->r.inputs[0]};
    OK(ph_graph_replay_with(s->r.graph, s->r.bench->stream, &value, 1));
}

static void raw_launch(void *user)
{
    const rebound *r = user;
    RAW_OK(raw.graph_launch(r->exec, r->bench->native));
}

static void measure(bench *b, int nodes)
{
    state s;
    rebound_open(&s.r, b, nodes);
    const ph_slot_place place = {0, offsetof(bench_args, x)};
    OK(ph_graph_slot_declare_address(&s.slot, s.r.graph, "x", bench_link(b, 0).x,
                                     BENCH_ITEMS * sizeof(int32_t), &place, 1, NULL));
    bench_side changed[] = {
        {.name = "phonograph", .run = replay_with, .after = rebound_wait, .user = &s},
        {.name = "the driver",
         .run = rebound_raw_set_and_launch,
         .after = rebound_wait,
         .user = &s.r,
         .limit = limit},
    };
    bench_compare(b, "another address", nodes, changed, 2, 1);
    bench_side same[] = {
        {.name = "phonograph", .run = replay_unchanged, .after = rebound_wait, .user = &s},
        {.name = "the driver, launch alone",
         .run = raw_launch,
         .after = rebound_wait,
         .user = &s.r,
         .limit = limit},
    };
    bench_compare(b, "the same address", nodes, same, 2, 1);
    rebound_close(&s.r);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {1, 10, 100};
    bench b;
    bench_open(&b, "cuda_slots", 1001, argc, argv);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(&b, sizes[i]);
    return bench_close(&b);
}
