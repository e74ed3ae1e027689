# SPDX-License-Identifier: MIT
# A port of vcpkg inside the tree: vcpkg install phonograph --overlay-ports=packaging/vcpkg. The library alone.
cmake_path(GET CURRENT_PORT_DIR PARENT_PATH packaging_dir)
cmake_path(GET packaging_dir PARENT_PATH SOURCE_PATH)
vcpkg_cmake_configure(SOURCE_PATH ${SOURCE_PATH} OPTIONS -DPH_COMMAND=OFF -DPH_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/phonograph)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/debug/include ${CURRENT_PACKAGES_DIR}/debug/share)
vcpkg_install_copyright(FILE_LIST ${SOURCE_PATH}/LICENSE)
