#!/bin/sh
# SPDX-License-Identifier: MIT
# declares.sh SOURCE_DIR OBJECTS: a header of src/ declares what its own .c file defines, and nothing else; it has at most 150 lines, a .c
# file at most 400. OBJECTS: a file with one object file a line. Of the list below, for the reason that follows: X headers that serve several
# files, T longer files.
set -eu
cd "$1/src"
objects=$2
lines=$(mktemp)
trap 'rm -f -- "$lines"' EXIT
cat >"$lines" <<'LIST'
X base/status.h the record of errors: fail.c sets what status.c keeps
X base/text.h text is written by its own file, by files of JSON and into files
X driver/driver.h each driver gives its own table
X driver/host/plan/plan.h the plan's structure, which making and running share
X driver/host/plan/plan_nodes.h the plan's structure, which making and running share
X inspect/profile/profile.h the profile's structure, which the files of its room share
X inspect/verify/verify.h the run's structure, which the files of its room share
X nn/optimizer/optimizer.h the optimizer's structure, which the files of its room share
X record/build.h the record under construction, which the files of its room share
X record/record.h the record's structure, which the files of its room share
X record/diff/diff.h the comparison's structure, which the files of its room share
T driver/cuda/load/core_kernels.h a text for the driver
T record/record.h the record's structure with all that reads it
T inspect/verify/verify.h the run's structure with all that its room does to it
T driver/host/exec/exec.c one launch and its short path
T driver/host/plan/schedule.c one algorithm
T driver/host/stream/queue.c one queue and its short path
T inspect/verify/memory.c one table of memory that verify holds
T device/annotate/nvtx_heard.c one table of NVTX's functions
LIST
xargs nm -A -g <"$objects" |
    sed -nE 's|^.*\.dir/(\./)?src/([^:]*)\.o:.* [A-TV-Zv] ([A-Za-z_][A-Za-z0-9_]*)$|D \2 \3|p' >>"$lines"
grep -q '^D' "$lines" || { echo "no symbols in the object files"; exit 1; }
# A declaration begins in the first column; typedefs and inline functions declare nothing of a .c file.
find . -name '*.h' | sed 's|^\./||' | sort | while read -r header; do
    sed -nE '/^(static|typedef)/d; /^[A-Za-z_]/{s|/\*.*||; s|^|H '"$header"' |; p;}' "$header"
done >>"$lines"
find . -name '*.[ch]' -exec awk 'END { print "L", FILENAME, NR }' {} \; | sed 's|^L \./|L |' >>"$lines"
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
