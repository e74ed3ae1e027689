/* SPDX-License-Identifier: MIT */
/* base/debug.h: PH_DEBUG and PH_DEBUG_RECORD, the switches of unchanged programs:
 * docs/reference/debugging.md. */
#ifndef PH_BASE_DEBUG_H
#define PH_BASE_DEBUG_H
#include <phonograph/log.h>
#include <phonograph/status.h>

typedef struct ph__debug {
    bool liveness, annotations, breadcrumbs, strict;
    bool log_set; /* log= was there; log_level 0: nothing is printed */
    int log_level;
    const char *record; /* folder; NULL: none */
} ph__debug;

/* As the environment was at the first question. Never NULL; nothing is switched on where the
 * program has more rights than whoever started it, or where PH_DEBUG cannot be read. */
const ph__debug *ph__debug_switches(void);
/* ARGUMENT where PH_DEBUG has a word that is none. */
ph_status ph__debug_check(const char *call);

/* Reads `text` into *out. false: *wrong is a word that is none (length bytes). */
bool ph__debug_read(ph__debug *out, const char *text, const char **wrong, int *length);
#endif
