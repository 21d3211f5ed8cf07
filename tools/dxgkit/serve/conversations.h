// What connections to an adapter are for: D3DKMT calls by the protocol of src/wire.
#pragma once

#include <memory>

#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/serve/adapter_host.h"

namespace dxgkit::serve {

struct ClientQuotas {
  uint64_t handles_most = 0;  // of one user in this adapter; 0: no limit
};

/// `system` outlives it.
std::unique_ptr<Conversations> make_conversations(runtime::Runtime& runtime, dxgk::System& system,
                                                  dxgk::Luid adapter, const ClientQuotas& quotas);

}  // namespace dxgkit::serve
