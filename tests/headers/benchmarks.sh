#!/bin/sh
# SPDX-License-Identifier: MIT
# benchmarks.sh SOURCE CC CXX: every source in bench/ compiles, so that a change of the library is seen to reach them.
# CXX empty: the C++ ones are left out, with a line. So is replay.cpp where oneTBB's headers are missing.
set -eu
source=$1 cc=$2 cxx=${3:-}
flags="-fsyntax-only -I$source/bench -I$source/src -I$source/include -I$source/tests -pthread"
count=0 failed=

compile()
{
    # shellcheck disable=SC2086
    "$@" || failed=yes
    count=$((count + 1))
}

for file in $(find "$source/bench" -name '*.c' | sort); do
    # shellcheck disable=SC2086
    compile "$cc" -std=c11 -D_GNU_SOURCE $flags "$file"
done
for file in $(find "$source/bench" -name '*.cpp' | sort); do
    if [ -z "$cxx" ]; then
        echo "$file: not compiled: no C++ compiler was found"
    elif ! printf '#include <tbb/flow_graph.h>\n' | "$cxx" -std=c++17 -E -x c++ - >/dev/null 2>&1; then
        echo "$file: not compiled: no tbb/flow_graph.h was found"
    else
        # shellcheck disable=SC2086
        compile "$cxx" -std=c++17 -fopenmp $flags "$file"
    fi
done
[ "$count" -gt 0 ] || { echo "no benchmark was found in $source/bench"; exit 1; }
[ -z "$failed" ] || exit 1
echo "$count sources compile"
