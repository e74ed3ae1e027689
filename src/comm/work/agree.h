/* SPDX-License-Identifier: MIT */
/* comm/work/agree.h: the ranks compare what they have captured, before anything of it runs. */
#ifndef PH_COMM_WORK_AGREE_H
#define PH_COMM_WORK_AGREE_H
#include "comm/work/captured.h"

/* Waits until every rank is about to replay a graph for the first time. *agreed: all have the same
 * collectives, and each send has its receive. Otherwise the record says what differs (MISMATCH),
 * the same on every rank, and the communicator stays good. */
ph_status ph__captured_agree(bool *agreed, const ph__captured_of *of, const char *call);

/* lists: of each rank, `most` places each, of which counts[rank] are taken. False, with the reason
 * in text: the lists do not fit together. */
bool ph__agree_compare(const ph__operation *lists, const size_t *counts, size_t most, uint32_t size,
                       char *text, size_t text_size);
#endif
