/* SPDX-License-Identifier: MIT */
/* tests/unit/host_child.h: what the tests of child graphs share: captures of digits, whose order
 * shows. */
#ifndef PH_TESTS_UNIT_HOST_CHILD_H
#define PH_TESTS_UNIT_HOST_CHILD_H
#include "support/host_driver.h"

static inline int open_world(void **state)
{
    static world w;
    world_open(&w, 0);
    *state = &w;
    return 0;
}

static inline int close_world(void **state)
{
    world_close(*state);
    return 0;
}

/* words[at] = words[at] * 10 + digit, for each digit in turn. */
static inline void launch_digits(const world *w, ph__drv_stream *stream, int32_t at,
                                 const char *digits)
{
    for (; *digits; digits++)
        assert_int_equal(launch_add(w, stream, at, 10, *digits - '0'), 0);
}

static inline ph__drv_graph *capture_digits(const world *w, const char *digits)
{
    begin(w->a);
    launch_digits(w, w->a, 0, digits);
    return end(w->a);
}

static inline void add_child(ph__drv_stream *stream, ph__drv_graph *graph)
{
    assert_int_equal(drv->child(stream, graph), 0);
}

/* Runs once and waits; words[0] is then expected. */
static inline void run_to(const world *w, ph__drv_exec *exec, int32_t expected)
{
    w->words[0] = 0;
    launch(exec, w->a);
    wait_for(w->a);
    assert_int_equal(w->words[0], expected);
}

static inline void gone(ph__drv_exec *exec, ph__drv_graph *graph)
{
    drv->exec_destroy(exec);
    drv->graph_destroy(graph);
}

#endif
