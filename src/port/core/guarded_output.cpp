#include "port/core/guarded_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

constexpr std::byte kPattern{0xD7};
constexpr auto kIntact = [] {
  std::array<std::byte, GuardedOutput::kWideGuard> bytes{};
  bytes.fill(kPattern);
  return bytes;
}();

bool is_damaged(std::byte byte) { return byte != kPattern; }

}  // namespace

class GuardSlot::Place {
 public:
  static constexpr size_t kSlotBytes = 512;

  /// Null: all are taken.
  std::byte* take() {
    if (free_ == 0) return nullptr;
    const auto slot = static_cast<size_t>(std::countr_zero(free_));
    free_ &= free_ - 1;
    return bytes_ + slot * kSlotBytes;
  }
  void give_back(const std::byte* bytes) {
    free_ |= uint64_t{1} << static_cast<size_t>(bytes - bytes_) / kSlotBytes;
  }

 private:
  static constexpr size_t kSlots = 64;
  static constexpr size_t kBehind = 64 * 1024;  // for what is written behind the last slot

  uint64_t free_ = ~uint64_t{0};
  alignas(16) std::byte bytes_[kSlots * kSlotBytes + kBehind];
};

GuardSlot::Place& GuardSlot::place() {
  thread_local const auto mine = std::make_unique_for_overwrite<Place>();
  return *mine;
}

GuardSlot::GuardSlot(size_t bytes) {
  if (bytes <= Place::kSlotBytes) {
    Place& here = place();
    bytes_ = here.take();
    if (bytes_ != nullptr) {
      place_ = &here;
      return;
    }
  }
  bytes_ = new std::byte[bytes];
}

GuardSlot::~GuardSlot() {
  if (place_ != nullptr) {
    place_->give_back(bytes_);
  } else {
    delete[] bytes_;
  }
}

GuardSlot::GuardSlot(GuardSlot&& other) noexcept
    : bytes_(std::exchange(other.bytes_, nullptr)), place_(std::exchange(other.place_, nullptr)) {}

GuardSlot& GuardSlot::operator=(GuardSlot&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(place_, other.place_);
  return *this;
}

GuardedOutput::GuardedOutput(std::span<const std::byte> bytes, size_t behind)
    : target_(bytes), size_(bytes.size()), behind_(behind) {
  if (bytes.data() == nullptr) return;
  allocate();
  std::memcpy(data(), bytes.data(), size_);
}

GuardedOutput::GuardedOutput(size_t zeros) : size_(zeros) {
  allocate();
  std::memset(data(), 0, size_);
}

GuardedOutput GuardedOutput::of_zeros(size_t bytes) { return GuardedOutput(bytes); }

void GuardedOutput::allocate() {
  memory_ = GuardSlot(kBefore + size_ + behind_);
  std::memcpy(memory_.bytes(), kIntact.data(), kBefore);
  std::memcpy(data() + size_, kIntact.data(), behind_);
}

std::optional<size_t> GuardedOutput::first_change() const {
  if (data() == nullptr || target_.empty()) return {};
  if (std::memcmp(target_.data(), data(), size_) == 0) return {};
  return std::ranges::mismatch(target_, std::span(data(), size_)).in1 - target_.begin();
}

bool GuardedOutput::check(PortCore& core, const char* ddi_name, std::string_view what,
                          std::optional<uint64_t> number) const {
  if (data() == nullptr) return true;
  const std::byte *const begin = data(), *const end = begin + size_;
  const bool behind = std::memcmp(end, kIntact.data(), behind_) != 0;
  const bool before = std::memcmp(memory_.bytes(), kIntact.data(), kBefore) != 0;
  if (!behind && !before) [[likely]]
    return true;
  const std::string name =
      number.has_value() ? fmt::format("{} {}", what, *number) : std::string(what);
  const auto report = [&](std::string actual) {
    (void)core.violation(
        "NT-33", ddi_name, std::move(actual),
        fmt::format("It writes inside {}, whose size is {}.", name, size_),
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
        first - begin, last - begin, name, size_, last - end + 1,
        std::to_integer<unsigned>(*first)));
  }
  if (before) {
    const std::byte* const first =
        std::find_if(static_cast<const std::byte*>(memory_.bytes()), begin, is_damaged);
    report(fmt::format(
        "It wrote before the start of {}, whose size is {}: {} bytes before it is {:#04x}.", name,
        size_, begin - first, std::to_integer<unsigned>(*first)));
  }
  return false;
}

bool GuardedOutput::finish(PortCore& core, const char* ddi_name, std::string_view what,
                           std::optional<uint64_t> number) {
  // A buffer that only goes in may lie in memory that nobody may write.
  if (first_change().has_value())
    std::memcpy(const_cast<std::byte*>(target_.data()), data(), size_);
  return check(core, ddi_name, what, number);
}

}  // namespace dxgkit::port
