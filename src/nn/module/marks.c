/* SPDX-License-Identifier: MIT */
/* nn/module/marks.c: scopes of annotation.h around calls of modules, by their names in the
 * network (mark_modules of ph_tape_options). */
#include "nn/module/marks.h"
#include "base/alloc.h"
#include "nn/module/module.h"
#include "nn/module/names.h"
#include "tensor/autograd/marks.h"
#include "tensor/tape/place.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

typedef struct place {
    ph__tensor_place base; /* first */
    ph_module *module;     /* retained */
    char *name;            /* "" of the outermost one: as those below it are named */
} place;

static void destroy_place(ph__tensor_place *base)
{
    place *at = (place *)base;
    ph_module_release(at->module);
    ph__free(at->name);
    ph__free(at);
}

/* NULL: no host memory. */
static char *name_of_place(const place *outer, const ph_module *module)
{
    ph__text name = {0};
    if (outer && outer->name[0]) {
        ph__text_add(&name, outer->name);
        ph__text_add(&name, ".");
    }
    if (!outer || !ph__module_add_name(&name, outer->module, module))
        name.length = 0;
    return ph__text_detach(&name);
}

static place *make_place(const place *outer, ph_module *module)
{
    place *at = ph__calloc(1, sizeof *at);
    if (!at)
        return NULL;
    at->base = (ph__tensor_place){1, destroy_place};
    at->module = ph_module_retain(module);
    at->name = name_of_place(outer, module);
    if (at->name)
        return at;
    ph__place_release(&at->base);
    return NULL;
}

bool ph__module_mark_begin(ph__module_mark *mark, ph_tape *tape, ph_module *module)
{
    const place *outer = (const place *)tape->place;
    *mark = (ph__module_mark){.outer = tape->place, .depth = ph_annotation_depth()};
    if (outer && outer->module->original == module) /* a graphed one hands on to it */
        return true;
    place *at = make_place(outer, module);
    if (!at) {
        ph__tape_fail_host_memory(tape, module->name, "its name in the network");
        return false;
    }
    mark->place = tape->place = &at->base;
    ph_tape_check(tape,
                  ph_annotation_push(tape->stream, at->name[0] ? at->name : module->name, NULL));
    return !ph__tape_failed(tape);
}

/* Where hooks or forward left scopes open, or ended this one, its own end is not called in its
 * place. */
void ph__module_mark_end(ph__module_mark *mark, ph_tape *tape)
{
    if (!mark->place)
        return;
    tape->place = mark->outer;
    ph__place_release(mark->place);
    ph__tape_end_mark(tape, mark->depth);
}
