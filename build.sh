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
  test-gpu [OPTIONS] [-- CTEST-ARGS]
                    the same, optimised, with the tests on the GPU of this machine; fails where none can be used
      --sanitizer     only those on the GPU, under compute-sanitizer's memcheck with its leak check
      --nightly       as above
  bench [ARGS]      build and run every benchmark of the host device (ARGS go to each: rounds, and a file
                    for JSON lines, where a benchmark takes them)
  bench-gpu [--only NAME] [ROUNDS [FILE]]
                    build and run the benchmarks of the GPU (or one: cuda_replay), and PyTorch's side of the
                    first where python3 has it; JSON lines are appended to FILE. Ends with a line for each aim
                    (bench/aims.py)
  install [--prefix DIR]
                    build and install the library and the command phonograph (default: /usr/local)
  wheel [DIR]       build wheels of the Python package into DIR (default: build/wheel)
  deb [DIR]         build Debian packages of the library and the command into DIR (default: build/deb)
  setup             install what demo and test need, and build nothing
  carry [DIR]       on a Debian with a network: unpack the libraries that test, test-gpu and the benchmarks need
                    into DIR (default: .carry), for a machine without one
  clean             remove the folder build/
  help              print this; so does -h or --help after any command but demo, whose ARGS it is one of

Each command first looks for the tools and libraries that it needs, names those that are missing and
installs them with apt-get (as root, or with sudo when it asks for no password). Otherwise it prints
the one line to run. CC and CXX choose the compilers. Carried libraries are taken from the folder that
PH_CARRY names, else from .carry, where there is one.
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
wanted=

# need PACKAGE COMMAND...: PACKAGE is missing unless COMMAND succeeds.
need()
{
    need_package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $need_package"
}

