// The memory of locked allocations, between the kernel and one client process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "dxgk/core/client_quota.h"
#include "dxgk/core/process.h"
#include "runtime/sync.h"
#include "wire/given_memory.h"
#include "wire/unique_fd.h"
#include "wire/walk.h"

namespace dxgkit::wire {

/// A locked allocation whose content lies in system pages of its process is given by descriptor
/// (GivenMemory). Others may lie in memory that holds other processes' content too, so that no
/// descriptor of it can be given away. The client sees a shared copy instead. What the client has
/// changed of it goes to the allocation before calls that unlock or submit; what changed in the
/// allocation goes to the copy after calls that lock or wait.
///
/// Any thread of the kernel's runtime but the lane.
class Windows {
 public:
  Windows();
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  /// The allocation has been locked once more. `note`: what the client is told of the window. A
  /// descriptor of a copy comes with the first lock; the client has the window already otherwise.
  /// False: no memory for it.
  bool locked(dxgk::Process& process, uint32_t device, uint32_t allocation, WindowNote* note,
              UniqueFd* descriptor);
  /// These are about to be unlocked.
  void before_unlock(dxgk::Process& process, std::span<const uint32_t> allocations);
  /// They have been.
  void unlocked(std::span<const uint32_t> allocations);
  /// What clients wrote goes to all locked allocations.
  void push_all(dxgk::Process& process);
  /// What the GPU wrote comes from them. Ends windows whose allocations are gone.
  void pull_all(dxgk::Process& process);
  /// Told of all bytes that move, a run within a page at a time, on the thread that moves them.
  /// Before the first window.
  using Observer = void (*)(uint32_t allocation, bool to_kernel, uint64_t offset,
                            std::span<const std::byte> bytes);
  void set_observer(Observer observer) { observer_ = observer; }
  /// Nothing is given by descriptor. Before the first window.
  void copy_all() { copies_all_ = true; }
  /// Nothing is given by descriptor, and the client is in this process: it sees a copy at
  /// address_of(), without a descriptor. Before the first window.
  void copy_all_here() { copies_all_ = is_here_ = true; }
  /// Where a locked allocation's copy is in this process. Null: it is not locked.
  void* address_of(uint32_t allocation) const;
  /// How many copies there are.
  size_t count() const;
  GivenMemory& given() { return given_; }

 private:
  struct Window;
  enum class Way { kBegin, kPush, kPull };  // kBegin: a pull, into a window of anything
  /// False: the allocation is not locked any more.
  bool move(dxgk::Process& process, uint32_t allocation, Window& window, Way way) const;

  /// A window of this size; one that was used before if there is one. Null: no memory.
  std::unique_ptr<Window> make(uint64_t size) DXGKIT_REQUIRES(mutex_);
  /// Its last lock has ended. Pages that are there already cost less than new ones.
  void keep(std::unique_ptr<Window> window) DXGKIT_REQUIRES(mutex_);
  /// The allocation is locked, and the client sees a copy.
  bool copies(uint32_t allocation) const;

  Observer observer_ = nullptr;
  bool copies_all_ = false;
  bool is_here_ = false;
  GivenMemory given_;
  mutable runtime::Mutex mutex_;
  std::map<uint32_t, std::unique_ptr<Window>> windows_ DXGKIT_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Window>> spare_ DXGKIT_GUARDED_BY(mutex_);  // the oldest first
  uint64_t spare_bytes_ DXGKIT_GUARDED_BY(mutex_) = 0;
};

std::shared_ptr<Windows> make_windows();
/// The same for a client in another process, before its first call: its allocations are made so
/// that it can be given them by descriptor.
std::shared_ptr<Windows> make_windows(dxgk::System& system, dxgk::Process& process,
                                      std::shared_ptr<dxgk::ClientQuota> quota);

}  // namespace dxgkit::wire
