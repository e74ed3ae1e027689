#!/bin/sh
# SPDX-License-Identifier: MIT
# names.sh SOURCE_DIR: one name, one thing, in all of src/. Fails where two files define a struct, a union, an enum, a type or a function of one
# ph_ name. In one file the compiler sees to it.
set -eu
source=$(cd "$1" && pwd)
cd "$source/src"
# Two things have one of these names still: no name may be added, and each goes from here when one of the two gets another.
still=' '
find . -name '*.[ch]' | sed 's|^\./||' | sort | xargs awk -v still="$still" -f "$source/tests/headers/names.awk"

# A backtrace has the names of static functions alone: each says what it does on what. In some folders no two files share one. `describe` of
# driver/forked.c is an entry of driver.def.
grep -rnE '^(COLD )?static [^=;{(]*[ *][a-z0-9_]+\(' * --include='*.c' | grep -v -e 'static inline' -e '^driver/forked\.c:.* describe(' |
    sed -E 's|^([^:]*):([0-9]+):.*[ *]([a-z0-9_]+)\(.*|\3 \1 \2|' | sort -u | awk '
    $1 !~ /_/ { print "src/" $2 ":" $3 ": " $1 " does not say what it does on what"; failed = 1 }
    $2 !~ /^(graph|memory|tensor|nn\/graphed|nn\/module)\// { next }
    $1 == name && $2 != file { print "src/" $2 ":" $3 ": " $1 " is a function of src/" file " too"; failed = 1 }
    { name = $1; file = $2 }
    END { exit failed }'
