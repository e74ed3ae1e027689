#!/bin/sh
# SPDX-License-Identifier: MIT
# messages.sh SOURCE_DIR: each heading of docs/guide/faq.md that is in backquotes is part of a text in src/.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Texts that stand in several pieces, one below the other, become one.
find src \( -name '*.c' -o -name '*.h' -o -name '*.def' \) -exec cat {} + |
    awk '{ sub(/^[ \t]+/, ""); line = $0; if (held ~ /"$/ && line ~ /^"/) { sub(/"$/, "", held); held = held substr(line, 2) }
           else { print held; held = line } } END { print held }' >"$work/source"
sed -n 's/^### `\(.*\)`$/\1/p' docs/guide/faq.md >"$work/headings"
grep '^### ' docs/guide/faq.md | grep -vE '^### `.*`$' && { echo "docs/guide/faq.md: a heading is no message"; exit 1; }
[ -s "$work/headings" ] || { echo "docs/guide/faq.md has no message"; exit 1; }
! grep -qF 'a message that no file has' "$work/source" || { echo "the source has every message"; exit 1; }
failed=0
while IFS= read -r heading; do
    grep -qF -- "$heading" "$work/source" || { echo "docs/guide/faq.md: no message has: $heading"; failed=1; }
done <"$work/headings"
[ "$failed" -eq 0 ] && echo "$(wc -l <"$work/headings") messages, all of them the library's"
