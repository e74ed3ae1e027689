# SPDX-License-Identifier: MIT
# phonograph.bash: completion of the command phonograph in bash.
_phonograph()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W 'info dump diff view help --help --version' -- "$word")
        return
    fi
    case $before in
    --device)
        mapfile -t COMPREPLY < <(compgen -W 'host cuda auto' -- "$word")
        return
        ;;
    esac
    case ${COMP_WORDS[1]} in
    info) options='--device --json --help' ;;
    dump) options='--text --dot --verbose --help' ;;
    diff) options='--json --help' ;;
    view) options='-o --output --help' ;;
    help) options='info dump diff view' ;;
    *) return ;;
    esac
    case $word:${COMP_WORDS[1]} in
    -*:* | *:help) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}
complete -o filenames -F _phonograph phonograph
