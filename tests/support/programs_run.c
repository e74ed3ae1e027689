/* SPDX-License-Identifier: MIT */
/* tests/support/programs_run.c: runs random stream programs on a device. */
#include "support/programs.h"
#include <stdlib.h>
#include <string.h>

static void host_call(void *user)
{
    const struct t_host_call *call = user;
    for (size_t i = 0; i < call->n; i++)
        call->p[i] = 17 * call->p[i] + call->value;
}

void t_bind(t_bound *bound, const t_program *program, const char *device, bool racy)
{
    memset(bound, 0, sizeof *bound);
    bound->program = program;
    t_register_kernels();
    assert_ok(ph_device_open(&bound->device, device ? device : t_device_name(), NULL));
    assert_ok(ph_kernel_create(&bound->mix, bound->device,
                               &t_kernel_sources[racy ? T_KERNEL_MIX_RACY : T_KERNEL_MIX]));
    for (int i = 0; i < T_STREAMS; i++)
        assert_ok(ph_stream_create(&bound->streams[i], bound->device, NULL));
    for (int i = 0; i < T_EVENTS; i++)
        assert_ok(ph_event_create(&bound->events[i], bound->device, NULL));
    for (int i = 0; i < T_DEVICE_SLOTS; i++)
        assert_ok(PH_NEW(&bound->slots[i], program->n, bound->streams[0]));
    for (int i = T_DEVICE_SLOTS; i < T_FIXED_SLOTS; i++)
        assert_ok(
            ph_malloc_pinned(&bound->slots[i], program->n, sizeof(uint32_t), bound->streams[0]));
    for (size_t i = 0; i < program->count; i++)
        if (program->steps[i].kind == T_HOST)
            bound->host_calls[i] = (struct t_host_call){bound->slots[program->steps[i].dst],
                                                        program->n, program->steps[i].value};
}

void t_unbind(t_bound *bound)
{
    for (int i = 0; i < T_DEVICE_SLOTS; i++)
        ph_free(bound->slots[i], NULL);
    for (int i = T_DEVICE_SLOTS; i < T_FIXED_SLOTS; i++)
        ph_free_pinned(bound->slots[i], NULL);
    for (int i = 0; i < T_EVENTS; i++)
        ph_event_destroy(bound->events[i]);
    for (int i = 0; i < T_STREAMS; i++)
        ph_stream_destroy(bound->streams[i]);
    ph_kernel_release(bound->mix);
    ph_device_release(bound->device);
}

void t_bound_start(t_bound *bound)
{
    for (int i = 0; i < T_FIXED_SLOTS; i++)
        assert_ok(
            ph_memset_u32(bound->slots[i], (uint32_t)i + 1, bound->program->n, bound->streams[0]));
    assert_ok(ph_stream_synchronize(bound->streams[0]));
}

static ph_status launch_mix(t_bound *bound, const t_step *step, ph_stream *stream)
{
    struct t_mix args = {bound->program->n, bound->slots[step->src], bound->slots[step->dst],
                         step->value, step->shift};
    ph_launch_config config = {.block = {64, 1, 1}};
    config.grid[0] = (uint32_t)((args.n + 63) / 64);
    return ph_launch(stream, bound->mix, &config, &args, sizeof args);
}

static ph_status submit_step(t_bound *bound, size_t index)
{
    const t_step *step = &bound->program->steps[index];
    ph_stream *stream = bound->streams[step->stream];
    uint32_t **slots = bound->slots;
    size_t n = bound->program->n;
    switch (step->kind) {
    case T_MIX:
        return launch_mix(bound, step, stream);
    case T_COPY:
        return ph_memcpy(slots[step->dst], slots[step->src], n * sizeof(uint32_t), stream);
    case T_SET:
        return ph_memset_u32(slots[step->dst], step->value, n, stream);
    case T_HOST:
        return ph_launch_host(stream, host_call, &bound->host_calls[index]);
    case T_ALLOC:
        return PH_NEW(&slots[step->dst], n, stream);
    case T_USED_BY:
        return ph_record_stream(slots[step->dst], stream);
    case T_FREE:
        ph_free(slots[step->dst], NULL);
        slots[step->dst] = NULL;
        return PH_OK;
    case T_RECORD:
        return ph_event_record(bound->events[step->event], stream);
    case T_WAIT:
        return ph_stream_wait_event(stream, bound->events[step->event]);
    case T_WAIT_STREAM:
        return ph_stream_wait_stream(stream, bound->streams[step->other]);
    }
    return ph_fail(PH_ERROR_CALLER, "no such step");
}

ph_status t_bound_submit(ph_stream *stream, void *user)
{
    t_bound *bound = user;
    for (int i = 1; i < T_STREAMS; i++)
        PH_TRY(ph_stream_wait_stream(bound->streams[i], stream));
    for (size_t i = 0; i < bound->program->count; i++)
        PH_TRY(submit_step(bound, i));
    for (int i = 1; i < T_STREAMS; i++)
        PH_TRY(ph_stream_wait_stream(stream, bound->streams[i]));
    return PH_OK;
}

bool t_bound_equals(t_bound *bound, const t_contents *expected)
{
    size_t n = bound->program->n;
    uint32_t *host = calloc(n, sizeof *host);
    bool equal = true;
    assert_non_null(host);
    assert_ok(ph_device_synchronize(bound->device));
    for (int i = 0; i < T_FIXED_SLOTS && equal; i++) {
        t_read(host, bound->slots[i], n * sizeof *host, bound->streams[0]);
        equal = memcmp(host, expected->slot[i], n * sizeof *host) == 0;
    }
    free(host);
    return equal;
}
