/* SPDX-License-Identifier: MIT */
/* tests/nn/module_walk.c: walks through networks with many objects, and without host memory: names
 * are made where one is asked for. */
#include "base/alloc.h"
#include "support/nets.h"
#include "support/test.h"
#include <stdio.h>

enum {
    LEAVES = 70, /* with a parameter and a buffer each: more objects than a walk keeps in a table */
    GROUPS = 2
};

typedef struct wide {
    t_scene s;
    t_scale scales[LEAVES];
    ph_module *leaf[LEAVES], *group[GROUPS], *root;
} wide;

static void no_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)tape;
    (void)self;
    out[0] = in[0];
}

/* root: group.0 with all leaves in order, and group.1 with them once more, the last one first. */
static void wide_open(wide *w)
{
    char names[LEAVES][16];
    ph_child children[LEAVES];
    t_scene_open(&w->s);
    for (int i = 0; i < LEAVES; i++) {
        w->leaf[i] = t_scale_open(&w->s, &w->scales[i], 1);
        (void)snprintf(names[i], sizeof names[i], "leaf%d", i);
    }
    for (int g = 0; g < GROUPS; g++) {
        for (int i = 0; i < LEAVES; i++)
            children[i] = (ph_child){names[i], w->leaf[g ? LEAVES - 1 - i : i]};
        ph_module_desc desc = {
            .name = "group", .forward = no_forward, .children = children, .child_count = LEAVES};
        assert_ok(ph_module_create(&w->group[g], w->s.device, &desc));
    }
    ph_child groups[] = {{"a", w->group[0]}, {"b", w->group[1]}};
    ph_module_desc desc = {
        .name = "root", .forward = no_forward, .children = groups, .child_count = GROUPS};
    assert_ok(ph_module_create(&w->root, w->s.device, &desc));
}

static void wide_close(wide *w)
{
    ph_module_release(w->root);
    for (int g = 0; g < GROUPS; g++)
        ph_module_release(w->group[g]);
    for (int i = 0; i < LEAVES; i++)
        ph_module_release(w->leaf[i]);
    t_scene_close(&w->s);
}

typedef struct seen {
    const wide *w;
    size_t count;
    bool buffers;
} seen;

static bool see_tensor(const char *name, ph_tensor *tensor, void *user)
{
    seen *s = user;
    char expected[32];
    const t_scale *scale = &s->w->scales[s->count];
    (void)snprintf(expected, sizeof expected, "a.leaf%zu.%s", s->count,
                   s->buffers ? "count" : "weight");
    assert_string_equal(name, expected);
    assert_ptr_equal(tensor, s->buffers ? scale->count : scale->weight);
    s->count++;
    return true;
}

static bool see_module(const char *name, ph_module *module, void *user)
{
    seen *s = user;
    char expected[32];
    if (s->count == 0)
        assert_string_equal(name, "");
    else if (s->count == 1)
        assert_string_equal(name, "a");
    else if (s->count == LEAVES + 2)
        assert_string_equal(name, "b");
    else {
        (void)snprintf(expected, sizeof expected, "a.leaf%zu", s->count - 2);
        assert_string_equal(name, expected);
        assert_ptr_equal(module, s->w->leaf[s->count - 2]);
    }
    s->count++;
    return true;
}

TEST(many_objects_are_each_met_once_by_their_first_name)
{
    wide w;
    wide_open(&w);
    seen s = {.w = &w};
    ph_module_parameters(w.root, see_tensor, &s);
    assert_int_equal(s.count, LEAVES);
    s = (seen){.w = &w, .buffers = true};
    ph_module_buffers(w.root, see_tensor, &s);
    assert_int_equal(s.count, LEAVES);
    s = (seen){.w = &w};
    ph_module_modules(w.root, see_module, &s);
    assert_int_equal(s.count, LEAVES + 3);
    assert_int_equal(ph_module_parameter_count(w.root), LEAVES);
    wide_close(&w);
}

TEST(a_count_needs_no_names_and_so_no_host_memory)
{
    t_scene s;
    t_scale scale;
    t_scene_open(&s);
    ph_module *module = t_scale_open(&s, &scale, 1);
    ph__alloc_fail_after(0);
    size_t count = ph_module_parameter_count(module);
    ph__alloc_fail_after(PH__ALLOC_NEVER);
    assert_int_equal(count, 1);
    ph_module_release(module);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_objects_are_each_met_once_by_their_first_name),
        cmocka_unit_test(a_count_needs_no_names_and_so_no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
