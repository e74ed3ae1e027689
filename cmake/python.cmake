# SPDX-License-Identifier: MIT
# The Python package, in the form in which a wheel has it: <build>/python/phonograph, with what is generated from the headers, the compiled module
# where Python's headers are found, and links to the libraries and the command of this build.
find_program(PH_PYTHON NAMES python3)
if(NOT PH_PYTHON)
    message(STATUS "the Python package: not in this build: no python3")
    return()
endif()
set(python_dir ${PROJECT_BINARY_DIR}/python/phonograph)
file(GLOB_RECURSE python_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python/phonograph python/phonograph/*.py python/phonograph/py.typed)
file(GLOB python_generator CONFIGURE_DEPENDS python/generate/*.py)
file(GLOB_RECURSE python_headers CONFIGURE_DEPENDS include/phonograph/*.h)

set(python_outputs)
foreach(source ${python_sources})
    add_custom_command(OUTPUT ${python_dir}/${source}
        COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/python/phonograph/${source} ${python_dir}/${source}
        DEPENDS ${PROJECT_SOURCE_DIR}/python/phonograph/${source} VERBATIM)
    list(APPEND python_outputs ${python_dir}/${source})
endforeach()
set(python_generated ${PROJECT_BINARY_DIR}/python/generated)
add_custom_command(OUTPUT ${python_generated}/stamp
    COMMAND ${PH_PYTHON} -B ${PROJECT_SOURCE_DIR}/python/generate --include ${PROJECT_SOURCE_DIR}/include
        --output ${python_generated} --nn ${PH_NN_HEADERS}
    COMMAND ${CMAKE_COMMAND} -E copy ${python_generated}/core.py ${python_generated}/core.pyi
        ${python_generated}/nn.py ${python_generated}/nn.pyi ${python_dir}/bindings
    COMMAND ${CMAKE_COMMAND} -E touch ${python_generated}/stamp
    DEPENDS ${python_generator} ${python_headers} ${python_outputs} VERBATIM
    COMMENT "Generating the calls of the Python package from the headers")
file(MAKE_DIRECTORY ${python_dir}/bindings)
file(CREATE_LINK ${PROJECT_BINARY_DIR}/lib ${python_dir}/lib SYMBOLIC)
file(CREATE_LINK ${PROJECT_BINARY_DIR}/bin ${python_dir}/bin SYMBOLIC)
# What a wheel has of them (python/make_wheel.py); no part of an ordinary installation.
install(TARGETS phonograph phonograph_nn LIBRARY DESTINATION lib NAMELINK_SKIP COMPONENT wheel EXCLUDE_FROM_ALL)
install(TARGETS phonograph_torch LIBRARY DESTINATION lib COMPONENT wheel EXCLUDE_FROM_ALL)
if(TARGET phonograph_cli)
    install(TARGETS phonograph_cli RUNTIME DESTINATION bin COMPONENT wheel EXCLUDE_FROM_ALL)
endif()
# The tests need it; other builds make it when it is asked for.
if(PH_TESTS)
    set(python_all ALL)
endif()
add_custom_target(python ${python_all} DEPENDS ${python_outputs} ${python_generated}/stamp)
add_dependencies(python phonograph phonograph_nn phonograph_torch)

# Any Python from 3.11 on loads it: it uses the limited API alone. Without Python's headers the package calls by ctypes.
if(NOT CMAKE_CROSSCOMPILING)
    execute_process(COMMAND ${PH_PYTHON} -c "import sysconfig; print(sysconfig.get_paths()['include'])"
        OUTPUT_VARIABLE python_include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(EXISTS ${python_include}/Python.h)
    add_library(python_calls MODULE EXCLUDE_FROM_ALL python/module/calls.c python/module/dicts.c python/module/nodes.c python/module/objects.c python/module/tensors.c
        python/module/word_dicts.c python/module/words.c)
    set_target_properties(python_calls PROPERTIES PREFIX "" OUTPUT_NAME _calls SUFFIX .abi3.so
        LIBRARY_OUTPUT_DIRECTORY ${python_dir} BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/lib")
    target_include_directories(python_calls SYSTEM PRIVATE ${python_include})
    target_link_libraries(python_calls PRIVATE phonograph)
    add_dependencies(python python_calls)
else()
    message(STATUS "the Python package: without its compiled module: no Python.h (the Debian package python3-dev)")
endif()
