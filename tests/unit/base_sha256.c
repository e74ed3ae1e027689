/* SPDX-License-Identifier: MIT */
/* tests/unit/base_sha256.c: SHA-256 against the examples of FIPS 180-4 and of NIST's additional
 * test vectors, and at every length around the edges of blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "support/test.h"
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_digest(const void *data, size_t bytes, const char *expected)
{
    uint8_t digest[PH__SHA256_BYTES];
    char text[2 * PH__SHA256_BYTES + 1];
    ph__sha256(digest, data, bytes);
    for (size_t i = 0; i < sizeof digest; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", (unsigned)digest[i]);
    assert_string_equal(text, expected);
}

TEST(test_published_texts)
{
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const char long_text[] = "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                                    "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
    assert_digest(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_digest(two_blocks, sizeof two_blocks - 1,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_digest(long_text, sizeof long_text - 1,
                  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

TEST(test_published_bytes)
{
    static const uint8_t one[] = {0xbd}, four[] = {0xc9, 0x8c, 0x8e, 0x55};
    char *many = malloc(1000000);
    assert_digest(one, sizeof one,
                  "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
    assert_digest(four, sizeof four,
                  "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504");
    assert_non_null(many);
    memset(many, 'a', 1000000);
    assert_digest(many, 1000000,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    memset(many, 0, 1000000);
    assert_digest(many, 55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
    assert_digest(many, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
    assert_digest(many, 57, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
    assert_digest(many, 64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
    assert_digest(many, 1000, "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53");
    assert_digest(many, 1000000,
                  "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025");
    free(many);
}

/* One bit, one byte or one more byte of length make another digest. */
TEST(test_every_length_differs)
{
    uint8_t data[200] = {0}, before[PH__SHA256_BYTES] = {0}, now[PH__SHA256_BYTES],
            changed[PH__SHA256_BYTES];
    for (size_t bytes = 1; bytes <= sizeof data; bytes++) {
        ph__sha256(now, data, bytes);
        assert_memory_not_equal(now, before, sizeof now);
        data[bytes - 1] ^= 1;
        ph__sha256(changed, data, bytes);
        data[bytes - 1] ^= 1;
        assert_memory_not_equal(now, changed, sizeof now);
        memcpy(before, now, sizeof before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_texts),
        cmocka_unit_test(test_published_bytes),
        cmocka_unit_test(test_every_length_differs),
    };
    return cmocka_run_group_tests_name("base_sha256", tests, NULL, NULL);
}
