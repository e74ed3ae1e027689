/* SPDX-License-Identifier: MIT */
/* nn/graphed/stage.h: memory that stands for what calls bring, in captures. */
#ifndef PH_NN_GRAPHED_STAGE_H
#define PH_NN_GRAPHED_STAGE_H
#include "base/vec.h"
#include <phonograph/stream.h>
#include <stddef.h>

/* Addresses that stand for a binding's memory while a pass is captured. Nothing is ever there but
 * in captures. */
typedef struct ph__stand_in {
    char *base;     /* of the capture; copied bindings: where the copy comes from */
    char **shifted; /* of each probe */
    size_t bytes;
} ph__stand_in;

/* How many probes tell the bindings of a callable apart, inputs and gradients of outputs together,
 * and in how large a window each moves. The first alone is for programs that see no address. */
typedef struct ph__stage_plan {
    size_t probes, coded; /* coded: of them, those by which any two bindings differ */
    size_t window;        /* a power of two: from a page to 1 MiB */
} ph__stage_plan;
ph__stage_plan ph__stage_plan_for(size_t bindings);

/* Memory that the stages of one direction share, of all callables that are made together: no two
 * of them are compared with each other, and nothing is ever there. */
typedef struct ph__stage_room {
    PH__VEC(void *) blocks; /* the last is the largest */
    size_t bytes;           /* of it */
} ph__stage_room;
void ph__stage_room_free(ph__stage_room *room, ph_stream *stream);

/* The stand-ins of all bindings of one direction, in one block. */
typedef struct ph__stage {
    ph__stand_in *at;
    size_t count;
    char **shifted;
    void *block; /* its own; NULL: it is in a shared room */
} ph__stage;
/* room: where its block is shared; NULL: it has one of its own. bytes: of each. plan: with shifted
 * ones, none at a distance that another has in the same probe, of this stage or of another one;
 * NULL: without. first: the number of its first binding among those of the callable. */
ph_status ph__stage_make(ph__stage *stage, ph__stage_room *room, ph_stream *stream,
                         const size_t *bytes, size_t count, const ph__stage_plan *plan,
                         size_t first, const char *call);
void ph__stage_free(ph__stage *stage, ph_stream *stream);
#endif
