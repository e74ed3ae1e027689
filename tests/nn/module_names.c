/* SPDX-License-Identifier: MIT */
/* tests/nn/module_names.c: what modules are called from above: as a search each time would find
 * it, and looked for once. */
#include "nn/module/module.h"
#include "nn/module/names.h"
#include "support/support.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "support/test.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = 40,
    CHILDREN = 20
};
static ph_device *device;

FIXTURE(open_device)
{
    assert_ok(ph_device_open(&device, "host:threads=1", NULL));
    return 0;
}

FIXTURE(close_device)
{
    ph_device_release(device);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    (void)tape;
    (void)self;
    out[0] = in[0];
}

static ph_module *make(ph_module *const *children, size_t count)
{
    char names[CHILDREN][8];
    ph_child named[CHILDREN];
    ph_module *module;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "c%zu", i);
        named[i] = (ph_child){names[i], children[i]};
    }
    const ph_module_desc desc = {
        .name = "m", .forward = forward, .children = named, .child_count = count};
    assert_ok(ph_module_create(&module, device, &desc));
    return module;
}

/* The first way in the order that is promised. */
static bool search(ph__text *name, const ph_module *in, const ph_module *module)
{
    for (size_t i = 0; i < in->children.count; i++)
        if (in->children.at[i].module == module || in->children.at[i].module == module->original) {
            ph__text_add(name, in->children.at[i].name);
            return true;
        }
    for (size_t i = 0; i < in->children.count; i++) {
        size_t length = name->length;
        ph__text_format(name, "%s.", in->children.at[i].name);
        if (search(name, in->children.at[i].module, module))
            return true;
        name->length = length;
    }
    return false;
}

static void compare(ph_module *in, const ph_module *module)
{
    ph__text want = {0}, got = {0};
    bool below = search(&want, in, module);
    assert_int_equal(ph__module_add_name(&got, in, module), below);
    char *one = ph__text_detach(&want), *other = ph__text_detach(&got);
    assert_string_equal(one, other);
    ph__free(one);
    ph__free(other);
}

/* Nets in which modules have several parents, and one that stands for another. Small ones: the
 * search goes all ways. */
TEST(test_any_net)
{
    enum {
        SMALL = 12
    };
    ph__rng rng = {7};
    for (int round = 0; round < 200; round++) {
        ph_module *all[SMALL];
        for (size_t i = 0; i < SMALL; i++) {
            ph_module *children[CHILDREN];
            size_t count = i > 0 ? ph__rng_below(&rng, 4) : 0;
            for (size_t c = 0; c < count; c++)
                children[c] = all[ph__rng_below(&rng, i)];
            all[i] = make(children, count);
        }
        ph_module *stands_for = make(NULL, 0);
        stands_for->original = ph_module_retain(all[ph__rng_below(&rng, SMALL)]);
        for (size_t in = 0; in < SMALL; in++) {
            for (size_t i = 0; i < SMALL; i++)
                compare(all[in], all[i]);
            compare(all[in], stands_for);
        }
        ph_module_release(stands_for);
        for (size_t i = 0; i < SMALL; i++)
            ph_module_release(all[i]);
    }
}

/* More children than are compared one by one. */
TEST(test_many_children)
{
    ph_module *children[CHILDREN], *foreign = make(NULL, 0);
    for (size_t i = 0; i < CHILDREN; i++)
        children[i] = make(i > 2 ? &children[i - 2] : NULL, i > 2);
    ph_module *top = make(children, CHILDREN);
    for (size_t i = 0; i < CHILDREN; i++)
        compare(top, children[i]);
    compare(top, foreign);
    compare(top, top);
    for (size_t i = 0; i < CHILDREN; i++)
        ph_module_release(children[i]);
    ph_module_release(foreign);
    ph_module_release(top);
}

/* Each module has the one before it as a child twice: the ways down are 2^39, and what is looked
 * through is each child once. */
TEST(test_many_ways)
{
    ph_module *all[MOST], *foreign = make(NULL, 0);
    ph__text name = {0};
    for (size_t i = 0; i < MOST; i++)
        all[i] =
            make((ph_module *const[]){i ? all[i - 1] : NULL, i ? all[i - 1] : NULL}, i ? 2 : 0);
    assert_false(ph__module_add_name(&name, all[MOST - 1], foreign));
    assert_int_equal(ph__module_names_count(all[MOST - 1]), 2 * (MOST - 1));
    assert_true(ph__module_add_name(&name, all[MOST - 1], all[0]));
    assert_int_equal(name.length, 3 * (MOST - 1) - 1);
    ph__text_free(&name);
    for (size_t i = 0; i < MOST; i++)
        ph_module_release(all[i]);
    ph_module_release(foreign);
}

/* Nothing is made for those that are found at once. */
TEST(test_near_children)
{
    ph_module *child = make(NULL, 0), *top = make(&child, 1);
    ph__text name = {0};
    assert_true(ph__module_add_name(&name, top, child));
    assert_false(ph__module_add_name(&name, child, top));
    assert_int_equal(ph__module_names_count(top), 0);
    assert_int_equal(ph__module_names_count(child), 0);
    ph__text_free(&name);
    ph_module_release(child);
    ph_module_release(top);
}

/* Threads that ask first at the same moment: all find the name, and what only one of them could
 * leave goes with the module. */
typedef struct asker {
    pthread_barrier_t *start;
    ph_module *in;
    const ph_module *module;
    bool found;
} asker;

static void *ask(void *user)
{
    asker *a = user;
    ph__text name = {0};
    (void)pthread_barrier_wait(a->start);
    a->found = ph__module_add_name(&name, a->in, a->module) && name.length == 5 &&
               memcmp(name.at, "c0.c0", 5) == 0;
    ph__text_free(&name);
    return NULL;
}

TEST(threads_may_ask_for_names_at_once)
{
    enum {
        THREADS = 4
    };
    for (int round = 0; round < 50; round++) {
        ph_module *leaf = make(NULL, 0), *child = make(&leaf, 1), *top = make(&child, 1);
        pthread_barrier_t start;
        pthread_t threads[THREADS];
        asker askers[THREADS];
        assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
        for (int i = 0; i < THREADS; i++) {
            askers[i] = (asker){&start, top, leaf, false};
            assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        for (int i = 0; i < THREADS; i++)
            assert_true(askers[i].found);
        assert_int_equal(ph__module_names_count(top), 2);
        (void)pthread_barrier_destroy(&start);
        ph_module_release(leaf);
        ph_module_release(child);
        ph_module_release(top);
    }
}

TEST(test_no_host_memory)
{
    ph_module *leaf = make(NULL, 0), *child = make(&leaf, 1), *top = make(&child, 1);
    bool done = false;
    for (int64_t n = 0; !done; n++) {
        ph__text name = {0};
        ph__alloc_fail_after(n);
        assert_true(ph__module_add_name(&name, top, leaf));
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        done = !name.failed;
        if (done)
            assert_memory_equal(name.at, "c0.c0", 5);
        ph__text_free(&name);
        assert_true(n < 20);
    }
    ph_module_release(leaf);
    ph_module_release(child);
    ph_module_release(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_net, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_many_children, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_many_ways, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_near_children, open_device, close_device),
        cmocka_unit_test_setup_teardown(threads_may_ask_for_names_at_once, open_device,
                                        close_device),
        cmocka_unit_test_setup_teardown(test_no_host_memory, open_device, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
