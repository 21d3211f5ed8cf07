// What a driver says of itself to the kernel, for the client plug-in to judge.
#pragma once

#include <string>

#include "tools/dxgkit/verify/bench.h"

namespace dxgkit::tool::verify {

/// CAPS-13: has the plug-in judge caps, segments, nodes and page tables of the running adapter.
/// What is wrong; empty: nothing.
std::string judge_facts(Bench& bench);
/// LIFE-25: has the plug-in judge the answers to its own escapes, which may tell of the work so far,
/// once all nodes are idle. What is wrong is reported.
Answer<void> judge_escapes(Bench& bench);

}  // namespace dxgkit::tool::verify
