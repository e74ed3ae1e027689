# SPDX-License-Identifier: MIT
# What is installed, and how other projects find it: a CMake package, phonograph.pc and phonograph_nn.pc, all relocatable.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/phonograph)

set_target_properties(phonograph_nn PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS phonograph phonograph_static phonograph_nn phonograph_nn_static EXPORT phonograph-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(phonograph_torch PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS phonograph_torch LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET phonograph_mpi)
    install(TARGETS phonograph_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/phonograph DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
# Headers name pages of docs/, and pages link to one another, to examples and to headers: all keep their places beside each other.
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
    FILES_MATCHING PATTERN "*.c" PATTERN "*.cu" PATTERN "*.h" PATTERN "*.md" PATTERN "*.csv.gz")
install(DIRECTORY python/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}/python FILES_MATCHING PATTERN "*.py")
set(doc_include ${CMAKE_INSTALL_FULL_DOCDIR}/include)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${doc_include} OUTPUT_VARIABLE doc_to_include)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/doc/include)
file(CREATE_LINK ${doc_to_include}/phonograph ${PROJECT_BINARY_DIR}/doc/include/phonograph SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/doc/include/phonograph DESTINATION ${CMAKE_INSTALL_DOCDIR}/include)
if(TARGET phonograph_cli)
    cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR}
        OUTPUT_VARIABLE bin_to_lib)
    set_target_properties(phonograph_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
    install(TARGETS phonograph_cli DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT phonograph-targets NAMESPACE phonograph:: DESTINATION ${package_dir})
configure_package_config_file(cmake/phonograph-config.cmake.in phonograph-config.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(phonograph-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/phonograph-config.cmake ${PROJECT_BINARY_DIR}/phonograph-config-version.cmake
    DESTINATION ${package_dir})

set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
foreach(kind PREFIX LIBDIR INCLUDEDIR)
    if(kind STREQUAL PREFIX)
        set(target ${CMAKE_INSTALL_PREFIX})
    else()
        set(target ${CMAKE_INSTALL_FULL_${kind}})
    endif()
    cmake_path(RELATIVE_PATH target BASE_DIRECTORY ${pc_dir} OUTPUT_VARIABLE pc_to_${kind})
endforeach()
foreach(name phonograph phonograph_nn)
    configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
