/* SPDX-License-Identifier: MIT */
/* comm/object/operation.c: a collective in words. */
#include "comm/object/operation.h"
#include "base/line.h"
#include "device/annotate/ambient.h"
#include <string.h>

static const char *const type_names[] = {"?",   "f32", "f64", "f16", "bf16",
                                         "i32", "i64", "u8",  "bool"};
static const char *const op_names[] = {"sum", "product", "min", "max", "mean"};

const char *ph__operation_name(ph__operation_kind kind)
{
    static const char *const names[PH__OPERATIONS] = {"ph_comm_create",
                                                      "ph_comm_barrier",
                                                      "the first replay of a graph",
                                                      "a replay of the graph",
                                                      "all_reduce",
                                                      "broadcast",
                                                      "all_gather",
                                                      "reduce_scatter",
                                                      "send",
                                                      "receive",
                                                      "the end of a group",
                                                      "the registration of memory"};
    return (unsigned)kind < PH__OPERATIONS ? names[kind] : "an unknown operation";
}

bool ph__operation_same(const ph__operation *a, const ph__operation *b)
{
    return memcmp(a, b, offsetof(ph__operation, scope)) == 0;
}

static void add_peer(ph__line_buffer *line, const ph__operation *o)
{
    if (o->kind == PH__OPERATION_BROADCAST)
        ph__line_add(line, " from rank %u", (unsigned)o->peer);
    if (o->kind == PH__OPERATION_SEND)
        ph__line_add(line, " to rank %u", (unsigned)o->peer);
    if (o->kind == PH__OPERATION_RECEIVE)
        ph__line_add(line, " from rank %u", (unsigned)o->peer);
}

/* An operation may have come from another rank: any bytes are looked at with care. */
const char *ph__operation_text(char *text, size_t size, const ph__operation *o)
{
    ph__line_buffer line = {text, size, 0};
    bool reduces = o->kind == PH__OPERATION_ALL_REDUCE || o->kind == PH__OPERATION_REDUCE_SCATTER;
    ph__line_add(&line, "%s", ph__operation_name((ph__operation_kind)o->kind));
    if (o->dtype)
        ph__line_add(&line, " of %llu %s", (unsigned long long)o->count,
                     o->dtype <= PH_DTYPE_BOOL ? type_names[o->dtype] : "?");
    if (reduces)
        ph__line_add(&line, " (%s)", o->op <= PH_REDUCE_MEAN ? op_names[o->op] : "?");
    add_peer(&line, o);
    if (o->kind == PH__OPERATION_REPLAY)
        ph__line_add(&line, " with %llu collectives (fingerprint %016llx)",
                     (unsigned long long)o->count, (unsigned long long)o->graph);
    else if (o->graph)
        ph__line_add(&line, ", number %u of a graph", (unsigned)o->index);
    if (o->scope[0])
        ph__line_add(&line, ", in \"%.*s\"", (int)strnlen(o->scope, sizeof o->scope), o->scope);
    return text;
}

void ph__operation_note_scope(ph__operation *operation)
{
    const char *name = ph__annotation_name(ph__scope_annotation());
    (void)memccpy(operation->scope, name, '\0', sizeof operation->scope - 1);
}
