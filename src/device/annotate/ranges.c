/* SPDX-License-Identifier: MIT */
/* device/annotate/ranges.c: ranges that NVTX was told of, as scopes. */
#include "device/annotate/ranges.h"
#include "base/log.h"
#include "device/annotate/ambient.h"
#include "device/annotate/annotation.h"
#include "device/annotate/marks.h"
#include "device/annotate/stack.h"

void ph__scope_push_range(const void *domain, const char *name)
{
    static const char call[] = "an NVTX range";
    const ph_annotation_pair own = {.key = "name", .text = name};
    ph__annotation *outer = ph__scope_annotation(), *annotation = NULL;
    const ph__pairs sources[] = {{outer ? outer->pairs : NULL, outer ? outer->count : 0},
                                 {&own, 1}};
    ph_error saved;
    ph__error_save(&saved);
    bool good =
        ph__scopes_unheard == 0 && ph__annotation_make(&annotation, sources, 2, call) == PH_OK;
    ph__scope *scope = good ? ph__scope_new() : NULL;
    if (scope) {
        *scope = (ph__scope){.annotation = annotation, .heard = true, .domain = domain};
        ph__scope_push(scope, NULL, 0);
        ph_ignore(ph__marks_change(NULL, call)); /* else at the next submission */
    } else {
        if (ph__scopes_unheard++ == 0)
            PH__LOG_ONCE(PH_LOG_WARNING,
                         "the NVTX range \"%.80s\" becomes no scope: no host memory", name);
        ph__annotation_release(annotation);
    }
    ph__error_restore(&saved);
}

void ph__scope_pop_range(const void *domain)
{
    ph__scope *scope = ph__thread_ambient.top;
    if (ph__scopes_unheard > 0) {
        ph__scopes_unheard--;
        return;
    }
    while (scope && (!scope->heard || scope->over || scope->domain != domain))
        scope = scope->outer;
    if (!scope)
        return;
    ph_error saved;
    ph__error_save(&saved);
    scope->over = true;
    if (scope == ph__thread_ambient.top)
        ph__scope_pop_ended();
    ph_ignore(ph__marks_change(NULL, "an NVTX range"));
    ph__error_restore(&saved);
}
