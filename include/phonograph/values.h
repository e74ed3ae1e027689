/* SPDX-License-Identifier: MIT */
/* phonograph/values.h: numbers and texts by name: the part of an object's state that is no tensor,
 * on its way to a file and back. */
#ifndef PHONOGRAPH_VALUES_H
#define PHONOGRAPH_VALUES_H
#include <phonograph/status.h>

PH_BEGIN_DECLS

/* No two values have one name; set replaces. Names and texts are copied: UTF-8, a name not empty
 * (ARGUMENT). Externally synchronised. Legal in a capture. */
typedef struct ph_values ph_values;
PH_CALL ph_values_create(ph_values **out);
PH_API void ph_values_destroy(ph_values *values); /* takes NULL */

PH_CALL ph_values_set_integer(ph_values *values, const char *name, int64_t value);
/* Every double comes back to the bit, but for the payload of a NaN. */
PH_CALL ph_values_set_real(ph_values *values, const char *name, double value);
PH_CALL ph_values_set_text(ph_values *values, const char *name, const char *value);

/* NOT_FOUND: no value of that name. MISMATCH: a text for a number, or a number for a text; for an
 * integer: a number with a fraction, or beyond 64 bits. *out stays as it was then. A text is
 * borrowed, until the next set or destroy. */
PH_CALL ph_values_get_integer(int64_t *out, const ph_values *values, const char *name);
PH_CALL ph_values_get_real(double *out, const ph_values *values, const char *name);
PH_CALL ph_values_get_text(const char **out, const ph_values *values, const char *name);

PH_END_DECLS
#endif
