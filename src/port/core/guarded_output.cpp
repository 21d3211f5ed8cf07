#include "port/core/guarded_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

constexpr size_t kBefore = 64;
constexpr std::byte kPattern{0xD7};
constexpr auto kIntact = [] {
  std::array<std::byte, std::max(kBefore, GuardedOutput::kWideGuard)> bytes{};
  bytes.fill(kPattern);
  return bytes;
}();

bool is_damaged(std::byte byte) { return byte != kPattern; }

}  // namespace

GuardedOutput::GuardedOutput(std::span<const std::byte> bytes, size_t behind)
    : target_(bytes), behind_(behind) {
  if (bytes.data() == nullptr) return;
  allocate(bytes.size());
  std::memcpy(data_, bytes.data(), bytes.size());
}

GuardedOutput GuardedOutput::of_zeros(size_t bytes) {
  GuardedOutput output;
  output.allocate(bytes);
  std::memset(output.data_, 0, bytes);
  output.target_ = {output.data_, bytes};
  return output;
}

void GuardedOutput::allocate(size_t bytes) {
  memory_ = std::make_unique_for_overwrite<std::byte[]>(kBefore + bytes + behind_);
  data_ = memory_.get() + kBefore;
  std::memcpy(memory_.get(), kIntact.data(), kBefore);
  std::memcpy(data_ + bytes, kIntact.data(), behind_);
}

std::optional<size_t> GuardedOutput::first_change() const {
  if (target_.empty() || target_.data() == data_) return {};
  if (std::memcmp(target_.data(), data_, target_.size()) == 0) return {};
  return std::ranges::mismatch(target_, std::span(data_, target_.size())).in1 - target_.begin();
}

bool GuardedOutput::check(PortCore& core, const char* ddi_name, std::string_view what,
                          std::optional<uint64_t> number) const {
  if (data_ == nullptr) return true;
  const std::byte* const end = data_ + target_.size();
  const bool behind = std::memcmp(end, kIntact.data(), behind_) != 0;
  const bool before = std::memcmp(memory_.get(), kIntact.data(), kBefore) != 0;
  if (!behind && !before) [[likely]]
    return true;
  const std::string name =
      number.has_value() ? fmt::format("{} {}", what, *number) : std::string(what);
  const auto report = [&](std::string actual) {
    (void)core.violation(
        "NT-33", ddi_name, std::move(actual),
        fmt::format("It writes inside {}, whose size is {}.", name, target_.size()),
        "Compare the size that was given with what is to be written before each write.",
        Status::kUnsuccessful);
  };
  if (behind) {
    const std::byte* const first = std::find_if(end, end + behind_, is_damaged);
    const std::byte* last = end + behind_ - 1;
    while (!is_damaged(*last)) --last;
    report(fmt::format(
        "It wrote bytes {} to {} of {}, whose size is {}: up to {} bytes behind its end. The first "
        "of them is {:#04x}.",
        first - data_, last - data_, name, target_.size(), last - end + 1,
        std::to_integer<unsigned>(*first)));
  }
  if (before) {
    const std::byte* const first = std::find_if(memory_.get(), data_, is_damaged);
    report(fmt::format(
        "It wrote before the start of {}, whose size is {}: {} bytes before it is {:#04x}.", name,
        target_.size(), data_ - first, std::to_integer<unsigned>(*first)));
  }
  return false;
}

bool GuardedOutput::finish(PortCore& core, const char* ddi_name, std::string_view what,
                           std::optional<uint64_t> number) {
  // A buffer that only goes in may lie in memory that nobody may write.
  if (first_change().has_value())
    std::memcpy(const_cast<std::byte*>(target_.data()), data_, target_.size());
  return check(core, ddi_name, what, number);
}

}  // namespace dxgkit::port
