/* SPDX-License-Identifier: MIT */
/* tests/nn/state_shortages.c: the files of modules and optimizers when host memory runs out, at
 * every place, and when they are cut short. */
#include "support/files.h"
#include "support/grads.h"
#include "support/test.h"

enum {
    WIDTH = 4,
    HEADS = 2,
    FILE_BYTES = 1 << 14,
    SPARSE = 16 /* runs from one look at everything to the next: it writes files */
};

/* Two of each: the first ones are saved, the second ones are loaded into. */
typedef struct world {
    t_scene s;
    ph_module *module[2];
    ph_optimizer *optimizer[2];
    t_folder folder;
    size_t allocated;
} world;

static ph_status save(world *w, bool optimizer, int i, const char *name)
{
    const char *path = t_inside(&w->folder, name);
    return optimizer ? ph_optimizer_save(w->optimizer[i], path)
                     : ph_module_save(w->module[i], path);
}

static const char *name_of(bool optimizer)
{
    return optimizer ? "optimizer" : "module";
}

static ph_status save_or_load(world *w, bool load, bool optimizer)
{
    const char *name = name_of(optimizer);
    if (!load)
        return save(w, optimizer, 0, name);
    const char *path = t_inside(&w->folder, name);
    return optimizer ? ph_optimizer_load(w->optimizer[1], path)
                     : ph_module_load(w->module[1], path, true);
}

/* As many steps of an optimizer as its place says, so that no two states are alike. */
static void open_pair(world *w, int i)
{
    ph_block_options options = {.dropout = 0};
    ph_adam_options adam = {.amsgrad = true};
    ph_tape *tape = w->s.tape;
    assert_ok(ph_transformer_block_create(&w->module[i], w->s.device, WIDTH, HEADS, &options));
    ph_tensor *y = ph_call(tape, w->module[i], t_counting(tape, PH_SHAPE(2, 3, WIDTH)));
    ph_backward(tape, ph_sum(tape, ph_square(tape, y)));
    assert_ok(ph_tape_clear(tape));
    assert_ok(ph_adam_create(&w->optimizer[i], w->module[i], &adam));
    for (int k = 0; k <= i; k++)
        ph_optimizer_step(tape, w->optimizer[i]);
    assert_ok(ph_tape_clear(tape));
}

static void open_world(world *w)
{
    memset(w, 0, sizeof *w);
    t_folder_open(&w->folder);
    t_scene_open(&w->s);
    open_pair(w, 0);
    open_pair(w, 1);
    for (int optimizer = 0; optimizer < 2; optimizer++)
        assert_ok(save(w, optimizer, 0, name_of(optimizer)));
    assert_ok(ph_device_synchronize(w->s.device));
    w->allocated = t_allocated(&w->s);
}

/* No file may be there but those that are named. */
static void close_world(world *w)
{
    static const char *const names[] = {"module", "optimizer", "look"};
    for (int i = 0; i < 2; i++) {
        ph_optimizer_destroy(w->optimizer[i]);
        ph_module_release(w->module[i]);
    }
    t_scene_close(&w->s);
    t_folder_close(&w->folder, names, 3);
}

/* ---- looking ---- */
typedef struct contents {
    char bytes[FILE_BYTES];
    size_t size;
} contents;

typedef struct look {
    contents file[2],
        state[2][2]; /* of the module, of the optimizer; a state is what a file of its own has */
} look;

static void look_at_file(world *w, contents *c, const char *name)
{
    memset(c, 0, sizeof *c);
    c->size = t_get_file(&w->folder, name, c->bytes, sizeof c->bytes);
    assert_true(c->size > 0 && c->size < sizeof c->bytes);
}

static void look_at_files(world *w, look *l)
{
    for (int optimizer = 0; optimizer < 2; optimizer++)
        look_at_file(w, &l->file[optimizer], name_of(optimizer));
}

static void look_at_states(world *w, look *l)
{
    for (int optimizer = 0; optimizer < 2; optimizer++)
        for (int i = 0; i < 2; i++) {
            assert_ok(save(w, optimizer, i, "look"));
            look_at_file(w, &l->state[optimizer][i], "look");
        }
}

static void look_at(world *w, look *l)
{
    look_at_files(w, l);
    look_at_states(w, l);
}

static void expect_clean(world *w)
{
    assert_ok(ph_device_synchronize(w->s.device));
    assert_int_equal(t_info(&w->s).tensors, 0);
    assert_int_equal(t_allocated(&w->s), w->allocated);
}

static void expect_same(const contents *got, const contents *want)
{
    assert_int_equal(got->size, want->size);
    assert_memory_equal(got->bytes, want->bytes, want->size);
}

/* All is as it was, but for what is loaded into. */
static void expect_the_rest(const look *got, const look *want, bool load, bool optimizer)
{
    for (int k = 0; k < 2; k++) {
        expect_same(&got->file[k], &want->file[k]);
        for (int i = 0; i < 2; i++)
            if (!load || i == 0 || k != optimizer)
                expect_same(&got->state[k][i], &want->state[k][i]);
    }
}

/* ---- no host memory ---- a save that fails leaves the earlier file as it is; a load that fails
 * can be made again. */
static void run_out(bool load, bool optimizer)
{
    static look before, after;
    world w;
    open_world(&w);
    look_at(&w, &before);
    after = before;
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t n = 0, stride = t_nightly() ? 1 : SPARSE;
    for (; status != PH_OK; n++) {
        assert_true(n < 5000);
        ph__alloc_fail_after(n);
        status = save_or_load(&w, load, optimizer);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_error(status, PH_ERROR_HOST_MEMORY, "memory");
        expect_clean(&w);
        look_at_files(&w, &after);
        if (n % stride == 0 || status == PH_OK)
            look_at_states(&w, &after);
        expect_the_rest(&after, &before, load && status == PH_OK, optimizer);
    }
    assert_true(n > 20);
    if (load)
        expect_same(&after.state[optimizer][1], &before.state[optimizer][0]);
    close_world(&w);
}

TEST(test_saves_without_memory)
{
    run_out(false, false);
    run_out(false, true);
}

TEST(test_loads_without_memory)
{
    run_out(true, false);
    run_out(true, true);
}

/* ---- cut short ---- a file is refused then, and what it was to be loaded into stays as it is. */
TEST(test_cut_files)
{
    static look before, after;
    world w;
    open_world(&w);
    look_at(&w, &before);
    for (int optimizer = 0; optimizer < 2; optimizer++) {
        const contents *whole = &before.file[optimizer];
        size_t stride = t_nightly() ? 1 : whole->size / 20 + 1;
        for (size_t cut = 0; cut < whole->size; cut += stride) {
            (void)t_put_file(&w.folder, name_of(optimizer), whole->bytes, cut);
            assert_true(save_or_load(&w, true, optimizer) != PH_OK);
            (void)t_put_file(&w.folder, name_of(optimizer), whole->bytes, whole->size);
            look_at(&w, &after);
            expect_the_rest(&after, &before, false, optimizer);
            expect_clean(&w);
        }
    }
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saves_without_memory),
        cmocka_unit_test(test_loads_without_memory),
        cmocka_unit_test(test_cut_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
