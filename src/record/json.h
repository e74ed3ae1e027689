/* SPDX-License-Identifier: MIT */
/* record/json.h: a record as JSON. */
#ifndef PH_RECORD_JSON_H
#define PH_RECORD_JSON_H
#include "base/json.h"
#include "record/record.h"

/* Into a text whose failure the caller checks. */
void ph__record_to_json(ph__json *json, const ph_record *record);
/* The same with more fields: on top before `nodes`, and at the end of each node; not in bodies. */
typedef struct ph__record_more {
    void (*top)(ph__json *json, void *user);
    void (*node)(ph__json *json, size_t index, void *user);
    void *user;
} ph__record_more;
void ph__record_to_json_with(ph__json *json, const ph_record *record, const ph__record_more *more);
#endif
