#!/bin/sh
# SPDX-License-Identifier: MIT
# declares.sh SOURCE_DIR OBJECTS: a header of src/ declares what its own .c file defines, and nothing else; it has at most 150 lines, a .c
# file or CUDA text at most 400. OBJECTS: a file with one object file a line. Of the list below, for the reason that follows: X headers that serve several
# files, T longer files.
set -eu
cd "$1/src"
objects=$2
lines=$(mktemp)
trap 'rm -f -- "$lines"' EXIT
cat >"$lines" <<'LIST'
X base/status.h the record of errors: fail.c sets what status.c keeps
X driver/driver.h each driver gives its own table
T driver/cuda/load/core_kernels.h a text for the driver
T tensor/cuda/draws.cu one text is compiled at once, and its kernels share their pieces
T tensor/cuda/elementwise.cu the same
T tensor/cuda/indexing.cu the same
T tensor/cuda/norm.cu the same
T tensor/cuda/reduce.cu the same
LIST
xargs nm -A -g <"$objects" |
    sed -nE 's|^.*\.dir/(\./)?src/([^:]*)\.o:.* [A-TV-Zv] ([A-Za-z_][A-Za-z0-9_]*)$|D \2 \3|p' >>"$lines"
grep -q '^D' "$lines" || { echo "no symbols in the object files"; exit 1; }
# A declaration begins in the first column; typedefs and inline functions declare nothing of a .c file.
find . -name '*.h' | sed 's|^\./||' | sort | while read -r header; do
    sed -nE '/^(static|typedef)/d; /^[A-Za-z_]/{s|/\*.*||; s|^|H '"$header"' |; p;}' "$header"
done >>"$lines"
find . \( -name '*.[ch]' -o -name '*.cu' \) -exec awk 'END { print "L", FILENAME, NR }' {} \; | sed 's|^L \./|L |' >>"$lines"
awk '
    $1 == "X" { allowed[$2] = 1 }
    $1 == "T" { long[$2] = 1 }
    $1 == "D" { definer[$3] = $2 }
    $1 == "L" && $3 > ($2 ~ /h$/ ? 150 : 400) && !long[$2]++ {
        print "src/" $2 " has " $3 " lines"
        failed = 1
    }
    $1 == "L" && $3 <= ($2 ~ /h$/ ? 150 : 400) && long[$2] {
        print "tests/headers/declares.sh: src/" $2 " has only " $3 " lines: off the list"
        failed = 1
    }
    $1 == "H" {
        own = $2; sub(/h$/, "c", own)
        count = split($0, word, /[^A-Za-z0-9_]+/)
        for (i = 4; i <= count; i++) {
            if (!(word[i] in definer) || definer[word[i]] == own)
                continue
            foreign[$2] = 1
            if (!($2 in allowed)) {
                print "src/" $2 " declares " word[i] ", which src/" definer[word[i]] " defines"
                failed = 1
            }
        }
    }
    END {
        for (header in allowed)
            if (!(header in foreign)) {
                print "tests/headers/declares.sh: src/" header " serves one file alone: off the list"
                failed = 1
            }
        exit failed
    }' "$lines"
