/* SPDX-License-Identifier: MIT */
/* nn/loader/slots.h: the places of batches: their memory, which batch each has, and the copies. */
#ifndef PH_NN_LOADER_SLOTS_H
#define PH_NN_LOADER_SLOTS_H
#include "nn/loader/loader.h"

ph_status ph__slots_create(ph_data_loader *loader, const char *call);
void ph__slots_destroy(ph_data_loader *loader);
/* Gives each slot its batch, from that one on, and opens it; the lock held. */
void ph__slots_assign(ph_data_loader *loader, uint64_t first);
/* Its next batch, and opens it where there is one; the lock held. */
void ph__slot_advance(ph_data_loader *loader, ph__loader_slot *slot);
/* Memory that others hold too is left to them: the next copy into the slot gets other memory. Asked
 * when the batch is given back: work of those who let go of it later comes after `used`. */
void ph__slot_leave_held(ph_data_loader *loader, ph__loader_slot *slot);
/* Until the pinned memory may be written: the copies from it are done. */
ph_status ph__slot_await_copies(ph__loader_slot *slot);
/* Submits the copies of what was fetched. */
ph_status ph__slot_submit(ph_data_loader *loader, ph__loader_slot *slot);
#endif
