/* SPDX-License-Identifier: MIT */
/* tests/support/trainings.h: a small training with all kinds of parts, whose step may be captured,
 * and prints of what it has, to the bit. */
#ifndef PH_TESTS_TRAININGS_H
#define PH_TESTS_TRAININGS_H
#include "nn/loader/loader.h"
#include "support/files.h"
#include "support/tensors.h"
#include <sched.h>

typedef struct t_trained {
    t_scene s;
    ph_generator *generator; /* the device's default one */
    ph_module *net;
    ph_optimizer *optimizer;
    ph_lr_schedule *schedule;
    ph_grad_scaler *scaler;
    ph_data_loader *loader;
    ph_tensor *batch;      /* the loader's */
    ph_training *training; /* NULL: none yet */
    ph_graph *graph;       /* of a step; NULL: not captured yet */
    int64_t step;
    double best;
    float loss;
} t_trained;

static inline ph_status t_trained_fetch(const ph_fetch_request *request, void *user)
{
    float *rows = request->data[0];
    (void)user;
    for (size_t i = 0; i < 3 * request->count; i++)
        rows[i] = (float)request->index[i / 3] / 8 + (float)(i % 3);
    return PH_OK;
}

static inline void t_trained_open_loader(t_trained *t, uint64_t seed)
{
    assert_ok(ph_tensor_create(&t->batch, t->s.device, PH_DTYPE_F32, PH_SHAPE(4, 3)));
    ph_batch_field field = {.dtype = PH_DTYPE_F32, .shape = PH_SHAPE(3), .into = t->batch};
    ph_data_loader_options options = {.count = 11,
                                      .batch_size = 4,
                                      .fields = &field,
                                      .field_count = 1,
                                      .fetch = t_trained_fetch,
                                      .threads = 1,
                                      .shuffle = true,
                                      .seed = seed,
                                      .drop_last = true};
    assert_ok(ph_data_loader_create(&t->loader, t->s.device, &options));
}

/* seed: of the initial values, and of all that is drawn later. */
static inline void t_trained_open(t_trained *t, uint64_t seed)
{
    static const ph_lr_piece plan[] = {{.kind = PH_LR_LINEAR, .steps = 3, .start_factor = 0.1},
                                       {.kind = PH_LR_COSINE, .steps = 1000, .eta_min = 1e-4}};
    ph_module *part[4];
    memset(t, 0, sizeof *t);
    t_scene_open(&t->s);
    assert_ok(ph_generator_default(&t->generator, t->s.device));
    assert_ok(ph_generator_seed(t->generator, seed));
    assert_ok(ph_linear_create(&part[0], t->s.device, 3, 5));
    assert_ok(ph_activation_create(&part[1], t->s.device, "gelu", ph_gelu));
    assert_ok(ph_dropout_create(&part[2], t->s.device, 0.25));
    assert_ok(ph_linear_create(&part[3], t->s.device, 5, 2));
    assert_ok(ph_sequential_create(&t->net, part, 4));
    for (int i = 0; i < 4; i++)
        ph_module_release(part[i]);
    assert_ok(ph_adamw_create(&t->optimizer, t->net, &(ph_adam_options){.lr = 0.05}));
    assert_ok(ph_lr_schedule_create(&t->schedule, t->optimizer, plan, 2));
    assert_ok(
        ph_grad_scaler_create(&t->scaler, t->s.device,
                              &(ph_grad_scaler_options){.init_scale = 1024, .growth_interval = 3}));
    t_trained_open_loader(t, seed);
}

static inline void t_trained_add_parts(t_trained *t)
{
    assert_ok(ph_training_add_module(t->training, "net", t->net));
    assert_ok(ph_training_add_optimizer(t->training, "adamw", t->optimizer));
    assert_ok(ph_training_add_lr_schedule(t->training, "plan", t->schedule));
    assert_ok(ph_training_add_generator(t->training, "generator", t->generator));
    assert_ok(ph_training_add_grad_scaler(t->training, "scaler", t->scaler));
    assert_ok(ph_training_add_data_loader(t->training, "data", t->loader));
    assert_ok(ph_training_add_integer(t->training, "step", &t->step));
    assert_ok(ph_training_add_real(t->training, "best", &t->best));
}

static inline void t_trained_attach(t_trained *t, const char *folder,
                                    const ph_training_options *options)
{
    assert_ok(ph_training_create(&t->training, folder, options));
    t_trained_add_parts(t);
}

/* Waits for all that runs beside the caller, and has host memory meanwhile: the loader's threads,
 * and work of the device. */
static inline void t_trained_rest(t_trained *t)
{
    ph_data_loader *loader = t->loader;
    for (bool fetching = true; fetching;) {
        (void)sched_yield();
        fetching = false;
        ph__mutex_lock(&loader->lock);
        for (size_t i = 0; i < loader->slot_count; i++)
            fetching |= loader->slots[i].state == PH__BATCH_OPEN ||
                        loader->slots[i].state == PH__BATCH_FETCHING;
        ph__mutex_unlock(&loader->lock);
    }
    assert_ok(ph_device_synchronize(t->s.device));
}

