/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_prove.c: slots that two captures prove, and differences that nothing
 * explains, which prove nothing. */
#include "slots_proved.h"
#include "support/test.h"

#include <string.h>

static ph_kernel *put; /* typed */

static int open_with_put(void **state)
{
    (void)open_world(state);
    assert_ok(ph_kernel_create(&put, world.device, &t_kernel_sources[T_KERNEL_PUT]));
    return 0;
}

static int close_with_put(void **state)
{
    ph_kernel_release(put);
    return close_world(state);
}

/* ---- single programs ---- */
typedef struct scene {
    int32_t **inputs;
    int which;
    bool second; /* this is the shifted capture */
} scene;
enum {
    PLAIN,
    HALF,      /* a parameter depends on the address in another way */
    HOST,      /* host functions */
    PINNED,    /* a copy out of host memory */
    SIZE,      /* the second one fills less */
    FILLING,   /* with another value */
    GRID,      /* launches a block more */
    MORE,      /* has one node more */
    EDGES,     /* its nodes depend otherwise */
    KERNEL,    /* it launches another kernel */
    KIND,      /* a node of another kind */
    SCALAR,    /* 4 bytes of a value differ */
    BEYOND,    /* a copy begins in the span and goes on behind it */
    ELSEWHERE, /* an address of neither span */
    OWN,       /* one of them addresses memory of its own there, the other one not */
    NESTED,    /* a nested graph */
    KEPT,      /* an address in the span, whichever capture it is */
    KEPT_MOVED /* one in the shifted span */
};
static int32_t *pinned;
static ph_graph *inner;

static void nothing(void *user)
{
    (void)user;
}

static ph_status put_value(ph_stream *stream, int64_t value)
{
    const struct t_put args = {out + 20, value};
    return ph_launch(stream, put, NULL, &args, sizeof args);
}

static ph_status forked(ph_stream *stream)
{
    ph_stream *side;
    PH_TRY(ph_stream_create(&side, world.device, NULL));
    ph_status status = ph_stream_wait_stream(side, stream);
    if (status == PH_OK)
        status = first(side, base[1], out + 30);
    if (status == PH_OK)
        status = first(stream, base[1], out + 31);
    if (status == PH_OK)
        status = ph_stream_wait_stream(stream, side);
    ph_stream_destroy(side);
    return status;
}

static ph_status own_or_not(ph_stream *stream, bool own)
{
    int32_t *temporary;
    PH_TRY(PH_NEW(&temporary, N, stream));
    ph_status status = first(stream, own ? temporary : fresh[0], out);
    ph_free(temporary, stream);
    return status;
}

static ph_status scene_body(ph_stream *stream, void *user)
{
    const scene *s = user;
    const int32_t *in = s->inputs[0];
    size_t less = s->second ? 1 : 0;
    PH_TRY(first(stream, in, out));
    switch (s->which) {
    case HALF:
        return put_value(stream, (int64_t)((uintptr_t)in / 2));
    case HOST:
        return ph_launch_host(stream, nothing, NULL);
    case PINNED:
        return ph_memcpy(out, pinned, 64, stream);
    case SIZE:
        return ph_memset_u32(out, 1, 9 - less, stream);
    case FILLING:
        return ph_memset_u32(out, 1 + (uint32_t)less, 9, stream);
    case GRID:
        return t_fill(&world, stream, out, 200 + 200 * less, 1);
    case MORE:
        return less ? first(stream, in, out) : PH_OK;
    case EDGES:
        if (!s->second)
            return forked(stream);
        PH_TRY(first(stream, base[1], out + 30));
        return first(stream, base[1], out + 31);
    case KERNEL:
        return less ? t_axpy(&world, stream, 1, (const float *)in, (float *)out, 8)
                    : t_add(&world, stream, in, out, 8, 1);
    case KIND:
        return less ? ph_memset_u32(out, 0, 8, stream) : ph_memcpy(out, base[1], 32, stream);
    case SCALAR:
        return t_fill(&world, stream, out, 8, (int32_t)less);
    case BEYOND:
        return ph_memcpy(out, in + N / 2, BYTES / 2, stream);
    case ELSEWHERE:
        return first(stream, less ? fresh[0] : fresh[1], out);
    case OWN:
        return own_or_not(stream, s->second);
    case NESTED:
        return ph_graph_replay(inner, stream);
    case KEPT:
        return first(stream, base[0], out);
    case KEPT_MOVED:
        return first(stream, moved[0] + 1, out);
    default:
        return PH_OK;
    }
}

