/* SPDX-License-Identifier: MIT */
/* tests/support/fixture.h: what a test has around it: a world, and of streams, pools, graphs and
 * memory the ones that the test program names. */
#ifndef PH_TESTS_SUPPORT_FIXTURE_H
#define PH_TESTS_SUPPORT_FIXTURE_H
#include "support/support.h"
#include "support/test.h"

/* Device memory of 4-byte elements: {&x, N} as it comes, {&x, N, T_INTS, 1} or
 * {&x, N, T_FLOATS, 0.5} filled. */
typedef enum t_fill_kind {
    T_UNFILLED,
    T_INTS,
    T_FLOATS
} t_fill_kind;
typedef struct t_array {
    void *at; /* the address of the test's pointer */
    size_t count;
    t_fill_kind fill;
    double value;
} t_array;

/* Each part is the address of a variable of the test; NULL ends a list. Parts are made on the
 * world's stream in the order of the members, and go in the opposite one. */
typedef struct t_fixture {
    t_world *world;
    ph_stream **streams[3];
    ph_pool **pool;
    ph_graph **graphs[3];
    t_array arrays[5];
    bool keep_graph;     /* an option of the graphs */
    bool log;            /* messages are kept from the end of opening to the begin of closing */
    bool leaves_nothing; /* closing checks t_nothing_is_left */
} t_fixture;

/* Fails the test on error. No work is in flight after opening. */
void t_fixture_open(const t_fixture *fixture);
/* Fails, too, where host memory of the library is left. Variables that are NULL are passed over. */
void t_fixture_close(const t_fixture *fixture);

/* Waits for the device, trims it, and fails unless it has no memory in use, deferred or reserved:
 * device memory and pinned memory. */
void t_nothing_is_left(ph_device *device);

/* ON_DEVICE(test) of a program's list: *state of the test is a device under test. */
int t_device_open(void **state);
int t_device_close(void **state);
#define ON_DEVICE(name) cmocka_unit_test_setup_teardown(name, t_device_open, t_device_close)

/* WORLD(world, .arrays = {{&x, N}}): open_world and close_world of a test program, for IN_WORLD. */
#define WORLD(...)                                                                                 \
    static const t_fixture fixture;                                                                \
    FIXTURE(open_world)                                                                            \
    {                                                                                              \
        t_fixture_open(&fixture);                                                                  \
        return 0;                                                                                  \
    }                                                                                              \
    FIXTURE(close_world)                                                                           \
    {                                                                                              \
        t_fixture_close(&fixture);                                                                 \
        return 0;                                                                                  \
    }                                                                                              \
    static const t_fixture fixture = {.world = &__VA_ARGS__}
#endif
