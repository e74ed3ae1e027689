/* SPDX-License-Identifier: MIT */
/* tests/tensor/npy.c: .npy files: what is written, what is read, and what is refused. */
#include "support/files.h"
#include "support/tensors.h"
#include "support/test.h"

static const char *const names[] = {"a.npy", "b.npy", "pipe"};
enum {
    NAMES = sizeof names / sizeof *names,
    ROOM = 4096
};

typedef struct scene {
    t_scene s;
    t_folder folder;
} scene;

static void open_scene(scene *c)
{
    t_scene_open(&c->s);
    t_folder_open(&c->folder);
}

static void close_scene(scene *c)
{
    t_folder_close(&c->folder, names, NAMES);
    t_scene_close(&c->s);
}

/* A file with this text as its header (padded as NumPy does it), then the data. */
static const char *put(scene *c, int major, const char *text, const void *data, size_t bytes)
{
    unsigned char all[ROOM];
    size_t start = major == 1 ? 10 : 12, length = strlen(text) + 1;
    while ((start + length) % 64 != 0)
        length++;
    memcpy(all, "\x93NUMPY", 6);
    all[6] = (unsigned char)major;
    all[7] = 0;
    all[8] = (unsigned char)length;
    all[9] = (unsigned char)(length >> 8);
    all[10] = all[11] = 0;
    memset(all + start, ' ', length);
    memcpy(all + start, text, strlen(text));
    all[start + length - 1] = '\n';
    if (bytes > 0)
        memcpy(all + start + length, data, bytes);
    return t_put_file(&c->folder, "a.npy", all, start + length + bytes);
}

static const float six[] = {1, 2, 3, 4, 5, 6};

