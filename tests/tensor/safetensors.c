/* SPDX-License-Identifier: MIT */
/* tests/tensor/safetensors.c: safetensors files: what is written, what is read, and what is
 * refused. */
#include "support/files.h"
#include "support/tensors.h"
#include "support/test.h"

static const char *const names[] = {"a", "b", "pipe"};
enum {
    NAMES = sizeof names / sizeof *names,
    ROOM = 8192
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

/* A file with this header, then so many bytes 0, 1, 2 ... */
static const char *put(scene *c, const char *header, size_t bytes)
{
    unsigned char all[ROOM] = {0};
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++)
        all[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(all + 8, header, length);
    for (size_t i = 0; i < bytes; i++)
        all[8 + length + i] = (unsigned char)i;
    return t_put_file(&c->folder, "a", all, 8 + length + bytes);
}

TEST(names_dtypes_shapes_and_bytes_are_read)
{
    scene c;
    ph_safetensors *file;
    ph_tensor *x;
    const char *name;
    ph_dtype dtype;
    ph_shape shape;
    unsigned char got[16];
    open_scene(&c);
    assert_ok(ph_safetensors_open(
        &file,
        put(&c,
            "{\"w\\u00e9\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[4,10]},"
            "\"__metadata__\":{\"format\":\"pt\",\"a\":\"\"},"
            "\"b\":{\"data_offsets\":[0,4],\"dtype\":\"F32\",\"shape\":[]},"
            "\"odd\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[10,13]},"
            "\"deep\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[13,14]},"
            "\"empty\":{\"dtype\":\"I64\",\"shape\":[0,5],\"data_offsets\":[4,4]}}   ",
            14)));
    assert_int_equal(ph_safetensors_count(file), 5);
    static const struct {
        const char *name;
        ph_dtype dtype;
        ph_shape shape;
    } want[] = {{"b", PH_DTYPE_F32, {0, {0}}},
                {"deep", (ph_dtype)0, {0, {0}}},
                {"empty", PH_DTYPE_I64, {2, {0, 5}}},
                {"odd", (ph_dtype)0, {0, {0}}},
                {"w\xc3\xa9", PH_DTYPE_U8, {2, {2, 3}}}};
    for (size_t i = 0; i < 5; i++) {
        assert_ok(ph_safetensors_entry(&name, &dtype, &shape, file, i));
        assert_string_equal(name, want[i].name);
        assert_int_equal(dtype, want[i].dtype);
        assert_true(ph_shape_equal(&shape, &want[i].shape));
    }
    assert_error(ph_safetensors_entry(NULL, NULL, NULL, file, 5), PH_ERROR_NOT_FOUND, "no entry 5");
    assert_string_equal(ph_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(ph_safetensors_metadata(file, "a"), "");
    assert_null(ph_safetensors_metadata(file, "none"));
    assert_ok(ph_safetensors_read(&x, c.s.tape, file, "w\xc3\xa9"));
    assert_ok(ph_tensor_read(c.s.tape, x, got, 6));
    assert_memory_equal(got, "\4\5\6\7\10\11", 6);
    ph_tensor_release(x);
    assert_ok(ph_safetensors_read(&x, c.s.tape, file, "b"));
    assert_int_equal(ph_tensor_rank(x), 0);
    ph_tensor_release(x);
    assert_ok(ph_safetensors_read(&x, c.s.tape, file, "empty"));
    assert_int_equal(ph_tensor_count(x), 0);
    ph_tensor_release(x);
    assert_error(ph_safetensors_read(&x, c.s.tape, file, "odd"), PH_ERROR_UNSUPPORTED, "'odd'");
    assert_error(ph_safetensors_read(&x, c.s.tape, file, "deep"), PH_ERROR_UNSUPPORTED, "'deep'");
    assert_error(ph_safetensors_read(&x, c.s.tape, file, "none"), PH_ERROR_NOT_FOUND,
                 "no tensor 'none'");
    assert_null(x);
    assert_ok(ph_tape_status(c.s.tape));
    ph_safetensors_close(file);
    assert_ok(ph_safetensors_open(&file, put(&c, "{}", 0)));
    assert_int_equal(ph_safetensors_count(file), 0);
    assert_null(ph_safetensors_metadata(file, "format"));
    assert_error(ph_safetensors_read(&x, c.s.tape, file, "a"), PH_ERROR_NOT_FOUND, "'a'");
    ph_safetensors_close(file);
    close_scene(&c);
}

TEST(test_read_into)
{
    scene c;
    ph_safetensors *file;
    ph_tensor *x, *half;
    open_scene(&c);
    const float values[] = {1, 2, 3, 4, 5, 6};
    ph_tensor *source = ph_from_memory(c.s.tape, PH_DTYPE_F32, PH_SHAPE(2, 3), values);
    ph_named_tensor one = {"x", source};
    assert_ok(ph_safetensors_write(c.s.tape, t_inside(&c.folder, "a"), &one, 1));
    assert_ok(ph_safetensors_open(&file, c.folder.name));
    assert_ok(ph_tensor_create(&x, c.s.device, PH_DTYPE_F32, PH_SHAPE(2, 3)));
    assert_ok(ph_tensor_set_requires_grad(x, true));
    assert_ok(ph_safetensors_read_into(c.s.tape, x, file, "x"));
    assert_int_equal(ph_tensor_version(x), 1);
    assert_true(ph_tape_grad_enabled(c.s.tape));
    t_expect(c.s.tape, x, PH_SHAPE(2, 3), values);
    ph_tensor *turned =
        ph_transpose(c.s.tape, ph_zeros(c.s.tape, PH_DTYPE_F32, PH_SHAPE(3, 2)), 0, 1);
    assert_ok(ph_safetensors_read_into(c.s.tape, turned, file, "x"));
    t_expect(c.s.tape, turned, PH_SHAPE(2, 3), values);
    assert_error(
        ph_safetensors_read_into(c.s.tape, ph_reshape(c.s.tape, source, PH_SHAPE(3, 2)), file, "x"),
        PH_ERROR_MISMATCH, "'x' is f32[2, 3], and is to be read into f32[3, 2]");
    assert_ok(ph_tensor_create(&half, c.s.device, PH_DTYPE_F16, PH_SHAPE(2, 3)));
    assert_error(ph_safetensors_read_into(c.s.tape, half, file, "x"), PH_ERROR_MISMATCH,
                 "f16[2, 3]");
    ph_tensor_release(half);
    assert_error(
        ph_safetensors_read_into(
            c.s.tape, ph_transpose(c.s.tape, ph_transpose(c.s.tape, x, 0, 1), 0, 1), file, "x"),
        PH_ERROR_STATE, "no leaf");
    assert_error(ph_safetensors_read_into(c.s.tape, NULL, file, "x"), PH_ERROR_ARGUMENT, "dst");
    assert_error(ph_safetensors_read_into(c.s.tape, x, file, "y"), PH_ERROR_NOT_FOUND, "'y'");
    assert_error(ph_safetensors_read_into(c.s.tape, x, NULL, "x"), PH_ERROR_ARGUMENT, "file");
    assert_error(ph_safetensors_read_into(c.s.tape, x, file, NULL), PH_ERROR_ARGUMENT, "name");
    assert_error(ph_safetensors_read_into(NULL, x, file, "x"), PH_ERROR_ARGUMENT, "tape");
    /* Cut short behind our back. */
    assert_int_equal(truncate(t_inside(&c.folder, "a"), 80), 0);
    assert_error(ph_safetensors_read_into(c.s.tape, x, file, "x"), PH_ERROR_IO, "cut short");
    ph_safetensors_close(file);
    ph_tensor_release(x);
    assert_ok(ph_tape_clear(c.s.tape));
    close_scene(&c);
}

/* All dtypes; every tensor begins at a multiple of its element's size. */
TEST(test_round_trip)
{
    scene c;
    ph_safetensors *file;
    ph_named_tensor all[PH_DTYPE_BOOL];
    char header[ROOM];
    open_scene(&c);
    static const char *const keys[] = {"bytes \"quoted\"", "f64", "half", "bf", "int", "long", "",
                                       "\xe2\x82\xac"};
    for (int i = 0; i < PH_DTYPE_BOOL; i++) {
        unsigned char bytes[8 * 15];
        ph_tensor *x = ph_empty(c.s.tape, (ph_dtype)(i + 1), PH_SHAPE(5, 3));
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = i + 1 == PH_DTYPE_BOOL ? k % 2 : (unsigned char)(k + (size_t)i);
        assert_ok(ph_tensor_write(c.s.tape, x, bytes, ph_tensor_bytes(x)));
        all[i] = (ph_named_tensor){keys[i], ph_transpose(c.s.tape, x, 0, 1)};
    }
    assert_ok(ph_safetensors_write(c.s.tape, t_inside(&c.folder, "a"), all, PH_DTYPE_BOOL));
    assert_ok(ph_safetensors_open(&file, c.folder.name));
    assert_int_equal(ph_safetensors_count(file), PH_DTYPE_BOOL);
    for (int i = 0; i < PH_DTYPE_BOOL; i++) {
        unsigned char got[8 * 15], want[8 * 15];
        ph_tensor *x;
        assert_ok(ph_safetensors_read(&x, c.s.tape, file, keys[i]));
        assert_int_equal(ph_tensor_dtype(x), i + 1);
        ph_shape shape = ph_tensor_shape(x);
        assert_true(ph_shape_equal(&shape, &PH_SHAPE(3, 5)));
        assert_ok(ph_tensor_read(c.s.tape, x, got, ph_tensor_bytes(x)));
        assert_ok(ph_tensor_read(c.s.tape, all[i].tensor, want, ph_tensor_bytes(x)));
        assert_memory_equal(got, want, ph_tensor_bytes(x));
        ph_tensor_release(x);
    }
    ph_safetensors_close(file);
    size_t size = t_get_file(&c.folder, "a", header, sizeof header);
    assert_int_equal((unsigned char)header[0] % 8, 0);
    assert_true(size > 400);
    /* Those of 8 bytes come first. */
    header[size - 1] = 0;
    assert_true(strstr(header + 8, "\"F64\"") < strstr(header + 8, "\"F32\""));
    assert_true(strstr(header + 8, "\"F32\"") < strstr(header + 8, "\"BF16\""));
    assert_true(strstr(header + 8, "\"BF16\"") < strstr(header + 8, "\"BOOL\""));
    assert_ok(ph_tape_clear(c.s.tape));
    assert_ok(ph_safetensors_write(c.s.tape, t_inside(&c.folder, "a"), NULL, 0));
    assert_ok(ph_safetensors_open(&file, c.folder.name));
    assert_int_equal(ph_safetensors_count(file), 0);
    ph_safetensors_close(file);
    close_scene(&c);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(malformed_safetensors_headers_are_refused_with_their_reason)
{
    scene c;
    open_scene(&c);
    static const struct {
        const char *header;
        ph_status status;
        const char *words;
    } bad[] = {
        /* 24 bytes behind each */
        {"", PH_ERROR_ARGUMENT, "does not begin with '{'"},
        {" {}", PH_ERROR_ARGUMENT, "does not begin with '{'"},
        {"[]", PH_ERROR_ARGUMENT, "does not begin with '{'"},
        {"{}", PH_ERROR_SIZE, "24 bytes behind its last tensor"},
        {"{" T("a", "F32", "[6]", "[0,24]") "}x", PH_ERROR_ARGUMENT, "something behind the end"},
        {"{" T("a", "F32", "[6]", "[0,24]"), PH_ERROR_ARGUMENT, "a comma or a closing bracket"},
        {"{" T("a", "F32", "[5]", "[0,24]") "}", PH_ERROR_SIZE,
         "'a' takes 20 bytes by its shape, and has 24"},
        {"{" T("a", "F32", "[6]", "[0,20]") "}", PH_ERROR_SIZE, "takes 24 bytes"},
        {"{" T("a", "F32", "[7]", "[0,28]") "}", PH_ERROR_SIZE, "'a' ends at byte 28 of 24"},
        {"{" T("a", "F32", "[5]", "[4,24]") "}", PH_ERROR_SIZE,
         "'a' begins at byte 4, and must at 0"},
        {"{" T("a", "F32", "[5]", "[0,20]") "}", PH_ERROR_SIZE, "4 bytes behind its last tensor"},
        {"{" T("a", "F32", "[4]", "[0,16]") "," T("b", "F32", "[4]", "[8,24]") "}", PH_ERROR_SIZE,
         "'b' begins at byte 8"},
        {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[16,24]") "}", PH_ERROR_SIZE,
         "'b' begins at byte 16"},
        {"{" T("a", "F32", "[3]", "[0,12]") "," T("a", "F32", "[3]", "[12,24]") "}",
         PH_ERROR_ARGUMENT, "two tensors of the name 'a'"},
        {"{" T("a", "F32", "[3]", "[0,12]") "," T("\\u0061", "F32", "[3]", "[12,24]") "}",
         PH_ERROR_ARGUMENT, "the name 'a'"},
        {"{" T("a", "F32", "[6]", "[24,0]") "}", PH_ERROR_ARGUMENT, "end before they begin"},
        {"{" T("a", "F32", "[6]", "[0]") "}", PH_ERROR_ARGUMENT, "data_offsets are two numbers"},
        {"{" T("a", "F32", "[6]", "[0,24,24]") "}", PH_ERROR_ARGUMENT,
         "data_offsets are two numbers"},
        {"{" T("a", "F32", "[6]", "[0,-24]") "}", PH_ERROR_ARGUMENT, "not negative"},
        {"{" T("a", "F32", "[-6]", "[0,24]") "}", PH_ERROR_ARGUMENT, "not negative"},
        {"{" T("a", "F32", "[6.0]", "[0,24]") "}", PH_ERROR_ARGUMENT, "a whole number"},
        {"{" T("a", "F32", "6", "[0,24]") "}", PH_ERROR_ARGUMENT, "an array"},
        {"{" T("a", "F32", "[9223372036854775808]", "[0,24]") "}", PH_ERROR_ARGUMENT,
         "beyond 63 bits"},
        {"{" T("a", "F32", "[99999999999999999999]", "[0,24]") "}", PH_ERROR_ARGUMENT,
         "beyond 64 bits"},
        {"{" T("a", "F32", "[4611686018427387904,4]", "[0,24]") "}", PH_ERROR_SIZE,
         "more elements"},
        {"{" T("a", "F64", "[2305843009213693955]", "[0,24]") "}", PH_ERROR_SIZE, "more elements"},
        {"{" T("a", "F32", "[6]", "[18446744073709551615,18446744073709551615]") "}", PH_ERROR_SIZE,
         "begins at"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[6]}}", PH_ERROR_ARGUMENT,
         "without dtype, shape or data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", PH_ERROR_ARGUMENT, "a member twice"},
        {"{\"a\":{\"stride\":[1]}}", PH_ERROR_ARGUMENT, "not known"},
        {"{\"a\":{\"dtype\":7}}", PH_ERROR_ARGUMENT, "a string must stand here"},
        {"{\"a\":[]}", PH_ERROR_ARGUMENT, "an object"},
        {"{\"a\":null}", PH_ERROR_ARGUMENT, "an object"},
        {"{\"__metadata__\":{\"a\":1}}", PH_ERROR_ARGUMENT, "a string must stand here"},
        {"{\"__metadata__\":[]}", PH_ERROR_ARGUMENT, "an object"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", PH_ERROR_ARGUMENT,
         "the metadata stand there twice"},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}," T("a", "F32", "[6]", "[0,24]") "}",
         PH_ERROR_ARGUMENT, "the key 'k' twice"},
        {"{\"a\xff\":{}}", PH_ERROR_ARGUMENT, "at its byte 3: bytes that are no UTF-8"},
        {"{\"a\\u0000\":{}}", PH_ERROR_ARGUMENT, "a NUL"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ph_safetensors *file = (ph_safetensors *)&c;
        int64_t live = ph__alloc_live();
        assert_error(ph_safetensors_open(&file, put(&c, bad[i].header, 24)), bad[i].status,
                     bad[i].words);
        assert_null(file);
        assert_int_equal(ph__alloc_live(), live);
    }
    close_scene(&c);
}

