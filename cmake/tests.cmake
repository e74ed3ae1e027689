# SPDX-License-Identifier: MIT
# Each tests/<group>/<name>.c is a program and the CTest test <group>.<name>; the tests of the tree itself are scripts.
# The program runs on up to three devices, which it is told by PH_TEST_DEVICE:
#   <group>.<name>                the host device
#   <group>.<name>@fake           the CUDA driver over the libcuda.so.1 and libnvrtc.so.13 that tests/fake/ holds; label "fake"
#   <group>.<name>@fake-waiting   the same, with launches that return when they are done; label "fake"
#   <group>.<name>@gpu            the CUDA driver on the GPU of this machine, with PH_TEST_GPU alone; label "gpu"
set(DART_TESTING_TIMEOUT 300)
include(CTest)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

# Those that run on any device: whole groups, and single tests.
set(PH_ANY_DEVICE_GROUPS chaos device fault graph inspect memory rules tensor nn threads torch)
set(PH_ANY_DEVICE_TESTS cli.digits cli.dump cli.examples)
# Those of libphonograph_nn; the fake has no kernels of its own for their CUDA text.
set(PH_NN_GROUPS tensor nn)
set(PH_NN_TESTS fuzz.tensor_files mpi.data_parallel mpi.data_parallel_memory mpi.data_parallel_options mpi.data_parallel_shards mpi.data_parallel_state mpi.tensor_collectives mpi.transformer unit.instructions unit.instructions_calls)
# Those in which functions of the user's are left by unwinding, as by C++ exceptions: with an unwinder, as C++ programs have it.
set(PH_UNWIND_TESTS graph.cache_renewals_left graph.unwound inspect.verify_held nn.data_loader_ends nn.data_parallel_changes nn.module_copy nn.training nn.unwound)
# Those of the CUDA driver: not on the host device.
set(PH_CUDA_GROUPS cuda)
# Of those groups, what touches no device; and what one of the two cannot run.
set(PH_NO_DEVICE_TESTS graph.states_page nn.values rules.document tensor.elementwise_math tensor.texts)
set(PH_NOT_ON_FAKE cli.digits cli.examples) # programs that do not tell the fake their kernels
set(PH_NOT_ON_GPU)
set(PH_ON_GPU_ALONE cuda.illegal_address cuda.fault_place cuda.cupti) # a context that is really lost, NVIDIA's CUPTI
# Those that launch behind host functions which the test itself lets go on, or while another thread captures: a launch that blocks must not
# block them for good. Under compute-sanitizer some do.
set(PH_ALSO_WAITING cuda.kernels graph.child graph.events graph.external_events graph.foreign graph.held graph.held_devices graph.nodes graph.replay graph.slots graph.torch_streams graph.upload graph.upload_all
    inspect.breadcrumbs inspect.breadcrumbs_beside inspect.breadcrumbs_failures inspect.breadcrumbs_switch memory.layouts memory.limits memory.pinned memory.record_inside memory.streams memory.threads nn.data_loader nn.data_loader_graphs rules.public threads.captures threads.refusals)
# What compute-sanitizer would call errors is what they are about, or they use what it uses itself: they run beside it, but not under it.
set(PH_NOT_SANITIZED cuda.profile inspect.profile inspect.profile_misuse inspect.profile_trace cuda.illegal_address cuda.fault_place cuda.cupti)
set(PH_GPU_SETTINGS_cuda.cupti PH_CULPRIT=cupti)
# On a GPU, with no other test beside them: they look at how much of its memory is left, at times, or at what its tools see.
set(PH_GPU_ALONE cuda.cupti cuda.fault_place cuda.illegal_address cuda.loading cuda.profile cuda.upload fault.driver fault.host_memory
    graph.account graph.upload graph.upload_all inspect.profile inspect.profile_misuse inspect.profile_trace inspect.verdict memory.limits
    nn.graphed_life tensor.products_memory threads.executables_memory)
# Those that open devices some thousand times: not beside each other, as the driver makes streams and loads code one at a time.
set(PH_GPU_OPENS_OFTEN nn.module_shortages tensor.operator_shortages)
# On a GPU a program makes one context, which takes a fifth of a second, and not one a test: but where contexts or the GPU's whole
# memory are what it is about.
set(PH_GPU_OWN_CONTEXTS cuda device fault)
# Started first, as they take longest.
set(PH_GPU_LONG nn.adam nn.module_shortages nn.sgd nn.zeros tensor.elementwise tensor.elementwise_choice tensor.elementwise_copy
    tensor.elementwise_functions tensor.operator_shortages tensor.reduce)
set(PH_MAY_SKIP cuda.two_gpus cuda.cupti) # where the machine has one GPU; where it has no CUPTI

