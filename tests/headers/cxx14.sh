#!/bin/sh
# SPDX-License-Identifier: MIT
# cxx14.sh SOURCE CXX: with an older standard each header for C++ says which one it needs, before anything else.
set -eu
source=$1
cxx=$2
failed=0
# STANDARD HEADER
expect() {
    if said=$(printf '#include <phonograph/%s>\n' "$2" | "$cxx" "-std=$1" -fsyntax-only -I"$source/include" -x c++ - 2>&1); then
        echo "$2 compiles with $1"
        failed=1
    elif ! printf '%s\n' "$said" | grep 'error:' | head -1 | grep -q 'needs C++17'; then
        echo "$2 with $1 says first: $(printf '%s\n' "$said" | grep 'error:' | head -1)"
        failed=1
    fi
}
for header in phonograph.hpp nn.hpp $(cd "$source/include/phonograph" && ls cxx/*.hpp); do
    expect c++14 "$header"
done
expect c++98 phonograph.hpp
expect c++11 nn.hpp
exit $failed
