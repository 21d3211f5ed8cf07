// A client of a kernel in this process.
#pragma once

#include <optional>
#include <string>

#include "dxgk/system.h"
#include "runtime/sync.h"
#include "thunks/client.h"
#include "tools/dxgkit/gl/d3dkmt_backend.h"

namespace dxgkit::gl {

/// A client process of the system. The thread that makes it is its thread, and destroys it.
class SystemClient final : public KernelClient {
 public:
  SystemClient(dxgk::System& system, const std::string& name);
  ~SystemClient() override;
  void end() override;

 private:
  dxgk::System& system_;
  dxgk::Process& process_;
  runtime::Mutex mutex_;  // held while the process ends
  bool ended_ DXGKIT_GUARDED_BY(mutex_) = false;
  std::optional<thunks::ClientScope> scope_;
};

}  // namespace dxgkit::gl
