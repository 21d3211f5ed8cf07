// Binds threads to client processes for the D3DKMT entry points.
#pragma once

#include <memory>

#include "dxgk/system.h"

namespace dxgkit::thunks {

/// While a ClientScope lives, D3DKMT* functions (d3dkmthk.h) called by this thread act for
/// `process` of `system`. Scopes nest. A thread that is bound to no process gets
/// STATUS_INVALID_PARAMETER from every thunk.
class ClientScope {
 public:
  ClientScope(dxgk::System& system, dxgk::Process& process);
  ~ClientScope();
  ClientScope(const ClientScope&) = delete;
  ClientScope& operator=(const ClientScope&) = delete;

 private:
  const std::shared_ptr<dxgk::Process> process_;
  void* previous_;
};

}  // namespace dxgkit::thunks
