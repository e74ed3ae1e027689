/* SPDX-License-Identifier: MIT */
/* tests/nn/zeros.c: every number of every public option struct: what its 0 means, and that a zero
 * which is legal and not the default can be said, by PH_ZERO. The structs are read from the public
 * headers: a member that nobody has thought of here is a failure. */
#include "support/graphed_nets.h"
#include "support/optimizer_check.h"
#include "support/renewed.h"
#include "support/test.h"
#include "support/trainings.h"

#include <dirent.h>
#include <phonograph/clip_grad.h>
#include <phonograph/data_loader.h>
#include <phonograph/grad_scaler.h>
#include <phonograph/inspect/locate.h>
#include <phonograph/inspect/profile.h>
#include <phonograph/training.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    TEXT = 1 << 17,
    MEMBERS = 128
};

/* ---- what PH_ZERO says, and 0 does not ---- */
static void step_with(oc_rule rule)
{
    oc_problem p;
    char text[200];
    oc_describe(text, &rule);
    oc_open(&p, PH_DTYPE_F64, NULL, 0, 5);
    ph_optimizer *optimizer = oc_create(&rule, p.module);
    assert_true(ph_optimizer_lr(optimizer) == rule.lr);
    for (int i = 0; i < 3; i++) {
        oc_gradients(&p, UINT64_MAX);
        assert_ok(oc_step(&p, optimizer));
        oc_reference(&p, &rule);
        oc_compare(&p, oc_adam_bound(p.dtype), text);
    }
    ph_optimizer_destroy(optimizer);
    oc_close(&p);
}

static void adam_steps(void (*change)(oc_rule *))
{
    for (unsigned number = 0; number < OC_ADAM_RULES; number += 5) {
        oc_rule rule = oc_adam_rule(number);
        change(&rule);
        step_with(rule);
    }
}

static void no_lr(oc_rule *r)
{
    r->lr = 0;
}
static void no_beta1(oc_rule *r)
{
    r->beta1 = 0;
}
static void no_beta2(oc_rule *r)
{
    r->beta2 = 0;
}
static void no_eps(oc_rule *r)
{
    r->eps = 0;
}
static void no_decay(oc_rule *r)
{
    r->weight_decay = 0;
}
static void adam_lr(void)
{
    adam_steps(no_lr);
}
static void adam_beta1(void)
{
    adam_steps(no_beta1);
}
static void adam_beta2(void)
{
    adam_steps(no_beta2);
}
static void adam_eps(void)
{
    adam_steps(no_eps);
}
static void adam_weight_decay(void)
{
    adam_steps(no_decay);
}

/* Each number of each kind of optimizer but SGD and Adam in turn. */
static void kinds_zeros(void)
{
    for (size_t k = 0; k < oc_kind_rule_count(); k++) {
        oc_rule rule = oc_kind_rule(k);
        double *const numbers[] = {&rule.lr,           &rule.beta1,   &rule.beta2,
                                   &rule.eps,          &rule.alpha,   &rule.momentum,
                                   &rule.weight_decay, &rule.initial, &rule.momentum_decay,
                                   &rule.lr_decay,     &rule.lambd,   &rule.t0,
                                   &rule.least};
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            double value = *numbers[i];
            *numbers[i] = 0;
            /* a centered second moment of alpha 0 is a difference of roundings */
            if (value != 0 && !(rule.centered && rule.alpha == 0))
                step_with(rule);
            *numbers[i] = value;
        }
        if (rule.kind == OC_RPROP) {
            rule.least = rule.most = 0;
            step_with(rule);
        }
    }
}

/* With eps, a row of such small numbers is nearly 0; without, it is as any other. */
static void layer_eps(void)
{
    t_scene s;
    ph_module *norm[2];
    const ph_layer_options options = {.eps = PH_ZERO};
    t_scene_open(&s);
    assert_ok(ph_layer_norm_create(&norm[0], s.device, 2, &options));
    assert_ok(ph_rms_norm_create(&norm[1], s.device, 2, &options));
    const float small = 0x1p-20f;
    ph_tensor *x = t_input(&s, small, -small);
    for (int i = 0; i < 2; i++) {
        t_expect_values(s.tape, ph_call(s.tape, norm[i], x), PH_SHAPE(2), 1, -1);
        ph_module_release(norm[i]);
    }
    t_expect_values(s.tape, ph_layer_norm(s.tape, x, NULL, NULL, PH_ZERO), PH_SHAPE(2), 1, -1);
    t_expect_values(s.tape, ph_rms_norm(s.tape, x, NULL, PH_ZERO), PH_SHAPE(2), 1, -1);
    t_scene_close(&s);
}

/* All columns count alike. */
static void attention_scale(void)
{
    t_scene s;
    t_scene_open(&s);
    const ph_shape shape = PH_SHAPE(1, 2, 2);
    ph_tensor *q = ph_from_memory(s.tape, PH_DTYPE_F32, shape, (const float[]){9, 1, -7, 3});
    ph_tensor *v = ph_from_memory(s.tape, PH_DTYPE_F32, shape, (const float[]){1, 2, 3, 6});
    const ph_attention_options options = {.scale = PH_ZERO};
    t_expect_values(s.tape, ph_attention(s.tape, q, q, v, &options), shape, 2, 4, 2, 4);
    t_scene_close(&s);
}

