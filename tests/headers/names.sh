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
