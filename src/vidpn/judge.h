// What may be said in a mode, a signal, a path: pure judgments of values a driver gave.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "verifier/findings.h"
#include "vidpn/network.h"
#include "vidpn/types.h"

namespace dxgkit::vidpn {

/// A refusal, or (status success) something worth a sentence though the kernel goes on.
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

/// At most one refusal, as the last entry; remarks before it. Empty: nothing to say.
using Judgments = std::vector<Judgment>;
/// Status of the refusal in `judgments`, else success.
Status outcome(const Judgments& judgments);

Judgments judge_source_mode(const Profile& profile, const SourceMode& mode);
Judgments judge_target_mode(const Profile& profile, const TargetMode& mode);
Judgments judge_monitor_mode(const Profile& profile, const MonitorMode& mode);
/// Of a path that is to join `network`.
Judgments judge_new_path(const Profile& profile, const Network& network, const Path& path);
/// Of the support bits in `update` for `path`, which is in the topology.
Judgments judge_path_support(const Profile& profile, const Path& path, const Path& update,
                             bool test_signing);

/// "STATUS_GRAPHICS_INVALID_FREQUENCY": names of this area's codes too.
std::string status_text(Status status);

}  // namespace dxgkit::vidpn