# Where the tests are compiled for another processor: what runs them (docs/guide/support.md).
set(test_launcher ${CMAKE_CROSSCOMPILING_EMULATOR})
if(PH_VALGRIND)
    find_program(VALGRIND valgrind REQUIRED)
    set(test_launcher ${VALGRIND} --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,possible)
endif()

# ---- What the tests share ----
file(GLOB support_sources CONFIGURE_DEPENDS tests/support/*.c)
if(support_sources)
    add_library(test_support STATIC ${support_sources})
    target_include_directories(test_support PRIVATE src tests)
    target_link_libraries(test_support PUBLIC phonograph::static PkgConfig::CMOCKA)
    # Tests of several ranks start themselves with mpirun; "": they are skipped.
    set(test_mpiexec)
    if(TARGET phonograph_mpi)
        set(test_mpiexec ${MPIEXEC_EXECUTABLE})
        target_compile_definitions(test_support PRIVATE PH_TEST_MPI_PLUG_IN="$<TARGET_FILE:phonograph_mpi>")
        add_dependencies(test_support phonograph_mpi)
    else()
        target_compile_definitions(test_support PRIVATE PH_TEST_MPI_PLUG_IN="")
    endif()
    target_compile_definitions(test_support PRIVATE PH_TEST_MPIEXEC="${test_mpiexec}")
endif()

# ---- The software libcuda and NVRTC ----
# The libcuda runs on a host driver of its own: nothing of the copy of the library that is in it may mix with that of the test's.
set(fake_dir ${PROJECT_BINARY_DIR}/tests/fake)
function(ph_add_fake file)
    if(NOT ARGN)
        return()
    endif()
    string(REGEX REPLACE "\\.so.*" "" name ${file})
    string(REGEX REPLACE ".*(\\.so.*)" "\\1" suffix ${file})
    add_library(fake_${name} SHARED ${ARGN})
    set_target_properties(fake_${name} PROPERTIES
        PREFIX "" OUTPUT_NAME ${name} SUFFIX ${suffix} NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${fake_dir})
    target_include_directories(fake_${name} PRIVATE src tests)
    target_link_options(fake_${name} PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL)
    target_link_libraries(fake_${name} PRIVATE phonograph::static m)
endfunction()
file(GLOB fake_cuda_sources CONFIGURE_DEPENDS tests/fake/cuda_*.c)
file(GLOB fake_nvrtc_sources CONFIGURE_DEPENDS tests/fake/nvrtc_*.c)
ph_add_fake(libcuda.so.1 ${fake_cuda_sources})
ph_add_fake(libnvrtc.so.13 ${fake_nvrtc_sources})
file(GLOB fake_cupti_sources CONFIGURE_DEPENDS tests/fake/cupti_*.c)
ph_add_fake(libcupti.so.13 ${fake_cupti_sources})
file(GLOB fake_cublaslt_sources CONFIGURE_DEPENDS tests/fake/cublaslt_*.c)
ph_add_fake(libcublasLt.so.13 ${fake_cublaslt_sources})
file(GLOB fake_cudnn_sources CONFIGURE_DEPENDS tests/fake/cudnn_*.c)
ph_add_fake(libcudnn.so.9 ${fake_cudnn_sources})
file(GLOB fake_nccl_sources CONFIGURE_DEPENDS tests/fake/nccl_*.c)
ph_add_fake(libnccl.so.2 ${fake_nccl_sources})
# A tool that listens to NVTX ranges, which a test names.
ph_add_fake(libnvtx_tool.so tests/fake/nvtx_tool.c)

# ---- Programs ----
# What compute-sanitizer reports of its own accord is wrong accesses of kernels and device memory that was not given back. Driver calls that
# answer with an error are none of it: the tests provoke them on purpose, and the library asks some questions whose answer is one.
# Tests of what never touches the GPU, and children of a fork, start no CUDA: that is no error either.
set(gpu_launcher)
if(PH_COMPUTE_SANITIZER)
    set(gpu_launcher ${PH_COMPUTE_SANITIZER} --tool memcheck --leak-check full --error-exitcode 99
        --report-api-errors no --require-cuda-init no --target-processes all)
endif()

# Where a test finds the programs and the data that it runs.
set(test_definitions
    PH_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    PH_TEST_PROGRAM_DIR="${PROJECT_BINARY_DIR}/bin")
# What instructions are counted of: unit.instructions and unit.instructions_calls have a table for each.
string(JOIN "-" test_build ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION} ${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_BUILD_TYPE} ${PH_SANITIZE})

# ph_add_fake_test(NAME TARGET [SETTING...])
function(ph_add_fake_test name target)
    add_test(NAME ${name} COMMAND ${test_launcher} $<TARGET_FILE:${target}>)
    set_tests_properties(${name} PROPERTIES LABELS fake
        ENVIRONMENT "PH_TEST_DEVICE=cuda;PH_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/cache/fake;${ARGN}"
        ENVIRONMENT_MODIFICATION "LD_LIBRARY_PATH=path_list_prepend:${fake_dir};PH_NVRTC=unset:;PH_CUBLASLT=unset:;PH_CUDNN=unset:")
endfunction()

# Several at a time, as most of each is the making of a context. Their time is CTest's --timeout.
function(ph_add_gpu_test name target)
    set(launcher ${gpu_launcher})
    set(settings "PH_TEST_DEVICE=cuda;PH_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/cache/gpu;${PH_GPU_SETTINGS_${name}}")
    if(name IN_LIST PH_NOT_SANITIZED)
        set(launcher)
    elseif(gpu_launcher)
        list(APPEND settings PH_TEST_LAUNCHES_WAIT=1)
    endif()
    string(REGEX REPLACE "\\..*" "" group ${name})
    if(NOT gpu_launcher AND NOT group IN_LIST PH_GPU_OWN_CONTEXTS AND NOT name IN_LIST PH_GPU_ALONE)
        list(APPEND settings PH_TEST_HOLD_CONTEXT=1)
    endif()
    add_test(NAME ${name}@gpu COMMAND ${launcher} $<TARGET_FILE:${target}>)
    set_tests_properties(${name}@gpu PROPERTIES LABELS gpu ENVIRONMENT "${settings}")
    if(gpu_launcher OR name IN_LIST PH_GPU_ALONE)
        set_tests_properties(${name}@gpu PROPERTIES RUN_SERIAL ON)
    endif()
    if(name IN_LIST PH_GPU_OPENS_OFTEN)
        set_tests_properties(${name}@gpu PROPERTIES RESOURCE_LOCK opens_often)
    endif()
    if(name IN_LIST PH_GPU_LONG)
        set_tests_properties(${name}@gpu PROPERTIES COST 1000)
    endif()
endfunction()

# ph_add_device_tests(NAME TARGET): on the fake, and on the GPU. 77: all of it was skipped, and the program has said why.
function(ph_add_device_tests name target)
    set(entries)
    if(fake_cuda_sources AND NOT name IN_LIST PH_NOT_ON_FAKE AND NOT name IN_LIST PH_ON_GPU_ALONE)
        ph_add_fake_test(${name}@fake ${target})
        list(APPEND entries ${name}@fake)
        if(name IN_LIST PH_ALSO_WAITING)
            ph_add_fake_test(${name}@fake-waiting ${target} PH_TEST_LAUNCHES_WAIT=1 FAKE_CUDA_LAUNCHES_WAIT=1)
        endif()
    endif()
    if(PH_TEST_GPU AND NOT name IN_LIST PH_NOT_ON_GPU)
        ph_add_gpu_test(${name} ${target})
        list(APPEND entries ${name}@gpu)
    endif()
    if(entries AND name IN_LIST PH_MAY_SKIP)
        set_tests_properties(${entries} PROPERTIES SKIP_RETURN_CODE 77)
    endif()
endfunction()

file(GLOB test_sources CONFIGURE_DEPENDS tests/*/*.c)
list(FILTER test_sources EXCLUDE REGEX "/tests/(support|install|headers|fake|fuzz-corpora|oracle)/")
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
    if(group IN_LIST PH_NN_GROUPS OR "${group}.${name}" IN_LIST PH_NN_TESTS)
        target_link_libraries(${target} PRIVATE phonograph::nn_static)
    endif()
    if("${group}.${name}" MATCHES "^torch\\.allocator") # with the plug-in's own objects, over the static library
        target_link_libraries(${target} PRIVATE phonograph_torch_objects)
    endif()
    if("${group}.${name}" MATCHES "^unit\\.instructions")
        target_compile_definitions(${target} PRIVATE PH_TEST_BUILD="${test_build}")
    endif()
    if("${group}.${name}" IN_LIST PH_UNWIND_TESTS)
        target_link_options(${target} PRIVATE -Wl,--push-state,--no-as-needed -lgcc_s -Wl,--pop-state)
    endif()
    if(group MATCHES "^(inspect|cli)$") # they read the JSON that is written
        target_link_libraries(${target} PRIVATE PkgConfig::JANSSON)
    endif()
    if(NOT group IN_LIST PH_CUDA_GROUPS)
        add_test(NAME ${group}.${name} COMMAND ${test_launcher} $<TARGET_FILE:${target}>)
    endif()
    if("${group}.${name}" IN_LIST PH_NO_DEVICE_TESTS)
        continue()
    endif()
    # MPI is not compiled with sanitizers: it leaks, and ThreadSanitizer cannot see its threads.
    if(group STREQUAL mpi)
        set_tests_properties(mpi.${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 240 RESOURCE_LOCK ranks
            ENVIRONMENT "ASAN_OPTIONS=detect_leaks=0")
        if(PH_VALGRIND OR PH_SANITIZE MATCHES thread)
            set_tests_properties(mpi.${name} PROPERTIES DISABLED ON)
        endif()
    endif()
    # The same tests by NCCL, with and without MPI.
    if(group STREQUAL mpi AND NOT name MATCHES "data_parallel|tensor_collectives|transformer" AND fake_cuda_sources AND NOT PH_VALGRIND AND NOT PH_SANITIZE)
        ph_add_fake_test(mpi.${name}@fake ${target})
        ph_add_fake_test(mpi.${name}@fake-alone ${target} PH_TEST_WITHOUT_MPI=1)
        set_tests_properties(mpi.${name}@fake mpi.${name}@fake-alone PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 240 RESOURCE_LOCK ranks)
    endif()
    # Two GPUs, one a rank, with NVIDIA's NCCL.
    if(group STREQUAL mpi AND PH_TEST_GPU AND NOT PH_VALGRIND AND NOT PH_SANITIZE)
        add_test(NAME mpi.${name}@gpu COMMAND $<TARGET_FILE:${target}>)
        set_tests_properties(mpi.${name}@gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 240 RESOURCE_LOCK ranks
            ENVIRONMENT "PH_TEST_DEVICE=cuda;PH_TEST_WITHOUT_MPI=1;PH_TEST_MOST_RANKS=2")
    endif()
    if(group IN_LIST PH_ANY_DEVICE_GROUPS OR group IN_LIST PH_CUDA_GROUPS OR "${group}.${name}" IN_LIST PH_ANY_DEVICE_TESTS)
        ph_add_device_tests(${group}.${name} ${target})
    endif()
endforeach()

# ---- C++ programs: tests/<group>/<name>.cpp, of libphonograph_nn; they report by themselves, without cmocka ----
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
endif()
file(GLOB cxx_test_sources CONFIGURE_DEPENDS tests/*/*.cpp)
foreach(source ${cxx_test_sources})
    cmake_path(GET source STEM name)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME group)
    set(target test_${group}_${name})
    if(NOT CMAKE_CXX_COMPILER)
        add_test(NAME ${group}.${name} COMMAND sh -c "echo 'skipped: no C++ compiler was found'; exit 77")
        set_tests_properties(${group}.${name} PROPERTIES SKIP_RETURN_CODE 77)
        continue()
    endif()
    add_executable(${target} ${source})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${group}
        CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    target_include_directories(${target} PRIVATE tests)
    target_compile_options(${target} PRIVATE ${PH_WARNINGS} $<$<BOOL:${PH_WERROR}>:-Werror>)
    target_link_libraries(${target} PRIVATE test_support phonograph::nn_static phonograph::static PkgConfig::CMOCKA m)
    if("${group}.${name}" MATCHES "^torch\\.allocator")
        target_link_libraries(${target} PRIVATE phonograph_torch_objects)
    endif()
    add_test(NAME ${group}.${name} COMMAND ${test_launcher} $<TARGET_FILE:${target}>)
    ph_add_device_tests(${group}.${name} ${target})
endforeach()

foreach(test test_device_nvtx test_device_nvtx_domains test_device_nvtx_heard test_unit_base_environment)
    if(TARGET ${test})
        add_dependencies(${test} fake_libnvtx_tool)
        target_compile_definitions(${test} PRIVATE PH_TEST_NVTX_TOOL="$<TARGET_FILE:fake_libnvtx_tool>")
    endif()
endforeach()

foreach(test test_unit_copies test_device_nvtx_heard)
    if(TARGET ${test})
        add_dependencies(${test} phonograph)
        target_compile_definitions(${test} PRIVATE PH_TEST_LIBRARY="$<TARGET_FILE:phonograph>")
    endif()
endforeach()

# ---- Drivers of other versions, as the fake has them ----
if(fake_cuda_sources)
    foreach(version 12040 12060 12080 12090 13010)
        foreach(name capture nodes slots child liveness)
            ph_add_fake_test(cuda.version_${version}_${name} test_graph_${name} FAKE_CUDA_VERSION=${version})
        endforeach()
    endforeach()
endif()

# ---- What oracle.py holds against PyTorch, where there is one; that it runs is tested here ----
add_executable(oracle tests/oracle/oracle.c tests/oracle/oracle_autocast.c tests/oracle/oracle_more.c tests/oracle/oracle_optimizers.c)
target_include_directories(oracle PRIVATE src)
target_link_libraries(oracle PRIVATE phonograph::nn)
add_test(NAME oracle.runs COMMAND oracle host ${PROJECT_BINARY_DIR}/oracle.safetensors)

# Its own lines are what it looks for.
set_source_files_properties(tests/unit/source_lines.c PROPERTIES COMPILE_OPTIONS -g)
# The first unit of the program is one that the linker drops.
add_library(test_dropped OBJECT tests/unit/dropped/dropped.c)
target_compile_options(test_dropped PRIVATE -g -O0 -ffunction-sections)
add_dependencies(test_unit_source_lines test_dropped)
target_link_options(test_unit_source_lines PRIVATE -Wl,--gc-sections $<TARGET_OBJECTS:test_dropped>)
# The same without an index of addresses, as clang writes none.
add_custom_command(TARGET test_unit_source_lines POST_BUILD
    COMMAND ${CMAKE_OBJCOPY} --remove-section=.debug_aranges $<TARGET_FILE:test_unit_source_lines> $<TARGET_FILE:test_unit_source_lines>_unindexed)
add_test(NAME unit.source_lines_unindexed COMMAND $<TARGET_FILE:test_unit_source_lines>_unindexed)

# In the long tier it compiles every kernel for each architecture.
set_tests_properties(tensor.texts PROPERTIES TIMEOUT 1800)

# ---- The main job: the command line that `./build.sh demo` runs ----
if(TARGET digits AND NOT PH_VALGRIND)
    add_test(NAME examples.digits COMMAND digits
        --data ${PROJECT_SOURCE_DIR}/examples/digits/data/digits.csv.gz
        --report ${PROJECT_BINARY_DIR}/digits-report.html)
    add_test(NAME examples.digits_modules COMMAND digits --form modules
        --data ${PROJECT_SOURCE_DIR}/examples/digits/data/digits.csv.gz
        --report ${PROJECT_BINARY_DIR}/digits-modules-report.html)
endif()

if(TARGET gpt AND NOT PH_VALGRIND)
    add_test(NAME examples.gpt COMMAND gpt --device host:threads=2 --steps 120 --batch 8 --time 32 --width 32 --quiet --sample 40
        --record ${PROJECT_BINARY_DIR}/gpt-step.json ${PROJECT_SOURCE_DIR}/docs)
    set_tests_properties(examples.gpt PROPERTIES FIXTURES_SETUP gpt_record)
    add_test(NAME examples.gpt_f16 COMMAND gpt --f16 --device host:threads=2 --steps 120 --batch 8 --time 32 --width 32 --quiet --sample 40
        ${PROJECT_SOURCE_DIR}/docs)
    add_test(NAME examples.gpt_bf16 COMMAND gpt --bf16 --device host:threads=2 --steps 120 --batch 8 --time 32 --width 32 --quiet --sample 40
        ${PROJECT_SOURCE_DIR}/docs)
endif()

# Each checks itself.
foreach(source ${graphed_sources})
    if(PH_VALGRIND)
        break()
    endif()
    cmake_path(GET source STEM name)
    add_test(NAME examples.graphed_${name} COMMAND graphed_${name} host:threads=2)
    if(PH_TEST_GPU)
        add_test(NAME examples.graphed_${name}@gpu COMMAND ${gpu_launcher} $<TARGET_FILE:graphed_${name}> cuda)
        set_tests_properties(examples.graphed_${name}@gpu PROPERTIES LABELS gpu
            ENVIRONMENT "PH_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/cache/gpu")
    endif()
endforeach()

# So does this, alone; tests/cli/examples.c runs it with mpirun.
if(TARGET data_parallel AND NOT PH_VALGRIND)
    add_test(NAME examples.data_parallel COMMAND data_parallel host:threads=1)
    if(PH_TEST_GPU)
        add_test(NAME examples.data_parallel@gpu COMMAND data_parallel cuda)
        set_tests_properties(examples.data_parallel@gpu PROPERTIES LABELS gpu
            ENVIRONMENT "PH_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/cache/gpu")
    endif()
endif()

# ---- With Python: the tables of measurements, and the page of `phonograph view` in a browser ----
find_program(PH_PYTHON NAMES python3)
if(PH_PYTHON)
    add_test(NAME headers.tables COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1
        ${PH_PYTHON} ${PROJECT_SOURCE_DIR}/bench/tables.py --check ${PROJECT_SOURCE_DIR})
    add_test(NAME cli.view_page COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1
        ${PH_PYTHON} ${PROJECT_SOURCE_DIR}/tests/cli/view/run.py $<TARGET_FILE:phonograph_cli>)
else()
    add_test(NAME headers.tables COMMAND sh -c "echo 'skipped: no python3 was found: the tables of docs/measurements were not checked'; exit 77")
    set_tests_properties(headers.tables PROPERTIES SKIP_RETURN_CODE 77)
    add_test(NAME cli.view_page COMMAND sh -c "echo 'skipped: no python3 was found: the page of phonograph view was not opened'; exit 77")
endif()
set_tests_properties(cli.view_page PROPERTIES SKIP_RETURN_CODE 77)
if(TEST examples.gpt)
    set_tests_properties(cli.view_page PROPERTIES FIXTURES_REQUIRED gpt_record
        ENVIRONMENT PH_GPT_RECORD=${PROJECT_BINARY_DIR}/gpt-step.json)
endif()

# ---- Public headers: each compiles alone, as C11 and as C++17 ----
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

# ---- The headers for C++: each compiles alone, with the warnings on; by nvcc too where it is found ----
file(GLOB_RECURSE cxx_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include include/*.hpp)
foreach(header ${cxx_headers})
    string(REGEX REPLACE "^phonograph/(.*)$" "\\1" name ${header})
    if(CMAKE_CXX_COMPILER)
        add_test(NAME headers.cxx17.${name} COMMAND ${CMAKE_CXX_COMPILER} -std=c++17 ${header_flags} -include ${header} -x c++ /dev/null)
    else()
        add_test(NAME headers.cxx17.${name} COMMAND sh -c "echo 'skipped: no C++ compiler was found'; exit 77")
        set_tests_properties(headers.cxx17.${name} PROPERTIES SKIP_RETURN_CODE 77)
    endif()
endforeach()
if(CMAKE_CXX_COMPILER)
    add_test(NAME headers.bodies COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/bodies.sh ${PROJECT_SOURCE_DIR} ${CMAKE_CXX_COMPILER})
    add_test(NAME headers.cxx14 COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/cxx14.sh ${PROJECT_SOURCE_DIR} ${CMAKE_CXX_COMPILER})
else()
    foreach(name bodies cxx14)
        add_test(NAME headers.${name} COMMAND sh -c "echo 'skipped: no C++ compiler was found'; exit 77")
        set_tests_properties(headers.${name} PROPERTIES SKIP_RETURN_CODE 77)
    endforeach()
endif()
if(PH_NVCC AND CMAKE_CXX_COMPILER)
    add_test(NAME headers.nvcc COMMAND ${PH_NVCC} -std=c++17 -Xcompiler -Wall,-Wextra,-Werror -I${PROJECT_SOURCE_DIR}/include
        -include phonograph/nn.hpp -x cu /dev/null -c -o ${PROJECT_BINARY_DIR}/tests/headers.nvcc.o)
else()
    add_test(NAME headers.nvcc COMMAND sh -c "echo 'skipped: no nvcc was found: phonograph.hpp was not compiled by it'; exit 77")
    set_tests_properties(headers.nvcc PROPERTIES SKIP_RETURN_CODE 77)
endif()

# ---- What we declare of CUDA's, against the toolkit's headers where there are some; compiling is the test ----
file(GLOB cuda_folders /usr/local/cuda-*/include)
list(SORT cuda_folders COMPARE NATURAL ORDER DESCENDING)
find_path(PH_CUDA_HEADERS cuda.h
    HINTS $ENV{CUDA_PATH}/include $ENV{CUDA_HOME}/include PATHS /usr/local/cuda/include ${cuda_folders} /opt/cuda/include)
if(PH_CUDA_HEADERS)
    message(STATUS "CUDA's headers: ${PH_CUDA_HEADERS}")
    add_test(NAME headers.abi COMMAND ${CMAKE_C_COMPILER} -std=c11 -D_GNU_SOURCE ${PH_C_WARNINGS} -Werror -fsyntax-only
        -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/tests -isystem ${PH_CUDA_HEADERS}
        ${PROJECT_SOURCE_DIR}/tests/headers/cuda_abi.c)
else()
    message(STATUS "CUDA's headers: not found: the ABI of CUDA is not checked here")
    add_test(NAME headers.abi COMMAND sh -c "echo 'skipped: no CUDA toolkit: the declarations of src/driver/cuda were not held against its headers'; exit 77")
    set_tests_properties(headers.abi PROPERTIES SKIP_RETURN_CODE 77)
endif()

if(PH_CUDA_HEADERS AND EXISTS ${PH_CUDA_HEADERS}/nvtx3/nvToolsExt.h)
    add_test(NAME headers.abi.nvtx COMMAND ${CMAKE_C_COMPILER} -std=c11 -D_GNU_SOURCE ${PH_C_WARNINGS} -Werror -fsyntax-only
        -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/tests -isystem ${PH_CUDA_HEADERS} ${PROJECT_SOURCE_DIR}/tests/headers/nvtx_abi.c)
else()
    add_test(NAME headers.abi.nvtx COMMAND sh -c "echo 'skipped: no nvToolsExt.h: the declarations of src/device/nvtx_abi.h were not held against it'; exit 77")
    set_tests_properties(headers.abi.nvtx PROPERTIES SKIP_RETURN_CODE 77)
endif()

find_path(PH_CUBLASLT_HEADERS cublasLt.h HINTS ${PH_CUDA_HEADERS} NO_DEFAULT_PATH)
if(PH_CUBLASLT_HEADERS)
    add_test(NAME headers.abi.cublaslt COMMAND ${CMAKE_C_COMPILER} -std=c11 -D_GNU_SOURCE ${PH_C_WARNINGS} -Werror -fsyntax-only
        -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/tests -isystem ${PH_CUBLASLT_HEADERS} ${PROJECT_SOURCE_DIR}/tests/headers/cublaslt_abi.c)
else()
    add_test(NAME headers.abi.cublaslt COMMAND sh -c "echo 'skipped: no cublasLt.h: the declarations of src/tensor were not held against it'; exit 77")
    set_tests_properties(headers.abi.cublaslt PROPERTIES SKIP_RETURN_CODE 77)
endif()

find_path(PH_CUDNN_HEADERS cudnn_backend.h HINTS ${PH_CUDA_HEADERS} NO_DEFAULT_PATH)
if(PH_CUDNN_HEADERS)
    add_test(NAME headers.abi.cudnn COMMAND ${CMAKE_C_COMPILER} -std=c11 -D_GNU_SOURCE ${PH_C_WARNINGS} -Werror -fsyntax-only
        -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/tests -isystem ${PH_CUDNN_HEADERS} ${PROJECT_SOURCE_DIR}/tests/headers/cudnn_abi.c)
else()
    add_test(NAME headers.abi.cudnn COMMAND sh -c "echo 'skipped: no cudnn_backend.h: the declarations of src/tensor were not held against it'; exit 77")
    set_tests_properties(headers.abi.cudnn PROPERTIES SKIP_RETURN_CODE 77)
endif()

find_path(PH_LIBDW_HEADERS elfutils/libdwfl.h)
if(PH_LIBDW_HEADERS)
    add_test(NAME headers.abi.libdw COMMAND ${CMAKE_C_COMPILER} -std=c11 -D_GNU_SOURCE ${PH_C_WARNINGS} -Werror -fsyntax-only
        -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/tests -isystem ${PH_LIBDW_HEADERS} ${PROJECT_SOURCE_DIR}/tests/headers/libdw_abi.c)
else()
    add_test(NAME headers.abi.libdw COMMAND sh -c "echo 'skipped: no elfutils/libdwfl.h: the declarations of src/driver/libdw_abi.h were not held against it'; exit 77")
    set_tests_properties(headers.abi.libdw PROPERTIES SKIP_RETURN_CODE 77)
endif()

find_path(PH_NCCL_HEADERS nccl.h HINTS ${PH_CUDA_HEADERS} PATHS /usr/include)
if(PH_CUDA_HEADERS AND PH_NCCL_HEADERS)
    add_test(NAME headers.abi.nccl COMMAND ${CMAKE_C_COMPILER} -std=c11 -D_GNU_SOURCE ${PH_C_WARNINGS} -Werror -fsyntax-only
        -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/tests -isystem ${PH_NCCL_HEADERS} -isystem ${PH_CUDA_HEADERS} ${PROJECT_SOURCE_DIR}/tests/headers/nccl_abi.c)
else()
    add_test(NAME headers.abi.nccl COMMAND sh -c "echo 'skipped: no nccl.h: the declarations of src/comm/nccl were not held against it'; exit 77")
    set_tests_properties(headers.abi.nccl PROPERTIES SKIP_RETURN_CODE 77)
endif()

# ---- The tree and the library as a whole ----
foreach(part core nn)
    if(part STREQUAL core)
        set(library phonograph)
    else()
        set(library phonograph_nn)
    endif()
    add_test(NAME headers.exports.${part} COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/exports.sh
        ${PROJECT_SOURCE_DIR}/include $<TARGET_FILE:${library}> ${CMAKE_C_COMPILER} ${CMAKE_NM} PHONOGRAPH_${PH_ABI_VERSION} ${part} ${PH_NN_HEADERS})
endforeach()
if(NOT PH_SANITIZE)
    add_test(NAME headers.needed COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/needed.sh
        $<TARGET_FILE:phonograph> ${CMAKE_READELF} libphonograph.so.${PH_ABI_VERSION})
    add_test(NAME headers.needed.nn COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/needed.sh
        $<TARGET_FILE:phonograph_nn> ${CMAKE_READELF} libphonograph_nn.so.${PH_ABI_VERSION} libphonograph libm)
endif()
if(TARGET manual)
    find_program(PH_MANDOC mandoc)
    add_test(NAME headers.manual COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/manual.sh ${PROJECT_SOURCE_DIR} ${manual_dir} $<$<BOOL:${PH_MANDOC}>:${PH_MANDOC}>)
else()
    add_test(NAME headers.manual COMMAND sh -c "echo 'skipped: no awk was found, which makes the manual pages'; exit 77")
    set_tests_properties(headers.manual PROPERTIES SKIP_RETURN_CODE 77)
endif()
if(TARGET phonograph_cli)
    add_test(NAME cli.completions COMMAND sh ${PROJECT_SOURCE_DIR}/tests/cli/completions.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:phonograph_cli>)
endif()
add_test(NAME headers.structs COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/structs.sh ${PROJECT_SOURCE_DIR})
if(NOT PH_SANITIZE)
    foreach(library phonograph phonograph_nn)
        add_test(NAME abi.${library} COMMAND sh ${PROJECT_SOURCE_DIR}/tests/abi/abi.sh
            ${PROJECT_SOURCE_DIR} ${library} $<TARGET_FILE:${library}> ${CMAKE_C_COMPILER})
        set_tests_properties(abi.${library} PROPERTIES SKIP_RETURN_CODE 77)
    endforeach()
endif()
add_test(NAME install.recipes COMMAND sh ${PROJECT_SOURCE_DIR}/tests/install/recipes.sh
    ${PROJECT_SOURCE_DIR} ${PROJECT_VERSION} ${PH_ABI_VERSION} ${CMAKE_COMMAND})
add_test(NAME headers.licences COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/licences.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.pages COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/pages.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.comments COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/comments.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.documented COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/documented.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.links COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/links.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.snippets COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/snippets.sh ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
add_test(NAME headers.benchmarks COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/benchmarks.sh ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
add_test(NAME headers.includes COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/includes.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.handles COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/handles.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.adopted COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/adopted.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.messages COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/messages.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.environment COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/environment.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.assertions COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/assertions.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.sentences COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/sentences.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.forks COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/forks.sh ${PROJECT_SOURCE_DIR})
find_program(PH_CLANG_FORMAT NAMES clang-format-14)
if(PH_CLANG_FORMAT)
    add_test(NAME headers.format COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/format.sh ${PROJECT_SOURCE_DIR} ${PH_CLANG_FORMAT})
else()
    add_test(NAME headers.format COMMAND sh -c "echo 'skipped: no clang-format-14 was found, whose form the tree has'; exit 77")
    set_tests_properties(headers.format PROPERTIES SKIP_RETURN_CODE 77)
endif()
add_test(NAME headers.words COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/words.sh ${PROJECT_SOURCE_DIR})
add_test(NAME headers.names COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/names.sh ${PROJECT_SOURCE_DIR})
# The folders of src/: which may use which, by the object files.
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/tests/objects.txt
    CONTENT "$<JOIN:$<TARGET_OBJECTS:phonograph_objects>,\n>\n$<JOIN:$<TARGET_OBJECTS:phonograph_nn_objects>,\n>\n")
add_test(NAME headers.rooms COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/rooms.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/tests/objects.txt)
add_test(NAME headers.located COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/located.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/tests/objects.txt)
add_test(NAME headers.declares COMMAND sh ${PROJECT_SOURCE_DIR}/tests/headers/declares.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/tests/objects.txt)

# ---- A program outside the tree, against an installed copy ----
set(install_flags)
if(PH_SANITIZE)
    set(install_flags -fsanitize=${PH_SANITIZE})
endif()
add_test(NAME install.consumer COMMAND sh ${PROJECT_SOURCE_DIR}/tests/install/run.sh
    ${PROJECT_SOURCE_DIR}/tests/install ${PROJECT_BINARY_DIR} ${CMAKE_COMMAND} ${CMAKE_C_COMPILER} "${install_flags}")

# ---- Three hosts: network namespaces of one machine ----
if(TARGET phonograph_mpi AND NOT PH_VALGRIND AND NOT PH_SANITIZE)
    add_test(NAME mpi.hosts COMMAND sh ${PROJECT_SOURCE_DIR}/tests/mpi/hosts.sh "${MPIEXEC_EXECUTABLE}" $<TARGET_FILE:phonograph_mpi>
             ${PROJECT_BINARY_DIR}/tests/mpi)
    set_tests_properties(mpi.hosts PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 240 RESOURCE_LOCK ranks)
endif()

add_test(NAME install.bare_root COMMAND sh ${PROJECT_SOURCE_DIR}/tests/install/bare_root.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(install.bare_root PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 3600)
add_test(NAME install.components COMMAND sh ${PROJECT_SOURCE_DIR}/tests/install/components.sh
    ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${CMAKE_COMMAND} ${CMAKE_C_COMPILER})
