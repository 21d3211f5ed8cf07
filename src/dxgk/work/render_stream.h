// D3DKMTRender and what it takes: commands become DMA buffers, pass by pass.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "dxgk/work/allocation_capture.h"
#include "dxgk/work/command_memory.h"
#include "dxgk/work/dma_buffer_pool.h"
#include "dxgk/work/packet.h"
#include "dxgk/work/patch_checks.h"
#include "dxgk/work/render_turn.h"
#include "port/types.h"
#include "port/write_guard.h"
#include "runtime/thread_annotations.h"
#include "vidmm/memory_manager.h"

namespace dxgkit::dxgk {

class Context;
struct FlipSubmission;

struct RenderRequest {
  uint32_t command_offset = 0, command_length = 0;
  uint32_t allocation_count = 0, patch_count = 0;
  bool null_rendering = false, render_km = false, present_redirected = false;
  // Of a present that has a DMA buffer.
  bool present = false, counts_as_present = false;
  const FlipSubmission* flip = nullptr;  // the driver's DMA buffer flips
  uint32_t resize_command_bytes = 0, resize_allocations = 0,
           resize_patches = 0;  // 0: no wish (THUNK-15)
  /// What is built runs on these contexts too, each with a DMA buffer of its own that holds the
  /// same (our choice: contexts stay independent). Of the same device.
  std::span<const Ref<Context>> broadcast;
};

/// What one context renders with. A context with virtual addressing has one that is empty: its
/// client's own buffers go to the driver.
class RenderStream {
 public:
  /// Passes of one call that neither wrote anything nor moved MultipassOffset before it is called a
  /// livelock.
  static constexpr uint32_t kPassesWithoutProgress = 2;
  /// That write, and end where the last one ended.
  static constexpr uint32_t kPassesAtOneOffset = 64;
  /// Elements of ours behind the patch list that a driver is given: who writes there is caught
  /// before anything else is hit.
  static constexpr uint32_t kSparePatches = 2048;
  /// Elements that the driver may write.
  static uint32_t patch_room(const DmaBuffer& buffer) {
    return static_cast<uint32_t>(buffer.patches.size()) - kSparePatches;
  }
  /// Behind the patch list of a buffer between begin_pass() and the driver's call.
  static port::WriteGuard patch_guard(DmaBuffer& buffer) {
    return port::WriteGuard(
        reinterpret_cast<std::byte*>(buffer.patches.data() + patch_room(buffer)));
  }
  /// REND-08: the driver wrote there. Fatal; the pass is over.
  void patches_overrun(DmaBuffer& buffer, const port::WriteGuard::Damage& damage, const char* ddi)
      DXGKIT_REQUIRES(in_turn);

  explicit RenderStream(Context& context);

  /// While the context is made: the client's buffers, of the sizes that the driver asked for.
  Status allocate();
  /// The same for the pool of DMA buffers.
  void open_pool() DXGKIT_REQUIRES(on_lane);
  /// Free DMA buffers go.
  void clear() DXGKIT_REQUIRES(on_lane);

  /// D3DKMTRender: see REND. Caller's thread. On any result `buffers()` names where the next
  /// commands go (THUNK-15).
  /// @param queued  receives the packets queued on this context, this one included (THUNK-17).
  /// kInvalidParameter: offsets or counts outside the buffers (THUNK-16), or a foreign allocation
  /// (REND-05); kInvalidHandle: a bad handle in the list (REND-04); kDeviceRemoved; the driver's
  /// documented failures.
  Status render(const RenderRequest& request, uint32_t* queued);
  ClientBuffers buffers();
  /// Writes what a run of patch locations needs resident: each allocation once, in order of first
  /// mention.
  void list_uses(const DmaBuffer& buffer, uint32_t patch_start, uint32_t patch_length,
                 std::vector<vidmm::Use>* list) DXGKIT_REQUIRES(on_lane);

  // --- passes, for renders and presents alike; in turn ---
  AllocationCapture& capture() DXGKIT_REQUIRES(in_turn) { return capture_; }
  /// Who says what the pass may use: the client's list, whose handles are looked up anew for each
  /// pass, or the kernel's in `capture()`.
  enum class Listed { kByClient, kByKernel };
  Status begin_pass(Listed listed, DmaBuffer** out) DXGKIT_REQUIRES(in_turn);
  Status end_pass(DmaBuffer& buffer, const port::RenderResult& result, const RenderRequest& request,
                  uint32_t* queued) DXGKIT_REQUIRES(in_turn);
  void abandon_pass(DmaBuffer& buffer) DXGKIT_REQUIRES(in_turn);

 private:
  /// The driver wants a second buffer although it guaranteed to need one: fatal (REND-10).
  void break_contract(DmaBuffer& buffer, uint32_t written) DXGKIT_REQUIRES(in_turn);
  /// A packet of `buffer` as it is; the caller still counts as a user of the buffer.
  void queue_pass(DmaBuffer& buffer, const port::RenderResult& result, const RenderRequest& request)
      DXGKIT_REQUIRES(on_lane);
  /// A buffer of this context with the content of another's; kNoMemory, kDeviceRemoved.
  Result<DmaBuffer*> copy_pass(const DmaBuffer& from, const port::RenderResult& result)
      DXGKIT_REQUIRES(on_lane);
  Status check_broadcast(const RenderRequest& request) const;
  Status queue_everywhere(DmaBuffer& buffer, const port::RenderResult& result,
                          const RenderRequest& request) DXGKIT_REQUIRES(on_lane);

  Context& context_;
  PatchChecks checks_;
  CommandMemory memory_ DXGKIT_GUARDED_BY(in_turn);
  AllocationCapture capture_ DXGKIT_GUARDED_BY(in_turn);
  std::unique_ptr<DmaBufferPool> pool_ DXGKIT_GUARDED_BY(on_lane);
  std::vector<uint8_t> seen_ DXGKIT_GUARDED_BY(on_lane);  // scratch of list_uses
};

}  // namespace dxgkit::dxgk
