#include "devices/vfio/hardware.h"

#include <linux/vfio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/arithmetic.h"
#include "devices/vfio/capabilities.h"

namespace dxgkit::vfio {
namespace {

constexpr uint64_t kConfigBytesLeast = 256, kConfigBytesMost = 4096;
constexpr uint64_t kOffsetMost = INT64_MAX;  // as pread takes it

/// True if the parts of a region that may be mapped are all of it.
bool covers_all(std::span<const std::byte> answer, const vfio_region_info& info) {
  const std::optional<size_t> found =
      find_capability(answer, info.cap_offset, VFIO_REGION_INFO_CAP_SPARSE_MMAP);
  if (!found.has_value()) return false;
  const size_t at = *found;
  if (at == 0) return true;
  vfio_region_info_cap_sparse_mmap sparse;
  if (!take(answer, at, &sparse)) return false;
  for (uint32_t i = 0; i < sparse.nr_areas; ++i) {
    vfio_region_sparse_mmap_area area;
    if (!take(answer, at + sizeof sparse + size_t{i} * sizeof area, &area)) return false;
    if (area.offset == 0 && area.size == info.size) return true;
  }
  return false;
}

}  // namespace

std::expected<std::unique_ptr<Hardware>, std::string> Hardware::create(
    std::shared_ptr<Kernel> kernel, int descriptor) {
  std::unique_ptr<Hardware> made(new Hardware(std::move(kernel), descriptor));
  if (auto asked = made->ask(); !asked.has_value()) return wrong(asked.error());
  return made;
}

Hardware::~Hardware() { kernel_->close(descriptor_); }

std::expected<void, std::string> Hardware::ask() {
  vfio_device_info info{};
  info.argsz = sizeof info;
  const auto asked =
      kernel_->control(descriptor_, VFIO_DEVICE_GET_INFO, std::bit_cast<uintptr_t>(&info));
  if (!asked.has_value()) return wrong("it does not answer: " + error_text(asked.error()));
  if ((info.flags & VFIO_DEVICE_FLAGS_PCI) == 0) return wrong("it is no PCI device");
  if (info.num_regions <= VFIO_PCI_CONFIG_REGION_INDEX)
    return wrong("it has no configuration space");
  can_reset_ = (info.flags & VFIO_DEVICE_FLAGS_RESET) != 0;
  for (uint32_t slot = 0; slot < kBarSlots; ++slot) {
    auto region = ask_region(VFIO_PCI_BAR0_REGION_INDEX + slot);
    if (!region.has_value()) return wrong(region.error());
    bars_[slot] = *region;
  }
  auto config = ask_region(VFIO_PCI_CONFIG_REGION_INDEX);
  if (!config.has_value()) return wrong(config.error());
  if (config->bytes < kConfigBytesLeast || config->bytes > kConfigBytesMost)
    return wrong("its configuration space has " + std::to_string(config->bytes) + " bytes");
  config_ = *config;
  for (uint32_t index = 0; index < interrupts_.size() && index < info.num_irqs; ++index) {
    vfio_irq_info irq{};
    irq.argsz = sizeof irq;
    irq.index = index;
    // Linux answers EINVAL for kinds that a device does not have.
    if (!kernel_->control(descriptor_, VFIO_DEVICE_GET_IRQ_INFO, std::bit_cast<uintptr_t>(&irq))
             .has_value())
      continue;
    if ((irq.flags & VFIO_IRQ_INFO_EVENTFD) == 0) continue;
    interrupts_[index] = {irq.count, (irq.flags & VFIO_IRQ_INFO_AUTOMASKED) != 0};
  }
  return {};
}

std::expected<Region, std::string> Hardware::ask_region(uint32_t index) {
  const std::string name = "region " + std::to_string(index);
  vfio_region_info info{};
  info.argsz = sizeof info;
  info.index = index;
  auto asked =
      kernel_->control(descriptor_, VFIO_DEVICE_GET_REGION_INFO, std::bit_cast<uintptr_t>(&info));
  if (!asked.has_value()) return wrong(name + " does not answer: " + error_text(asked.error()));
  if (info.argsz > kAnswerBytesMost) return wrong(name + " gives an answer without end");
  std::vector<std::byte> answer(std::max<size_t>(info.argsz, sizeof info));
  if (answer.size() > sizeof info) {  // there is more than fitted: the capabilities
    info.argsz = static_cast<uint32_t>(answer.size());
    std::memcpy(answer.data(), &info, sizeof info);
    asked = kernel_->control(descriptor_, VFIO_DEVICE_GET_REGION_INFO,
                             std::bit_cast<uintptr_t>(answer.data()));
    if (!asked.has_value() || !take(answer, 0, &info))
      return wrong(name +
                   " does not answer: " + error_text(asked.has_value() ? EPROTO : asked.error()));
  } else {
    info.flags &= ~static_cast<uint32_t>(VFIO_REGION_INFO_FLAG_CAPS);
  }
  if (info.size == 0) return Region{};
  if (!range_within(info.offset, info.size, kOffsetMost))
    return wrong(name + " has " + std::to_string(info.size) + " bytes at offset " +
                 std::to_string(info.offset) + ", more than a file can have");
  constexpr uint32_t kReadWrite = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
  if ((info.flags & kReadWrite) != kReadWrite) return wrong(name + " cannot be read and written");
  const bool whole_pages = info.size % kPageBytes == 0 && info.offset % kPageBytes == 0;
  const bool mappable =
      (info.flags & VFIO_REGION_INFO_FLAG_MMAP) != 0 && whole_pages &&
      ((info.flags & VFIO_REGION_INFO_FLAG_CAPS) == 0 || covers_all(answer, info));
  return Region{.offset = info.offset, .bytes = info.size, .mappable = mappable};
}

bool Hardware::read(const Region& region, uint64_t offset, std::span<std::byte> out) const {
  if (!range_within(offset, out.size(), region.bytes)) return false;
  return kernel_->read_at(descriptor_, out, region.offset + offset) == out.size();
}

bool Hardware::write(const Region& region, uint64_t offset, std::span<const std::byte> in) const {
  if (!range_within(offset, in.size(), region.bytes)) return false;
  return kernel_->write_at(descriptor_, in, region.offset + offset) == in.size();
}

bool Hardware::reset() { return kernel_->control(descriptor_, VFIO_DEVICE_RESET, 0).has_value(); }

Answer<void> Hardware::set_interrupts(uint32_t flags, uint32_t index, uint32_t count,
                                      std::optional<int> event) {
  vfio_irq_set set{};
  set.argsz = sizeof set + (event.has_value() ? sizeof(int32_t) : 0);
  set.flags = flags;
  set.index = index;
  set.count = count;
  std::array<std::byte, sizeof set + sizeof(int32_t)> request{};
  std::memcpy(request.data(), &set, sizeof set);
  const int32_t number = event.value_or(-1);
  std::memcpy(request.data() + sizeof set, &number, sizeof number);
  const auto done =
      kernel_->control(descriptor_, VFIO_DEVICE_SET_IRQS, std::bit_cast<uintptr_t>(request.data()));
  if (!done.has_value()) return std::unexpected(done.error());
  return {};
}

Answer<void> Hardware::set_trigger(uint32_t index, int event) {
  if (event < 0)
    return set_interrupts(VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER, index, 0, {});
  return set_interrupts(VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER, index, 1, event);
}

void Hardware::unmask(uint32_t index) {
  static_cast<void>(
      set_interrupts(VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK, index, 1, {}));
}

}  // namespace dxgkit::vfio