# want PACKAGE COMMAND...: the same of what is done without where it cannot be installed; what then is not built or tested says so.
want()
{
    want_package=$1
    shift
    "$@" >/dev/null 2>&1 || wanted="$wanted $want_package"
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

# Loaded at run time, so only the loader can say.
has_blas()
{
    PATH="$PATH:/sbin:/usr/sbin" ldconfig -p | grep -q 'libopenblas\.so\.0'
}

# Open MPI's or MPICH's: its compiler knows where mpi.h is.
has_mpi()
{
    has_command mpicc
}

# In a folder of CMAKE_PREFIX_PATH that use_carried has put there, or where Debian has it.
has_d3()
{
    [ -f "${carried:-}/usr/share/nodejs/d3/dist/d3.min.js" ] || [ -f /usr/share/nodejs/d3/dist/d3.min.js ]
}

# All of them in the first python3, or all in the system's, whose packages these are.
has_python_modules()
{
    python3 -c "import $1" || /usr/bin/python3 -c "import $1"
}

has_python_header()
{
    python3 -c 'import os, sysconfig; os.stat(sysconfig.get_paths()["include"] + "/Python.h")'
}

has_chromium()
{
    command -v chromium || command -v chromium-browser || command -v google-chrome
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

need_install()
{
    need_build
    want node-d3 has_d3
    want graphviz has_command dot
}

need_test()
{
    need_install
    need_cxx
    need libcmocka-dev has_library cmocka
    need libopenblas0-pthread has_blas
    want python3 has_command python3
    want python3-pytest has_python_modules 'pytest, numpy'
    want python3-numpy has_python_modules 'pytest, numpy'
    want python3-setuptools has_python_modules 'setuptools, wheel, ensurepip'
    want python3-wheel has_python_modules 'setuptools, wheel, ensurepip'
    want python3-venv has_python_modules 'setuptools, wheel, ensurepip'
    want python3-dev has_python_header
    want abigail-tools has_command abidiff
    want clang-format-14 has_command clang-format-14
    want libdw-dev has_library libdw
    want libopenmpi-dev has_mpi
    want openmpi-bin has_command mpirun
    want mandoc has_command mandoc
    want chromium has_chromium
}

need_valgrind()
{
    need_test
    need valgrind has_command valgrind
}

# What lacks a C++ compiler is said by the tests that want one; no network is there to fetch it.
need_test_gpu()
{
    need_build
    need libcmocka-dev has_library cmocka
}

need_deb()
{
    need_install
    need node-d3 has_d3
    need debhelper has_command dh
    need dpkg-dev has_command dpkg-buildpackage
    need fakeroot has_command fakeroot
}

need_wheel()
{
    need_install
    need python3 has_command python3
    need python3-setuptools has_python_modules 'setuptools, wheel, ensurepip'
    need python3-wheel has_python_modules 'setuptools, wheel, ensurepip'
    need python3-venv has_python_modules 'setuptools, wheel, ensurepip'
    want python3-dev has_python_header
}

need_bench()
{
    need_build
    need_cxx
    need libtbb-dev has_library tbb
}

# ---- Carried libraries -----------------------------------------------------------------------------------

carried_packages='libcmocka-dev libjansson-dev libtbb-dev'
carried_alone=node-d3 # of which one file is used, which needs nothing
carried_mark=.carried

# Makes pkg-config and CMake look into the carried folder first. Programs keep the path of what they were linked with.
use_carried()
{
    if [ -n "${PH_CARRY:-}" ]; then
        [ -f "$PH_CARRY/$carried_mark" ] || die "PH_CARRY names '$PH_CARRY', which ./build.sh carry did not fill"
        carried=$(CDPATH='' cd -- "$PH_CARRY" && pwd)
    else
        carried=$root/.carry
        [ -f "$carried/$carried_mark" ] || return 0
    fi
    for folder in "$carried"/usr/lib/*/pkgconfig; do
        PKG_CONFIG_PATH=$folder${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
    done
    CMAKE_PREFIX_PATH=$carried/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
    export PKG_CONFIG_PATH CMAKE_PREFIX_PATH
}

# The packages with the libraries that those for development need, as this system calls them; not those that every C++ compiler
# has already, nor what oneTBB looks for at run time and does without.
fetch_carried()
{
    # shellcheck disable=SC2086
    names=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances $carried_packages 2>/dev/null | grep '^lib' | grep -vE '^lib(c6|gcc|stdc|hwloc|udev)')
    # shellcheck disable=SC2086
    (cd "$1" && apt-get -q download ${names:-$carried_packages} $carried_alone) 2>"$1/messages"
}

do_carry()
{
    [ $# -le 1 ] || die "carry takes one folder"
    into=${1:-$root/.carry}
    # Only a folder that this command made is emptied.
    if [ -e "$into" ] && [ ! -f "$into/$carried_mark" ] && [ -n "$(ls -A -- "$into" 2>/dev/null || echo file)" ]; then
        die "carry: '$into' is there and holds something else"
    fi
    for tool in apt-get apt-cache dpkg-deb; do
        command -v "$tool" >/dev/null 2>&1 || die "carry: no $tool here: it needs a Debian, or a system made from one"
    done
    packages=$(mktemp -d)
    trap 'rm -rf -- "$packages"' EXIT
    say "fetching $carried_packages and what they need, and $carried_alone"
    if ! fetch_carried "$packages" && [ "$(id -u)" -eq 0 ]; then
        say "that failed; trying once more with fresh package lists"
        as_root=
        apt update || die "apt-get update failed (its message is above)"
        fetch_carried "$packages" || die "carry: apt-get download failed: $(cat "$packages/messages")"
    fi
    ls "$packages"/*.deb >/dev/null 2>&1 || die "carry: apt-get download failed: $(cat "$packages/messages")"
    rm -rf -- "${into:?}/usr"
    mkdir -p -- "$into"
    printf '%s\n' "$carried_packages" >"$into/$carried_mark"
    for package in "$packages"/*.deb; do
        dpkg-deb -x "$package" "$into"
    done
    d3_folder=$into/usr/share/nodejs/d3/dist
    mv -- "$d3_folder/d3.min.js" "$packages/"
    rm -rf -- "${into:?}/usr/share"
    mkdir -p -- "$d3_folder"
    mv -- "$packages/d3.min.js" "$d3_folder/"
    # The folder may be copied anywhere: its files name their place by their own.
    for file in "$into"/usr/lib/*/pkgconfig/*.pc; do
        # shellcheck disable=SC2016
        sed -i -e 's|=/usr|=${pcfiledir}/../../..|' -e 's|-\([IL]\)/usr|-\1${pcfiledir}/../../..|g' "$file"
    done
    say "$into holds $(du -sh -- "$into" | cut -f1): copy it beside build.sh as .carry, or name it in PH_CARRY"
}

# ---- Setting up ------------------------------------------------------------------------------------------

carry_hint="without a network: run ./build.sh carry where there is one, and bring its folder here"

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
    apt update || die "apt-get update failed (its message is above); missing:$missing ($carry_hint)"
    # shellcheck disable=SC2086
    apt install --no-install-recommends $missing ||
        die "apt-get could not install:$missing (its message is above; $carry_hint)"
}

# Sets as_root to what makes a command root's; fails where only the user can.
find_root()
{
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root='sudo -n'
    else
        return 1
    fi
}

# What can be done without: a failure is remembered, so that not every run on a machine without a network tries again (setup does).
install_wanted()
{
    [ -n "$wanted" ] || return 0
    if [ "$command" != setup ] && [ "$(cat -- "$root/build/.without" 2>/dev/null)" = "$wanted" ]; then
        say "going on without:$wanted"
        return 0
    fi
    if command -v apt-get >/dev/null 2>&1 && find_root; then
        say "installing, to build and test more:$wanted"
        missing=$wanted
        (apt_install) || :
        missing=
        wanted=
        "$1"
    fi
    [ -n "$wanted" ] || return 0
    say "going on without:$wanted"
    mkdir -p -- "$root/build"
    printf '%s\n' "$wanted" >"$root/build/.without"
}

# ensure NEEDS: NEEDS is one of the need_ functions; returns with everything there, or ends the script.
ensure()
{
    use_carried
    missing=
    wanted=
    "$1"
    if [ -z "$missing" ]; then
        install_wanted "$1"
        return 0
    fi
    say "missing:$missing"
    command -v apt-get >/dev/null 2>&1 ||
        die "no apt-get here: install what these Debian packages hold, then run this again:$missing ($carry_hint)"

    if ! find_root; then
        line="apt-get update && apt-get install -y --no-install-recommends$missing"
        if command -v sudo >/dev/null 2>&1; then
            line="sudo sh -c '$line'"
        else
            line="su -c '$line'"
        fi
        printf 'build.sh: installing them needs root. Run this line, then this command again:\n\n%s\n\n(%s)\n' \
            "$line" "$carry_hint" >&2
        exit 1
    fi

    say "installing them with apt-get"
    apt_install
    missing=
    wanted=
    "$1"
    [ -z "$missing" ] || die "still missing, or too old, after the installation:$missing ($carry_hint)"
    install_wanted "$1"
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
    needed=
    if is_configured "$folder"; then
        check_same_compiler "$folder"
        for setting in "$@"; do
            [ "$(cached "$folder" "${setting%%=*}")" = "${setting#*=}" ] || needed=yes
        done
    else
        needed=yes
    fi
    [ "$(cached "$folder" PH_D3 2>/dev/null)" != PH_D3-NOTFOUND ] || ! has_d3 || needed=yes # it has come since
    [ -n "$needed" ] || return 0
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
    run_tests "$preset" "$@"
}

# run_tests PRESET [CTEST-ARGS]: ends with CTest's status, after the list of what could not run.
run_tests()
{
    preset=$1
    shift
    tested=0
    jobs=$(getconf _NPROCESSORS_ONLN)
    # Processes on one GPU wait for each other. Eight at a time: all programs in 196 s on an H200 with 16 cores.
    [ "$preset" != gpu ] || [ "$jobs" -lt 8 ] || jobs=8
    # shellcheck disable=SC2086
    (cd "$root" && ctest --preset "$preset" -j "$jobs" $timeout "$@") || tested=$?
    show_skipped "$root/build/$preset/Testing/Temporary/LastTest.log"
    return $tested
}

# What tests said of parts that they could not run here, and on which device: nothing is skipped in silence.
show_skipped()
{
    skips=$(awk '
        /^[0-9]+\/[0-9]+ Test(ing)?: / { device = $NF ~ /@/ ? $NF : ""; sub(/^.*@/, "@", device) }
        /^skipped: / { print $0 (device == "" ? "" : " (" device ")") }
    ' "$1" 2>/dev/null | sort -u)
    [ -n "$skips" ] || return 0
    say 'parts of tests that could not run here:'
    printf '%s\n' "$skips"
}

# ---- On a GPU ----

# check_gpu PRESET COMMAND: builds phonograph and asks it whether there is a GPU: it says why there is none.
check_gpu()
{
    build "$1" phonograph_cli
    if answer=$("$root/build/$1/bin/phonograph" info --device cuda 2>&1); then
        printf '%s\n' "$answer" | sed -n '/^devices/,$p'
        return 0
    fi
    reason=$(printf '%s\n' "$answer" | sed -n 's/^  cuda: //p' | head -n 1)
    die "$2 needs an NVIDIA GPU, and none can be used here: ${reason:-$answer}"
}

find_sanitizer()
{
    for candidate in compute-sanitizer /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda-*/bin/compute-sanitizer \
        /opt/cuda/bin/compute-sanitizer; do
        command -v "$candidate" && return
    done
    die "test-gpu --sanitizer: no compute-sanitizer here: it comes with the CUDA toolkit"
}

do_test_gpu()
{
    timeout=
    sanitizer=
    while [ $# -gt 0 ]; do
        case $1 in
        --sanitizer) sanitizer=yes ;;
        --nightly)
            PH_TEST_TIER=nightly
            export PH_TEST_TIER
            timeout='--timeout 14400'
            ;;
        --)
            shift
            break
            ;;
        *) die "test-gpu: unknown argument '$1' (./build.sh prints the help)" ;;
        esac
        shift
    done
    [ -z "$sanitizer" ] || sanitizer=$(find_sanitizer)
    ensure need_test_gpu
    configure gpu PH_COMPUTE_SANITIZER="$sanitizer"
    check_gpu gpu test-gpu
    build gpu all
    say "testing build/gpu${sanitizer:+ under $sanitizer}"
    if [ -n "$sanitizer" ]; then
        set -- --label-regex '^gpu$' "$@"
        timeout=${timeout:---timeout 1200}
    fi
    run_tests gpu "$@"
}

