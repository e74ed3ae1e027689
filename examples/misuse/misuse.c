/* SPDX-License-Identifier: MIT */
/* misuse: five mistakes on purpose, what the library says to each, and that the graph works all
 * the same afterwards. */
#include <phonograph/phonograph.h>
#include <stdio.h>

struct app {
    ph_device *device;
    ph_stream *stream;
    ph_graph *graph;
    uint32_t *y; /* device memory */
};

/* A mistake is expected to fail with this status; that it did not would be this program's
 * failure. */
static ph_status expect(const char *mistake, ph_status got, ph_status wanted)
{
    if (got != wanted)
        return ph_fail(PH_ERROR_CALLER, "%s: %s, expected %s", mistake, ph_status_name(got),
                       ph_status_name(wanted));
    const ph_error *error = ph_error_last();
    printf("%s\n    %s", mistake, ph_status_name(got));
    if (error->native_code)
        printf(" (%d, as CUDA numbers it)", error->native_code);
    printf(": %s\n\n", error->message);
    return PH_OK;
}

/* Two mistakes inside a capture. Both are refused before they do harm: the capture goes on, and
 * what it recorded is good. */
static ph_status body(ph_stream *stream, void *user)
{
    struct app *app = user;
    uint32_t pageable[16] = {0};
    PH_TRY(expect("waiting for a stream that is capturing", ph_stream_synchronize(stream),
                  PH_ERROR_CAPTURE));
    PH_TRY(expect("copying from ordinary memory in a capture",
                  ph_memcpy(app->y, pageable, sizeof pageable, stream), PH_ERROR_UNPINNED));
    return ph_memset_u32(app->y, 7, 16, stream);
}

static ph_status run(struct app *app, const char *device)
{
    ph_device *missing = NULL;
    void *huge = NULL;
    PH_TRY(expect("a device that does not exist", ph_device_open(&missing, "abacus", NULL),
                  PH_ERROR_NOT_FOUND));

    PH_TRY(ph_device_open(&app->device, device, NULL));
    PH_TRY(ph_stream_create(&app->stream, app->device, NULL));
    PH_TRY(PH_NEW(&app->y, 16, app->stream));
    PH_TRY(expect("a size that overflows", ph_malloc(&huge, SIZE_MAX / 2, 3, app->stream),
                  PH_ERROR_SIZE));

    PH_TRY(ph_graph_create(&app->graph, NULL));
    PH_TRY(expect("replaying a graph that was never captured",
                  ph_graph_replay(app->graph, app->stream), PH_ERROR_STATE));
    PH_TRY(ph_graph_capture(app->graph, app->stream, NULL, body, app));

    uint32_t host[16];
    PH_TRY(ph_graph_replay(app->graph, app->stream));
    PH_TRY(ph_memcpy(host, app->y, sizeof host, app->stream));
    PH_TRY(ph_stream_synchronize(app->stream));
    for (int i = 0; i < 16; i++)
        if (host[i] != 7)
            return ph_fail(PH_ERROR_CALLER, "y[%d] is %u, expected 7", i, host[i]);
    printf("after all of them the graph was captured and replayed: y = 7\n");
    return PH_OK;
}

int main(int argc, char **argv)
{
    struct app app = {0};
    ph_status st = run(&app, argc > 1 ? argv[1] : "auto");
    ph_graph_destroy(app.graph);
    ph_free(app.y, app.stream);
    ph_stream_destroy(app.stream);
    ph_device_release(app.device);
    if (st != PH_OK)
        fprintf(stderr, "misuse: %s\n", ph_error_last()->message);
    return st != PH_OK;
}
