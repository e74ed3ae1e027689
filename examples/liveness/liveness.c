/* SPDX-License-Identifier: MIT */
/* liveness: memory that a graph reads is freed: the replay is refused and says who reads what,
 * and where it was freed. What else the graph reads, what no check can see, and how to go on. */
#include <inttypes.h>
#include <phonograph/phonograph.h>
#include <stdio.h>
#include <string.h>

enum {
    COUNT = 1 << 10,
    BYTES = COUNT * sizeof(float),
    LAYERS = 2,
    ROWS = 2,
    FRAMES = 4 /* of each backtrace */
};

/* y[i] = the sum of all rows at i. The rows' addresses stand in device memory, where no check of
 * parameters sees them. */
struct gather_args {
    uint64_t n, rows;
    const float *const *table;
    float *y;
};

static const char gather_cuda[] =
    "extern \"C\" __global__ void gather(unsigned long long n, unsigned long long rows,\n"
    "                                  const float *const *table, float *y)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i >= n) return;\n"
    "    float sum = 0;\n"
    "    for (unsigned long long r = 0; r < rows; r++) sum += table[r][i];\n"
    "    y[i] = sum;\n"
    "}\n";

static void gather_host(const ph_block_range *range, const void *args)
{
    const struct gather_args *g = args;
    uint64_t end = range->end * range->block[0] < g->n ? range->end * range->block[0] : g->n;
    for (uint64_t i = range->begin * range->block[0]; i < end; i++) {
        float sum = 0;
        for (uint64_t r = 0; r < g->rows; r++)
            sum += g->table[r][i];
        g->y[i] = sum;
    }
}

struct add_bias_args {
    uint64_t n;
    const float *bias;
    float *y;
};

static const char add_bias_cuda[] =
    "extern \"C\" __global__ void add_bias(unsigned long long n, const float *bias, float *y)\n"
    "{\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] += bias[i];\n"
    "}\n";

static void add_bias_host(const ph_block_range *range, const void *args)
{
    const struct add_bias_args *b = args;
    uint64_t end = range->end * range->block[0] < b->n ? range->end * range->block[0] : b->n;
    for (uint64_t i = range->begin * range->block[0]; i < end; i++)
        b->y[i] += b->bias[i];
}

/* Declared parameters: what is an address for certain is refused when it is dead. A word that
 * only looks like one gives a warning. */
static const ph_param gather_params[] = {PH_PARAM(struct gather_args, n, PH_PARAM_VALUE),
                                         PH_PARAM(struct gather_args, rows, PH_PARAM_VALUE),
                                         PH_PARAM(struct gather_args, table, PH_PARAM_ADDRESS),
                                         PH_PARAM(struct gather_args, y, PH_PARAM_ADDRESS)};
static const ph_param add_bias_params[] = {PH_PARAM(struct add_bias_args, n, PH_PARAM_VALUE),
                                           PH_PARAM(struct add_bias_args, bias, PH_PARAM_ADDRESS),
                                           PH_PARAM(struct add_bias_args, y, PH_PARAM_ADDRESS)};

static const ph_kernel_source gather_source = {.name = "gather",
                                               .cuda = gather_cuda,
                                               .host = gather_host,
                                               .args_size = sizeof(struct gather_args),
                                               .params = gather_params,
                                               .param_count = 4};
static const ph_kernel_source add_bias_source = {.name = "add_bias",
                                                 .cuda = add_bias_cuda,
                                                 .host = add_bias_host,
                                                 .args_size = sizeof(struct add_bias_args),
                                                 .params = add_bias_params,
                                                 .param_count = 3};

struct app {
    ph_device *device;
    ph_stream *stream;
    ph_kernel *gather, *add_bias;
    ph_graph *graph;
    float *bias[LAYERS], *rows[ROWS], *y;
    const float **table; /* in device memory: the addresses of rows */
    size_t logged;
};

/* Backtraces name what is in the dynamic symbol table: these are neither static nor inlined, and
 * the program is linked with -rdynamic. */
ph_status load_weights(float **out, ph_stream *stream, float value);
ph_status swap_weights(float **weights, ph_stream *stream, float value);

__attribute__((noinline)) ph_status load_weights(float **out, ph_stream *stream, float value)
{
    float host[COUNT];
    for (int i = 0; i < COUNT; i++)
        host[i] = value;
    PH_TRY(PH_NEW(out, COUNT, stream));
    return ph_memcpy(*out, host, BYTES, stream);
}

