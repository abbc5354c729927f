# SPDX-License-Identifier: BSL-1.0
# Generates headers that list what the library offers, so that the tests cover all of it without naming it.

# Writes a header with the type `test::every_<kind>`: a list of the types that the headers of a folder declare on lines
# that match `pattern`, whose first group is the name in namespace allfold.
function(allfold_list_types output kind folder pattern)
    set(folder ${PROJECT_SOURCE_DIR}/include/allfold/${folder})
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include ${folder}/*.hpp)
    set(includes "")
    set(names "")
    foreach(header IN LISTS headers)
        file(READ ${PROJECT_SOURCE_DIR}/include/${header} text)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/${header})
        string(REGEX MATCHALL "\n${pattern}" found "${text}")
        foreach(each IN LISTS found)
            string(REGEX REPLACE "^\n${pattern}$" "allfold::\\1" name "${each}")
            list(APPEND names ${name})
            list(APPEND includes "#include \"${header}\"")
        endforeach()
    endforeach()
    list(REMOVE_DUPLICATES includes)
    list(JOIN includes "\n" includes)
    list(JOIN names ", " names)
    file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "// Made by cmake/listed_types.cmake.
#pragma once
@includes@
namespace test {
template <class... Types>
struct @kind@_list {};
using every_@kind@ = @kind@_list<@names@>;
}  // namespace test
")
endfunction()

# Every struct that has a `name`.
function(allfold_list_algorithms output)
    allfold_list_types(${output} algorithm schedule "struct ([a-z0-9_]+) {[^}]*static constexpr const char\\* name")
endfunction()

# The type `detail::..._collective` of every object that has one.
function(allfold_list_collectives output)
    allfold_list_types(${output} collective collective "inline constexpr (detail::[a-z_]+_collective) [a-z_]+{}")
endfunction()
