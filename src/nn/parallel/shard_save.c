/* SPDX-License-Identifier: MIT */
/* nn/parallel/shard_save.c: the parts of an optimizer's state, of all ranks, as one file of whole
 * parameters. Each rank says what it has; rank 0 gets the tensors one by one. */
#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "nn/module/layers.h"
#include "nn/module/state.h"
#include "nn/optimizer/state_save.h"
#include "nn/parallel/shard_state.h"
#include <phonograph/collectives.h>
#include <string.h>

#define MOST_SENT  (UINT64_C(1) << 30) /* bytes of one send */
#define NO_SEGMENT UINT64_MAX

/* An entry of one rank's state. */
typedef struct record {
    uint64_t segment;  /* NO_SEGMENT: of the optimizer */
    uint64_t elements; /* of a tensor; 0: it is not made yet */
    uint64_t bits;     /* of a number */
    uint32_t kind, number;
} record;

typedef struct summary {
    char kind[24];
    uint64_t count; /* of records */
} summary;

/* An entry of the file. */
typedef struct whole {
    size_t part;
    uint32_t kind, number, rank; /* the first rank that has a part of it */
    uint64_t bits;
    bool made;
    int64_t covered; /* elements that ranks have */
    char *name;
    void *values; /* NULL: no tensor, or not made */
} whole;

typedef struct saving {
    const ph_data_parallel *parallel;
    const ph_optimizer *optimizer;
    const char *call;
    uint32_t rank, size;
    ph_tape *tape;
    ph__shard_places places;
    ph__state_entries entries;
    ph_named_tensor *tensors; /* of the entries */
    record *own;
    summary *summaries; /* of all ranks */
    record *records;    /* of all ranks, `most` each */
    size_t most;
    PH__VEC(whole) wholes;
} saving;

/* ---- this rank's part ---- */
static ph_status describe_entry(record *out, const saving *g, size_t i)
{
    const ph__state_entry *e = &g->entries.at[i];
    ph_tensor *x = g->tensors[i].tensor;
    *out = (record){.segment = NO_SEGMENT, .kind = e->kind, .number = (uint32_t)e->number};
    if (e->kind != PH__STATE_OPTIMIZER_STEPS)
        out->segment = g->places.segments[e->param];
    if (e->kind != PH__STATE_TENSOR)
        return ph_tensor_read(g->tape, x, &out->bits, sizeof out->bits);
    out->elements = (uint64_t)ph_tensor_count(x);
    return PH_OK;
}

static ph_status prepare_save(saving *g)
{
    PH_TRY(ph__shard_places_make(&g->places, g->parallel, g->optimizer, g->call));
    PH_TRY(ph__state_entries_of(&g->entries, g->optimizer, g->places.at, g->call));
    g->tensors = ph__calloc(g->entries.count, sizeof *g->tensors);
    g->own = ph__calloc(g->entries.count, sizeof *g->own);
    g->summaries = ph__calloc(g->size, sizeof *g->summaries);
    if (!g->tensors || !g->own || !g->summaries)
        return ph__fail_host_memory(g->call, "the list of an optimizer's state");
    PH_TRY(ph__state_begin(&g->tape, g->optimizer->device, g->call));
    PH_TRY(ph__optimizer_state_tensors(g->tensors, g->tape, g->optimizer, &g->entries, g->call));
    for (size_t i = 0; i < g->entries.count; i++)
        PH_TRY(describe_entry(&g->own[i], g, i));
    return PH_OK;
}

/* ---- what all ranks have ---- */
static ph_status gather_bytes(void *out, const saving *g, const void *own, size_t each)
{
    int64_t begin = (int64_t)(each * g->rank), end = begin + (int64_t)each;
    ph_tensor *all = ph_zeros(g->tape, PH_DTYPE_U8, PH_SHAPE((int64_t)(each * g->size)));
    ph_tensor *part = ph_slice(g->tape, all, 0, begin, end);
    PH_TRY(ph_tape_status(g->tape));
    PH_TRY(ph_tensor_write(g->tape, part, own, each));
    PH_TRY(ph_all_gather(g->parallel->comm, ph_tensor_data(all), ph_tensor_data(part), each,
                         PH_DTYPE_U8, ph_tape_stream(g->tape)));
    return ph_tensor_read(g->tape, all, out, each * g->size);
}

