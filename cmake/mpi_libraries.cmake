# SPDX-License-Identifier: BSL-1.0
# Every installed MPI library, for tests and benchmarks: an interface target allfold_mpi_<name> for each name in
# ALLFOLD_MPI_LIBRARIES, and the command that starts its programs in ALLFOLD_MPI_RUN_<name>. Debian can have Open MPI
# and MPICH side by side; elsewhere there is a single mpicxx. find_package(MPI) finds only one library.
set(ALLFOLD_MPI_LIBRARIES)

# Reads what a compiler wrapper adds to the command line.
function(allfold_add_mpi_library name wrapper)
    execute_process(COMMAND ${wrapper} -show OUTPUT_VARIABLE line OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(words UNIX_COMMAND "${line}")
    add_library(allfold_mpi_${name} INTERFACE)
    target_compile_definitions(allfold_mpi_${name} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
    foreach(word IN LISTS words)
        if(word MATCHES "^-I(.+)")
            target_include_directories(allfold_mpi_${name} SYSTEM INTERFACE ${CMAKE_MATCH_1})
        elseif(word MATCHES "^-Wl,-rpath")
            target_link_options(allfold_mpi_${name} INTERFACE ${word})
        elseif(word MATCHES "^-L(.+)")
            target_link_directories(allfold_mpi_${name} INTERFACE ${CMAKE_MATCH_1})
        elseif(NOT word MATCHES "cxx" AND word MATCHES "^-l(.+)")  # only the C interface
            target_link_libraries(allfold_mpi_${name} INTERFACE ${CMAKE_MATCH_1})
        endif()
    endforeach()
endfunction()

macro(allfold_look_for_mpi name suffix)
    find_program(ALLFOLD_MPI_CXX_${name} mpicxx${suffix})
    find_program(ALLFOLD_MPI_RUN_${name} NAMES mpirun${suffix} mpiexec${suffix})
    if(ALLFOLD_MPI_CXX_${name} AND ALLFOLD_MPI_RUN_${name})
        allfold_add_mpi_library(${name} ${ALLFOLD_MPI_CXX_${name}})
        list(APPEND ALLFOLD_MPI_LIBRARIES ${name})
    endif()
endmacro()

allfold_look_for_mpi(openmpi .openmpi)
allfold_look_for_mpi(mpich .mpich)
if(NOT ALLFOLD_MPI_LIBRARIES)
    allfold_look_for_mpi(default "")
endif()
