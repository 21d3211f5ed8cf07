// A GPU that does nothing, as fast as it can, and its miniport: what is left is the kernel's cost.
#pragma once

#include <atomic>
#include <memory>

#include "bus/machine.h"
#include "runtime/runtime.h"

namespace dxgkit::bench {

/// One engine on a thread of its own. A submission is a fence stored to its doorbell; it is
/// complete as soon as the engine sees it, and every fence up to the last one seen is reported by
/// one interrupt. Idle costs nothing: the thread parks.
class NullGpu {
 public:
  explicit NullGpu(runtime::Runtime& runtime);
  ~NullGpu();
  NullGpu(const NullGpu&) = delete;
  NullGpu& operator=(const NullGpu&) = delete;

  bus::PciFunction& function() { return function_; }
  /// Fence 0 is never submitted.
  void submit(uint32_t fence);
  /// Each submission takes so long from here on, all of it computing. 0: as at first. While nothing
  /// is submitted.
  void set_duration(runtime::DurationNs duration) { duration_ = duration; }
  /// When the engine saw the last submission, and when it went on to report it.
  runtime::TimeNs seen_at() const { return seen_at_.load(std::memory_order_acquire); }
  runtime::TimeNs done_at() const { return done_at_.load(std::memory_order_acquire); }
  uint32_t completed() const { return completed_.load(std::memory_order_acquire); }

  /// DriverEntry of its miniport, for port::DriverSource. In-process code behind the same Win64
  /// door as any driver. Render takes what the client wrote as it is, Patch is softgpu's loop. An
  /// adapter that is added takes the GPU that was made last.
  static void* driver_entry();

 private:
  static void attach_driver(NullGpu* gpu);
  void run();

  runtime::Runtime& runtime_;
  bus::PciFunction function_;
  // A cache line each: the doorbell is written by the lane, the fence read by the ISR.
  alignas(64) std::atomic<uint32_t> doorbell_{0};
  alignas(64) std::atomic<uint32_t> completed_{0};
  alignas(64) std::atomic<bool> stop_{false};
  std::atomic<runtime::DurationNs> duration_{0};
  std::atomic<runtime::TimeNs> seen_at_{0}, done_at_{0};
  std::unique_ptr<runtime::Thread> engine_;
};

/// Bytes of each allocation of the null GPU, whatever the client asks for.
inline constexpr uint32_t kNullAllocationBytes = 65536;

}  // namespace dxgkit::bench
