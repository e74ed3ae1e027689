#!/bin/sh
# SPDX-License-Identifier: MIT
# manual.sh SOURCE PAGES [MANDOC]: each call of the public headers has a manual page in PAGES, and no page is of a call that is not there;
# each page names its calls, shows their declarations, and has text; mandoc finds nothing wrong with them. Without MANDOC that part is left
# out, with a line.
set -eu
source=$1 pages=$2 mandoc=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

grep -rohE --include='*.h' '^(PH_API|PH_CALL|static inline) [^;{]*\bph_[a-z0-9_]+\(' "$source"/include/phonograph |
    grep -oE 'ph_[a-z0-9_]+\($' | tr -d '(' | sort -u >"$work/declared"
(cd "$pages/man3" && find . -name '*.3' | sed 's|^\./||; s|\.3$||') | sort >"$work/pages"
diff "$work/declared" "$work/pages" || { echo "< has no manual page, > is a page of no call"; exit 1; }

while read -r call; do
    page=$pages/man3/$call.3
    grep -qE "^$call(,| )" "$page" || { echo "$page: NAME does not list $call"; failed=1; }
    grep -qE "^(PH_API|PH_CALL|static inline) .*$call\(" "$page" || { echo "$page: SYNOPSIS does not show $call"; failed=1; }
    awk '/^\.SH/ { section = $2 } section == "DESCRIPTION" && !/^\./ { words += NF } END { exit words < 3 }' "$page" ||
        { echo "$page: DESCRIPTION says nothing"; failed=1; }
done <"$work/declared"
for header in $(cd "$source/include/phonograph" && grep -lE --include='*.h' -r '^(PH_API|PH_CALL) ' .); do
    name=$(printf '%s' "$header" | sed 's|^\./||; s|\.h$||; s|/|-|g')
    [ "$name" = phonograph ] || [ -f "$pages/man7/phonograph-$name.7" ] || { echo "$header has no manual page"; failed=1; }
done
if [ -n "$mandoc" ]; then
    find "$pages" -type f | xargs "$mandoc" -Tlint -Wwarning >"$work/lint" || true
    if [ -s "$work/lint" ]; then
        head -n 20 "$work/lint"
        failed=1
    fi
else
    echo "no mandoc was found: the form of the pages was not checked"
fi
[ "$failed" = 0 ] || exit 1
echo "$(wc -l <"$work/declared") calls have a page"
