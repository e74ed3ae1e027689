/* SPDX-License-Identifier: MIT */
/* tests/support/gates.c: gates: host functions that hold a stream until they are opened, and who
 * opens them where launches wait. */
#include "base/sync.h"
#include "support/support.h"
#include <stdlib.h>

enum {
    PATIENCE_NS = 300000000
};

bool t_launches_wait(void)
{
    const char *value = getenv("PH_TEST_LAUNCHES_WAIT");
    return value && *value && *value != '0';
}

static void open_it(t_gate *gate)
{
    atomic_store(&gate->open, 1);
    ph__futex_wake(&gate->open, INT32_MAX);
}

/* Opens the gate when its patience ends before the gate is opened. */
static void *guard(void *argument)
{
    t_gate *gate = argument;
    ph__futex_wait(&gate->open, 0, PATIENCE_NS);
    if (!atomic_load(&gate->open)) {
        atomic_store(&gate->forced, true);
        open_it(gate);
    }
    return NULL;
}

static void end_guard(t_gate *gate)
{
    if (gate->guarded)
        pthread_join(gate->guard, NULL);
    gate->guarded = false;
}

static void begin_guard(t_gate *gate)
{
    if ((t_launches_wait() || (gate->behind && !t_on_host())) && !gate->guarded)
        gate->guarded = ph__thread_start(&gate->guard, "guard", guard, gate);
}

void t_gate_body(void *argument)
{
    t_gate *gate = argument;
    while (!atomic_load(&gate->open))
        ph__futex_wait(&gate->open, 0, -1);
}

ph_status t_gate_wait(t_gate *gate, ph_stream *stream)
{
    return ph_launch_host(stream, t_gate_body, gate);
}

ph_status t_gate_wait_guarded(t_gate *gate, ph_stream *stream)
{
    begin_guard(gate);
    return t_gate_wait(gate, stream);
}

void t_gate_open(t_gate *gate)
{
    open_it(gate);
    end_guard(gate);
}

void t_gate_shut(t_gate *gate)
{
    end_guard(gate);
    atomic_store(&gate->open, 0);
    atomic_store(&gate->forced, false);
    begin_guard(gate);
}

bool t_gate_held(const t_gate *gate)
{
    return !atomic_load(&gate->forced);
}