TEST(test_hostile_start)
{
    scene c;
    ph_safetensors *file;
    ph_tensor *x;
    open_scene(&c);
    assert_error(ph_safetensors_open(&file, t_put_file(&c.folder, "a", "{}", 2)), PH_ERROR_SIZE,
                 "too few");
    assert_error(ph_safetensors_open(&file, t_put_file(&c.folder, "a", "\3\0\0\0\0\0\0\0{}", 10)),
                 PH_ERROR_SIZE, "a header of 3 bytes");
    assert_error(ph_safetensors_open(
                     &file, t_put_file(&c.folder, "a", "\377\377\377\377\377\377\377\377{}", 10)),
                 PH_ERROR_SIZE, "a header of 18446744073709551615 bytes");
    assert_error(ph_safetensors_open(&file, t_put_file(&c.folder, "a", "\0\0\0\0\0\0\0\0", 8)),
                 PH_ERROR_ARGUMENT, "does not begin");
    /* A length that the file has, but no header may. */
    (void)t_put_file(&c.folder, "a", "\1\341\365\5\0\0\0\0{}", 10);
    assert_int_equal(truncate(c.folder.name, 200000000), 0);
    assert_error(ph_safetensors_open(&file, c.folder.name), PH_ERROR_SIZE,
                 "at most 100000000 are read");
    assert_ok(ph_safetensors_open(&file, put(&c, "{" T("a", "BOOL", "[3]", "[0,3]") "}", 3)));
    assert_error(ph_safetensors_read(&x, c.s.tape, file, "a"), PH_ERROR_ARGUMENT,
                 "is 2, and a bool is 0 or 1");
    assert_null(x);
    ph_safetensors_close(file);
    close_scene(&c);
}

