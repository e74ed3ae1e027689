/* SPDX-License-Identifier: MIT */
/* locate: three faults planted in graphs, and found: a replay that hangs (breadcrumbs), a NaN
 * (checks), a number that was baked in at capture (verify). The exit status is 1 where one was
 * not found. */
#include <inttypes.h>
#include <math.h>
#include <phonograph/phonograph.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    COUNT = 1 << 12,
    BYTES = COUNT * sizeof(float),
    LAYERS = 3,
    BAD = 417,       /* where the NaN is planted */
    PERIOD_MS = 50,  /* how often the watchdog looks */
    PERIODS_MAX = 60 /* before it gives up */
};

/* ---- kernels ---- */
/* y = y / 2 + x */
struct mix_args {
    uint64_t n;
    const float *x;
    float *y;
};
/* y = the square root of y */
struct root_args {
    uint64_t n;
    float *y;
};
/* w = w - rate * g */
struct descend_args {
    uint64_t n;
    float rate;
    const float *g;
    float *w;
};

static const char mix_cuda[] =
    "extern \"C\" __global__ void mix(unsigned long long n, const float *x, float *y)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = 0.5f * y[i] + x[i];\n"
    "}\n";
static const char root_cuda[] =
    "extern \"C\" __global__ void root(unsigned long long n, float *y)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = sqrtf(y[i]);\n"
    "}\n";
static const char descend_cuda[] =
    "extern \"C\" __global__ void descend(unsigned long long n, float rate, const float *g, float "
    "*w)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) w[i] -= rate * g[i];\n"
    "}\n";

static uint64_t end_of(const ph_block_range *range, uint64_t n)
{
    uint64_t end = range->end * range->block[0];
    return end < n ? end : n;
}

static void mix_host(const ph_block_range *range, const void *args)
{
    const struct mix_args *m = args;
    for (uint64_t i = range->begin * range->block[0]; i < end_of(range, m->n); i++)
        m->y[i] = 0.5f * m->y[i] + m->x[i];
}

static void root_host(const ph_block_range *range, const void *args)
{
    const struct root_args *r = args;
    for (uint64_t i = range->begin * range->block[0]; i < end_of(range, r->n); i++)
        r->y[i] = sqrtf(r->y[i]);
}

static void descend_host(const ph_block_range *range, const void *args)
{
    const struct descend_args *d = args;
    for (uint64_t i = range->begin * range->block[0]; i < end_of(range, d->n); i++)
        d->w[i] -= d->rate * d->g[i];
}

/* Declared, so that messages name parameters. */
static const ph_param descend_params[] = {PH_PARAM(struct descend_args, n, PH_PARAM_VALUE),
                                          PH_PARAM(struct descend_args, rate, PH_PARAM_VALUE),
                                          PH_PARAM(struct descend_args, g, PH_PARAM_ADDRESS),
                                          PH_PARAM(struct descend_args, w, PH_PARAM_ADDRESS)};
static const ph_kernel_source sources[] = {
    {.name = "mix", .cuda = mix_cuda, .host = mix_host, .args_size = sizeof(struct mix_args)},
    {.name = "root", .cuda = root_cuda, .host = root_host, .args_size = sizeof(struct root_args)},
    {.name = "descend",
     .cuda = descend_cuda,
     .host = descend_host,
     .args_size = sizeof(struct descend_args),
     .params = descend_params,
     .param_count = 4}};
enum {
    MIX,
    ROOT,
    DESCEND,
    KERNELS
};

/* The program, and at once its watchdog: what both threads touch is behind the lock. */
struct app {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *kernels[KERNELS];
    ph_graph *graph;
    float *y, *w[LAYERS]; /* device memory */
    float rate;
    float host[COUNT];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool arrived;            /* what the step waits for */
    bool launched, finished; /* the replay: it has returned; it, and the wait for it, are over */
    /* by the watchdog: the place; that the launch did not return in time */
    bool found, waited;
};

static const ph_launch_config config = {.grid = {COUNT / 256}, .block = {256}};

