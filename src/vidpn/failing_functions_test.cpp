// Interface functions that the kernel makes fail: one call, nothing changed, nothing to clean up.
#include <gtest/gtest.h>

#include "tests/support/covers.h"
#include "vidpn/driver_side_test.h"

namespace dxgkit::vidpn {
namespace {

using SourceSet = D3DKMDT_HVIDPNSOURCEMODESET;
using SourceFunctions = DXGK_VIDPNSOURCEMODESET_INTERFACE;

class FailingFunctions : public ::testing::Test {
 protected:
  /// Opens a VidPN whose `nth` function fails; 0: none does.
  void open(uint32_t nth, Pivot pivot = {}) {
    call_ =
        std::make_unique<DdiCall>(driver_.manager, Ddi::kEnumVidPnCofuncModality, network_, pivot);
    call_->fail_function(nth);
    const void* table = nullptr;
    query_status_ = Manager::query_vidpn_interface(call_->vidpn(), 1, &table);
    functions_ = static_cast<const DXGK_VIDPN_INTERFACE*>(table);
  }
  D3DKMDT_HVIDPN vidpn() const { return DriverSide::handle(*call_); }
  Status create_set() {
    return as_status(functions_->pfnCreateNewSourceModeSet(vidpn(), 0, &set_, &modes_));
  }
  Status add_mode() {
    D3DKMDT_VIDPN_SOURCE_MODE* info = nullptr;
    const Status created = as_status(modes_->pfnCreateNewModeInfo(set_, &info));
    if (!is_success(created)) return created;
    to_abi(good_source_mode(), info);
    const Status added = as_status(modes_->pfnAddMode(set_, info));
    if (!is_success(added)) {
      EXPECT_EQ(as_status(modes_->pfnReleaseModeInfo(set_, info)), Status::kSuccess);
    }
    return added;
  }
  Status assign() { return as_status(functions_->pfnAssignSourceModeSet(vidpn(), 0, set_)); }

