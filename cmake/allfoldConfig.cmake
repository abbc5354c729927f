# SPDX-License-Identifier: BSL-1.0
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/allfoldTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/allfoldExplore.cmake)

foreach(allfold_component IN LISTS allfold_FIND_COMPONENTS)
    if(allfold_component STREQUAL "compiled")
        set(allfold_why "it was built without its component compiled: -D ALLFOLD_BUILD_COMPILED=ON builds it")
        include(${CMAKE_CURRENT_LIST_DIR}/allfoldCompiledTargets.cmake OPTIONAL RESULT_VARIABLE allfold_compiled_FOUND)
    elseif(NOT allfold_component STREQUAL "mpi")
        set(allfold_why "it has no component ${allfold_component}, only mpi and compiled")
    else()
        # Not find_dependency: its message suggests no remedy, and it would fail the package even for an optional
        # component.
        find_package(MPI QUIET COMPONENTS CXX)
        set(allfold_why "its component mpi needs an MPI for C++ (Debian: libopenmpi-dev or libmpich-dev); \
MPI_CXX_COMPILER=<an mpicxx> says where one is")
        if(MPI_CXX_FOUND)
            include(${CMAKE_CURRENT_LIST_DIR}/allfoldMpiTargets.cmake)
            set(allfold_mpi_FOUND TRUE)
        endif()
    endif()

    if(NOT allfold_${allfold_component}_FOUND AND allfold_FIND_REQUIRED_${allfold_component})
        set(allfold_FOUND FALSE)
        set(allfold_NOT_FOUND_MESSAGE "allfold is here, but ${allfold_why}.")
    endif()
endforeach()
unset(allfold_component)
unset(allfold_why)
