# SPDX-License-Identifier: MIT
# The command and the examples. They see include/ alone, as a user's program does: a private header does not compile here
# (the command names the one that it takes by its path).
set(installable_targets phonograph phonograph_static phonograph_nn phonograph_nn_static phonograph_torch)

file(GLOB cli_sources CONFIGURE_DEPENDS cli/*.c)
if(PH_COMMAND)
    pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
    add_executable(phonograph_cli ${cli_sources})
    set_target_properties(phonograph_cli PROPERTIES
        OUTPUT_NAME phonograph RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    target_link_libraries(phonograph_cli PRIVATE phonograph::phonograph PkgConfig::JANSSON)
    # D3 draws the page of `phonograph view`, and is embedded in the command; without it view says what is missing.
    if(PH_PAGE)
        find_file(PH_D3 NAMES d3.min.js HINTS ENV CMAKE_PREFIX_PATH PATHS /usr/share/nodejs/d3/dist PATH_SUFFIXES share/nodejs/d3/dist)
        mark_as_advanced(PH_D3)
    endif()
    if(PH_PAGE AND PH_D3)
        set(page_dir ${PROJECT_BINARY_DIR}/page)
        file(GLOB page_parts CONFIGURE_DEPENDS cli/view/*)
        add_custom_command(OUTPUT ${page_dir}/head.html ${page_dir}/tail.html
            COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}/cli/view -DD3=${PH_D3} -DOUTPUT=${page_dir}
                -P ${PROJECT_SOURCE_DIR}/cmake/page.cmake
            DEPENDS ${page_parts} ${PH_D3} ${PROJECT_SOURCE_DIR}/cmake/page.cmake VERBATIM)
        add_custom_target(page DEPENDS ${page_dir}/head.html ${page_dir}/tail.html)
        add_dependencies(phonograph_cli page)
        set_source_files_properties(cli/view_text.c PROPERTIES
            OBJECT_DEPENDS "${page_dir}/head.html;${page_dir}/tail.html" COMPILE_DEFINITIONS PAGE_DIR="${page_dir}")
    elseif(NOT PH_PAGE)
        message(STATUS "phonograph view: not in this build: PH_PAGE is OFF")
    else()
        message(STATUS "phonograph view: not in this build: no D3 (the Debian package node-d3)")
    endif()
    list(APPEND installable_targets phonograph_cli)
endif()
if(TARGET phonograph_mpi)
    list(APPEND installable_targets phonograph_mpi)
endif()
add_custom_target(installable DEPENDS ${installable_targets})
if(NOT PH_EXAMPLES)
    return()
endif()

# Every folder of examples/ that holds C files is one program of that name. In graphed/ each file is one, graphed_<name>, with what its
# folder common/ holds; data_parallel takes that too.
set(example_libraries_data_parallel PkgConfig::ZLIB phonograph::nn Threads::Threads ${CMAKE_DL_LIBS})
set(example_libraries_digits PkgConfig::ZLIB phonograph::nn)
set(example_libraries_gpt phonograph::nn)
set(example_libraries_linear phonograph::nn)
set(example_libraries_locate Threads::Threads)
file(GLOB example_sources CONFIGURE_DEPENDS examples/*/*.c)
file(GLOB graphed_sources CONFIGURE_DEPENDS examples/graphed/*.c)
file(GLOB graphed_common CONFIGURE_DEPENDS examples/graphed/common/*.c)
list(REMOVE_ITEM example_sources ${graphed_sources})
set(examples)
foreach(source ${example_sources})
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    list(APPEND examples ${name})
endforeach()
list(REMOVE_DUPLICATES examples)

# existing_cuda is a CUDA user's program: it needs the toolkit, where all else here does not. Its stub of the driver's library does for
# linking, and must not be what the program finds when it runs.
if(existing_cuda IN_LIST examples)
    file(GLOB cuda_folders /usr/local/cuda /usr/local/cuda-* /opt/cuda)
    set(cuda_hints HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_PATH ${cuda_folders})
    find_path(PH_CUDA_INCLUDE NAMES cublas_v2.h ${cuda_hints} PATH_SUFFIXES include)
    find_library(PH_CUBLAS NAMES cublas ${cuda_hints} PATH_SUFFIXES lib64 lib)
    find_library(PH_CUDA_STUB NAMES cuda ${cuda_hints} PATH_SUFFIXES lib64/stubs lib/stubs lib64 lib)
    mark_as_advanced(PH_CUDA_INCLUDE PH_CUBLAS PH_CUDA_STUB)
    if(PH_CUDA_INCLUDE AND PH_CUBLAS AND PH_CUDA_STUB)
        message(STATUS "existing_cuda: built with the CUDA toolkit of ${PH_CUDA_INCLUDE}")
        cmake_path(GET PH_CUDA_STUB PARENT_PATH cuda_stub_folder)
        set(example_libraries_existing_cuda ${PH_CUBLAS} -L${cuda_stub_folder} -lcuda)
    else()
        message(STATUS "existing_cuda: not built: no CUDA toolkit")
        list(REMOVE_ITEM examples existing_cuda)
    endif()
endif()
if(digits IN_LIST examples)
    pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
endif()
foreach(name ${examples})
    set(sources ${example_sources})
    list(FILTER sources INCLUDE REGEX "/examples/${name}/[^/]*$")
    add_executable(${name} ${sources})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    target_link_libraries(${name} PRIVATE phonograph::phonograph ${example_libraries_${name}} m)
endforeach()
foreach(source ${graphed_sources})
    cmake_path(GET source STEM name)
    add_executable(graphed_${name} ${source} ${graphed_common} examples/digits/data.c)
    set_target_properties(graphed_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    target_link_libraries(graphed_${name} PRIVATE phonograph::nn PkgConfig::ZLIB m)
    target_compile_definitions(graphed_${name} PRIVATE
        GRAPHED_DIGITS="${PROJECT_SOURCE_DIR}/examples/digits/data/digits.csv.gz")
endforeach()
target_sources(data_parallel PRIVATE ${graphed_common} examples/digits/data.c)
# What they read when nothing is named.
target_compile_definitions(data_parallel PRIVATE
    GRAPHED_DIGITS="${PROJECT_SOURCE_DIR}/examples/digits/data/digits.csv.gz")
# Pages and drawings of graphs.
target_sources(gpt PRIVATE examples/digits/html.c examples/digits/drawing.c)
target_sources(serve PRIVATE examples/digits/html.c examples/digits/drawing.c)
target_compile_definitions(gpt PRIVATE GPT_TEXT="${PROJECT_SOURCE_DIR}")
# Backtraces name its functions.
set_target_properties(liveness PROPERTIES ENABLE_EXPORTS ON C_VISIBILITY_PRESET default)
if(TARGET existing_cuda)
    target_include_directories(existing_cuda SYSTEM PRIVATE ${PH_CUDA_INCLUDE})
endif()

# existing_cuda_cpp is nvcc's: a program of CUDA's runtime, which phonograph.hpp joins.
find_program(PH_NVCC nvcc HINTS ${CUDAToolkit_ROOT}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin /opt/cuda/bin)
mark_as_advanced(PH_NVCC)
if(PH_NVCC AND NOT PH_SANITIZE AND EXISTS ${PROJECT_SOURCE_DIR}/examples/existing_cuda_cpp)
    set(cuda_cpp ${PROJECT_SOURCE_DIR}/examples/existing_cuda_cpp/existing_cuda_cpp.cu)
    file(GLOB_RECURSE cuda_cpp_headers CONFIGURE_DEPENDS include/*.hpp include/*.h)
    add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/bin/existing_cuda_cpp
        COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/bin
        COMMAND ${PH_NVCC} -std=c++17 -O2 -Xcompiler -Wall,-Wextra,-Werror -I${PROJECT_SOURCE_DIR}/include ${cuda_cpp}
            -o ${PROJECT_BINARY_DIR}/bin/existing_cuda_cpp $<TARGET_LINKER_FILE:phonograph>
            -Xlinker -rpath,$<TARGET_FILE_DIR:phonograph>
        DEPENDS ${cuda_cpp} ${cuda_cpp_headers} phonograph
        COMMENT "Compiling existing_cuda_cpp with nvcc" VERBATIM)
    add_custom_target(existing_cuda_cpp ALL DEPENDS ${PROJECT_BINARY_DIR}/bin/existing_cuda_cpp)
else()
    message(STATUS "existing_cuda_cpp: not built: no nvcc, or a build with sanitizers")
endif()
