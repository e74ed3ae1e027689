/* SPDX-License-Identifier: MIT */
/* nn/values/json.h: named values as JSON. */
#ifndef PH_NN_VALUES_JSON_H
#define PH_NN_VALUES_JSON_H
#include "base/json.h"
#include "tensor/files/json_read.h"
#include <phonograph/values.h>

/* As an object. Reals that are not finite are texts there. read: into values that
 * are empty; false: `in` says why. */
void ph__values_write(ph__json *json, const ph_values *values);
bool ph__values_read(ph_values *values, ph__json_in *in);
#endif