static ph_slot_proof prove_scene(int which, ph_slot_span span)
{
    ph_slot_proof proof;
    scene s = {base, which, false};
    capture(graph, scene_body, &s);
    s = (scene){moved, which, true};
    capture(shifted, scene_body, &s);
    assert_ok(ph_graph_slot_prove(&proof, graph, &shifted, 1, &span, 1));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_reset(shifted));
    return proof;
}

TEST(test_differences_that_nothing_explains)
{
    static const struct {
        int which;
        const char *words;
    } rows[] = {
        {HALF, "node 1 (put): word value differs by 0x"},
        {HOST, "node 1 (host): what a host function does"},
        {PINNED, "node 1 (memcpy): it reads host memory"},
        {SIZE, "node 1 (memset): its size differs"},
        {FILLING, "node 1 (memset): its value differs"},
        {GRID, "node 1 (fill_i32): its grid or block differs"},
        {MORE, "the shifted capture has 2 nodes, the graph 1"},
        {EDGES, "it depends on other nodes"},
        {KERNEL, "node 1 (add_i32): it is another kernel"},
        {KIND, "node 1 (memcpy): it is of another kind"},
        {SCALAR, "node 1 (fill_i32): the 4 bytes at value differ"},
        {ELSEWHERE, "node 1 (copy_first): word +0 differs by"},
        {OWN, "node 1 (copy_first): word +0 differs by"},
        {NESTED, "node 1 (graph): a nested graph"},
        {KEPT, "node 1 (copy_first): word +0 is 0x"},
        {KEPT_MOVED, "node 1 (copy_first): word +0 is 0x"},
    };
    const ph_slot_span span = {.base = base[0], .shifted = AT(moved[0]), .bytes = BYTES};
    assert_ok(ph_malloc_pinned(&pinned, 64, 1, world.stream));
    assert_ok(ph_graph_create(&inner, NULL));
    scene plain = {base, PLAIN, false};
    capture(inner, scene_body, &plain);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ph_slot_proof proof = prove_scene(rows[i].which, span);
        assert_int_equal(proof.slot, PH_SLOT_NONE);
        assert_int_equal(proof.uses, 0);
        if (!strstr(proof.reason, rows[i].words))
            fail_msg("row %zu: %s", i, proof.reason);
    }
    ph_slot_proof proof = prove_scene(PLAIN, span);
    assert_int_equal(proof.slot, 0);
    assert_int_equal(proof.uses, 1);
    ph_graph_destroy(inner);
    ph_free_pinned(pinned, world.stream);
}

TEST(test_a_copy_beyond_the_span)
{
    ph_slot_span span = {.base = base[0], .shifted = AT(moved[0]), .bytes = BYTES - 4};
    ph_slot_proof proof = prove_scene(BEYOND, span);
    assert_int_equal(proof.slot, PH_SLOT_NONE);
    assert_non_null(strstr(proof.reason, "reach beyond span 0"));
    span.bytes = BYTES;
    assert_int_equal(prove_scene(BEYOND, span).uses, 2);
}

/* ---- spans ---- */
static ph_status aliased(ph_stream *stream, void *user)
{
    int32_t **inputs = user;
    PH_TRY(first(stream, inputs[0] + 3, out));
    return first(stream, inputs[1] + 3, out + 1);
}

