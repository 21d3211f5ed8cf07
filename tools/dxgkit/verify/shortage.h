// Lack of memory, and callbacks that fail, while a driver starts an adapter or makes objects.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "bus/device.h"
#include "port/fault_injector.h"
#include "runtime/sync.h"
#include "runtime/thread_annotations.h"
#include "tools/dxgkit/kernel_config.h"
#include "tools/dxgkit/verify/mutator.h"

namespace dxgkit::tool::verify {

/// Makes the n-th request fail that the driver makes inside the entries that create or open an
/// object, or that start an adapter. Requests of other entries, of other threads too, are left
/// alone: not all of those may fail. It stands in every machine, and does nothing until a step arms
/// it. The mutation of `verify
/// --mutate` goes on behind it. Any thread asks it, one at a time arms it.
class Shortage final : public port::FaultInjector {
 public:
  /// @param mutator  may be null.
  explicit Shortage(Mutator* mutator) : mutator_(mutator) {}

  /// Attaches a machine that is about to start; once.
  void attach(World& world);
  enum class During : uint8_t {
    kMaking,    // an object of a running adapter
    kStarting,  // AddDevice, StartDevice, and the objects that the kernel makes for itself
    kPaging,    // DxgkDdiBuildPagingBuffer: mappings of MDLs alone, which the kernel tries again
  };
  /// The n-th allocation from here on fails; n counts from 1.
  void deny_memory(uint32_t nth, During during = During::kMaking);
  /// The n-th callback from here on that may fail fails with a status that it documents.
  void fail_callback(uint32_t nth, During during = During::kMaking);
  /// The n-th time from here on that the driver asks what it knows of a handle, it is told NULL.
  void deny_handle(uint32_t nth);
  struct Refused {
    std::string_view routine;  // or callback; empty: fewer than n were asked
    std::string_view ddi;      // that asked
  };
  /// Ends it. What was refused.
  Refused stop();

  /// From now on a device that stands still goes on as soon as the driver is asked to reset it;
  /// null: no more. It outlives that.
  void goes_on_at_reset(bus::DeviceClock* clock) { clock_ = clock; }
  std::optional<Status> before_ddi(std::string_view ddi) override {
    bus::DeviceClock* const clock = clock_.load(std::memory_order_relaxed);
    if (clock != nullptr && ddi.starts_with("DxgkDdiReset")) clock->go_on();
    return std::nullopt;
  }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  /// From now on a client's commands can be read up to here; UINT32_MAX: to their end.
  void cut_commands(uint32_t bytes) { readable_commands_ = bytes; }
  uint32_t readable_commands(uint32_t bytes) override {
    const uint32_t most = readable_commands_.load(std::memory_order_relaxed);
    return most < bytes ? most : bytes;
  }
  /// From now on DxgkDdiPatch is called only where an allocation has moved since DxgkDdiRender.
  void spare_patches(bool on) { sparing_ = on; }
  bool spares_patch() override {
    if (!sparing_.load(std::memory_order_relaxed)) return false;
    spared_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  /// So often it was not called.
  uint32_t spared() const { return spared_.load(std::memory_order_relaxed); }
  void shape(port::SegmentsInfo*) override {}
  std::optional<Status> before_callback(std::string_view callback) override;
  void allocation_made(const port::AllocationInfo& info) override {
    const runtime::MutexLock lock(lock_);
    last_allocation_ = info;
    last_allocation_.private_data = {};
  }
  /// What the driver said of the allocation that it made last.
  port::AllocationInfo last_allocation() {
    const runtime::MutexLock lock(lock_);
    return last_allocation_;
  }

 private:
  enum class What : uint8_t { kNothing, kMemory, kCallback, kHandle };
  void arm(What what, uint32_t nth, During during);
  bool strikes(What what, std::string_view name);

  Mutator* const mutator_;
  runtime::Mutex lock_;
  port::AllocationInfo last_allocation_ DXGKIT_GUARDED_BY(lock_);
  std::atomic<What> what_{What::kNothing};
  std::atomic<During> during_{During::kMaking};
  std::atomic<bus::DeviceClock*> clock_{nullptr};
  std::atomic<uint32_t> readable_commands_{UINT32_MAX};
  std::atomic<bool> sparing_{false};
  std::atomic<uint32_t> spared_{0};
  std::atomic<uint32_t> left_{0};  // requests until the one that fails, that one included
  // Literals.
  std::atomic<const char*> routine_{nullptr}, ddi_{nullptr};
};

}  // namespace dxgkit::tool::verify