TEST(misuse_is_refused)
{
    scene c;
    ph_safetensors *file;
    ph_tensor *x;
    open_scene(&c);
    const char *path = t_inside(&c.folder, "a");
    assert_error(ph_safetensors_open(NULL, path), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_safetensors_open(&file, NULL), PH_ERROR_ARGUMENT, "path");
    assert_error(ph_safetensors_open(&file, path), PH_ERROR_IO, "open failed");
    assert_error(ph_safetensors_open(&file, c.folder.path), PH_ERROR_IO, "no regular file");
    assert_int_equal(mkfifo(t_inside(&c.folder, "pipe"), 0600), 0);
    assert_error(ph_safetensors_open(&file, c.folder.name), PH_ERROR_IO, "no regular file");
    ph_safetensors_close(NULL);
    assert_int_equal(ph_safetensors_count(NULL), 0);
    assert_null(ph_safetensors_metadata(NULL, "a"));
    assert_error(ph_safetensors_entry(NULL, NULL, NULL, NULL, 0), PH_ERROR_ARGUMENT, "file");
    assert_error(ph_safetensors_read(NULL, c.s.tape, NULL, "a"), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_safetensors_read(&x, c.s.tape, NULL, "a"), PH_ERROR_ARGUMENT, "file");
    ph_tensor *y = ph_zeros(c.s.tape, PH_DTYPE_F32, PH_SHAPE(2));
    path = t_inside(&c.folder, "a");
    assert_error(ph_safetensors_write(NULL, path, NULL, 0), PH_ERROR_ARGUMENT, "tape");
    assert_error(ph_safetensors_write(c.s.tape, NULL, NULL, 0), PH_ERROR_ARGUMENT, "path");
    assert_error(ph_safetensors_write(c.s.tape, path, NULL, 1), PH_ERROR_ARGUMENT, "tensors");
    assert_error(ph_safetensors_write(c.s.tape, path, (ph_named_tensor[]){{NULL, y}}, 1),
                 PH_ERROR_ARGUMENT, "entry 0");
    assert_error(ph_safetensors_write(c.s.tape, path, (ph_named_tensor[]){{"a", NULL}}, 1),
                 PH_ERROR_ARGUMENT, "entry 0");
    assert_error(ph_safetensors_write(c.s.tape, path, (ph_named_tensor[]){{"a\xff", y}}, 1),
                 PH_ERROR_ARGUMENT, "UTF-8");
    assert_error(ph_safetensors_write(c.s.tape, path, (ph_named_tensor[]){{"__metadata__", y}}, 1),
                 PH_ERROR_ARGUMENT, "__metadata__");
    assert_error(
        ph_safetensors_write(c.s.tape, path, (ph_named_tensor[]){{"a", y}, {"b", y}, {"a", y}}, 3),
        PH_ERROR_ARGUMENT, "two tensors have the name 'a'");
    assert_error(ph_safetensors_write(c.s.tape, t_inside(&c.folder, "none/x"), NULL, 0),
                 PH_ERROR_IO, "open failed");
    assert_ok(ph_tape_clear(c.s.tape));
    close_scene(&c);
}

