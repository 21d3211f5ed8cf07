// A hostile client: D3DKMT calls whose arguments are nearly right.
//
//   Market market;                              // knowledge that all clients share
//   Caller caller(market, {.luid_low = luid.low});
//   const Planned planned = caller.plan(choices);
//   ... on a thread bound to the process (thunks::ClientScope): planned.status =
//   caller.make(planned)
//
// Handles come from the results of earlier calls. They are mostly of the right kind; others are of
// another kind, of another process, destroyed, or none. Counts and sizes mostly agree. Lists,
// private data and memory are in an arena that ends at an unreadable page, so that a length that is
// too long is a fault that the kernel must survive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hostile/calls.h"

namespace dxgkit::hostile {

/// The source of decisions: any numbers. The same numbers make the same calls.
using Choices = std::function<uint64_t()>;

/// The knowledge that all clients share. Threads: one.
struct Market {
  std::array<std::vector<uint32_t>, kPoolCount> handles;
  std::vector<int64_t> nt_handles;  // file descriptors, ours to close
  ~Market();
  Market() = default;
  Market(const Market&) = delete;
  Market& operator=(const Market&) = delete;
};

/// Stands beside the calls of clients, on the threads that make them.
class MemoryWatch {
 public:
  virtual ~MemoryWatch() = default;
  /// A call begins. Its structure, lists and private data are in `memory`, and nothing else that
  /// the kernel may look at. Two of its pointers lead to different bytes of it.
  virtual void begins(std::span<std::byte> memory) = 0;
  virtual void ends() = 0;
};

struct CallerOptions {
  uint32_t luid_low = 0, luid_high = 0;
  /// Private data that the driver accepts for an allocation. Mostly sent unchanged.
  std::vector<std::byte> allocation_data = {};
  /// A command buffer that the driver accepts, for an allocation list whose first entry it writes.
  /// Mostly sent with a few bytes changed. Empty: random bytes.
  std::vector<std::byte> commands = {};
  /// Called, with one line of text, for each call about to be made and each that came back. May be
  /// empty.
  std::function<void(const std::string&)> log = {};
  /// Called with each call that came back, and its answer. May be empty.
  std::function<void(std::string_view call, NTSTATUS status)> answered = {};
  /// Half of the calls are ones that succeeded before, with one member changed.
  bool repeats = false;
  std::string name = {};
  MemoryWatch* watch = nullptr;  // outlives the caller; null: nobody looks
};

/// A call with its arguments, which live until the caller does.
struct Planned {
  const Call* call = nullptr;
  std::vector<std::byte> arguments, before;
  /// With a watch the call is made with a copy of `arguments` at the beginning of `place`.
  MemoryWatch* watch = nullptr;
  std::byte* place = nullptr;
  std::span<std::byte> memory = {};
  std::string text() const;
};

class Caller {
 public:
  Caller(Market& market, CallerOptions options);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  /// The calls of a client that means well and wants to work: adapter, device, context, paging
  /// queue, allocations, a fence. Plan each after the ones before it have been made.
  static constexpr uint32_t kOpening = 8;
  Planned plan_opening(uint32_t step);
  /// Plans any call.
  Planned plan(const Choices& choices);
  /// Makes the call. The calling thread is bound to the process. May block. Call `learn`
  /// afterwards, on the thread that plans.
  static NTSTATUS make(Planned& planned);
  /// Takes over the results of the call.
  void learn(const Planned& planned, NTSTATUS status);

  uint64_t made = 0, succeeded = 0;

 private:
  struct Buffers {  // of a context: where Render looks
    uint32_t context = 0;
    std::byte* command = nullptr;
    uint32_t command_bytes = 0;
    std::byte* allocations = nullptr;
    std::byte* patches = nullptr;
  };

  std::byte* room(size_t bytes);
  /// The same of pages that back allocations. They are no arguments.
  std::byte* backing(size_t bytes, bool aligned);
  Planned plan_any(const Choices& choices);
  Planned plan_one_of_opening(uint32_t step);
  Planned placed(Planned planned);
  void fill(const Record& record, std::byte* out, uint32_t depth, const Choices& choices);
  uint64_t value(const Field& field, uint32_t count, uint32_t depth, const Choices& choices);
  uint32_t handle(Pool pool, const Choices& choices);
  Planned plan_again(const Choices& choices);
  void prepare_render(Planned& planned, const Choices& choices);
  void note(Pool pool, uint32_t handle);
  /// A call has given this descriptor, which is closed with the market.
  void own(uint64_t descriptor);

  Market& market_;
  const CallerOptions options_;
  std::array<std::vector<uint32_t>, kPoolCount> mine_;
  std::vector<uint64_t> addresses_, opaque_;
  std::vector<Buffers> buffers_;
  std::vector<Planned> accepted_;  // the last success of each call
  std::byte* arena_ = nullptr;
  size_t used_ = 0;
  std::byte* slots_ = nullptr;  // null: no watch
  size_t slot_ = 0;
  std::byte* backing_ = nullptr;
  size_t backing_used_ = 0;
  int event_ = -1;
};

/// "D3DKMTEvict(hDevice=0x40, ...)"; also for names. Null if there is no such call.
const Call* find_call(std::string_view name);

}  // namespace dxgkit::hostile
