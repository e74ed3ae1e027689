/* SPDX-License-Identifier: MIT */
/* cli/view.h: what the files of `phonograph view` share: a checked record as one list of nodes,
 * in groups. */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H
#include "load.h"
#include "record_file.h"

#define VIEW_NONE SIZE_MAX

/* A node of the record or of a body in it. Bodies stand behind all nodes of the record that they
 * are in. */
typedef struct view_node {
    const file_node *file;
    json_t *json;      /* the object that it was read from */
    size_t base;       /* where its record's node 0 is in the list */
    size_t parent;     /* the graph node whose body it is in; VIEW_NONE: the outermost record */
    size_t annotation; /* VIEW_NONE: it has none */
} view_node;

/* Nodes that are drawn as one when they are folded: the groups of a grouping, taken as nodes,
 * form no cycle. */
typedef struct view_grouping {
    const char *kind; /* "part", "annotation", "key", "order", "nothing" */
    char *by;         /* the key; else "" */
    size_t *of;       /* for each node its group; VIEW_NONE: none */
    char **labels;    /* of the groups */
    size_t count, capacity;
} view_grouping;

enum {
    VIEW_GROUPINGS = 12
};

typedef struct view {
    file_record *record;
    const char *path; /* as in messages */
    view_node *nodes;
    size_t count, outer;            /* all; those of the outermost record */
    size_t left_nodes, left_blocks; /* left out of the page, to bound it */
    size_t edge_count;              /* with those between a graph node and the roots of its body */
    json_t *annotations;            /* array: each once */
    /* array of ["0x7f00", bytes], checked, each once; of the memory that the capture was given */
    json_t *blocks;
    json_t *profile; /* the summary, checked; NULL: the record has no times */
    view_grouping groupings[VIEW_GROUPINGS];
    size_t grouping_count; /* the first is the one that is shown at first */
} view;

ph_status view_no_memory(const view *v);

/* Takes the record over. free takes what was begun. */
ph_status view_make(view *v, file_record *record, const char *path);
void view_free(view *v);

/* ---- view_groups.c ---- */
ph_status view_group(view *v);
void view_groups_free(view *v);
/* A dependency that is drawn: of node `node` the i-th; false behind the last. */
bool view_edge(size_t *from, bool *programmatic, const view *v, size_t node, size_t i);

/* ---- view_json.c ---- the page's data, as a JSON text in which nothing can end the element it
 * stands in. */
bool view_put_json(FILE *out, const view *v, json_t *layouts); /* false: no host memory */
void view_put_string(FILE *out, const char *text);

/* ---- view_dot.c ---- where Graphviz places the nodes: open groups, folded groups; NULL where
 * it is not there, takes too long or is not asked since there are too many. */
ph_status view_layouts(json_t **out, const view *v);

/* ---- view_file.c ---- what write writes becomes the file, or nothing does and a file of that
 * name stays what it was. */
typedef bool (*view_writer)(FILE *out, void *user); /* false: no host memory */
ph_status view_write_file(const char *path, view_writer write, void *user);
/* Whether both names lead to one regular file; "-": standard input. */
bool view_same_file(const char *input, const char *output);
/* Whether a file is there that is none of our pages, which know themselves by VIEW_MARK near
 * their beginning. */
bool view_is_other_file(const char *path);
#define VIEW_MARK "<meta name=\"generator\" content=\"phonograph view\">"

/* ---- view_text.c ---- the page before and behind its data; empty in a build without D3. */
extern const char view_page_head[], view_page_tail[];
bool view_has_page(void);
#endif
