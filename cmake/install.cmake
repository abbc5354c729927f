# SPDX-License-Identifier: BSL-1.0
# Installs the headers and a package for find_package(allfold). Nothing in it depends on the machine.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_directory ${CMAKE_INSTALL_DATADIR}/cmake/allfold)

install(TARGETS allfold EXPORT allfoldTargets FILE_SET HEADERS)
install(EXPORT allfoldTargets NAMESPACE allfold:: DESTINATION ${package_directory})

write_basic_package_version_file(allfoldConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES cmake/allfoldConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/allfoldConfigVersion.cmake
        DESTINATION ${package_directory})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/allfold)
