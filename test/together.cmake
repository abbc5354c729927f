# SPDX-License-Identifier: BSL-1.0
# Sources that are compiled as one: what they have in common is compiled once then. Each is in a namespace of its own, and
# what any of them includes comes first.

# allfold_may_be_joined(SOURCE RESULT): not where it includes something only sometimes, defines macros that headers look
# at, or has something to say outside of its namespace: specialisations, functions of the language.
function(allfold_may_be_joined source result)
    file(READ ${source} text)
    set(${result} ON PARENT_SCOPE)
    if(text MATCHES "\n#if[^\n]*\n(.*\n)?#include |\n#define ALLFOLD_|\nstruct allfold::|\nnamespace (allfold|std)|\nextern |operator new\\(")
        set(${result} OFF PARENT_SCOPE)
    endif()
endfunction()

# allfold_join(FILE SOURCE...): what is to be compiled instead of the sources; paths are absolute.
function(allfold_join file)
    set(headers)
    set(bodies)
    foreach(source IN LISTS ARGN)
        file(STRINGS ${source} included REGEX "^#include ")
        list(APPEND headers ${included})
        cmake_path(GET source STEM name)
        string(APPEND bodies "namespace in_${name} {\n#include \"${source}\"\n}\n")
    endforeach()
    list(REMOVE_DUPLICATES headers)
    list(JOIN headers "\n" headers)
    file(CONFIGURE OUTPUT ${file} CONTENT "${headers}\n${bodies}" @ONLY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
endfunction()

# allfold_join_some(NAME COUNT RESULT SOURCE...): files of at most COUNT of them each.
function(allfold_join_some name count result)
    set(files)
    set(left ${ARGN})
    while(left)
        list(LENGTH left length)
        list(SUBLIST left 0 ${count} these)
        if(length GREATER count)
            list(SUBLIST left ${count} -1 left)
        else()
            set(left)
        endif()
        list(LENGTH files number)
        set(file ${CMAKE_CURRENT_BINARY_DIR}/together/${name}_${number}.cpp)
        allfold_join(${file} ${these})
        list(APPEND files ${file})
    endwhile()
    set(${result} ${files} PARENT_SCOPE)
endfunction()
