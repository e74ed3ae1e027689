/* SPDX-License-Identifier: MIT */
/* driver/fault.c: tables in front of the drivers' that count calls and let one fail, for tests. */
#include "driver/driver.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Every entry that can fail, as X(slot, name, parameters, arguments). Those that cannot fail pass through,
 * and thread_exchange_mode: always legal, it stands around other calls, whose words it must leave. */
#define ENTRIES(X, s)                                                                                        \
    X(s, device_open, (ph__drv_device * *a, uint32_t b, const ph__drv_device_options *c), (a, b, c))         \
    X(s, device_info, (ph__drv_device_info * a, ph__drv_device * b), (a, b))                                 \
    X(s, device_synchronize, (ph__drv_device * a), (a))                                                      \
    X(s, context_push, (ph__drv_device * a), (a))                                                            \
    X(s, stream_create, (ph__drv_stream * *a, ph__drv_device * b, int c, int d), (a, b, c, d))               \
    X(s, stream_synchronize, (ph__drv_stream * a), (a))                                                      \
    X(s, stream_query, (ph__drv_stream * a), (a))                                                            \
    X(s, stream_wait_event, (ph__drv_stream * a, ph__drv_event * b, int c), (a, b, c))                       \
    X(s, stream_wrap, (ph__drv_stream * *a, ph__drv_device * b, void *c, int *d, int *e), (a, b, c, d, e))   \
    X(s, stream_ordinal, (uint32_t * a, void *b), (a, b))                                                    \
    X(s, event_create, (ph__drv_event * *a, ph__drv_device * b, int c), (a, b, c))                           \
    X(s, event_record, (ph__drv_event * a, ph__drv_stream * b, int c), (a, b, c))                            \
    X(s, event_query, (ph__drv_event * a), (a))                                                              \
    X(s, event_synchronize, (ph__drv_event * a), (a))                                                        \
    X(s, event_elapsed, (float *a, ph__drv_event *b, ph__drv_event *c), (a, b, c))                           \
    X(s, segment_create, (void **a, ph__drv_device *b, size_t c), (a, b, c))                                 \
    X(s, plain_alloc, (void **a, ph__drv_device *b, size_t c), (a, b, c))                                    \
    X(s, pinned_alloc, (void **a, ph__drv_device *b, size_t c), (a, b, c))                                   \
    X(s, pointer_info, (ph__drv_pointer * a, ph__drv_device * b, const void *c), (a, b, c))                  \
    X(s, kernel_create, (ph__drv_kernel * *a, ph__drv_device * b, const ph_kernel_source *c), (a, b, c))     \
    X(s, kernel_wrap, (ph__drv_kernel * *a, ph__drv_device * b, void *c, size_t *d, const char **e),         \
      (a, b, c, d, e))                                                                                       \
    X(s, kernel_cells, (ph__drv_kernel * *a, ph__drv_device * b, unsigned c), (a, b, c))                     \
    X(s, kernel_watch, (ph__drv_kernel * *a, ph__drv_device * b, ph__watch_kernel c), (a, b, c))             \
    X(s, launch, (ph__drv_stream * a, ph__drv_kernel * b, const ph__drv_launch *c), (a, b, c))               \
    X(s, copy, (ph__drv_stream * a, const ph__drv_memcpy *b, uint64_t *c), (a, b, c))                        \
    X(s, fill, (ph__drv_stream * a, const ph__drv_memset *b), (a, b))                                        \
    X(s, host, (ph__drv_stream * a, const ph__drv_host *b), (a, b))                                          \
    X(s, copy_sync, (ph__drv_device * a, const ph__drv_memcpy *b), (a, b))                                   \
    X(s, child, (ph__drv_stream * a, ph__drv_graph * b), (a, b))                                             \
    X(s, capture_root, (ph__drv_node * *a, ph__drv_stream * b, ph__drv_kernel * c, const ph__drv_launch *d), \
      (a, b, c, d))                                                                                          \
    X(s, capture_depend, (ph__drv_stream * a, ph__drv_node * b), (a, b))                                     \
    X(s, capture_begin, (ph__drv_stream * a, ph_capture_mode b), (a, b))                                     \
    X(s, capture_end, (ph__drv_graph * *a, ph__drv_stream * b), (a, b))                                      \
    X(s, capture_get, (ph__drv_capture * a, ph__drv_stream * b), (a, b))                                     \
    X(s, capture_id, (uint64_t * a, ph__drv_stream * b), (a, b))                                             \
    X(s, capture_position, (uint64_t * a, ph__drv_stream * b), (a, b))                                       \
    X(s, graph_import, (ph__drv_graph * *a, ph__drv_device * b, void *c), (a, b, c))                         \
    X(s, graph_nodes, (ph__drv_node *const **a, size_t *b, ph__drv_graph *c), (a, b, c))                     \
    X(s, graph_lower, (ph__drv_graph * a), (a))                                                              \
    X(s, graph_look_again, (ph__drv_graph * *a, ph__drv_graph * b), (a, b))                                  \
    X(s, node_info, (ph__drv_node_info * a, ph__drv_node * b), (a, b))                                       \
    X(s, instantiate, (ph__drv_exec * *a, ph__drv_graph * b, int c, ph__drv_node **d), (a, b, c, d))         \
    X(s, exec_upload, (ph__drv_exec * a, ph__drv_stream * b), (a, b))                                        \
    X(s, exec_launch, (ph__drv_exec * a, ph__drv_stream * b), (a, b))                                        \
    X(s, exec_update, (ph__drv_exec * a, ph__drv_graph * b, ph__drv_update * c), (a, b, c))                  \
    X(s, exec_set_kernel, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_launch *c), (a, b, c))          \
    X(s, exec_set_args, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_launch *c, size_t d),             \
      (a, b, c, d))                                                                                          \
    X(s, exec_set_copy, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_memcpy *c), (a, b, c))            \
    X(s, exec_set_fill, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_memset *c), (a, b, c))            \
    X(s, exec_set_host, (ph__drv_exec * a, ph__drv_node * b, const ph__drv_host *c), (a, b, c))              \
    X(s, exec_set_enabled, (ph__drv_exec * a, ph__drv_node * b, bool c), (a, b, c))                          \
    X(s, exec_get_enabled, (bool *a, ph__drv_exec *b, ph__drv_node *c), (a, b, c))                           \
    X(s, profile_open, (ph__drv_profile * *a, ph__drv_exec * b, ph_profile_source * c), (a, b, c))           \
    X(s, profile_read, (const ph__drv_span **a, size_t *b, ph__drv_profile *c), (a, b, c))

