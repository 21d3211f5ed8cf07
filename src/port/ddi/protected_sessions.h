// Protected sessions: content that only protected hardware may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace dxgkit::port {

struct PortCore;

/// The DDIs of protected sessions, from WDDM 2.3 on. PASSIVE_LEVEL, level zero, any thread. An
/// entry that the driver does not have answers kNotSupported, a dead driver kDeviceRemoved.
class ProtectedSessionPort {
 public:
  /// The core must outlive it.
  explicit ProtectedSessionPort(PortCore& core) : core_(core) {}

  /// The driver has both entries.
  bool complete() const;
  /// @param session  the kernel's name, which DxgkCbSetProtectedSessionStatus takes
  /// @param data     the client's; the driver may change it
  /// Returns the driver's name; the kernel's if the driver has set none. The driver's failure
  /// passes through.
  Result<void*> create(uint64_t session, std::span<std::byte> data);
  /// A failure is a violation (OPT-10).
  Status destroy(void* session);

 private:
  PortCore& core_;
};

}  // namespace dxgkit::port
