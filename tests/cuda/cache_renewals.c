/* SPDX-License-Identifier: MIT */
/* tests/cuda/cache_renewals.c: executables of kernels that this library did not load are made anew,
 * too, and their grids are read back now and then alone. */
#include "module.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <unistd.h>

enum {
    NODES = 5,
    CALM = 6,
    PATIENCE = 20000
};

static const char ptx[] = ".version 7.0\n.target sm_60\n.address_size 64\n"
                          ".visible .entry t_put(.param .u64 t_put_param_0, .param .u32 "
                          "t_put_param_1)\n"
                          "{\n    .reg .b64 %y;\n    .reg .b32 %v;\n    ld.param.u64 %y, "
                          "[t_put_param_0];\n    ld.param.u32 %v, [t_put_param_1];\n"
                          "    st.u32 [%y], %v;\n    ret;\n}\n";

static void put_on_host(const ph_block_range *range, const void *args)
{
    struct {
        int32_t *y;
        int32_t value;
    } p;
    (void)range;
    memcpy(&p, args, sizeof p);
    *p.y = p.value;
}

static ph__cu_function put;
static int32_t *y, value;
static ph_graph_cache *cache;

FIXTURE(open_world)
{
    if (fake_cuda())
        fake_cuda()->register_kernel("t_put", put_on_host);
    module_open(ptx);
    put = module_function("t_put");
    assert_ok(PH_NEW(&y, NODES, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

FIXTURE(close_world)
{
    ph_free(y, world.stream);
    module_close();
    return 0;
}

/* y[i] = value + i, which no value explains but the first one. */
static ph_status launch_raw(ph_stream *stream, void *grid)
{
    struct CUstream_st *native;
    PH_TRY(ph_stream_cuda(&native, stream));
    for (int32_t i = 0; i < NODES; i++) {
        int32_t *at = y + i, number = value + i;
        void *params[] = {&at, &number};
        cu(LaunchKernel(put, *(unsigned *)grid, 1, 1, 1, 1, 1, 0, native, params, NULL));
    }
    return PH_OK;
}

static void run(unsigned grid, ph_graph_cache_path path)
{
    ph_graph_cache_result result;
    int32_t got[NODES];
    value++;
    const ph_graph_cache_value values[] = {{&value, sizeof value}};
    assert_ok(ph_graph_cache_run(cache, world.stream,
                                 &(ph_graph_cache_call){.key = "raw",
                                                        .key_bytes = 3,
                                                        .body = launch_raw,
                                                        .user = &grid,
                                                        .values = values,
                                                        .value_count = 1},
                                 &result));
    assert_int_equal(result.path, path);
    assert_ok(ph_memcpy(got, y, sizeof got, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    for (int32_t i = 0; i < NODES; i++)
        assert_int_equal(got[i], value + i);
}

static uint64_t count_renewed(void)
{
    ph_graph_cache_stats stats;
    assert_ok(ph_graph_cache_get_stats(&stats, cache));
    return stats.renewed;
}

static int64_t count_reads(void)
{
    return fake_cuda() ? fake_cuda()->calls_of("cuGraphKernelNodeGetParams") : 0;
}

TEST(executables_of_raw_kernels_are_made_anew)
{
    ph_graph_cache_entry entry;
    assert_ok(ph_graph_cache_create(&cache, world.device,
                                    &(ph_graph_cache_options){.after = PH_ZERO,
                                                              .fallback = PH_CACHE_FALLBACK_UPDATE,
                                                              .renew_after = CALM}));
    run(1, PH_CACHE_CAPTURED);
    for (int i = 0; i < 4; i++) /* three of them to learn from, in vain */
        run(1, PH_CACHE_UPDATED);
    int64_t reads = count_reads();
    run(2, PH_CACHE_UPDATED);
    run(2, PH_CACHE_UPDATED);
    assert_int_equal(count_reads(), reads);
    for (int i = 0; i < PATIENCE && count_renewed() == 0; i++) {
        run(2, PH_CACHE_UPDATED);
        usleep(100);
    }
    assert_int_equal(count_renewed(), 1);
    assert_ok(ph_graph_cache_entry_at(&entry, cache, 0));
    assert_int_equal(entry.demoted, 0);
    int64_t slower = fake_cuda() ? fake_cuda()->demoted_launches() : 0;
    for (int i = 0; i < 3 * CALM; i++)
        run(2, PH_CACHE_UPDATED);
    assert_int_equal(fake_cuda() ? fake_cuda()->demoted_launches() : 0, slower);
    assert_int_equal(count_renewed(), 1);
    ph_graph_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_WORLD(executables_of_raw_kernels_are_made_anew)};
    return cmocka_run_group_tests_name("cuda.cache_renewals", tests, NULL, NULL);
}
