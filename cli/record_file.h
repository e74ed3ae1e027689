/* SPDX-License-Identifier: MIT */
/* cli/record_file.h: a record read back from its JSON file, checked. */
#ifndef CLI_RECORD_FILE_H
#define CLI_RECORD_FILE_H
#include "cut.h"
#include <phonograph/annotation.h>
#include <stdio.h>

/* ph_node_info and ph_word as the file has them: addresses are numbers here, of a process that
 * may be long gone. */
typedef struct file_word {
    const char *name, *kind;
    uint64_t offset, value;
    bool internal, has_allocation, pinned, foreign;
    uint64_t base, bytes, base_offset, generation, pool[2];
} file_word;

typedef struct file_node {
    const char *kind_name, *name;
    const char *demangled; /* the name as its author wrote it; NULL: as it is */
    ph_node_kind kind;
    uint32_t grid[3], block[3];
    uint64_t shared_bytes, args_size; /* kernels */
    uint64_t dst, src, bytes;         /* memcpy, memset; memory nodes: dst, and bytes given */
    uint64_t value, value_size;       /* memset */
    size_t dependency_count, dependent_count, word_count;
    size_t *dependencies, *dependents;
    bool *programmatic; /* one for each dependency; NULL: all are full */
    file_word *words;
    const char *made_for; /* why a library added it by itself; NULL: not told */
    ph_annotation_pair *annotation;
    size_t annotation_count;
    bool measured, critical; /* measured: there are times: */
    uint64_t start_ns, run_ns, median_ns, least_ns, most_ns, slack_ns, lane;
    struct file_record *body; /* graph nodes; else NULL */
} file_node;

/* Two nodes that use the same memory with no order between them. */
typedef struct file_race {
    bool certain;
    size_t first, second;
    const char *text;
} file_race;
typedef struct file_races {
    bool looked; /* somebody looked for them; else there is nothing below */
    uint64_t certain, possible, found;
    size_t count; /* that are told */
    file_race *at;
} file_races;

/* Where and when a record was made; each NULL where it is not told. */
typedef struct file_origin {
    const char *program, *graph, *date, *device, *description, *driver, *driver_version, *library;
} file_origin;

typedef struct file_record {
    size_t node_count, edge_count;
    file_origin origin;
    const char *verdict; /* of ph_graph_verdict; NULL: nobody asked for one */
    bool worth;
    file_races races;
    file_node *nodes;
    void *json; /* what the strings point into; of the outermost record */
} file_record;

/* The one check for all that is done with a record. path "-": standard input. Errors name the
 * file and the place in it: IO for what cannot be read or is no such record, UNSUPPORTED for a
 * later version of the format, HOST_MEMORY. */
ph_status file_record_read(file_record **out, const char *path);
/* The first nodes alone, within the bounds: a record of them, with the edges between them. Of
 * what is left out it is only known how much it is. */
ph_status file_record_read_some(file_record **out, const char *path, cut *bounds);
void file_record_free(file_record *record); /* takes NULL */

/* ---- how it is written ---- */
void file_record_text(FILE *out, const file_record *record, bool verbose);
#endif