static ph_status mix(const struct app *app, ph_stream *stream, const float *x)
{
    const struct mix_args args = {COUNT, x, app->y};
    return ph_launch(stream, app->kernels[MIX], &config, &args, sizeof args);
}

static ph_status root(const struct app *app, ph_stream *stream)
{
    const struct root_args args = {COUNT, app->y};
    return ph_launch(stream, app->kernels[ROOT], &config, &args, sizeof args);
}

static ph_status capture(struct app *app, ph_capture_fn step, bool breadcrumbs)
{
    const ph_capture_options options = {.enable_annotations = true, .breadcrumbs = breadcrumbs};
    PH_TRY(ph_graph_reset(app->graph));
    return ph_graph_capture(app->graph, app->stream, &options, step, app);
}

static ph_status replay_and_wait(const struct app *app)
{
    PH_TRY(ph_graph_replay(app->graph, app->stream));
    return ph_stream_synchronize(app->stream);
}

/* ---- a hang ---- */
static void set(struct app *app, bool *flag, bool value)
{
    pthread_mutex_lock(&app->lock);
    *flag = value;
    pthread_cond_broadcast(&app->changed);
    pthread_mutex_unlock(&app->lock);
}

/* A host function: waits for a batch, say, that another thread is to bring. */
static void wait_for_batch(void *user)
{
    struct app *app = user;
    pthread_mutex_lock(&app->lock);
    while (!app->arrived)
        pthread_cond_wait(&app->changed, &app->lock);
    pthread_mutex_unlock(&app->lock);
}

static ph_status waiting_step(ph_stream *stream, void *user)
{
    struct app *app = user;
    PH_TRY(ph_annotation_push(stream, "prepare", NULL));
    PH_TRY(ph_memset(app->y, 0, BYTES, stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "layer 1", NULL));
    PH_TRY(mix(app, stream, app->w[0]));
    PH_TRY(ph_annotation_push(stream, "exchange", NULL));
    PH_TRY(ph_launch_host(stream, wait_for_batch, app));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(root(app, stream));
    return ph_annotation_pop(stream);
}

/* Sleeps for a period; true when there is nothing more to watch. */
static bool sleep_a_period(struct app *app, bool *launched)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PERIOD_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&app->lock);
    while (!app->finished && pthread_cond_timedwait(&app->changed, &app->lock, &until) == 0)
        continue;
    bool finished = app->finished;
    *launched = app->launched;
    pthread_mutex_unlock(&app->lock);
    return finished;
}

/* The watchdog. A replay that passes no breadcrumb for a whole period is said to hang; where it is
 * not the planted place, the machine may be slow, and it looks again. Only a launch that has
 * returned is asked about: a graph is for one thread at a time. Whatever it finds, the batch
 * comes in the end. */
static void *watch(void *user)
{
    struct app *app = user;
    size_t passed = SIZE_MAX;
    bool launched = false;
    for (int i = 0; i < PERIODS_MAX && !app->found && !sleep_a_period(app, &launched); i++) {
        ph_progress at;
        if (!launched || ph_graph_where(&at, app->graph) != PH_OK || at.complete)
            continue;
        if (at.passed == passed) {
            printf("hang: no step in %d ms: %s\n", PERIOD_MS, at.message);
            app->found = at.open_count == 2 && strstr(at.open[0], "exchange") != NULL;
        }
        passed = at.passed;
    }
    app->waited = !launched;
    set(app, &app->arrived, true);
    return NULL;
}

static ph_status replay_watched(struct app *app)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, app) != 0)
        return ph_fail(PH_ERROR_CALLER, "no thread for the watchdog");
    ph_status status = ph_graph_replay(app->graph, app->stream);
    if (status == PH_OK) {
        set(app, &app->launched, true);
        status = ph_stream_synchronize(app->stream);
    }
    set(app, &app->finished, true);
    (void)pthread_join(thread, NULL);
    return status;
}

/* The first replay is a good one: it also loads all kernels, which must not happen behind a
 * function that waits. */
