/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_products.c: inputs that a product library's kernels read, some as
 * descriptions of tensors, are never stale, rebound or copied: in graphed callables and behind
 * slots. On a GPU the shapes are such that it has kernels of that kind, and the test tells which
 * they are. */
#include "fake/fake_cuda.h"
#include "support/graphed_nets.h"
#include "support/test.h"
#include <math.h>
#include <stdio.h>

enum {
    CALLS = 6,
    WAYS = 3,
    WIDTHS = 3,
    MOST = 4 /* gradients: the input's, of two weights, of a bias */
};
static const ph_graphed_inputs ways[WAYS] = {PH_GRAPHED_AUTO, PH_GRAPHED_COPY_INPUTS,
                                             PH_GRAPHED_REBIND};
static const char *const way_names[WAYS] = {"auto", "copied", "rebound"};
static const ph_dtype dtypes[] = {PH_DTYPE_F32, PH_DTYPE_F16, PH_DTYPE_BF16};

static bool on_gpu(void)
{
    return !t_on_host() && !fake_cuda();
}

static int64_t row_count(int i)
{
    return on_gpu() ? (i ? 512 : 128) : (i ? 24 : 8);
}

static int width_count(void)
{
    return on_gpu() ? WIDTHS : 2;
}

static int64_t width_of(int i)
{
    static const int64_t large[WIDTHS] = {256, 1024, 2048}, small[2] = {16, 48};
    return on_gpu() ? large[i] : small[i];
}

/* ---- networks ---- of one input, which is their first operators' operand. */
typedef enum net_kind {
    NET_LINEAR,
    NET_TWICE,    /* two products of the input, added up */
    NET_ATTENTION /* q, k and v are parts of the input */
} net_kind;
static const char *const net_names[] = {"linear", "twice", "attention"};

typedef struct bench {
    t_scene s;
    net_kind kind;
    ph_dtype dtype;
    int64_t rows, width;
    ph_tensor *weight[2], *bias;
    ph_module *plain;
    ph_tensor *kept[2 * CALLS];
    size_t kept_count;
    char label[100];
} bench;

static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const bench *b = self;
    ph_tensor *part[3];
    if (b->kind == NET_ATTENTION) {
        const ph_shape shape = ph_tensor_shape(in[0]);
        for (int i = 0; i < 3; i++)
            part[i] = ph_reshape(tape, ph_slice(tape, in[0], 0, i, i + 1),
                                 PH_SHAPE(shape.dim[1], shape.dim[2], shape.dim[3]));
        out[0] = ph_attention(tape, part[0], part[1], part[2], NULL);
        return;
    }
    out[0] = ph_linear(tape, in[0], b->weight[0], b->bias);
    if (b->kind == NET_TWICE)
        out[0] = ph_add(tape, out[0], ph_linear(tape, in[0], b->weight[1], NULL));
}

static ph_shape in_shape(const bench *b)
{
    const int64_t depth = on_gpu() ? 64 : 8;
    return b->kind == NET_ATTENTION ? PH_SHAPE(3, b->width / depth, b->rows, depth)
                                    : PH_SHAPE(b->rows, b->width);
}

static ph_shape out_shape(const bench *b)
{
    const ph_shape in = in_shape(b);
    return b->kind == NET_ATTENTION ? PH_SHAPE(in.dim[1], in.dim[2], in.dim[3]) : in;
}

static ph_tensor *leaf(const bench *b, ph_shape shape)
{
    const double bound = 1 / sqrt((double)b->width);
    ph_tensor *x = ph_tensor_retain(ph_uniform(b->s.tape, b->dtype, shape, -bound, bound));
    assert_ok(ph_tape_clear(b->s.tape));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    return x;
}

static void bench_open(bench *b, net_kind kind, ph_dtype dtype, int64_t rows, int64_t width)
{
    *b = (bench){.kind = kind, .dtype = dtype, .rows = rows, .width = width};
    const ph_parameter parameters[] = {
        {"bias", &b->bias}, {"weight", &b->weight[0]}, {"other", &b->weight[1]}};
    const ph_module_desc desc = {.name = net_names[kind],
                                 .forward = forward,
                                 .self = b,
                                 .parameters = parameters,
                                 .parameter_count =
                                     kind == NET_ATTENTION ? 0 : (kind == NET_TWICE ? 3 : 2)};
    t_scene_open(&b->s);
    if (kind != NET_ATTENTION)
        b->bias = leaf(b, PH_SHAPE(width));
    for (int i = 0; kind != NET_ATTENTION && i < (kind == NET_TWICE ? 2 : 1); i++)
        b->weight[i] = leaf(b, PH_SHAPE(width, width));
    assert_ok(ph_module_create(&b->plain, b->s.device, &desc));
    (void)snprintf(b->label, sizeof b->label, "%s, %s of %lld x %lld", ph_dtype_name(dtype),
                   net_names[kind], (long long)rows, (long long)width);
}