static void graphed_warmup(void)
{
    static const size_t given[] = {PH_ZERO, 0, 2};
    static const int calls[] = {0, 3, 2};
    int before = 0;
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    for (int i = 0; i < 3; i++) {
        ph_module *plain = t_scale_open(&s, &scale, 3);
        ph_module *graphed =
            gn_graph_one(plain, x, &(ph_graphed_options){.warmup_iterations = given[i]});
        before = i ? before : scale.calls;
        assert_int_equal(scale.calls - before, calls[i]);
        ph_module_release(graphed);
        ph_module_release(plain);
    }
    ph_tensor_release(x);
    t_scene_close(&s);
}

static ph_status fill(ph_stream *stream, void *user)
{
    void *at;
    (void)user;
    PH_TRY(ph_malloc(&at, 64, 1, stream));
    ph_status status = ph_memset(at, 0, 64, stream);
    ph_free(at, stream);
    return status;
}

/* Each replay counts the graph's epoch up. */
static void profile_warmup(void)
{
    static const unsigned given[] = {PH_ZERO, 0, 7};
    static const uint64_t more[] = {0, 2, 7};
    uint64_t none = 0;
    t_scene s;
    ph_graph *graph;
    t_scene_open(&s);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, fill, NULL));
    for (int i = 0; i < 3; i++) {
        ph_profile *profile;
        uint64_t before = ph_graph_epoch(graph);
        const ph_profile_options options = {.replays = 3, .warmup = given[i]};
        assert_ok(ph_graph_profile(&profile, graph, s.stream, &options));
        ph_profile_destroy(profile);
        uint64_t replays = ph_graph_epoch(graph) - before;
        none = i ? none : replays;
        assert_int_equal(replays - none, more[i]);
    }
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

/* ---- where zero is the default: PH_ZERO says no more ---- */
static void sgd_zeros(void)
{
    for (int i = 0; i < 4; i++) {
        oc_problem p;
        ph_optimizer *optimizer;
        const double momentum = i == 1 ? 0.5 : 0, decay = i == 2 ? 0.5 : 0, lr = i == 3 ? 0 : 0.5;
        const oc_rule rule = {
            .kind = OC_SGD, .lr = lr, .momentum = momentum, .weight_decay = decay};
        const ph_sgd_options options = {.lr = lr == 0 ? PH_ZERO : lr,
                                        .momentum = momentum == 0 ? PH_ZERO : momentum,
                                        .dampening = PH_ZERO,
                                        .weight_decay = decay == 0 ? PH_ZERO : decay};
        oc_open(&p, PH_DTYPE_F64, NULL, 0, 9);
        assert_ok(ph_sgd_create(&optimizer, p.module, &options));
        for (int step = 0; step < 3; step++) {
            oc_gradients(&p, UINT64_MAX);
            assert_ok(oc_step(&p, optimizer));
            oc_reference(&p, &rule);
            oc_compare(&p, 1e-12, "sgd");
        }
        ph_optimizer_destroy(optimizer);
        oc_close(&p);
    }
}

static void block_dropout(void)
{
    t_scene s;
    ph_module *block[2];
    ph_generator *generator;
    t_scene_open(&s);
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_generator_create(&generator, s.device, 3));
        const ph_block_options options = {.dropout = i ? PH_ZERO : 0, .generator = generator};
        assert_ok(ph_transformer_block_create(&block[i], s.device, 4, 2, &options));
        ph_generator_release(generator);
    }
    ph_tensor *x = gn_random(&s, PH_SHAPE(1, 3, 4), 1);
    gn_expect_same(&s, ph_call(s.tape, block[1], x), ph_call(s.tape, block[0], x),
                   "without dropout");
    ph_module_release(block[0]);
    ph_module_release(block[1]);
    t_scene_close(&s);
}

static void verify_tolerances(void)
{
    t_scene s;
    ph_graph *graph;
    ph_verify_result result;
    t_scene_open(&s);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, fill, NULL));
    /* a tolerance without outputs would be refused */
    const ph_verify_options options = {.relative = PH_ZERO, .absolute = PH_ZERO};
    assert_ok(ph_graph_verify(&result, graph, s.stream, fill, NULL, &options));
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

/* A tape that asks for no quarantine takes what one without options takes. */
static void tape_quarantine(void)
{
    static const size_t given[] = {0, PH_ZERO};
    int64_t taken[2];
    t_scene s;
    t_scene_open(&s);
    for (int i = 0; i < 2; i++) {
        ph_tape *tape;
        int64_t before = ph__alloc_live();
        assert_ok(ph_tape_create(&tape, s.stream, &(ph_tape_options){.quarantine = given[i]}));
        taken[i] = ph__alloc_live() - before;
        ph_tape_destroy(tape);
    }
    assert_int_equal(taken[0], taken[1]);
    t_scene_close(&s);
}

