// What a start asks of caps, segments and entries, and what refuses it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "dxgk/core/adapter_core.h"
#include "dxgk/va/gpu_va_rules.h"
#include "port/adapter_port.h"
#include "port/types.h"
#include "vidmm/types.h"

namespace dxgkit::dxgk {

/// Judges what the driver has said of itself (AdapterCore::facts), and reports what is wrong with
/// it. Whatever answers a failure has reported why the adapter does not start.
class StartRules {
 public:
  explicit StartRules(AdapterCore& core) : core_(core) {}

  /// The step of a start that is no call of the driver: its segments hold what paging needs.
  static constexpr const char* kStartOfPaging = "paging";

  /// A start that fails in a step: a finding with the DDI of the step, or kStartOfPaging, and its
  /// status, unless one has said why already.
  void explain_failure(const char* ddi, Status status);
  /// What the driver has collected about its failure, for that finding.
  void set_collected(port::CollectedInfo info) { collected_ = std::move(info); }
  Status refuse(const char* rule, const char* ddi, std::string actual, std::string expected,
                std::string fix);

  /// Caps of a full driver. Without MultiEngineAware it has one node (SCHED-02).
  Status check_caps();
  Status check_display_only_caps();
  Status check_addressing();
  /// Entries of mode management, for an adapter with video present sources.
  Status check_display_entries();
  /// Fills `segments` for the memory manager.
  Status check_segments(std::vector<vidmm::SegmentDesc>* segments);
  /// LIFE-15: one page is shown and hidden again. `*step`: the DDI that is at work.
  Status check_host_apertures(const char** step);
  /// VA-01..03; fills `model` for a GpuMmu adapter.
  Status check_gpu_va_model(std::optional<GpuVaModel>* model);

 private:
  /// PREEMPT-19.
  void check_preemption();
  /// LIFE-13; a version that is not said at all (CAPS-11).
  Status check_version_features();
  /// CAPS-11.
  void report_odd_values();
  /// CAPS-15.
  void check_advising_entries();
  /// Entries that caps promise (CAPS-04).
  void check_promised_entries();
  Status check_caps_entries();
  Status check_gpu_va_entries(const port::GpuMmuCaps& caps);
  /// CAPS-03, a warning.
  void check_software_key();

  AdapterCore& core_;
  std::optional<port::CollectedInfo> collected_;
};

}  // namespace dxgkit::dxgk
