# SPDX-License-Identifier: BSL-1.0
# The program that each project here builds and runs, once it has got allfold: main.cpp, or mpi.cpp where it asked for MPI.
enable_testing()
if(components STREQUAL "mpi")
    add_executable(consumer ${CMAKE_CURRENT_LIST_DIR}/mpi.cpp)
    target_link_libraries(consumer PRIVATE allfold::mpi)
    add_test(NAME consume/${way}_mpi COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 $<TARGET_FILE:consumer>)
    # Open MPI starts nothing for root unless told.
    set_tests_properties(consume/${way}_mpi PROPERTIES
        ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
else()
    add_executable(consumer ${CMAKE_CURRENT_LIST_DIR}/main.cpp)
    set(target allfold)
    if(components STREQUAL "compiled")
        set(target compiled)
    endif()
    target_link_libraries(consumer PRIVATE allfold::${target})
    add_test(NAME consume/${way}_${target} COMMAND consumer)
    allfold_add_explored_test(explored ${CMAKE_CURRENT_LIST_DIR}/explored.cpp)
    if(TARGET MPI::MPI_CXX)
        message(FATAL_ERROR "Nobody asked for MPI")
    endif()
endif()
