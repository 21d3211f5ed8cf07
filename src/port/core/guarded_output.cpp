#include "port/core/guarded_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

constexpr std::byte kPattern{0xD7};
constexpr auto kIntact = [] {
  std::array<std::byte, 64> bytes{};
  bytes.fill(kPattern);
  return bytes;
}();

bool is_damaged(std::byte byte) { return byte != kPattern; }

/// Whether `bytes` guard bytes are as they were made; a multiple of 64. One loop without an early
/// end, which becomes a few vector instructions: a call to a driver has up to eight guards.
bool are_intact(const std::byte* guard, size_t bytes) {
  constexpr uint64_t kWord = 0x0101'0101'0101'0101 * std::to_integer<uint64_t>(kPattern);
  uint64_t damage = 0;
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, guard + i, sizeof(word));
    damage |= word ^ kWord;
  }
  return damage == 0;
}

void make_intact(std::byte* guard, size_t bytes) {
  for (const std::byte* const end = guard + bytes; guard != end; guard += 64)
    std::memcpy(guard, kIntact.data(), 64);
}

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
  // The plain pointer needs no look whether the other is initialized.
  thread_local Place* mine = nullptr;
  if (mine == nullptr) [[unlikely]] {
    thread_local const auto owner = std::make_unique_for_overwrite<Place>();
    mine = owner.get();
  }
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

GuardedOutput::GuardedOutput(std::span<const std::byte> bytes, size_t behind)
    : target_(bytes),
      size_(bytes.size()),
      behind_(behind),
      memory_(bytes.data() != nullptr ? GuardSlot(kBefore + size_ + behind_) : GuardSlot()) {
  if (bytes.data() == nullptr) return;
  fill_guards();
  std::memcpy(data(), bytes.data(), size_);
}

GuardedOutput::GuardedOutput(size_t zeros) : size_(zeros), memory_(kBefore + zeros + behind_) {
  fill_guards();
  std::memset(data(), 0, size_);
}

GuardedOutput GuardedOutput::of_zeros(size_t bytes) { return GuardedOutput(bytes); }

void GuardedOutput::fill_guards() {
  make_intact(memory_.bytes(), kBefore);
  make_intact(data() + size_, behind_);
}

bool GuardedOutput::is_changed() const {
  return data() != nullptr && !target_.empty() && std::memcmp(target_.data(), data(), size_) != 0;
}

std::optional<size_t> GuardedOutput::first_change() const {
  if (!is_changed()) return {};
  return std::ranges::mismatch(target_, std::span(data(), size_)).in1 - target_.begin();
}

bool GuardedOutput::is_behind_intact() const { return are_intact(data() + size_, behind_); }

bool GuardedOutput::is_intact() const {
  return data() == nullptr || (are_intact(memory_.bytes(), kBefore) && is_behind_intact());
}

void GuardedOutput::report_damage(PortCore& core, const char* ddi_name, std::string_view what,
                                  uint64_t number) const {
  const std::byte *const begin = data(), *const end = begin + size_;
  const std::string name =
      number != kNoNumber ? fmt::format("{} {}", what, number) : std::string(what);
  const auto report = [&](std::string actual) {
    (void)core.violation(
        "NT-33", ddi_name, std::move(actual),
        fmt::format("It writes inside {}, whose size is {}.", name, size_),
        "Compare the size that was given with what is to be written before each write.",
        Status::kUnsuccessful);
  };
  if (!is_behind_intact()) {
    const std::byte* const first = std::find_if(end, end + behind_, is_damaged);
    const std::byte* last = end + behind_ - 1;
    while (!is_damaged(*last)) --last;
    report(fmt::format(
        "It wrote bytes {} to {} of {}, whose size is {}: up to {} bytes behind its end. The first "
        "of them is {:#04x}.",
        first - begin, last - begin, name, size_, last - end + 1,
        std::to_integer<unsigned>(*first)));
  }
  const std::byte* const first =
      std::find_if(static_cast<const std::byte*>(memory_.bytes()), begin, is_damaged);
  if (first != begin) {
    report(fmt::format(
        "It wrote before the start of {}, whose size is {}: {} bytes before it is {:#04x}.", name,
        size_, begin - first, std::to_integer<unsigned>(*first)));
  }
}

void GuardedOutput::copy_back() {
  // A buffer that only goes in may lie in memory that nobody may write.
  if (is_changed()) std::memcpy(const_cast<std::byte*>(target_.data()), data(), size_);
}

}  // namespace dxgkit::port
