# SPDX-License-Identifier: BSL-1.0
# How this project compiles its own programs. Nothing here affects users of allfold::allfold.
option(ALLFOLD_WARNINGS_AS_ERRORS "Treat warnings as errors" ON)
set(ALLFOLD_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")

set(CMAKE_CXX_EXTENSIONS OFF)
add_library(allfold_warnings INTERFACE)
target_compile_options(allfold_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow $<$<BOOL:${ALLFOLD_WARNINGS_AS_ERRORS}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105651: g++ 12 reports overlapping copies in "text" + std::string at -O3.
    target_compile_options(allfold_warnings INTERFACE -Wno-restrict)
endif()
link_libraries(allfold_warnings)  # for every target created after this line, including those below

if(ALLFOLD_SANITIZE)
    add_compile_options(-fsanitize=${ALLFOLD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${ALLFOLD_SANITIZE})
endif()

# MPI is used if it is installed. MPI_CXX_COMPILER=<an mpicxx> selects one of several.
if(NOT MPI_CXX_FOUND)
    find_program(MPI_CXX_COMPILER NAMES mpicxx.openmpi mpicxx)  # Debian's mpicxx may belong to either library
    find_package(MPI QUIET COMPONENTS CXX)
endif()

include(cmake/headers_alone.cmake)

include(cmake/mpi_libraries.cmake)
