# SPDX-License-Identifier: BSL-1.0
# Runs the port as vcpkg would, without vcpkg:
#   cmake -D port=<its folder> -D DOWNLOADS=<folder with the release> -D work=<scratch> -D CURRENT_PACKAGES_DIR=<prefix> \
#         -P stand_in.cmake
# The functions below do, for one platform, what vcpkg's functions of the same names do. Only vcpkg itself can test
# other triplets, its registry and its cache, and whether the port of the feature's MPI builds.
cmake_minimum_required(VERSION 3.25)

function(expect)
    if(NOT (${ARGV}))
        list(JOIN ARGV " " what)
        message(FATAL_ERROR "The port breaks a rule of vcpkg: ${what}")
    endif()
endfunction()

# Checks against the fields that the manual lists for a manifest, a feature or a dependency; those with $ are comments.
function(allow_only object)
    set(allowed ${ARGN})
    string(JSON members LENGTH "${object}")
    foreach(i RANGE 1 ${members})
        math(EXPR i "${i} - 1")
        string(JSON name MEMBER "${object}" ${i})
        expect(name MATCHES "^[$]" OR name IN_LIST allowed)
    endforeach()
endfunction()

file(READ ${port}/vcpkg.json manifest)
allow_only("${manifest}" name version-semver port-version description homepage documentation license supports
           dependencies features)
string(JSON PORT GET "${manifest}" name)
string(JSON VERSION GET "${manifest}" version-semver)
string(JSON platforms GET "${manifest}" supports)
string(JSON mpi GET "${manifest}" features mpi)
allow_only("${mpi}" description dependencies supports)
foreach(i 0 1)
    string(JSON helper GET "${manifest}" dependencies ${i})
    allow_only("${helper}" name host)
endforeach()

function(vcpkg_check_features)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
    expect(NOT DEFINED arg_UNPARSED_ARGUMENTS)
    list(GET arg_FEATURES 0 feature)
    list(GET arg_FEATURES 1 option)
    string(JSON declared GET "${manifest}" features ${feature})
    allow_only("${declared}" description dependencies supports)
    set(${arg_OUT_FEATURE_OPTIONS} -D${option}=OFF PARENT_SCOPE)
endfunction()

function(vcpkg_from_github)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_SOURCE_PATH;REPO;REF;SHA512;HEAD_REF" "")
    expect(NOT DEFINED arg_UNPARSED_ARGUMENTS)
    expect(arg_REF STREQUAL "v${VERSION}")
    string(REPLACE / - name "${arg_REPO}")
    set(archive ${DOWNLOADS}/${name}-${arg_REF}.tar.gz)  # otherwise vcpkg would download it
    expect(EXISTS ${archive})
    file(SHA512 ${archive} hash)
    expect(arg_SHA512 STREQUAL hash)
    file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${work})
    set(${arg_OUT_SOURCE_PATH} ${work}/allfold-${VERSION} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
    expect(VCPKG_BUILD_TYPE STREQUAL "release")
    execute_process(COMMAND ${CMAKE_COMMAND} -G Ninja -S ${arg_SOURCE_PATH} -B ${work}/build ${arg_OPTIONS}
                            --install-prefix ${CURRENT_PACKAGES_DIR} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_install)
    execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build --target install
                    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_config_fixup)  # moves the package to share/<port>, which is one level less deep
    cmake_parse_arguments(PARSE_ARGV 0 arg "" CONFIG_PATH "")
    file(COPY ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/ DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT})
    cmake_path(GET arg_CONFIG_PATH PARENT_PATH parent)
    file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/${parent})
    set(up [[get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)]])
    file(GLOB files ${CURRENT_PACKAGES_DIR}/share/${PORT}/*.cmake)
    foreach(file IN LISTS files)
        file(READ ${file} text)
        string(REPLACE "${up}\n${up}\n${up}" "${up}\n${up}" text "${text}")
        file(WRITE ${file} "${text}")
    endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
    file(INSTALL ${arg_FILE_LIST} DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT} RENAME copyright)
endfunction()

include(${port}/portfile.cmake)

# What vcpkg checks after a build.
set(out ${CURRENT_PACKAGES_DIR})
foreach(file share/allfold/copyright share/allfold/usage share/allfold/allfoldConfig.cmake include/allfold/allfold.hpp
             lib/pkgconfig/allfold.pc)
    expect(EXISTS ${out}/${file})
endforeach()
file(GLOB folders RELATIVE ${out} ${out}/* ${out}/lib/* ${out}/share/*)
list(JOIN folders " " folders)
expect(folders STREQUAL "include lib lib/pkgconfig share share/allfold")
file(GLOB_RECURSE files ${out}/*.cmake ${out}/*.pc)
foreach(file IN LISTS files)
    file(READ ${file} text)
    string(FIND "${text}" "${out}" absolute_path)
    expect(absolute_path EQUAL -1)
endforeach()
