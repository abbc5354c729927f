# SPDX-License-Identifier: BSL-1.0
# cmake -D compiler=<command> -D source=<file> -D expected=<text> -P refused.cmake
# Succeeds if the first error is `allfold: <text>...`, followed by at most one more, which stops the compiler.
execute_process(COMMAND ${compiler} ${source} RESULT_VARIABLE status ERROR_VARIABLE messages)
if(status EQUAL 0)
    message(FATAL_ERROR "${source} compiles")
endif()
string(REGEX MATCHALL "[^\n]*error: [^\n]*" errors "${messages}")
list(LENGTH errors count)
list(POP_FRONT errors first)
string(FIND "${first}" "allfold: ${expected}" position)
if(position EQUAL -1 OR count GREATER 2)
    message("${messages}")
    message(FATAL_ERROR "expected first: allfold: ${expected}; and two errors, of which there are ${count}")
endif()
