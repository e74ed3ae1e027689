/* SPDX-License-Identifier: MIT */
/* phonograph/cxx/standard.hpp: the standard that the headers for C++ need. Included first. */
#ifndef PHONOGRAPH_CXX_STANDARD_HPP
#define PHONOGRAPH_CXX_STANDARD_HPP
#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "phonograph needs C++17: compile with -std=c++17 or newer"
#endif
#endif