static void stream_priority(void)
{
    t_scene s;
    ph_stream *stream;
    t_scene_open(&s);
    assert_ok(ph_stream_create(&stream, s.device, &(ph_stream_options){.priority = (int)PH_ZERO}));
    assert_int_equal(ph_stream_priority(stream), 0);
    ph_stream_destroy(stream);
    t_scene_close(&s);
}

/* ---- where zero means nothing: PH_ZERO is refused ---- */
static void rprop_etas(void)
{
    oc_problem p;
    ph_optimizer *optimizer;
    oc_open(&p, PH_DTYPE_F64, NULL, 0, 9);
    assert_error(ph_rprop_create(&optimizer, p.module, &(ph_rprop_options){.eta_minus = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "eta_minus is 0");
    assert_error(ph_rprop_create(&optimizer, p.module, &(ph_rprop_options){.eta_plus = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "eta_plus 0");
    oc_close(&p);
}

static void device_numbers(void)
{
    static const ph_device_options options[] = {
        {.host_threads = PH_ZERO}, {.host_chaos_seed = PH_ZERO}, {.host_memory_bytes = PH_ZERO}};
    for (int i = 0; i < 3; i++) {
        ph_device *device;
        assert_error(ph_device_open(&device, "host", &options[i]), PH_ERROR_ARGUMENT,
                     "is PH_ZERO, and can be no zero");
        assert_null(device);
    }
}

static void capture_asks(void)
{
    t_scene s;
    ph_graph *graph;
    const ph_capture_options options = {.check_input_liveness = true,
                                        .check_foreign_every = PH_ZERO};
    t_scene_open(&s);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, s.stream, &options, fill, NULL), PH_ERROR_ARGUMENT,
                 "check_foreign_every is PH_ZERO");
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

static void pool_limit(void)
{
    t_scene s;
    ph_pool *pool;
    t_scene_open(&s);
    assert_error(ph_pool_create(&pool, s.device, &(ph_pool_options){.limit = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "limit is PH_ZERO");
    t_scene_close(&s);
}

static void comm_numbers(void)
{
    t_scene s;
    ph_comm *comm;
    t_scene_open(&s);
    assert_error(ph_comm_create(&comm, s.device, &(ph_comm_options){.size = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "size is PH_ZERO");
    assert_error(ph_comm_create(&comm, s.device, &(ph_comm_options){.timeout_ms = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "timeout_ms is PH_ZERO");
    assert_error(ph_comm_create(&comm, s.device, &(ph_comm_options){.port = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "port is PH_ZERO");
    assert_ok(ph_comm_create(&comm, s.device, NULL));
    ph_pool *pool;
    assert_error(ph_comm_pool_create(&pool, comm, &(ph_comm_pool_options){.reserve = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "reserve is PH_ZERO");
    assert_error(ph_comm_pool_create(&pool, comm, &(ph_comm_pool_options){.limit = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "limit is PH_ZERO");
    ph_comm_release(comm);
    t_scene_close(&s);
}

static void parallel_numbers(void)
{
    t_scene s;
    ph_module *net;
    ph_comm *comm;
    ph_data_parallel *parallel;
    t_scene_open(&s);
    assert_ok(ph_linear_create(&net, s.device, 2, 2));
    assert_ok(ph_comm_create(&comm, s.device, NULL));
    assert_error(ph_data_parallel_create(&parallel, net, comm,
                                         &(ph_data_parallel_options){.bucket_bytes = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "bucket_bytes is PH_ZERO");
    assert_error(
        ph_data_parallel_create(&parallel, net, comm,
                                &(ph_data_parallel_options){.first_bucket_bytes = PH_ZERO}),
        PH_ERROR_ARGUMENT, "first_bucket_bytes is PH_ZERO");
    ph_comm_release(comm);
    ph_module_release(net);
    t_scene_close(&s);
}

static void cache_numbers(void)
{
    t_scene s;
    ph_graph_cache *cache;
    t_scene_open(&s);
    assert_error(
        ph_graph_cache_create(&cache, s.device, &(ph_graph_cache_options){.budget = PH_ZERO}),
        PH_ERROR_ARGUMENT, "budget is PH_ZERO");
    assert_error(
        ph_graph_cache_create(&cache, s.device, &(ph_graph_cache_options){.max_graphs = PH_ZERO}),
        PH_ERROR_ARGUMENT, "max_graphs is PH_ZERO");
    t_scene_close(&s);
}

/* No call of a key runs eagerly. */
static void cache_after(void)
{
    t_scene s;
    ph_graph_cache *cache;
    ph_graph_cache_result result;
    const ph_graph_cache_call call = {.key = "k", .key_bytes = 1, .body = fill};
    t_scene_open(&s);
    for (int zero = 0; zero < 2; zero++) {
        assert_ok(ph_graph_cache_create(&cache, s.device,
                                        &(ph_graph_cache_options){.after = zero ? PH_ZERO : 0}));
        assert_ok(ph_graph_cache_run(cache, s.stream, &call, &result));
        assert_int_equal(result.path, zero ? PH_CACHE_CAPTURED : PH_CACHE_EAGER);
        ph_graph_cache_destroy(cache);
    }
    t_scene_close(&s);
}

/* No executable is made anew. */
static void cache_renew_after(void)
{
    for (int zero = 0; zero < 2; zero++) {
        t_cached s;
        t_cached_open(&s, &(ph_graph_cache_options){.after = PH_ZERO,
                                                    .fallback = PH_CACHE_FALLBACK_UPDATE,
                                                    .renew_after = zero ? PH_ZERO : 0});
        t_renewed_demote(&s, "a");
        for (int i = 0; i < 20; i++) /* the default is 16 */
            t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
        if (zero)
            assert_int_equal(t_renewed_count(&s), 0);
        else if (t_renewed_count(&s) == 0)
            t_renewed_await(&s, "a");
        t_cached_close(&s);
    }
}

static void graphed_numbers(void)
{
    static const ph_graphed_options options[] = {
        {.max_backwards = PH_ZERO},
        {.check_input_liveness = true, .check_foreign_every = PH_ZERO},
        {.defer_upload = PH_ZERO}};
    static const char *const words[] = {
        "max_backwards is PH_ZERO", "check_foreign_every is PH_ZERO", "defer_upload is PH_ZERO"};
    t_scene s;
    t_scale scale;
    ph_module *graphed;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    const ph_sample sample = {.tensors = &x, .count = 1};
    for (int i = 0; i < 3; i++)
        assert_error(ph_make_graphed_callables(&graphed, &plain, &sample, 1, &options[i]),
                     PH_ERROR_ARGUMENT, words[i]);
    ph_tensor_release(x);
    ph_module_release(plain);
    t_scene_close(&s);
}

static void loss_classes(void)
{
    t_scene s;
    t_scene_open(&s);
    ph_tensor *x = gn_random(&s, PH_SHAPE(2, 3), 1);
    ph_tensor *y = ph_from_memory(s.tape, PH_DTYPE_I64, PH_SHAPE(2), (const int64_t[]){0, 1});
    const ph_cross_entropy_options options = {.classes = PH_ZERO};
    assert_null(ph_cross_entropy_with(s.tape, x, y, &options));
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "classes is PH_ZERO");
    t_scene_close(&s);
}

static void profile_numbers(void)
{
    t_scene s;
    ph_graph *graph;
    ph_profile *profile;
    ph_verdict verdict;
    t_scene_open(&s);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, fill, NULL));
    assert_error(
        ph_graph_profile(&profile, graph, s.stream, &(ph_profile_options){.replays = PH_ZERO}),
        PH_ERROR_ARGUMENT, "replays is PH_ZERO");
    assert_error(ph_graph_verdict(&verdict, graph, s.stream, fill, NULL,
                                  &(ph_verdict_options){.rounds = PH_ZERO}),
                 PH_ERROR_ARGUMENT, "rounds is PH_ZERO");
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

static void slot_alignment(void)
{
    t_scene s;
    ph_graph *graph;
    size_t slot;
    void *at;
    t_scene_open(&s);
    assert_ok(ph_malloc(&at, 64, 1, s.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, fill, NULL));
    assert_error(
        ph_graph_slot_find(&slot, graph, NULL, at, 64, &(ph_slot_options){.alignment = PH_ZERO}),
        PH_ERROR_ARGUMENT, "alignment is PH_ZERO");
    ph_graph_destroy(graph);
    ph_free(at, s.stream);
    t_scene_close(&s);
}

static ph_status too_large(ph_stream *stream, void *user)
{
    const struct t_fill_f32 args = {0};
    const ph_launch_config configs[] = {{.grid = {1, PH_ZERO}}, {.block = {PH_ZERO}}};
    for (int i = 0; i < 2; i++)
        assert_status(ph_launch(stream, user, &configs[i], &args, sizeof args), PH_ERROR_ARGUMENT);
    return PH_OK;
}

static void launch_dimensions(void)
{
    t_scene s;
    ph_kernel *kernel;
    t_scene_open(&s);
    t_register_kernels();
    assert_ok(ph_kernel_create(&kernel, s.device, &t_kernel_sources[T_KERNEL_FILL_F32]));
    assert_ok(too_large(s.stream, kernel));
    ph_kernel_release(kernel);
    t_scene_close(&s);
}

static void scaler_numbers(void)
{
    static const ph_grad_scaler_options options[] = {{.init_scale = PH_ZERO},
                                                     {.growth_factor = PH_ZERO},
                                                     {.backoff_factor = PH_ZERO},
                                                     {.growth_interval = PH_ZERO}};
    t_scene s;
    ph_grad_scaler *scaler;
    t_scene_open(&s);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        assert_error(ph_grad_scaler_create(&scaler, s.device, &options[i]), PH_ERROR_ARGUMENT,
                     "ph_grad_scaler_create");
    t_scene_close(&s);
}

static void clip_norm_type(void)
{
    t_scene s;
    ph_module *layer;
    t_scene_open(&s);
    assert_ok(ph_linear_create(&layer, s.device, 2, 2));
    (void)ph_clip_grad_norm(s.tape, layer, 1, &(ph_clip_grad_options){.norm_type = PH_ZERO});
    t_expect_failure(&s, PH_ERROR_ARGUMENT, "norm_type is 0");
    ph_module_release(layer);
    t_scene_close(&s);
}

/* The newest states that stay: three, or all. */
static void training_keep(void)
{
    t_folder outer;
    int64_t value = 1;
    t_memory_folder_open(&outer);
    for (int all = 0; all < 2; all++) {
        char folder[300], first[400];
        ph_training *training;
        (void)snprintf(folder, sizeof folder, "%s/%d", outer.path, all);
        (void)snprintf(first, sizeof first, "%s/000001", folder);
        const ph_training_options options = {.keep = all ? PH_ZERO : 0};
        assert_ok(ph_training_create(&training, folder, &options));
        assert_ok(ph_training_add_integer(training, "value", &value));
        for (int i = 0; i < 5; i++)
            assert_ok(ph_training_save(training, NULL));
        assert_int_equal(access(first, F_OK), all ? 0 : -1);
        ph_training_destroy(training);
    }
    t_remove_all(outer.path);
}

/* ---- a data loader ---- */
static ph_status fetch_numbers(const ph_fetch_request *request, void *user)
{
    (void)user;
    for (size_t i = 0; i < request->count; i++)
        ((int64_t *)request->data[0])[i] = request->index[i];
    return PH_OK;
}

static const ph_batch_field loader_field = {.dtype = PH_DTYPE_I64};

static ph_data_loader_options loader_options(void)
{
    return (ph_data_loader_options){.count = 8,
                                    .batch_size = 4,
                                    .fields = &loader_field,
                                    .field_count = 1,
                                    .fetch = fetch_numbers,
                                    .threads = 1,
                                    .shuffle = true,
                                    .world = 2};
}

static void refuse_loader(ph_device *device, const ph_data_loader_options *options,
                          const char *words)
{
    ph_data_loader *loader;
    assert_error(ph_data_loader_create(&loader, device, options), PH_ERROR_ARGUMENT, words);
}

static void loader_numbers(void)
{
    t_scene s;
    t_scene_open(&s);
#define REFUSE(member)                                                                             \
    do {                                                                                           \
        ph_data_loader_options options = loader_options();                                         \
        options.member = PH_ZERO;                                                                  \
        refuse_loader(s.device, &options, #member " is PH_ZERO");                                  \
    } while (0)
    REFUSE(count);
    REFUSE(batch_size);
    REFUSE(field_count);
    REFUSE(threads);
    REFUSE(prefetch);
    REFUSE(world);
    REFUSE(epochs);
#undef REFUSE
    t_scene_close(&s);
}

/* The first batch of both, in the order of seed 0 and of rank 0. */
static void loader_zeros(void)
{
    t_scene s;
    int64_t first[2][4];
    t_scene_open(&s);
    for (int i = 0; i < 2; i++) {
        ph_data_loader_options options = loader_options();
        ph_data_loader *loader;
        ph_batch batch;
        options.seed = i ? PH_ZERO : 0;
        options.rank = i ? PH_ZERO : 0;
        assert_ok(ph_data_loader_create(&loader, s.device, &options));
        assert_ok(ph_data_loader_next(&batch, loader, s.stream));
        assert_int_equal(batch.count, 4);
        memcpy(first[i], batch.index, sizeof first[i]);
        ph_data_loader_destroy(loader);
    }
    assert_memory_equal(first[0], first[1], sizeof first[0]);
    t_scene_close(&s);
}

/* ---- where a number is no value at all ---- */
static void expect_named(const ph_graphed_options *options, const char *words)
{
    t_scene s;
    t_scale scale;
    ph_module *graphed;
    t_scene_open(&s);
    ph_module *plain = t_scale_open(&s, &scale, 3);
    ph_tensor *x = gn_sample(&s, PH_SHAPE(2), false);
    const ph_sample sample = {.tensors = &x, .count = 1};
    assert_error(ph_make_graphed_callables(&graphed, &plain, &sample, 1, options),
                 PH_ERROR_ARGUMENT, words);
    ph_tensor_release(x);
    ph_module_release(plain);
    t_scene_close(&s);
}

TEST(ph_zero_in_an_enumeration_is_refused_by_name)
{
    t_scene s;
    ph_graph *graph;
    ph_module *module;
    const ph_capture_options capture = {.mode = (ph_capture_mode)PH_ZERO};
    const ph_layer_options layer = {.dtype = (ph_dtype)PH_ZERO};
    expect_named(&(ph_graphed_options){.mode = (ph_capture_mode)PH_ZERO}, "mode is PH_ZERO");
    expect_named(&(ph_graphed_options){.gradients = (ph_graphed_gradients)PH_ZERO},
                 "gradients is PH_ZERO");
    expect_named(&(ph_graphed_options){.inputs = (ph_graphed_inputs)PH_ZERO}, "inputs is PH_ZERO");
    expect_named(&(ph_graphed_options){.autocast.dtype = (ph_dtype)PH_ZERO},
                 "autocast.dtype is PH_ZERO");
    t_scene_open(&s);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, s.stream, &capture, fill, NULL), PH_ERROR_ARGUMENT,
                 "mode is PH_ZERO");
    assert_error(ph_linear_create_with(&module, s.device, 2, 2, &layer), PH_ERROR_ARGUMENT,
                 "dtype is PH_ZERO");
    ph_graph_destroy(graph);
    t_scene_close(&s);
}

TEST(test_layers_without)
{
    t_scene s;
    ph_module *module;
    const ph_layer_options options = {.eps = PH_ZERO};
    t_scene_open(&s);
    assert_error(ph_linear_create_with(&module, s.device, 2, 2, &options), PH_ERROR_ARGUMENT,
                 "eps is PH_ZERO");
    assert_null(module);
    assert_error(ph_embedding_create(&module, s.device, 2, 2, &options), PH_ERROR_ARGUMENT,
                 "eps is PH_ZERO");
    assert_error(ph_dropout_create(&module, s.device, PH_ZERO), PH_ERROR_ARGUMENT, "p is PH_ZERO");
    assert_null(module);
    t_scene_close(&s);
}

/* ---- all of them ---- */
typedef enum zero {
    SAID,    /* 0 is the default, which is not zero: PH_ZERO says zero */
    DEFAULT, /* the default is zero: 0 and PH_ZERO say it */
    REFUSED, /* there is no zero: PH_ZERO is refused */
    AS_IT_IS /* 0 is the number 0, of which another member says whether it counts; or a number of
                entries */
} zero;
static const struct row {
    const char *member;
    zero zero;
    void (*test)(void);
} rows[] = {
    {"ph_adam_options.lr", SAID, adam_lr},
    {"ph_adam_options.beta1", SAID, adam_beta1},
    {"ph_adam_options.beta2", SAID, adam_beta2},
    {"ph_adam_options.eps", SAID, adam_eps},
    {"ph_adam_options.weight_decay", SAID, adam_weight_decay},
    {"ph_rmsprop_options.lr", SAID, kinds_zeros},
    {"ph_rmsprop_options.alpha", SAID, kinds_zeros},
    {"ph_rmsprop_options.eps", SAID, kinds_zeros},
    {"ph_nadam_options.lr", SAID, kinds_zeros},
    {"ph_nadam_options.beta1", SAID, kinds_zeros},
    {"ph_nadam_options.beta2", SAID, kinds_zeros},
    {"ph_nadam_options.eps", SAID, kinds_zeros},
    {"ph_nadam_options.momentum_decay", SAID, kinds_zeros},
    {"ph_radam_options.lr", SAID, kinds_zeros},
    {"ph_radam_options.beta1", SAID, kinds_zeros},
    {"ph_radam_options.beta2", SAID, kinds_zeros},
    {"ph_radam_options.eps", SAID, kinds_zeros},
    {"ph_adamax_options.lr", SAID, kinds_zeros},
    {"ph_adamax_options.beta1", SAID, kinds_zeros},
    {"ph_adamax_options.beta2", SAID, kinds_zeros},
    {"ph_adamax_options.eps", SAID, kinds_zeros},
    {"ph_adadelta_options.lr", SAID, kinds_zeros},
    {"ph_adadelta_options.rho", SAID, kinds_zeros},
    {"ph_adadelta_options.eps", SAID, kinds_zeros},
    {"ph_adagrad_options.lr", SAID, kinds_zeros},
    {"ph_adagrad_options.eps", SAID, kinds_zeros},
    {"ph_asgd_options.lr", SAID, kinds_zeros},
    {"ph_asgd_options.lambd", SAID, kinds_zeros},
    {"ph_asgd_options.alpha", SAID, kinds_zeros},
    {"ph_asgd_options.t0", SAID, kinds_zeros},
    {"ph_rprop_options.lr", SAID, kinds_zeros},
    {"ph_rprop_options.step_min", SAID, kinds_zeros},
    {"ph_rprop_options.step_max", SAID, kinds_zeros},
    {"ph_lion_options.lr", SAID, kinds_zeros},
    {"ph_lion_options.beta1", SAID, kinds_zeros},
    {"ph_lion_options.beta2", SAID, kinds_zeros},
    {"ph_layer_options.eps", SAID, layer_eps},
    {"ph_attention_options.scale", SAID, attention_scale},
    {"ph_graphed_options.warmup_iterations", SAID, graphed_warmup},
    {"ph_profile_options.warmup", SAID, profile_warmup},
    {"ph_training_options.keep", SAID, training_keep},
    {"ph_graph_cache_options.after", SAID, cache_after},
    {"ph_graph_cache_options.renew_after", SAID, cache_renew_after},
    {"ph_sgd_options.lr", DEFAULT, sgd_zeros},
    {"ph_sgd_options.momentum", DEFAULT, sgd_zeros},
    {"ph_sgd_options.dampening", DEFAULT, sgd_zeros},
    {"ph_sgd_options.weight_decay", DEFAULT, sgd_zeros},
    {"ph_rmsprop_options.weight_decay", DEFAULT, kinds_zeros},
    {"ph_rmsprop_options.momentum", DEFAULT, kinds_zeros},
    {"ph_nadam_options.weight_decay", DEFAULT, kinds_zeros},
    {"ph_radam_options.weight_decay", DEFAULT, kinds_zeros},
    {"ph_adamax_options.weight_decay", DEFAULT, kinds_zeros},
    {"ph_adadelta_options.weight_decay", DEFAULT, kinds_zeros},
    {"ph_adagrad_options.lr_decay", DEFAULT, kinds_zeros},
    {"ph_adagrad_options.weight_decay", DEFAULT, kinds_zeros},
    {"ph_adagrad_options.initial_accumulator_value", DEFAULT, kinds_zeros},
    {"ph_asgd_options.weight_decay", DEFAULT, kinds_zeros},
    {"ph_lion_options.weight_decay", DEFAULT, kinds_zeros},
    {"ph_block_options.dropout", DEFAULT, block_dropout},
    {"ph_verify_options.relative", DEFAULT, verify_tolerances},
    {"ph_verify_options.absolute", DEFAULT, verify_tolerances},
    {"ph_tape_options.quarantine", DEFAULT, tape_quarantine}, /* beyond that of PH_QUARANTINE */
    {"ph_stream_options.priority", DEFAULT, stream_priority},
    {"ph_rprop_options.eta_minus", REFUSED, rprop_etas},
    {"ph_rprop_options.eta_plus", REFUSED, rprop_etas},
    {"ph_device_options.host_threads", REFUSED, device_numbers},
    {"ph_device_options.host_chaos_seed", REFUSED, device_numbers},
    {"ph_device_options.host_memory_bytes", REFUSED, device_numbers},
    {"ph_capture_options.check_foreign_every", REFUSED, capture_asks},
    {"ph_pool_options.limit", REFUSED, pool_limit},
    {"ph_graph_cache_options.budget", REFUSED, cache_numbers},
    {"ph_graph_cache_options.max_graphs", REFUSED, cache_numbers},
    {"ph_comm_options.size", REFUSED, comm_numbers},
    {"ph_comm_options.timeout_ms", REFUSED, comm_numbers},
    {"ph_comm_options.port", REFUSED, comm_numbers},
    {"ph_comm_pool_options.reserve", REFUSED, comm_numbers},
    {"ph_comm_pool_options.limit", REFUSED, comm_numbers},
    {"ph_data_parallel_options.bucket_bytes", REFUSED, parallel_numbers},
    {"ph_data_parallel_options.first_bucket_bytes", REFUSED, parallel_numbers},
    {"ph_graphed_options.max_backwards", REFUSED, graphed_numbers},
    {"ph_graphed_options.defer_upload", REFUSED, graphed_numbers},
    {"ph_graphed_options.check_foreign_every", REFUSED, graphed_numbers},
    {"ph_cross_entropy_options.classes", REFUSED, loss_classes},
    {"ph_profile_options.replays", REFUSED, profile_numbers},
    {"ph_verdict_options.rounds", REFUSED, profile_numbers},
    {"ph_slot_options.alignment", REFUSED, slot_alignment},
    {"ph_launch_config.grid", REFUSED, launch_dimensions},
    {"ph_launch_config.block", REFUSED, launch_dimensions},
    {"ph_grad_scaler_options.init_scale", REFUSED, scaler_numbers},
    {"ph_grad_scaler_options.growth_factor", REFUSED, scaler_numbers},
    {"ph_grad_scaler_options.backoff_factor", REFUSED, scaler_numbers},
    {"ph_grad_scaler_options.growth_interval", REFUSED, scaler_numbers},
    {"ph_clip_grad_options.norm_type", REFUSED, clip_norm_type},
    {"ph_data_loader_options.count", REFUSED, loader_numbers},
    {"ph_data_loader_options.batch_size", REFUSED, loader_numbers},
    {"ph_data_loader_options.field_count", REFUSED, loader_numbers},
    {"ph_data_loader_options.threads", REFUSED, loader_numbers},
    {"ph_data_loader_options.prefetch", REFUSED, loader_numbers},
    {"ph_data_loader_options.world", REFUSED, loader_numbers},
    {"ph_data_loader_options.epochs", REFUSED, loader_numbers},
    {"ph_data_loader_options.seed", DEFAULT, loader_zeros},
    {"ph_data_loader_options.rank", DEFAULT, loader_zeros},
    {"ph_launch_config.shared_bytes", AS_IT_IS, NULL},
    {"ph_comm_options.rank", AS_IT_IS, NULL},
    {"ph_sgd_options.group_count", AS_IT_IS, NULL},
    {"ph_adam_options.group_count", AS_IT_IS, NULL},
    {"ph_rmsprop_options.group_count", AS_IT_IS, NULL},
    {"ph_nadam_options.group_count", AS_IT_IS, NULL},
    {"ph_radam_options.group_count", AS_IT_IS, NULL},
    {"ph_adamax_options.group_count", AS_IT_IS, NULL},
    {"ph_adadelta_options.group_count", AS_IT_IS, NULL},
    {"ph_adagrad_options.group_count", AS_IT_IS, NULL},
    {"ph_asgd_options.group_count", AS_IT_IS, NULL},
    {"ph_rprop_options.group_count", AS_IT_IS, NULL},
    {"ph_lion_options.group_count", AS_IT_IS, NULL},
    {"ph_cross_entropy_options.ignore_index", AS_IT_IS, NULL}, /* has_ignore_index */
    {"ph_annotation_options.count", AS_IT_IS, NULL},
    {"ph_verify_options.output_count", AS_IT_IS, NULL},
};
enum {
    ROWS = sizeof rows / sizeof rows[0]
};

TEST(each_option_takes_ph_zero_as_its_row_says)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].test && (i == 0 || rows[i].test != rows[i - 1].test))
            rows[i].test();
}

/* ---- the headers ---- */
typedef struct members {
    char name[MEMBERS][96];
    size_t count;
} members;

static void read_header(char *text, const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/include/phonograph/%s", PH_TEST_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(text, 1, TEXT - 1, file);
    text[length] = '\0';
    fclose(file);
    for (char *at = text; (at = strstr(at, "/*")) != NULL;) {
        char *end = strstr(at, "*/");
        assert_non_null(end);
        memset(at, ' ', (size_t)(end + 2 - at));
    }
}

/* "double momentum, dampening": each name of a numeric type; what has a * or a ( in it is no
 * number. */
static void add_members(members *to, const char *structure, char *declaration)
{
    static const char *const types[] = {"double",   "float",    "int",     "unsigned", "size_t",
                                        "uint32_t", "uint64_t", "int32_t", "int64_t",  "long"};
    char *rest = NULL, *type = declaration + strspn(declaration, " \n\t");
    size_t length = strcspn(type, " \n\t");
    bool numeric = false;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        numeric = numeric || (strlen(types[i]) == length && strncmp(type, types[i], length) == 0);
    if (!numeric || strpbrk(declaration, "*("))
        return;
    for (char *name = strtok_r(type + length, ", \n\t", &rest); name;
         name = strtok_r(NULL, ", \n\t", &rest)) {
        name[strcspn(name, "[")] = '\0';
        if (strcmp(name, "reserved") == 0)
            continue;
        assert_true(to->count < MEMBERS);
        (void)snprintf(to->name[to->count++], sizeof to->name[0], "%s.%s", structure, name);
    }
}

static bool is_of_options(const char *name)
{
    size_t length = strlen(name);
    return (length > 8 && strcmp(name + length - 8, "_options") == 0) ||
           (length > 7 && strcmp(name + length - 7, "_config") == 0);
}

static void find_members(members *to, char *text)
{
    static const char begin[] = "typedef struct ";
    for (char *at = text; (at = strstr(at, begin)) != NULL;) {
        char name[64] = "", *rest = NULL;
        at += strlen(begin);
        size_t length = strcspn(at, " ;{\n");
        assert_true(length < sizeof name);
        memcpy(name, at, length);
        char *open = at + length + strspn(at + length, " \n");
        char *close = strchr(open, '}');
        if (*open != '{' || !is_of_options(name) || !close)
            continue;
        *close = '\0';
        for (char *member = strtok_r(open + 1, ";", &rest); member;
             member = strtok_r(NULL, ";", &rest))
            add_members(to, name, member);
        at = close + 1;
    }
}

static void find_in_folder(members *found, char *text, const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/include/phonograph/%s", PH_TEST_SOURCE_DIR, name);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (!strstr(entry->d_name, ".h"))
            continue;
        (void)snprintf(path, sizeof path, "%s%s", name, entry->d_name);
        read_header(text, path);
        find_members(found, text);
    }
    closedir(folder);
}

TEST(test_all_are_here)
{
    static members found;
    static char text[TEXT];
    size_t seen[ROWS] = {0};
    find_in_folder(&found, text, "");
    find_in_folder(&found, text, "inspect/");
    for (size_t m = 0; m < found.count; m++) {
        bool known = false;
        for (size_t i = 0; i < ROWS; i++)
            if (strcmp(rows[i].member, found.name[m]) == 0)
                known = ++seen[i] == 1;
        if (!known)
            fail_msg("%s: is 0 legal there, and not the default? Say it in this test",
                     found.name[m]);
    }
    for (size_t i = 0; i < ROWS; i++)
        if (seen[i] != 1)
            fail_msg("%s is in no public header", rows[i].member);
        else if (rows[i].zero != AS_IT_IS)
            assert_non_null(rows[i].test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_here),
        cmocka_unit_test(each_option_takes_ph_zero_as_its_row_says),
        cmocka_unit_test(ph_zero_in_an_enumeration_is_refused_by_name),
        cmocka_unit_test(test_layers_without),
    };
    return cmocka_run_group_tests_name("nn.zeros", tests, NULL, NULL);
}