static void drop_kept(bench *b)
{
    while (b->kept_count > 0)
        ph_tensor_release(b->kept[--b->kept_count]);
}

static void bench_close(bench *b)
{
    ph_module_release(b->plain);
    ph_tensor *const made[] = {b->weight[0], b->weight[1], b->bias};
    for (int i = 0; i < 3; i++)
        ph_tensor_release(made[i]);
    t_scene_close(&b->s);
}

/* ---- tensors that go bad ---- in memory of their own, or 256 bytes or one element into it. The
 * caller's, both. */
typedef struct placed {
    ph_tensor *memory, *x, *twin; /* twin: the same values elsewhere */
} placed;

static bool is_aligned(int call)
{
    return call != CALLS - 1;
}

static placed place(const bench *b, ph_shape shape, int call, bool requires_grad)
{
    placed p;
    ph_tape *tape = b->s.tape;
    const int64_t count = ph_shape_count(&shape), element = b->dtype == PH_DTYPE_F32 ? 4 : 2,
                  before = is_aligned(call) ? (call % 3 == 1 ? 256 / element : 0) : 1;
    p.memory = ph_tensor_retain(ph_uniform(tape, b->dtype, PH_SHAPE(before + count), -1, 1));
    p.x = ph_tensor_retain(
        ph_reshape(tape, ph_slice(tape, p.memory, 0, before, before + count), shape));
    p.twin = ph_tensor_retain(ph_clone(tape, p.x));
    assert_ok(ph_tape_clear(tape));
    assert_ok(ph_tensor_set_requires_grad(p.x, requires_grad));
    assert_ok(ph_tensor_set_requires_grad(p.twin, requires_grad));
    return p;
}

/* As x is, where all address bits from 8 to 11 differ. */
static placed place_opposite(const bench *b, const ph_tensor *x)
{
    placed p;
    ph_tape *tape = b->s.tape;
    const ph_shape shape = ph_tensor_shape(x);
    const int64_t count = ph_shape_count(&shape), element = b->dtype == PH_DTYPE_F32 ? 4 : 2;
    p.memory =
        ph_tensor_retain(ph_uniform(tape, b->dtype, PH_SHAPE(8192 / element + count), -1, 1));
    const char *at = t_opposite(ph_tensor_data(p.memory), ph_tensor_data(x));
    const int64_t before = (at - (const char *)ph_tensor_data(p.memory)) / element;
    p.x = ph_tensor_retain(
        ph_reshape(tape, ph_slice(tape, p.memory, 0, before, before + count), shape));
    p.twin = ph_tensor_retain(ph_clone(tape, p.x));
    assert_ok(ph_tape_clear(tape));
    return p;
}

/* Who reads it from now on reads NaN. Every second one's memory is for others to take, that of
 * the rest stays. */
static void spoil(bench *b, placed *p, int call)
{
    ph_tensor_release(p->x);
    ph_tensor_release(p->twin);
    ph_tensor_fill(b->s.tape, p->memory, NAN);
    assert_ok(ph_tape_clear(b->s.tape));
    if (call % 2 == 0)
        b->kept[b->kept_count++] = p->memory;
    else
        ph_tensor_release(p->memory);
}

static void expect_finite(const bench *b, ph_tensor *x)
{
    float sum;
    assert_ok(ph_tensor_read(
        b->s.tape, ph_sum(b->s.tape, ph_abs(b->s.tape, ph_cast(b->s.tape, x, PH_DTYPE_F32))), &sum,
        sizeof sum));
    assert_true(isfinite(sum) && sum > 0);
}

/* ---- calls ---- */
static size_t pass(const bench *b, ph_module *module, ph_tensor *x, ph_tensor *incoming,
                   ph_tensor **y, ph_tensor *grad[MOST])
{
    ph_tensor *inputs[MOST] = {x, b->bias, b->weight[0], b->weight[1]};
    size_t count = 0;
    while (count < MOST && inputs[count])
        count++;
    *y = ph_call(b->s.tape, module, x);
    ph_grad(b->s.tape, grad, inputs, count, y, &incoming, 1, NULL);
    return count;
}

