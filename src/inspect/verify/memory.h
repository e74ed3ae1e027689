/* SPDX-License-Identifier: MIT */
/* inspect/verify/memory.h: the contents of the memory that a verification keeps. */
#ifndef PH_INSPECT_VERIFY_MEMORY_H
#define PH_INSPECT_VERIFY_MEMORY_H
#include "inspect/verify/verify.h"

/* Reads what was collected since the last time into `start`. */
ph_status ph__verify_keep(ph__verify *verify);
ph_status ph__verify_make_images(ph__verify *verify); /* for all that was collected */
ph_status ph__verify_read(ph__verify *verify, ph__image *to);
/* `start`, with poison over what is poisoned; waits. */
ph_status ph__verify_write(ph__verify *verify, ph__poison_pattern poison);
#endif
