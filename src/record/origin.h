/* SPDX-License-Identifier: MIT */
/* record/origin.h: where and when a record was made: program, graph, device, date. */
#ifndef PH_RECORD_ORIGIN_H
#define PH_RECORD_ORIGIN_H
#include "base/json.h"
#include "record/record.h"

/* For the record of a graph of its own, not of bodies. The device is borrowed: it lives as long as
 * the graph has the record. The date is now, or that of SOURCE_DATE_EPOCH. */
void ph__record_note_origin(ph_record *record, const ph_device *device, uint64_t graph);
/* The member "origin" of the object that is open; nothing where no origin was noted. Asks the
 * driver for its version and the device's description: one that does not tell leaves them out. */
void ph__record_origin_to_json(ph__json *json, const ph_record *record);
#endif
