/* SPDX-License-Identifier: MIT */
/* tests/support/scenes.h: what failure sweeps walk: short scenarios that together make nearly every public
 * call, and the sweep itself. */
#ifndef PH_TESTS_SCENES_H
#define PH_TESTS_SCENES_H
#include "support/support.h"

enum {
    T_SCENE_N = 600 /* elements of the scene's buffers */
};

/* The objects that a scenario works on; they outlive its failure, and the scenario must then succeed on them.
 */
typedef struct t_scene {
    t_world world;
    ph_stream *a, *b;
    ph_event *event, *start, *stop; /* start and stop take times */
    int32_t *x, *y;                 /* device, T_SCENE_N words */
    int32_t *pinned;                /* T_SCENE_N words */
    int32_t pageable[T_SCENE_N];
    ph_graph *graph, *other, *kept; /* kept: keep_graph */
    ph_pool *pool;
    atomic_int calls, other_calls; /* of host functions, hooks and releases */
    atomic_int segments;           /* that a custom source gave out and has not got back */
} t_scene;

/* name: of the device, NULL for the one under test. prepare: what to do with the fresh device before anything is allocated on it; may be NULL. */
void t_scene_open(t_scene *scene, const char *name, void (*prepare)(ph_device *device));
void t_scene_close(t_scene *scene);

/* Runs from any state that an earlier, failed run left; PH_OK only when every result was right (asserted
 * inside). Frees what it made, on failure too, and leaves the failure's error record. */
typedef ph_status (*t_scenario_fn)(t_scene *scene);
typedef struct t_scenario {
    const char *name;
    t_scenario_fn run;
} t_scenario;
extern const t_scenario t_scenarios_device[], t_scenarios_memory[],
    t_scenarios_graph[]; /* each ends with a NULL name */

/* Makes the n-th of something fail. hit, asked after a run: whether it came to that. */
typedef struct t_fault {
    const char *what;
    void (*prepare)(ph_device *device); /* see t_scene_open */
    void (*arm)(int64_t n);
    bool (*disarm)(void);
    bool (*expects)(ph_status status); /* the statuses that such a failure may show as */
} t_fault;

/* For n = 0, 1, 2, ... until the fault is not reached: the scenario fails with an expected status and a
 * message, or succeeds in spite of the fault with right results; then it succeeds on the same objects; then
 * nothing is left of all that. Returns the number of faults. */
int64_t t_sweep(const t_scenario *scenario, const t_fault *fault, const char *device);
void t_sweep_all(const t_scenario *scenarios, const t_fault *fault, const char *device);

/* ---- for scenarios ---- a failure goes to the label `out`; a failed call must have cleared its output. */
#define T_GO(call)                                                                                           \
    do {                                                                                                     \
        status = (call);                                                                                     \
        if (status != PH_OK)                                                                                 \
            goto out;                                                                                        \
    } while (0)
#define T_GO_OUT(pointer, call)                                                                              \
    do {                                                                                                     \
        memset(&(pointer), 0xAB, sizeof(pointer));                                                           \
        status = (call);                                                                                     \
        if (status != PH_OK) {                                                                               \
            assert_null(pointer);                                                                            \
            goto out;                                                                                        \
        }                                                                                                    \
    } while (0)
/* Fails the test unless each of at most T_SCENE_N elements is `value`; they are copied back over the stream, and it is that
 * which may fail. */
ph_status t_same(ph_stream *stream, const int32_t *y, size_t n, int32_t value);
/* The same of memory of the host: pageable, or pinned and synchronized. */
void t_same_host(const int32_t *y, size_t n, int32_t value);
#endif
