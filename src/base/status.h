/* SPDX-License-Identifier: MIT */
/* base/status.h: how the library's own code fails: the thread's error record, set once, at the
 * origin. */
#ifndef PH_BASE_STATUS_H
#define PH_BASE_STATUS_H
#include <phonograph/status.h>
#include <stdarg.h>
#include <stdint.h>

/* Sets the record and returns status. native 0 and call NULL where no driver call stands behind
 * the failure. The message says what was called, with what, why it failed and what to do. status
 * must not be PH_OK. Allocates nothing. */
ph_status ph__fail_native(ph_status status, int native, const char *native_call, const char *format,
                          ...) PH_PRINTF(4, 5);
ph_status ph__vfail(ph_status status, int native, const char *native_call, const char *format,
                    va_list args) PH_PRINTF(4, 0);

/* Marks the thread's record behind the text of native_call, where nobody looks; gives the mark that
 * it had, 0 for none. A failure writes a record without a mark, and a record that is restored has
 * its own: so who marked it learns whether a call has failed since. */
uint32_t ph__error_mark(uint32_t mark);
uint32_t ph__error_marked(void);

/* A function of the program's, which `format` names, has failed with a status of its own and set no
 * message. The message has the number where it is none of the statuses, and what the thread's last
 * failure was before. Returns status. */
ph_status ph__fail_given(ph_status status, const char *format, ...) PH_PRINTF(2, 3);

/* Puts "prefix: " (cut when very long) before the message of the record; keeps everything else.
 * For an outer call that adds what it was doing. */
void ph__error_prefix(const char *format, ...) PH_PRINTF(1, 2);

/* Puts text behind the message of the record where all of it fits; else changes nothing. A text
 * that begins with "; " goes without the semicolon behind a question. */
void ph__error_suffix(const char *text);

/* Clean-up code that may fail must not overwrite the cause: save before, restore after. */
void ph__error_save(ph_error *out);
void ph__error_restore(const ph_error *saved);

/* The common refusals, so that their words are the same everywhere. */
ph_status ph__fail_null(const char *call, const char *argument); /* PH_ERROR_ARGUMENT */
ph_status ph__fail_reserved(const char *call,
                            const char *options); /* PH_ERROR_ARGUMENT: reserved words must be 0 */
ph_status ph__fail_host_memory(const char *call, const char *what_for); /* PH_ERROR_HOST_MEMORY */

/* True when all count words are 0: the check of an options struct's reserved tail. */
static inline bool ph__reserved_ok(const uint64_t *words, size_t count)
{
    uint64_t any = 0;
    for (size_t i = 0; i < count; i++)
        any |= words[i];
    return any == 0;
}
#define PH__RESERVED_OK(o)                                                                         \
    ph__reserved_ok((o)->reserved, sizeof(o)->reserved / sizeof(o)->reserved[0])
#endif