/* One input given twice moves to two places. */
TEST(test_aliased_inputs)
{
    ph_slot_proof proofs[3];
    int32_t *same[] = {base[0], base[0]}, host[2];
    const ph_slot_span spans[] = {
        {.base = base[0], .shifted = AT(moved[0]), .bytes = BYTES, .name = "a"},
        {.base = base[0], .shifted = AT(moved[1]), .bytes = BYTES, .name = "b"},
        {.base = base[2], .shifted = AT(moved[2]), .bytes = BYTES, .name = "unused"},
    };
    capture(graph, aliased, same);
    capture(shifted, aliased, moved);
    assert_ok(ph_graph_slot_prove(proofs, graph, &shifted, 1, spans, 3));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(proofs[i].slot, i);
        assert_int_equal(proofs[i].uses, i < 2);
    }
    const ph_slot_value values[] = {{0, fresh[2]}, {1, fresh[3]}, {2, fresh[0]}};
    assert_ok(ph_graph_replay_with(graph, world.stream, values, 3));
    t_read(host, out, sizeof host, world.stream);
    assert_int_equal(host[0], 102);
    assert_int_equal(host[1], 103);
}

/* Views of one cache move together in one capture, and apart in another. */
TEST(inputs_that_move_alike_in_one_capture_are_told_apart_by_another)
{
    ph_slot_proof proofs[2];
    void *block;
    ph_graph *captures[2];
    assert_ok(ph_malloc(&block, 16 * (size_t)PAGE, 1, world.stream));
    int32_t *page = at_page(block, 1), *views[3][2];
    for (int i = 0; i < 3; i++) {
        views[i][0] = page + (2 * i) * PAGE / 4 + 64 * 7 * (i != 0);
        views[i][1] = views[i][0] + PAGE / 4 + 64 * (i == 2);
    }
    const ph_slot_span spans[] = {{.base = views[0][0],
                                   .shifted = AT(views[1][0], views[2][0]),
                                   .bytes = 64,
                                   .alignment = 4096},
                                  {.base = views[0][1],
                                   .shifted = AT(views[1][1], views[2][1]),
                                   .bytes = 64,
                                   .alignment = 4096}};
    capture(graph, aliased, views[0]);
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_create(&captures[i], NULL));
        capture(captures[i], aliased, views[i + 1]);
    }
    assert_ok(ph_graph_slot_prove(proofs, graph, captures, 2, spans, 2));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(proofs[i].slot, i);
        assert_int_equal(proofs[i].uses, 1);
        ph_graph_destroy(captures[i]);
    }
    ph_free(block, world.stream);
}

/* ---- address bits ---- */
static ph_slot_info info_of(size_t slot)
{
    ph_slot_info info;
    assert_ok(ph_graph_slot_get(&info, graph, slot));
    return info;
}

static ph_status reads(ph_stream *stream, void *user)
{
    return first(stream, user, out);
}

/* All captures had one place within a page, or few: more than that is not accepted. */
TEST(test_bits_that_stay)
{
    ph_slot_proof proof;
    void *block;
    assert_ok(ph_malloc(&block, 8 * (size_t)PAGE, 1, world.stream));
    int32_t *page = at_page(block, 1);
    const struct {
        int32_t *base, *at;
        size_t asked, alignment; /* 0: not proved */
    } rows[] = {
        {page, page + PAGE / 4, 0, PAGE},
        {page, page + PAGE / 4, PAGE, PAGE},
        {page, page + PAGE / 4, 256, 0},
        {page + 64, page + PAGE / 4 + 64, 0, 0},
        {page, page + PAGE / 4 - 128, 0, 512},
        {page, page + PAGE / 4 - 64, 0, 256},
        {page, page + PAGE / 4 - 64, 128, 0},
        {page, page + 5 * PAGE / 4 - 64, 512, 512},
        {page + 64, page + PAGE / 4 + 64 * 14, 0, 256},
        {page + 64, page + PAGE / 4 + 64 * 15, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const ph_slot_span span = {.base = rows[i].base,
                                   .shifted = AT(rows[i].at),
                                   .bytes = 64,
                                   .alignment = rows[i].asked};
        capture(graph, reads, rows[i].base);
        capture(shifted, reads, rows[i].at);
        assert_ok(ph_graph_slot_prove(&proof, graph, &shifted, 1, &span, 1));
        assert_int_equal(proof.slot == PH_SLOT_NONE, rows[i].alignment == 0);
        if (rows[i].alignment)
            assert_int_equal(info_of(proof.slot).alignment, rows[i].alignment);
        else
            assert_non_null(strstr(proof.reason, "are the same in all captures"));
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_graph_reset(shifted));
    }
    ph_free(block, world.stream);
}

