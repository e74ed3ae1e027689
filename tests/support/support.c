/* SPDX-License-Identifier: MIT */
/* tests/support/support.c: the shared helpers: asserts, the device under test, reading back, the
 * log. */
#include "support/support.h"
#include "base/sync.h"
#include "fake/fake_cuda.h"
#include <phonograph/cuda.h>
#include <phonograph/host.h>
#include <stdlib.h>
#include <string.h>

void t_check(ph_status got, ph_status want, const char *part, const char *expression,
             const char *file, int line)
{
    const ph_error *error = ph_error_last();
    if (got != want)
        print_error("%s\n    gave %s, expected %s\n", expression, ph_status_name(got),
                    ph_status_name(want));
    else if (got != PH_OK && error->status != got)
        print_error("%s\n    gave %s, but the record says %s\n", expression, ph_status_name(got),
                    ph_status_name(error->status));
    else if (part && !strstr(error->message, part))
        print_error("%s\n    the message has no \"%s\"\n", expression, part);
    else
        return;
    print_error("    record: %s, native %d (%s): %s\n", ph_status_name(error->status),
                error->native_code, error->native_call, error->message);
    _fail(file, line);
}

bool t_nightly(void)
{
    const char *tier = getenv("PH_TEST_TIER");
    return tier && strcmp(tier, "nightly") == 0;
}

/* ---- the device under test ---- */
static const char host_name[] = "host:threads=2";

/* What the CUDA functions of the tests' kernels do where the software libcuda runs them. */
static void prepare_cuda(void)
{
    const char *hold = getenv("PH_TEST_HOLD_CONTEXT");
    if (hold && strcmp(hold, "1") == 0)
        t_hold_context();
    for (int id = 0; id < T_KERNELS; id++)
        fake_cuda_register(&t_kernel_sources[id]);
    t_register_nn_kernels();
}

const char *t_device_name(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *name = getenv("PH_TEST_DEVICE");
    if (!name || !*name)
        return host_name;
    if (strncmp(name, "cuda", 4) == 0)
        (void)pthread_once(&once, prepare_cuda);
    return name;
}

bool t_on_host(void)
{
    const char *name = t_device_name();
    return strncmp(name, "host", 4) == 0 && (name[4] == '\0' || name[4] == ':');
}

ph_status t_raw(void **out, ph_graph *graph)
{
    ph_host_graph *host = NULL;
    struct CUgraph_st *cuda = NULL;
    ph_status status = t_on_host() ? ph_graph_host(&host, graph) : ph_graph_cuda(&cuda, graph);
    *out = t_on_host() ? (void *)host : (void *)cuda;
    return status;
}

ph_status t_raw_exec(void **out, ph_graph *graph)
{
    ph_host_exec *host = NULL;
    struct CUgraphExec_st *cuda = NULL;
    ph_status status =
        t_on_host() ? ph_graph_exec_host(&host, graph) : ph_graph_exec_cuda(&cuda, graph);
    *out = t_on_host() ? (void *)host : (void *)cuda;
    return status;
}

void t_host_only(const char *reason)
{
    if (t_on_host())
        return;
    print_message("skipped: %s\n", reason);
    skip();
}

void t_not_on_host(const char *reason)
{
    if (!t_on_host())
        return;
    print_message("skipped: %s\n", reason);
    skip();
}

ph_status t_open_small(ph_device **out, size_t memory_bytes)
{
    ph_device_options options = {.host_memory_bytes = t_on_host() ? memory_bytes : 0};
    ph_status status = ph_device_open(out, t_device_name(), &options);
    if (status == PH_OK && !t_on_host())
        status = ph_memory_set_limit(*out, memory_bytes);
    if (status != PH_OK) {
        ph_device_release(*out);
        *out = NULL;
    }
    return status;
}

ph_status t_shortage(void)
{
    return t_on_host() ? PH_ERROR_DEVICE_MEMORY : PH_ERROR_POOL_LIMIT;
}

const char *t_shortage_words(void)
{
    return t_on_host() ? "out of memory" : "the device's limit";
}

/* ---- a world ---- */
static ph_kernel *kernel(ph_device *device, t_kernel_id id)
{
    ph_kernel *out;
    assert_ok(ph_kernel_create(&out, device, &t_kernel_sources[id]));
    return out;
}