/* The mistake: a graph has the old address. The new weights may even lie there, and then nothing
 * but a count tells them apart. */
__attribute__((noinline)) ph_status swap_weights(float **weights, ph_stream *stream, float value)
{
    const float *old = *weights;
    ph_free(*weights, stream);
    *weights = NULL;
    PH_TRY(load_weights(weights, stream, value));
    printf("swapped; the new weights lie %s\n",
           *weights == old ? "where the old ones did" : "elsewhere");
    return PH_OK;
}

/* ---- what is captured ---- */
static ph_status submit(ph_stream *stream, const struct app *app)
{
    const ph_launch_config config = {.grid = {COUNT / 256}, .block = {256}};
    const struct gather_args gather = {COUNT, ROWS, app->table, app->y};
    char name[16];
    for (int r = 0; r < ROWS; r++) {
        (void)snprintf(name, sizeof name, "row %d", r);
        PH_TRY(ph_stream_declare_use(stream, app->rows[r], name));
    }
    PH_TRY(ph_launch(stream, app->gather, &config, &gather, sizeof gather));
    for (int i = 0; i < LAYERS; i++) {
        const struct add_bias_args add = {COUNT, app->bias[i], app->y};
        (void)snprintf(name, sizeof name, "layer %d", i);
        PH_TRY(ph_annotation_push(stream, name, NULL));
        PH_TRY(ph_launch(stream, app->add_bias, &config, &add, sizeof add));
        PH_TRY(ph_annotation_pop(stream));
    }
    return PH_OK;
}

static ph_status step(ph_stream *stream, void *user)
{
    size_t depth = ph_annotation_depth();
    ph_status status = submit(stream, user);
    ph_annotation_unwind(depth); /* what a failure left open */
    return status;
}

static ph_status capture(struct app *app)
{
    const ph_capture_options options = {.check_input_liveness = true, .enable_annotations = true};
    return ph_graph_capture(app->graph, app->stream, &options, step, app);
}

/* ---- looking ---- */
static void print_input(const ph_input_info *in)
{
    static const char *const states[] = {"live", "freed", "replaced", "unknown"};
    if (in->node == PH_INPUT_DECLARED)
        printf("  declared    %-8s", in->word);
    else
        printf("  %zu %-9s %-8s", in->node, in->node_name, in->word);
    printf(" = 0x%" PRIx64 ", %zu bytes, %s%s\n", in->address, in->bytes, states[in->state],
           in->proved ? "" : ", a guess");
    if (in->state == PH_INPUT_FREED)
        printf("      allocated at %s\n      freed at %s\n", in->allocated_at, in->freed_at);
}

/* All that the graph reads and writes and that comes from elsewhere; so many of them must be
 * gone. */
static ph_status print_inputs(const struct app *app, size_t expected_dead)
{
    size_t count, dead = 0;
    PH_TRY(ph_graph_input_count(&count, app->graph));
    printf("%zu inputs:\n", count);
    for (size_t i = 0; i < count; i++) {
        ph_input_info in;
        PH_TRY(ph_graph_input(&in, app->graph, i));
        print_input(&in);
        dead += in.state == PH_INPUT_FREED;
        if (in.state == PH_INPUT_FREED && (*in.allocated_at == '\0' || *in.freed_at == '\0'))
            return ph_fail(PH_ERROR_CALLER, "%s is dead, and nobody knows where it died", in.word);
    }
    if (dead != expected_dead)
        return ph_fail(PH_ERROR_CALLER, "%zu inputs are dead, expected %zu", dead, expected_dead);
    return PH_OK;
}

static ph_status print_unseen(const struct app *app)
{
    char *text;
    PH_TRY(ph_graph_unseen(&text, app->graph));
    bool any = *text != '\0';
    printf("what the check cannot see:\n%s", text);
    ph_string_free(text);
    return any ? PH_OK
               : ph_fail(PH_ERROR_CALLER,
                         "a kernel with a table of addresses is said to hide none");
}

static ph_status expect_all(const struct app *app, float value)
{
    float host[COUNT];
    PH_TRY(ph_memcpy(host, app->y, BYTES, app->stream));
    PH_TRY(ph_stream_synchronize(app->stream));
    for (int i = 0; i < COUNT; i++)
        if (host[i] != value)
            return ph_fail(PH_ERROR_CALLER, "y[%d] is %g, expected %g", i, (double)host[i],
                           (double)value);
    return PH_OK;
}

