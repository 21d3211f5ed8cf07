// The finding for a job of the client plug-in that did not come out right.
#pragma once

#include <string>
#include <string_view>

#include "verifier/findings.h"

namespace dxgkit::tool::verify {

/// How a text begins that tells of a device which the job has lost.
inline constexpr std::string_view kLostDevice = "the device was lost to ";
/// How a text begins that tells of a result which could not be read.
inline constexpr std::string_view kNoLock = "D3DKMTLock2 ";
/// In a text that tells of work which was preempted.
inline constexpr std::string_view kPreempted = "preempt";

/// What is to be looked at depends on what was seen: wrong content, no content, or no end.
/// @param actual     no sentence: "allocation 2: byte 3 is wrong", or with one of the above in it
/// @param addresses  with GPU virtual addresses
verifier::Finding wrong_result(const std::string& actual, bool addresses);

}  // namespace dxgkit::tool::verify
