// SPDX-License-Identifier: BSL-1.0
// The macros of other libraries, as their headers define them: Qt, <windows.h>, X11, and Apple.
#pragma once

// Qt
#define slots
#define signals public
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)

// <windows.h>
#define small char
#define near
#define far
#define interface struct
#define IN
#define OUT
#define ERROR 0

// X11
#define None 0L
#define Bool int
#define Status int
#define Success 0
#define Always 2
#define True 1
#define False 0

// Apple's AssertMacros.h, which also has `check`.
#define verify(assertion) ((void)(assertion))
#define require(assertion, label) ((void)(assertion))
