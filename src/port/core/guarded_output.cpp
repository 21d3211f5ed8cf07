#include "port/core/guarded_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

constexpr size_t kBefore = 64, kBehind = 1024;
constexpr std::byte kPattern{0xD7};

bool is_damaged(std::byte byte) { return byte != kPattern; }

}  // namespace

GuardedOutput::GuardedOutput(std::span<const std::byte> bytes) : target_(bytes) {
  if (bytes.data() == nullptr) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(kBefore + bytes.size() + kBehind);
  data_ = memory_.get() + kBefore;
  std::fill_n(memory_.get(), kBefore, kPattern);
  std::ranges::copy(bytes, data_);
  std::fill_n(data_ + bytes.size(), kBehind, kPattern);
}

bool GuardedOutput::finish(PortCore& core, const char* ddi_name, const std::string& what) {
  if (data_ == nullptr) return true;
  // A buffer that only goes in may lie in memory that nobody may write.
  if (!std::equal(target_.begin(), target_.end(), data_))
    std::memcpy(const_cast<std::byte*>(target_.data()), data_, target_.size());
  const auto report = [&](std::string actual) {
    return core.violation(
        "NT-33", ddi_name, std::move(actual),
        fmt::format("It writes inside {}, whose size is {}.", what, target_.size()),
        "Compare the size that was given with what is to be written before each write.",
        Status::kUnsuccessful);
  };
  bool inside = true;
  const std::byte* const end = data_ + target_.size();
  if (const std::byte* first = std::find_if(end, end + kBehind, is_damaged);
      first != end + kBehind) {
    const std::byte* last = end + kBehind - 1;
    while (!is_damaged(*last)) --last;
    inside = false;
    (void)report(fmt::format(
        "It wrote bytes {} to {} of {}, whose size is {}: up to {} bytes behind its end. The first "
        "of them is {:#04x}.",
        first - data_, last - data_, what, target_.size(), last - end + 1,
        std::to_integer<unsigned>(*first)));
  }
  if (const std::byte* first = std::find_if(memory_.get(), data_, is_damaged); first != data_) {
    inside = false;
    (void)report(fmt::format(
        "It wrote before the start of {}, whose size is {}: {} bytes before it is {:#04x}.", what,
        target_.size(), data_ - first, std::to_integer<unsigned>(*first)));
  }
  return inside;
}

}  // namespace dxgkit::port
