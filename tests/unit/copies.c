/* SPDX-License-Identifier: MIT */
/* tests/unit/copies.c: several copies of the shared library in one process, as plugins bring them:
 * each works, and none of them uses what is another's. */
#include "support/support.h"
#include "support/test.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    COPIES = 12, /* more than would find room in glibc's block of static thread-local data */
    N = 64
};

/* What is called of a copy, by the names of the functions. */
#define CALLS(X)                                                                                   \
    X(ph_device_open)                                                                              \
    X(ph_device_release)                                                                           \
    X(ph_stream_create)                                                                            \
    X(ph_stream_destroy)                                                                           \
    X(ph_stream_synchronize)                                                                       \
    X(ph_kernel_create)                                                                            \
    X(ph_kernel_release)                                                                           \
    X(ph_launch)                                                                                   \
    X(ph_malloc)                                                                                   \
    X(ph_free)                                                                                     \
    X(ph_memcpy)                                                                                   \
    X(ph_graph_create)                                                                             \
    X(ph_graph_destroy)                                                                            \
    X(ph_graph_capture)                                                                            \
    X(ph_graph_replay)                                                                             \
    X(ph_error_last)                                                                               \
    X(ph_pool_create)                                                                              \
    X(ph_pool_release)                                                                             \
    X(ph_pool_begin)                                                                               \
    X(ph_pool_end)                                                                                 \
    X(ph_log_set)
typedef struct copy {
    void *library;
    char path[128];
#define MEMBER(name) __typeof__(&name) name;
    CALLS(MEMBER)
#undef MEMBER
    ph_device *device;
    ph_stream *stream;
    ph_kernel *fill;
    int32_t *x;
    int warnings;
} copy;

static copy copies[COPIES];

static void copy_file(const char *to)
{
    static char bytes[1 << 16];
    int in = open(PH_TEST_LIBRARY, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    assert_true(in >= 0 && out >= 0);
    for (ssize_t got; (got = read(in, bytes, sizeof bytes)) > 0;)
        assert_int_equal(write(out, bytes, (size_t)got), got);
    assert_int_equal(close(in), 0);
    assert_int_equal(close(out), 0);
}

static void load(copy *c, int number, int flags)
{
    (void)snprintf(c->path, sizeof c->path, "/tmp/ph_copy_%ld_%d.so", (long)getpid(), number);
    copy_file(c->path);
    c->library = dlopen(c->path, RTLD_NOW | flags);
    if (!c->library)
        print_message("%s\n", dlerror());
    (void)unlink(c->path);
    assert_non_null(c->library);
#define FIND(name)                                                                                 \
    {                                                                                              \
        void *address = dlsym(c->library, #name);                                                  \
        assert_non_null(address);                                                                  \
        memcpy(&c->name, &address, sizeof address);                                                \
    }
    CALLS(FIND)
#undef FIND
}

static void count_warning(ph_log_level level, const char *message, void *user)
{
    (void)level;
    (void)message;
    ((copy *)user)->warnings++;
}

static ph_status body(ph_stream *stream, void *user)
{
    const copy *c = user;
    const struct t_fill_i32 args = {N, c->x, 5};
    const ph_launch_config config = {.grid = {1}, .block = {N}};
    return c->ph_launch(stream, c->fill, &config, &args, sizeof args);
}

static void use(copy *c)
{
    int32_t got[N];
    ph_graph *graph;
    c->ph_log_set(count_warning, c);
    assert_int_equal(c->ph_device_open(&c->device, "host:threads=1", NULL), PH_OK);
    assert_int_equal(c->ph_stream_create(&c->stream, c->device, NULL), PH_OK);
    assert_int_equal(c->ph_kernel_create(&c->fill, c->device, &t_kernel_sources[T_KERNEL_FILL_I32]),
                     PH_OK);
    assert_int_equal(c->ph_malloc(&c->x, N, sizeof *c->x, c->stream), PH_OK);
    assert_int_equal(c->ph_graph_create(&graph, NULL), PH_OK);
    assert_int_equal(c->ph_graph_capture(graph, c->stream, NULL, body, c), PH_OK);
    assert_int_equal(c->ph_graph_replay(graph, c->stream), PH_OK);
    assert_int_equal(c->ph_memcpy(got, c->x, sizeof got, c->stream), PH_OK);
    assert_int_equal(c->ph_stream_synchronize(c->stream), PH_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(got[i], 5);
    c->ph_graph_destroy(graph);
}

static void drop(copy *c)
{
    c->ph_free(c->x, NULL);
    c->ph_kernel_release(c->fill);
    c->ph_stream_destroy(c->stream);
    c->ph_device_release(c->device);
}

/* Failures and warnings are of the copy that was called, and of no other: nor of the one that the
 * program itself has. */
TEST(each_loaded_copy_has_its_own_errors_and_log)
{
    /* The first ones are there for all, as a program's own library is for its plugins'. */
    for (int i = 0; i < COPIES; i++)
        load(&copies[i], i, i < 2 ? RTLD_GLOBAL : RTLD_LOCAL);
    for (int i = 0; i < COPIES; i++)
        use(&copies[i]);
    for (int i = 0; i < COPIES; i++) {
        assert_int_equal(copies[i].ph_graph_create(NULL, NULL), PH_ERROR_ARGUMENT);
        for (int k = 0; k < COPIES; k++)
            assert_int_equal(copies[k].ph_error_last()->status, k <= i ? PH_ERROR_ARGUMENT : PH_OK);
        copies[i].ph_free(copies[(i + 1) % COPIES].x, NULL); /* no allocation of this copy's */
        assert_int_equal(copies[i].warnings, 1);
    }
    for (int i = 0; i < COPIES; i++)
        drop(&copies[i]);
    assert_int_equal(ph_error_last()->status, PH_OK);
}

/* ---- dlclose ---- */
/* What the library does at a thread's end is set up by the scope. */
static void *use_and_unload(void *user)
{
    copy *c = user;
    ph_pool *pool;
    int failed = c->ph_device_open(&c->device, "host:threads=1", NULL) != PH_OK ||
                 c->ph_pool_create(&pool, c->device, NULL) != PH_OK ||
                 c->ph_pool_begin(pool) != PH_OK || c->ph_pool_end(pool) != PH_OK;
    if (failed)
        return NULL;
    c->ph_pool_release(pool);
    c->ph_device_release(c->device);
    return dlclose(c->library) == 0 ? user : NULL;
}

TEST(test_threads_that_end_after_dlclose)
{
    static copy unloaded;
    pthread_t thread;
    void *done;
    load(&unloaded, COPIES, RTLD_LOCAL);
    assert_int_equal(pthread_create(&thread, NULL, use_and_unload, &unloaded), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_ptr_equal(done, &unloaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_loaded_copy_has_its_own_errors_and_log),
        cmocka_unit_test(test_threads_that_end_after_dlclose)};
    return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
