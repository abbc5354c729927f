# SPDX-License-Identifier: BSL-1.0
# The programs in the README are the ones that are built and run.
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
file(READ ${root}/README.md readme)
foreach(name quick_start mpi/quick_start)
    file(READ ${root}/examples/${name}.cpp program)
    string(REPLACE "// SPDX-License-Identifier: BSL-1.0\n" "" program "${program}")
    string(FIND "${readme}" "```cpp\n${program}```\n" position)
    if(position EQUAL -1)
        message(FATAL_ERROR "README.md does not show examples/${name}.cpp as it is")
    endif()
endforeach()