static ph_status check_kinds(const saving *g)
{
    for (uint32_t rank = 1; rank < g->size; rank++)
        if (memcmp(g->summaries[rank].kind, g->summaries[0].kind, sizeof g->summaries->kind) != 0)
            return ph_fail(PH_ERROR_MISMATCH,
                           "%s: rank %u has an optimizer of kind %.24s, and rank 0 one of %.24s; "
                           "make the same on all ranks",
                           g->call, rank, g->summaries[rank].kind, g->summaries[0].kind);
    return PH_OK;
}

static ph_status exchange_records(saving *g)
{
    summary own = {.count = g->entries.count};
    strncpy(own.kind, g->optimizer->kind->name, sizeof own.kind - 1);
    PH_TRY(gather_bytes(g->summaries, g, &own, sizeof own));
    PH_TRY(check_kinds(g));
    for (uint32_t rank = 0; rank < g->size; rank++)
        g->most = g->summaries[rank].count > g->most ? g->summaries[rank].count : g->most;
    record *padded = ph__calloc(g->most, sizeof *padded);
    g->records = ph__calloc(g->most * g->size, sizeof *g->records);
    ph_status status = padded && g->records
                           ? PH_OK
                           : ph__fail_host_memory(g->call, "the list of all ranks' state");
    if (status == PH_OK) {
        memcpy(padded, g->own, g->entries.count * sizeof *padded);
        status = gather_bytes(g->records, g, padded, g->most * sizeof *padded);
    }
    ph__free(padded);
    return status;
}

/* ---- whole entries ---- the same on all ranks, and so are their failures */
static size_t part_of(const saving *g, const record *r)
{
    return r->segment == NO_SEGMENT ? SIZE_MAX : g->parallel->segments.at[r->segment].part;
}

static whole *find_whole(const saving *g, const record *r)
{
    for (size_t i = 0; i < g->wholes.count; i++) {
        whole *w = &g->wholes.at[i];
        if (w->part == part_of(g, r) && w->kind == r->kind && w->number == r->number)
            return w;
    }
    return NULL;
}

static ph_status add_record(saving *g, uint32_t rank, const record *r)
{
    whole *w = find_whole(g, r);
    const whole fresh = {.part = part_of(g, r),
                         .kind = r->kind,
                         .number = r->number,
                         .rank = rank,
                         .bits = r->bits,
                         .made = r->elements > 0};
    if (!w && !ph__vec_push(&g->wholes, fresh))
        return ph__fail_host_memory(g->call, "the list of the whole state");
    w = w ? w : &g->wholes.at[g->wholes.count - 1];
    if (w->bits != r->bits || w->made != (r->elements > 0))
        return ph_fail(PH_ERROR_MISMATCH,
                       "%s: ranks %u and %u have made different steps; save when all ranks have "
                       "made the same",
                       g->call, w->rank, rank);
    if (r->segment != NO_SEGMENT) {
        const ph__shard_segment *s = &g->parallel->segments.at[r->segment];
        w->covered += s->end - s->begin;
    }
    return PH_OK;
}

static ph_status find_wholes(saving *g)
{
    for (uint32_t rank = 0; rank < g->size; rank++)
        for (size_t i = 0; i < g->summaries[rank].count; i++)
            PH_TRY(add_record(g, rank, &g->records[rank * g->most + i]));
    for (size_t i = 0; i < g->wholes.count; i++) {
        const whole *w = &g->wholes.at[i];
        if (w->kind != PH__STATE_OPTIMIZER_STEPS &&
            w->covered != ph_tensor_count(g->parallel->parts.at[w->part].parameter))
            return ph_fail(PH_ERROR_MISMATCH,
                           "%s: some rank's optimizer has no state of its part of parameter %zu; "
                           "make optimizers of the same options on all ranks",
                           g->call, w->part);
    }
    return PH_OK;
}

