#include "devices/vfio/fake_linux.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/check.h"

namespace dxgkit::vfio {
namespace {

constexpr int kContainer = 100'000, kGroup = 100'001;  // no files of this process
constexpr uint64_t kRegionBytes = uint64_t{1} << 20;   // each has its place in the device's file
constexpr const char* kFolder = "/sys/bus/pci/devices/0000:00:05.0";

template <typename T>
T& at(uintptr_t argument) {
  return *std::bit_cast<T*>(argument);
}

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

FakeLinux::FakeLinux() : device_file_(memfd_create("fake device", MFD_CLOEXEC)) {
  DXGKIT_CHECK(ftruncate(device_file_, static_cast<off_t>(regions.size() * kRegionBytes)) == 0);
  std::array<int, 2> ends{};
  DXGKIT_CHECK(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  log_read_ = ends[0];
  log_write_ = ends[1];
  folders[kFolder] = {"config", "resource"};
  links[std::string(kFolder) + "/iommu_group"] = "7";
  links[std::string(kFolder) + "/driver"] = "vfio-pci";
  folders["/sys/kernel/iommu_groups/7/devices"] = {"0000:00:05.0"};

  device.flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
  device.num_regions = 9;
  device.num_irqs = 5;
  for (uint32_t i = 0; i < regions.size(); ++i) {
    regions[i].index = i;
    regions[i].offset = i * kRegionBytes;
    regions[i].flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
  }
  regions[VFIO_PCI_BAR0_REGION_INDEX].size = 65536;
  regions[VFIO_PCI_BAR0_REGION_INDEX].flags |= VFIO_REGION_INFO_FLAG_MMAP;
  regions[VFIO_PCI_CONFIG_REGION_INDEX].size = 256;
  for (uint32_t i = 0; i < interrupts.size(); ++i)
    interrupts[i] = {.argsz = 0, .flags = VFIO_IRQ_INFO_EVENTFD, .index = i, .count = 1};
  interrupts[VFIO_PCI_INTX_IRQ_INDEX].flags |= VFIO_IRQ_INFO_AUTOMASKED;
  interrupts[VFIO_PCI_MSIX_IRQ_INDEX].count = 0;

  put<uint32_t>(VFIO_PCI_CONFIG_REGION_INDEX, 0x00, 0x11E8'1234);
  put<uint32_t>(VFIO_PCI_CONFIG_REGION_INDEX, 0x08, 0x00FF'0010);
}

FakeLinux::~FakeLinux() {
  ::close(device_file_);
  ::close(log_read_);
  ::close(log_write_);
}

void FakeLinux::step(std::string text) {
  const runtime::MutexLock lock(mutex_);
  steps_.push_back(std::move(text));
}

std::vector<std::string> FakeLinux::steps() {
  const runtime::MutexLock lock(mutex_);
  return steps_;
}

size_t FakeLinux::open_descriptors() {
  const runtime::MutexLock lock(mutex_);
  return opened_.size();
}

Answer<int> FakeLinux::open(const std::string& path, int) {
  if (const auto error = open_errors.find(path); error != open_errors.end())
    return std::unexpected(error->second);
  const int descriptor = path == "/dev/vfio/vfio" ? kContainer
                         : path == "/dev/vfio/7"  ? kGroup
                         : path == "/dev/kmsg"    ? log_read_
                                                  : -1;
  if (descriptor < 0) return std::unexpected(ENOENT);
  const runtime::MutexLock lock(mutex_);
  opened_.insert(descriptor);
  return descriptor;
}

void FakeLinux::close(int descriptor) {
  if (descriptor == device_file_) step("close device");
  const runtime::MutexLock lock(mutex_);
  const auto one = opened_.find(descriptor);
  DXGKIT_CHECK(one != opened_.end());
  opened_.erase(one);
}

Answer<int> FakeLinux::control(int descriptor, unsigned long request, uintptr_t argument) {
  if (const auto error = control_errors.find(request); error != control_errors.end())
    return std::unexpected(error->second);
  switch (request) {
    case VFIO_GET_API_VERSION:
      return api_version;
    case VFIO_CHECK_EXTENSION:
      return extension;
    case VFIO_GROUP_GET_STATUS:
      at<vfio_group_status>(argument).flags = group_flags;
      return 0;
    case VFIO_GROUP_SET_CONTAINER:
      return at<int>(argument) == kContainer && descriptor == kGroup ? 0 : -1;
    case VFIO_SET_IOMMU:
      return 0;
    case VFIO_IOMMU_GET_INFO:
      return answer_memory(argument);
    case VFIO_IOMMU_MAP_DMA: {
      const auto& map = at<vfio_iommu_type1_dma_map>(argument);
      step("map " + hex(map.iova) + " " + hex(map.size));
      return 0;
    }
    case VFIO_IOMMU_UNMAP_DMA:
      step("unmap " + hex(at<vfio_iommu_type1_dma_unmap>(argument).iova));
      return 0;
    case VFIO_GROUP_GET_DEVICE_FD: {
      const runtime::MutexLock lock(mutex_);
      opened_.insert(device_file_);
      return device_file_;
    }
    case VFIO_DEVICE_GET_INFO:
      at<vfio_device_info>(argument) = device;
      return 0;
    case VFIO_DEVICE_GET_REGION_INFO:
      return answer_region(argument);
    case VFIO_DEVICE_GET_IRQ_INFO: {
      const uint32_t index = at<vfio_irq_info>(argument).index;
      if (index >= interrupts.size()) return std::unexpected(EINVAL);
      at<vfio_irq_info>(argument) = interrupts[index];
      return 0;
    }
    case VFIO_DEVICE_SET_IRQS:
      return set_interrupts(argument);
    case VFIO_DEVICE_RESET:
      step("reset");
      return 0;
    default:
      return std::unexpected(ENOTTY);
  }
}

Answer<int> FakeLinux::answer_region(uintptr_t argument) {
  auto& asked = at<vfio_region_info>(argument);
  if (asked.index >= regions.size()) return std::unexpected(EINVAL);
  const std::vector<std::byte>& more = region_capabilities[asked.index];
  const size_t room = asked.argsz;
  asked = regions[asked.index];
  if (asked.argsz != 0) return 0;  // the test says what it claims to need
  asked.argsz = static_cast<uint32_t>(sizeof asked + more.size());
  if (more.empty()) return 0;
  asked.flags |= VFIO_REGION_INFO_FLAG_CAPS;
  if (room < asked.argsz) return 0;
  asked.cap_offset = sizeof asked;
  std::memcpy(std::bit_cast<std::byte*>(argument) + sizeof asked, more.data(), more.size());
  return 0;
}

Answer<int> FakeLinux::answer_memory(uintptr_t argument) {
  auto& info = at<vfio_iommu_type1_info>(argument);
  const size_t room = info.argsz;
  info = {};
  info.argsz = sizeof info;
  info.flags = VFIO_IOMMU_INFO_PGSIZES;
  info.iova_pgsizes = 4096;
  if (usable.empty()) return 0;
  vfio_iommu_type1_info_cap_iova_range head{};
  head.header.id = VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE;
  head.nr_iovas = static_cast<uint32_t>(usable.size());
  info.flags |= VFIO_IOMMU_INFO_CAPS;
  info.argsz =
      static_cast<uint32_t>(sizeof info + sizeof head + usable.size() * sizeof(vfio_iova_range));
  if (room < info.argsz) return 0;
  info.cap_offset = sizeof info;
  std::byte* const behind = std::bit_cast<std::byte*>(argument) + sizeof info;
  std::memcpy(behind, &head, sizeof head);
  std::memcpy(behind + sizeof head, usable.data(), usable.size() * sizeof(vfio_iova_range));
  return 0;
}

Answer<int> FakeLinux::set_interrupts(uintptr_t argument) {
  const auto& set = at<vfio_irq_set>(argument);
  const std::string index = std::to_string(set.index);
  if ((set.flags & VFIO_IRQ_SET_ACTION_UNMASK) != 0) {
    step("unmask " + index);
    return 0;
  }
  step("trigger " + index + (set.count == 0 ? " off" : " on"));
  const runtime::MutexLock lock(mutex_);
  int32_t event = -1;
  if (set.count != 0) {
    DXGKIT_CHECK(set.argsz == sizeof set + sizeof event);
    std::memcpy(&event, set.data, sizeof event);
  }
  triggers_[set.index] = event;
  return 0;
}

Answer<size_t> FakeLinux::read_at(int descriptor, std::span<std::byte> out, uint64_t offset) {
  if (!answers_accesses) return std::unexpected(EIO);
  const ssize_t count = pread(descriptor, out.data(), out.size(), static_cast<off_t>(offset));
  if (count < 0) return std::unexpected(errno);
  return static_cast<size_t>(count);
}

Answer<size_t> FakeLinux::write_at(int descriptor, std::span<const std::byte> in, uint64_t offset) {
  if (!answers_accesses) return std::unexpected(EIO);
  if (offset == regions[VFIO_PCI_CONFIG_REGION_INDEX].offset + 4)
    step("command " + hex(std::to_integer<uint64_t>(in[0])));
  const ssize_t count = pwrite(descriptor, in.data(), in.size(), static_cast<off_t>(offset));
  if (count < 0) return std::unexpected(errno);
  return static_cast<size_t>(count);
}

Answer<size_t> FakeLinux::read_next(int descriptor, std::span<std::byte> out) {
  // A record of the log at a time, as /dev/kmsg gives them.
  std::string line;
  for (char c = 0; line.size() < out.size() && read(descriptor, &c, 1) == 1;) {
    if (c == '\n') break;
    line += c;
  }
  if (line.empty()) return std::unexpected(EAGAIN);
  std::memcpy(out.data(), line.data(), line.size());
  return line.size();
}

Answer<void> FakeLinux::skip_to_end(int) { return {}; }

Answer<std::string> FakeLinux::link_target(const std::string& path) {
  const auto link = links.find(path);
  if (link == links.end()) return std::unexpected(ENOENT);
  return link->second;
}

Answer<std::vector<std::string>> FakeLinux::list(const std::string& path) {
  const auto folder = folders.find(path);
  if (folder == folders.end()) return std::unexpected(ENOENT);
  return folder->second;
}

void FakeLinux::put(uint32_t region, uint64_t offset, std::span<const std::byte> bytes) {
  const auto place = static_cast<off_t>(region * kRegionBytes + offset);
  DXGKIT_CHECK(pwrite(device_file_, bytes.data(), bytes.size(), place) ==
               static_cast<ssize_t>(bytes.size()));
}

uint32_t FakeLinux::get(uint32_t region, uint64_t offset) {
  uint32_t value = 0;
  const auto place = static_cast<off_t>(region * kRegionBytes + offset);
  DXGKIT_CHECK(pread(device_file_, &value, sizeof value, place) == sizeof value);
  return value;
}

void FakeLinux::signal(uint32_t index) {
  const runtime::MutexLock lock(mutex_);
  DXGKIT_CHECK(triggers_.contains(index));
  DXGKIT_CHECK(eventfd_write(triggers_[index], 1) == 0);
}

void FakeLinux::log(std::string_view line) {
  const std::string whole = std::string(line) + "\n";
  DXGKIT_CHECK(write(log_write_, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size()));
}

}  // namespace dxgkit::vfio
