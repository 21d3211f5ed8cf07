// One fault in one run: which call of the driver, or which callback, it strikes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "port/fault_injector.h"

namespace dxgkit::sweep {

enum class FaultKind : uint8_t {
  kFails,     // the DDI answers a failure its pages name
  kBreaks,    // the DDI answers a failure that it may not answer
  kRemoval,   // the device leaves the bus
  kExit,      // another thread ends the client's process
  kCallback,  // a callback fails
};
inline constexpr std::array<std::string_view, 5> kFaultNames = {"fails", "breaks", "removal",
                                                                "exit", "callback"};

/// Where a fault may strike: the n-th DDI call, or the n-th callback.
struct Point {
  std::string name;           // of the DDI or callback
  bool client_lives = false;  // there is a process to end
  bool answers = true;        // the kernel looks at the answer
};

/// A failure that the pages of the DDI name.
Status documented_failure(std::string_view ddi);
/// The driver does not do what it is asked, so it keeps the object.
bool keeps_an_object(std::string_view ddi);

/// Counts the driver's calls and callbacks, and strikes once.
class Striker final : public port::FaultInjector {
 public:
  struct Strike {
    FaultKind kind = FaultKind::kFails;
    size_t at = 0;
  };
  /// Nothing: it only counts.
  explicit Striker(std::optional<Strike> strike) : strike_(strike) {}

  /// What happens at the point of kRemoval and kExit. In the driver's place: must not block.
  std::function<void()> on_strike;
  bool client_lives = false;
  /// Neither counts nor strikes.
  bool paused = false;

  const std::vector<Point>& ddis() const { return ddis_; }
  const std::vector<Point>& callbacks() const { return callbacks_; }
  bool has_struck() const { return struck_.has_value(); }
  /// The point it struck, by name; empty before.
  std::string where() const { return struck_.value_or(std::string()); }

  std::optional<Status> before_ddi(std::string_view ddi) override;
  std::optional<Status> before_paging(const port::PagingOperation& operation,
                                      uint32_t buffer_bytes) override;
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  void shape(port::SegmentsInfo*) override {}
  std::optional<Status> before_callback(std::string_view callback) override;

 private:
  const std::optional<Strike> strike_;
  std::optional<std::string> struck_;
  std::vector<Point> ddis_, callbacks_;
};

}  // namespace dxgkit::sweep
