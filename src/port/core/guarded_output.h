// Finds what a driver writes outside an output buffer, on calls that are not on a packet's way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace dxgkit::port {

struct PortCore;

/// Memory for one guarded buffer. Small ones come from a place of the thread's own, which has
/// nothing else in it: a driver that writes kilobytes too far damages no state of ours.
class GuardSlot {
 public:
  GuardSlot() = default;
  /// 16-byte aligned.
  explicit GuardSlot(size_t bytes);
  ~GuardSlot();
  GuardSlot(GuardSlot&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)),
        place_(std::exchange(other.place_, nullptr)) {}
  GuardSlot& operator=(GuardSlot&&) = delete;

  std::byte* bytes() const { return bytes_; }

 private:
  class Place;
  static Place& place();

  std::byte* bytes_ = nullptr;
  Place* place_ = nullptr;  // null: a block of its own
};

/// A copy of a buffer between guard bytes. The driver gets the copy, so that a write outside it
/// damages nothing but the guards. `finish` tells what was damaged and copies the rest back.
///
/// Cost: two copies of the buffer, the guards filled and compared; an allocation if it is large.
/// Thread: the one that calls the DDI.
class GuardedOutput {
 public:
  /// Guard bytes behind a buffer.
  static constexpr size_t kGuard = 256;
  /// The same behind a structure that grew in later versions: a driver may write the newest one.
  static constexpr size_t kWideGuard = 1024;

  /// @param bytes   the buffer as it is before the call; null: the driver gets null, too
  /// @param behind  how many guard bytes follow it, kWideGuard at most
  explicit GuardedOutput(std::span<const std::byte> bytes, size_t behind = kGuard);
  /// Zeros in place of a buffer: what the driver leaves stays here.
  static GuardedOutput of_zeros(size_t bytes);
  /// For an array or a structure of the ABI.
  template <typename T>
  static GuardedOutput of(std::span<T> elements) {
    return GuardedOutput(std::as_bytes(elements));
  }

  /// 16-byte aligned, with as many bytes; null for null.
  std::byte* data() const { return memory_.bytes() ? memory_.bytes() + kBefore : nullptr; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }

  /// After the call: the driver changed something inside.
  bool is_changed() const;
  /// The offset of the first byte that it changed.
  std::optional<size_t> first_change() const;
  /// After the call. False: the driver wrote outside the buffer, which was reported (NT-33).
  /// @param what    the parameter, and what tells it from others of its name
  /// @param number  follows `what`: a string is made of the two only for a finding
  bool check(PortCore& core, const char* ddi_name, std::string_view what,
             uint64_t number = kNoNumber) const {
    if (is_intact()) [[likely]]
      return true;
    report_damage(core, ddi_name, what, number);
    return false;
  }
  /// check(), and what the driver changed inside is copied back.
  bool finish(PortCore& core, const char* ddi_name, std::string_view what,
              uint64_t number = kNoNumber) {
    copy_back();
    return check(core, ddi_name, what, number);
  }

 private:
  /// Guard bytes before the buffer.
  static constexpr size_t kBefore = 64;
  static constexpr uint64_t kNoNumber = UINT64_MAX;

  explicit GuardedOutput(size_t zeros);
  void fill_guards();
  bool is_behind_intact() const;
  bool is_intact() const;
  void copy_back();
  void report_damage(PortCore& core, const char* ddi_name, std::string_view what,
                     uint64_t number) const;

  std::span<const std::byte> target_;  // null data: the buffer itself is all there is
  size_t size_;
  size_t behind_ = kGuard;
  GuardSlot memory_;
};

}  // namespace dxgkit::port
