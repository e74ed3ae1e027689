/* SPDX-License-Identifier: MIT */
/* tests/support/killed.h: for tests in C++: a capture that other code kills. */
#ifndef PH_TESTS_KILLED_H
#define PH_TESTS_KILLED_H
#include <phonograph/phonograph.h>

/* Synchronizes straight at the driver, as a foreign call does. The driver's number: 900 in a
 * capture, which is dead then. */
int t_synchronize_at_driver(ph_stream *stream);
#endif
