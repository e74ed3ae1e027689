/* SPDX-License-Identifier: MIT */
/* tests/threads/refusals.c: calls of another thread that a capture forbids, made at the very
 * moment at which captures begin and end: they are refused or pass, and no capture dies of them. */
#include "base/sync.h"
#include "support/support.h"
#include "support/test.h"
#include <string.h>

typedef struct scene {
    t_world world;
    ph_stream *blocking, *other;
    ph_event *event;
    int32_t *memory;
    atomic_bool over;
    ph_status (*call)(struct scene *s);
    char failure[512];
} scene;

static ph_status query_event(scene *s)
{
    bool done;
    return ph_event_query(&done, s->event);
}

static ph_status synchronize_event(scene *s)
{
    return ph_event_synchronize(s->event);
}

static ph_status query_stream(scene *s)
{
    bool done;
    return ph_stream_query(&done, s->other);
}

static ph_status synchronize_stream(scene *s)
{
    return ph_stream_synchronize(s->other);
}

static ph_status launch(scene *s)
{
    struct t_fill_i32 args = {1, s->memory, 3};
    return ph_launch(ph_device_default_stream(s->world.device), s->world.fill_i32, NULL, &args,
                     sizeof args);
}

static ph_status fill(scene *s)
{
    return ph_memset(s->memory, 0, sizeof *s->memory, ph_device_default_stream(s->world.device));
}

static ph_status copy(scene *s)
{
    return ph_memcpy(s->memory + 1, s->memory, sizeof *s->memory,
                     ph_device_default_stream(s->world.device));
}

static void nothing(void *user)
{
    (void)user;
}

static ph_status host_function(scene *s)
{
    return ph_launch_host(ph_device_default_stream(s->world.device), nothing, NULL);
}

static ph_status record(scene *s)
{
    return ph_event_record(s->event, ph_device_default_stream(s->world.device));
}

static void *disturb(void *user)
{
    scene *s = user;
    while (!atomic_load(&s->over)) {
        ph_status status = s->call(s);
        if (status != PH_OK && status != PH_ERROR_CAPTURE) {
            memcpy(s->failure, ph_error_last()->message, sizeof ph_error_last()->message);
            break;
        }
    }
    return NULL;
}

static void open_scene(scene *s)
{
    memset(s, 0, sizeof *s);
    t_open(&s->world, NULL);
    assert_ok(
        ph_stream_create(&s->blocking, s->world.device, &(ph_stream_options){.blocking = true}));
    assert_ok(ph_stream_create(&s->other, s->world.device, NULL));
    assert_ok(ph_event_create(&s->event, s->world.device, NULL));
    assert_ok(ph_event_record(s->event, s->other));
    assert_ok(ph_malloc(&s->memory, 16, sizeof *s->memory, s->world.stream));
    assert_ok(ph_stream_synchronize(s->world.stream));
}

static void close_scene(scene *s)
{
    ph_free(s->memory, s->world.stream);
    ph_event_destroy(s->event);
    ph_stream_destroy(s->other);
    ph_stream_destroy(s->blocking);
    t_close(&s->world);
}

/* How many captures died. */
static int capture_many(scene *s, int rounds)
{
    struct t_fill_i32 args = {1, s->memory, 7};
    ph_graph *graph;
    int died = 0;
    assert_ok(ph_graph_create(&graph, NULL));
    for (int i = 0; i < rounds; i++) {
        assert_ok(ph_graph_capture_begin(graph, s->blocking, NULL));
        ph_status body = ph_launch(s->blocking, s->world.fill_i32, NULL, &args, sizeof args);
        died += ph_graph_capture_end(graph, body) != PH_OK;
        assert_ok(ph_graph_reset(graph));
    }
    ph_graph_destroy(graph);
    return died;
}

static void captures_survive(ph_status (*call)(scene *s))
{
    scene s;
    pthread_t thread;
    open_scene(&s);
    s.call = call;
    assert_true(ph__thread_start(&thread, "test", disturb, &s));
    int rounds = t_nightly() ? 100000 : 10000;
    /* each call takes long there */
    int died = capture_many(&s, t_launches_wait() ? rounds / 50 : rounds);
    atomic_store(&s.over, true);
    pthread_join(thread, NULL);
    if (s.failure[0])
        fail_msg("%s", s.failure);
    if (died)
        fail_msg("%d captures died, the last of them: %s", died, ph_error_last()->message);
    close_scene(&s);
}

#define SURVIVES(call)                                                                             \
    TEST(a_capture_survives_##call)                                                                \
    {                                                                                              \
        captures_survive(call);                                                                    \
    }
SURVIVES(query_event)
SURVIVES(synchronize_event)
SURVIVES(query_stream)
SURVIVES(synchronize_stream)
SURVIVES(launch)
SURVIVES(fill)
SURVIVES(copy)
SURVIVES(host_function)
SURVIVES(record)

int main(void)
{
    t_hold_context();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_capture_survives_query_event),
        cmocka_unit_test(a_capture_survives_synchronize_event),
        cmocka_unit_test(a_capture_survives_query_stream),
        cmocka_unit_test(a_capture_survives_synchronize_stream),
        cmocka_unit_test(a_capture_survives_launch),
        cmocka_unit_test(a_capture_survives_fill),
        cmocka_unit_test(a_capture_survives_copy),
        cmocka_unit_test(a_capture_survives_host_function),
        cmocka_unit_test(a_capture_survives_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
