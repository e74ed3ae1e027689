/* SPDX-License-Identifier: MIT */
/* Collectives of tensors on one rank, and their misuse. */
#include "support/nets.h"
#include "support/test.h"
#include <phonograph/tensor_collectives.h>

static ph_comm *comm;
static t_scene s;

FIXTURE(open_scene)
{
    t_scene_open(&s);
    assert_ok(ph_comm_create(&comm, s.device, NULL));
    return 0;
}

FIXTURE(close_scene)
{
    ph_comm_release(comm);
    t_scene_close(&s);
    return 0;
}

#define expect_refused(call, status, part)                                                         \
    do {                                                                                           \
        assert_null(call);                                                                         \
        assert_error(ph_tape_clear(s.tape), (status), (part));                                     \
    } while (0)

TEST(arguments_are_named_by_the_operator)
{
    ph_tensor *x = t_input(&s, 3, 4), *none;
    expect_refused(ph_tensor_all_reduce(s.tape, NULL, x, PH_REDUCE_SUM), PH_ERROR_ARGUMENT,
                   "all_reduce: comm is NULL");
    expect_refused(ph_tensor_broadcast(s.tape, comm, NULL, 0), PH_ERROR_ARGUMENT, "broadcast");
    x = t_input(&s, 3, 4);
    expect_refused(ph_tensor_broadcast(s.tape, comm, x, 1), PH_ERROR_ARGUMENT,
                   "broadcast: ph_broadcast: rank 1 of 1");
    x = t_input(&s, 3, 4);
    expect_refused(ph_tensor_all_reduce(s.tape, comm, x, (ph_reduce_op)9), PH_ERROR_ARGUMENT,
                   "all_reduce");
    none = ph_zeros(s.tape, PH_DTYPE_F32, PH_SCALAR);
    expect_refused(ph_tensor_all_gather(s.tape, comm, none), PH_ERROR_ARGUMENT, "no axis 0");
    none = ph_zeros(s.tape, PH_DTYPE_F32, PH_SCALAR);
    expect_refused(ph_tensor_reduce_scatter(s.tape, comm, none, PH_REDUCE_SUM), PH_ERROR_ARGUMENT,
                   "a multiple of the 1 ranks");
    assert_null(ph_tensor_all_gather(NULL, comm, NULL));
}

TEST(the_largest_of_all_ranks_has_no_gradient)
{
    ph_tensor *leaf = t_leaf(&s, PH_SHAPE(2), 3, 4);
    expect_refused(ph_tensor_all_reduce(s.tape, comm, leaf, PH_REDUCE_MAX), PH_ERROR_UNSUPPORTED,
                   "only SUM and MEAN have a gradient");
    assert_non_null(ph_tensor_all_reduce(s.tape, comm, ph_detach(s.tape, leaf), PH_REDUCE_MAX));
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(leaf);
}

TEST(a_tape_of_another_device_is_refused)
{
    t_scene other;
    t_scene_open(&other);
    ph_tensor *x = t_input(&other, 3, 4);
    assert_null(ph_tensor_all_reduce(other.tape, comm, x, PH_REDUCE_SUM));
    assert_error(ph_tape_clear(other.tape), PH_ERROR_WRONG_DEVICE, "");
    t_scene_close(&other);
}

TEST(one_rank_has_its_own_values_and_gradients)
{
    float host[2];
    ph_tensor *leaf = t_leaf(&s, PH_SHAPE(2), 3, 4);
    ph_tensor *y = ph_tensor_broadcast(s.tape, comm, leaf, 0);
    y = ph_tensor_all_gather(s.tape, comm, y);
    y = ph_tensor_reduce_scatter(s.tape, comm, y, PH_REDUCE_MEAN);
    y = ph_tensor_all_reduce(s.tape, comm, y, PH_REDUCE_SUM);
    ph_backward(s.tape, ph_sum(s.tape, ph_mul(s.tape, y, y)));
    assert_ok(ph_tensor_read(s.tape, ph_tensor_grad(leaf), host, sizeof host));
    assert_true(host[0] == 6 && host[1] == 8);
    assert_ok(ph_tape_clear(s.tape));
    ph_tensor_release(leaf);
}

int main(void)
{
#define IN_SCENE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        IN_SCENE(arguments_are_named_by_the_operator),
        IN_SCENE(the_largest_of_all_ranks_has_no_gradient),
        IN_SCENE(a_tape_of_another_device_is_refused),
        IN_SCENE(one_rank_has_its_own_values_and_gradients),
    };
    return cmocka_run_group_tests_name("nn.tensor_collectives_misuse", tests, NULL, NULL);
}
