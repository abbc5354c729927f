# SPDX-License-Identifier: BSL-1.0
# Compiles several sources as one, so that what they have in common is compiled once. Each source gets its own
# namespace, and everything that any of them includes comes first.

# allfold_may_be_joined(SOURCE RESULT): OFF if the source includes something conditionally, defines macros that headers
# read, or declares something outside of its namespace: specialisations, operator new.
function(allfold_may_be_joined source result)
    file(READ ${source} text)
    set(${result} ON PARENT_SCOPE)
    if(text MATCHES "\n#if[^\n]*\n(.*\n)?#include |\n#define ALLFOLD_|\nstruct allfold::|\nnamespace (allfold|std)|\nextern |operator new\\(")
        set(${result} OFF PARENT_SCOPE)
    endif()
endfunction()

# allfold_join(FILE SOURCE...): writes the file that is compiled instead of the sources; paths are absolute.
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

# allfold_join_some(NAME COUNT RESULT SOURCE...): writes files of at most COUNT sources each.
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