static void one_call(bench *b, ph_module *graphed, int call, const char *way)
{
    ph_tensor *y, *want_y, *grad[MOST], *want[MOST];
    char text[200];
    placed x = place(b, in_shape(b), call, true), incoming = place(b, out_shape(b), call, false);
    size_t count = pass(b, b->plain, x.twin, incoming.twin, &want_y, want);
    expect_finite(b, want_y);
    (void)pass(b, graphed, x.x, incoming.x, &y, grad);
    (void)snprintf(text, sizeof text, "%s, %s, call %d: output", b->label, way, call);
    gn_expect_same(&b->s, y, want_y, text);
    for (size_t i = 0; i < count; i++) {
        expect_finite(b, want[i]);
        (void)snprintf(text, sizeof text, "%s, %s, call %d: gradient %zu", b->label, way, call, i);
        gn_expect_same(&b->s, grad[i], want[i], text);
    }
    assert_ok(ph_tape_clear(b->s.tape));
    spoil(b, &x, call);
    spoil(b, &incoming, call);
}

/* ---- what reads them ---- */
static void tell_node(const ph_graph *graph, const ph_node_info *node, const char *which)
{
    char text[300] = "";
    size_t used = 0;
    for (size_t slot = 0; slot < ph_graph_slot_count(graph); slot++) {
        ph_slot_info info;
        ph_slot_place at;
        assert_ok(ph_graph_slot_get(&info, graph, slot));
        for (size_t i = 0; i < info.uses && used < sizeof text; i++) {
            assert_ok(ph_graph_slot_place_at(&at, graph, slot, i));
            if (at.node == node->index)
                used += (size_t)snprintf(text + used, sizeof text - used, "; %s at +%zu", info.name,
                                         at.offset);
        }
    }
    print_message("  %s: %s, %zu bytes of parameters%s\n", which, node->name, node->args_size,
                  text);
}

static void tell_graph(ph_graph *graph, const char *which)
{
    const ph_record *record;
    ph_node_info node;
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        assert_ok(ph_record_node(&node, record, i));
        if (node.kind == PH_NODE_KERNEL)
            tell_node(graph, &node, which);
    }
}

static void tell(const bench *b, const ph_module *graphed)
{
    ph_graph *forwards, *backwards;
    for (int incoming = 0; incoming < 2; incoming++) {
        const ph_graphed_input port = gn_input(graphed, 0, incoming);
        print_message("%s: the %s is %s%s\n", b->label, incoming ? "incoming gradient" : "input",
                      port.rebound ? "rebound" : "copied: ", port.reason);
    }
    assert_ok(ph_graphed_callable_graphs(&forwards, &backwards, graphed));
    tell_graph(forwards, "forward");
    tell_graph(backwards, "backward");
}

/* ---- graphed callables ---- */
static void expect_port(ph_graphed_inputs inputs, const ph_graphed_input port)
{
    assert_int_equal(port.rebound, port.reason[0] == '\0');
    assert_int_equal(port.rebound, port.uses > 0);
    if (inputs == PH_GRAPHED_COPY_INPUTS)
        assert_false(port.rebound);
    else if (inputs == PH_GRAPHED_REBIND || !on_gpu())
        assert_true(port.rebound);
}

/* NULL: a GPU's kernels have parameters that prove nothing, and the message says so. The sample
 * is bad when it was made. */
static ph_module *make(bench *b, ph_graphed_inputs inputs)
{
    ph_module *graphed = NULL;
    placed x = place(b, in_shape(b), 1, true);
    const ph_sample sample = {.tensors = &x.x, .count = 1};
    const ph_graphed_options options = {.inputs = inputs};
    ph_status status = ph_make_graphed_callables(&graphed, &b->plain, &sample, 1, &options);
    if (on_gpu() && inputs == PH_GRAPHED_REBIND && status == PH_ERROR_UNSUPPORTED) {
        assert_null(graphed);
        assert_true(strlen(ph_error_last()->message) > 0);
        print_message("%s: %s\n", b->label, ph_error_last()->message);
    } else {
        assert_ok(status);
        for (int incoming = 0; incoming < 2; incoming++)
            expect_port(inputs, gn_input(graphed, 0, incoming));
    }
    assert_ok(ph_tape_clear(b->s.tape));
    spoil(b, &x, 1);
    return graphed;
}

static void try_net(net_kind kind, ph_dtype dtype, int rows, int width)
{
    bench b;
    bench_open(&b, kind, dtype, row_count(rows), width_of(width));
    for (int way = 0; way < WAYS; way++) {
        ph_module *graphed = make(&b, ways[way]);
        if (on_gpu() && graphed && ways[way] == PH_GRAPHED_AUTO)
            tell(&b, graphed);
        for (int call = 0; graphed && call < CALLS; call++)
            one_call(&b, graphed, call, way_names[way]);
        drop_kept(&b);
        ph_module_release(graphed);
    }
    bench_close(&b);
}

