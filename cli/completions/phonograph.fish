# SPDX-License-Identifier: MIT
# phonograph.fish: completion of the command phonograph in fish.
set -l commands info dump diff view help
complete -c phonograph -n "not __fish_seen_subcommand_from $commands" -f
complete -c phonograph -n "not __fish_seen_subcommand_from $commands" -a info -d 'the version, the drivers, the settings and the devices'
complete -c phonograph -n "not __fish_seen_subcommand_from $commands" -a dump -d 'a record as text or as a drawing'
complete -c phonograph -n "not __fish_seen_subcommand_from $commands" -a diff -d 'the differences of two records'
complete -c phonograph -n "not __fish_seen_subcommand_from $commands" -a view -d 'a page for a browser from a record'
complete -c phonograph -n "not __fish_seen_subcommand_from $commands" -a help -d 'the usage'
complete -c phonograph -n "not __fish_seen_subcommand_from $commands" -l version -d 'the version'
complete -c phonograph -l help -d 'the usage'
complete -c phonograph -n '__fish_seen_subcommand_from info' -l device -x -a 'host cuda auto' -d 'a device'
complete -c phonograph -n '__fish_seen_subcommand_from info diff' -l json -d 'as JSON'
complete -c phonograph -n '__fish_seen_subcommand_from dump' -l text -d 'as text'
complete -c phonograph -n '__fish_seen_subcommand_from dump' -l dot -d 'as Graphviz DOT'
complete -c phonograph -n '__fish_seen_subcommand_from dump' -l verbose -d 'parameters and annotations too'
complete -c phonograph -n '__fish_seen_subcommand_from view' -s o -l output -r -d 'the page'
