// Keyed mutexes: one owner at a time, who takes it with the key the owner before left.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/handle_table.h"
#include "dxgk/core/object.h"
#include "runtime/sync.h"

namespace dxgkit::dxgk {

class GlobalShares;
class KeyedMutex;
class Process;

/// STATUS_ABANDONED: a success code, like kTimeout.
inline constexpr Status kAbandoned{0x00000080};

/// The mutex behind the openings. Belongs to no adapter. It ends with its last opening and hold
/// (SYNC-32); a global handle does not hold it. Thread-safe; never touched on a lane.
class SharedKeyedMutex : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kSharedKeyedMutex;
  SharedKeyedMutex(GlobalShares& shares, uint64_t key_in, std::span<const std::byte> data_in,
                   bool nt_security_in);
  ~SharedKeyedMutex() override;

  /// One descriptor more; false: it is on its way out.
  bool take_hold();
  void drop_hold();

  // Constant once clients can name it.
  const bool nt_security;  // descriptors name it; else `global` does
  Handle global = 0;

  // Of the openings:
  void end_if_unused() DXGKIT_REQUIRES(mutex);
  mutable runtime::Mutex mutex;
  uint64_t key DXGKIT_GUARDED_BY(mutex);
  uint64_t fence_value DXGKIT_GUARDED_BY(mutex) = 0;
  std::vector<std::byte> data DXGKIT_GUARDED_BY(mutex);
  const KeyedMutex* owner DXGKIT_GUARDED_BY(mutex) = nullptr;
  uint32_t openings DXGKIT_GUARDED_BY(mutex) = 0;
  uint32_t holds DXGKIT_GUARDED_BY(mutex) = 0;
  bool gone DXGKIT_GUARDED_BY(mutex) = false;
  bool abandoned DXGKIT_GUARDED_BY(mutex) = false;  // an owner went away: nobody gets it any more
  // Counts what waiters should look at again; changes under mutex.
  std::atomic<uint32_t> changes{0};

 private:
  GlobalShares& shares_;  // where a global handle names it
};

/// An opening: what a client's handle names, and who owns the mutex.
class KeyedMutex : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kKeyedMutex;
  static constexpr int64_t kForever = INT64_MAX;
  explicit KeyedMutex(Ref<SharedKeyedMutex> shared);
  ~KeyedMutex() override;

  /// A new mutex, free, with `key`, and its first opening. `shared`->global is made in `shares`
  /// unless `nt_security`. kNoMemory: no handle left.
  static Result<Ref<KeyedMutex>> create(GlobalShares& shares, Process& process, uint64_t key,
                                        std::span<const std::byte> data, bool nt_security);
  /// Another opening. `data` becomes the mutex's private data if it has none yet, and is not looked
  /// at otherwise. kInvalidParameter: less `data` than the mutex has (but none at all is fine), or
  /// the mutex is on its way out.
  static Result<Ref<KeyedMutex>> open(Process& process, const Ref<SharedKeyedMutex>& shared,
                                      std::span<const std::byte> data);
  /// The private data, for who opens the mutex with its resource.
  std::vector<std::byte> data() const;
  /// The handle is gone already. An owner abandons the mutex for good (SYNC-38). Waits through this
  /// opening end with kInvalidParameter. Idempotent.
  void close();

  struct Taken {
    uint64_t fence_value = 0;
    std::vector<std::byte> data;
  };
  /// SYNC-26: waits until the mutex is free and its key is `key`. `timeout` in 100 ns: 0 not at
  /// all, negative so long from now, positive until that date since 1601; null: for ever. kTimeout:
  /// it is not; kAbandoned: it never will be (SYNC-38); kInvalidParameter: more data than `room`
  /// bytes (0: none wanted); kInvalidParameter: closed meanwhile. `taken` is filled in on kSuccess
  /// only. Blocks its thread; not on a lane.
  Status acquire(uint64_t key, const int64_t* timeout, size_t room, Taken* taken);
  /// Free for whoever waits for `key`, who gets `fence_value` and, unless null, `data`.
  /// kInvalidParameter: this opening does not own it.
  Status release(uint64_t key, uint64_t fence_value, const std::vector<std::byte>* data);

  SharedKeyedMutex& shared() { return *shared_; }
  const Ref<SharedKeyedMutex>& shared_reference() const { return shared_; }
  Handle handle = 0;

 private:
  static Result<Ref<KeyedMutex>> add(Process& process, const Ref<SharedKeyedMutex>& shared);

  const Ref<SharedKeyedMutex> shared_;
  bool open_ = false;  // guarded by the shared one's mutex
};

}  // namespace dxgkit::dxgk
