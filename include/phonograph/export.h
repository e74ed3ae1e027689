/* SPDX-License-Identifier: MIT */
/* phonograph/export.h: definitions for every public header: fixed-width types, visibility,
 * must-use, printf checks. */
#ifndef PHONOGRAPH_EXPORT_H
#define PHONOGRAPH_EXPORT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PH_API      __attribute__((visibility("default")))
#define PH_MUST_USE __attribute__((warn_unused_result))
#define PH_PRINTF(format_index, first_index)                                                       \
    __attribute__((format(printf, format_index, first_index)))

#ifdef __cplusplus
#define PH_BEGIN_DECLS extern "C" {
#define PH_END_DECLS   }
#else
#define PH_BEGIN_DECLS
#define PH_END_DECLS
#endif
#endif
