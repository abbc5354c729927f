// SPDX-License-Identifier: BSL-1.0
// Without #pragma once: a program may define such macros between two includes.

#include <version>  // identifies the standard library; libstdc++ also undefines min and max if this comes first

/// @file
/// Included first by every public header, so that a compiler that cannot compile the library states the reason in its
/// first line of output.

#undef ALLFOLD_REQUIREMENTS_ARE_MET
#if defined(_MSC_VER) && !defined(__clang__)
#error allfold: this compiler is not supported: it must be g++ 12, clang 14, or newer
#elif defined(__clang__) && __clang_major__ < 14
#error allfold: this clang is too old: it must be clang 14 or newer
#elif defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
#error allfold: this g++ is too old: it must be g++ 12 or newer
#elif defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE < 12
#error allfold: this libstdc++ is too old: it must be that of g++ 12 or newer
#elif __cplusplus < 202002L
#error allfold: this is a C++20 library: compile with -std=c++20
#elif defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8
#error allfold: this is for 64-bit processors: compile without -m32
#elif !defined(__cpp_exceptions)
#error allfold: errors are exceptions: compile without -fno-exceptions
#elif defined(min)
#error allfold: the macro min interferes: #undef min before this include (NOMINMAX keeps <windows.h> from defining it)
#elif defined(max)
#error allfold: the macro max interferes: #undef max before this include (NOMINMAX keeps <windows.h> from defining it)
#elif defined(check)
#error allfold: the macro check interferes: #undef check before this include
#else
#define ALLFOLD_REQUIREMENTS_ARE_MET
#endif

#ifndef ALLFOLD_REQUIREMENTS_ARE_MET
#include <allfold/stops_here_for_the_reason_above>  // no compiler continues after a missing include
#endif
