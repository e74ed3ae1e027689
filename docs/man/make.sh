#!/bin/sh
# SPDX-License-Identifier: MIT
# make.sh SOURCE OUT VERSION: makes the manual pages in OUT/man1, man3 and man7, from the public headers and phonograph.1, whose date
# they have. OUT is emptied first.
set -eu
source=$1 out=$2 version=$3
pages=$source/docs/man
date=$(sed -n 's/^\.TH phonograph 1 \([0-9-]*\) .*/\1/p' "$pages/phonograph.1")
[ -n "$date" ] || { echo "make.sh: $pages/phonograph.1 has no date"; exit 1; }
rm -rf "$out"
mkdir -p "$out/man1" "$out/man3" "$out/man7"
sed "s/@VERSION@/$version/" "$pages/phonograph.1" >"$out/man1/phonograph.1"
find "$source/include" -name '*.h' | LC_ALL=C sort |
    LC_ALL=C xargs awk -v out="$out" -v version="$version" -v date="$date" -v root="$source/include" -f "$pages/make.awk"
while read -r page call; do
    ln -s "$page.3" "$out/man3/$call.3"
done <"$out/links"
rm "$out/links"
