// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/algebra/arithmetic.hpp"
#include "allfold/algebra/check_laws.hpp"
#include "allfold/algebra/exact_sum.hpp"
#include "allfold/algebra/fused.hpp"
#include "allfold/algebra/in_out.hpp"
#include "allfold/algebra/location.hpp"
#include "allfold/algebra/logic.hpp"
#include "allfold/algebra/mean.hpp"
#include "allfold/algebra/moments.hpp"
#include "allfold/algebra/online_softmax.hpp"
#include "allfold/algebra/set_union.hpp"
#include "allfold/algebra/standard_functors.hpp"
#include "allfold/algebra/stretch.hpp"
#include "allfold/algebra/top_k.hpp"
#include "allfold/algebra/widened.hpp"
#include "allfold/collective.hpp"
#include "allfold/data/block_cyclic.hpp"
#include "allfold/data/partition.hpp"
#include "allfold/data/raw_rows.hpp"
#include "allfold/data/records.hpp"
#include "allfold/data/serializer.hpp"
#include "allfold/data/tensor_view.hpp"
#include "allfold/data/tensors.hpp"
#include "allfold/engine/progress_thread.hpp"
#include "allfold/schedule/mirrored_doubling.hpp"
#include "allfold/schedule/one_two_three_doubling.hpp"
#include "allfold/schedule/scatter_all_gather.hpp"
#include "allfold/transport/self.hpp"
#include "allfold/transport/thread.hpp"
#include "allfold/transport/traced.hpp"
#include "allfold/version.hpp"

/// @file
/// All that needs nothing but the standard library and threads.