TEST(graphed_linear_layers_match_in_every_dtype_and_width)
{
    for (int dtype = 0; dtype < 3; dtype++)
        for (int width = 0; width < width_count(); width++)
            for (int rows = 0; rows < 2; rows++)
                try_net(NET_LINEAR, dtypes[dtype], rows, width);
}

TEST(test_read_twice)
{
    for (int dtype = 0; dtype < 3; dtype++)
        for (int width = 0; width < width_count(); width++)
            try_net(NET_TWICE, dtypes[dtype], 1, width);
}

TEST(graphed_attention_matches_in_every_width)
{
    for (int width = 0; width < width_count(); width++)
        for (int rows = 0; rows < 2; rows++)
            try_net(NET_ATTENTION, PH_DTYPE_BF16, rows, width);
}

/* ---- slots alone ---- two captures of one call, without gradients. */
typedef struct captured {
    bench *b;
    ph_tensor *x, *y;
    ph_graph *graph;
} captured;

static ph_status captured_body(ph_stream *stream, void *user)
{
    captured *c = user;
    (void)stream;
    c->y = ph_tensor_retain(ph_call(c->b->s.tape, c->b->plain, c->x));
    return ph_tape_clear(c->b->s.tape);
}

static void capture(captured *c, bench *b, ph_tensor *x)
{
    *c = (captured){.b = b, .x = x};
    assert_ok(captured_body(b->s.stream, c));
    ph_tensor_release(c->y);
    assert_ok(ph_stream_synchronize(b->s.stream));
    assert_ok(ph_graph_create(&c->graph, NULL));
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    assert_ok(ph_graph_capture(c->graph, b->s.stream, &options, captured_body, c));
}

static void replay_with(bench *b, const captured *c, size_t slot, int call)
{
    char text[200];
    placed x = place(b, in_shape(b), call, false);
    const ph_slot_value value = {slot, ph_tensor_data(x.x)};
    if (is_aligned(call)) {
        ph_tensor *want = ph_call(b->s.tape, b->plain, x.twin);
        expect_finite(b, want);
        assert_ok(ph_graph_replay_with(c->graph, b->s.stream, &value, 1));
        (void)snprintf(text, sizeof text, "%s, slot, call %d", b->label, call);
        gn_expect_same(&b->s, c->y, want, text);
    } else {
        assert_error(ph_graph_replay_with(c->graph, b->s.stream, &value, 1), PH_ERROR_ARGUMENT, "");
    }
    assert_ok(ph_tape_clear(b->s.tape));
    spoil(b, &x, call);
}

static void try_slot(net_kind kind, ph_dtype dtype, int rows, int width)
{
    bench b;
    captured c, other;
    ph_slot_proof proof;
    bench_open(&b, kind, dtype, row_count(rows), width_of(width));
    ph_tape_set_grad_enabled(b.s.tape, false);
    placed x = place(&b, in_shape(&b), 0, false), shifted = place_opposite(&b, x.x);
    capture(&c, &b, x.x);
    capture(&other, &b, shifted.x);
    const void *const at[] = {ph_tensor_data(shifted.x)};
    const ph_slot_span span = {
        .name = "x", .base = ph_tensor_data(x.x), .shifted = at, .bytes = ph_tensor_bytes(x.x)};
    assert_ok(ph_graph_slot_prove(&proof, c.graph, &other.graph, 1, &span, 1));
    assert_int_equal(proof.slot == PH_SLOT_NONE, proof.reason[0] != '\0');
    ph_tensor_release(other.y);
    ph_graph_destroy(other.graph);
    spoil(&b, &shifted, 1);
    spoil(&b, &x, 0);
    if (!on_gpu())
        assert_int_not_equal(proof.slot, PH_SLOT_NONE);
    if (proof.slot == PH_SLOT_NONE)
        print_message("%s: no slot: %s\n", b.label, proof.reason);
    for (int call = 0; proof.slot != PH_SLOT_NONE && call < CALLS; call++)
        replay_with(&b, &c, proof.slot, call);
    ph_tensor_release(c.y);
    ph_graph_destroy(c.graph);
    drop_kept(&b);
    bench_close(&b);
}

TEST(inputs_of_products_become_slots_that_replay_right)
{
    for (int width = 0; width < width_count(); width++) {
        for (int dtype = 0; dtype < 3; dtype++)
            for (int kind = NET_LINEAR; kind <= NET_TWICE; kind++)
                try_slot((net_kind)kind, dtypes[dtype], 1, width);
        try_slot(NET_ATTENTION, PH_DTYPE_BF16, 1, width);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphed_linear_layers_match_in_every_dtype_and_width),
        cmocka_unit_test(test_read_twice),
        cmocka_unit_test(graphed_attention_matches_in_every_width),
        cmocka_unit_test(inputs_of_products_become_slots_that_replay_right),
    };
    t_hold_context();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