static inline void t_trained_close(t_trained *t)
{
    ph_training_destroy(t->training);
    ph_lr_schedule_destroy(t->schedule);
    ph_data_loader_destroy(t->loader);
    ph_graph_destroy(t->graph);
    ph_grad_scaler_destroy(t->scaler);
    ph_tensor_release(t->batch);
    ph_optimizer_destroy(t->optimizer);
    ph_module_release(t->net);
    ph_generator_release(t->generator);
    t_scene_close(&t->s);
}

/* ---- a step ---- on a batch, and numbers that are drawn. */
static inline ph_status t_trained_body(ph_stream *stream, void *user)
{
    t_trained *t = user;
    ph_tape *tape = t->s.tape;
    (void)stream;
    ph_tensor *x = ph_add(tape, t->batch, ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(4, 3)));
    ph_tensor *loss = ph_mean(tape, ph_square(tape, ph_call(tape, t->net, x)));
    ph_backward(tape, ph_grad_scaler_scale(tape, t->scaler, loss));
    ph_grad_scaler_step(tape, t->scaler, t->optimizer);
    ph_grad_scaler_update(tape, t->scaler);
    ph_optimizer_zero_grad(tape, t->optimizer);
    return ph_tape_clear(tape);
}

/* captured: by one replay, but for a first step that makes the momenta. */
static inline void t_trained_step(t_trained *t, bool captured)
{
    uint64_t made;
    ph_batch batch = {.count = 0};
    while (batch.count == 0) /* the end of an epoch */
        assert_ok(ph_data_loader_next(&batch, t->loader, t->s.stream));
    assert_ok(ph_optimizer_steps(&made, t->s.tape, t->optimizer));
    if (captured && made > 0 && !t->graph) {
        assert_ok(ph_graph_create(&t->graph, NULL));
        assert_ok(ph_graph_capture(t->graph, t->s.stream, NULL, t_trained_body, t));
    }
    assert_ok(captured && t->graph ? ph_graph_replay(t->graph, t->s.stream)
                                   : t_trained_body(t->s.stream, t));
    assert_ok(ph_lr_schedule_step(t->schedule));
    t->step++;
    t->best = 1 / (double)(t->step + 2);
}

/* ---- prints ---- */
typedef struct t_print {
    uint64_t hash;
    size_t bytes;
} t_print;

static inline void t_print_add(t_print *print, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        print->hash = (print->hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    print->bytes += size;
}

static inline void t_print_add_file(t_print *print, const char *path)
{
    char bytes[1 << 14];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    assert_true(size > 0 && size < sizeof bytes);
    t_print_add(print, bytes, size);
    assert_int_equal(unlink(path), 0);
}

/* Of everything that a step reads or changes. */
static inline t_print t_trained_print(t_trained *t)
{
    t_print print = {.hash = UINT64_C(14695981039346656037)};
    char path[64];
    unsigned char state[16];
    double lr = ph_optimizer_lr(t->optimizer);
    uint64_t planned = ph_lr_schedule_steps(t->schedule);
    (void)snprintf(path, sizeof path, "%s/phonograph-print-%ld",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    assert_ok(ph_module_save(t->net, path));
    t_print_add_file(&print, path);
    assert_ok(ph_optimizer_save(t->optimizer, path));
    t_print_add_file(&print, path);
    assert_ok(ph_grad_scaler_save(t->scaler, path));
    t_print_add_file(&print, path);
    ph_data_loader_position position;
    assert_ok(ph_data_loader_get_position(&position, t->loader));
    t_print_add(&print, &position, sizeof position);
    assert_ok(ph_generator_get_state(state, t->generator));
    t_print_add(&print, state, sizeof state);
    t_print_add(&print, &lr, sizeof lr);
    t_print_add(&print, &planned, sizeof planned);
    t_print_add(&print, &t->step, sizeof t->step);
    t_print_add(&print, &t->best, sizeof t->best);
    return print;
}

static inline void t_expect_print(t_trained *t, t_print want, const char *where)
{
    t_print got = t_trained_print(t);
    if (got.hash != want.hash || got.bytes != want.bytes)
        fail_msg("%s: the training has other bits than it must have", where);
}

/* ---- folders ---- in memory where the system has such: a save syncs eight times. */
static inline void t_memory_folder_open(t_folder *folder)
{
    (void)snprintf(folder->path, sizeof folder->path, "/dev/shm/phonograph-test-XXXXXX");
    if (!mkdtemp(folder->path))
        t_folder_open(folder);
}

/* Removes all that is in it, two levels deep, and it. */
static inline void t_remove_all(const char *path)
{
    char command[256];
    (void)snprintf(command, sizeof command, "rm -rf -- '%s'", path);
    assert_int_equal(system(command), 0);
}
#endif
