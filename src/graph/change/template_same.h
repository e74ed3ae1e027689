/* SPDX-License-Identifier: MIT */
/* graph/change/template_same.h: whether two reads of a template show the same nodes. */
#ifndef PH_GRAPH_CHANGE_TEMPLATE_SAME_H
#define PH_GRAPH_CHANGE_TEMPLATE_SAME_H
#include "driver/driver.h"

/* Both have been read: nothing is asked, and nothing fails. */
bool ph__template_same(ph__drv_graph *a, ph__drv_graph *b, const ph__driver *driver);
#endif
