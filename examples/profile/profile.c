/* SPDX-License-Identifier: MIT */
/* profile: where the time of a graph goes, by node and by annotation, and whether the graph is
 * worth having. usage: profile [device [trace.json [record.json]]] */
#include <inttypes.h>
#include <phonograph/phonograph.h>
#include <stdio.h>

enum {
    LAYERS = 3,
    COUNT = 1 << 9
};

/* x[i] = x[i] * a + b, `rounds` times. */
struct mix_args {
    uint64_t n, rounds;
    float *x;
};

static const char mix_cuda[] =
    "extern \"C\" __global__ void mix(unsigned long long n, unsigned long long rounds, float *x)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    float v = x[i];\n"
    "    for (unsigned long long r = 0; r < rounds; r++) v = v * 0.5f + 1.0f;\n"
    "    x[i] = v;\n"
    "}\n";

static void mix_host(const ph_block_range *range, const void *args)
{
    const struct mix_args *m = args;
    uint64_t end = range->end * range->block[0] < m->n ? range->end * range->block[0] : m->n;
    for (uint64_t i = range->begin * range->block[0]; i < end; i++) {
        float v = m->x[i];
        for (uint64_t r = 0; r < m->rounds; r++)
            v = v * 0.5f + 1.0f;
        m->x[i] = v;
    }
}

static const ph_kernel_source mix_source = {
    .name = "mix", .cuda = mix_cuda, .host = mix_host, .args_size = sizeof(struct mix_args)};

struct app {
    ph_device *device;
    ph_stream *stream, *side;
    ph_event *fork, *join;
    ph_kernel *mix;
    ph_graph *graph;
    ph_profile *profile;
    float *x, *y;
};

static ph_status mix(const struct app *app, ph_stream *stream, float *x, uint64_t rounds)
{
    const struct mix_args args = {COUNT, rounds, x};
    const ph_launch_config config = {.grid = {COUNT / 256}, .block = {256}};
    return ph_launch(stream, app->mix, &config, &args, sizeof args);
}

/* What was opened is ended, also when the work between fails. */
static ph_status part(const struct app *app, ph_stream *stream, const char *name, float *x,
                      uint64_t rounds)
{
    PH_TRY(ph_annotation_push(stream, name, NULL));
    ph_status status = mix(app, stream, x, rounds);
    PH_TRY(ph_annotation_pop(stream));
    return status;
}

/* A layer: "attention" on the one stream beside "gate" on the other, then "merge" behind both. */
static ph_status layer(ph_stream *stream, const struct app *app)
{
    PH_TRY(ph_event_record(app->fork, stream));
    PH_TRY(ph_stream_wait_event(app->side, app->fork));
    PH_TRY(part(app, app->side, "gate", app->y, 2));
    PH_TRY(ph_event_record(app->join, app->side));
    PH_TRY(part(app, stream, "attention", app->x, 16));
    PH_TRY(ph_stream_wait_event(stream, app->join));
    return part(app, stream, "merge", app->x, 4);
}

static ph_status step(ph_stream *stream, void *user)
{
    for (int i = 0; i < LAYERS; i++) {
        const ph_annotation_pair number = {
            .key = "layer", .type = PH_ANNOTATION_INTEGER, .integer = i};
        const ph_annotation_options options = {.pairs = &number, .count = 1};
        PH_TRY(ph_annotation_push(stream, NULL, &options));
        ph_status status = layer(stream, user);
        PH_TRY(ph_annotation_pop(stream));
        PH_TRY(status);
    }
    return PH_OK;
}

/* ---- what was found ---- */

static void print_pairs(const ph_profile_scope *scope)
{
    for (size_t i = 0; i < scope->pair_count; i++) {
        const ph_annotation_pair *pair = &scope->pairs[i];
        if (pair->type == PH_ANNOTATION_TEXT)
            printf(" %s=%s", pair->key, pair->text);
        else
            printf(" %s=%" PRId64, pair->key, pair->integer);
    }
}

