// The adapters of a server as this program has them: each is a process of its own, with a kernel of
// its own in which the program is a client process.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include "dxcore/remote_connection.h"
#include "runtime/host_thread.h"
#include "wire/hello.h"
#include "wire/kernel_memory.h"

namespace dxgkit::dxcore {

/// This program as a client process of one adapter's kernel. Any thread.
class RemoteAdapter {
 public:
  /// Makes the client process. The error is one sentence.
  static std::expected<std::unique_ptr<RemoteAdapter>, std::string> make(
      const wire::AdapterLine& line);

  const wire::AdapterLine& line() const { return line_; }
  /// Which its handles carry.
  uint32_t kernel() const { return first_->connection().kernel(); }
  bool lost() const { return lost_.load(); }
  /// Makes a call over the calling thread's connection. STATUS_DEVICE_REMOVED: the adapter is gone,
  /// or takes no more connections.
  int64_t call(uint32_t function, void* arguments);
  /// One more connection.
  std::expected<wire::ClientConnection, std::string> connect() const;

 private:
  explicit RemoteAdapter(const wire::AdapterLine& line) : line_(line) {}

  const wire::AdapterLine line_;
  wire::Token token_{};
  std::unique_ptr<Connected> first_;  // keeps the client process while no thread has a connection
  std::atomic<bool> lost_{false};
  wire::KernelMemory memory_{wire::KernelMemory::Pages::kExchange};
};

/// The adapters of one server. Any thread. Never freed, as threads may be inside at any time.
class RemoteAdapters {
 public:
  static constexpr uint32_t kMost = 16;

  /// Those of this process, made at its first call.
  static RemoteAdapters& of_this_process();
  /// The same, after a look for those that have come in the place of lost ones.
  static RemoteAdapters& after_a_look();

  /// A number that no other one of this process has.
  uint64_t number() const { return number_; }
  /// Whether a server took the first connection.
  bool connected() const { return count_.load() != 0; }
  bool has_several() const { return count_.load() > 1; }

  /// Calls `visit(adapter)` for each that is not lost, in order, until it answers false.
  template <typename Visit>
  void visit(Visit&& visit) const {
    for (const auto& one : adapters_) {
      RemoteAdapter* const adapter = one.load();
      if (adapter != nullptr && !adapter->lost() && !visit(*adapter)) return;
    }
  }
  /// The one that a call is for, by the handles and LUIDs among its arguments: the first one if
  /// they do not say. Null: there is none.
  RemoteAdapter* adapter_for(uint32_t function, const void* arguments) const;

 private:
  void begin();
  /// Opens those of the broker's list that are not there. The error is the last one.
  std::expected<void, std::string> open_new_ones();
  bool has_lost() const;
  RemoteAdapter* first() const;

  static std::atomic<RemoteAdapters*> current_;
  static std::atomic<uint64_t> made_;

  const uint64_t number_ = ++made_;
  runtime::HostFlag begun_;
  std::atomic<uint32_t> count_{0};
  std::atomic<bool> looking_{false};
  std::array<std::atomic<RemoteAdapter*>, kMost> adapters_{};  // by the number of the kernel
};

}  // namespace dxgkit::dxcore