# run_benchmark [ARGS]: $program; 77 says that it needs a device which is not there, and why.
run_benchmark()
{
    ended=0
    "$program" "$@" </dev/null || ended=$?
    [ "$ended" -eq 0 ] || [ "$ended" -eq 77 ] || failed="$failed ${program##*/}"
}

# run_torch_ranks SCRIPT [ARGS]: PyTorch's side of two ranks, where ours has run.
run_torch_ranks()
{
    [ "$ended" -eq 0 ] || return 0
    script=$1
    shift
    say "running $script"
    python3 -m torch.distributed.run --nproc-per-node 2 "$root/bench/$script" "$@" </dev/null || failed="$failed $script"
}

# run_torch SCRIPT [ARGS]: PyTorch's side of a comparison, right behind ours.
run_torch()
{
    script=$1
    shift
    say "running $script"
    torch=0
    python3 "$root/bench/$script" "$@" </dev/null || torch=$?
    [ "$torch" -ne 77 ] || say "PyTorch's side is not in this run: see the line above"
    [ "$torch" -eq 0 ] || [ "$torch" -eq 77 ] || failed="$failed $script"
}

# A median of as many; those that train take seconds for each ten. Fifteen calls of a callable are
# over in a millisecond, which a disturbance of the host may cover.
default_rounds()
{
    case $1 in
    cuda_* | cxx_*) echo 301 ;;
    nn_buckets) echo 15 ;;
    nn_graphed) echo 101 ;;
    *) echo 31 ;;
    esac
}