static ph_status print_profile(const ph_profile *profile)
{
    static const char *const sources[] = {"auto", "device", "cupti", "events"};
    ph_profile_summary s;
    const size_t *path;
    size_t count;
    PH_TRY(ph_profile_get(&s, profile));
    printf("%zu nodes in %zu lane%s, %u replays, source %s\n", s.node_count, s.lane_count,
           s.lane_count == 1 ? "" : "s", s.replays, sources[s.source]);
    printf("replay %.1f us: busy %.1f, idle %.1f; work %.1f, critical path %.1f\n",
           (double)s.replay_ns / 1e3, (double)s.busy_ns / 1e3, (double)s.idle_ns / 1e3,
           (double)s.work_ns / 1e3, (double)s.critical_ns / 1e3);
    PH_TRY(ph_profile_critical_path(&path, &count, profile));
    printf("critical path:");
    for (size_t i = 0; i < count; i++)
        printf(" %zu", path[i]);
    printf("\n\n  node   start  median   slack lane\n");
    for (size_t n = 0; n < s.node_count; n++) {
        ph_profile_node node;
        PH_TRY(ph_profile_node_at(&node, profile, n));
        printf("  %4zu %7.1f %7.1f %7.1f %4" PRIu32 "%s\n", n, (double)node.start_ns / 1e3,
               (double)node.median_ns / 1e3, (double)node.slack_ns / 1e3, node.lane,
               node.critical ? " critical" : "");
    }
    printf("\n  work us  of it critical  annotation\n");
    for (size_t i = 0; i < ph_profile_scope_count(profile); i++) {
        ph_profile_scope scope;
        PH_TRY(ph_profile_scope_at(&scope, profile, i));
        printf("  %7.1f  %14.1f ", (double)scope.work_ns / 1e3, (double)scope.critical_ns / 1e3);
        print_pairs(&scope);
        printf("\n");
    }
    return PH_OK;
}

static ph_status run(struct app *app, int count, char **arguments)
{
    const ph_capture_options annotated = {.enable_annotations = true};
    ph_verdict verdict;
    PH_TRY(ph_device_open(&app->device, count > 1 ? arguments[1] : "auto", NULL));
    PH_TRY(ph_stream_create(&app->stream, app->device, NULL));
    PH_TRY(ph_stream_create(&app->side, app->device, NULL));
    PH_TRY(ph_event_create(&app->fork, app->device, NULL));
    PH_TRY(ph_event_create(&app->join, app->device, NULL));
    PH_TRY(ph_kernel_create(&app->mix, app->device, &mix_source));
    PH_TRY(PH_NEW(&app->x, COUNT, app->stream));
    PH_TRY(PH_NEW(&app->y, COUNT, app->stream));
    PH_TRY(ph_memset(app->x, 0, COUNT * sizeof *app->x, app->stream));
    PH_TRY(ph_memset(app->y, 0, COUNT * sizeof *app->y, app->stream));
    PH_TRY(ph_graph_create(&app->graph, NULL));
    PH_TRY(ph_graph_capture(app->graph, app->stream, &annotated, step, app));

    PH_TRY(ph_graph_profile(&app->profile, app->graph, app->stream, NULL));
    PH_TRY(print_profile(app->profile));
    if (count > 2)
        PH_TRY(ph_profile_dump_trace(app->profile, arguments[2]));
    if (count > 3)
        PH_TRY(ph_profile_dump_record(app->profile, app->graph, arguments[3]));

    PH_TRY(ph_graph_verdict(&verdict, app->graph, app->stream, step, app, NULL));
    printf("\n%s\n", verdict.sentence);
    return PH_OK;
}

int main(int count, char **arguments)
{
    struct app app = {0};
    ph_status status = run(&app, count, arguments);
    if (status != PH_OK)
        (void)fprintf(stderr, "%s: %s\n", ph_status_name(status), ph_error_last()->message);
    ph_profile_destroy(app.profile);
    ph_graph_destroy(app.graph);
    ph_free(app.x, app.stream);
    ph_free(app.y, app.stream);
    ph_kernel_release(app.mix);
    ph_event_destroy(app.fork);
    ph_event_destroy(app.join);
    ph_stream_destroy(app.side);
    ph_stream_destroy(app.stream);
    ph_device_release(app.device);
    return status == PH_OK ? 0 : 1;
}
