#!/bin/sh
# SPDX-License-Identifier: MIT
# sentences.sh SOURCE_DIR: the name of a test says what holds: at least three words, and at most 80
# characters. A name of one word or two says which subject is tried, and not what is promised of it.
set -eu
cd "$1"
find tests -name '*.c' | sort | xargs awk '
    # TEST(name), or the function itself, where it takes what the fixture made.
    /^TEST\(/ || /^static void [a-zA-Z0-9_]+\(void \*\*state\)$/ {
        name = $0
        sub(/^(TEST\([ \t]*|static void )/, "", name)
        sub(/[ \t]*[()].*$/, "", name)
        tests++
        if (split(name, words, "_") < 3) {
            print FILENAME ":" FNR ": the test " name " does not say what holds: name it by a sentence of at least three words"
            failed = 1
        }
        if (length(name) > 80) {
            print FILENAME ":" FNR ": the name of the test " name " has " length(name) " characters, and may have 80"
            failed = 1
        }
    }
    /^    \(void\)state;/ && FILENAME !~ /^tests\/support\// {
        print FILENAME ":" FNR ": (void)state: write TEST(name) or FIXTURE(name), of support/test.h"
        failed = 1
    }
    END {
        if (tests < 2000) {
            print "only " tests + 0 " tests were found"
            failed = 1
        }
        if (!failed)
            print tests " tests are named by what holds"
        exit failed
    }'
