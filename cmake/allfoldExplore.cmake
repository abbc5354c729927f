# SPDX-License-Identifier: BSL-1.0
# allfold_add_explored_test(NAME SOURCE...): a test that explores programs (allfold/analysis/explore.hpp). It uses
# Catch2 if the project has found it: a source then needs no main, and writes
# CHECK_THAT(program, allfold::explored_without_fault(3)).
function(allfold_add_explored_test name)
    add_executable(${name} ${ARGN})
    target_link_libraries(${name} PRIVATE allfold::allfold)
    if(TARGET Catch2::Catch2WithMain)
        target_link_libraries(${name} PRIVATE Catch2::Catch2WithMain)
    elseif(TARGET Catch2::Catch2)  # version 2, where each project compiles main itself
        if(NOT TARGET allfold_catch2_main)
            set(main ${CMAKE_CURRENT_BINARY_DIR}/allfold_catch2_main.cpp)
            file(CONFIGURE OUTPUT ${main} CONTENT "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n")
            add_library(allfold_catch2_main STATIC ${main})
            target_link_libraries(allfold_catch2_main PUBLIC Catch2::Catch2)
        endif()
        target_link_libraries(${name} PRIVATE allfold_catch2_main)
    endif()
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endfunction()
