#include "tools/dxgkit/verify/worker.h"

namespace dxgkit::tool::verify {

Answer<void> Worker::open() {
  DXGKIT_VERIFY_TRY(client.open_adapter());
  return open_device();
}

Answer<void> Worker::open_device() {
  const Answer<D3DKMT_HANDLE> made = client.create_device();
  if (!made) return std::unexpected(made.error());
  device = *made;
  contexts.clear();
  for (uint32_t node = 0; node < bench.node_count(); ++node) {
    const Answer<ClientContext> context = add_context(node);
    if (!context) return std::unexpected(context.error());
    contexts.push_back(*context);
  }
  return {};
}

Answer<ClientContext> Worker::add_context(uint32_t node) {
  const Answer<std::vector<std::byte>> data = bench.context_data(node);
  if (!data) return std::unexpected(data.error());
  return client.create_context(device, node, *data);
}

Answer<bool> Worker::idle(std::string* wrong) {
  const Answer<void> done = client.wait_idle(device);
  if (done) return true;
  if (client.active(device)) return std::unexpected(done.error());
  if (wrong->empty()) *wrong = lost_text(client, device);
  return false;
}

}  // namespace dxgkit::tool::verify
