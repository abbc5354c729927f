# SPDX-License-Identifier: BSL-1.0
vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES compiled ALLFOLD_BUILD_COMPILED)
if(NOT "compiled" IN_LIST FEATURES)
    set(VCPKG_BUILD_TYPE release) # header-only: there is no library, so no debug build
endif()

vcpkg_from_github(
    OUT_SOURCE_PATH SOURCE_PATH
    REPO allfold/allfold
    REF "v${VERSION}"
    SHA512 0
    HEAD_REF main
)

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -DALLFOLD_DEVELOPMENT=OFF
        ${FEATURE_OPTIONS}
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/allfold)

file(MAKE_DIRECTORY "${CURRENT_PACKAGES_DIR}/lib")
file(RENAME "${CURRENT_PACKAGES_DIR}/share/pkgconfig" "${CURRENT_PACKAGES_DIR}/lib/pkgconfig") # because it has Libs: -pthread
vcpkg_fixup_pkgconfig()

# The debug build of the feature compiled leaves only its library in debug.
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/licenses") # share/allfold/copyright instead
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