static ph_status expect_replay(const struct app *app, float value)
{
    PH_TRY(ph_graph_replay(app->graph, app->stream));
    PH_TRY(expect_all(app, value));
    printf("replayed: y = %g\n", (double)value);
    return PH_OK;
}

/* The message must name what died. Of the graph nothing runs: y stays as it is. */
static ph_status expect_refusal(struct app *app, const char *what, const char *scope)
{
    size_t logged = app->logged;
    PH_TRY(ph_memset(app->y, 0, BYTES, app->stream));
    ph_status status = ph_graph_replay(app->graph, app->stream);
    if (status != PH_ERROR_STALE_INPUT)
        return ph_fail(PH_ERROR_CALLER, "a replay on freed memory gave %s", ph_status_name(status));
    const ph_error *error = ph_error_last();
    printf("%s: %s\n", ph_status_name(status), error->message);
    if (strstr(error->message, what) == NULL || strstr(error->message, scope) == NULL)
        return ph_fail(PH_ERROR_CALLER, "the message does not name %s", what);
    if (app->logged == logged)
        return ph_fail(PH_ERROR_CALLER, "the log does not say where %s was freed", what);
    return expect_all(app, 0);
}

static void print_log(ph_log_level level, const char *message, void *user)
{
    struct app *app = user;
    (void)level;
    app->logged++;
    printf("log: %s\n", message);
}

/* ---- the program ---- */
static ph_status create(struct app *app, const char *device)
{
    PH_TRY(ph_device_open(&app->device, device, NULL));
    PH_TRY(ph_stream_create(&app->stream, app->device, NULL));
    PH_TRY(ph_kernel_create(&app->gather, app->device, &gather_source));
    PH_TRY(ph_kernel_create(&app->add_bias, app->device, &add_bias_source));
    for (int i = 0; i < LAYERS; i++)
        PH_TRY(load_weights(&app->bias[i], app->stream, 10.0f * (float)(i + 1)));
    for (int r = 0; r < ROWS; r++)
        PH_TRY(load_weights(&app->rows[r], app->stream, (float)(r + 1)));
    PH_TRY(PH_NEW(&app->table, ROWS, app->stream));
    PH_TRY(ph_memcpy(app->table, app->rows, sizeof app->rows, app->stream));
    PH_TRY(PH_NEW(&app->y, COUNT, app->stream));
    return ph_graph_create(&app->graph, NULL);
}

static ph_status run(struct app *app, const char *device)
{
    PH_TRY(ph_memory_record_sites(FRAMES)); /* before the memory is allocated */
    PH_TRY(create(app, device));
    PH_TRY(capture(app));
    PH_TRY(print_inputs(app, 0));
    PH_TRY(print_unseen(app));
    PH_TRY(expect_replay(app, 33)); /* 1 + 2 + 10 + 20 */

    printf("\n");
    PH_TRY(swap_weights(&app->bias[1], app->stream, 200));
    PH_TRY(expect_refusal(app, "bias", "layer 1"));
    PH_TRY(print_inputs(app, 1));

    printf("\n");
    PH_TRY(ph_graph_reset(app->graph));
    PH_TRY(capture(app));
    PH_TRY(expect_replay(app, 213));

    /* No parameter holds this row's address: ph_stream_declare_use said that the graph reads it. */
    printf("\n");
    PH_TRY(swap_weights(&app->rows[0], app->stream, 1000));
    PH_TRY(expect_refusal(app, "row 0", ""));
    PH_TRY(ph_memcpy(app->table, app->rows, sizeof app->rows, app->stream));
    PH_TRY(ph_graph_reset(app->graph));
    PH_TRY(capture(app));
    return expect_replay(app, 1212);
}

int main(int argc, char **argv)
{
    struct app app = {0};
    ph_log_set(print_log, &app);
    ph_status status = run(&app, argc > 1 ? argv[1] : "auto");
    ph_graph_destroy(app.graph);
    ph_free(app.y, app.stream);
    ph_free(app.table, app.stream);
    for (int r = 0; r < ROWS; r++)
        ph_free(app.rows[r], app.stream);
    for (int i = 0; i < LAYERS; i++)
        ph_free(app.bias[i], app.stream);
    ph_kernel_release(app.add_bias);
    ph_kernel_release(app.gather);
    ph_stream_destroy(app.stream);
    ph_device_release(app.device);
    ph_log_set(NULL, NULL);
    if (status != PH_OK)
        (void)fprintf(stderr, "liveness: %s\n", ph_error_last()->message);
    return status != PH_OK;
}