TEST(headers_of_all_versions_and_orders_are_read)
{
    scene c;
    open_scene(&c);
    static const struct {
        int major;
        const char *text;
        bool fortran;
    } good[] = {
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", false},
        {2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", false},
        {3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", false},
        {1, "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}", false},
        {1, " { 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' , 'fortran_order' : False } ", false},
        {1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", true}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ph_tensor *x;
        assert_ok(ph_npy_read(&x, c.s.tape, put(&c, good[i].major, good[i].text, six, sizeof six)));
        if (good[i].fortran)
            t_expect_values(c.s.tape, x, PH_SHAPE(2, 3), 1, 3, 5, 2, 4, 6);
        else
            t_expect(c.s.tape, x, PH_SHAPE(2, 3), six);
        assert_true(ph_tensor_is_contiguous(x));
        assert_true(ph_tensor_is_leaf(x));
        ph_tensor_release(x);
    }
    ph_tensor *x;
    assert_ok(ph_npy_read(
        &x, c.s.tape, put(&c, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", six, 4)));
    t_expect(c.s.tape, x, PH_SCALAR, six);
    ph_tensor_release(x);
    assert_ok(
        ph_npy_read(&x, c.s.tape,
                    put(&c, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3,)}", six, 12)));
    t_expect(c.s.tape, x, PH_SHAPE(3), six);
    ph_tensor_release(x);
    assert_ok(ph_npy_read(
        &x, c.s.tape,
        put(&c, 1, "{'descr': '<i8', 'fortran_order': True, 'shape': (0, 3)}", six, 0)));
    assert_int_equal(ph_tensor_dtype(x), PH_DTYPE_I64);
    assert_int_equal(ph_tensor_dim(x, 1), 3);
    ph_tensor_release(x);
    assert_ok(ph_npy_read(
        &x, c.s.tape,
        put(&c, 1, "{'descr': '=u1', 'fortran_order': False, 'shape': (2,)}", "\7\377", 2)));
    assert_int_equal(ph_tensor_dtype(x), PH_DTYPE_U8);
    ph_tensor_release(x);
    assert_ok(ph_npy_read(
        &x, c.s.tape,
        put(&c, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\0\1", 2)));
    assert_int_equal(ph_tensor_dtype(x), PH_DTYPE_BOOL);
    ph_tensor_release(x);
    close_scene(&c);
}

TEST(test_round_trip)
{
    scene c;
    open_scene(&c);
    static const ph_shape shapes[] = {{0, {0}},    {1, {5}},       {1, {0}},
                                      {2, {3, 4}}, {3, {2, 0, 3}}, {8, {1, 2, 1, 2, 1, 2, 1, 2}}};
    for (int dtype = PH_DTYPE_F32; dtype <= PH_DTYPE_BOOL; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && dtype != PH_DTYPE_BF16; i++) {
            unsigned char bytes[256], got[256];
            ph_tensor *x, *y;
            assert_ok(ph_tensor_create(&x, c.s.device, (ph_dtype)dtype, shapes[i]));
            for (size_t k = 0; k < sizeof bytes; k++)
                bytes[k] = (unsigned char)(dtype == PH_DTYPE_BOOL ? k % 3 == 1 : k * 37 + i);
            assert_ok(ph_tensor_write(c.s.tape, x, bytes, ph_tensor_bytes(x)));
            assert_ok(ph_npy_write(c.s.tape, x, t_inside(&c.folder, "a.npy")));
            assert_ok(ph_npy_read(&y, c.s.tape, c.folder.name));
            assert_int_equal(ph_tensor_dtype(y), dtype);
            ph_shape shape = ph_tensor_shape(y);
            assert_true(ph_shape_equal(&shape, &shapes[i]));
            assert_ok(ph_tensor_read(c.s.tape, y, got, ph_tensor_bytes(y)));
            assert_memory_equal(got, bytes, ph_tensor_bytes(y));
            ph_tensor_release(x);
            ph_tensor_release(y);
        }
    close_scene(&c);
}

/* To the byte what NumPy writes. */
TEST(test_written_bytes)
{
    scene c;
    open_scene(&c);
    char got[ROOM], want[ROOM];
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
    memcpy(want, "\x93NUMPY\1\0\166\0", 10);
    memset(want + 10, ' ', 118);
    memcpy(want + 10, text, sizeof text - 1);
    want[127] = '\n';
    memcpy(want + 128, (const float[]){1, 4, 2, 5, 3, 6}, 24);
    ph_tensor *x = ph_from_memory(c.s.tape, PH_DTYPE_F32, PH_SHAPE(2, 3), six);
    assert_ok(
        ph_npy_write(c.s.tape, ph_transpose(c.s.tape, x, 0, 1), t_inside(&c.folder, "a.npy")));
    assert_int_equal(t_get_file(&c.folder, "a.npy", got, sizeof got), 152);
    assert_memory_equal(got, want, 152);
    assert_ok(ph_npy_write(c.s.tape, ph_slice(c.s.tape, ph_flatten(c.s.tape, x, 0, 1), 0, 0, 1),
                           t_inside(&c.folder, "a.npy")));
    assert_int_equal(t_get_file(&c.folder, "a.npy", got, sizeof got), 132);
    assert_non_null(strstr(got + 10, "'shape': (1,), }"));
    assert_ok(ph_tape_clear(c.s.tape));
    close_scene(&c);
}

TEST(malformed_npy_headers_are_refused_with_their_reason)
{
    scene c;
    open_scene(&c);
#define WITH(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape "}"
#define OF(descr)   "{'descr': " descr ", 'fortran_order': False, 'shape': (6,)}"
    static const struct {
        const char *text;
        ph_status status;
        const char *words;
    } bad[] = {
        {WITH("(7,)"), PH_ERROR_SIZE, "24 bytes behind its header, which speaks of 28"},
        {WITH("(5,)"), PH_ERROR_SIZE, "which speaks of 20"},
        {WITH("(6)"), PH_ERROR_ARGUMENT, "ends in a comma"},
        {WITH("(-6,)"), PH_ERROR_ARGUMENT, "a dimension must stand here"},
        {WITH("(9223372036854775808,)"), PH_ERROR_ARGUMENT, "beyond 63 bits"},
        {WITH("(4611686018427387904, 4)"), PH_ERROR_SIZE, "more elements than any memory"},
        {WITH("(0, 4611686018427387904, 4)"), PH_ERROR_SIZE, "more elements than any memory"},
        {WITH("(1, 1, 1, 1, 1, 1, 1, 1, 6)"), PH_ERROR_UNSUPPORTED, "more than 8 dimensions"},
        {WITH("(2 3)"), PH_ERROR_ARGUMENT, "a comma must stand here"},
        {WITH("(2,, 3)"), PH_ERROR_ARGUMENT, "a dimension must stand here"},
        {WITH("[6]"), PH_ERROR_ARGUMENT, "a shape must stand here"},
        {WITH("(6,"), PH_ERROR_ARGUMENT, "a dimension must stand here"},
        {OF("'>f4'"), PH_ERROR_UNSUPPORTED, "the dtype '>f4'"},
        {OF("'|f4'"), PH_ERROR_UNSUPPORTED, "the dtype '|f4'"},
        {OF("''"), PH_ERROR_UNSUPPORTED, "the dtype ''"},
        {OF("'<c8'"), PH_ERROR_UNSUPPORTED, "the dtype '<c8'"},
        {OF("'|O'"), PH_ERROR_UNSUPPORTED, "the dtype '|O'"},
        {OF("[('a', '<f4')]"), PH_ERROR_UNSUPPORTED, "structured"},
        {OF("'<f4"), PH_ERROR_UNSUPPORTED, "the dtype '<f4, '"},
        {OF("7"), PH_ERROR_ARGUMENT, "a string must stand here"},
        {OF("'\\x3cf4'"), PH_ERROR_ARGUMENT, "nothing known"},
        {OF("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"), PH_ERROR_ARGUMENT,
         "nothing known"},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (6,)}", PH_ERROR_ARGUMENT,
         "True or False"},
        {"{'descr': '<f4', 'fortran_order': False}", PH_ERROR_ARGUMENT, "is missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (6,)}", PH_ERROR_ARGUMENT, "twice"},
        {"{'descr': '<f4', 'colour': 'red'}", PH_ERROR_ARGUMENT, "an unknown key"},
        {"{'descr' '<f4'}", PH_ERROR_ARGUMENT, "a colon"},
        {"{'descr': '<f4' 'shape': (6,)}", PH_ERROR_ARGUMENT, "a comma"},
        {"{}", PH_ERROR_ARGUMENT, "is missing"},
        {"", PH_ERROR_ARGUMENT, "a dictionary must stand here"},
        {"{", PH_ERROR_ARGUMENT, "a string must stand here"},
        {"{'descr", PH_ERROR_ARGUMENT, "a string without an end"},
        {WITH("(6,)") "x", PH_ERROR_ARGUMENT, "something behind"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ph_tensor *x = (ph_tensor *)&c;
        assert_error(ph_npy_read(&x, c.s.tape, put(&c, 1, bad[i].text, six, sizeof six)),
                     bad[i].status, bad[i].words);
        assert_null(x);
        assert_ok(ph_tape_status(c.s.tape)); /* a bad file is no fault of the tape's */
    }
    ph_tensor *x;
    assert_error(ph_npy_read(&x, c.s.tape,
                             put(&c, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}",
                                 "\0\1\2", 3)),
                 PH_ERROR_ARGUMENT, "byte 130 is 2, and a bool is 0 or 1");
    close_scene(&c);
}

TEST(test_hostile_start)
{
    scene c;
    open_scene(&c);
    static const struct {
        const char *bytes;
        size_t size;
        ph_status status;
        const char *words;
    } bad[] = {
        {"", 0, PH_ERROR_ARGUMENT, "does not begin like one"},
        {"\x93NUMPY\1\0\0", 9, PH_ERROR_ARGUMENT, "does not begin like one"},
        {"PK\3\4aaaaaaaaaa", 14, PH_ERROR_ARGUMENT, "does not begin like one"},
        {"\x93NUMPY\0\0\0\0aaaa", 14, PH_ERROR_UNSUPPORTED, "version 0.0"},
        {"\x93NUMPY\4\0\0\0aaaa", 14, PH_ERROR_UNSUPPORTED, "version 4.0"},
        {"\x93NUMPY\1\1\0\0aaaa", 14, PH_ERROR_UNSUPPORTED, "version 1.1"},
        {"\x93NUMPY\1\0\5\0{}  ", 14, PH_ERROR_SIZE, "ends within its header of 5"},
        {"\x93NUMPY\2\0\0\0", 10, PH_ERROR_SIZE, "ends within"},
        {"\x93NUMPY\2\0\377\377\377\377{}", 14, PH_ERROR_SIZE, "a header of 4294967295 bytes"},
        {"\x93NUMPY\2\0\0\0\1\0{}", 14, PH_ERROR_SIZE, "ends within its header of 65536"},
        {"\x93NUMPY\2\0\0\0\0\0", 12, PH_ERROR_ARGUMENT, "a dictionary"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ph_tensor *x;
        assert_error(
            ph_npy_read(&x, c.s.tape, t_put_file(&c.folder, "a.npy", bad[i].bytes, bad[i].size)),
            bad[i].status, bad[i].words);
        assert_null(x);
    }
    close_scene(&c);
}

TEST(misuse_is_refused)
{
    scene c;
    open_scene(&c);
    ph_tensor *x, *y = ph_zeros(c.s.tape, PH_DTYPE_F32, PH_SHAPE(2)),
                  *half = ph_zeros(c.s.tape, PH_DTYPE_BF16, PH_SHAPE(2));
    const char *path = t_inside(&c.folder, "a.npy");
    assert_error(ph_npy_read(NULL, c.s.tape, path), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_npy_read(&x, NULL, path), PH_ERROR_ARGUMENT, "tape");
    assert_error(ph_npy_read(&x, c.s.tape, NULL), PH_ERROR_ARGUMENT, "path");
    assert_error(ph_npy_read(&x, c.s.tape, path), PH_ERROR_IO, "open failed: No such file");
    assert_native(2);
    assert_error(ph_npy_read(&x, c.s.tape, c.folder.path), PH_ERROR_IO, "no regular file");
    assert_int_equal(mkfifo(t_inside(&c.folder, "pipe"), 0600), 0);
    assert_error(ph_npy_read(&x, c.s.tape, c.folder.name), PH_ERROR_IO, "no regular file");
    path = t_inside(&c.folder, "a.npy");
    assert_error(ph_npy_write(NULL, y, path), PH_ERROR_ARGUMENT, "tape");
    assert_error(ph_npy_write(c.s.tape, NULL, path), PH_ERROR_ARGUMENT, "x is NULL");
    assert_error(ph_npy_write(c.s.tape, y, NULL), PH_ERROR_ARGUMENT, "path");
    assert_error(ph_npy_write(c.s.tape, half, path), PH_ERROR_UNSUPPORTED, "bf16[2]");
    assert_error(ph_npy_write(c.s.tape, y, t_inside(&c.folder, "none/b.npy")), PH_ERROR_IO,
                 "open failed");
    assert_ok(ph_tape_clear(c.s.tape));
    ph_tape_fail(c.s.tape, PH_ERROR_CALLER, "the first one");
    assert_error(ph_npy_read(&x, c.s.tape, path), PH_ERROR_CALLER, "the first one");
    assert_error(ph_npy_write(c.s.tape, y, path), PH_ERROR_CALLER, "the first one");
    assert_error(ph_tape_clear(c.s.tape), PH_ERROR_CALLER, "the first one");
    close_scene(&c);
}

static ph_status in_capture(ph_stream *stream, void *user)
{
    scene *c = user;
    ph_tensor *x;
    (void)stream;
    ph_tensor *y = ph_zeros(c->s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    assert_error(ph_npy_write(c->s.tape, y, t_inside(&c->folder, "b.npy")), PH_ERROR_CAPTURE,
                 "ph_npy_write: waits");
    assert_native(900);
    assert_error(ph_npy_read(&x, c->s.tape, t_inside(&c->folder, "b.npy")), PH_ERROR_CAPTURE,
                 "ph_npy_read: waits");
    return ph_tape_clear(c->s.tape);
}

TEST(npy_files_are_refused_in_a_capture)
{
    scene c;
    ph_graph *graph;
    open_scene(&c);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, c.s.stream, NULL, in_capture, &c));
    ph_graph_destroy(graph);
    close_scene(&c);
}

/* More than one piece. */
TEST(a_large_array_is_written_and_read_in_pieces)
{
    scene c;
    ph_tensor *x;
    double item;
    open_scene(&c);
    int64_t count = 3 * 1000 * 1000;
    assert_ok(ph_npy_write(c.s.tape, ph_arange(c.s.tape, PH_DTYPE_I32, 0, 1, count),
                           t_inside(&c.folder, "a.npy")));
    assert_ok(ph_npy_read(&x, c.s.tape, c.folder.name));
    for (int64_t i = 0; i < count; i += 99991) {
        assert_ok(ph_tensor_item(&item, c.s.tape, ph_select(c.s.tape, x, 0, i)));
        assert_true(item == (double)i);
    }
    ph_tensor_release(x);
    assert_ok(ph_tape_clear(c.s.tape));
    close_scene(&c);
}

/* A write that fails leaves what was there, and nothing beside it. */
TEST(a_failed_write_leaves_the_npy_file_there_was)
{
    for (int64_t n = 0;; n++) {
        scene c;
        open_scene(&c);
        (void)put(&c, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", six,
                  sizeof six);
        (void)t_put_file(&c.folder, "b.npy", "before", 6);
        char path[160], got[ROOM];
        (void)snprintf(path, sizeof path, "%s/b.npy", c.folder.path);
        ph_tensor *x = NULL;
        (void)t_inside(&c.folder, "a.npy");
        ph__alloc_fail_after(n);
        ph_status status = ph_npy_read(&x, c.s.tape, c.folder.name);
        if (status == PH_OK)
            status = ph_npy_write(c.s.tape, x, path);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        size_t size = t_get_file(&c.folder, "b.npy", got, sizeof got);
        assert_true(status == PH_OK ? size > 128 : size == 6 && memcmp(got, "before", 6) == 0);
        ph_tensor_release(x);
        ph_ignore(ph_tape_clear(c.s.tape));
        close_scene(&c);
        if (status == PH_OK) {
            assert_true(n > 10);
            break;
        }
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
    }
}

int main(void)
{
    t_hold_context();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_of_all_versions_and_orders_are_read),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_written_bytes),
        cmocka_unit_test(malformed_npy_headers_are_refused_with_their_reason),
        cmocka_unit_test(test_hostile_start),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(npy_files_are_refused_in_a_capture),
        cmocka_unit_test(a_large_array_is_written_and_read_in_pieces),
        cmocka_unit_test(a_failed_write_leaves_the_npy_file_there_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
