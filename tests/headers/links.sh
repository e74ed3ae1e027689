#!/bin/sh
# SPDX-License-Identifier: MIT
# links.sh SOURCE_DIR: every relative link and picture of every page exists, and every #anchor is a heading of its page.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find . \( -name .git -o -name 'build*' -type d \) -prune -o -type f -name '*.md' -print | LC_ALL=C sort >"$work/pages"

# Writes "file<TAB>anchor" and "file<TAB>line<TAB>target". Headings become anchors as GitHub makes them; what
# stands in code is no link.
# shellcheck disable=SC2016
tr '\n' '\0' <"$work/pages" | LC_ALL=C xargs -0 awk -v anchors="$work/anchors" -v links="$work/links" '
    function heading_anchor(text)
    {
        gsub(/\]\([^)]*\)/, "", text)
        text = tolower(text)
        gsub(/[^a-z0-9 _-]/, "", text)
        gsub(/ /, "-", text)
        return text
    }
    function add_link(target)
    {
        sub(/^[ \t]*</, "", target)
        sub(/[ \t>].*$/, "", target)
        print file "\t" FNR "\t" target >links
    }
    BEGIN { printf "" >anchors; printf "" >links }
    FNR == 1 { file = FILENAME; fenced = 0 }
    /^[ \t]*(```|~~~)/ { fenced = !fenced; next }
    fenced { next }
    /^#+ / {
        text = $0
        sub(/^#+ +/, "", text)
        sub(/ +#* *$/, "", text)
        text = heading_anchor(text)
        seen = times[file, text]++
        print file "\t" text (seen ? "-" seen : "") >anchors
    }
    {
        line = $0
        gsub(/`[^`]*`/, "", line)
        rest = line
        while (match(rest, /\]\([^)]*\)/)) {
            add_link(substr(rest, RSTART + 2, RLENGTH - 3))
            rest = substr(rest, RSTART + RLENGTH)
        }
        rest = line
        while (match(rest, /(src|href)="[^"]*"/)) {
            target = substr(rest, RSTART, RLENGTH - 1)
            sub(/^[a-z]*="/, "", target)
            add_link(target)
            rest = substr(rest, RSTART + RLENGTH)
        }
        if (match(line, /^ *\[[^]]*\]:[ \t]*/))
            add_link(substr(line, RSTART + RLENGTH))
    }
'

# check FILE TARGET: says what is wrong with a link, or nothing.
check()
{
    case $2 in
    '') echo 'no target'; return ;;
    [a-z]*:*) return ;;
    esac
    path=${2%%#*}
    case $path in
    '') page=$1 ;;
    /*) echo 'not relative'; return ;;
    *) page=$(realpath -ms --relative-to=. -- "$(dirname -- "$1")/$path") ;;
    esac
    case $page in
    ..|../*) echo 'outside the tree'; return ;;
    esac
    [ -e "$page" ] || { echo 'not there'; return; }
    case $2 in
    *'#'*)
        printf './%s\t%s\n' "${page#./}" "${2#*#}" >"$work/wanted"
        grep -qxF -f "$work/wanted" "$work/anchors" || echo 'no such heading'
        ;;
    esac
}

tab=$(printf '\t')
while IFS=$tab read -r file line target; do
    fault=$(check "$file" "$target")
    [ -z "$fault" ] || printf '%s:%s: %s: %s\n' "${file#./}" "$line" "$target" "$fault"
done <"$work/links" >"$work/faults"
if [ -s "$work/faults" ]; then
    cat "$work/faults"
    exit 1
fi
[ -s "$work/links" ] || { echo "no link was found in any page"; exit 1; }
echo "$(wc -l <"$work/links") links of $(wc -l <"$work/pages") pages, all good"
