# SPDX-License-Identifier: BSL-1.0
# The program in the README is the one that is built and run: examples/quick_start.cpp.
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
file(READ ${root}/examples/quick_start.cpp program)
file(READ ${root}/README.md readme)
string(REPLACE "// SPDX-License-Identifier: BSL-1.0\n" "" program "${program}")
string(FIND "${readme}" "```cpp\n${program}```\n" position)
if(position EQUAL -1)
    message(FATAL_ERROR "README.md does not show examples/quick_start.cpp as it is")
endif()
