# SPDX-License-Identifier: MIT
# The manual pages, made from the public headers (docs/man/), and the completions of the command. The target manual.
find_program(PH_AWK awk)
find_program(PH_SH sh)
file(GLOB_RECURSE manual_headers CONFIGURE_DEPENDS include/*.h)
file(GLOB manual_sources CONFIGURE_DEPENDS docs/man/*)
set(manual_dir ${PROJECT_BINARY_DIR}/man)
if(PH_AWK AND PH_SH)
    add_custom_command(OUTPUT ${manual_dir}.made
        COMMAND ${PH_SH} ${PROJECT_SOURCE_DIR}/docs/man/make.sh ${PROJECT_SOURCE_DIR} ${manual_dir} ${PROJECT_VERSION}
        COMMAND ${CMAKE_COMMAND} -E touch ${manual_dir}.made
        DEPENDS ${manual_headers} ${manual_sources}
        COMMENT "Making the manual pages")
    add_custom_target(manual ALL DEPENDS ${manual_dir}.made)
    add_dependencies(installable manual)
    install(DIRECTORY ${manual_dir}/man3 ${manual_dir}/man7 DESTINATION ${CMAKE_INSTALL_MANDIR})
    if(TARGET phonograph_cli)
        install(DIRECTORY ${manual_dir}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
    endif()
else()
    message(STATUS "awk or sh: not found: the manual pages are not made")
endif()
if(TARGET phonograph_cli)
    install(FILES cli/completions/phonograph.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME phonograph)
    install(FILES cli/completions/_phonograph DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES cli/completions/phonograph.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
