// A device's way into this process: its IOMMU group, and the container that decides what its DMA
// reaches.
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "devices/vfio/address.h"
#include "devices/vfio/kernel.h"

namespace dxgkit::bus {
class Machine;
}

namespace dxgkit::vfio {

/// The group of one device, alone in a container, and the memory that its DMA reaches. Everything
/// ends with the object: the mappings, then the group, then the container. One thread at a time.
class Container {
 public:
  using Made = std::expected<std::unique_ptr<Container>, std::string>;

  /// Opens the group of a device that is bound to vfio-pci. The error is one sentence without a
  /// full stop that says what to do: no device, no IOMMU, a driver in the way, a group that is not
  /// viable, no permission, no /dev/vfio.
  static Made open(std::shared_ptr<Kernel> kernel, const HostAddress& device);
  ~Container();
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  /// Maps all system memory of the machine at its bus addresses, which locks it in memory. The
  /// machine outlives the container. After an error nothing is mapped.
  std::expected<void, std::string> map(bus::Machine& machine);
  /// A descriptor of the device, which the caller closes before the container ends.
  std::expected<int, std::string> open_device(const HostAddress& device);

 private:
  struct Range {
    uint64_t address = 0, bytes = 0;
    std::byte* memory = nullptr;
  };
  explicit Container(std::shared_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  std::expected<void, std::string> open_group(const std::string& number);
  std::expected<void, std::string> check_addresses(const std::vector<Range>& wanted);
  void unmap();

  const std::shared_ptr<Kernel> kernel_;
  int container_ = -1, group_ = -1;
  std::vector<Range> mapped_;
};

}  // namespace dxgkit::vfio
