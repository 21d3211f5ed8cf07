// What connections to an adapter are for: D3DKMT calls by the protocol of src/wire.
#pragma once

#include <memory>

#include "dxgk/core/client_quota.h"
#include "dxgk/system.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/serve/adapter_host.h"

namespace dxgkit::serve {

struct ClientQuotas {
  // Of one user in this adapter.
  uint64_t handles_most = 0;  // 0: no limit
  dxgk::ClientQuota::Limits kernel = {};
};

/// `system` outlives it.
std::unique_ptr<Conversations> make_conversations(runtime::Runtime& runtime, dxgk::System& system,
                                                  dxgk::Luid adapter, const ClientQuotas& quotas);

}  // namespace dxgkit::serve
