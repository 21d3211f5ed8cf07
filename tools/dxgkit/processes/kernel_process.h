// The kernel of clients that are programs: one adapter in a process of its own, for this user.
#pragma once

#include <atomic>
#include <deque>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/device.h"
#include "devices/vfiouser/connection.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/run_folder.h"
#include "tools/dxgkit/serve/broker.h"
#include "tools/dxgkit/serve/listener.h"
#include "tools/dxgkit/serve/process_world.h"

namespace dxgkit::tool {

struct KernelProcessConfig {
  std::string driver_path;
  std::string device;  // as --device has it
  uint64_t memory_bytes = 0;
  std::string registry;  // JSON text of the driver's keys; empty: none
  bool special_pool = false, reference_checks = false;
};

/// What the process did for its clients.
struct KernelProcessFigures {
  uint64_t requests = 0, bytes_in = 0, bytes_out = 0, packets = 0;
};

struct KernelProcessEnd {
  std::vector<std::string> findings;  // as texts
  std::string how;                    // the process ended by itself; empty: it did not
};

/// A finding as text begins with its rule and its severity.
inline bool told_as_mistake(const std::string& finding) {
  return !finding.contains(": warning in ");
}

/// Serves at a socket of its own (docs/clients.md) on a thread of its own. Real threads only; one
/// thread uses it.
class KernelProcess {
 public:
  /// The error is one sentence without a full stop. The adapter starts meanwhile: the first client
  /// waits for it.
  static std::expected<std::unique_ptr<KernelProcess>, std::string> start(
      runtime::Runtime& runtime, const KernelProcessConfig& config);
  ~KernelProcess() { static_cast<void>(end()); }

  /// For DXGKIT_SOCKET.
  const std::string& socket() const { return listener_->path(); }
  /// Blocks for a few seconds at most; zeros if the process does not answer.
  KernelProcessFigures figures();
  /// Ends the process, once it has let go of its clients.
  KernelProcessEnd end();

 private:
  explicit KernelProcess(runtime::Runtime& runtime) : runtime_(runtime) {}
  void serve(const std::string& stack);

  runtime::Runtime& runtime_;
  const RunFolder folder_;
  std::optional<serve::Listener> listener_;
  std::optional<serve::ProcessWorld> world_;
  std::optional<serve::Broker> broker_;
  vfiouser::Descriptor wake_;
  std::atomic<bool> is_over_{false};
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace dxgkit::tool
