# SPDX-License-Identifier: MIT
# Two libraries, each of one set of objects, shared and static:
#   phonograph::phonograph, phonograph::static         capture and replay; libc, pthreads and libdl alone
#   phonograph::nn, phonograph::nn_static              tensors and modules, over the first one's public headers
set(PH_NN_HEADERS tensor tape operators random module optimizer optimizer_kinds grad_scaler clip_grad data_loader data_parallel lr_schedule module_copy module_state training values
    graphed tensor_collectives tensor_file dlpack nn)

# docs/guide/abi.md: until 1.0 each minor version has a soname, and a version of its symbols.
set(PH_ABI_VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
configure_file(cmake/symbols.map.in symbols.map @ONLY)

# GCC clears structs of 64 bytes to 8 KiB by "rep stos" where it tunes for no processor, which takes three times as long for
# structs as small as a tensor, which each operator makes. Its copies are left alone: loops over elements have some.
include(CheckCCompilerFlag)
set(struct_strategy vector_loop:512:noalign,libcall:-1:noalign)
check_c_compiler_flag(-mmemset-strategy=${struct_strategy} PH_HAS_MEMSET_STRATEGY)
if(PH_HAS_MEMSET_STRATEGY)
    set(struct_options -mmemset-strategy=${struct_strategy})
endif()

# ph_add_library(TARGET OUTPUT_NAME SOURCES...): TARGET (shared), TARGET_static, TARGET_objects.
function(ph_add_library target output)
    add_library(${target}_objects OBJECT ${ARGN})
    set_target_properties(${target}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${target}_objects PRIVATE include src)
    # Exceptions of the user's functions pass through, and undo on their way what base/unwind.h says.
    target_compile_options(${target}_objects PRIVATE -fexceptions ${struct_options})
    target_link_libraries(${target}_objects PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

    add_library(${target} SHARED $<TARGET_OBJECTS:${target}_objects>)
    add_library(${target}_static STATIC $<TARGET_OBJECTS:${target}_objects>)
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${output} VERSION ${PROJECT_VERSION} SOVERSION ${PH_ABI_VERSION}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    set_target_properties(${target}_static PROPERTIES
        OUTPUT_NAME ${output} ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    target_link_options(${target} PRIVATE -Wl,--version-script=${PROJECT_BINARY_DIR}/symbols.map)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${PROJECT_BINARY_DIR}/symbols.map)
    # What the library calls is its own, also where another copy of it comes first in the process.
    target_link_options(${target} PRIVATE -Wl,-Bsymbolic-functions)
    # Threads that have used the library call it as they end, the process calls it at fork() and at its exit, and CUDA
    # and NVTX may have its functions: it stays after dlclose.
    target_link_options(${target} PRIVATE -Wl,-z,nodelete)
    if(NOT PH_SANITIZE)
        target_link_options(${target} PRIVATE -Wl,--no-undefined)
    endif()
    foreach(library ${target} ${target}_static)
        target_include_directories(${library} INTERFACE
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    endforeach()
    target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
    target_link_libraries(${target}_static PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

file(GLOB_RECURSE library_sources CONFIGURE_DEPENDS src/*.c)
list(FILTER library_sources EXCLUDE REGEX "/src/(tensor|nn|comm/mpi|torch)/")
ph_add_library(phonograph phonograph ${library_sources})
set_target_properties(phonograph_static PROPERTIES EXPORT_NAME static)
add_library(phonograph::phonograph ALIAS phonograph)
add_library(phonograph::static ALIAS phonograph_static)

file(GLOB_RECURSE nn_sources CONFIGURE_DEPENDS src/tensor/*.c src/nn/*.c)
ph_add_library(phonograph_nn phonograph_nn ${nn_sources})
set_target_properties(phonograph_nn PROPERTIES EXPORT_NAME nn)
set_target_properties(phonograph_nn_static PROPERTIES EXPORT_NAME nn_static)
add_library(phonograph::nn ALIAS phonograph_nn)
add_library(phonograph::nn_static ALIAS phonograph_nn_static)
# The same bits wherever it is compiled; nobody looks at errno or the flags of floating point, so that loops can become vectors.
# Loops over elements want more of the optimiser than what gives its speed to the rest.
target_compile_options(phonograph_nn_objects PRIVATE -ffp-contract=off -fno-math-errno -fno-trapping-math $<$<CONFIG:Release>:-O3>)
# Sums of products, whose rounding nobody is promised: with fused instructions where the processor has them.
set_source_files_properties(src/tensor/products/products_plain.c PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)
target_link_libraries(phonograph_nn PUBLIC phonograph PRIVATE m)
target_link_libraries(phonograph_nn_static PUBLIC phonograph_static m)
# The shared one has a copy of its own of the containers, which no header exports; the static one finds them in the other library.
set(nn_base alloc clock config ended environment error_text fail file fork json line map sync text text_file vec)
list(TRANSFORM nn_base PREPEND src/base/)
list(TRANSFORM nn_base APPEND .c)
target_sources(phonograph_nn PRIVATE ${nn_base})
target_include_directories(phonograph_nn PRIVATE src)
# Kernels for GPUs are text, embedded as it stands.
file(GLOB nn_texts CONFIGURE_DEPENDS src/tensor/cuda/*.cu)
set_source_files_properties(src/tensor/backend/texts.c PROPERTIES
    OBJECT_DEPENDS "${nn_texts}" COMPILE_DEFINITIONS PH__TEXT_DIR="${PROJECT_SOURCE_DIR}/src/tensor/cuda")

# The hooks of PyTorch's pluggable allocator: a plug-in over the public headers, which torch's process loads. Exceptions leave it.
file(GLOB torch_sources CONFIGURE_DEPENDS src/torch/*.c)
add_library(phonograph_torch_objects OBJECT ${torch_sources})
set_target_properties(phonograph_torch_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(phonograph_torch_objects PRIVATE include src)
target_compile_options(phonograph_torch_objects PRIVATE -fexceptions)
add_library(phonograph_torch MODULE $<TARGET_OBJECTS:phonograph_torch_objects> src/base/alloc.c src/base/fork.c src/base/map.c src/base/vec.c)
set_target_properties(phonograph_torch PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
target_include_directories(phonograph_torch PRIVATE src)
target_link_libraries(phonograph_torch PRIVATE phonograph Threads::Threads ${CMAKE_DL_LIBS})
# torch's allocator has its functions until the process has ended: it stays after dlclose.
target_link_options(phonograph_torch PRIVATE -Wl,-z,nodelete)
if(NOT PH_SANITIZE)
    target_link_options(phonograph_torch PRIVATE -Wl,--no-undefined)
endif()

# The plug-in over MPI, which the library loads when a communicator of several ranks is made: MPI has no common ABI, so it is built with the
# one that is here.
option(PH_MPI "Build the plug-in over MPI, where mpi.h is found" ON)
if(PH_MPI)
    find_package(MPI QUIET COMPONENTS C)
endif()
if(PH_MPI AND MPI_C_FOUND)
    add_library(phonograph_mpi MODULE src/comm/mpi/mpi.c)
    set_target_properties(phonograph_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    target_include_directories(phonograph_mpi PRIVATE src)
    target_link_libraries(phonograph_mpi PRIVATE MPI::MPI_C)
    # MPI and the exit of the process may have its functions: it stays after dlclose.
    target_link_options(phonograph_mpi PRIVATE -Wl,-z,nodelete)
elseif(PH_MPI)
    message(STATUS "libphonograph_mpi.so: not built: no mpi.h (the Debian packages libopenmpi-dev and openmpi-bin)")
else()
    message(STATUS "libphonograph_mpi.so: not built: PH_MPI is OFF")
endif()
