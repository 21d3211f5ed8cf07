// Two replies to one call: what the recording has, and what this kernel answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "record/message.h"
#include "record/names.h"

namespace dxgkit::record {

/// One side of a call. The parsed messages refer to the bytes.
struct Side {
  std::span<const std::byte> request;
  const Reply& reply;
};

/// Says in the request what this kernel calls everything: handles, GPU virtual addresses, LUIDs.
void rename(const NameMap& names, const Request& parsed, std::vector<std::byte>& request);

/// The first difference in one sentence; empty: there is none. Learns the names that the call gave.
/// `parsed` is the request of both sides, which differ in names only.
std::string compare(const Request& parsed, const Side& recorded, const Side& replayed,
                    NameMap& names);

}  // namespace dxgkit::record
