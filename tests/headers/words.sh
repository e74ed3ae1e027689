#!/bin/sh
# SPDX-License-Identifier: MIT
# words.sh SOURCE_DIR: one word for one thing: words that words.txt replaced by the field's do not come back into names, comments, messages and
# pages. What was measured and recorded (docs/measurements, bench/results) keeps the words of its day.
set -eu
cd "$1"
here=$(pwd)/tests/headers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each word of the table is found: one file for each, in the first folder of its row.
mkdir "$work/tree"
sed -n '/^#/d; /^allow /d; /^ *except /d; /|/p' "$here/words.txt" | while IFS='|' read -r words _ folders _; do
    set -- $folders
    folder=$1
    mkdir -p "$work/tree/$folder"
    for word in $words; do
        printf 'int one_%s(void) { return puts("a %s here"); }\n' "$word" "$word" >"$work/tree/$folder/$word.c"
    done
done
(cd "$work/tree" && find . -name '*.c' | sed 's|^\./||' | sort | xargs awk -v table="$here/words.txt" -f "$here/words.awk") >"$work/found" || true
all=$(find "$work/tree" -name '*.c' | wc -l)
found=$(cut -d: -f1 "$work/found" | sort -u | wc -l)
[ "$all" -gt 50 ] && [ "$found" -eq "$all" ] || { echo "words.awk finds $found of the $all words of words.txt"; exit 1; }

find README.md CONTRIBUTING.md CHANGELOG.md src include docs python cli examples tests bench cmake -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.def' \
    -o -name '*.[ch]pp' -o -name '*.md' -o -name '*.py' -o -name '*.js' -o -name '*.html' -o -name '*.cmake' -o -name '*.sh' \) |
    grep -vE '^(docs/measurements/|tests/headers/words)' | sort >"$work/files"
awk -v table="$here/words.txt" -v files="$work/files" -f "$here/words.awk"
