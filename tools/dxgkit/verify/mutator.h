// One injected fault around a driver, from the outside.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "port/fault_injector.h"
#include "tools/dxgkit/kernel_config.h"

namespace dxgkit::tool::verify {

struct Mutation {
  enum class Kind {
    kNothing,
    kCallback,        // the n-th call of a DxgkCb* answers `status`
    kAllocation,      // the n-th call of a routine that gives memory answers null
    kLostInterrupts,  // the device loses `nth` of a million completions
    kNoResources,     // the device lacks a resource: see `name`
  };
  Kind kind = Kind::kNothing;
  std::string name;
  uint32_t nth = 0;  // from 1
  Status status = Status::kSuccess;
  /// "DxgkCbMapMemory, call 2: STATUS_UNSUCCESSFUL".
  std::string text() const;
};

/// A callback that may fail, and the statuses that its documentation names. Where it says "an error
/// code", the usual ones. Callbacks that release an object do not fail, nor do those without a
/// status.
struct MayFail {
  std::string_view callback;
  std::array<Status, 2> statuses;  // kSuccess: none
};
std::span<const MayFail> callbacks_that_may_fail();

/// Injects the fault, and counts the calls that could fail. Simulation only: one thread at a time.
class Mutator final : public port::FaultInjector {
 public:
  explicit Mutator(Mutation mutation) : mutation_(std::move(mutation)) {}

  /// Attaches a machine that is about to start.
  void attach(World& world);
  bool struck() const { return struck_; }
  /// The machine attached last: ids of the function that the driver is for, and whether its device
  /// can be made to fail.
  const bus::PciIdentity& identity() const { return identity_; }
  bool device_fails() const { return device_fails_; }
  /// Calls so far that may fail, by name.
  const std::map<std::string, uint32_t, std::less<>>& callbacks() const { return callbacks_; }
  const std::map<std::string, uint32_t, std::less<>>& allocations() const { return allocations_; }

  std::optional<Status> before_ddi(std::string_view) override { return std::nullopt; }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes; }
  void shape(port::SegmentsInfo*) override {}
  std::optional<Status> before_callback(std::string_view callback) override;
  /// For nt::set_allocation_fault.
  bool allocation_fails(std::string_view routine);

 private:
  bool strikes(Mutation::Kind kind, std::string_view name,
               std::map<std::string, uint32_t, std::less<>>* calls);

  const Mutation mutation_;
  std::map<std::string, uint32_t, std::less<>> callbacks_, allocations_;
  bool struck_ = false;
  bus::PciIdentity identity_;
  bool device_fails_ = false;
};

}  // namespace dxgkit::tool::verify