/* Entries that free do so and then answer the number: CUDA's report errors of earlier work so. */
#define FREES(X, s)                                                                                          \
    X(s, plain_free, (ph__drv_device * a, void *b), (a, b))                                                  \
    X(s, pinned_free, (ph__drv_device * a, void *b), (a, b))

/* A table of functions cannot carry which driver it stands for, so each slot has functions of its own. */
enum {
    SLOTS = 4
};
static const ph__driver *targets[SLOTS];
static ph__driver tables[SLOTS];
static size_t used_slots;
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

static atomic_bool watched; /* somebody has asked for the count, or for a failure: until then calls pass by */
static atomic_int_least64_t calls;
static atomic_int_least64_t until_failure = -1;
static atomic_int failure;
static struct {
    _Atomic(const char *) entry; /* NULL: none; set last, and taken by one call */
    void (*fn)(void *user);
    void *user;
} before;

void ph__driver_fail_after(int64_t n, int result)
{
    atomic_store(&watched, true);
    atomic_store(&until_failure, -1);
    atomic_store(&failure, result);
    atomic_store(&until_failure, n < 0 ? -1 : n);
}

int64_t ph__driver_calls(void)
{
    atomic_store(&watched, true);
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

void ph__driver_before(const char *entry, void (*fn)(void *user), void *user)
{
    atomic_store(&watched, true);
    atomic_store(&before.entry, NULL);
    before.fn = fn;
    before.user = user;
    atomic_store(&before.entry, entry);
}

static void run_before(const char *entry)
{
    const char *wanted = atomic_load(&before.entry);
    if (wanted && strcmp(wanted, entry) == 0 && atomic_compare_exchange_strong(&before.entry, &wanted, NULL))
        before.fn(before.user);
}

/* 0, or what this call has to answer. Also drops what an earlier failure left: only this call's own words may
 * stand behind it. */
static int enter(const char *entry)
{
    if (ph__driver_has_reason)
        ph__driver_clear_reason();
    if (!atomic_load_explicit(&watched, memory_order_relaxed))
        return 0;
    run_before(entry);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    int_least64_t left = atomic_load_explicit(&until_failure, memory_order_relaxed);
    while (left >= 0) {
        if (!atomic_compare_exchange_weak(&until_failure, &left, left - 1))
            continue;
        return left == 0 ? atomic_load(&failure) : 0;
    }
    return 0;
}

#define WRAPPER(s, name, parameters, arguments)                                                              \
    static int ph__fault_##name##_##s parameters                                                             \
    {                                                                                                        \
        int result = enter(#name);                                                                           \
        return result ? result : targets[s]->name arguments;                                                 \
    }
#define FREE_WRAPPER(s, name, parameters, arguments)                                                         \
    static int ph__fault_##name##_##s parameters                                                             \
    {                                                                                                        \
        int failure_of_this = enter(#name), result = targets[s]->name arguments;                             \
        return failure_of_this ? failure_of_this : result;                                                   \
    }
#define PUT(s, name, parameters, arguments) tables[s].name = ph__fault_##name##_##s;
#define SLOT(s)                                                                                              \
    ENTRIES(WRAPPER, s)                                                                                      \
    FREES(FREE_WRAPPER, s)                                                                                   \
    static void fill_slot_##s(const ph__driver *driver)                                                      \
    {                                                                                                        \
        targets[s] = driver;                                                                                 \
        tables[s] = *driver;                                                                                 \
        ENTRIES(PUT, s)                                                                                      \
        FREES(PUT, s)                                                                                        \
    }
SLOT(0)
SLOT(1)
SLOT(2)
SLOT(3)

static const ph__driver *wrap(const ph__driver *driver)
{
    static void (*const fill[SLOTS])(const ph__driver *driver) = {fill_slot_0, fill_slot_1, fill_slot_2,
                                                                  fill_slot_3};
    for (size_t i = 0; i < used_slots; i++)
        if (targets[i] == driver)
            return &tables[i];
    if (used_slots == SLOTS)
        return driver;
    fill[used_slots](driver);
    return &tables[used_slots++];
}

const ph__driver *ph__driver_faulty(const ph__driver *driver)
{
    pthread_mutex_lock(&slots_lock);
    const ph__driver *wrapped = wrap(driver);
    pthread_mutex_unlock(&slots_lock);
    return wrapped;
}
