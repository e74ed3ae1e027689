/* SPDX-License-Identifier: MIT */
/* tests/fuzz/tensor_files.c: tensor files that were damaged at random, and such made up from the
 * words of their formats: each is read whole, or refused with a message; nothing is left over,
 * and what is read can be written and read again. PH_TEST_SEED=n runs the one round whose seed a
 * failure printed. */
#include "base/rng.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/files/json_read.h"
#include <inttypes.h>

enum {
    ROOM = 2048,
    SEEDS = 6 /* files to begin from */
};

typedef struct round {
    ph__rng rng;
    t_scene *s;
    t_folder *folder;
    unsigned char bytes[ROOM];
    size_t size;
} round;

static struct {
    size_t read, refused, tensors;
} seen[2]; /* npy, safetensors */

static size_t below(round *r, size_t n)
{
    return (size_t)ph__rng_below(&r->rng, n);
}

static void append(round *r, const void *bytes, size_t size)
{
    if (size > ROOM - r->size)
        size = ROOM - r->size;
    memcpy(r->bytes + r->size, bytes, size);
    r->size += size;
}

static void append_text(round *r, const char *text)
{
    append(r, text, strlen(text));
}

static void append_zeros(round *r, size_t count)
{
    static const unsigned char zeros[ROOM];
    append(r, zeros, count < ROOM ? count : ROOM);
}

/* ---- good files ---- */
static void begin_npy(round *r, const char *header, size_t data)
{
    size_t length = strlen(header) + 1;
    r->size = 0;
    append(r, "\x93NUMPY\1\0", 8);
    append(r, (unsigned char[]){(unsigned char)length, (unsigned char)(length >> 8)}, 2);
    append_text(r, header);
    append_text(r, "\n");
    append_zeros(r, data);
}

static void begin_safetensors(round *r, const char *header, size_t data)
{
    size_t length = strlen(header);
    unsigned char start[8] = {(unsigned char)length, (unsigned char)(length >> 8)};
    r->size = 0;
    append(r, start, sizeof start);
    append_text(r, header);
    append_zeros(r, data);
}

static void make_npy(round *r)
{
    static const struct {
        const char *header;
        size_t data;
    } seeds[SEEDS] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24},
        {"{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3, 4), }", 192},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (7,), }", 7},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 8},
        {"{'descr': '<f2', 'fortran_order': True, 'shape': (0, 3), }", 0},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 2, 1, 1, 1), }", 2}};
    size_t i = below(r, SEEDS);
    begin_npy(r, seeds[i].header, seeds[i].data);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void make_safetensors(round *r)
{
    static const struct {
        const char *header;
        size_t data;
    } seeds[SEEDS] = {
        {"{" T("a", "F32", "[2,3]", "[0,24]") "}", 24},
        {"{\"__metadata__\":{\"format\":\"pt\"}," T("w", "BF16", "[4]",
                                                    "[0,8]") "," T("b", "I64", "[]", "[8,16]") "}",
         16},
        {"{" T("\\u00e9\\uD83D\\uDE00", "U8", "[3]", "[0,3]") "," T("z", "BOOL", "[2]",
                                                                    "[3,5]") "}   ",
         5},
        {"{}", 0},
        {"{" T("e", "F64", "[0,9]", "[0,0]") "," T("f", "F8_E4M3", "[5]", "[0,5]") "}", 5},
        {"{" T("d", "U8", "[1,1,1,1,1,1,1,1,2]", "[0,2]") "}", 2}};
    size_t i = below(r, SEEDS);
    begin_safetensors(r, seeds[i].header, seeds[i].data);
}

/* ---- damage ---- */
static void change_byte(round *r)
{
    static const unsigned char likely[] = "0123456789'\",:[](){}\\ -.eu\0\x7f\x80\xff\xed";
    if (r->size > 0)
        r->bytes[below(r, r->size)] = below(r, 3) ? likely[below(r, sizeof likely - 1)]
                                                  : (unsigned char)ph__rng_next(&r->rng);
}

/* Takes a stretch out, or doubles it. */
static void change_stretch(round *r)
{
    if (r->size == 0)
        return;
    size_t at = below(r, r->size), length = 1 + below(r, r->size - at < 24 ? r->size - at : 24);
    if (below(r, 2)) {
        memmove(r->bytes + at, r->bytes + at + length, r->size - at - length);
        r->size -= length;
    } else if (r->size + length <= ROOM) {
        memmove(r->bytes + at + length, r->bytes + at, r->size - at);
        r->size += length;
    }
}

static void insert_words(round *r)
{
    static const char *const words[] = {"18446744073709551615",
                                        "9223372036854775807",
                                        "-1",
                                        "null",
                                        "{}",
                                        "[]",
                                        "\\u0000",
                                        "\\uD800",
                                        "\"a\":",
                                        "'shape': (",
                                        "True",
                                        "[0,0]",
                                        ", ",
                                        "1e9",
                                        "(((((((("};
    const char *word = words[below(r, sizeof words / sizeof *words)];
    size_t length = strlen(word), at = below(r, r->size + 1);
    if (r->size + length > ROOM)
        return;
    memmove(r->bytes + at + length, r->bytes + at, r->size - at);
    memcpy(r->bytes + at, word, length);
    r->size += length;
}

static void damage(round *r)
{
    for (size_t n = below(r, 5); n > 0; n--)
        switch (below(r, 5)) {
        case 0:
            change_stretch(r);
            break;
        case 1:
            insert_words(r);
            break;
        case 2:
            r->size -= r->size > 0 ? below(r, r->size < 40 ? r->size : 40) : 0;
            break;
        default:
            change_byte(r);
        }
}