/* ---- rank 0 ---- */
typedef struct named_part {
    const ph_tensor *of;
    const char *suffix;
    ph__text text;
} named_part;

static bool name_part(const char *name, ph_tensor *x, void *user)
{
    named_part *n = user;
    if (x != n->of)
        return true;
    ph__text_format(&n->text, "%s.%s", name, n->suffix);
    return false;
}

static ph_status make_room(const saving *g, whole *w)
{
    const ph__optimizer_kind *kind = g->optimizer->kind;
    named_part n = {.suffix = w->kind == PH__STATE_TENSOR ? kind->state_names[w->number]
                              : w->kind == PH__STATE_STEP ? "step"
                                                          : kind->kept_names[w->number]};
    if (w->kind == PH__STATE_OPTIMIZER_STEPS) {
        ph__text_add(&n.text, "steps");
    } else {
        n.of = g->parallel->parts.at[w->part].parameter;
        ph_module_parameters(g->parallel->module, name_part, &n);
        if (w->made)
            w->values = ph__calloc(ph_tensor_bytes(n.of), 1);
    }
    w->name = ph__text_detach(&n.text);
    return w->name && (w->values || !w->made)
               ? PH_OK
               : ph__fail_host_memory(g->call, "the whole state, on rank 0");
}

static ph_status make_rooms(const saving *g)
{
    for (size_t i = 0; g->rank == 0 && i < g->wholes.count; i++)
        PH_TRY(make_room(g, &g->wholes.at[i]));
    return PH_OK;
}

/* ---- tensors ---- */
static ph_status send_tensor(const saving *g, ph_tensor *x)
{
    uint64_t bytes = ph_tensor_bytes(x), count;
    for (uint64_t at = 0; at < bytes; at += count) {
        count = bytes - at < MOST_SENT ? bytes - at : MOST_SENT;
        PH_TRY(ph_send(g->parallel->comm, (char *)ph_tensor_data(x) + at, (size_t)count,
                       PH_DTYPE_U8, 0, ph_tape_stream(g->tape)));
    }
    return PH_OK;
}

static ph_status receive_tensor(void *out, const saving *g, uint32_t from, uint64_t bytes)
{
    uint64_t count;
    ph_status status = PH_OK;
    for (uint64_t at = 0; at < bytes && status == PH_OK; at += count) {
        count = bytes - at < MOST_SENT ? bytes - at : MOST_SENT;
        size_t mark = ph_tape_scope_begin(g->tape);
        ph_tensor *x = ph_empty(g->tape, PH_DTYPE_U8, PH_SHAPE((int64_t)count));
        status = ph_tape_status(g->tape);
        if (status == PH_OK)
            status = ph_receive(g->parallel->comm, ph_tensor_data(x), (size_t)count, PH_DTYPE_U8,
                                from, ph_tape_stream(g->tape));
        if (status == PH_OK)
            status = ph_tensor_read(g->tape, x, (char *)out + at, (size_t)count);
        ph_tape_scope_end(g->tape, mark, NULL, 0);
    }
    return status;
}

static ph_status move_record(const saving *g, uint32_t rank, size_t i)
{
    const record *r = &g->records[rank * g->most + i];
    if (r->elements == 0 || (g->rank != 0 && g->rank != rank))
        return PH_OK;
    if (g->rank != 0)
        return send_tensor(g, g->tensors[i].tensor);
    const ph__shard_segment *s = &g->parallel->segments.at[r->segment];
    size_t size = ph_dtype_size(ph_tensor_dtype(g->parallel->parts.at[s->part].parameter));
    char *out = (char *)find_whole(g, r)->values + (size_t)s->begin * size;
    size_t bytes = (size_t)r->elements * size;
    return rank == 0 ? ph_tensor_read(g->tape, g->tensors[i].tensor, out, bytes)
                     : receive_tensor(out, g, rank, bytes);
}

