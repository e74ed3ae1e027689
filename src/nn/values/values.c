/* SPDX-License-Identifier: MIT */
/* nn/values/values.c: named values in memory. */
#include "nn/values/values.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/files/json_read.h"
#include <math.h>
#include <string.h>

ph_status ph_values_create(ph_values **out)
{
    static const char call[] = "ph_values_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = ph__calloc(1, sizeof **out);
    return *out ? PH_OK : ph__fail_host_memory(call, "named values");
}

static void free_value(ph__value *value)
{
    ph__free(value->name);
    ph__free(value->text);
}

void ph_values_destroy(ph_values *values)
{
    if (!values)
        return;
    for (size_t i = 0; i < values->all.count; i++)
        free_value(&values->all.at[i]);
    ph__vec_free(&values->all);
    ph__free(values);
}

const ph__value *ph__values_find(const ph_values *values, const char *name)
{
    for (size_t i = 0; i < values->all.count; i++)
        if (strcmp(values->all.at[i].name, name) == 0)
            return &values->all.at[i];
    return NULL;
}

bool ph__values_push(ph_values *values, ph__value value)
{
    if (value.name && ph__vec_push(&values->all, value))
        return true;
    free_value(&value);
    return false;
}

/* ---- setting ---- */
static ph_status check_name(const ph_values *values, const char *name, const char *call)
{
    if (!values)
        return ph__fail_null(call, "values");
    if (!name)
        return ph__fail_null(call, "name");
    if (!name[0] || !ph__json_is_utf8(name))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the name of a value is %s", call,
                       name[0] ? "no UTF-8" : "empty, and must not be");
    return PH_OK;
}

/* Takes value.text. */
static ph_status set_value(ph_values *values, const char *name, ph__value value, const char *call)
{
    ph__value *there = (ph__value *)(uintptr_t)ph__values_find(values, name);
    if (there) {
        ph__free(there->text);
        value.name = there->name;
        *there = value;
        return PH_OK;
    }
    value.name = ph__strdup(name);
    return ph__values_push(values, value) ? PH_OK : ph__fail_host_memory(call, "a named value");
}

ph_status ph_values_set_integer(ph_values *values, const char *name, int64_t value)
{
    static const char call[] = "ph_values_set_integer";
    PH_TRY(check_name(values, name, call));
    return set_value(values, name,
                     (ph__value){.real = (double)value, .integer = value, .whole = true}, call);
}

/* The whole numbers that a double has one by one: 2^53 and less. -0 is none: an integer has no sign
 * of 0. */
static bool is_whole(double value)
{
    return fabs(value) <= 0x1p53 && value == floor(value) && !(value == 0 && signbit(value));
}

ph_status ph_values_set_real(ph_values *values, const char *name, double value)
{
    static const char call[] = "ph_values_set_real";
    PH_TRY(check_name(values, name, call));
    bool whole = is_whole(value);
    return set_value(
        values, name,
        (ph__value){.real = value, .integer = whole ? (int64_t)value : 0, .whole = whole}, call);
}

ph_status ph_values_set_text(ph_values *values, const char *name, const char *value)
{
    static const char call[] = "ph_values_set_text";
    PH_TRY(check_name(values, name, call));
    if (!value)
        return ph__fail_null(call, "value");
    if (!ph__json_is_utf8(value))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the text of '%s' is no UTF-8", call, name);
    char *text = ph__strdup(value);
    if (!text)
        return ph__fail_host_memory(call, "a text");
    return set_value(values, name, (ph__value){.text = text}, call);
}

/* ---- getting ---- */
static ph_status find_value(const ph__value **out, const ph_values *values, const char *name,
                            bool is_text, const void *where, const char *call)
{
    if (!where)
        return ph__fail_null(call, "out");
    PH_TRY(check_name(values, name, call));
    *out = ph__values_find(values, name);
    if (!*out)
        return ph_fail(PH_ERROR_NOT_FOUND, "%s: there is no value '%s'", call, name);
    if (((*out)->text != NULL) == is_text)
        return PH_OK;
    return ph_fail(PH_ERROR_MISMATCH, "%s: '%s' is a %s, and must be a %s", call, name,
                   is_text ? "number" : "text", is_text ? "text" : "number");
}

ph_status ph_values_get_integer(int64_t *out, const ph_values *values, const char *name)
{
    static const char call[] = "ph_values_get_integer";
    const ph__value *value = NULL;
    PH_TRY(find_value(&value, values, name, false, out, call));
    if (!value->whole)
        return ph_fail(PH_ERROR_MISMATCH,
                       "%s: '%s' is %.17g, and must be a whole number of 64 bits", call, name,
                       value->real);
    *out = value->integer;
    return PH_OK;
}

ph_status ph_values_get_real(double *out, const ph_values *values, const char *name)
{
    const ph__value *value = NULL;
    PH_TRY(find_value(&value, values, name, false, out, "ph_values_get_real"));
    *out = value->real;
    return PH_OK;
}

ph_status ph_values_get_text(const char **out, const ph_values *values, const char *name)
{
    const ph__value *value = NULL;
    PH_TRY(find_value(&value, values, name, true, out, "ph_values_get_text"));
    *out = value->text;
    return PH_OK;
}
