/* SPDX-License-Identifier: MIT */
/* tests/nn/state.c: modules in files: what was saved comes back, what does not match is listed,
 * and nothing is half loaded. */
#include "support/nets.h"
#include "support/test.h"
#include <stdio.h>
#include <unistd.h>

static char path[64];

FIXTURE(set_path)
{
    (void)snprintf(path, sizeof path, "/tmp/ph_module_%ld", (long)getpid());
    return 0;
}

FIXTURE(drop_path)
{
    (void)unlink(path);
    return 0;
}

/* Two scales behind each other, "0" and "1". */
typedef struct pair {
    t_scale scale[2];
    ph_module *module;
} pair;

static void open_pair(pair *p, const t_scene *s, float a, float b)
{
    ph_module *children[2] = {t_scale_open(s, &p->scale[0], a), t_scale_open(s, &p->scale[1], b)};
    assert_ok(ph_sequential_create(&p->module, children, 2));
    ph_module_release(children[0]);
    ph_module_release(children[1]);
}

static void expect_pair(const t_scene *s, const pair *p, float a, float b)
{
    t_expect_values(s->tape, p->scale[0].weight, PH_SHAPE(2), a, 2 * a);
    t_expect_values(s->tape, p->scale[1].weight, PH_SHAPE(2), b, 2 * b);
}

TEST(test_round_trip)
{
    t_scene s;
    pair from, to;
    int64_t count = 11;
    t_scene_open(&s);
    open_pair(&from, &s, 1, 2);
    open_pair(&to, &s, 3, 4);
    assert_ok(ph_tensor_write(s.tape, from.scale[1].count, &count, sizeof count));
    assert_ok(ph_module_save(from.module, path));
    void *data = ph_tensor_data(to.scale[0].weight);
    uint64_t version = ph_tensor_version(to.scale[0].weight);
    assert_ok(ph_module_load(to.module, path, true));
    expect_pair(&s, &to, 1, 2);
    assert_ok(ph_tensor_read(s.tape, to.scale[1].count, &count, sizeof count));
    assert_int_equal(count, 11);
    assert_ok(ph_tensor_read(s.tape, to.scale[0].count, &count, sizeof count));
    assert_int_equal(count, 7);
    /* In place, so that graphs and optimizers find it; and known as a change. */
    assert_ptr_equal(ph_tensor_data(to.scale[0].weight), data);
    assert_true(ph_tensor_version(to.scale[0].weight) > version);
    assert_true(ph_tensor_requires_grad(to.scale[0].weight));
    ph_module_release(from.module);
    ph_module_release(to.module);
    t_scene_close(&s);
}

/* Behind the work of every stream: what a stream has still to do is done before it is saved. */
TEST(a_save_waits_for_the_work_of_every_stream)
{
    t_scene s;
    pair from, to;
    t_scene_open(&s);
    open_pair(&from, &s, 1, 2);
    open_pair(&to, &s, 0, 0);
    ph_tape_set_grad_enabled(s.tape, false);
    ph_tensor *big = ph_zeros(s.tape, PH_DTYPE_F32, PH_SHAPE(1 << 20));
    for (int i = 0; i < 20; i++)
        ph_tensor_fill(s.tape, big, i);
    ph_tensor_scale(s.tape, from.scale[0].weight, 5);
    assert_ok(ph_module_save(from.module, path));
    assert_ok(ph_module_load(to.module, path, true));
    expect_pair(&s, &to, 5, 2);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(from.module);
    ph_module_release(to.module);
    t_scene_close(&s);
}

static void write_file(const t_scene *s, const char *const *names, ph_tensor *const *tensors,
                       size_t count)
{
    ph_named_tensor all[8];
    for (size_t i = 0; i < count; i++)
        all[i] = (ph_named_tensor){names[i], tensors[i]};
    assert_ok(ph_safetensors_write(s->tape, path, all, count));
}

TEST(tensors_that_do_not_fit_are_named_and_not_loaded)
{
    t_scene s;
    pair p;
    t_scene_open(&s);
    open_pair(&p, &s, 1, 2);
    ph_tensor *two = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 9),
              *matrix = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2, 1), 9),
              *integer = ph_full(s.tape, PH_DTYPE_I64, PH_SCALAR, 9),
              *small = ph_full(s.tape, PH_DTYPE_I32, PH_SCALAR, 9);
    const char *const names[] = {"0.weight", "0.count", "1.weight", "1.count", "2.weight"};

    write_file(&s, names, (ph_tensor *[]){two, small, matrix, integer, two}, 5);
    assert_error(
        ph_module_load(p.module, path, true), PH_ERROR_MISMATCH,
        "nothing was loaded: 0.count is i32[] and must be i64[], 1.weight is f32[2, 1] and must be "
        "f32[2], 2.weight is unexpected");
    expect_pair(&s, &p, 1, 2);

    write_file(&s, names, (ph_tensor *[]){two, integer, two}, 3);
    assert_error(ph_module_load(p.module, path, true), PH_ERROR_MISMATCH, "1.count is missing");
    expect_pair(&s, &p, 1, 2);

    /* Not strictly: what is there is taken; but it must fit. */
    write_file(&s, &names[1], (ph_tensor *[]){integer, two, small, two}, 4);
    assert_error(ph_module_load(p.module, path, false), PH_ERROR_MISMATCH, "1.count is i32[]");
    expect_pair(&s, &p, 1, 2);
    write_file(&s, &names[1], (ph_tensor *[]){integer, two, integer, two}, 4);
    assert_ok(ph_module_load(p.module, path, false));
    t_expect_values(s.tape, p.scale[0].weight, PH_SHAPE(2), 1, 2);
    t_expect_values(s.tape, p.scale[1].weight, PH_SHAPE(2), 9, 9);
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(p.module);
    t_scene_close(&s);
}

