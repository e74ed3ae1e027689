# SPDX-License-Identifier: MIT
# One set of objects, two libraries: phonograph::phonograph (shared) and phonograph::static.
file(GLOB library_sources CONFIGURE_DEPENDS src/*/*.c src/driver/*/*.c)
add_library(phonograph_objects OBJECT ${library_sources})
set_target_properties(phonograph_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(phonograph_objects PRIVATE include src)
target_link_libraries(phonograph_objects PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

add_library(phonograph SHARED $<TARGET_OBJECTS:phonograph_objects>)
add_library(phonograph_static STATIC $<TARGET_OBJECTS:phonograph_objects>)
add_library(phonograph::phonograph ALIAS phonograph)
add_library(phonograph::static ALIAS phonograph_static)
set_target_properties(phonograph PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set_target_properties(phonograph_static PROPERTIES
    OUTPUT_NAME phonograph EXPORT_NAME static
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
if(NOT PH_SANITIZE)
    target_link_options(phonograph PRIVATE -Wl,--no-undefined)
endif()
foreach(library phonograph phonograph_static)
    target_include_directories(${library} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
target_link_libraries(phonograph PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_link_libraries(phonograph_static PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