/* The length of the header follows what was done to it, mostly: or few would come past it. */
static void mend_length(round *r, size_t data, bool npy)
{
    size_t start = npy ? 10 : 8;
    if (r->size < start + data || below(r, 4) == 0)
        return;
    size_t length = r->size - start - data;
    r->bytes[npy ? 8 : 0] = (unsigned char)length;
    r->bytes[npy ? 9 : 1] = (unsigned char)(length >> 8);
}

/* ---- reading ---- */
static bool is_refusal(ph_status status)
{
    return (status == PH_ERROR_ARGUMENT || status == PH_ERROR_SIZE ||
            status == PH_ERROR_UNSUPPORTED) &&
           ph_error_last()->status == status && ph_error_last()->message[0];
}

static void use(round *r, ph_tensor *x)
{
    unsigned char bytes[ROOM];
    assert_true(ph_tensor_bytes(x) <= ROOM);
    assert_ok(ph_tensor_read(r->s->tape, x, bytes, ph_tensor_bytes(x)));
}

static void try_npy(round *r)
{
    ph_tensor *x;
    ph_status status = ph_npy_read(&x, r->s->tape, t_put_file(r->folder, "a", r->bytes, r->size));
    if (status != PH_OK) {
        assert_true(is_refusal(status) && !x);
        seen[0].refused++;
        return;
    }
    use(r, x);
    ph_tensor *y;
    assert_ok(ph_npy_write(r->s->tape, x, t_inside(r->folder, "b")));
    assert_ok(ph_npy_read(&y, r->s->tape, r->folder->name));
    assert_int_equal(ph_tensor_bytes(x), ph_tensor_bytes(y));
    ph_tensor_release(x);
    ph_tensor_release(y);
    seen[0].read++;
    seen[0].tensors++;
}

static void try_entry(round *r, ph_safetensors *file, size_t i)
{
    const char *name;
    ph_dtype dtype;
    ph_shape shape;
    ph_tensor *x;
    assert_ok(ph_safetensors_entry(&name, &dtype, &shape, file, i));
    assert_true(ph__json_is_utf8(name));
    ph_status status = ph_safetensors_read(&x, r->s->tape, file, name);
    if (status != PH_OK) {
        assert_true(is_refusal(status) && !x);
        return;
    }
    use(r, x);
    ph_safetensors *again;
    ph_named_tensor one = {name, x};
    assert_ok(ph_safetensors_write(r->s->tape, t_inside(r->folder, "b"), &one, 1));
    assert_ok(ph_safetensors_open(&again, r->folder->name));
    assert_ok(ph_safetensors_read_into(r->s->tape, x, again, name));
    ph_safetensors_close(again);
    ph_tensor_release(x);
    seen[1].tensors++;
}

static void try_safetensors(round *r)
{
    ph_safetensors *file;
    ph_status status = ph_safetensors_open(&file, t_put_file(r->folder, "a", r->bytes, r->size));
    if (status != PH_OK) {
        assert_true(is_refusal(status) && !file);
        seen[1].refused++;
        return;
    }
    for (size_t i = 0; i < ph_safetensors_count(file); i++)
        try_entry(r, file, i);
    assert_error(ph_safetensors_entry(NULL, NULL, NULL, file, ph_safetensors_count(file)),
                 PH_ERROR_NOT_FOUND, "");
    ph_safetensors_close(file);
    seen[1].read++;
}

static uint64_t current; /* seed of the round that runs */

static void run_round(t_scene *s, t_folder *folder, uint64_t seed)
{
    round r = {.rng = {seed}, .s = s, .folder = folder};
    current = seed;
    bool npy = below(&r, 2);
    if (npy)
        make_npy(&r);
    else
        make_safetensors(&r);
    size_t text = 8;
    for (size_t i = 8; i < r.size; i++)
        text = r.bytes[i] == '}' || r.bytes[i] == '\n' || r.bytes[i] == ' ' ? i + 1 : text;
    size_t data = r.size - text;
    damage(&r);
    mend_length(&r, data, npy);
    if (npy)
        try_npy(&r);
    else
        try_safetensors(&r);
    assert_ok(ph_tape_clear(s->tape));
    current = 0;
}

FIXTURE(tell_seed)
{
    if (current)
        print_error("it was PH_TEST_SEED=%" PRIu64 "\n", current);
    return 0;
}

TEST(test_damaged_files)
{
    t_scene s;
    t_folder folder;
    const char *one = getenv("PH_TEST_SEED");
    int64_t live = ph__alloc_live();
    uint64_t rounds = one ? 0 : t_nightly() ? 300000 : 6000;
    t_scene_open(&s);
    t_folder_open(&folder);
    if (one)
        run_round(&s, &folder, strtoull(one, NULL, 10));
    for (uint64_t seed = 1; seed <= rounds; seed++)
        run_round(&s, &folder, seed);
    t_folder_close(&folder, (const char *[]){"a", "b"}, 2);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), live);
    for (int i = 0; i < 2 && !one; i++) {
        print_message("%s: %zu read with %zu tensors, %zu refused\n", i ? "safetensors" : "npy",
                      seen[i].read, seen[i].tensors, seen[i].refused);
        assert_true(seen[i].read > rounds / 20 && seen[i].refused > rounds / 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_damaged_files, tell_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
