#!/bin/sh
# SPDX-License-Identifier: MIT
# Sets up, builds, shows, tests, measures and installs phonograph. Without arguments it prints its help.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
minimum_cmake_major=3
minimum_cmake_minor=25

usage()
{
    cat <<'END'
usage: ./build.sh COMMAND [OPTIONS]

  demo [ARGS]       train on handwritten digits, eagerly and replayed; writes digits-report.html
                    into the current directory (ARGS go to the example)
  test [OPTIONS] [-- CTEST-ARGS]
                    build and run the tests
      --preset P      dev (default), release, asan, ubsan, tsan or valgrind
      --nightly       the long form of every test (sets PH_TEST_TIER=nightly)
  bench [ARGS]      build and run every benchmark (ARGS go to each: rounds, and a file for JSON lines,
                    where a benchmark takes them)
  install [--prefix DIR]
                    build and install the library and the command phonograph (default: /usr/local)
  setup             install what demo and test need, and build nothing
  clean             remove the folder build/
  help              print this; so does -h or --help after any command but demo, whose ARGS it is one of

Each command first looks for the tools and libraries that it needs, names those that are missing and
installs them with apt-get (as root, or with sudo when it asks for no password). Otherwise it prints
the one line to run. CC and CXX choose the compilers.
END
}

say()
{
    printf '==> %s\n' "$*"
}

die()
{
    printf 'build.sh: %s\n' "$*" >&2
    exit 1
}

# ---- What is needed, by Debian's package names -----------------------------------------------------------

missing=

# need PACKAGE COMMAND...: PACKAGE is missing unless COMMAND succeeds.
need()
{
    need_package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $need_package"
}

has_command()
{
    command -v "$1"
}

# CC may hold arguments too ("ccache gcc"), so it is split on purpose.
has_libc_headers()
{
    # shellcheck disable=SC2086
    printf '#include <stdio.h>\n' | ${CC:-cc} -E -
}

has_library()
{
    pkg-config --exists "$1"
}

has_cmake()
{
    cmake_version=$(cmake --version | sed -n '1s/^[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    cmake_major=${cmake_version% *}
    cmake_minor=${cmake_version#* }
    [ "$cmake_major" -gt "$minimum_cmake_major" ] ||
        { [ "$cmake_major" -eq "$minimum_cmake_major" ] && [ "$cmake_minor" -ge "$minimum_cmake_minor" ]; }
}

# A compiler that the user named is the user's to install.
check_named_compiler()
{
    [ -z "$2" ] || command -v "${2%% *}" >/dev/null 2>&1 || die "$1 names '$2', which is not there"
}

need_build()
{
    check_named_compiler CC "${CC:-}"
    [ -n "${CC:-}" ] || need gcc has_command cc
    need libc6-dev has_libc_headers
    need cmake has_cmake
    need ninja-build has_command ninja
    need pkg-config has_command pkg-config
    need zlib1g-dev has_library zlib
    need libjansson-dev has_library jansson
}

need_cxx()
{
    check_named_compiler CXX "${CXX:-}"
    [ -n "${CXX:-}" ] || need g++ has_command c++
}

need_test()
{
    need_build
    need_cxx
    need libcmocka-dev has_library cmocka
}

need_valgrind()
{
    need_test
    need valgrind has_command valgrind
}

need_bench()
{
    need_build
    need_cxx
    need libtbb-dev has_library tbb
}

# ---- Setting up ------------------------------------------------------------------------------------------

apt()
{
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 \
        -o Dpkg::Use-Pty=0 "$@" </dev/null
}

apt_knows_missing()
{
    for package in $missing; do
        apt-cache show "$package" >/dev/null 2>&1 || return 1
    done
}

# The lists are fetched once: when a name is unknown, or when what they promise can no longer be fetched.
apt_install()
{
    if apt_knows_missing; then
        # shellcheck disable=SC2086
        apt install --no-install-recommends $missing && return
        say "that failed; trying once more with fresh package lists"
    fi
    apt update || die "apt-get update failed (its message is above)"
    # shellcheck disable=SC2086
    apt install --no-install-recommends $missing || die "apt-get could not install:$missing (its message is above)"
}

# ensure NEEDS: NEEDS is one of the need_ functions; returns with everything there, or ends the script.
ensure()
{
    missing=
    "$1"
    [ -n "$missing" ] || return 0
    say "missing:$missing"
    command -v apt-get >/dev/null 2>&1 ||
        die "no apt-get here: install what these Debian packages hold, then run this again:$missing"

    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root='sudo -n'
    else
        line="apt-get update && apt-get install -y --no-install-recommends$missing"
        if command -v sudo >/dev/null 2>&1; then
            line="sudo sh -c '$line'"
        else
            line="su -c '$line'"
        fi
        printf 'build.sh: installing them needs root. Run this line, then this command again:\n\n%s\n\n' "$line" >&2
        exit 1
    fi

    say "installing them with apt-get"
    apt_install
    missing=
    "$1"
    [ -z "$missing" ] || die "still missing, or too old, after the installation:$missing"
}

# ---- Building --------------------------------------------------------------------------------------------

cached()
{
    sed -n "s/^$2:[A-Z]*=//p" "$1/CMakeCache.txt"
}

is_configured()
{
    [ -f "$1/build.ninja" ] && [ -f "$1/CMakeCache.txt" ] &&
        [ -z "$(find "$root/CMakePresets.json" -newer "$1/build.ninja")" ]
}

# A build folder keeps its compiler, so another CC would be ignored without a word.
check_same_compiler()
{
    [ -n "${CC:-}" ] || return 0
    cached_cc=$(cached "$1" CMAKE_C_COMPILER)
    [ -z "$cached_cc" ] || [ "$cached_cc" = "$(command -v "${CC%% *}")" ] ||
        die "build/$preset was configured with $cached_cc, and CC names '$CC': run ./build.sh clean first"
}

# configure PRESET [NAME=VALUE...]: only when the folder is new, its presets changed, or a value differs.
configure()
{
    preset=$1
    shift
    folder=$root/build/$preset
    wanted=
    if is_configured "$folder"; then
        check_same_compiler "$folder"
        for setting in "$@"; do
            [ "$(cached "$folder" "${setting%%=*}")" = "${setting#*=}" ] || wanted=yes
        done
    else
        wanted=yes
    fi
    [ -n "$wanted" ] || return 0
    say "configuring build/$preset"
    for setting in "$@"; do
        shift
        set -- "$@" "-D$setting"
    done
    (cd "$root" && cmake --preset "$preset" "$@")
}

build()
{
    say "building build/$1 ($2)"
    cmake --build "$root/build/$1" --target "$2"
}

# ---- Commands --------------------------------------------------------------------------------------------

do_demo()
{
    ensure need_build
    configure release
    build release digits
    say "running the digits example"
    "$root/build/release/bin/digits" --data "$root/examples/digits/data/digits.csv.gz" \
        --report digits-report.html "$@"
}

do_test()
{
    preset=dev
    timeout=
    while [ $# -gt 0 ]; do
        case $1 in
        --preset)
            [ $# -ge 2 ] || die "--preset needs a name"
            preset=$2
            shift
            ;;
        --preset=*) preset=${1#*=} ;;
        --nightly)
            PH_TEST_TIER=nightly
            export PH_TEST_TIER
            timeout='--timeout 14400'
            ;;
        --)
            shift
            break
            ;;
        *) die "test: unknown argument '$1' (./build.sh prints the help)" ;;
        esac
        shift
    done
    case $preset in
    dev | release | asan | ubsan | tsan) ensure need_test ;;
    valgrind) ensure need_valgrind ;;
    *) die "test: unknown preset '$preset': dev, release, asan, ubsan, tsan or valgrind" ;;
    esac
    configure "$preset" PH_TESTS=ON
    build "$preset" all
    say "testing build/$preset"
    tested=0
    # shellcheck disable=SC2086
    (cd "$root" && ctest --preset "$preset" -j "$(getconf _NPROCESSORS_ONLN)" $timeout "$@") || tested=$?
    show_skipped "$root/build/$preset/Testing/Temporary/LastTest.log"
    return $tested
}

