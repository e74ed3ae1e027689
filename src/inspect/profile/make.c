/* SPDX-License-Identifier: MIT */
/* inspect/profile/make.c: a profile out of the record and the times of each replay; it keeps
 * copies of all that it needs. */
#include "inspect/profile/make.h"
#include "base/checked.h"
#include "inspect/profile/analyse.h"
#include "inspect/profile/profile.h"
#include "inspect/profile/scopes.h"
#include <string.h>

/* Names and dependencies behind the nodes, in one block. */
static bool copy_nodes(ph_profile *profile, const ph_record *record)
{
    size_t edges = 0, names = 0;
    for (size_t i = 0; i < record->node_count; i++) {
        edges += record->nodes[i].info.dependency_count;
        names += strlen(record->nodes[i].info.name) + 1;
    }
    char *block = ph__calloc(1, record->node_count * sizeof *profile->nodes +
                                    edges * (sizeof(size_t) + sizeof(ph_edge_kind)) + names + 1);
    if (!block)
        return false;
    profile->nodes = (ph__profile_node *)(void *)block;
    profile->count = record->node_count;
    size_t *depends = (size_t *)(void *)(profile->nodes + record->node_count);
    ph_edge_kind *kinds = (ph_edge_kind *)(void *)(depends + edges);
    char *text = (char *)(kinds + edges);
    for (size_t i = 0; i < record->node_count; i++) {
        const ph__record_node *from = &record->nodes[i];
        size_t count = from->info.dependency_count, length = strlen(from->info.name) + 1;
        profile->nodes[i] = (ph__profile_node){.kind = from->info.kind,
                                               .name = text,
                                               .depends = depends,
                                               .edges = kinds,
                                               .depend_count = count};
        memcpy(text, from->info.name, length);
        if (count > 0) {
            memcpy(depends, from->dependencies, count * sizeof *depends);
            memcpy(kinds, from->dependency_kinds, count * sizeof *kinds);
        }
        text += length;
        depends += count;
        kinds += count;
    }
    return true;
}

static bool make_profile(ph_profile *profile, const ph_record *record,
                         const ph__profile_times *times)
{
    return copy_nodes(profile, record) && ph__profile_collect_scopes(profile, record) &&
           ph__profile_acquire_times(profile, times) && ph__profile_find_critical(profile) &&
           ph__profile_find_lanes(profile) && ph__profile_sum_scopes(profile);
}

ph_status ph__profile_make(ph_profile **out, const ph_record *record,
                           const ph__profile_times *times, ph_profile_source source,
                           const char *call)
{
    *out = NULL;
    ph_profile *profile = ph__calloc(1, sizeof *profile);
    if (profile && make_profile(profile, record, times)) {
        profile->record_id = record->id;
        profile->summary.source = source;
        profile->summary.replays = (unsigned)times->replays;
        profile->summary.node_count = record->node_count;
        *out = profile;
        return PH_OK;
    }
    ph_profile_destroy(profile);
    return ph__fail_host_memory(call, "the profile");
}

void ph_profile_destroy(ph_profile *profile)
{
    if (!profile)
        return;
    ph__profile_free_scopes(profile);
    ph__vec_free(&profile->gaps);
    ph__free(profile->critical);
    ph__free(profile->by_start);
    ph__free(profile->nodes);
    ph__free(profile);
}
