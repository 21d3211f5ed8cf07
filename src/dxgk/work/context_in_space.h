// A context or hardware queue, as the address space of its process sees it.
#pragma once

#include "dxgk/va/space_user.h"
#include "dxgk/work/context.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// Lives as long as its context.
class ContextInSpace final : public SpaceUser {
 public:
  /// The context's number and the driver's handles are known.
  explicit ContextInSpace(Context& context);

  bool device_lost() const override;
  void fail_device(DeviceState state) override DXGKIT_REQUIRES(on_lane);
  void keep_off(bool off) override DXGKIT_REQUIRES(on_lane);
  bool off_engines() const override DXGKIT_REQUIRES(on_lane);
  bool knows_root(const port::RootPageTable& root) const override DXGKIT_REQUIRES(on_lane);
  void root_was_set(const port::RootPageTable& root) override DXGKIT_REQUIRES(on_lane);

 private:
  Context& context_;
};

}  // namespace dxgkit::dxgk
