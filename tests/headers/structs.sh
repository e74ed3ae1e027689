#!/bin/sh
# SPDX-License-Identifier: MIT
# structs.sh SOURCE: each public struct has reserved words, or is named in docs/guide/abi.md, which names no others.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat "$source"/include/phonograph/*.h | awk '
    /^typedef struct [a-z_0-9]* ?\{/ || /^typedef struct \{/ { inside = 1; room = 0 }
    inside && /(reserved|unused)\[[0-9]+\];/ { room = 1 }
    inside && /^\} ph_[a-z_0-9]+;/ { gsub(/[};]/, ""); print room, $1; inside = 0 }' >"$work/all"
[ "$(wc -l <"$work/all")" -gt 50 ] || { echo "the structs of include/ were not found"; exit 1; }
sed -n 's/^0 //p' "$work/all" | LC_ALL=C sort >"$work/without"
sed -n '/^<!-- structs -->/,/^<!-- end -->/p' "$source/docs/guide/abi.md" | grep -o '`ph_[a-z_0-9]*`' | tr -d '`' | LC_ALL=C sort >"$work/listed"
diff "$work/listed" "$work/without" || { echo "docs/guide/abi.md (<) and include/ (>) name other structs without reserved words"; exit 1; }
echo "$(wc -l <"$work/all") structs, $(wc -l <"$work/without") without reserved words"
