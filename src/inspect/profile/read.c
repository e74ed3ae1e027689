/* SPDX-License-Identifier: MIT */
/* inspect/profile/read.c: the public questions to a profile. */
#include "inspect/profile/read.h"
#include "base/status.h"
#include "inspect/profile/profile.h"

const char *ph__profile_source_name(ph_profile_source source)
{
    static const char *const names[] = {"auto", "device", "cupti", "events"};
    return names[source];
}

ph_status ph_profile_get(ph_profile_summary *out, const ph_profile *profile)
{
    static const char call[] = "ph_profile_get";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = (ph_profile_summary){0};
    if (profile == NULL)
        return ph__fail_null(call, "profile");
    *out = profile->summary;
    return PH_OK;
}

static ph_status not_found(const char *call, const char *what, size_t index, size_t count)
{
    return ph_fail(PH_ERROR_NOT_FOUND,
                   "%s: %s %zu does not exist; the profile has %zu, numbered from 0", call, what,
                   index, count);
}

ph_status ph_profile_node_at(ph_profile_node *out, const ph_profile *profile, size_t node)
{
    static const char call[] = "ph_profile_node_at";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = (ph_profile_node){0};
    if (profile == NULL)
        return ph__fail_null(call, "profile");
    if (node >= profile->count)
        return not_found(call, "node", node, profile->count);
    *out = profile->nodes[node].info;
    return PH_OK;
}

ph_status ph_profile_critical_path(const size_t **nodes, size_t *count, const ph_profile *profile)
{
    static const char call[] = "ph_profile_critical_path";
    if (nodes == NULL)
        return ph__fail_null(call, "nodes");
    *nodes = NULL;
    if (count == NULL)
        return ph__fail_null(call, "count");
    *count = 0;
    if (profile == NULL)
        return ph__fail_null(call, "profile");
    *nodes = profile->critical;
    *count = profile->summary.critical_count;
    return PH_OK;
}

size_t ph_profile_scope_count(const ph_profile *profile)
{
    return profile ? profile->scopes.count : 0;
}

ph_status ph_profile_scope_at(ph_profile_scope *out, const ph_profile *profile, size_t index)
{
    static const char call[] = "ph_profile_scope_at";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = (ph_profile_scope){0};
    if (profile == NULL)
        return ph__fail_null(call, "profile");
    if (index >= profile->scopes.count)
        return not_found(call, "scope", index, profile->scopes.count);
    *out = profile->scopes.at[profile->sorted[index]].info;
    return PH_OK;
}

size_t ph_profile_gap_count(const ph_profile *profile)
{
    return profile ? profile->gaps.count : 0;
}

ph_status ph_profile_gap_at(ph_profile_gap *out, const ph_profile *profile, size_t index)
{
    static const char call[] = "ph_profile_gap_at";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = (ph_profile_gap){0};
    if (profile == NULL)
        return ph__fail_null(call, "profile");
    if (index >= profile->gaps.count)
        return not_found(call, "idle time", index, profile->gaps.count);
    *out = profile->gaps.at[index];
    return PH_OK;
}
