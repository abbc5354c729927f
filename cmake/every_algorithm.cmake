# SPDX-License-Identifier: BSL-1.0
# Writes a header with the list of all algorithms in include/allfold/schedule: each struct with a name. The tests of every
# collective run all of them.
function(allfold_list_algorithms output)
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/allfold/schedule/*.hpp)
    set(includes "")
    set(names "")
    foreach(header IN LISTS headers)
        file(READ ${PROJECT_SOURCE_DIR}/include/${header} text)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/${header})
        string(REGEX MATCHALL "\nstruct [a-z_]+ {[^}]*static constexpr const char\\* name" found "${text}")
        foreach(each IN LISTS found)
            string(REGEX REPLACE "^\nstruct ([a-z_]+) .*" "\\1" name "${each}")
            list(APPEND names "allfold::${name}")
            list(APPEND includes "#include \"${header}\"")
        endforeach()
    endforeach()
    list(REMOVE_DUPLICATES includes)
    list(JOIN includes "\n" includes)
    list(JOIN names ", " names)
    file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "// Made by cmake/every_algorithm.cmake.
#pragma once
@includes@
namespace test {
template <class... Algorithms>
struct algorithm_list {};
using every_algorithm = algorithm_list<@names@>;
}  // namespace test
")
endfunction()

# The same of all collectives in include/allfold/collective: each object of a type `detail::..._collective`.
function(allfold_list_collectives output)
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/allfold/collective/*.hpp)
    set(includes "")
    set(types "")
    foreach(header IN LISTS headers)
        file(READ ${PROJECT_SOURCE_DIR}/include/${header} text)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/${header})
        string(REGEX MATCHALL "\ninline constexpr detail::[a-z_]+_collective [a-z_]+{}" found "${text}")
        foreach(each IN LISTS found)
            string(REGEX REPLACE "^\ninline constexpr (detail::[a-z_]+_collective) .*" "\\1" type "${each}")
            list(APPEND types "allfold::${type}")
            list(APPEND includes "#include \"${header}\"")
        endforeach()
    endforeach()
    list(REMOVE_DUPLICATES includes)
    list(JOIN includes "\n" includes)
    list(JOIN types ", " types)
    file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "// Made by cmake/every_algorithm.cmake.
#pragma once
@includes@
namespace test {
template <class... Collectives>
struct collective_list {};
using every_collective = collective_list<@types@>;
}  // namespace test
")
endfunction()
