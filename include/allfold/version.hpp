// SPDX-License-Identifier: BSL-1.0
#pragma once

/// @file
/// The version of the library. The build reads it from here.

#define ALLFOLD_VERSION_MAJOR 0
#define ALLFOLD_VERSION_MINOR 1
#define ALLFOLD_VERSION_PATCH 0
