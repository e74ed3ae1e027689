/* SPDX-License-Identifier: MIT */
/* tests/cuda/inputs.c: inputs that only kernels of other code address, a program's own and
 * cuBLAS's, and those of batch memory operations and rows; memory of this library's, and from
 * cuMemAlloc. */
#include "program.h"
#include "support/fixture.h"
#include <dlfcn.h>
#include <phonograph/cuda.h>
#include <phonograph/inspect/locate.h>

enum {
    N = 256,
    BYTES = N * sizeof(int32_t)
};

/* t_deep(struct { void *unused; int *y; int value }): *y = value, unless that is 0: replays on
 * memory that was freed must not write it. */
static const char ptx[] = ".version 7.0\n.target sm_60\n.address_size 64\n"
                          ".visible .entry t_deep(.param .align 8 .b8 t_deep_param_0[24])\n{\n"
                          "    .reg .b64 %y;\n    .reg .b32 %value;\n"
                          "    .reg .pred %wanted;\n"
                          "    ld.param.u64 %y, [t_deep_param_0+8];\n"
                          "    ld.param.u32 %value, [t_deep_param_0+16];\n"
                          "    setp.ne.s32 %wanted, %value, 0;\n"
                          "    @%wanted st.u32 [%y], %value;\n    ret;\n}\n";
struct deep {
    const void *unused;
    int32_t *y;
    int32_t value, padding;
};

static void deep_on_host(const ph_block_range *range, const void *args)
{
    const struct deep *p = args;
    (void)range;
    if (p->value)
        *p->y = p->value;
}

static t_world world;
static ph__cu_context own;
static ph__cu_module module;
static ph__cu_function deep;
static ph_graph *graph;
static const ph_capture_options checked = {.check_input_liveness = true, .check_foreign_every = 1};

static const t_fixture fixture = {.world = &world, .graphs = {&graph}};

FIXTURE(open_world)
{
    if (fake_cuda())
        fake_cuda()->register_kernel("t_deep", deep_on_host);
    t_fixture_open(&fixture);
    program_load();
    own = primary(0);
    cu(CtxPushCurrent(own));
    cu(ModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    cu(ModuleGetFunction(&deep, module, "t_deep"));
    return 0;
}

FIXTURE(close_world)
{
    cu(ModuleUnload(module));
    pop(own);
    t_fixture_close(&fixture);
    cu(DevicePrimaryCtxRelease(0));
    return 0;
}

/* ---- memory: this library's, or the program's own ---- */
static void *take(bool foreign, size_t bytes)
{
    void *at = NULL;
    ph__cu_pointer address = 0;
    if (foreign) {
        cu(MemAlloc(&address, bytes));
        at = (void *)(uintptr_t)address;
    } else {
        assert_ok(ph_malloc(&at, 1, bytes, world.stream));
    }
    return at;
}

static void give(bool foreign, void *at)
{
    assert_ok(ph_stream_synchronize(world.stream));
    if (foreign)
        cu(MemFree((uintptr_t)at));
    else
        ph_free(at, world.stream);
}

/* The first input in the allocation that begins there; fails where there is none. */
static ph_input_info find(const void *base)
{
    size_t count;
    ph_input_info info = {0};
    assert_ok(ph_graph_input_count(&count, graph));
    for (size_t i = 0; i < count; i++) {
        assert_ok(ph_graph_input(&info, graph, i));
        if (info.base == base)
            return info;
    }
    fail_msg("no input of %zu lies at %p", count, base);
    return info;
}

static void begin(void)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, &checked));
}

static void end(void)
{
    assert_ok(ph_graph_capture_end(graph, PH_OK));
}

