/* SPDX-License-Identifier: MIT */
/* phonograph/nn.hpp: libphonograph_nn for C++17, beside phonograph.hpp, whose rules it keeps. */
#ifndef PHONOGRAPH_NN_HPP
#define PHONOGRAPH_NN_HPP
#include <phonograph/cxx/standard.hpp>

#include <phonograph/cxx/nn.hpp>
#include <phonograph/cxx/nn_hooks.hpp>
#include <phonograph/cxx/training.hpp>
#include <phonograph/nn.h>
#include <phonograph/phonograph.hpp>
#endif
