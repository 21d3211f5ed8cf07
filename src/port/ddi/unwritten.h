// Members of an answer that a driver did not write.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "port/core/port_core.h"

namespace dxgkit::port {

/// Compares members with the bytes that were there before the call (PortCore::output_fill). With 0
/// nothing is compared: a driver may have written that.
class UnwrittenMembers {
 public:
  explicit UnwrittenMembers(std::byte fill) : fill_(fill) {}

  /// A member that is as it was becomes 0.
  template <typename Member>
  void look(const char* name, Member* member) {
    if (fill_ == std::byte{0}) [[likely]]
      return;
    auto* const bytes = reinterpret_cast<std::byte*>(member);
    for (size_t i = 0; i < sizeof(*member); ++i) {
      if (bytes[i] != fill_) return;
    }
    std::memset(bytes, 0, sizeof(*member));
    names_ += names_.empty() ? name : std::string(", ") + name;
  }
  /// LIFE-29, if there was any.
  void report(PortCore& core, const char* ddi, const char* structure) const {
    if (names_.empty()) return;
    (void)core.violation("LIFE-29", ddi,
                         std::string("It succeeded and left members of ") + structure +
                             " as they were before the call: " + names_ + ".",
                         "All that the driver says there is written; 0 is a value, too.",
                         "Set each of these members; nothing promises that they are 0 before.",
                         Status::kSuccess);
  }

 private:
  const std::byte fill_;
  std::string names_;
};

/// Before the call: `member` has the bytes that outputs have (PortCore::output_fill).
template <typename Member>
void fill_output(const PortCore& core, Member* member) {
  if (core.output_fill != std::byte{0}) [[unlikely]]
    std::memset(member, std::to_integer<int>(core.output_fill), sizeof(*member));
}
/// After it: LIFE-29 if the member still has them; it becomes 0.
template <typename Member>
void report_unwritten(PortCore& core, const char* ddi, const char* structure, const char* name,
                      Member* member) {
  if (core.output_fill == std::byte{0}) [[likely]]
    return;
  UnwrittenMembers unwritten(core.output_fill);
  unwritten.look(name, member);
  unwritten.report(core, ddi, structure);
}

}  // namespace dxgkit::port