# say_aims FILE: where python3 is there.
say_aims()
{
    if has_command python3; then
        python3 "$root/bench/aims.py" "$1"
    else
        say "bench/aims.py needs python3, which is not there"
    fi
}

do_bench_gpu()
{
    only=
    if [ "${1:-}" = --only ]; then
        [ $# -ge 2 ] || die "--only needs the name of a benchmark"
        only=$2
        shift 2
    fi
    [ $# -le 2 ] || die "bench-gpu takes ROUNDS and FILE (./build.sh prints the help)"
    rounds=${1:-}
    lines=${2:-}
    ensure need_build
    configure release PH_BENCH_GPU=ON
    check_gpu release bench-gpu
    build release benchmarks-gpu
    failed=
    ran=
    nn=
    graphed=
    written=
    [ -n "$lines" ] || written=$(mktemp)
    lines=${lines:-$written}
    PH_BENCH_DEVICE=cuda
    export PH_BENCH_DEVICE
    while IFS= read -r program; do
        name=${program##*/bench_}
        [ -z "$only" ] || [ "$name" = "$only" ] || continue
        ran=yes
        say "running $name"
        set -- "${rounds:-$(default_rounds "$name")}" "$lines"
        run_benchmark "$@"
        case $name in
        nn_parallel) run_torch_ranks torch_parallel.py "$@" ;;
        cuda_replay) run_torch torch_replay.py "$@" ;;
        nn_buckets | nn_graphed) graphed=yes ;;
        nn_scaler) run_torch torch_scaler.py "$@" ;;
        nn_*) nn=yes ;;
        esac
    done <"$root/build/release/benchmarks-gpu.txt"
    [ -z "$nn" ] || run_torch torch_nn.py "${rounds:-31}" "$lines"
    [ -z "$graphed" ] || run_torch torch_graphed.py "${rounds:-15}" "$lines"
    say_aims "$lines"
    [ -z "$written" ] || rm -f "$written"
    [ -n "$ran" ] || die "bench-gpu: there is no benchmark${only:+ called $only}"
    [ -z "$failed" ] || die "failed:$failed"
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
        run_benchmark "$@"
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
    ensure need_install
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

