/* SPDX-License-Identifier: MIT */
/* Collectives of tensors: values, and gradients of the sum of the losses of all ranks. */
#include "support/ranks.h"
#include "support/test.h"
#include <math.h>
#include <phonograph/nn.h>
#include <string.h>

enum {
    N = 3,   /* columns */
    MOST = 4 /* ranks */
};
static t_team team;
static ph_tape *tape;

FIXTURE(open_team)
{
    t_team_open(&team, 20000);
    assert_ok(ph_tape_create(&tape, team.stream, NULL));
    return 0;
}

FIXTURE(close_team)
{
    ph_tape_destroy(tape);
    t_team_close(&team);
    return 0;
}

/* Element i of rank r's operand, and of the weights of its loss. */
static float x_at(unsigned rank, size_t i)
{
    return (float)(rank + 1) * 10 + (float)i;
}

static float weight_at(unsigned rank, size_t i)
{
    return (float)(rank * 7 + 1) - (float)i;
}

static ph_tensor *new_operand(int64_t rows, float (*at)(unsigned, size_t), bool leaf)
{
    float host[MOST * MOST * N];
    ph_tensor *x;
    for (size_t i = 0; i < (size_t)rows * N; i++)
        host[i] = at(team.rank, i);
    assert_ok(ph_tensor_create(&x, team.device, PH_DTYPE_F32, PH_SHAPE(rows, N)));
    assert_ok(ph_tensor_write(tape, x, host, (size_t)rows * N * sizeof *host));
    assert_ok(ph_tensor_set_requires_grad(x, leaf));
    return x;
}

static void expect_values(const ph_tensor *x, size_t count, float (*want)(size_t i))
{
    float host[MOST * MOST * N];
    assert_non_null(x);
    assert_int_equal(ph_tensor_count(x), count);
    assert_ok(ph_tensor_read(tape, x, host, count * sizeof *host));
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(host[i] - want(i)) <= 1e-4F);
}

/* The operator on x, and the values that its result and the gradient of x must have. */
typedef struct collective_case {
    int64_t rows, out_rows;
    ph_tensor *(*apply)(ph_tensor *x);
    float (*want)(size_t i), (*want_grad)(size_t i);
} collective_case;
static collective_case now;
static ph_tensor *x, *weights, *kept;

/* The loss is the sum of y times the rank's weights. */
static ph_status run_case(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    ph_tensor *y = now.apply(x);
    if (y && kept)
        ph_tensor_copy(tape, kept, ph_detach(tape, y));
    ph_backward(tape, ph_sum(tape, ph_mul(tape, y, weights)));
    return ph_tape_clear(tape);
}

/* Eagerly, and as a replayed graph. */
static void expect_case(const collective_case *c)
{
    ph_graph *graph;
    now = *c;
    x = new_operand(c->rows, x_at, true);
    weights = new_operand(c->out_rows, weight_at, false);
    assert_ok(ph_tensor_create(&kept, team.device, PH_DTYPE_F32, PH_SHAPE(c->out_rows, N)));
    assert_ok(ph_graph_create(&graph, NULL));
    for (int graphed = 0; graphed < 2; graphed++) {
        assert_ok(ph_tensor_set_grad(x, NULL));
        ph_tensor_fill(tape, kept, -1);
        assert_ok(graphed ? ph_graph_capture(graph, team.stream, NULL, run_case, NULL)
                          : run_case(team.stream, NULL));
        if (graphed)
            assert_ok(ph_graph_replay(graph, team.stream));
        expect_values(kept, (size_t)c->out_rows * N, c->want);
        expect_values(ph_tensor_grad(x), (size_t)c->rows * N, c->want_grad);
    }
    ph_graph_destroy(graph);
    ph_tensor_release(x);
    ph_tensor_release(weights);
    ph_tensor_release(kept);
    kept = NULL;
}

static float sum_over_ranks(float (*at)(unsigned, size_t), size_t i)
{
    float sum = 0;
    for (unsigned rank = 0; rank < team.size; rank++)
        sum += at(rank, i);
    return sum;
}

/* ---- all_reduce ---- */
static ph_tensor *apply_sum(ph_tensor *a)
{
    return ph_tensor_all_reduce(tape, team.comm, a, PH_REDUCE_SUM);
}

static float want_sum(size_t i)
{
    return sum_over_ranks(x_at, i);
}

static float want_weight_sum(size_t i)
{
    return sum_over_ranks(weight_at, i);
}

static ph_tensor *apply_mean(ph_tensor *a)
{
    return ph_tensor_all_reduce(tape, team.comm, a, PH_REDUCE_MEAN);
}

static float want_mean(size_t i)
{
    return sum_over_ranks(x_at, i) / (float)team.size;
}

static float want_weight_mean(size_t i)
{
    return sum_over_ranks(weight_at, i) / (float)team.size;
}

TEST(all_reduce_has_the_gradient_of_the_sum_of_the_losses)
{
    expect_case(&(collective_case){2, 2, apply_sum, want_sum, want_weight_sum});
    expect_case(&(collective_case){2, 2, apply_mean, want_mean, want_weight_mean});
}

