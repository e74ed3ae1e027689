# SPDX-License-Identifier: MIT
# The language, the warnings and the sanitizers of everything that is compiled here.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
if(PH_COMMAND OR PH_EXAMPLES)
    find_package(PkgConfig REQUIRED)
endif()

add_compile_definitions(_GNU_SOURCE)
if(PH_SANITIZE)
    add_compile_options(-fsanitize=${PH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${PH_SANITIZE})
endif()

if(PH_VALGRIND)
    add_compile_definitions(PH__WATCHED_HEAP)
endif()

# Kept apart from the other options: tests of the public headers use them by name.
set(PH_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef)
set(PH_C_WARNINGS ${PH_WARNINGS} -Wstrict-prototypes -Wmissing-prototypes -Wvla)
# GCC says nothing of members that are left out where others are named; Clang does of those inside.
if(CMAKE_C_COMPILER_ID MATCHES Clang)
    list(APPEND PH_C_WARNINGS -Wno-missing-field-initializers)
endif()
if(PH_WERROR)
    list(APPEND PH_C_WARNINGS -Werror)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:C>:${PH_C_WARNINGS}>")
