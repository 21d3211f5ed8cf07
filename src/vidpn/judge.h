// Judgments of the modes, signals and paths that a driver gives. Pure functions of values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "verifier/findings.h"
#include "vidpn/network.h"
#include "vidpn/types.h"

namespace dxgkit::vidpn {

/// A refusal, or (with a success status) a remark while the kernel goes on.
struct Judgment {
  Status status = Status::kSuccess;
  const char* rule = "";
  std::string actual;
  std::string expected;
  std::string fix;
  std::string why = {};
  std::string windows = {};
  verifier::Severity severity = verifier::Severity::kViolation;
  verifier::Confidence confidence = verifier::Confidence::kInferred;
  uint32_t bugcheck_code = 0, bugcheck_parameter = 0;
};

/// Remarks, then at most one refusal as the last entry. Empty: the value is fine.
using Judgments = std::vector<Judgment>;
/// The status of the refusal in `judgments`, or success.
Status outcome(const Judgments& judgments);

Judgments judge_source_mode(const Profile& profile, const SourceMode& mode);
Judgments judge_target_mode(const Profile& profile, const TargetMode& mode);
Judgments judge_monitor_mode(const Profile& profile, const MonitorMode& mode);
/// Judges a path that is to join `network`.
Judgments judge_new_path(const Profile& profile, const Network& network, const Path& path);
/// Judges the support bits in `update` for `path`, which is in the topology.
Judgments judge_path_support(const Profile& profile, const Path& path, const Path& update,
                             bool test_signing);

/// "STATUS_GRAPHICS_INVALID_FREQUENCY": names of this area's codes too.
std::string status_text(Status status);

}  // namespace dxgkit::vidpn
