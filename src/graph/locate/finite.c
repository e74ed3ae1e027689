/* SPDX-License-Identifier: MIT */
/* graph/locate/finite.c: checks for NaN and infinity: capturing them, and what they found. */
#include "base/alloc.h"
#include "base/checked.h"
#include "device/capture/submit.h"
#include "graph/locate/breadcrumbs.h"
#include "graph/locate/locate.h"
#include "graph/locate/probes.h"
#include "graph/object/graph.h"
#include "memory/observe/lookup.h"
#include <string.h>

static const size_t sizes[] = {
    [PH_NUMBER_F32] = 4, [PH_NUMBER_F64] = 8, [PH_NUMBER_F16] = 2, [PH_NUMBER_BF16] = 2};

enum {
    BLOCK_BYTES = PH__FINITE_BLOCK * 32 /* of numbers, that are worth a block */
};

/* ---- capturing ---- */
static ph_status check_memory(ph_device *device, const void *address, size_t bytes,
                              const char *call)
{
    ph_allocation found;
    ph__drv_pointer where;
    uintptr_t at = (uintptr_t)address, end = 0;
    if (ph__memory_find(&found, device, address)) {
        end = (uintptr_t)found.base + found.requested;
    } else if (ph__memory_is_reserved(device, address)) {
        return ph__fail_not_live(call, address, device);
    } else {
        int result = device->driver->pointer_info(&where, device->handle, address);
        if (result != PH__R_OK)
            return ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: address %p", call,
                                   address);
        if (where.kind == PH__MEMORY_PAGEABLE)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: address %p is neither memory of the device nor pinned", call,
                           address);
        end = where.base + where.size;
    }
    size_t room = end > at ? end - at : 0;
    if (bytes > room)
        return ph_fail(
            PH_ERROR_SIZE,
            "%s: %zu bytes at address %p leave the allocation it points into, which ends %zu bytes "
            "after it",
            call, bytes, address, room);
    return PH_OK;
}

static ph_status check_numbers(ph_stream *stream, const void *address, ph_number_type type,
                               size_t count, const char *call)
{
    PH_TRY(ph__stream_check(stream, call));
    if ((unsigned)type >= sizeof sizes / sizeof sizes[0])
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %d is none of ph_number_type", call, (int)type);
    if (count == 0)
        return PH_OK;
    if (address == NULL)
        return ph__fail_null(call, "address");
    size_t bytes, size = sizes[type];
    if (!ph__mul(count, size, &bytes))
        return ph_fail(PH_ERROR_SIZE, "%s: %zu numbers of %zu bytes are too many", call, count,
                       size);
    if ((uintptr_t)address % size != 0)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %p is no multiple of %zu, the size of the numbers",
                       call, address, size);
    return check_memory(stream->device, address, bytes, call);
}

static uint32_t blocks_for(size_t bytes)
{
    size_t blocks = bytes / BLOCK_BYTES + 1;
    return blocks < PH__FINITE_PARTS ? (uint32_t)blocks : PH__FINITE_PARTS;
}

/* Under the device's capture_lock. */
static void add_check(ph__probe_failure *f, ph_graph *graph, ph_stream *stream,
                      const ph__drv_finite *what, const char *name, const char *call)
{
    ph__locate *locate = ph__locate_get(graph);
    ph__probe_node node = {.name = ph__strdup(name ? name : "")};
    node.path = graph->capture.annotated ? ph__located_path() : ph__strdup("");
    if (locate && node.name && node.path) {
        size_t count = locate->checks.nodes.count;
        const ph__probe_node *before = count ? &locate->checks.nodes.at[count - 1] : NULL;
        node.args.finite = *what;
        node.args.finite.number = (uint32_t)count + 1;
        node.blocks = blocks_for(what->count * sizes[what->type]);
        node.part = before ? before->part + before->blocks : 0;
        ph__probe_add(f, &locate->checks, stream, &node, call);
    } else {
        f->result = PH__R_OUT_OF_MEMORY;
    }
    if (ph__probe_failed(f)) {
        ph__free(node.name);
        ph__free(node.path);
    }
}

