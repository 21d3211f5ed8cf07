// Situations of displays: modes, pictures, pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/spin_lock.h"
#include "port/types.h"
#include "verifier/situations.h"

namespace dxgkit::port {

/// Any thread.
class DisplaySituations {
 public:
  explicit DisplaySituations(verifier::SituationLog& log) : log_(log) {}

  void enumerated(EnumPivot pivot);
  void committed();
  void visible(uint32_t source, bool visible);
  void presented(const PresentDisplayOnlyArgs& args);
  void pointer_shaped(const PointerShape& shape);
  void pointer_moved(int32_t x, int32_t y, bool visible);
  void address_set(SourceAddressArgs::Kind kind);
  /// For `bytes` from `offset` on of a monitor's descriptor, which has `size`.
  void descriptor_asked(uint32_t offset, uint32_t bytes, size_t size);
  /// The driver has given one.
  void has_descriptor();

 private:
  using Situation = verifier::Situation;
  struct Source {
    bool hidden = false;
    int32_t width = 0, height = 0;  // of the largest rectangle so far: the picture
  };

  verifier::SituationLog& log_;
  SpinLock lock_;  // guards what follows
  std::map<uint32_t, Source> sources_;
  bool was_committed_ = false;
};

}  // namespace dxgkit::port
