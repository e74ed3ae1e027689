#!/bin/sh
# SPDX-License-Identifier: MIT
# components.sh SOURCE BUILD CMAKE CC: find_package with components, and a configuration without command, examples and page, which asks for
# nothing but the compiler.
set -eu
source=$1 build=$2 cmake=$3 cc=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# find NAME LINE...: configures a project of these lines against the installed copy; its output is in $work/log.
find_it()
{
    folder=$work/$1
    mkdir "$folder"
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(p LANGUAGES C)\n%s\n' "$2" >"$folder/CMakeLists.txt"
    "$cmake" -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$work/prefix" \
        -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON >"$work/log" 2>&1
}

fails()
{
    cat "$work/log"
    echo "$1"
    exit 1
}

echo "== components that there are"
find_it known 'find_package(phonograph 0.1 REQUIRED COMPONENTS core nn)
if(NOT TARGET phonograph::nn OR NOT phonograph_nn_FOUND OR NOT phonograph_core_FOUND)
    message(FATAL_ERROR "a component is missing")
endif()' || fails "the components were not found"

echo "== a component that there is not"
! find_it unknown 'find_package(phonograph REQUIRED COMPONENTS nn vision)' || fails "an unknown component was found"
tr '\n' ' ' <"$work/log" | tr -s ' ' | grep -q "has no component 'vision': it has core and nn" ||
    fails "the message does not say what is wrong"
find_it optional 'find_package(phonograph REQUIRED COMPONENTS nn OPTIONAL_COMPONENTS vision)
if(phonograph_vision_FOUND OR NOT phonograph_nn_FOUND)
    message(FATAL_ERROR "an optional component that is not there was found")
endif()' || fails "an unknown optional component is an error"

echo "== the library alone"
# Without pkg-config nothing of jansson and zlib can be found.
"$cmake" -S "$source" -B "$work/alone" -G Ninja -DCMAKE_C_COMPILER="$cc" -DPKG_CONFIG_EXECUTABLE=/bin/false \
    -DPH_COMMAND=OFF -DPH_EXAMPLES=OFF >"$work/log" 2>&1 || fails "the library alone cannot be configured"
"$cmake" --build "$work/alone" --target help >"$work/targets"
grep -q '^phonograph_nn: ' "$work/targets" || fails "the library is no target"
! grep -qE '^(phonograph_cli|page|digits|saxpy): ' "$work/targets" || fails "command, page or examples are targets"
! grep -qE '^(JANSSON|ZLIB|PH_D3|pkgcfg)' "$work/alone/CMakeCache.txt" || fails "the library alone looks for what the command needs"

echo "== without the page"
"$cmake" -S "$source" -B "$work/pageless" -G Ninja -DCMAKE_C_COMPILER="$cc" -DPH_PAGE=OFF >"$work/log" 2>&1 ||
    fails "the command without its page cannot be configured"
"$cmake" --build "$work/pageless" --target help >"$work/targets"
grep -q '^phonograph_cli: ' "$work/targets" || fails "the command is no target"
! grep -q '^page: ' "$work/targets" || fails "the page is a target"

echo "== tests without the command"
! "$cmake" -S "$source" -B "$work/tests" -G Ninja -DCMAKE_C_COMPILER="$cc" -DPH_TESTS=ON -DPH_COMMAND=OFF >"$work/log" 2>&1 ||
    fails "tests without the command were configured"
grep -q 'need PH_COMMAND=ON' "$work/log" || fails "the message does not say what is wrong"
