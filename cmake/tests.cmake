# SPDX-License-Identifier: MIT
# Each tests/<group>/<name>.c is a program and the CTest test <group>.<name>; the tests of the tree itself are scripts.
set(DART_TESTING_TIMEOUT 300)
include(CTest)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

set(test_launcher)
if(PH_VALGRIND)
    find_program(VALGRIND valgrind REQUIRED)
    set(test_launcher ${VALGRIND} --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,possible)
endif()

# ---- Programs ----
file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c)
if(support_sources)
    add_library(test_support STATIC ${support_sources})
    target_include_directories(test_support PRIVATE src tests)
    target_link_libraries(test_support PUBLIC phonograph::static PkgConfig::CMOCKA)
endif()

# Where a test finds the programs and the data that it runs.
set(test_definitions
    PH_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    PH_TEST_PROGRAM_DIR="${PROJECT_BINARY_DIR}/bin")

file(GLOB test_sources CONFIGURE_DEPENDS tests/*/*.c)
list(FILTER test_sources EXCLUDE REGEX "/tests/(support|install|headers|fuzz-corpora)/")
foreach(source ${test_sources})
    cmake_path(GET source STEM name)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME group)
    set(target test_${group}_${name})
    add_executable(${target} ${source})
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${group})
    target_include_directories(${target} PRIVATE src tests)
    target_compile_definitions(${target} PRIVATE ${test_definitions})
    target_link_libraries(${target} PRIVATE $<TARGET_NAME_IF_EXISTS:test_support> phonograph::static PkgConfig::CMOCKA m)
    add_test(NAME ${group}.${name} COMMAND ${test_launcher} $<TARGET_FILE:${target}>)
endforeach()

# ---- The main job: the command line that `./build.sh demo` runs ----
if(TARGET digits AND NOT PH_VALGRIND)
    add_test(NAME examples.digits COMMAND digits
        --data ${PROJECT_SOURCE_DIR}/examples/digits/data/digits.csv.gz
        --report ${PROJECT_BINARY_DIR}/digits-report.html)
endif()

# ---- Public headers: each compiles alone, as C11 and as C++17 ----
include(CheckLanguage)
check_language(CXX)
set(header_flags -Wall -Wextra -pedantic -Wshadow -Wconversion -Werror -fsyntax-only -I${PROJECT_SOURCE_DIR}/include)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include include/*.h)
foreach(header ${headers})
    string(REGEX REPLACE "^phonograph/(.*)\\.h$" "\\1" name ${header})
    add_test(NAME headers.c11.${name} COMMAND ${CMAKE_C_COMPILER} -std=c11 ${header_flags} -include ${header} -x c /dev/null)
    if(CMAKE_CXX_COMPILER)
        add_test(NAME headers.cxx17.${name} COMMAND ${CMAKE_CXX_COMPILER} -std=c++17 ${header_flags} -include ${header} -x c++ /dev/null)
    else()
        add_test(NAME headers.cxx17.${name} COMMAND sh -c "echo 'skipped: no C++ compiler was found'; exit 77")
        set_tests_properties(headers.cxx17.${name} PROPERTIES SKIP_RETURN_CODE 77)
    endif()
endforeach()

# ---- The tree and the library as a whole ----
add_test(NAME headers.exports COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/exports.sh
    ${PROJECT_SOURCE_DIR}/include $<TARGET_FILE:phonograph> ${CMAKE_C_COMPILER} ${CMAKE_NM})
if(NOT PH_SANITIZE)
    add_test(NAME headers.needed COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/needed.sh
        $<TARGET_FILE:phonograph> ${CMAKE_READELF} libphonograph.so.${PROJECT_VERSION_MAJOR})
endif()
add_test(NAME headers.licences COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/licences.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.documented COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/documented.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.links COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/links.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.layers COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/layers.sh ${PROJECT_SOURCE_DIR})

# ---- A program outside the tree, against an installed copy ----
set(install_flags)
if(PH_SANITIZE)
    set(install_flags -fsanitize=${PH_SANITIZE})
endif()
add_test(NAME install.consumer COMMAND sh ${PROJECT_SOURCE_DIR}/tests/install/run.sh
    ${PROJECT_SOURCE_DIR}/tests/install ${PROJECT_BINARY_DIR} ${CMAKE_COMMAND} ${CMAKE_C_COMPILER} "${install_flags}")
