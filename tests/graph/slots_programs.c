/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_programs.c: random programs whose slots, proved by two captures, compute
 * what a fresh capture computes. */
#include "slots_proved.h"

#include "base/rng.h"
#include "support/test.h"

enum {
    STEPS = 24
};

static void spans_of(ph_slot_span spans[INPUTS])
{
    for (int i = 0; i < INPUTS; i++)
        spans[i] = (ph_slot_span){
            .base = base[i], .shifted = &moved_at[i], .bytes = BYTES, .alignment = 4};
}

/* ---- random programs ---- */
typedef struct program {
    uint64_t seed;
    int32_t **inputs;
    int32_t *out;
} program;

/* Every step reads some place of some input, mixes it into memory of the capture's own, and
 * leaves a word in `out`. */
static ph_status step(ph_stream *stream, const program *p, int32_t *temporary, ph__rng *rng,
                      size_t at)
{
    const int32_t *in = p->inputs[ph__rng_below(rng, INPUTS)];
    size_t offset = ph__rng_below(rng, N / 2), count = 1 + ph__rng_below(rng, N / 2 - 1);
    switch (ph__rng_below(rng, 4)) {
    case 0:
        PH_TRY(t_add(&world, stream, in + offset, temporary, count, 1));
        break;
    case 1:
        PH_TRY(ph_memcpy(temporary, in + offset, count * sizeof *in, stream));
        break;
    case 2:
        PH_TRY(first(stream, in + offset, temporary));
        break;
    default:
        PH_TRY(ph_memset_u32(temporary, (uint32_t)offset, count, stream));
    }
    return first(stream, temporary, p->out + at);
}

static ph_status random_body(ph_stream *stream, void *user)
{
    const program *p = user;
    ph__rng rng = {p->seed};
    int32_t *temporary;
    PH_TRY(PH_NEW(&temporary, N, stream));
    ph_status status = ph_memset(temporary, 0, BYTES, stream);
    for (size_t i = 0; i < STEPS && status == PH_OK; i++)
        status = step(stream, p, temporary, &rng, i);
    ph_free(temporary, stream);
    return status;
}

static void compare_with_a_fresh_capture(const program *p, const ph_slot_proof *proofs)
{
    ph_slot_value values[INPUTS];
    int32_t got[STEPS], want[STEPS];
    ph_graph *another;
    for (int i = 0; i < INPUTS; i++)
        values[i] = (ph_slot_value){proofs[i].slot, fresh[i]};
    assert_ok(ph_memset(out, 0, BYTES, world.stream));
    assert_ok(ph_graph_replay_with(graph, world.stream, values, INPUTS));
    t_read(got, out, sizeof got, world.stream);
    program q = {p->seed, fresh, out};
    assert_ok(ph_graph_create(&another, NULL));
    capture(another, random_body, &q);
    assert_ok(ph_memset(out, 0, BYTES, world.stream));
    assert_ok(ph_graph_replay(another, world.stream));
    t_read(want, out, sizeof want, world.stream);
    assert_memory_equal(got, want, sizeof got);
    ph_graph_destroy(another);
}

TEST(test_random_programs)
{
    for (uint64_t seed = 1; seed <= (t_nightly() ? 2000 : 60); seed++) {
        ph_slot_span spans[INPUTS];
        ph_slot_proof proofs[INPUTS];
        program p = {seed, base, out};
        capture(graph, random_body, &p);
        p.inputs = moved;
        capture(shifted, random_body, &p);
        spans_of(spans);
        assert_ok(ph_graph_slot_prove(proofs, graph, &shifted, 1, spans, INPUTS));
        assert_ok(ph_graph_reset(shifted));
        for (int i = 0; i < INPUTS; i++) {
            assert_string_equal(proofs[i].reason, "");
            assert_int_equal(proofs[i].slot, (size_t)i);
        }
        compare_with_a_fresh_capture(&p, proofs);
        assert_ok(ph_graph_reset(graph));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_random_programs),
    };
    return cmocka_run_group_tests_name("graph.slots_programs", tests, NULL, NULL);
}