/* Several captures show together what none does alone. */
TEST(test_several_captures)
{
    ph_slot_proof proof;
    void *block;
    ph_graph *captures[3];
    assert_ok(ph_malloc(&block, 16 * (size_t)PAGE, 1, world.stream));
    int32_t *page = at_page(block, 1), *at[3];
    const ptrdiff_t places[] = {64 * 5, 64 * 10, 0};
    for (int i = 0; i < 3; i++) {
        at[i] = page + (i + 1) * PAGE / 4 + places[i];
        assert_ok(ph_graph_create(&captures[i], NULL));
        capture(captures[i], reads, at[i]);
    }
    const ph_slot_span span = {
        .base = page, .shifted = AT(at[0], at[1], at[2]), .bytes = 64, .alignment = 256};
    capture(graph, reads, page);
    assert_ok(ph_graph_slot_prove(&proof, graph, captures, 1, &span, 1));
    assert_non_null(strstr(proof.reason, "address bits 0xa00 are the same in all captures"));
    assert_ok(ph_graph_slot_prove(&proof, graph, captures, 3, &span, 1));
    assert_int_equal(proof.uses, 1);
    assert_int_equal(info_of(proof.slot).alignment, 256);
    /* one of them is of something else */
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_reset(captures[1]));
    capture(graph, reads, page);
    capture(captures[1], reads, at[0]);
    assert_ok(ph_graph_slot_prove(&proof, graph, captures, 3, &span, 1));
    assert_int_equal(proof.slot, PH_SLOT_NONE);
    assert_non_null(strstr(proof.reason, "which is no input's distance"));
    for (int i = 0; i < 3; i++)
        ph_graph_destroy(captures[i]);
    ph_free(block, world.stream);
}

/* Two inputs at one place in the graph: which of them a word is of, each capture must say alike. */
TEST(test_captures_that_disagree)
{
    ph_slot_proof proofs[2];
    ph_graph *captures[2] = {shifted, NULL};
    const ph_slot_span spans[] = {
        {.base = base[0], .shifted = AT(moved[0], moved[2]), .bytes = BYTES},
        {.base = base[0], .shifted = AT(moved[1], moved[3]), .bytes = BYTES},
    };
    for (int same = 0; same < 2; same++) {
        capture(graph, reads, base[0]);
        capture(shifted, reads, moved[0]);
        assert_ok(ph_graph_create(&captures[1], NULL));
        capture(captures[1], reads, same ? moved[2] : moved[3]);
        assert_ok(ph_graph_slot_prove(proofs, graph, captures, 2, spans, 2));
        assert_int_equal(proofs[0].slot != PH_SLOT_NONE, same);
        if (!same)
            assert_non_null(
                strstr(proofs[0].reason, "is a use of span 1 in capture 1, and not in"));
        ph_graph_destroy(captures[1]);
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_graph_reset(shifted));
    }
}

static ph_status of_the_pool(ph_stream *stream, void *user)
{
    int32_t **made = user, *temporary;
    PH_TRY(PH_NEW(&temporary, N, stream));
    *made = temporary;
    return first(stream, temporary, out);
}

