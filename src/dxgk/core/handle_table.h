// A process's handles: 32-bit, typed, with a generation.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "runtime/sync.h"

namespace dxgkit::dxgk {

/// A D3DKMT_HANDLE value. Layout: bit 30 set, bits 24..29 generation, bits 6..23 slot, so that
/// consecutive handles differ by 0x40 as clients have seen on Windows. Bits 0 and 1 are zero, and
/// bits 2..5 are those of the kernel (KernelNumber).
using Handle = uint32_t;

/// Of kernels that one client uses at once, each has a number that its handles carry. So a handle
/// says which kernel it is of, and means nothing to another one. A kernel alone is number 0.
struct KernelNumber {
  static constexpr uint32_t kCount = 16;
  static constexpr uint32_t kShift = 2;
  uint32_t value = 0;  // < kCount
  Handle mark() const { return value << kShift; }
};

/// Thread-safe. A freed slot goes to the end of the free list and changes generation: a stale
/// handle is refused until its slot has been reused 64 times (THUNK-04).
class HandleTable {
 public:
  static constexpr uint32_t kMaxHandles = 1U << 18;

  /// @param process  for the trace: whose handles they are
  explicit HandleTable(KernelNumber kernel = {}, uint32_t process = 0)
      : kernel_(kernel), mark_(kernel.mark()), process_(process) {}
  KernelNumber kernel() const { return kernel_; }

  /// A new handle for `object`, or kNoMemory when all are taken.
  Result<Handle> insert(Ref<Object> object);
  /// As insert, but clients cannot use the handle before `publish`: handles can be guessed, and the
  /// driver is told them while it still makes its side of the object.
  Result<Handle> insert_hidden(Ref<Object> object);
  /// The object is complete. Ignores a handle that is gone.
  void publish(Handle handle);
  /// The object, if the handle is live, published and of the type; kInvalidParameter otherwise
  /// (THUNK-04).
  template <typename T>
  Result<Ref<T>> find(Handle handle) {
    runtime::MutexLock lock(mutex_);
    const Slot* slot = locate_object(handle, T::kType, false);
    if (slot == nullptr) return Error(Status::kInvalidParameter);
    return Ref<T>(static_cast<T*>(slot->object.get()));
  }
  /// As find for many at once: found(i) is told the object of handle_of(i), in order, until one is
  /// refused or `found` answers false. kInvalidParameter: some handle is; handles of 0 are skipped.
  /// What `found` was given stays alive while it has a reference of its own; it must not come back
  /// here.
  template <typename T, typename HandleOf, typename Found>
  Status find_each(size_t count, HandleOf handle_of, Found found) {
    runtime::MutexLock lock(mutex_);
    for (size_t i = 0; i < count; ++i) {
      const Handle handle = handle_of(i);
      if (handle == 0) continue;
      const Slot* slot = locate_object(handle, T::kType, false);
      if (slot == nullptr) return Status::kInvalidParameter;
      if (!found(i, static_cast<T*>(slot->object.get()))) break;
    }
    return Status::kSuccess;
  }
  /// As find, hidden handles too: for the driver's questions inside its create calls.
  template <typename T>
  Result<Ref<T>> find_even_hidden(Handle handle) {
    DXGKIT_ASSIGN_OR_RETURN(Ref<Object> object, find_object(handle, T::kType, true));
    return Ref<T>(static_cast<T*>(object.get()));
  }
  /// As find, and the handle is gone: of two threads that destroy, one wins.
  template <typename T>
  Result<Ref<T>> take(Handle handle) {
    DXGKIT_ASSIGN_OR_RETURN(Ref<Object> object, take_object(handle, T::kType));
    return Ref<T>(static_cast<T*>(object.get()));
  }
  /// Removes a handle known to be live (object teardown from above); absent handles are ignored.
  void erase(Handle handle);
  size_t size() const;
  /// Live handles in slot order.
  std::vector<std::pair<Handle, ObjectType>> live() const;

 private:
  struct Slot {
    Ref<Object> object;
    uint32_t generation = 0;
    bool published = false;
  };
  Result<Handle> insert_slot(Ref<Object> object, bool published);
  Result<Ref<Object>> find_object(Handle handle, ObjectType type, bool even_hidden) const;
  Result<Ref<Object>> take_object(Handle handle, ObjectType type);
  Handle make_handle(uint32_t slot, uint32_t generation) const;
  const Slot* locate(Handle handle) const DXGKIT_REQUIRES(mutex_);
  /// For the trace: clients can use the handle from here on, or no longer.
  void note_opened(Handle handle, const Object& object) const;
  void note_closed(Handle handle, const Slot& slot) const;
  /// Null: not live, not published or of another type.
  const Slot* locate_object(Handle handle, ObjectType type, bool even_hidden) const
      DXGKIT_REQUIRES(mutex_);

  const KernelNumber kernel_;
  const Handle mark_;
  const uint32_t process_;
  mutable runtime::Mutex mutex_;
  std::vector<Slot> slots_ DXGKIT_GUARDED_BY(mutex_);
  std::deque<uint32_t> free_ DXGKIT_GUARDED_BY(mutex_);
  size_t live_ DXGKIT_GUARDED_BY(mutex_) = 0;
};

}  // namespace dxgkit::dxgk
