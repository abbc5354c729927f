# SPDX-License-Identifier: BSL-1.0
# Installs the headers, a package for find_package(allfold) and files for pkg-config. Apart from
# allfold::compiled, none of them depends on the machine.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_directory ${CMAKE_INSTALL_DATADIR}/cmake/allfold)
install(TARGETS allfold EXPORT allfoldTargets FILE_SET HEADERS)
install(TARGETS allfold_mpi EXPORT allfoldMpiTargets FILE_SET HEADERS)
install(EXPORT allfoldTargets NAMESPACE allfold:: DESTINATION ${package_directory})
install(EXPORT allfoldMpiTargets NAMESPACE allfold:: DESTINATION ${package_directory})

set(independent ARCH_INDEPENDENT)
# One that an earlier installation left there would be linked with these headers.
install(CODE "file(GLOB old \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${package_directory}/allfoldCompiledTargets*.cmake\")
if(old)
    file(REMOVE \${old})
endif()")
if(ALLFOLD_BUILD_COMPILED)
    install(TARGETS allfold_compiled EXPORT allfoldCompiledTargets)
    install(EXPORT allfoldCompiledTargets NAMESPACE allfold:: DESTINATION ${package_directory})
    set(independent "")
endif()

write_basic_package_version_file(allfoldConfigVersion.cmake COMPATIBILITY SameMinorVersion ${independent})
install(FILES cmake/allfoldConfig.cmake cmake/allfoldExplore.cmake ${CMAKE_CURRENT_BINARY_DIR}/allfoldConfigVersion.cmake
        DESTINATION ${package_directory})

set(pkgconfig_includedir ${CMAKE_INSTALL_INCLUDEDIR})  # if it is absolute, not in the prefix
if(NOT IS_ABSOLUTE "${pkgconfig_includedir}")
    file(RELATIVE_PATH pkgconfig_includedir
         ${CMAKE_INSTALL_FULL_DATADIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
    string(PREPEND pkgconfig_includedir "\${pcfiledir}/")
endif()
foreach(name allfold allfold-mpi)
    configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
endforeach()

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/allfold)