static ph_status find_hang(struct app *app)
{
    ph_progress at;
    PH_TRY(capture(app, waiting_step, true));
    PH_TRY(ph_graph_breadcrumbs_enable(app->graph, true));
    set(app, &app->arrived, true);
    PH_TRY(replay_and_wait(app));
    set(app, &app->arrived, false);
    PH_TRY(replay_watched(app));
    if (app->waited) { /* so it is under tools that make launches wait for their work */
        printf("hang: not looked for: the launch did not return before its work was done\n");
        return PH_OK;
    }
    if (!app->found)
        return ph_fail(PH_ERROR_CALLER, "hang: not found in \"exchange\"");
    PH_TRY(ph_graph_where(&at, app->graph));
    if (!at.complete)
        return ph_fail(PH_ERROR_CALLER, "hang: the replay has ended: %s", at.message);
    printf("hang: the batch came, and the replay has passed all %zu breadcrumbs\n", at.count);
    return PH_OK;
}

/* ---- a NaN ---- */
static ph_status checked_step(ph_stream *stream, void *user)
{
    const struct app *app = user;
    char name[16];
    PH_TRY(ph_memset(app->y, 0, BYTES, stream));
    for (int i = 0; i < LAYERS; i++) {
        (void)snprintf(name, sizeof name, "layer %d", i);
        PH_TRY(ph_annotation_push(stream, name, NULL));
        PH_TRY(mix(app, stream, app->w[i]));
        PH_TRY(ph_finite_check(stream, app->y, PH_NUMBER_F32, COUNT, "mix"));
        PH_TRY(ph_annotation_push(stream, "norm", NULL));
        PH_TRY(root(app, stream));
        PH_TRY(ph_finite_check(stream, app->y, PH_NUMBER_F32, COUNT, "root"));
        PH_TRY(ph_annotation_pop(stream));
        PH_TRY(ph_annotation_pop(stream));
    }
    return PH_OK;
}

/* Of the last replay: the first check that saw a number which is not finite. NaN goes on from
 * there, so that later ones do too. *bad_checks: how many did. */
static ph_status first_bad(const struct app *app, ph_finite_result *out, size_t *bad_checks)
{
    size_t count;
    *bad_checks = 0;
    PH_TRY(ph_finite_count(&count, app->graph));
    for (size_t i = 0; i < count; i++) {
        ph_finite_result check;
        PH_TRY(ph_finite_at(&check, app->graph, i));
        if (!check.ran)
            return ph_fail(PH_ERROR_CALLER, "NaN: check %zu has not run", i);
        if (check.bad && (*bad_checks)++ == 0)
            *out = check;
    }
    return PH_OK;
}

static ph_status write_weights(const struct app *app, int layer, float planted)
{
    float host[COUNT];
    for (int i = 0; i < COUNT; i++)
        host[i] = 1;
    host[BAD] = planted;
    return ph_memcpy(app->w[layer], host, BYTES, app->stream);
}

static ph_status find_nan(struct app *app)
{
    ph_finite_result check;
    size_t bad;
    PH_TRY(capture(app, checked_step, false));
    PH_TRY(write_weights(app, 1, -1000)); /* its root is no number */
    PH_TRY(replay_and_wait(app));
    PH_TRY(ph_memcpy(app->host, app->y, BYTES, app->stream));
    PH_TRY(ph_stream_synchronize(app->stream));
    printf("NaN: y[%d] is %g, and no call has failed\n", BAD, (double)app->host[BAD]);

    PH_TRY(ph_finite_enable(app->graph, true)); /* in the live graph: no new capture */
    PH_TRY(replay_and_wait(app));
    PH_TRY(first_bad(app, &check, &bad));
    if (bad == 0)
        return ph_fail(PH_ERROR_CALLER, "NaN: not found");
    printf("NaN: first in \"%s\" of %s (node %zu): %" PRIu64 " bad, the first at %" PRIu64 ": %g\n",
           check.name, check.scope, check.node, check.bad, check.first, check.value);
    if (strcmp(check.name, "root") != 0 || strstr(check.scope, "layer 1") == NULL ||
        check.bad != 1 || check.first != BAD || !isnan(check.value))
        return ph_fail(PH_ERROR_CALLER, "NaN: found elsewhere than in the root of layer 1 at %d",
                       BAD);

    PH_TRY(write_weights(app, 1, 1));
    PH_TRY(replay_and_wait(app));
    PH_TRY(first_bad(app, &check, &bad));
    if (bad != 0)
        return ph_fail(PH_ERROR_CALLER, "NaN: still there with weights that are whole");
    printf("NaN: with whole weights all is finite\n");
    return ph_finite_enable(app->graph, false);
}

