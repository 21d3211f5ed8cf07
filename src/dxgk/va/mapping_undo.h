// What some spans of an address space mapped before a change that may have to be undone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "gpuva/address_space.h"

namespace dxgkit::dxgk {

/// Remembers mappings while a change of them is tried: without memory for page tables it is undone.
/// Lane: the adapter's.
class MappingUndo {
 public:
  MappingUndo(const gpuva::AddressSpace& addresses, gpuva::PageSpans spans)
      : spans_(std::move(spans)) {
    for (const gpuva::PageSpan& span : spans_) {
      addresses.for_each_in(span,
                            [&](const gpuva::Mapping& mapping) { mappings_.push_back(mapping); });
    }
  }

  /// The spans map what they mapped before the call of that number took effect. What a later call
  /// has freed stays free (VA-42).
  void put_back(gpuva::AddressSpace& addresses, uint64_t sequence) const {
    gpuva::MapOperation operation;
    operation.sequence = sequence;
    for (const gpuva::PageSpan& span : spans_) {
      operation.mapping = {.span = span, .protection = {.no_access = true}};
      addresses.apply(operation, nullptr);
    }
    for (const gpuva::Mapping& mapping : mappings_) {
      operation.mapping = mapping;
      addresses.apply(operation, nullptr);
    }
  }

 private:
  const gpuva::PageSpans spans_;
  std::vector<gpuva::Mapping> mappings_;
};

}  // namespace dxgkit::dxgk
