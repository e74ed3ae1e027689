#!/bin/sh
# SPDX-License-Identifier: MIT
# located.sh SOURCE_DIR OBJECTS: a public call is found by its name: its file, or a folder around it, has a word of the call's name or of its header's.
# Words are the same that begin alike (annotate, annotation) or differ in a last s. OBJECTS: a file with one object file a line.
set -eu
cd "$1"
objects=$2
lines=$(mktemp)
trap 'rm -f -- "$lines"' EXIT
# X CALL why its file has another name
cat >"$lines" <<'LIST'
X ph_stream_wait_stream event.c: it records an event and waits for it
X ph_memcpy copies.c: copies and fills are checked alike
X ph_memset copies.c: the same
X ph_memset_u32 copies.c: the same
X ph_launch_host copies.c: host functions are submitted as copies are
X ph_break segment.c: it ends one segment of a capture and begins the next
X ph_finite_enable probe_switch.c: it switches breadcrumbs and checks for NaN
X ph_detach views.c: its result is a view
X ph_grad backward.c: its pass is that of ph_backward
LIST
find include/phonograph -name '*.h' | while read -r header; do
    sed -nE "s#^(PH_API|PH_CALL) ([^(]*[ *])?(ph_[a-z0-9_]+)\(.*#H \3 $header#p" "$header"
done >>"$lines"
xargs nm -A -g <"$objects" |
    sed -nE 's|^.*\.dir/(\./)?src/([^:]*)\.o:.* T (ph_[a-z0-9_]+)$|D \3 \2|p' >>"$lines"
awk '
    # Whether the words of two names have one in common.
    function share(a, b,    x, y, n, m, i, j, short) {
        n = split(a, x, /[^a-z0-9]+/)
        m = split(b, y, /[^a-z0-9]+/)
        for (i = 1; i <= n; i++)
            for (j = 1; j <= m; j++) {
                if (x[i] == "" || y[j] == "" || x[i] == "ph")
                    continue
                short = length(x[i]) < length(y[j]) ? length(x[i]) : length(y[j])
                if (x[i] == y[j] || x[i] "s" == y[j] || x[i] == y[j] "s" || (short >= 6 && substr(x[i], 1, 6) == substr(y[j], 1, 6)))
                    return 1
            }
        return 0
    }
    $1 == "X" { reason[$2] = $3 }
    $1 == "H" { header[$2] = $3; sub(/^include\/phonograph\//, "", header[$2]); sub(/\.h$/, "", header[$2]) }
    $1 == "D" { file[$2] = $3 }
    END {
        for (call in header) {
            if (!(call in file))
                continue
            calls++
            where = file[call]
            sub(/\.c$/, "", where)
            if (share(call, where) || share(header[call], where)) {
                if (call in reason) {
                    print "tests/headers/located.sh: " call " is found by its name: off the list"
                    failed = 1
                }
            } else if (!(call in reason)) {
                print "src/" file[call] " has " call " of " header[call] ".h: no word of these names is in its own"
                failed = 1
            } else {
                used++
            }
        }
        for (call in reason)
            listed++
        if (calls < 400 || listed != used) {
            print calls + 0 " calls were found, and " used + 0 " of the " listed " listed"
            failed = 1
        }
        if (!failed)
            print calls " calls are found by their names, but for " used
        exit failed
    }' "$lines"
