/* SPDX-License-Identifier: MIT */
/* tensor/autograd/marks.c: the scopes of annotation.h in backward: what a node does there lies
 * in the scope that the node was made in. */
#include "tensor/autograd/marks.h"
#include "tensor/autograd/pass.h"
#include "tensor/core/describe.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include <stdio.h>

bool ph__tape_resume(ph_tape *tape, ph_annotation_scope *mark)
{
    static const ph_annotation_pair phase = {
        .key = "autograd_phase", .type = PH_ANNOTATION_TEXT, .text = "backward"};
    ph_tape_check(tape, ph_annotation_resume(tape->stream, mark, &phase, 1));
    return !ph__tape_failed(tape);
}

void ph__tape_end_mark(ph_tape *tape, size_t depth)
{
    ph_annotation_unwind(depth + 1);
    if (ph_annotation_depth() > depth)
        ph_tape_check(tape, ph_annotation_pop(tape->stream));
}

static bool is_pass_captured(ph__pass *pass)
{
    ph_capture_info info = {.status = PH_CAPTURE_NONE};
    if (!pass->asked)
        ph_tape_check(pass->tape, ph_stream_get_capture_info(&info, pass->tape->stream));
    pass->capturing = pass->capturing || info.status != PH_CAPTURE_NONE;
    pass->asked = true;
    return pass->capturing;
}

/* False: no scope is to be opened. */
static bool end_last_mark(ph__pass *pass)
{
    if (!is_pass_captured(pass))
        return false;
    bool open = pass->mark || pass->own;
    pass->mark = NULL;
    pass->own = false;
    if (open)
        ph__tape_end_mark(pass->tape, pass->depth);
    return !ph__tape_failed(pass->tape);
}

bool ph__pass_mark_own(ph__pass *pass, const char *step, const ph__node *node,
                       const ph_tensor *leaf)
{
    char text[PH__DESCRIBE + 64], shape[PH__DESCRIBE];
    if (!end_last_mark(pass))
        return !ph__tape_failed(pass->tape);
    (void)snprintf(text, sizeof text, "gradient of %.*s (%s)", PH__DESCRIBE,
                   node ? node->name : ph__describe(shape, leaf), step);
    const ph_annotation_pair why = {.key = "made_for", .type = PH_ANNOTATION_TEXT, .text = text};
    ph_tape_check(pass->tape, ph_annotation_resume(pass->tape->stream, NULL, &why, 1));
    pass->own = !ph__tape_failed(pass->tape);
    return pass->own;
}

bool ph__pass_change_mark(ph__pass *pass, ph_annotation_scope *mark)
{
    if (!end_last_mark(pass))
        return !ph__tape_failed(pass->tape);
    if (mark && ph__tape_resume(pass->tape, mark))
        pass->mark = mark;
    return !ph__tape_failed(pass->tape);
}

void ph__pass_end_marks(ph__pass *pass)
{
    if ((pass->mark || pass->own) && !ph__tape_failed(pass->tape))
        (void)ph__pass_change_mark(pass, NULL);
    pass->mark = NULL;
    pass->own = false;
    ph__tape_unwind_marks(pass->tape, pass->depth);
}