/* ---- not strictly: what was loaded is said ---- */
typedef struct names {
    char words[256];
} names;

static void add_name(const char *name, ph_module_loaded what, void *user)
{
    static const char *const words[] = {
        [PH_MODULE_LOADED] = "", [PH_MODULE_MISSING] = "-", [PH_MODULE_UNEXPECTED] = "+"};
    names *n = user;
    size_t used = strlen(n->words);
    (void)snprintf(n->words + used, sizeof n->words - used, " %s%s", words[what], name);
}

TEST(what_matches_is_loaded_and_the_rest_is_reported)
{
    static const char *const some[] = {"0.weight", "1.count", "2.weight", "3"};
    static const char *const others[] = {"model.0.weight", "model.1.weight"};
    t_scene s;
    pair p;
    names n = {""};
    t_scene_open(&s);
    open_pair(&p, &s, 1, 2);
    ph_tensor *two = ph_full(s.tape, PH_DTYPE_F32, PH_SHAPE(2), 9),
              *integer = ph_full(s.tape, PH_DTYPE_I64, PH_SCALAR, 9);
    write_file(&s, some, (ph_tensor *[]){two, integer, two, two}, 4);
    t_log_start();
    assert_ok(ph_module_load(p.module, path, false));
    assert_int_equal(t_log_count(""), 1);
    assert_int_equal(t_log_count("2 of 4 tensors were loaded: 0.count is missing, 1.weight is "
                                 "missing, 2.weight is unexpected, 3 is unexpected"),
                     1);
    t_log_stop();
    t_expect_values(s.tape, p.scale[0].weight, PH_SHAPE(2), 9, 9);
    assert_ok(ph_module_load_matching(p.module, path, add_name, &n));
    assert_string_equal(n.words, " 0.weight -0.count -1.weight 1.count +2.weight +3");

    /* Not a name in common: nothing would be loaded, and nobody would know. */
    write_file(&s, others, (ph_tensor *[]){two, two}, 2);
    n.words[0] = '\0';
    assert_error(ph_module_load(p.module, path, false), PH_ERROR_MISMATCH,
                 "nothing was loaded: 0.weight is missing");
    assert_error(ph_module_load_matching(p.module, path, add_name, &n), PH_ERROR_MISMATCH,
                 "model.1.weight is unexpected");
    write_file(&s, others, NULL, 0);
    assert_error(ph_module_load(p.module, path, false), PH_ERROR_MISMATCH, "1.count is missing");
    assert_string_equal(n.words, "");

    /* All of them: nothing is to be said. */
    assert_ok(ph_module_save(p.module, path));
    t_log_start();
    assert_ok(ph_module_load(p.module, path, false));
    assert_int_equal(t_log_count(""), 0);
    t_log_stop();
    assert_error(ph_module_load_matching(p.module, path, NULL, NULL), PH_ERROR_ARGUMENT, "visit");
    assert_error(ph_module_load_matching(NULL, path, add_name, &n), PH_ERROR_ARGUMENT, "module");
    assert_error(ph_module_load_matching(p.module, NULL, add_name, &n), PH_ERROR_ARGUMENT, "path");
    assert_ok(ph_tape_clear(s.tape));
    ph_module_release(p.module);
    t_scene_close(&s);
}

/* Every file cut short, and every byte of the header changed: refused, and nothing is changed,
 * or it is a whole file that fits. */
TEST(damaged_files_are_refused_and_change_nothing)
{
    t_scene s;
    pair p;
    char bytes[2048], header[8 + 1024];
    t_scene_open(&s);
    open_pair(&p, &s, 1, 2);
    assert_ok(ph_module_save(p.module, path));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    assert_true(size > 64 && size < sizeof bytes);
    size_t data = 4 * 4 + 2 * 8, step = t_nightly() ? 1 : 5;
    for (size_t cut = 0; cut < size; cut += step) {
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, cut, file), cut);
        assert_int_equal(fclose(file), 0);
        assert_true(ph_module_load(p.module, path, true) != PH_OK);
        expect_pair(&s, &p, 1, 2);
    }
    for (size_t at = 0; at < size - data; at += step) {
        memcpy(header, bytes, size - data);
        header[at] = (char)(header[at] ^ 0x11);
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(header, 1, size - data, file), size - data);
        assert_int_equal(fwrite(bytes + size - data, 1, data, file), data);
        assert_int_equal(fclose(file), 0);
        assert_true(ph_module_load(p.module, path, true) != PH_OK);
        expect_pair(&s, &p, 1, 2);
    }
    ph_module_release(p.module);
    t_scene_close(&s);
}

