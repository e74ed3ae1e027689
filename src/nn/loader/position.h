/* SPDX-License-Identifier: MIT */
/* nn/loader/position.h: positions of data loaders. */
#ifndef PH_NN_LOADER_POSITION_H
#define PH_NN_LOADER_POSITION_H
#include "nn/loader/loader.h"

/* Whether the loader can go on from there; it is left alone. MISMATCH, ARGUMENT as
 * ph_data_loader_set_position has them. */
ph_status ph__loader_check_position(const ph_data_loader_position *p, const ph_data_loader *loader,
                                    const char *call);
#endif