static ph_status in_capture(ph_stream *stream, void *user)
{
    scene *c = user;
    ph_safetensors *file;
    ph_tensor *x;
    (void)stream;
    assert_ok(ph_safetensors_open(&file, t_inside(&c->folder, "a")));
    assert_error(ph_safetensors_read(&x, c->s.tape, file, "a"), PH_ERROR_CAPTURE,
                 "ph_safetensors_read: waits");
    assert_native(900);
    ph_tensor *y = ph_zeros(c->s.tape, PH_DTYPE_F32, PH_SHAPE(6));
    assert_error(ph_safetensors_read_into(c->s.tape, y, file, "a"), PH_ERROR_CAPTURE, "waits");
    assert_error(ph_safetensors_write(c->s.tape, t_inside(&c->folder, "b"), NULL, 0),
                 PH_ERROR_CAPTURE, "waits");
    ph_safetensors_close(file);
    return ph_tape_clear(c->s.tape);
}

TEST(safetensors_files_are_refused_in_a_capture)
{
    scene c;
    ph_graph *graph;
    open_scene(&c);
    (void)put(&c, "{" T("a", "F32", "[6]", "[0,24]") "}", 24);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, c.s.stream, NULL, in_capture, &c));
    ph_graph_destroy(graph);
    close_scene(&c);
}

