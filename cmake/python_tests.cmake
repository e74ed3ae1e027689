# SPDX-License-Identifier: MIT
# The tests of the Python package: each tests/python/<name>.py is the CTest test python.<name>, under pytest. Those in PH_PYTHON_ANY_DEVICE are also
# python.<name>@fake, over the software libcuda.
set(PH_PYTHON_ANY_DEVICE arrays caches foreign gpu_kernels graphs interop_objects nodes objects slots tensors words)
file(GLOB python_tests CONFIGURE_DEPENDS tests/python/*.py)
list(FILTER python_tests EXCLUDE REGEX "/(conftest|behaviours)\\.py$")

# ph_skip_python(NAME REASON)
function(ph_skip_python name reason)
    add_test(NAME python.${name} COMMAND sh -c "echo 'skipped: ${reason}: the Python package was not tested'; exit 77")
    set_tests_properties(python.${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

if(NOT PH_PYTHON)
    set(python_skipped "no python3 was found")
elseif(PH_SANITIZE OR PH_VALGRIND)
    set(python_skipped "Python is not built with the tools of this preset")
endif()

# The first Python that has pytest and numpy: the one of the PATH may have none where the system's has them.
if(NOT python_skipped)
    foreach(candidate ${PH_PYTHON} /usr/bin/python3)
        execute_process(COMMAND ${candidate} -c "import numpy, pytest" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
        if(NOT failed AND NOT PH_TEST_PYTHON)
            set(PH_TEST_PYTHON ${candidate})
        endif()
    endforeach()
    if(NOT PH_TEST_PYTHON)
        set(PH_TEST_PYTHON ${PH_PYTHON})
    endif()
    # Compiling it is a test of what was read from the headers.
    add_custom_command(OUTPUT ${python_generated}/check.c DEPENDS ${python_generated}/stamp COMMAND ${CMAKE_COMMAND} -E true)
    add_executable(python_check ${python_generated}/check.c)
    target_link_libraries(python_check PRIVATE phonograph::nn)
    add_dependencies(python_check python)
endif()

foreach(file ${python_tests})
    cmake_path(GET file STEM name)
    if(python_skipped)
        ph_skip_python(${name} "${python_skipped}")
        continue()
    endif()
    set(settings PYTHONPATH=${PROJECT_BINARY_DIR}/python PH_TEST_CHECK=$<TARGET_FILE:python_check>
        PH_TEST_GENERATE=${PROJECT_SOURCE_DIR}/python/generate PH_TEST_SOURCE=${PROJECT_SOURCE_DIR} PH_TEST_BUILD=${PROJECT_BINARY_DIR})
    set(run sh ${PROJECT_SOURCE_DIR}/tests/python/run.sh ${PH_TEST_PYTHON} ${file})
    add_test(NAME python.${name} COMMAND ${run})
    set_tests_properties(python.${name} PROPERTIES SKIP_RETURN_CODE 77 ENVIRONMENT "${settings}")
    if(name IN_LIST PH_PYTHON_ANY_DEVICE AND fake_cuda_sources)
        add_test(NAME python.${name}@fake COMMAND ${run})
        set_tests_properties(python.${name}@fake PROPERTIES SKIP_RETURN_CODE 77 LABELS fake
            ENVIRONMENT "${settings};PH_TEST_DEVICE=cuda;PH_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/cache/fake"
            ENVIRONMENT_MODIFICATION "LD_LIBRARY_PATH=path_list_prepend:${fake_dir};PH_NVRTC=unset:;PH_CUBLASLT=unset:;PH_CUDNN=unset:")
    endif()
endforeach()
