// A build without src/wire: `dxgkit serve` refuses.
#include "tools/dxgkit/serve/conversations.h"

namespace dxgkit::serve {

bool has_client_protocol() { return false; }

std::unique_ptr<Conversations> make_conversations(runtime::Runtime&, dxgk::System&, dxgk::Luid,
                                                  const ClientQuotas&) {
  return nullptr;
}

}  // namespace dxgkit::serve
