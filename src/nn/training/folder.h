/* SPDX-License-Identifier: MIT */
/* nn/training/folder.h: the folder of a training: names, the lock, and what is in it. */
#ifndef PH_NN_TRAINING_FOLDER_H
#define PH_NN_TRAINING_FOLDER_H
#include "base/vec.h"
#include <phonograph/status.h>

#define PH__TRAINING_SAVING   ".saving"   /* a state that is not whole yet */
#define PH__TRAINING_REMOVING ".removing" /* one that is not whole any more */
#define PH__TRAINING_LATEST   "latest"
#define PH__TRAINING_STATE    "state.json"
enum {
    PH__TRAINING_NUMBER = 24 /* bytes of the name of a state */
};

/* By errno: "CALL: cannot DO PATH: words". */
ph_status ph__folder_fail(const char *call, const char *what, const char *path);

/* "FOLDER/NAME", freed with ph__free; NULL: no host memory. */
char *ph__folder_join(const char *folder, const char *name);
void ph__folder_number(char out[PH__TRAINING_NUMBER], uint64_t number);
/* 0: no name of a state */
uint64_t ph__folder_number_of(const char *name);

/* Falling. */
typedef PH__VEC(uint64_t) ph__folder_numbers;
ph_status ph__folder_list(ph__folder_numbers *out, const char *folder, const char *call);
/* The number in "latest"; 0: none. */
ph_status ph__folder_latest(uint64_t *out, const char *folder, const char *call);

/* Makes it where there is none, and takes its lock, which ends as the file is closed. */
ph_status ph__folder_lock(int *out, const char *folder, const char *call);
/* Until then new names in it may be gone when the machine stops. */
ph_status ph__folder_sync(const char *folder, const char *call);
/* With all that is in it; one that is not there is removed. */
ph_status ph__folder_remove(const char *path, const char *call);
/* Removes the leftovers of processes that were killed. For who has the lock. */
ph_status ph__folder_clear(const char *folder, const char *call);
#endif
