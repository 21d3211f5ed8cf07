// Calls that several stories make.
#pragma once

#include <cstdint>

#include "tests/sweep/scene.h"

namespace dxgkit::sweep {

/// D3DKMTEscape to the driver; what it does there is up to the story's hook.
inline void escape(Client& client) {
  uint32_t data = 0;
  D3DKMT_ESCAPE args{};
  args.hAdapter = client.adapter;
  args.hDevice = client.device;
  args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
  args.pPrivateDriverData = &data;
  args.PrivateDriverDataSize = sizeof(data);
  client.call([&] { return D3DKMTEscape(&args); });
}

}  // namespace dxgkit::sweep
