// What a reset of the whole adapter does to power and displays.
#pragma once

#include "dxgk/display/display_floor.h"
#include "dxgk/work/adapter_reset.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Joins AdapterReset with the floors above it.
class ResetEffects final : public AdapterReset::Owner {
 public:
  explicit ResetEffects(DisplayFloor& floor) : floor_(floor) {}

  bool is_kernels(const Process& process) const override;
  void displays_were_reset() override DXGKIT_REQUIRES(on_lane);
  void show_locked() override DXGKIT_REQUIRES(on_lane);
  void show_again() override;

 private:
  DisplayFloor& floor_;
};

}  // namespace dxgkit::dxgk