/* ---- a program's own kernel ---- by a list of parameters, and by a buffer of them. */
static void launch_value(int32_t *y, int32_t value, bool buffer)
{
    struct CUstream_st *raw;
    struct deep args = {NULL, y, value, 0};
    size_t size = sizeof args;
    void *params[] = {&args};
    void *extra[] = {PH__CU_LAUNCH_PARAM_BUFFER_POINTER, &args, PH__CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &size, PH__CU_LAUNCH_PARAM_END};
    assert_ok(ph_stream_cuda(&raw, world.stream));
    cu(LaunchKernel(deep, 1, 1, 1, 1, 1, 1, 0, raw, buffer ? NULL : params, buffer ? extra : NULL));
}

static void launch(int32_t *y, bool buffer)
{
    launch_value(y, 0, buffer);
}

static void own_kernel_of(bool foreign, bool buffer)
{
    int32_t *y = take(foreign, BYTES);
    begin();
    launch(y + 3, buffer);
    end();
    ph_input_info info = find(y);
    assert_int_equal(info.node, 0);
    assert_string_equal(info.node_name, "t_deep");
    assert_string_equal(info.word, "+8");
    assert_int_equal(info.offset, 8);
    assert_true(info.address == (uintptr_t)(y + 3));
    assert_true(info.bytes >= BYTES);
    assert_int_equal(info.foreign, foreign);
    assert_false(info.proved);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_check_inputs(graph));
    give(foreign, y);
    t_log_start();
    assert_ok(ph_graph_check_inputs(graph)); /* nothing proves that it is an address */
    assert_int_equal(t_log_count("node 0 (t_deep) +8 = 0x"), 1);
    t_log_stop();
    assert_int_equal(find(y).state, PH_INPUT_FREED);
    assert_ok(ph_graph_reset(graph));
    /* But for the word of the caller. */
    y = take(foreign, BYTES);
    begin();
    launch(y, buffer);
    assert_ok(ph_stream_declare_use(world.stream, y, "y"));
    end();
    assert_true(find(y).proved);
    assert_ok(ph_graph_replay(graph, world.stream));
    give(foreign, y);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "1 dead input");
    assert_non_null(strstr(ph_error_last()->message, "node 0 (t_deep) +8 = 0x"));
    assert_ok(ph_graph_reset(graph));
}

TEST(inputs_of_the_programs_own_kernel_are_found)
{
    for (int i = 0; i < 4; i++)
        own_kernel_of(i & 1, i & 2);
}

/* What a further capture proves is as certain as what the caller says. */
static void proved_by_a_capture_of(bool foreign)
{
    ph_graph *shifted;
    ph_slot_proof proof;
    int32_t *x = take(foreign, BYTES), *y = take(foreign, BYTES);
    void *block = take(foreign, 8192 + BYTES);
    const void *far_away = t_opposite(block, y);
    const ph_slot_span span = {.base = y, .shifted = &far_away, .bytes = BYTES};
    begin();
    launch(y, false);
    launch(x, false);
    end();
    assert_ok(ph_graph_create(&shifted, NULL));
    assert_ok(ph_graph_capture_begin(shifted, world.stream, NULL));
    launch((int32_t *)(uintptr_t)far_away, false);
    launch(x, false);
    assert_ok(ph_graph_capture_end(shifted, PH_OK));
    assert_false(find(y).proved);
    assert_ok(ph_graph_slot_prove(&proof, graph, &shifted, 1, &span, 1));
    assert_string_equal(proof.reason, "");
    assert_int_equal(proof.uses, 1);
    ph_graph_destroy(shifted);
    give(foreign, block);
    assert_true(find(y).proved);
    assert_false(find(x).proved);
    assert_ok(ph_graph_replay(graph, world.stream));
    /* x is dead, and not proved: one warning, which says how much is not proved */
    give(foreign, x);
    t_log_start();
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(t_log_count("of the graph's 2 addresses 1 are not proved"), 1);
    t_log_stop();
    /* y is dead, and proved */
    give(foreign, y);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "1 dead input: ");
    assert_non_null(strstr(ph_error_last()->message, "node 0 (t_deep) +8 = 0x"));
    assert_error(ph_graph_check_inputs(graph), PH_ERROR_STALE_INPUT, "1 dead input: ");
    assert_ok(ph_graph_reset(graph));
}