static ph_status save_and_load(ph_stream *stream, void *user)
{
    const pair *p = user;
    (void)stream;
    assert_error(ph_module_save(p->module, path), PH_ERROR_CAPTURE,
                 "ph_module_save: waits for the device: ");
    assert_native(900);
    assert_error(ph_module_load(p->module, path, true), PH_ERROR_CAPTURE,
                 "ph_module_load: waits for the device: ");
    assert_native(900);
    return PH_OK;
}

TEST(misuse_is_refused)
{
    t_scene s;
    pair p;
    ph_graph *graph;
    t_scene_open(&s);
    open_pair(&p, &s, 1, 2);
    assert_error(ph_module_save(NULL, path), PH_ERROR_ARGUMENT, "module");
    assert_error(ph_module_save(p.module, NULL), PH_ERROR_ARGUMENT, "path");
    assert_error(ph_module_load(NULL, path, true), PH_ERROR_ARGUMENT, "module");
    assert_error(ph_module_load(p.module, NULL, true), PH_ERROR_ARGUMENT, "path");
    assert_error(ph_module_save(p.module, "/nonexistent/file"), PH_ERROR_IO, "/nonexistent");
    assert_error(ph_module_load(p.module, "/nonexistent/file", true), PH_ERROR_IO, "/nonexistent");
    assert_ok(ph_module_save(p.module, path));
    t_log_start();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, save_and_load, &p));
    ph_graph_destroy(graph);
    t_log_stop();
    expect_pair(&s, &p, 1, 2);
    ph_module_release(p.module);
    t_scene_close(&s);
}

TEST(without_host_memory_saving_and_loading_change_nothing)
{
    t_scene s;
    pair p;
    t_scene_open(&s);
    open_pair(&p, &s, 1, 2);
    for (int load = 0; load < 2; load++) {
        int64_t at = 0;
        for (ph_status status = PH_ERROR_HOST_MEMORY; status != PH_OK; at++) {
            ph__alloc_fail_after(at);
            status = load ? ph_module_load(p.module, path, true) : ph_module_save(p.module, path);
            ph__alloc_fail_after(PH__ALLOC_NEVER);
            if (status != PH_OK)
                assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        }
        assert_true(at > 5);
        expect_pair(&s, &p, 1, 2);
    }
    ph_module_release(p.module);
    t_scene_close(&s);
}

static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)tape;
    (void)self;
    out[0] = in[0];
}

/* Contents that are refused are found before anything is changed. */
TEST(contents_that_are_refused_change_nothing)
{
    t_scene s;
    ph_module *module;
    ph_tensor *weight, *mask;
    char bytes[1024];
    const bool on = true;
    t_scene_open(&s);
    weight = t_leaf(&s, PH_SHAPE(2), 1, 2);
    assert_ok(ph_tensor_create(&mask, s.device, PH_DTYPE_BOOL, PH_SHAPE(1)));
    assert_ok(ph_tensor_write(s.tape, mask, &on, 1));
    ph_parameter parameter = {"weight", &weight}, buffer = {"mask", &mask};
    ph_module_desc desc = {.name = "masked",
                           .forward = forward,
                           .parameters = &parameter,
                           .parameter_count = 1,
                           .buffers = &buffer,
                           .buffer_count = 1};
    assert_ok(ph_module_create(&module, s.device, &desc));
    assert_ok(ph_stream_synchronize(s.stream));
    assert_ok(ph_module_save(module, path));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(bytes[size - 1], 1); /* behind the weight, whose elements are larger */
    bytes[size - 1] = 2;
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    ph_tape_set_grad_enabled(s.tape, false);
    ph_tensor_fill(s.tape, weight, 9);
    assert_error(ph_module_load(module, path, true), PH_ERROR_ARGUMENT, "a bool is 0 or 1");
    t_expect_values(s.tape, weight, PH_SHAPE(2), 9, 9);
    ph_module_release(module);
    ph_tensor_release(weight);
    ph_tensor_release(mask);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(a_save_waits_for_the_work_of_every_stream),
        cmocka_unit_test(tensors_that_do_not_fit_are_named_and_not_loaded),
        cmocka_unit_test(damaged_files_are_refused_and_change_nothing),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(without_host_memory_saving_and_loading_change_nothing),
        cmocka_unit_test(contents_that_are_refused_change_nothing),
        cmocka_unit_test(what_matches_is_loaded_and_the_rest_is_reported),
    };
    return cmocka_run_group_tests(tests, set_path, drop_path);
}
