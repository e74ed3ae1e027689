/* SPDX-License-Identifier: MIT */
/* comm/object/operation.c: a collective in words. */
#include "comm/object/operation.h"
#include "base/line.h"
#include "device/annotate/ambient.h"
#include <stdio.h>
#include <string.h>

bool ph__operation_same(const ph__operation *a, const ph__operation *b)
{
    return memcmp(a, b, offsetof(ph__operation, scope)) == 0;
}

const char *ph__operation_text(char *text, size_t size, const ph__operation *operation)
{
    const char *what = operation->kind == PH__OPERATION_CREATE    ? "ph_comm_create"
                       : operation->kind == PH__OPERATION_BARRIER ? "ph_comm_barrier"
                                                                  : "an unknown operation";
    (void)snprintf(text, size, "%s%s%.*s%s", what, operation->scope[0] ? " in \"" : "",
                   (int)strnlen(operation->scope, sizeof operation->scope), operation->scope,
                   operation->scope[0] ? "\"" : "");
    return text;
}

void ph__operation_note_scope(ph__operation *operation)
{
    ph__line_format(operation->scope, sizeof operation->scope, "%s",
                    ph__annotation_name(ph__scope_annotation()));
}
