/* SPDX-License-Identifier: MIT */
/* nn/values/json.c: named values as a JSON object. JSON has no number that is not finite: such a
 * one is an object of one member, {"real": "NaN"}. */
#include "nn/values/json.h"
#include "base/alloc.h"
#include "nn/values/values.h"
#include <math.h>
#include <string.h>

static const char *const unbounded[] = {"NaN", "Infinity", "-Infinity"};

static void write_real(ph__json *json, double value)
{
    if (isfinite(value)) {
        ph__json_f64(json, value);
        return;
    }
    ph__json_open(json, '{');
    ph__json_key(json, "real");
    ph__json_string(json, unbounded[isnan(value) ? 0 : value > 0 ? 1 : 2]);
    ph__json_close(json, '}');
}

void ph__values_write(ph__json *json, const ph_values *values)
{
    ph__json_open(json, '{');
    for (size_t i = 0; i < values->all.count; i++) {
        const ph__value *value = &values->all.at[i];
        ph__json_key(json, value->name);
        if (value->text)
            ph__json_string(json, value->text);
        else if (value->whole)
            ph__json_i64(json, value->integer);
        else
            write_real(json, value->real);
    }
    ph__json_close(json, '}');
}

static bool read_unbounded(ph__value *value, ph__json_in *in)
{
    static const double reals[] = {NAN, INFINITY, -INFINITY};
    bool found = false;
    char *key = ph__json_in_open(in, '{') && ph__json_in_more(in, '}') ? ph__json_in_key(in) : NULL;
    char *text = key && strcmp(key, "real") == 0 ? ph__json_in_string(in) : NULL;
    for (size_t i = 0; text && i < sizeof reals / sizeof reals[0]; i++)
        if (strcmp(text, unbounded[i]) == 0) {
            value->real = reals[i];
            found = true;
        }
    ph__free(key);
    ph__free(text);
    if (!found || ph__json_in_more(in, '}'))
        return ph__json_in_fail(in, "a number, a text, or {\"real\": \"NaN\"} must stand here");
    return !in->wrong;
}

static bool read_value(ph__value *value, ph__json_in *in)
{
    char next = ph__json_in_peek(in);
    if (next == '"')
        return (value->text = ph__json_in_string(in)) != NULL;
    if (next == '{')
        return read_unbounded(value, in);
    return ph__json_in_number(in, &value->real, &value->integer, &value->whole);
}

bool ph__values_read(ph_values *values, ph__json_in *in)
{
    if (!ph__json_in_open(in, '{'))
        return false;
    while (ph__json_in_more(in, '}')) {
        ph__value value = {.name = ph__json_in_key(in)};
        bool ok = value.name && read_value(&value, in);
        if (ok && (!value.name[0] || ph__values_find(values, value.name)))
            ok = ph__json_in_fail(in, "a value whose name is empty, or there twice");
        if (!ok) {
            ph__free(value.name);
            ph__free(value.text);
            return false;
        }
        if (!ph__values_push(values, value)) {
            in->no_memory = true;
            return ph__json_in_fail(in, "no host memory for a value");
        }
    }
    return !in->wrong;
}
