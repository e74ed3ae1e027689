/* SPDX-License-Identifier: MIT */
/* device/annotate/imported.h: the marks of a graph whose scopes other code has kept. */
#ifndef PH_DEVICE_ANNOTATE_IMPORTED_H
#define PH_DEVICE_ANNOTATE_IMPORTED_H
#include "device/annotate/marks.h"

/* Marks whose positions are numbers of nodes already. *out is the caller's to release; NULL without
 * scopes. ARGUMENT: the numbers do not ascend, a number is not below node_count, or pairs that no
 * scope may have. HOST_MEMORY. */
ph_status ph__marks_import(ph__marks **out, const ph_import_scopes *scopes, size_t node_count,
                           const char *call);
#endif
