#include "devices/vfio/container.h"

#include <fcntl.h>
#include <linux/vfio.h>

#include <array>
#include <bit>
#include <cerrno>
#include <optional>

#include "base/arithmetic.h"
#include "bus/machine.h"
#include "devices/vfio/capabilities.h"

namespace dxgkit::vfio {
namespace {

constexpr const char* kContainerPath = "/dev/vfio/vfio";

std::string folder_of(const HostAddress& device) {
  return "/sys/bus/pci/devices/" + to_text(device);
}

std::string in_kib(uint64_t bytes) { return std::to_string(bytes / 1024 + (bytes % 1024 != 0)); }

bool denied(int error) { return error == EACCES || error == EPERM; }

/// The driver of a device; nullopt: none.
std::optional<std::string> driver_of(Kernel& kernel, const std::string& folder) {
  const auto driver = kernel.link_target(folder + "/driver");
  if (!driver.has_value()) return std::nullopt;
  return *driver;
}

/// The devices of a group that keep it from being viable.
std::string others_in_group(Kernel& kernel, const std::string& number) {
  const auto names = kernel.list("/sys/kernel/iommu_groups/" + number + "/devices");
  std::string found;
  if (!names.has_value()) return found;
  for (const std::string& name : *names) {
    const auto driver = driver_of(kernel, "/sys/bus/pci/devices/" + name);
    if (!driver.has_value() || *driver == "vfio-pci" || *driver == "pcieport") continue;
    found += (found.empty() ? "" : ", ") + name + " (" + *driver + ")";
  }
  return found;
}

}  // namespace

std::optional<size_t> find_capability(std::span<const std::byte> answer, uint32_t first,
                                      uint16_t id) {
  size_t at = first;
  // A circle would need fewer steps than there are places for a header.
  for (size_t steps = 0; at != 0 && steps < answer.size() / sizeof(vfio_info_cap_header); ++steps) {
    vfio_info_cap_header header;
    if (!take(answer, at, &header)) return std::nullopt;
    if (header.id == id) return at;
    at = header.next;
  }
  return at == 0 ? std::optional<size_t>(0) : std::nullopt;
}

Container::Made Container::open(std::shared_ptr<Kernel> kernel, const HostAddress& device) {
  const std::string name = to_text(device), folder = folder_of(device);
  if (!kernel->list(folder).has_value())
    return wrong("there is no such PCI device; lspci -D lists those there are");
  const auto number = kernel->link_target(folder + "/iommu_group");
  if (!number.has_value()) {
    return wrong(
        "it is in no IOMMU group, so nothing would keep its DMA from all memory of this "
        "computer: turn on VT-d or AMD-Vi in the firmware, and intel_iommu=on on the "
        "command line of Linux");
  }
  const auto driver = driver_of(*kernel, folder);
  if (driver != "vfio-pci") {
    return wrong((driver.has_value() ? "it is driven by " + *driver : "it has no driver") +
                 ": bind it to vfio-pci (" +
                 (driver.has_value() ? "echo " + name + " > " + folder + "/driver/unbind; " : "") +
                 "echo vfio-pci > " + folder + "/driver_override; echo " + name +
                 " > /sys/bus/pci/drivers_probe)");
  }
  std::unique_ptr<Container> made(new Container(std::move(kernel)));
  if (auto opened = made->open_group(*number); !opened.has_value()) return wrong(opened.error());
  return made;
}

std::expected<void, std::string> Container::open_group(const std::string& number) {
  const Answer<int> container = kernel_->open(kContainerPath, O_RDWR);
  if (!container.has_value() && denied(container.error()))
    return wrong(std::string("no permission for ") + kContainerPath +
                 ": run as root, or chmod 666 " + kContainerPath);
  if (!container.has_value())
    return wrong(std::string(kContainerPath) + " cannot be opened: " +
                 error_text(container.error()) + "; load the module (modprobe vfio-pci)");
  container_ = *container;
  if (kernel_->control(container_, VFIO_GET_API_VERSION, 0) != VFIO_API_VERSION)
    return wrong("this Linux speaks another version of VFIO");
  if (kernel_->control(container_, VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU).value_or(0) <= 0)
    return wrong("this Linux has no VFIO for its IOMMU: load the module vfio_iommu_type1");

  const std::string path = "/dev/vfio/" + number;
  const Answer<int> group = kernel_->open(path, O_RDWR);
  if (!group.has_value() && denied(group.error()))
    return wrong("no permission for " + path + ": run as root, or chown " + path);
  if (!group.has_value() && group.error() == EBUSY)
    return wrong("IOMMU group " + number + " is in use: end the process that has " + path +
                 " open");
  if (!group.has_value())
    return wrong(path + " cannot be opened: " + error_text(group.error()) +
                 "; a file of that name appears once the device is bound to vfio-pci");
  group_ = *group;
  vfio_group_status status{};
  status.argsz = sizeof status;
  const auto asked =
      kernel_->control(group_, VFIO_GROUP_GET_STATUS, std::bit_cast<uintptr_t>(&status));
  if (!asked.has_value())
    return wrong("IOMMU group " + number + " does not answer: " + error_text(asked.error()));
  if ((status.flags & VFIO_GROUP_FLAGS_VIABLE) == 0) {
    const std::string others = others_in_group(*kernel_, number);
    return wrong("IOMMU group " + number +
                 " is not viable: bind all its devices to vfio-pci or to no driver" +
                 (others.empty() ? "" : "; these are not: " + others));
  }
  if (const auto set =
          kernel_->control(group_, VFIO_GROUP_SET_CONTAINER, std::bit_cast<uintptr_t>(&container_));
      !set.has_value())
    return wrong("IOMMU group " + number + " cannot be used: " + error_text(set.error()));
  if (const auto set = kernel_->control(container_, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU);
      !set.has_value())
    return wrong("the IOMMU cannot be used: " + error_text(set.error()) +
                 (set.error() == EPERM ? "; without interrupt remapping Linux refuses it" : ""));
  return {};
}

/// The IOMMU may lack address bits, and some addresses are reserved for interrupts.
std::expected<void, std::string> Container::check_addresses(const std::vector<Range>& wanted) {
  vfio_iommu_type1_info info{};
  info.argsz = sizeof info;
  auto asked = kernel_->control(container_, VFIO_IOMMU_GET_INFO, std::bit_cast<uintptr_t>(&info));
  if (!asked.has_value()) return wrong("the IOMMU does not answer: " + error_text(asked.error()));
  if ((info.flags & VFIO_IOMMU_INFO_PGSIZES) != 0 && (info.iova_pgsizes & kPageBytes) == 0)
    return wrong("the IOMMU maps no pages of 4 KiB");
  if ((info.flags & VFIO_IOMMU_INFO_CAPS) == 0) return {};  // an older Linux: mapping will tell
  if (info.argsz > kAnswerBytesMost) return wrong("the IOMMU gives an answer without end");
  std::vector<std::byte> answer(std::max<size_t>(info.argsz, sizeof info));
  info.argsz = static_cast<uint32_t>(answer.size());
  std::memcpy(answer.data(), &info, sizeof info);
  asked =
      kernel_->control(container_, VFIO_IOMMU_GET_INFO, std::bit_cast<uintptr_t>(answer.data()));
  if (!asked.has_value() || !take(answer, 0, &info))
    return wrong("the IOMMU does not answer: " +
                 error_text(asked.has_value() ? EPROTO : asked.error()));
  const std::optional<size_t> found =
      find_capability(answer, info.cap_offset, VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE);
  if (!found.has_value()) return wrong("the IOMMU gives an answer that makes no sense");
  vfio_iommu_type1_info_cap_iova_range ranges;
  const size_t at = *found;
  if (at == 0 || !take(answer, at, &ranges)) return {};
  for (const Range& range : wanted) {
    bool fits = false;
    for (uint32_t i = 0; i < ranges.nr_iovas; ++i) {
      vfio_iova_range usable;
      if (!take(answer, at + sizeof ranges + size_t{i} * sizeof usable, &usable)) break;
      fits =
          fits || (usable.start <= range.address && range.address + range.bytes - 1 <= usable.end);
    }
    if (!fits)
      return wrong("the IOMMU cannot map memory at bus addresses as high as " +
                   std::to_string(range.address + range.bytes - 1) + ": use less memory");
  }
  return {};
}

std::expected<void, std::string> Container::map(bus::Machine& machine) {
  std::vector<Range> wanted;
  uint64_t all = 0;
  const auto want = [&](uint64_t address, uint64_t bytes) {
    if (bytes == 0) return;
    std::byte* const memory = machine.system_pointer(bus::PhysicalAddress{address}, bytes);
    wanted.push_back({.address = address, .bytes = bytes, .memory = memory});
    all += bytes;
  };
  want(bus::Machine::kPoolMemoryBase, bus::Machine::kPoolMemoryBytes);
  want(bus::Machine::kLowMemoryBase, machine.low_memory_bytes());
  want(bus::Machine::kSystemMemoryBase,
       machine.highest_system_address().value + 1 - bus::Machine::kSystemMemoryBase);
  if (auto fit = check_addresses(wanted); !fit.has_value()) return fit;
  machine.fix_system_memory();  // the IOMMU knows the pages that are there now
  for (const Range& range : wanted) {
    vfio_iommu_type1_dma_map map{.argsz = sizeof map,
                                 .flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
                                 .vaddr = std::bit_cast<uintptr_t>(range.memory),
                                 .iova = range.address,
                                 .size = range.bytes};
    const auto done =
        kernel_->control(container_, VFIO_IOMMU_MAP_DMA, std::bit_cast<uintptr_t>(&map));
    if (done.has_value()) {
      mapped_.push_back(range);
      continue;
    }
    unmap();
    const uint64_t limit = kernel_->lock_limit_bytes();
    if (done.error() == ENOMEM && limit < all)
      return wrong("DMA needs " + in_kib(all) + " KiB of locked memory and the limit is " +
                   in_kib(limit) + " KiB: raise it (ulimit -l " + in_kib(all) +
                   "), or give the machine less memory");
    return wrong("the memory of the machine cannot be mapped for DMA: " + error_text(done.error()));
  }
  return {};
}

void Container::unmap() {
  while (!mapped_.empty()) {
    vfio_iommu_type1_dma_unmap unmap{};
    unmap.argsz = sizeof unmap;
    unmap.iova = mapped_.back().address;
    unmap.size = mapped_.back().bytes;
    // A failure leaves nothing to do: closing the container unmaps, too.
    static_cast<void>(
        kernel_->control(container_, VFIO_IOMMU_UNMAP_DMA, std::bit_cast<uintptr_t>(&unmap)));
    mapped_.pop_back();
  }
}

std::expected<int, std::string> Container::open_device(const HostAddress& device) {
  const std::string name = to_text(device);
  const auto opened =
      kernel_->control(group_, VFIO_GROUP_GET_DEVICE_FD, std::bit_cast<uintptr_t>(name.c_str()));
  if (!opened.has_value()) return wrong("it cannot be opened: " + error_text(opened.error()));
  return *opened;
}

Container::~Container() {
  unmap();
  if (group_ >= 0) kernel_->close(group_);
  if (container_ >= 0) kernel_->close(container_);
}

}  // namespace dxgkit::vfio
