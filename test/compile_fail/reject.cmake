# SPDX-License-Identifier: BSL-1.0
# cmake -D compiler=<command> -D source=<file> -P reject.cmake
# Succeeds if the compiler rejects the file with a message that has the text after its `// expect: `.
file(READ ${source} text)
if(NOT text MATCHES "\n// expect: ([^\n]+)")
    message(FATAL_ERROR "${source} has no line `// expect: <text>`")
endif()
set(expected "${CMAKE_MATCH_1}")

execute_process(COMMAND ${compiler} ${source} RESULT_VARIABLE status ERROR_VARIABLE messages)
if(status EQUAL 0)
    message(FATAL_ERROR "${source} compiles")
endif()

# Source lines that a compiler quotes do not count: `   12 |     static_assert(...`.
string(REGEX REPLACE "\n *[0-9]* \\|[^\n]*" "" said "\n${messages}")
string(FIND "${said}" "${expected}" position)
if(position EQUAL -1)
    message("${messages}\nexpected: ${expected}")
    message(FATAL_ERROR "${source} is rejected for another reason")
endif()