static ph_status move_records(const saving *g)
{
    for (uint32_t rank = 0; rank < g->size; rank++)
        for (size_t i = 0; i < g->summaries[rank].count; i++)
            PH_TRY(move_record(g, rank, i));
    return PH_OK;
}

/* ---- the file ---- */
static ph_tensor *new_whole(ph_tape *tape, const saving *g, whole *w)
{
    if (w->kind == PH__STATE_STEP || w->kind == PH__STATE_OPTIMIZER_STEPS)
        return ph_from_memory(tape, PH_DTYPE_I64, PH_SCALAR, &w->bits);
    if (w->kind == PH__STATE_KEPT)
        return ph_from_memory(tape, PH_DTYPE_F64, PH_SCALAR, &w->bits);
    const ph_tensor *of = g->parallel->parts.at[w->part].parameter;
    if (!w->made)
        return ph_empty(tape, ph_tensor_dtype(of), PH_SHAPE(0));
    ph_tensor *x = ph_from_memory(tape, ph_tensor_dtype(of), ph_tensor_shape(of), w->values);
    ph__free(w->values);
    w->values = NULL;
    return x;
}

static ph_status write_wholes(ph_tape *tape, saving *g, const char *path)
{
    ph_named_tensor *all = ph__calloc(g->wholes.count, sizeof *all);
    if (!all)
        return ph__fail_host_memory(g->call, "the names of the whole state");
    for (size_t i = 0; i < g->wholes.count; i++)
        all[i] = (ph_named_tensor){g->wholes.at[i].name, new_whole(tape, g, &g->wholes.at[i])};
    ph_status status = ph_tape_status(tape);
    if (status == PH_OK)
        status = ph_safetensors_write(tape, path, all, g->wholes.count);
    ph__free(all);
    return status;
}

/* From host memory: a host device of its own holds it. */
static ph_status write_file(saving *g, const char *path)
{
    const ph_device_options options = {.host_threads = 1};
    ph_device *host;
    ph_tape *tape;
    if (g->rank != 0)
        return PH_OK;
    PH_TRY(ph_device_open(&host, "host", &options));
    ph_status status = ph__layer_begin(&tape, host, NULL);
    if (status == PH_OK)
        status = ph__layer_finish(tape, write_wholes(tape, g, path), g->call);
    ph_device_release(host);
    return status;
}

/* ---- the call ---- */
static void free_saving(saving *g)
{
    for (size_t i = 0; i < g->wholes.count; i++) {
        ph__free(g->wholes.at[i].name);
        ph__free(g->wholes.at[i].values);
    }
    ph__vec_free(&g->wholes);
    ph_tape_destroy(g->tape);
    ph__state_entries_free(&g->entries);
    ph__shard_places_free(&g->places);
    ph__free(g->tensors);
    ph__free(g->own);
    ph__free(g->summaries);
    ph__free(g->records);
}

static ph_status save_shards(saving *g, const char *path)
{
    PH_TRY(ph__parallel_agree(g->parallel, prepare_save(g), g->call));
    PH_TRY(exchange_records(g));
    PH_TRY(find_wholes(g));
    PH_TRY(ph__parallel_agree(g->parallel, make_rooms(g), g->call));
    PH_TRY(move_records(g));
    return ph__parallel_agree(g->parallel, write_file(g, path), g->call);
}

ph_status ph_data_parallel_save_optimizer(ph_data_parallel *parallel, ph_optimizer *optimizer,
                                          const char *path)
{
    saving g = {
        .parallel = parallel, .optimizer = optimizer, .call = "ph_data_parallel_save_optimizer"};
    PH_TRY(ph__shard_state_check(parallel, optimizer, path, g.call));
    g.rank = ph_comm_rank(parallel->comm);
    g.size = ph_comm_size(parallel->comm);
    if (!parallel->shards)
        return ph__parallel_agree(parallel,
                                  g.rank == 0 ? ph_optimizer_save(optimizer, path) : PH_OK, g.call);
    ph_status status = save_shards(&g, path);
    free_saving(&g);
    return status;
}