TEST(proved_by_a_capture)
{
    for (int foreign = 0; foreign < 2; foreign++)
        proved_by_a_capture_of(foreign);
}

/* ---- other nodes ---- */
/* A program that has all of its memory from cuMemAlloc, and all kernels from elsewhere: the record
 * tells the allocation, and a replay is compared with an eager run. */
static ph_status launch_deep(ph_stream *stream, void *user)
{
    (void)stream;
    launch_value(user, 5, false);
    return PH_OK;
}

TEST(a_program_of_its_own)
{
    int32_t *y = take(true, BYTES);
    const ph_record *record;
    ph_verify_result result;
    ph_word word;
    cu(MemsetD32Async((uintptr_t)y, 3, N, NULL));
    cu(CtxSynchronize());
    assert_ok(ph_graph_capture(graph, world.stream, NULL, launch_deep, y + 7));
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_word(&word, record, 0, 1));
    assert_int_equal(word.kind, PH_WORD_SUSPECTED);
    assert_true(word.foreign);
    assert_ptr_equal(word.base, y);
    assert_int_equal(word.allocation_bytes, BYTES);
    assert_ok(ph_record_word(&word, record, 0, 2));
    assert_int_equal(word.kind, PH_WORD_VALUE);
    assert_ok(ph_graph_verify(&result, graph, world.stream, launch_deep, y + 7, NULL));
    assert_int_equal(result.verdict, PH_VERIFY_EQUAL);
    assert_int_equal(result.compared, BYTES);
    assert_ok(ph_graph_verify(&result, graph, world.stream, launch_deep, y + 8, NULL));
    assert_int_equal(result.verdict, PH_VERIFY_NODE_DIFFERS);
    assert_non_null(strstr(result.message, "parameter +8 is 0x"));
    assert_ok(ph_graph_reset(graph));
    give(true, y);
}

/* Virtual memory: the driver tells the whole reservation, of which some has memory. What lies
 * around the address without a gap is compared. */
enum {
    PIECES = 8
};

static void map_piece(ph__cu_pointer at, size_t bytes, ph__cu_memory *memory)
{
    const ph__cu_location here = {.type = PH__CU_LOCATION_TYPE_DEVICE, .id = 0};
    const ph__cu_allocation what = {.type = PH__CU_ALLOCATION_TYPE_PINNED, .location = here};
    const ph__cu_access access = {.location = here, .flags = PH__CU_ACCESS_READWRITE};
    cu(MemCreate(memory, bytes, &what, 0));
    cu(MemMap(at, bytes, 0, *memory, 0));
    cu(MemSetAccess(at, bytes, &access, 1));
    cu(MemsetD32Async(at, 3, bytes / 4, NULL));
    cu(CtxSynchronize());
}

TEST(verification_saves_mapped_pieces_of_reserved_memory)
{
    static const size_t pieces[] = {2, 3, 5};
    const ph__cu_allocation what = {.type = PH__CU_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = PH__CU_LOCATION_TYPE_DEVICE, .id = 0}};
    ph__cu_memory memories[3];
    ph__cu_pointer base;
    ph_verify_result result;
    size_t unit;
    cu(MemGetAllocationGranularity(&unit, &what, 0));
    cu(MemAddressReserve(&base, PIECES * unit, 0, 0, 0));
    for (int i = 0; i < 3; i++)
        map_piece(base + pieces[i] * unit, unit, &memories[i]);
    for (size_t at = 2; at < 4; at++) { /* in either of the two that lie side by side */
        int32_t *y = (int32_t *)(uintptr_t)(base + at * unit) + 7;
        assert_ok(ph_graph_capture(graph, world.stream, NULL, launch_deep, y));
        assert_ok(ph_graph_verify(&result, graph, world.stream, launch_deep, y, NULL));
        assert_int_equal(result.verdict, PH_VERIFY_EQUAL);
        assert_int_equal(result.compared, 2 * unit);
        assert_int_equal(result.written, 2 * unit);
        assert_ok(ph_graph_verify(&result, graph, world.stream, launch_deep, y + 1, NULL));
        assert_int_equal(result.verdict, PH_VERIFY_NODE_DIFFERS);
        assert_ok(ph_graph_reset(graph));
    }
    for (int i = 0; i < 3; i++) {
        cu(MemUnmap(base + pieces[i] * unit, unit));
        cu(MemRelease(memories[i]));
    }
    cu(MemAddressFree(base, PIECES * unit));
}

