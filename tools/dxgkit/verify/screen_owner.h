// A client process that owns a source of the screen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dxgk/displays.h"
#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {

/// A process with a device and contexts that can own a source of the screen. One thread.
class ScreenOwner {
 public:
  ScreenOwner(Bench& bench, const dxgk::DisplaySource& source)
      : bench_(bench), source_(source), worker_(bench, "owner of the screen") {}

  Answer<void> open() { return worker_.open(); }

  /// What an allocation of the mode's size in video memory should be.
  struct Wish {
    uint32_t color = 0;  // of all pixels
    bool primary = true;
    bool as_resource = false;
    /// The first bytes of the allocation, in place of the color; empty: the color everywhere.
    std::span<const std::byte> content = {};
  };
  struct Surface {
    D3DKMT_HANDLE allocation = 0;  // 0: the client's user mode makes none, or the driver refuses it
    D3DKMT_HANDLE resource = 0;
  };
  Answer<Surface> make(const Wish& wish);
  /// Owns the source and shows `primary` on it.
  Answer<void> show(D3DKMT_HANDLE primary);
  /// The context and the source are filled in.
  NTSTATUS present(D3DKMT_PRESENT arguments);
  NTSTATUS present(D3DKMT_PRESENT_MULTIPLANE_OVERLAY arguments);
  /// The adapter and the device are filled in; *arguments has the answer.
  NTSTATUS check(D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2* arguments);
  /// Writes the first bytes of the surface by the CPU, also while it is shown.
  Answer<void> write(D3DKMT_HANDLE surface, std::span<const std::byte> content);
  /// Commands of the plug-in for a rectangle of the surface, which is shown (client_plugin.h), and
  /// waits for them. The variant and `*show` are record_show's. False: there is no such variant.
  Answer<bool> update(D3DKMT_HANDLE surface, uint32_t variant, DxgkitClientShow* show);
  Answer<void> settle() { return worker_.client.wait_idle(worker_.device); }
  Answer<void> close() { return worker_.client.destroy_device(worker_.device); }

 private:
  /// An allocation of the mode's size.
  DxgkitClientAllocation wanted() const;

  Bench& bench_;
  const dxgk::DisplaySource& source_;
  Worker worker_;
};

}  // namespace dxgkit::tool::verify
