/* SPDX-License-Identifier: MIT */
/* inspect/profile/record.c: the record with the times in it; docs/reference/record.md describes
 * each field. */
#include "base/json.h"
#include "base/text.h"
#include "base/text_file.h"
#include "graph/object/graph.h"
#include "inspect/profile/profile.h"
#include "inspect/profile/read.h"
#include "inspect/races/races.h"
#include "record/foreign.h"
#include "record/json.h"

static void put_u64(ph__json *json, const char *key, uint64_t value)
{
    ph__json_key(json, key);
    ph__json_u64(json, value);
}

static void put_verdict(ph__json *json, const ph_verdict *verdict)
{
    ph__json_key(json, "verdict");
    ph__json_open(json, '{');
    ph__json_key(json, "worth");
    ph__json_bool(json, verdict->worth);
    ph__json_key(json, "bound");
    ph__json_string(json, verdict->bound == PH_BOUND_LAUNCH ? "launch" : "device");
    put_u64(json, "eager_ns", verdict->eager_ns);
    put_u64(json, "replay_ns", verdict->replay_ns);
    put_u64(json, "eager_host_ns", verdict->eager_host_ns);
    put_u64(json, "replay_host_ns", verdict->replay_host_ns);
    put_u64(json, "device_ns", verdict->device_ns);
    put_u64(json, "bytes", verdict->bytes);
    ph__json_key(json, "sentence");
    ph__json_string(json, verdict->sentence);
    ph__json_close(json, '}');
}

static void put_summary(ph__json *json, const ph_profile *profile)
{
    const ph_profile_summary *summary = &profile->summary;
    ph__json_key(json, "profile");
    ph__json_open(json, '{');
    ph__json_key(json, "source");
    ph__json_string(json, ph__profile_source_name(summary->source));
    put_u64(json, "replays", summary->replays);
    put_u64(json, "lane_count", summary->lane_count);
    put_u64(json, "replay_ns", summary->replay_ns);
    put_u64(json, "busy_ns", summary->busy_ns);
    put_u64(json, "idle_ns", summary->idle_ns);
    put_u64(json, "work_ns", summary->work_ns);
    put_u64(json, "critical_ns", summary->critical_ns);
    ph__json_key(json, "critical_path");
    ph__json_open(json, '[');
    for (size_t i = 0; i < summary->critical_count; i++)
        ph__json_u64(json, profile->critical[i]);
    ph__json_close(json, ']');
    ph__json_close(json, '}');
}

enum {
    MOST_RACES = 200 /* of a file; certain ones come first */
};

static void put_race(ph__json *json, const ph_race *race)
{
    ph__json_open(json, '{');
    ph__json_key(json, "certain");
    ph__json_bool(json, race->certain);
    put_u64(json, "first", race->first.node);
    put_u64(json, "second", race->second.node);
    ph__json_key(json, "address");
    ph__json_hex(json, race->address);
    put_u64(json, "bytes", race->bytes);
    ph__json_key(json, "text");
    ph__json_string(json, race->text);
    ph__json_close(json, '}');
}

static void put_races(ph__json *json, const ph_races *races)
{
    size_t certain, count = ph_races_count(races, &certain);
    ph__json_key(json, "races");
    ph__json_open(json, '{');
    put_u64(json, "certain", certain);
    put_u64(json, "possible", count - certain);
    put_u64(json, "found", ph_races_found(races));
    ph__json_key(json, "list");
    ph__json_open(json, '[');
    for (size_t i = 0; i < count && i < MOST_RACES; i++) {
        ph_race race;
        if (ph_races_at(&race, races, i) == PH_OK)
            put_race(json, &race);
    }
    ph__json_close(json, ']');
    ph__json_close(json, '}');
}

typedef struct written {
    const ph_profile *profile;
    const ph_verdict *verdict; /* NULL: nobody asked for one */
    const ph_races *races;
} written;

static void put_top(ph__json *json, void *user)
{
    const written *w = user;
    put_summary(json, w->profile);
    if (w->verdict)
        put_verdict(json, w->verdict);
    put_races(json, w->races);
}

static void put_node(ph__json *json, size_t index, void *user)
{
    const written *w = user;
    const ph__profile_node *node = &w->profile->nodes[index];
    if (!node->info.measured)
        return;
    ph__json_key(json, "profile");
    ph__json_open(json, '{');
    put_u64(json, "start_ns", node->info.start_ns);
    put_u64(json, "run_ns", node->run_ns);
    put_u64(json, "median_ns", node->info.median_ns);
    put_u64(json, "least_ns", node->info.least_ns);
    put_u64(json, "most_ns", node->info.most_ns);
    put_u64(json, "lane", node->info.lane);
    ph__json_key(json, "critical");
    ph__json_bool(json, node->info.critical);
    put_u64(json, "slack_ns", node->info.slack_ns);
    ph__json_close(json, '}');
}

ph_status ph_profile_dump_record(const ph_profile *profile, ph_graph *graph, const char *path)
{
    static const char call[] = "ph_profile_dump_record";
    ph__json json = {0};
    if (profile == NULL)
        return ph__fail_null(call, "profile");
    PH_TRY(ph__graph_check(graph, PH__CALL_PROFILE_DUMP_RECORD));
    if (path == NULL)
        return ph__fail_null(call, "path");
    if (graph->record->id != profile->record_id)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the profile is of another capture than the graph has; profile it again",
                       call);
    PH_TRY(ph__record_find_foreign(graph->record, graph->device, call));
    ph_races *races = NULL;
    PH_TRY(ph__races_find(&races, graph->record, call));
    written w = {profile, graph->verdict, races};
    const ph__record_more more = {put_top, put_node, &w};
    ph__record_to_json_with(&json, graph->record, &more);
    ph_races_destroy(races);
    ph__text_add(&json.text, "\n");
    ph_status status = ph__text_write_file(&json.text, path, call);
    ph__text_free(&json.text);
    return status;
}