static ph_status copy_file(scene *c, const char *from, const char *to)
{
    ph_safetensors *file;
    ph_named_tensor both[2] = {{"a", NULL}, {"w", NULL}};
    PH_TRY(ph_safetensors_open(&file, from));
    ph_status status = ph_safetensors_read(&both[0].tensor, c->s.tape, file, "a");
    if (status == PH_OK)
        status = ph_safetensors_read(&both[1].tensor, c->s.tape, file, "w");
    if (status == PH_OK)
        status = ph_safetensors_read_into(c->s.tape, both[1].tensor, file, "w");
    ph_safetensors_close(file);
    if (status == PH_OK)
        status = ph_safetensors_write(c->s.tape, to, both, 2);
    ph_tensor_release(both[0].tensor);
    ph_tensor_release(both[1].tensor);
    return status;
}

/* A write that fails leaves what was there, and nothing beside it. */
TEST(a_failed_write_leaves_the_safetensors_file_there_was)
{
    for (int64_t n = 0;; n++) {
        scene c;
        char from[160], to[160], got[ROOM];
        open_scene(&c);
        (void)put(&c,
                  "{\"__metadata__\":{\"k\":\"v\"}," T("w", "F32", "[3]", "[0,12]") "," T(
                      "a", "F32", "[3]", "[12,24]") "}",
                  24);
        (void)snprintf(from, sizeof from, "%s/a", c.folder.path);
        (void)snprintf(to, sizeof to, "%s/b", c.folder.path);
        (void)t_put_file(&c.folder, "b", "before", 6);
        ph__alloc_fail_after(n);
        ph_status status = copy_file(&c, from, to);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        size_t size = t_get_file(&c.folder, "b", got, sizeof got);
        assert_true(status == PH_OK ? size > 100 : size == 6 && memcmp(got, "before", 6) == 0);
        ph_ignore(ph_tape_clear(c.s.tape));
        close_scene(&c);
        if (status == PH_OK) {
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
    }
}

int main(void)
{
    t_hold_context();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_dtypes_shapes_and_bytes_are_read),
        cmocka_unit_test(test_read_into),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(malformed_safetensors_headers_are_refused_with_their_reason),
        cmocka_unit_test(test_hostile_start),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(safetensors_files_are_refused_in_a_capture),
        cmocka_unit_test(a_failed_write_leaves_the_safetensors_file_there_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