do_wheel()
{
    [ $# -le 1 ] || die "wheel takes one folder"
    into=${1:-$root/build/wheel}
    ensure need_wheel
    configure release
    build release installable
    build release python
    python=python3
    python3 -c 'import setuptools, wheel, ensurepip' 2>/dev/null || python=/usr/bin/python3
    say "packing wheels in $into"
    "$python" -B "$root/python/make_wheel.py" --build "$root/build/release" --output "$into"
}

do_deb()
{
    [ $# -le 1 ] || die "deb takes one folder"
    into=${1:-$root/build/deb}
    ensure need_deb
    mkdir -p -- "$into"
    into=$(CDPATH='' cd -- "$into" && pwd)
    packages=$(mktemp -d)
    trap 'rm -rf -- "$packages"' EXIT
    mkdir "$packages/source"
    say "building packages in $into"
    (cd "$root" && tar -c --exclude=./build --exclude=./.git --exclude=./.carry .) | tar -x -C "$packages/source"
    mv -- "$packages/source/packaging/debian" "$packages/source/debian"
    (cd "$packages/source" && dpkg-buildpackage --build=binary --no-sign) >"$into/log" 2>&1 ||
        die "the packages were not built; the end of $into/log: $(tail -n 20 "$into/log")"
    rm -f -- "$into"/*.deb "$into"/*.changes "$into"/*.buildinfo
    mv -- "$packages"/*.deb "$packages"/*.changes "$packages"/*.buildinfo "$into/"
    ls -l -- "$into"/*.deb
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
test-gpu) do_test_gpu "$@" ;;
bench) do_bench "$@" ;;
bench-gpu) do_bench_gpu "$@" ;;
install) do_install "$@" ;;
wheel) do_wheel "$@" ;;
deb) do_deb "$@" ;;
setup)
    [ $# -eq 0 ] || die "setup takes no argument"
    ensure need_test
    say "everything that demo and test need is there"
    ;;
carry) do_carry "$@" ;;
clean)
    [ $# -eq 0 ] || die "clean takes no argument"
    rm -rf -- "$root/build"
    ;;
help | -h | --help) usage ;;
*) die "unknown command '$command' (./build.sh prints the help)" ;;
esac
