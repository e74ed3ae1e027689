# SPDX-License-Identifier: MIT
# bench/<name>.c and bench/<name>.cpp make the program bench_<name>; what bench/support/ holds is linked to each.
# They may look inside the library (the replay plan is measured below the public calls), so they link its static form; they are listed in benchmarks.txt of the build folder.
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_FLAGS_DEBUG ${CMAKE_C_FLAGS_DEBUG})
set(CMAKE_CXX_FLAGS_RELEASE ${CMAKE_C_FLAGS_RELEASE})
find_package(TBB REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C CXX)

file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.c bench/*.cpp)
file(GLOB bench_support CONFIGURE_DEPENDS bench/support/*.c bench/support/*.cpp)
set(benchmarks)
foreach(source ${bench_sources})
    cmake_path(GET source STEM name)
    list(APPEND benchmarks bench_${name})
    list(APPEND sources_bench_${name} ${source})
endforeach()
list(REMOVE_DUPLICATES benchmarks)

set(benchmark_paths)
foreach(target ${benchmarks})
    add_executable(${target} EXCLUDE_FROM_ALL ${sources_${target}} ${bench_support})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
    target_include_directories(${target} PRIVATE bench src)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${PH_WARNINGS}>")
    target_link_libraries(${target} PRIVATE
        phonograph::static TBB::tbb OpenMP::OpenMP_C OpenMP::OpenMP_CXX Threads::Threads m)
    string(APPEND benchmark_paths "$<TARGET_FILE:${target}>\n")
endforeach()
add_custom_target(benchmarks DEPENDS ${benchmarks})
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/benchmarks.txt CONTENT "${benchmark_paths}")
