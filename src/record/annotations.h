/* SPDX-License-Identifier: MIT */
/* record/annotations.h: the annotations of a record's nodes. */
#ifndef PH_RECORD_ANNOTATIONS_H
#define PH_RECORD_ANNOTATIONS_H
#include "device/annotate/marks.h"
#include "record/record.h"

/* Gives the nodes the annotations that the marks of their capture say (NULL: none), and outer
 * (NULL: none) to all; to those of bodies what the node has that runs them, and of the capture
 * that they come from. Linear in the number of nodes and marks. */
ph_status ph__record_annotate(ph_record *record, const ph__marks *marks, ph__annotation *outer,
                              const char *call);
/* Of nodes that both have, by the driver's own handles, bodies included; what is new has none. */
ph_status ph__record_inherit(ph_record *to, const ph_record *from, const ph__driver *driver,
                             const char *call);
/* Why a library added the node by itself: as its capture says, or by the name of its kernel; NULL:
 * it is the program's, or nobody told. */
const char *ph__record_made_for(const ph__record_node *node);
/* Not those of bodies. */
void ph__record_drop_annotations(ph_record *record);
size_t ph__record_annotation_bytes(const ph_record *record);
#endif
