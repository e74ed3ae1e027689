#!/bin/sh
# SPDX-License-Identifier: MIT
# bodies.sh SOURCE CXX: bodies of the C++ headers return nothing or a ph_status; another result, whose failure nobody would see, does not compile.
set -eu
source=$1
cxx=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# STATEMENTS
compiles() {
    cat >"$work/body.cpp" <<END
#include <phonograph/phonograph.hpp>
enum cudaError_t { cudaSuccess };
cudaError_t submit();
ph_status step(ph_stream *);
void use(ph::graph &graph, ph::graphed &part, ph::stream &stream)
{
    (void)graph, (void)part;
    $1
}
END
    "$cxx" -std=c++17 -fsyntax-only -I"$source/include" "$work/body.cpp" >"$work/log" 2>&1
}

failed=0
refused() {
    if compiles "$1"; then
        echo "compiles: $1"
        failed=1
    elif ! grep -q 'a body returns nothing or a ph_status' "$work/log"; then
        cat "$work/log"
        failed=1
    fi
}

all=
for call in 'graph.capture(stream,' 'part.run(stream,' 'part.run(stream, 1,' 'ph::graph_break(stream,'; do
    for body in 'step(stream);' 'return step(stream);' 'const ph_status &s = step(stream); return s;'; do
        all="$all $call [&] { $body });"
    done
    refused "$call [&] { return step(stream) || step(stream); });"
done
compiles "$all" || { cat "$work/log"; failed=1; }
refused 'graph.capture(stream, [&] { return submit(); });'
refused 'graph.capture(stream, [&](ph::stream_view) { return 0; });'
exit $failed