  DriverSide driver_;
  Network network_ = one_path(full_profile());
  std::unique_ptr<DdiCall> call_;
  Status query_status_ = Status::kSuccess;
  const DXGK_VIDPN_INTERFACE* functions_ = nullptr;
  SourceSet set_ = nullptr;
  const SourceFunctions* modes_ = nullptr;
};

TEST_F(FailingFunctions, NoneFailsByItself) {
  open(0);
  EXPECT_EQ(query_status_, Status::kSuccess);
  EXPECT_EQ(create_set(), Status::kSuccess);
  EXPECT_EQ(add_mode(), Status::kSuccess);
  EXPECT_EQ(assign(), Status::kSuccess);
  EXPECT_EQ(call_->failed_function(), nullptr);
  call_->finish(Status::kUnsuccessful);
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
}

// The calls are: the table, the new set, the new mode, its adding, the assignment.
TEST_F(FailingFunctions, EachFailsInItsTurnWithNothingLeft) {
  DXGKIT_COVERS("VIDPN-31");
  const char* const names[] = {"DxgkCbQueryVidPnInterface", "pfnCreateNewSourceModeSet",
                               "pfnCreateNewModeInfo", "pfnAddMode", "pfnAssignSourceModeSet"};
  for (uint32_t nth = 1; nth <= std::size(names) + 1; ++nth) {
    SCOPED_TRACE(nth);
    open(nth);
    Status status = query_status_;
    if (is_success(status)) {
      status = create_set();
      if (is_success(status)) {
        status = add_mode();
        if (is_success(status)) {
          status = assign();
        } else {
          EXPECT_EQ(as_status(functions_->pfnReleaseSourceModeSet(vidpn(), set_)),
                    Status::kSuccess);
        }
      } else {
        EXPECT_EQ(set_, nullptr);
      }
    } else {
      EXPECT_EQ(functions_, nullptr);
    }
    const bool failed = nth <= std::size(names);
    EXPECT_EQ(status, failed ? Status::kNoMemory : Status::kSuccess);
    if (failed) {
      EXPECT_STREQ(call_->failed_function(), names[nth - 1]);
    } else {
      EXPECT_EQ(call_->failed_function(), nullptr);
    }
    const Network after = call_->finish(Status::kNoMemory);
    EXPECT_EQ(after.source_sets.at(0).modes.size(), failed ? 0U : 1U);
    EXPECT_EQ(driver_.manager.open_objects(), 0U);
    set_ = nullptr;
  }
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
}

// Drivers in the field do both after an assignment that failed.
TEST_F(FailingFunctions, ASetThatCouldNotBeAssignedIsReleasedOrLeft) {
  for (const bool released : {true, false}) {
    open(5);
    ASSERT_EQ(create_set(), Status::kSuccess);
    ASSERT_EQ(add_mode(), Status::kSuccess);
    ASSERT_EQ(assign(), Status::kNoMemory);
    if (released) {
      EXPECT_EQ(as_status(functions_->pfnReleaseSourceModeSet(vidpn(), set_)), Status::kSuccess);
    }
    call_->finish(Status::kNoMemory);
    EXPECT_EQ(driver_.manager.open_objects(), 0U);
  }
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
}

TEST_F(FailingFunctions, ReleasesDoNotCount) {
  open(4);
  const auto acquire = [&] {
    return as_status(functions_->pfnAcquireSourceModeSet(vidpn(), 0, &set_, &modes_));
  };
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(acquire(), Status::kSuccess);
    EXPECT_EQ(as_status(functions_->pfnReleaseSourceModeSet(vidpn(), set_)), Status::kSuccess);
  }
  EXPECT_EQ(acquire(), Status::kNoMemory);
  EXPECT_STREQ(call_->failed_function(), "pfnAcquireSourceModeSet");
  EXPECT_EQ(acquire(), Status::kSuccess);  // it fails once
  EXPECT_EQ(as_status(functions_->pfnReleaseSourceModeSet(vidpn(), set_)), Status::kSuccess);
  call_->finish(Status::kNoMemory);
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
}

// Monitors are advice in EnumVidPnCofuncModality, and the subject of RecommendMonitorModes.
TEST_F(FailingFunctions, MonitorFunctionsFailWhereMonitorsAreTheSubject) {
  driver_.manager.connect_monitor(kTargetA, default_monitor());
  open(2);
  const auto& monitor = driver_.monitor();
  D3DKMDT_HMONITORSOURCEMODESET set = nullptr;
  const DXGK_MONITORSOURCEMODESET_INTERFACE* modes = nullptr;
  ASSERT_EQ(as_status(monitor.pfnAcquireMonitorSourceModeSet(&driver_, kTargetA, &set, &modes)),
            Status::kSuccess);
  EXPECT_EQ(as_status(monitor.pfnReleaseMonitorSourceModeSet(&driver_, set)), Status::kSuccess);
  call_->finish(Status::kUnsuccessful);

  DdiCall recommend(driver_.manager, Ddi::kRecommendMonitorModes, kTargetA);
  recommend.fail_function(1);
  const auto* table = static_cast<const DXGK_MONITORSOURCEMODESET_INTERFACE*>(
      recommend.monitor_mode_set_interface());
  D3DKMDT_MONITOR_SOURCE_MODE* info = nullptr;
  EXPECT_EQ(as_status(table->pfnCreateNewModeInfo(
                static_cast<D3DKMDT_HMONITORSOURCEMODESET>(recommend.monitor_mode_set()), &info)),
            Status::kNoMemory);
  EXPECT_EQ(info, nullptr);
  EXPECT_STREQ(recommend.failed_function(), "pfnCreateNewModeInfo");
  recommend.finish(Status::kNoMemory);
  EXPECT_EQ(driver_.findings.total(), 0U) << driver_.texts();
}

// A set that has to stay is not replaced, not even by an equal one.
TEST_F(FailingFunctions, ASetThatHasToStayIsNotReplaced) {
  DXGKIT_COVERS("VIDPN-19");
  network_.source_sets[0].modes = {good_source_mode()};
  network_.target_sets[kTargetA].modes = {good_target_mode()};
  const auto findings_of = [&](bool pinned, const Pivot& pivot) {
    if (pinned) {
      network_.source_sets[0].pinned = network_.source_sets[0].modes[0].id;
    } else {
      network_.source_sets[0].pinned.reset();
    }
    const size_t before = driver_.findings.count("VIDPN-19");
    open(0, pivot);
    EXPECT_EQ(create_set(), Status::kSuccess);
    EXPECT_EQ(add_mode(), Status::kSuccess);
    EXPECT_EQ(assign(), Status::kSuccess);
    call_->finish(Status::kSuccess);
    return driver_.findings.count("VIDPN-19") - before;
  };
  EXPECT_EQ(findings_of(false, {}), 0U);
  EXPECT_EQ(findings_of(false, {.kind = Pivot::Kind::kTarget, .target = kTargetA}), 0U);
  EXPECT_EQ(findings_of(false, {.kind = Pivot::Kind::kSource, .source = 0}), 1U);
  EXPECT_EQ(findings_of(true, {}), 1U);
  EXPECT_EQ(driver_.findings.total(), 2U) << driver_.texts();
}

}  // namespace
}  // namespace dxgkit::vidpn