TEST(batch_memory_operations)
{
    struct CUstream_st *raw;
    const ph_record *record;
    ph_node_info node;
    assert_ok(ph_stream_cuda(&raw, world.stream));
    for (int foreign = 0; foreign < 2; foreign++) {
        uint32_t *at = take(foreign, BYTES), host[4] = {0};
        ph__cu_mem_op ops[2] = {{.at = {.operation = PH__CU_MEM_OP_WRITE_VALUE_32,
                                        .address = (uintptr_t)at,
                                        .value = 7}},
                                {.at = {.operation = PH__CU_MEM_OP_WRITE_VALUE_64,
                                        .address = (uintptr_t)(at + 2),
                                        .value = 9}}};
        begin();
        int result = program.StreamBatchMemOp(raw, 2, ops, 0);
        if (result == PH__R_NOT_SUPPORTED) {
            ph_graph_capture_abort(graph);
            give(foreign, at);
            print_message("skipped: this GPU has no batch memory operations\n");
            skip();
        }
        assert_int_equal(result, 0);
        end();
        assert_ok(ph_graph_record(&record, graph));
        assert_ok(ph_record_node(&node, record, 0));
        assert_int_equal(node.kind, PH_NODE_BATCH_MEM_OP);
        assert_int_equal(node.word_count, 2);
        ph_input_info info = find(at);
        assert_string_equal(info.word, "op 0");
        assert_true(info.proved);
        assert_ok(ph_graph_replay(graph, world.stream));
        t_read(host, at, sizeof host, world.stream);
        assert_int_equal(host[0], 7);
        assert_int_equal(host[2], 9);
        give(foreign, at);
        assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                     "node 0 (batch_mem_op) op 0");
        assert_ok(ph_graph_reset(graph));
    }
}

TEST(memory_filled_by_rows_is_an_input)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        ph__cu_graph raw;
        ph__cu_node node;
        int32_t *x = take(foreign, BYTES);
        const ph__cu_fill_params params = {.dst = (uintptr_t)x,
                                           .pitch = 128,
                                           .value = 9,
                                           .element_bytes = sizeof *x,
                                           .width = 16,
                                           .height = 3};
        program(GraphCreate(&raw, 0));
        program(GraphAddMemsetNode(&node, raw, NULL, 0, &params, own));
        assert_ok(ph_graph_import_cuda(graph, world.device, raw, &checked));
        assert_string_equal(find(x).word, "dst");
        assert_ok(ph_graph_replay(graph, world.stream));
        give(foreign, x);
        assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                     "node 0 (memset) dst = 0x");
        assert_ok(ph_graph_reset(graph));
    }
}

/* ---- cuBLAS ---- its kernels' parameters: f32 plain, bf16 on newer GPUs as tensor maps, which
 * hold the address in the clear. */
typedef struct blas_functions {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, struct CUstream_st *stream);
    int (*set_workspace)(void *handle, void *at, size_t bytes);
    int (*gemm)(void *handle, int transa, int transb, int m, int n, int k, const void *alpha,
                const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                const void *beta, void *c, int c_type, int ldc, int compute, int algorithm);
} blas_functions;