void t_open_world(t_world *world, ph_device *device)
{
    memset(world, 0, sizeof *world);
    world->device = device;
    t_register_kernels();
    assert_ok(ph_stream_create(&world->stream, device, NULL));
    world->fill_i32 = kernel(device, T_KERNEL_FILL_I32);
    world->add_i32 = kernel(device, T_KERNEL_ADD_I32);
    world->fill_f32 = kernel(device, T_KERNEL_FILL_F32);
    world->axpy_f32 = kernel(device, T_KERNEL_AXPY_F32);
}

void t_open(t_world *world, const char *name)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, name ? name : t_device_name(), NULL));
    t_open_world(world, device);
}

void t_open_with(t_world *world, const ph_device_options *options)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), options));
    t_open_world(world, device);
}

void t_close(t_world *world)
{
    ph_kernel_release(world->fill_i32);
    ph_kernel_release(world->add_i32);
    ph_kernel_release(world->fill_f32);
    ph_kernel_release(world->axpy_f32);
    ph_stream_destroy(world->stream);
    ph_device_release(world->device);
    memset(world, 0, sizeof *world);
}

/* ---- launches ---- */
ph_launch_config t_config(size_t n)
{
    ph_launch_config config = {0};
    config.grid[0] = (uint32_t)((n + 255) / 256);
    config.block[0] = 256;
    return config;
}

ph_status t_fill(const t_world *world, ph_stream *stream, int32_t *y, size_t n, int32_t value)
{
    struct t_fill_i32 args = {n, y, value};
    ph_launch_config config = t_config(n);
    return ph_launch(stream, world->fill_i32, &config, &args, sizeof args);
}

ph_status t_add(const t_world *world, ph_stream *stream, const int32_t *x, int32_t *y, size_t n,
                int32_t value)
{
    struct t_add_i32 args = {n, x, y, value};
    ph_launch_config config = t_config(n);
    return ph_launch(stream, world->add_i32, &config, &args, sizeof args);
}

ph_status t_fill_f(const t_world *world, ph_stream *stream, float *y, size_t n, float value)
{
    struct t_fill_f32 args = {n, y, value};
    ph_launch_config config = t_config(n);
    return ph_launch(stream, world->fill_f32, &config, &args, sizeof args);
}

ph_status t_axpy(const t_world *world, ph_stream *stream, float a, const float *x, float *y,
                 size_t n)
{
    struct t_axpy_f32 args = {n, x, y, a};
    ph_launch_config config = t_config(n);
    return ph_launch(stream, world->axpy_f32, &config, &args, sizeof args);
}

/* ---- reading back ---- */
void t_read(void *host, const void *device, size_t bytes, ph_stream *stream)
{
    assert_ok(ph_memcpy(host, device, bytes, stream));
    assert_ok(ph_stream_synchronize(stream));
}

static int32_t *read_i32(const int32_t *y, size_t n, ph_stream *stream)
{
    int32_t *host = calloc(n ? n : 1, sizeof *host);
    assert_non_null(host);
    t_read(host, y, n * sizeof *host, stream);
    return host;
}

int64_t t_sum(const int32_t *y, size_t n, ph_stream *stream)
{
    int32_t *host = read_i32(y, n, stream);
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += host[i];
    free(host);
    return sum;
}

void t_all(const int32_t *y, size_t n, int32_t value, ph_stream *stream)
{
    int32_t *host = read_i32(y, n, stream);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(host[i], value);
    free(host);
}

/* ---- the log ---- */
enum {
    LOG_LINES = 64
};
static struct {
    pthread_mutex_t lock;
    size_t count; /* beyond LOG_LINES the oldest are overwritten */
    char lines[LOG_LINES][2048];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void keep(ph_log_level level, const char *message, void *user)
{
    (void)level;
    (void)user;
    pthread_mutex_lock(&kept.lock);
    char *line = kept.lines[kept.count++ % LOG_LINES];
    size_t length = strnlen(message, sizeof kept.lines[0] - 1);
    memcpy(line, message, length);
    line[length] = 0;
    pthread_mutex_unlock(&kept.lock);
}

void t_log_start(void)
{
    pthread_mutex_lock(&kept.lock);
    kept.count = 0;
    pthread_mutex_unlock(&kept.lock);
    ph_log_set(keep, NULL);
}

size_t t_log_count(const char *part)
{
    size_t found = 0;
    pthread_mutex_lock(&kept.lock);
    for (size_t i = 0; i < kept.count && i < LOG_LINES; i++)
        found += strstr(kept.lines[i], part) != NULL;
    pthread_mutex_unlock(&kept.lock);
    return found;
}

void t_log_stop(void)
{
    ph_log_set(NULL, NULL);
}
