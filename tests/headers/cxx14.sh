#!/bin/sh
# SPDX-License-Identifier: MIT
# cxx14.sh SOURCE CXX: with an older standard the headers for C++ say which one they need, before anything else.
set -eu
source=$1
cxx=$2
failed=0
for header in phonograph nn; do
    if said=$(printf '#include <phonograph/%s.hpp>\n' $header | "$cxx" -std=c++14 -fsyntax-only -I"$source/include" -x c++ - 2>&1); then
        echo "$header.hpp compiles with C++14"
        failed=1
    elif ! printf '%s\n' "$said" | grep 'error' | head -1 | grep -q 'needs C++17'; then
        echo "$header.hpp with C++14 says first: $(printf '%s\n' "$said" | grep 'error' | head -1)"
        failed=1
    fi
done
exit $failed
