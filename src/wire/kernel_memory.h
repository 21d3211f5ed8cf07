// What the kernel's memory is in a client process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "base/spin_lock.h"
#include "wire/exchanged_pages.h"
#include "wire/unique_fd.h"
#include "wire/walk.h"

namespace dxgkit::wire {

/// Memory of the kernel as this process sees it: pages behind a descriptor that the kernel sent, or
/// a copy of our own that travels with the call that uses it. One for all threads of a process.
class KernelMemory {
 public:
  /// Whether pages of the program may be exchanged for the kernel's. Who is in the kernel's process
  /// exchanges them by itself.
  enum class Pages { kStay, kExchange };

  explicit KernelMemory(Pages pages = Pages::kStay) : pages_(pages) {}
  ~KernelMemory();
  KernelMemory(const KernelMemory&) = delete;
  KernelMemory& operator=(const KernelMemory&) = delete;

  /// Locked memory has addresses in this process already: these. Before the first call.
  using LockedHere = std::function<void*(uint32_t allocation)>;
  void set_locked_here(LockedHere locked_here) { locked_here_ = std::move(locked_here); }

  /// Adds to a request what the client has written where the kernel will look during the call.
  /// False: the message becomes too long.
  bool add_notes(uint32_t function, const std::byte* arguments,
                 std::pmr::vector<std::byte>* message);
  /// The address of what a reply tells of. Null: it cannot be shown here.
  void* show(const WindowNote& note, UniqueFd descriptor);
  bool exchanges_pages() const { return pages_ == Pages::kExchange; }
  ExchangedPages& exchanged() { return exchanged_; }
  /// A window has ended, as a reply says.
  void end(const WindowNote& note);
  /// The call has succeeded. `arguments`: with its outputs.
  void after(uint32_t function, const std::byte* arguments);
  /// Calls `visit(owner, value)` for each fence that is shown here. Not for long: others wait.
  void visit_fences(const std::function<void(uint32_t owner, uint64_t value)>& visit);

 private:
  struct Mapping {
    void* address = nullptr;
    size_t bytes = 0;
    uint32_t locks = 0;
    uint64_t id = 0;  // of a window that stays until it has ended; 0: it goes with the last unlock
  };
  struct Key {
    Memory memory;
    uint32_t owner;
    auto operator<=>(const Key&) const = default;
  };
  void drop(Key key);

  const Pages pages_;
  LockedHere locked_here_;
  ExchangedPages exchanged_;
  SpinLock lock_;  // held for a system call at most
  std::map<Key, Mapping> mappings_;
};

}  // namespace dxgkit::wire
