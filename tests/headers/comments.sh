#!/bin/sh
# SPDX-License-Identifier: MIT
# comments.sh SOURCE_DIR: comments are plain sentences with a subject.
# - In include/ and src/, no comment and no point of its list begins with What, Those, It or That.
# - In include/, a comment above 60 words is a list, and no paragraph or point of it has more than 60.
set -eu
cd "$1"
tests=tests/headers
# The rules find what they are for.
broken=$(printf '/* What it gives. */\nint a; /* those */\n/* A list:\n * - It is. */\n' | awk -f $tests/comments.awk | wc -l)
[ "$broken" -eq 3 ] || { echo "comments.awk found $broken of 3 first words"; exit 1; }
long=$(awk 'BEGIN { printf "/*"; for (i = 0; i < 61; i++) printf " word"; print " */" }' | awk -v public=1 -f $tests/comments.awk | wc -l)
[ "$long" -eq 2 ] || { echo "comments.awk said $long of 2 things about 61 words"; exit 1; }
failed=0
find include -name '*.h' -o -name '*.hpp' | sort | xargs awk -v public=1 -f $tests/comments.awk || failed=1
find src -name '*.[ch]' -o -name '*.cu' | sort | xargs awk -f $tests/comments.awk || failed=1
exit "$failed"