static bool find_function(void *out, void *library, const char *name)
{
    void *address = dlsym(library, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

static bool load_blas(blas_functions *out)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12",
                                        "/usr/local/cuda/lib64/libcublas.so.13",
                                        "/usr/local/cuda/lib64/libcublas.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library && find_function(&out->create, library, "cublasCreate_v2") &&
           find_function(&out->destroy, library, "cublasDestroy_v2") &&
           find_function(&out->set_stream, library, "cublasSetStream_v2") &&
           find_function(&out->set_workspace, library, "cublasSetWorkspace_v2") &&
           find_function(&out->gemm, library, "cublasGemmEx");
}

enum {
    SIDE = 2048,
    REAL_32 = 0, /* cudaDataType */
    REAL_BF16 = 14,
    COMPUTE_32 = 68,
    WORKSPACE = 32 << 20
};

static void gemm(const blas_functions *blas, void *handle, int type, void *const m[3])
{
    static const float one = 1, zero = 0;
    assert_int_equal(blas->gemm(handle, 0, 0, SIDE, SIDE, SIDE, &one, m[0], type, SIDE, m[1], type,
                                SIDE, &zero, m[2], type, SIDE, COMPUTE_32, -1),
                     0);
}

static void product(const blas_functions *blas, void *handle, int type, bool foreign)
{
    size_t bytes = (size_t)SIDE * SIDE * (type == REAL_32 ? 4 : 2);
    void *m[3];
    for (int i = 0; i < 3; i++) {
        m[i] = take(foreign, bytes);
        assert_ok(ph_memset(m[i], 0, bytes, world.stream));
    }
    gemm(blas, handle, type, m);
    assert_ok(ph_stream_synchronize(world.stream));
    begin();
    gemm(blas, handle, type, m);
    end();
    for (int i = 0; i < 3; i++) {
        ph_input_info info = find(m[i]);
        assert_int_equal(info.foreign, foreign);
        assert_false(info.proved);
        assert_int_equal(info.state, PH_INPUT_LIVE);
        print_message("%s, %s: operand %d is word %s of %s\n", type == REAL_32 ? "f32" : "bf16",
                      foreign ? "cuMemAlloc" : "ph_malloc", i, info.word, info.node_name);
    }
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_reset(graph));
    begin();
    gemm(blas, handle, type, m);
    for (int i = 0; i < 3; i++)
        assert_ok(ph_stream_declare_use(world.stream, m[i], "operand"));
    end();
    for (int i = 0; i < 3; i++) {
        assert_true(find(m[i]).proved);
        /* it stands in the kernel's parameters */
        assert_true(find(m[i]).node != PH_INPUT_DECLARED);
    }
    assert_ok(ph_graph_replay(graph, world.stream));
    give(foreign, m[1]);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT, "1 dead input");
    assert_ok(ph_graph_reset(graph));
    give(foreign, m[0]);
    give(foreign, m[2]);
}

TEST(the_inputs_of_a_cublas_product_are_found)
{
    blas_functions blas;
    void *handle = NULL;
    struct CUstream_st *raw;
    if (fake_cuda() || !load_blas(&blas)) {
        print_message("skipped: it needs a GPU and cuBLAS\n");
        skip();
    }
    void *workspace = take(true, WORKSPACE);
    assert_int_equal(blas.create(&handle), 0);
    assert_ok(ph_stream_cuda(&raw, world.stream));
    assert_int_equal(blas.set_stream(handle, raw), 0);
    assert_int_equal(blas.set_workspace(handle, workspace, WORKSPACE), 0);
    for (int i = 0; i < 4; i++)
        product(&blas, handle, i & 1 ? REAL_BF16 : REAL_32, i & 2);
    assert_int_equal(blas.destroy(handle), 0);
    give(true, workspace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(inputs_of_the_programs_own_kernel_are_found),
        IN_WORLD(a_program_of_its_own),
        IN_WORLD(verification_saves_mapped_pieces_of_reserved_memory),
        IN_WORLD(batch_memory_operations),
        IN_WORLD(memory_filled_by_rows_is_an_input),
        IN_WORLD(proved_by_a_capture),
        IN_WORLD(the_inputs_of_a_cublas_product_are_found)};
    return cmocka_run_group_tests_name("cuda.inputs", tests, NULL, NULL);
}
