/* SPDX-License-Identifier: MIT */
/* tensor/tape/tape_list.h: the tapes that a device has. */
#ifndef PH_TENSOR_TAPE_TAPE_LIST_H
#define PH_TENSOR_TAPE_TAPE_LIST_H
#include "tensor/core/storage.h"

/* The tape is of its backend's from now on, until it leaves: which waits for those that ask after
 * its stream. */
void ph__tape_join_list(ph_tape *tape);
void ph__tape_leave_list(ph_tape *tape);
/* *out: a tape that made it, changed it in a capture or used it last is in a capture now, so what
 * it holds may not be what was submitted. */
ph_status ph__storage_captured(bool *out, ph__storage *storage);
#endif
