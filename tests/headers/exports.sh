#!/bin/sh
# SPDX-License-Identifier: MIT
# exports.sh INCLUDE_DIR LIBRARY CC NM VERSION core|nn NN_HEADER...: the library exports what its public headers declare with PH_API, no more and no
# less: libphonograph all but those named, libphonograph_nn those; each symbol has that version.
set -eu
include=$1 library=$2 cc=$3 nm=$4 version=$5 which=$6
shift 6

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# declared FILE: one declaration a line, then the name of each that carries the attribute behind PH_API: the first ph_ word that a parenthesis
# follows, or for a variable the last word.
declared()
{
    "$cc" -std=c11 -E -P -I"$include" "$1" | tr '\n' ' ' | sed 's/[;{}]/\n/g' |
        sed -n 's/__attribute__((visibility("default")))/@/; /@/{s/.*@//; s/__attribute__((warn_unused_result))//g; p;}' |
        awk '{
            if (match($0, /(^|[^A-Za-z0-9_])(ph_[A-Za-z0-9_]*|InitializeInjectionNvtx2) *\(/)) {
                name = substr($0, RSTART, RLENGTH)
            } else {
                name = $0
                sub(/[ ]*(\[.*|=.*)?$/, "", name)
                sub(/.*[^A-Za-z0-9_]/, "", name)
            }
            gsub(/[^A-Za-z0-9_]/, "", name)
            print name
        }' | LC_ALL=C sort -u
}

: >"$work/core.c"
: >"$work/all.c"
for header in $(cd "$include/phonograph" && find . -name '*.h' | LC_ALL=C sort); do
    name=${header#./}
    printf '#include <phonograph/%s>\n' "$name" >>"$work/all.c"
    case " $* " in
    *" ${name%.h} "*) ;;
    *) printf '#include <phonograph/%s>\n' "$name" >>"$work/core.c" ;;
    esac
done
declared "$work/core.c" >"$work/core"
declared "$work/all.c" >"$work/all"
if [ "$which" = core ]; then
    cp "$work/core" "$work/declared"
else
    LC_ALL=C comm -13 "$work/core" "$work/all" >"$work/declared"
fi
[ -s "$work/declared" ] || { echo "no PH_API declaration was found under $include"; exit 1; }

# AddressSanitizer adds a mark of its own for each exported variable.
"$nm" --dynamic --defined-only --format=posix "$library" | awk -v version="$version" '
    $1 !~ /^__odr_asan/ && $1 != version && $1 != version "@@" version { print $1 }' |
    LC_ALL=C sort -u >"$work/versioned"
unversioned=$(grep -v "@@$version\$" "$work/versioned" || true)
[ -z "$unversioned" ] || { printf 'without the version %s:\n%s\n' "$version" "$unversioned"; exit 1; }
sed 's/@.*//' "$work/versioned" | LC_ALL=C sort -u >"$work/exported"

missing=$(LC_ALL=C comm -23 "$work/declared" "$work/exported")
extra=$(LC_ALL=C comm -13 "$work/declared" "$work/exported")
[ -z "$missing" ] || printf 'declared with PH_API, not exported:\n%s\n' "$missing"
[ -z "$extra" ] || printf 'exported, not declared with PH_API:\n%s\n' "$extra"
[ -z "$missing$extra" ] || exit 1
echo "$(wc -l <"$work/declared") symbols declared and exported, of version $version"