# What tests said of parts that they could not run here: nothing is skipped in silence.
show_skipped()
{
    skips=$(grep -hE '^skipped: ' "$1" 2>/dev/null | sort -u) || return 0
    say 'parts of tests that could not run here:'
    printf '%s\n' "$skips"
}

do_bench()
{
    ensure need_bench
    configure release PH_BENCH=ON
    build release benchmarks
    [ -s "$root/build/release/benchmarks.txt" ] || die "bench: there is no benchmark under bench/"
    failed=
    while IFS= read -r program; do
        say "running ${program##*/}"
        "$program" "$@" </dev/null || failed="$failed ${program##*/}"
    done <"$root/build/release/benchmarks.txt"
    [ -z "$failed" ] || die "failed:$failed"
}

# True where DIR, or the nearest folder above it that exists, can be written to.
is_writable()
{
    place=$1
    while [ ! -e "$place" ]; do
        place=$(dirname -- "$place")
    done
    [ -d "$place" ] && [ -w "$place" ]
}

do_install()
{
    prefix=/usr/local
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix)
            [ $# -ge 2 ] || die "--prefix needs a folder"
            prefix=$2
            shift
            ;;
        --prefix=*) prefix=${1#*=} ;;
        *) die "install: unknown argument '$1' (./build.sh prints the help)" ;;
        esac
        shift
    done
    case $prefix in
    '') die "--prefix needs a folder" ;;
    /*) ;;
    *) prefix=$(pwd)/$prefix ;;
    esac
    ensure need_build
    configure release
    build release installable
    is_writable "$prefix" ||
        die "'$prefix' is not writable. It is built; run this line as root: cmake --install '$root/build/release' --prefix '$prefix'"
    say "installing into $prefix"
    cmake --install "$root/build/release" --prefix "$prefix"
    case $prefix in
    /usr | /usr/local)
        if [ "$(id -u)" -eq 0 ]; then
            ldconfig
        fi
        ;;
    esac
}

# What stands behind -- is for another program.
asks_for_help()
{
    for argument in "$@"; do
        case $argument in
        -h | --help) return 0 ;;
        --) return 1 ;;
        esac
    done
    return 1
}

[ $# -gt 0 ] || {
    usage
    exit 0
}
command=$1
shift
if [ "$command" != demo ] && asks_for_help "$@"; then
    usage
    exit 0
fi
case $command in
demo) do_demo "$@" ;;
test) do_test "$@" ;;
bench) do_bench "$@" ;;
install) do_install "$@" ;;
setup)
    [ $# -eq 0 ] || die "setup takes no argument"
    ensure need_test
    say "everything that demo and test need is there"
    ;;
clean)
    [ $# -eq 0 ] || die "clean takes no argument"
    rm -rf -- "$root/build"
    ;;
help | -h | --help) usage ;;
*) die "unknown command '$command' (./build.sh prints the help)" ;;
esac
