/* SPDX-License-Identifier: MIT */
/* phonograph/training.h: the state of a whole training in one folder: saved in one call, loaded in
 * one call, so that a training goes on to the bit where it was stopped. */
#ifndef PHONOGRAPH_TRAINING_H
#define PHONOGRAPH_TRAINING_H
#include <phonograph/data_loader.h>
#include <phonograph/grad_scaler.h>
#include <phonograph/lr_schedule.h>
#include <phonograph/module.h>
#include <phonograph/values.h>

PH_BEGIN_DECLS

/* A training is a list of named parts, and a folder with its saved states:
 *
 * - "000012" is the folder of state 12, numbers rise by 1: "NAME.safetensors" has a part's tensors,
 *   "state.json" all else, and the sizes of the files;
 * - "latest" names the newest state, for other programs; "lock" is held by who may save.
 *
 * A state gets its name when all of it is on the disk (fsync), and "latest" is replaced by rename
 * then: a process that is killed, and a machine that stops, leave the states before. Externally
 * synchronised. */
typedef struct ph_training ph_training;
typedef struct ph_training_options {
    /* saved states that stay, the newest whole ones; 0: 3; PH_ZERO: all */
    size_t keep;
    bool read_only; /* loads beside a process that saves: takes no lock, makes no folder */
    uint64_t reserved[4];
} ph_training_options;

/* Makes the folder where there is none (its parent must be there). STATE: another process, or
 * another ph_training of this one, may save there; IO: the folder cannot be made or written.
 * options NULL: defaults. */
PH_CALL ph_training_create(ph_training **out, const char *folder,
                           const ph_training_options *options);
PH_API void ph_training_destroy(ph_training *training); /* takes NULL */

/* ---- parts ---- a name is unique, of letters, digits, '_', '-' and '.', and begins with no dot:
 * ARGUMENT. Modules, optimizers and generators are kept until destroy; all else must stay as long.
 * An optimizer's part has its learning rate too. A graphed module is that of its original. */
PH_CALL ph_training_add_module(ph_training *training, const char *name, ph_module *module);
PH_CALL ph_training_add_optimizer(ph_training *training, const char *name, ph_optimizer *optimizer);
PH_CALL ph_training_add_generator(ph_training *training, const char *name, ph_generator *generator);
PH_CALL ph_training_add_lr_schedule(ph_training *training, const char *name,
                                    ph_lr_schedule *schedule);
/* A disabled scaler has no state, and takes any. */
PH_CALL ph_training_add_grad_scaler(ph_training *training, const char *name,
                                    ph_grad_scaler *scaler);
/* its position */
PH_CALL ph_training_add_data_loader(ph_training *training, const char *name,
                                    ph_data_loader *loader);
/* variables of the caller's, read by save and written by load */
PH_CALL ph_training_add_integer(ph_training *training, const char *name, int64_t *value);
PH_CALL ph_training_add_real(ph_training *training, const char *name, double *value);
/* Anything else. check: whether load would take the values, and changes nothing; it is called for
 * all parts before load is for the first. The values are there during the call. */
typedef struct ph_training_part {
    ph_status (*save)(ph_values *values, void *self);
    ph_status (*check)(const ph_values *values, void *self);
    ph_status (*load)(const ph_values *values, void *self);
} ph_training_part;
PH_CALL ph_training_add(ph_training *training, const char *name, const ph_training_part *part,
                        void *self);

/* ---- saving and loading ---- Both calls wait for the devices: refused in a capture (CAPTURE,
 * 900).
 *
 * save makes a new state; *number (may be NULL) is its number.
 * - A failed save leaves the states before as they were, and nothing of the new one. IO: a full
 *   disk, say. STATE: no parts, read_only, or a child of fork(), which has not the lock.
 * - States older than those to keep are removed. A warning (log.h) names one that stays.
 */
PH_CALL ph_training_save(ph_training *training, uint64_t *number);
/* number 0: the newest whole state; else that very one. *loaded (may be NULL) is its number.
 * - Each newer state that is passed over is a warning, and a line of ph_training_passed_over.
 * - Nothing changes unless all of it fits. The device can fail later, and a function of the
 *   caller's: the message names the part, and some parts may have been loaded.
 * - NOT_FOUND: nothing was saved yet, or there is no state of that number.
 * - IO, SIZE, ARGUMENT: no state is whole; the message names the file.
 * - MISMATCH: the state has other parts, or a part has other tensors: they are listed; a value of
 *   a part is missing; an optimizer's groups are others in number or size. An older state is not
 *   looked for. */
PH_CALL ph_training_load(ph_training *training, uint64_t number, uint64_t *loaded);
/* A line for each state that the last load passed over; "": none. Borrowed until the next load or
 * destroy. */
PH_API const char *ph_training_passed_over(const ph_training *training);

PH_END_DECLS
#endif
