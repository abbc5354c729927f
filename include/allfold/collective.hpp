// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/collective/all_gather.hpp"
#include "allfold/collective/all_reduce.hpp"
#include "allfold/collective/all_to_all.hpp"
#include "allfold/collective/any_algorithm.hpp"
#include "allfold/collective/barrier.hpp"
#include "allfold/collective/broadcast.hpp"
#include "allfold/collective/distributed.hpp"
#include "allfold/collective/exclusive_scan.hpp"
#include "allfold/collective/gather.hpp"
#include "allfold/collective/images.hpp"
#include "allfold/collective/inclusive_scan.hpp"
#include "allfold/collective/permute.hpp"
#include "allfold/collective/reduce.hpp"
#include "allfold/collective/reduce_scatter.hpp"
#include "allfold/collective/scatter.hpp"
#include "allfold/collective/subset.hpp"
#include "allfold/collective/sync.hpp"
#include "allfold/collective/together.hpp"

/// @file
/// All collectives.
