/* SPDX-License-Identifier: MIT */
/* nn/module/marks.h: the annotation scope of one call of a module, on tapes with mark_modules. */
#ifndef PH_NN_MODULE_MARKS_H
#define PH_NN_MODULE_MARKS_H
#include <phonograph/module.h>

typedef struct ph__module_mark {
    struct ph__tensor_place *place, *outer;
    size_t depth; /* of the thread's scopes before it */
} ph__module_mark;
/* False: the tape has failed. end is called in any case. */
bool ph__module_mark_begin(ph__module_mark *mark, ph_tape *tape, ph_module *module);
void ph__module_mark_end(ph__module_mark *mark, ph_tape *tape);
#endif
