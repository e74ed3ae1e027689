/* SPDX-License-Identifier: MIT */
/* nn/training/part_data_loader.c: the position of a data loader as values. */
#include "nn/training/part_data_loader.h"
#include "nn/loader/position.h"
#include "nn/training/parts.h"

/* Where a position has the number of each name. */
typedef struct position_member {
    const char *name;
    uint64_t *at;
} position_member;
enum {
    POSITION_MEMBERS = 8
};
typedef struct position_members {
    position_member at[POSITION_MEMBERS];
} position_members;

static position_members members_of_position(ph_data_loader_position *p)
{
    return (position_members){{{"epoch", &p->epoch},
                               {"batch", &p->batch},
                               {"seed", &p->seed},
                               {"count", &p->count},
                               {"batch_size", &p->batch_size},
                               {"world", &p->world},
                               {"shuffle", &p->shuffle},
                               {"drop_last", &p->drop_last}}};
}

static ph_status save_position(const ph__training_entry *entry, ph_values *values, const char *path)
{
    ph_data_loader_position position;
    (void)path;
    PH_TRY(ph_data_loader_get_position(&position, entry->object));
    position_members members = members_of_position(&position);
    for (size_t i = 0; i < POSITION_MEMBERS; i++)
        PH_TRY(ph__part_set_bits(values, members.at[i].name, *members.at[i].at));
    return PH_OK;
}

static ph_status read_position(ph_data_loader_position *out, const ph_values *values)
{
    *out = (ph_data_loader_position){.epoch = 0};
    position_members members = members_of_position(out);
    for (size_t i = 0; i < POSITION_MEMBERS; i++)
        PH_TRY(ph__part_get_bits(members.at[i].at, values, members.at[i].name));
    return PH_OK;
}

static ph_status begin_position(ph__training_entry *entry, const ph_values *values,
                                const char *path)
{
    ph_data_loader_position position;
    (void)path;
    PH_TRY(read_position(&position, values));
    return ph__loader_check_position(&position, entry->object, "ph_training_load");
}

static ph_status apply_position(ph__training_entry *entry)
{
    ph_data_loader_position position;
    PH_TRY(read_position(&position, entry->values));
    return ph_data_loader_set_position(entry->object, &position);
}

static void end_position(ph__training_entry *entry)
{
    (void)entry;
}

const ph__part_kind ph__part_data_loader = {.name = "data_loader",
                                            .save = save_position,
                                            .begin = begin_position,
                                            .apply = apply_position,
                                            .end = end_position};