static ph_status capture_check(ph_stream *stream, uint64_t capture_id, const ph__drv_finite *what,
                               const char *name, const char *call)
{
    ph__probe_failure f = {PH_OK, PH__R_OK, ""};
    bool held;
    PH_TRY(ph__marks_enter(&held, stream, call));
    pthread_mutex_lock(&stream->device->capture_lock);
    ph_graph *graph = ph__capture_owner_locked(stream->device, capture_id);
    if (graph)
        add_check(&f, graph, stream, what, name, call);
    pthread_mutex_unlock(&stream->device->capture_lock);
    ph__marks_leave(held);
    return ph__probe_report(&f, stream, call);
}

ph_status ph_finite_check(ph_stream *stream, const void *address, ph_number_type type, size_t count,
                          const char *name)
{
    static const char call[] = "ph_finite_check";
    uint64_t capture_id;
    PH_TRY(check_numbers(stream, address, type, count, call));
    PH_TRY(ph__stream_find_capture(&capture_id, stream, call));
    if (capture_id == 0)
        return PH_OK;
    if (ph__capture_is_foreign(stream, capture_id))
        return ph__fail_native(
            PH_ERROR_CAPTURE, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_LAUNCH_KERNEL,
            "%s: the stream is in a capture that this library did not begin (id %llu), whose "
            "nodes it cannot switch on; the call did not touch that capture; capture with "
            "ph_graph_capture",
            call, (unsigned long long)capture_id);
    const ph__drv_finite what = {.address = address, .count = count, .type = (uint32_t)type};
    return capture_check(stream, capture_id, &what, name, call);
}

/* ---- results ---- */
static double value_of(uint64_t bits, uint32_t type)
{
    uint32_t single = (uint32_t)bits, sign = (uint32_t)(bits >> 15 & 1) << 31;
    float f32;
    double f64;
    switch (type) {
    case PH_NUMBER_F64:
        memcpy(&f64, &bits, sizeof f64);
        return f64;
    case PH_NUMBER_F16: /* only those whose exponent is all ones */
        single = sign | 0x7f800000u | (uint32_t)(bits & 0x3ff) << 13;
        break;
    case PH_NUMBER_BF16:
        single = (uint32_t)bits << 16;
        break;
    default:
        break;
    }
    memcpy(&f32, &single, sizeof f32);
    return (double)f32;
}

static void sum_parts(ph_finite_result *out, const ph__probes *checks, const ph__probe_node *node)
{
    uint64_t begun = checks->table ? ph__probe_tick(checks->table) : 0;
    uint64_t bits = 0, bad = 0, first = UINT64_MAX;
    for (uint32_t i = 0; i < node->blocks && begun; i++) {
        const ph__drv_finite_part *part = ph__probe_part(checks, node->part + i);
        if (ph__probe_tick(&part->tick) <= begun)
            return;
        bad += ph__probe_tick(&part->bad);
        if (ph__probe_tick(&part->first) < first) {
            first = ph__probe_tick(&part->first);
            bits = ph__probe_tick(&part->bits);
        }
    }
    out->ran = begun != 0;
    out->bad = bad;
    out->first = first;
    out->value = bad ? value_of(bits, node->args.finite.type) : 0;
}

ph_status ph_finite_count(size_t *out, ph_graph *graph)
{
    if (out == NULL)
        return ph__fail_null("ph_finite_count", "out");
    *out = 0;
    PH_TRY(ph__graph_check(graph, PH__CALL_CHECK_COUNT));
    *out = graph->locate ? graph->locate->checks.nodes.count : 0;
    return PH_OK;
}

ph_status ph_finite_at(ph_finite_result *out, ph_graph *graph, size_t index)
{
    static const char call[] = "ph_finite_at";
    if (out == NULL)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__graph_check(graph, PH__CALL_CHECK_AT));
    const ph__locate *locate = graph->locate;
    size_t count = locate ? locate->checks.nodes.count : 0;
    if (index >= count)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s: check %zu does not exist; the graph has %zu, numbered from 0", call,
                       index, count);
    const ph__probe_node *node = &locate->checks.nodes.at[index];
    out->name = node->name;
    out->node = node->index;
    out->first = UINT64_MAX;
    out->scope = node->path;
    sum_parts(out, &locate->checks, node);
    return PH_OK;
}
