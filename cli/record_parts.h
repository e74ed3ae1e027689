/* SPDX-License-Identifier: MIT */
/* cli/record_parts.h: the parts of a record's file that only some have: annotations, times,
 * blocks, parameters as text; checked. */
#ifndef CLI_RECORD_PARTS_H
#define CLI_RECORD_PARTS_H
#include "load.h"
#include "record_file.h"

/* What a number of JavaScript holds exactly: 104 days of nanoseconds. */
#define RECORD_MOST_EXACT ((UINT64_C(1) << 53) - 1)

ph_status record_no_memory(const place *at);
ph_status record_read_annotation(file_node *node, const place *up, json_t *object);
ph_status record_read_times(file_node *node, const place *up, json_t *object);
ph_status record_read_origin(file_record *record, const place *up, json_t *object);
ph_status record_read_races(file_record *record, const place *up, json_t *object);
ph_status record_read_verdict(file_record *record, const place *up, json_t *object);
/* The profile of the whole and the blocks: nothing of them is kept, the page passes them on.
 * nodes: how many the record has. */
ph_status record_check_summary(const place *up, json_t *object, size_t nodes);
ph_status record_check_blocks(const place *up, json_t *object);
/* After some of it was left out; what was `outer` nodes. False: no host memory. */
bool record_fit_to_cut(json_t *record, const cut *bounds);
/* The digits of a kernel's parameters. */
ph_status record_check_args(const file_node *node, const place *at, json_t *object);

/* The numbers of a profile. */
extern const char *const record_summary_numbers[];
extern const size_t record_summary_number_count;
#endif
