// SPDX-License-Identifier: BSL-1.0
// Every header, after the real Qt and X11. Their macros matter where a template is defined, so nothing is called.
#include <QtCore/QtCore>
#if __has_include(<X11/Xlib.h>)
#include <X11/Xlib.h>
#endif

#include "every_header.hpp"

#ifdef __SIZEOF_INT128__  // an integer according to <type_traits> in gnu++20, with which Qt is compiled
static_assert(allfold::exact_operator<allfold::sum, allfold::detail::int128>);
static_assert(allfold::operator_with_identity<allfold::min, allfold::detail::int128>);
#endif

int main() {}
