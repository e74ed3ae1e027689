/* SPDX-License-Identifier: MIT */
/* tests/support/cells.c: a graph whose body reads the cells of some sources. */
#include "support/cells.h"
#include "base/alloc.h"
#include <string.h>

cs_scene cs;

ph_status cs_values(uint64_t *values, void *user)
{
    cs_source *s = user;
    s->asked++;
    if (s->fails != PH_OK)
        return ph_fail(s->fails, "no value today");
    for (size_t i = 0; i < s->count; i++)
        values[i] = s->next + 100 * i;
    return PH_OK;
}

static void launched(void *user, bool went_out)
{
    cs_source *s = user;
    if (went_out)
        s->next += s->step;
    ++*(went_out ? &s->out : &s->stopped);
}

static void captured(void *user)
{
    ((cs_source *)user)->captured++;
}

static void released(void *user)
{
    ((cs_source *)user)->released++;
}

ph_status cs_make_of(uint64_t **out, ph_stream *stream, cs_source *s)
{
    const ph_cells_source how = {.count = s->count,
                                 .values = cs_values,
                                 .launched = launched,
                                 .captured = captured,
                                 .release = released,
                                 .user = s};
    return ph_cells_create(out, stream, &how);
}

ph_status cs_make(const cs_plan *p, ph_stream *stream)
{
    for (size_t i = 0; i < p->sources; i++) {
        cs.sources[i].count = p->count;
        PH_TRY(cs_make_of(cs.cells[i], stream, &cs.sources[i]));
    }
    return PH_OK;
}

/* One element a cell, in order. */
static ph_status read_all(const cs_plan *p, ph_stream *stream, uint64_t *to)
{
    for (size_t i = 0; i < p->sources; i++)
        for (size_t k = 0; k < p->count; k++)
            PH_TRY(ph_memcpy(to++, cs.cells[i][k], sizeof *to, stream));
    return PH_OK;
}

ph_status cs_body(ph_stream *stream, void *user)
{
    const cs_plan *p = user;
    size_t all = p->sources * p->count;
    PH_TRY(ph_memset(cs.y, 0xff, 2 * all * sizeof *cs.y, stream));
    if (p->fork && p->fork_first)
        PH_TRY(ph_stream_wait_stream(p->fork, stream));
    PH_TRY(cs_make(p, p->create_on_fork ? p->fork : stream));
    if (p->fork && !p->fork_first)
        PH_TRY(ph_stream_wait_stream(p->fork, stream));
    PH_TRY(ph_cells_require(stream));
    PH_TRY(read_all(p, stream, cs.y));
    if (!p->fork)
        return PH_OK;
    PH_TRY(ph_cells_require(p->fork));
    PH_TRY(ph_cells_require(p->fork)); /* nothing, the second time */
    PH_TRY(read_all(p, p->fork, cs.y + all));
    return ph_stream_wait_stream(stream, p->fork);
}

/* ---- a world ---- */
int cs_open(void **state)
{
    (void)state;
    t_open(&cs.world, NULL);
    assert_ok(ph_stream_create(&cs.side, cs.world.device, NULL));
    assert_ok(PH_NEW(&cs.y, 2 * CS_MOST * 4, cs.world.stream));
    assert_ok(ph_graph_create(&cs.graph, NULL));
    memset(cs.sources, 0, sizeof cs.sources);
    for (size_t i = 0; i < CS_MOST; i++)
        cs.sources[i] = (cs_source){.next = 1000 * (i + 1), .step = 1};
    return 0;
}

int cs_close(void **state)
{
    (void)state;
    ph_graph_destroy(cs.graph);
    assert_ok(ph_device_synchronize(cs.world.device));
    for (size_t i = 0; i < CS_MOST; i++)
        assert_true(cs.sources[i].captured <= cs.sources[i].released);
    ph_free(cs.y, cs.world.stream);
    ph_stream_destroy(cs.side);
    t_close(&cs.world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* Every cell as its source had it before the last replay. */
void cs_check(const cs_plan *p, ph_stream *stream, int forks)
{
    static uint64_t seen[2 * CS_MOST * 4];
    size_t all = p->sources * p->count;
    t_read(seen, cs.y, (size_t)(1 + forks) * all * sizeof *cs.y, stream);
    for (int f = 0; f <= forks; f++)
        for (size_t i = 0; i < p->sources; i++)
            for (size_t k = 0; k < p->count; k++)
                assert_int_equal(seen[(size_t)f * all + i * p->count + k],
                                 cs.sources[i].next - cs.sources[i].step + 100 * k);
}