TEST(test_memory_of_the_captures_themselves)
{
    ph_slot_proof proof;
    int32_t *a = NULL, *b = NULL;
    capture(graph, of_the_pool, &a);
    capture(shifted, of_the_pool, &b);
    const ph_slot_span span = {.base = a, .shifted = AT(b), .bytes = BYTES};
    assert_ok(ph_graph_slot_prove(&proof, graph, &shifted, 1, &span, 1));
    assert_int_equal(proof.slot, PH_SLOT_NONE);
    assert_non_null(strstr(proof.reason, "memory of the captures themselves"));
    ph_free(a, world.stream);
    ph_free(b, world.stream);
}

TEST(wrong_arguments_are_refused)
{
    ph_slot_proof proofs[2];
    ph_graph *nothing_there = NULL;
    ph_slot_span spans[] = {{.base = base[0], .shifted = AT(moved[0]), .bytes = BYTES},
                            {.base = base[1], .shifted = AT(moved[1]), .bytes = BYTES}};
    capture(graph, aliased, base);
    capture(shifted, aliased, moved);
#define REFUSED(words)                                                                             \
    assert_error(ph_graph_slot_prove(proofs, graph, &shifted, 1, spans, 2), PH_ERROR_ARGUMENT,     \
                 (words));                                                                         \
    assert_int_equal(proofs[0].slot, PH_SLOT_NONE)
    assert_error(ph_graph_slot_prove(NULL, graph, &shifted, 1, spans, 2), PH_ERROR_ARGUMENT,
                 "out is NULL");
    assert_error(ph_graph_slot_prove(proofs, graph, &shifted, 1, NULL, 2), PH_ERROR_ARGUMENT,
                 "spans is NULL");
    assert_error(ph_graph_slot_prove(proofs, graph, NULL, 1, spans, 2), PH_ERROR_ARGUMENT,
                 "captures is NULL");
    assert_error(ph_graph_slot_prove(proofs, graph, &shifted, 0, spans, 2), PH_ERROR_ARGUMENT,
                 "0 captures");
    assert_error(ph_graph_slot_prove(proofs, graph, &nothing_there, 1, spans, 2), PH_ERROR_ARGUMENT,
                 "one of the captures is NULL");
    assert_error(ph_graph_slot_prove(proofs, graph, &graph, 1, spans, 2), PH_ERROR_ARGUMENT,
                 "the graph itself");
    spans[1].shifted = NULL;
    REFUSED("spans[1].shifted is NULL");
    spans[1].bytes = spans[0].bytes = 4;
    spans[1].shifted = AT(moved[0]);
    REFUSED("overlaps");
    spans[1].shifted = AT(base[1]);
    REFUSED("span 1 is not shifted");
    spans[1].shifted = AT(moved[1]);
    spans[1].alignment = 3;
    REFUSED("no power of two");
    spans[1].alignment = 0;
    spans[1].bytes = 0;
    REFUSED("a span of 0 bytes");
    spans[1].bytes = 4;
    spans[1].base = NULL;
    REFUSED("base is NULL");
    spans[1].base = base[1];
    spans[1].reserved[0] = 1;
    assert_status(ph_graph_slot_prove(proofs, graph, &shifted, 1, spans, 2), PH_ERROR_ARGUMENT);
    spans[1].reserved[0] = 0;
    spans[0].bytes = spans[1].bytes = BYTES;
    assert_ok(ph_graph_slot_prove(proofs, graph, &shifted, 1, spans, 2));
    assert_error(ph_graph_slot_prove(proofs, graph, &shifted, 1, spans, 2), PH_ERROR_STATE,
                 "are a place of slot 0");
    assert_int_equal(proofs[1].slot, PH_SLOT_NONE);
    assert_int_equal(ph_graph_slot_count(graph), 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_with_put, close_with_put)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_differences_that_nothing_explains),
        CASE(test_a_copy_beyond_the_span),
        CASE(test_aliased_inputs),
        CASE(inputs_that_move_alike_in_one_capture_are_told_apart_by_another),
        CASE(test_bits_that_stay),
        CASE(test_several_captures),
        CASE(test_captures_that_disagree),
        CASE(test_memory_of_the_captures_themselves),
        CASE(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("graph.slots_prove", tests, NULL, NULL);
}
