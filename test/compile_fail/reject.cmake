# SPDX-License-Identifier: BSL-1.0
# cmake -D compiler=<command> -D source=<file> -D messages=<file> -P reject.cmake
# Succeeds if the compiler rejects the source, and writes what it says to the file `messages`.
execute_process(COMMAND ${compiler} ${source} RESULT_VARIABLE status ERROR_VARIABLE said)
file(WRITE ${messages} "${said}")
if(status EQUAL 0)
    message(FATAL_ERROR "${source} compiles")
endif()
