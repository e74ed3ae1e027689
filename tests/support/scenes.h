/* SPDX-License-Identifier: MIT */
/* tests/support/scenes.h: what failure sweeps walk: short scenarios that together make nearly
 * every public call. */
#ifndef PH_TESTS_SCENES_H
#define PH_TESTS_SCENES_H
#include "support/sweep.h"

enum {
    T_SCENE_N = 600 /* elements of the scene's buffers */
};

/* The objects that a scenario works on; they outlive its failure, and the scenario must then
 * succeed on them. */
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

/* name: of the device, NULL for the one under test. prepare: what to do with the fresh device
 * before anything is allocated on it; may be NULL. */
void t_scene_open(t_scene *scene, const char *name, void (*prepare)(ph_device *device));
void t_scene_close(t_scene *scene);

/* Runs from any state that an earlier, failed run left; PH_OK only when every result was right
 * (asserted inside). Frees what it made, on failure too, and leaves the failure's error record. */
typedef ph_status (*t_scenario_fn)(t_scene *scene);
typedef struct t_scenario {
    const char *name;
    t_scenario_fn run;
} t_scenario;
extern const t_scenario t_scenarios_device[], t_scenarios_memory[],
    t_scenarios_graph[]; /* each ends with a NULL name */

/* Sweeps each of them, on a scene of its own for each fault: its streams capture no more after a
 * failure, and it then succeeds on the same objects. device: see t_scene_open. */
void t_sweep_all(const t_scenario *scenarios, const t_fault *fault, const char *device);

/* ---- for scenarios ---- a failure goes to the label `out`; a failed call must have cleared its
 * output. */
#define T_GO(call)                                                                                 \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != PH_OK)                                                                       \
            goto out;                                                                              \
    } while (0)
#define T_GO_OUT(pointer, call)                                                                    \
    do {                                                                                           \
        memset(&(pointer), 0xAB, sizeof(pointer));                                                 \
        status = (call);                                                                           \
        if (status != PH_OK) {                                                                     \
            assert_null(pointer);                                                                  \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)
/* Fails the test unless each of at most T_SCENE_N elements is `value`; they are copied back over
 * the stream, and it is that which may fail. */
ph_status t_same(ph_stream *stream, const int32_t *y, size_t n, int32_t value);
/* The same of memory of the host: pageable, or pinned and synchronized. */
void t_same_host(const int32_t *y, size_t n, int32_t value);
#endif
