// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "allfold/detail/requirements.hpp"

#include "allfold/message/abort.hpp"
#include "allfold/message/exchange.hpp"
#include "allfold/message/options.hpp"
#include "allfold/message/probe.hpp"
#include "allfold/message/receive.hpp"
#include "allfold/message/send.hpp"
#include "allfold/transport/group.hpp"

/// @file
/// Messages between ranks.
