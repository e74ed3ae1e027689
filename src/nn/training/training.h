/* SPDX-License-Identifier: MIT */
/* nn/training/training.h: a training as its files share it. */
#ifndef PH_NN_TRAINING_TRAINING_H
#define PH_NN_TRAINING_TRAINING_H
#include "base/vec.h"
#include <phonograph/training.h>
#include <sys/types.h>

/* A kind of part. begin: all that can fail without a trace; path and
 * values stay until end, which is called after each begin that gave OK. finish: behind apply of
 * every part; may be NULL, as drop may. */
typedef struct ph__training_entry ph__training_entry;
typedef struct ph__part_kind {
    const char *name; /* in state.json */
    bool tensors;     /* a file of its own has them */
    ph_status (*save)(const ph__training_entry *entry, ph_values *values, const char *path);
    ph_status (*begin)(ph__training_entry *entry, const ph_values *values, const char *path);
    ph_status (*apply)(ph__training_entry *entry);
    ph_status (*finish)(ph__training_entry *entry);
    void (*end)(ph__training_entry *entry);
    void (*drop)(void *object);
} ph__part_kind;

struct ph__training_entry {
    char *name;
    const ph__part_kind *kind;
    void *object;
    ph_training_part functions; /* of a part of the user's */
    /* of a load that is under way */
    void *load;
    const ph_values *values;
    bool begun;
};

struct ph_training {
    char *folder;
    size_t keep;
    bool read_only;
    int lock;    /* number of the open file; -1: none */
    pid_t owner; /* of the lock */
    PH__VEC(ph__training_entry) entries;
    char *passed_over; /* NULL: nothing */
};
#endif
