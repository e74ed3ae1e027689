#!/bin/sh
# SPDX-License-Identifier: MIT
# completions.sh SOURCE PHONOGRAPH: the completions of the three shells and the manual page name each command and each option that
# `phonograph COMMAND --help` names; the bash one completes them, where bash is found.
set -eu
source=$1 phonograph=$2
failed=0

# NAME FILE WHAT: WHAT stands in FILE as a word.
expect_in()
{
    grep -qE -- "(^|[^a-zA-Z-])$2([^a-zA-Z-]|\$)" "$1" || { echo "$1 does not name $2 ($3)"; failed=1; }
}

commands=$("$phonograph" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p')
[ -n "$commands" ] || { echo "phonograph --help names no command"; exit 1; }
count=0
for command in $commands; do
    options=$("$phonograph" "$command" --help | sed -n 's/^  \(-.*\)/\1/p' | grep -oE -- '(^|, )--?[a-z]+' | sed 's/^, //')
    for file in "$source"/cli/completions/* "$source"/docs/man/phonograph.1; do
        expect_in "$file" "$command" "the command"
    done
    for option in $options; do
        count=$((count + 1))
        expect_in "$source/cli/completions/phonograph.bash" "$option" "$command"
        expect_in "$source/cli/completions/_phonograph" "$option" "$command"
        expect_in "$source/cli/completions/phonograph.fish" "$(printf '%s' "$option" | sed 's/^--/-l /; t; s/^-/-s /')" "$command"
        expect_in "$source/docs/man/phonograph.1" "$(printf '%s' "$option" | sed 's/-/\\\\-/g')" "$command"
    done
done
[ "$count" -ge 7 ] || { echo "only $count options were found in the help"; exit 1; }
if command -v bash >/dev/null; then
    for line in 'info --d:--device' 'dump --v:--verbose' 'd:dump' 'view --out:--output' 'diff --j:--json'; do
        got=$(bash -c '. "$1"; read -ra COMP_WORDS <<<"phonograph $2"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _phonograph
            printf "%s " "${COMPREPLY[@]}"' - "$source/cli/completions/phonograph.bash" "${line%%:*}")
        case " $got" in
        *" ${line#*:} "*) ;;
        *) echo "bash completes '${line%%:*}' to '$got', not to ${line#*:}"; failed=1 ;;
        esac
    done
else
    echo "no bash was found: its completion was not run"
fi
exit $failed
