#!/bin/sh
# SPDX-License-Identifier: MIT
# Every function that a public header declares stands in docs/reference/api.md, and nothing stands there that no header declares.
# usage: documented.sh ROOT
set -eu
root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
grep -rohE --include='*.h' '^(PH_API|PH_CALL|static inline) [^;{]*\bph_[a-z0-9_]+\(' "$root"/include/phonograph |
    grep -oE 'ph_[a-z0-9_]+\($' | tr -d '(' | sort -u >"$work/declared"
grep -oE '`ph_[a-z0-9_]+`' "$root/docs/reference/api.md" | tr -d '`' | sort -u >"$work/listed"
if ! [ -s "$work/declared" ]; then
    echo "no declarations were found under $root/include/phonograph"
    exit 1
fi
if ! diff "$work/declared" "$work/listed"; then
    echo "< is declared and missing in docs/reference/api.md, > is listed there and not declared"
    exit 1
fi
echo "$(wc -l <"$work/declared") calls, all listed"
