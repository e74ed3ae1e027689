/* SPDX-License-Identifier: MIT */
/* nn/values/values.h: named values as their files share them. */
#ifndef PH_NN_VALUES_VALUES_H
#define PH_NN_VALUES_VALUES_H
#include "base/vec.h"
#include <phonograph/values.h>

/* A number is an integer, a real, or both: whole numbers of files are. */
typedef struct ph__value {
    char *name;
    char *text; /* NULL: a number */
    double real;
    int64_t integer;
    bool whole; /* integer is the number */
} ph__value;

struct ph_values {
    PH__VEC(ph__value) all;
};

const ph__value *ph__values_find(const ph_values *values, const char *name); /* NULL: none */
/* Adds it: there is none of the name. Takes the name and the text, also on failure, which is false:
 * no host memory. */
bool ph__values_push(ph_values *values, ph__value value);
#endif
