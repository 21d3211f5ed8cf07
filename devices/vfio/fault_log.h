// Accesses that the IOMMU of the host refused, as the log of Linux tells of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/vfio/address.h"
#include "devices/vfio/kernel.h"

namespace dxgkit::vfio {

/// One access that had no effect.
struct IommuFault {
  uint64_t address = 0;  // on the bus, as the device sent it
  bool is_write = false;
  bool operator==(const IommuFault&) const = default;
};

/// Reads one line of the log: what the drivers of Intel's and AMD's IOMMUs write. nullopt for any
/// other line, and for a fault of another device.
std::optional<IommuFault> parse_fault(std::string_view line, const HostAddress& device);

/// Follows the log from the moment it is opened. One thread at a time.
class FaultLog {
 public:
  /// The error is that of opening /dev/kmsg.
  static Answer<std::unique_ptr<FaultLog>> open(std::shared_ptr<Kernel> kernel, HostAddress device);
  ~FaultLog();
  FaultLog(const FaultLog&) = delete;
  FaultLog& operator=(const FaultLog&) = delete;

  /// Can be read when there are new lines.
  int descriptor() const { return descriptor_; }
  /// Faults of the device since the last call. Linux limits how many it tells, a few in five
  /// seconds. Does not block.
  std::vector<IommuFault> take();

 private:
  FaultLog(std::shared_ptr<Kernel> kernel, HostAddress device, int descriptor)
      : kernel_(std::move(kernel)), device_(device), descriptor_(descriptor) {}
  const std::shared_ptr<Kernel> kernel_;
  const HostAddress device_;
  const int descriptor_;
};

}  // namespace dxgkit::vfio