/* ---- broadcast ---- */
static ph_tensor *apply_broadcast(ph_tensor *a)
{
    return ph_tensor_broadcast(tape, team.comm, a, 1);
}

static float want_broadcast(size_t i)
{
    return x_at(1, i);
}

static float want_broadcast_grad(size_t i)
{
    return team.rank == 1 ? sum_over_ranks(weight_at, i) : 0;
}

TEST(broadcast_gives_the_root_the_sum_of_the_gradients)
{
    expect_case(&(collective_case){2, 2, apply_broadcast, want_broadcast, want_broadcast_grad});
}

/* ---- all_gather, reduce_scatter ---- */
static ph_tensor *apply_all_gather(ph_tensor *a)
{
    return ph_tensor_all_gather(tape, team.comm, a);
}

static float want_all_gather(size_t i)
{
    return x_at((unsigned)(i / (2 * N)), i % (2 * N));
}

static float want_all_gather_grad(size_t i)
{
    return sum_over_ranks(weight_at, team.rank * 2 * N + i);
}

TEST(all_gather_has_the_gradient_of_this_ranks_part)
{
    expect_case(&(collective_case){2, 2 * (int64_t)team.size, apply_all_gather, want_all_gather,
                                   want_all_gather_grad});
}

static ph_tensor *apply_reduce_scatter(ph_tensor *a)
{
    return ph_tensor_reduce_scatter(tape, team.comm, a, PH_REDUCE_SUM);
}

static float want_reduce_scatter(size_t i)
{
    return sum_over_ranks(x_at, team.rank * 2 * N + i);
}

static float want_reduce_scatter_grad(size_t i)
{
    return weight_at((unsigned)(i / (2 * N)), i % (2 * N));
}

static ph_tensor *apply_mean_scatter(ph_tensor *a)
{
    return ph_tensor_reduce_scatter(tape, team.comm, a, PH_REDUCE_MEAN);
}

static float want_mean_scatter(size_t i)
{
    return want_reduce_scatter(i) / (float)team.size;
}

static float want_mean_scatter_grad(size_t i)
{
    return want_reduce_scatter_grad(i) / (float)team.size;
}

TEST(reduce_scatter_has_the_gradients_of_all_parts)
{
    int64_t rows = 2 * (int64_t)team.size;
    expect_case(&(collective_case){rows, 2, apply_reduce_scatter, want_reduce_scatter,
                                   want_reduce_scatter_grad});
    expect_case(
        &(collective_case){rows, 2, apply_mean_scatter, want_mean_scatter, want_mean_scatter_grad});
}

/* ---- operands of other kinds ---- */
static float want_turned(size_t i)
{
    size_t row = i / 2, column = i % 2;
    return sum_over_ranks(x_at, column * N + row);
}

TEST(operands_may_be_views_integers_and_empty)
{
    const int32_t ranks = (int32_t)team.size;
    int32_t most = 0;
    ph_tensor *wide = new_operand(2, x_at, false);
    expect_values(apply_sum(ph_transpose(tape, wide, 0, 1)), 2 * N, want_turned);
    ph_tensor *rank = ph_full(tape, PH_DTYPE_I32, PH_SHAPE(1), team.rank);
    ph_tensor *largest = ph_tensor_all_reduce(tape, team.comm, rank, PH_REDUCE_MAX);
    assert_ok(ph_tensor_read(tape, largest, &most, sizeof most));
    assert_int_equal(most, ranks - 1);
    ph_tensor *none = apply_all_gather(ph_zeros(tape, PH_DTYPE_F32, PH_SHAPE(0, 4)));
    assert_non_null(none);
    assert_int_equal(ph_tensor_dim(none, 0), 0);
    assert_ok(ph_tape_clear(tape));
    ph_tensor_release(wide);
}

/* The history holds what backward needs, though its owner lets go. */
TEST(the_history_retains_the_communicator)
{
    x = new_operand(2, x_at, true);
    weights = new_operand(2, weight_at, false);
    ph_tensor *loss = ph_sum(tape, ph_mul(tape, apply_sum(x), weights));
    ph_comm_release(team.comm);
    team.comm = NULL;
    ph_backward(tape, loss);
    assert_ok(ph_tape_status(tape));
    expect_values(ph_tensor_grad(x), 2 * N, want_weight_sum);
    assert_ok(ph_tape_clear(tape));
    ph_tensor_release(x);
    ph_tensor_release(weights);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(all_reduce_has_the_gradient_of_the_sum_of_the_losses),
        IN_TEAM(broadcast_gives_the_root_the_sum_of_the_gradients),
        IN_TEAM(all_gather_has_the_gradient_of_this_ranks_part),
        IN_TEAM(reduce_scatter_has_the_gradients_of_all_parts),
        IN_TEAM(operands_may_be_views_integers_and_empty),
        IN_TEAM(the_history_retains_the_communicator),
    };
    return t_ranks(tests);
}
