/* SPDX-License-Identifier: MIT */
/* support/test.h: how a test is written. Its name is a sentence in snake case that says what holds,
 * in at least three words:
 *
 *     TEST(a_freed_input_is_refused)
 *     {
 *         assert_error(...);
 *     }
 *
 * FIXTURE is for what runs before and after each test, and returns 0. IN_WORLD puts a test with the
 * program's open_world and close_world into the list that main runs. */
#ifndef PH_SUPPORT_TEST_H
#define PH_SUPPORT_TEST_H
#define TEST(name)     static void name(void **state __attribute__((unused)))
#define FIXTURE(name)  static int name(void **state __attribute__((unused)))
#define IN_WORLD(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
#endif