/* ---- a baked scalar ---- */
static struct descend_args descent(const struct app *app)
{
    return (struct descend_args){COUNT, app->rate, app->y, app->w[0]};
}

static ph_status training_step(ph_stream *stream, void *user)
{
    const struct app *app = user;
    const struct descend_args args = descent(app);
    PH_TRY(ph_annotation_push(stream, "gradient", NULL));
    PH_TRY(mix(app, stream, app->w[1]));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "update", NULL));
    PH_TRY(ph_launch(stream, app->kernels[DESCEND], &config, &args, sizeof args));
    return ph_annotation_pop(stream);
}

static ph_status verify(struct app *app, ph_verify_result *out, ph_verify_verdict expected)
{
    PH_TRY(ph_graph_verify(out, app->graph, app->stream, training_step, app, NULL));
    printf("verify: %s\n", out->message);
    return out->verdict == expected
               ? PH_OK
               : ph_fail(PH_ERROR_CALLER, "verify: another verdict than was expected: %s",
                         out->message);
}

/* The node that was found is the descent, and the message names the parameter. */
static ph_status find_baked_scalar(struct app *app)
{
    ph_verify_result result;
    ph_node_info node;
    const ph_record *record;
    app->rate = 0.1f;
    PH_TRY(capture(app, training_step, false));
    PH_TRY(verify(app, &result, PH_VERIFY_EQUAL));

    app->rate = 0.01f; /* a schedule, which the graph knows nothing of */
    PH_TRY(verify(app, &result, PH_VERIFY_NODE_DIFFERS));
    PH_TRY(ph_graph_record(&record, app->graph));
    PH_TRY(ph_record_node(&node, record, result.node));
    if (strcmp(node.name, "descend") != 0 || strstr(result.message, "rate") == NULL)
        return ph_fail(PH_ERROR_CALLER, "verify: found node %zu (%s)", result.node, node.name);

    const struct descend_args args = descent(app);
    PH_TRY(ph_graph_node_set_launch(app->graph, result.node, &config, &args, sizeof args));
    return verify(app, &result, PH_VERIFY_EQUAL);
}

/* ---- the program ---- */
static ph_status run(struct app *app, const char *device)
{
    PH_TRY(ph_device_open(&app->device, device, NULL));
    PH_TRY(ph_stream_create(&app->stream, app->device, NULL));
    for (int i = 0; i < KERNELS; i++)
        PH_TRY(ph_kernel_create(&app->kernels[i], app->device, &sources[i]));
    PH_TRY(PH_NEW(&app->y, COUNT, app->stream));
    for (int i = 0; i < LAYERS; i++) {
        PH_TRY(PH_NEW(&app->w[i], COUNT, app->stream));
        PH_TRY(write_weights(app, i, 1));
    }
    PH_TRY(ph_graph_create(&app->graph, NULL));
    PH_TRY(find_hang(app));
    PH_TRY(find_nan(app));
    return find_baked_scalar(app);
}

int main(int argc, char **argv)
{
    static struct app app = {.lock = PTHREAD_MUTEX_INITIALIZER,
                             .changed = PTHREAD_COND_INITIALIZER};
    ph_status status = run(&app, argc > 1 ? argv[1] : "auto");
    ph_annotation_unwind(0); /* what a step that failed has left open */
    ph_graph_destroy(app.graph);
    for (int i = 0; i < LAYERS; i++)
        ph_free(app.w[i], app.stream);
    ph_free(app.y, app.stream);
    for (int i = 0; i < KERNELS; i++)
        ph_kernel_release(app.kernels[i]);
    ph_stream_destroy(app.stream);
    ph_device_release(app.device);
    if (status != PH_OK)
        (void)fprintf(stderr, "locate: %s\n", ph_error_last()->message);
    return status != PH_OK;
}
