/* SPDX-License-Identifier: MIT */
/* graph/object/hook_set.h: the hooks that a graph, or the process, has. */
#ifndef PH_GRAPH_OBJECT_HOOK_SET_H
#define PH_GRAPH_OBJECT_HOOK_SET_H
#include <phonograph/graph.h>
#include <stdatomic.h>

enum {
    PH__HOOK_POINTS = PH_HOOK_CAPTURE_PREPARE + 1
};

typedef struct ph__hook_list ph__hook_list;
/* Zero is empty. The hooks of one graph, or of the process. */
typedef struct ph__hook_set {
    atomic_uint counts[PH__HOOK_POINTS]; /* live ones, readable without the lock */
    ph__hook_list *list;                 /* under the lock of lifecycle/hooks.c */
} ph__hook_set;
#endif
