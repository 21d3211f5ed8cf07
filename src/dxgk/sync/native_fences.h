// Native fences: monitored fences that engines wait for by themselves, and that interrupt only when
// somebody here waits for the value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "base/ids.h"
#include "port/ddi/native_fence.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class AdapterCore;
class SharedSync;
class SyncObject;

/// Those of one adapter. The current value is an ordinary fence's page; the monitored value has a
/// page of its own, which only the driver writes once the fence is made. Whoever the kernel has to
/// wake counts as waiting on the CPU, so also contexts whose packets it holds back (our choice).
class NativeFences {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// The adapter is being reset: the driver must not touch its hardware.
    virtual bool hardware_resets() const DXGKIT_REQUIRES(on_lane) = 0;
  };
  /// Null: the driver does not report native fences. SYNC-31 refuses those that cannot be: the
  /// finding is reported and *status says so. Not on the lane, during start.
  static std::unique_ptr<NativeFences> make(AdapterCore& core, Owner& owner, Status* status);

  // --- not on the lane ---
  /// The driver's global handle, into `fence`. Its own failure otherwise; nothing stays then.
  Status create(SharedSync& fence, bool intra_gpu, std::span<std::byte> private_data);
  /// The driver's local handle, into `opening`, whose addresses are known. kDeviceRemoved: closed
  /// meanwhile; or its own failure.
  Status open(SyncObject& opening);
  /// The driver's side of an opening, and of the fence once it is gone and nobody's opening is
  /// there: local handles go before the global one. Idempotent.
  void close(SyncObject& opening);
  void end(SharedSync& fence);
  /// The driver's side of all fences that clients still hold. The adapter stops: devices have
  /// closed their openings, and no client is inside.
  void stop();

  // --- lane ---
  void made(SharedSync& fence) DXGKIT_REQUIRES(on_lane);
  /// SYNC-30: the driver stores the least value waited for less one, or the maximum. Its failure is
  /// fatal.
  void watch(SharedSync& fence, uint64_t least) DXGKIT_REQUIRES(on_lane);
  /// SYNC-33: the driver stores a value signalled here. What it leaves out is stored for it.
  void store(SharedSync& fence, uint64_t value) DXGKIT_REQUIRES(on_lane);
  /// NATIVE_FENCE_SIGNALED: those named, or all, are read again, and where the report says so
  /// ordinary fences, too. SYNC-34: names nobody knows are fatal, false then.
  bool signaled(const port::InterruptReport& report) DXGKIT_REQUIRES(on_lane);

 private:
  NativeFences(AdapterCore& core, Owner& owner, const port::NativeFenceCaps& caps);

  AdapterCore& core_;
  Owner& owner_;
  port::NativeFencePort port_;
  const port::NativeFenceCaps caps_;
  // Lane:
  std::map<uint64_t, SharedSync*> fences_ DXGKIT_GUARDED_BY(on_lane);  // made and not gone, by id
  uint32_t serial_ DXGKIT_GUARDED_BY(on_lane) = 0;                     // handles the driver sees
};

}  // namespace dxgkit::dxgk
