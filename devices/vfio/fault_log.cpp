#include "devices/vfio/fault_log.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <charconv>

namespace dxgkit::vfio {
namespace {

/// The number in hexadecimal, with or without 0x, behind `name` and blanks.
std::optional<uint64_t> number_after(std::string_view line, std::string_view name) {
  const size_t at = line.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + name.size());
  while (line.starts_with(' ')) line.remove_prefix(1);
  if (line.starts_with("0x")) line.remove_prefix(2);
  uint64_t value = 0;
  if (std::from_chars(line.data(), line.data() + line.size(), value, 16).ec != std::errc())
    return std::nullopt;
  return value;
}

}  // namespace

// Intel: DMAR: [DMA Write NO_PASID] Request device [00:05.0] fault addr 0x1000 [fault reason 0x05]
// AMD:   vfio-pci 0000:00:05.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f address=0x1000
//        flags=0x0020]; without a driver "device=0000:00:05.0" is inside the brackets.
std::optional<IommuFault> parse_fault(std::string_view line, const HostAddress& device) {
  constexpr uint64_t kAmdWrite = 0x20;
  const std::string name = to_text(device);
  const size_t intel = line.find("DMAR: [DMA ");
  if (intel != std::string_view::npos) {
    line.remove_prefix(intel);
    // The line does not say the domain.
    if (line.find("Request device [" + name.substr(5) + "]") == std::string_view::npos)
      return std::nullopt;
    const auto address = number_after(line, "fault addr");
    if (!address.has_value()) return std::nullopt;
    return IommuFault{*address, line.starts_with("DMAR: [DMA Write")};
  }
  if (line.find("AMD-Vi: Event logged [IO_PAGE_FAULT") == std::string_view::npos) return {};
  if (line.find(name) == std::string_view::npos) return {};
  const auto address = number_after(line, "address=");
  if (!address.has_value()) return std::nullopt;
  return IommuFault{*address, (number_after(line, "flags=").value_or(0) & kAmdWrite) != 0};
}

Answer<std::unique_ptr<FaultLog>> FaultLog::open(std::shared_ptr<Kernel> kernel,
                                                 HostAddress device) {
  const Answer<int> descriptor = kernel->open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
  if (!descriptor.has_value()) return std::unexpected(descriptor.error());
  std::unique_ptr<FaultLog> log(new FaultLog(kernel, device, *descriptor));
  if (const auto skipped = kernel->skip_to_end(*descriptor); !skipped.has_value())
    return std::unexpected(skipped.error());
  return log;
}

FaultLog::~FaultLog() { kernel_->close(descriptor_); }

std::vector<IommuFault> FaultLog::take() {
  std::vector<IommuFault> faults;
  std::array<char, 8192> record;  // longer than any record of the log
  while (true) {
    const Answer<size_t> bytes =
        kernel_->read_next(descriptor_, std::as_writable_bytes(std::span(record)));
    // EPIPE: records were overwritten before they were read; the next ones are there.
    if (!bytes.has_value() && (bytes.error() == EPIPE || bytes.error() == EINTR)) continue;
    if (!bytes.has_value() || *bytes == 0 || *bytes > record.size()) return faults;
    const auto fault = parse_fault({record.data(), *bytes}, device_);
    if (fault.has_value()) faults.push_back(*fault);
  }
}

}  // namespace dxgkit::vfio
