// The diagnosis of a driver by `dxgkit doctor`.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nt/kernel.h"
#include "tools/dxgkit/doctor/image_facts.h"
#include "verifier/findings.h"

namespace dxgkit::tool {

struct ImportDiagnosis {
  ImageImport import;
  std::string support;  // "supported", "partial", "refused", "missing"
  std::string note;
};

struct EntryDiagnosis {
  std::string name;
  enum class State {
    kFilled,
    kMissing,        // null, and no kernel can use the driver without it
    kEmpty,          // null, as it may be
    kNotApplicable,  // newer than the driver's version, or without use for its kind
  };
  State state = State::kEmpty;
  bool mandatory = false;
  std::string note;  // the caller of the entry here, or why it does not apply
};

struct Diagnosis {
  std::string path;
  ImageFacts image;
  std::vector<ImportDiagnosis> imports;
  bool entered = false;                 // DriverEntry was called
  bool unloadable = false;              // no kernel can load the file: bad input
  bool accepted = false;                // DriverEntry and DxgkInitialize succeeded
  std::string refusal;                  // one sentence, unless accepted
  std::vector<std::string> before;      // then: the last calls of DriverEntry, a line each
  std::string kind;                     // "full", "render-only", "display-only", "none"
  uint32_t version = 0;                 // declared interface version; 0: none declared
  std::string version_name;             // "WDDM1_3"
  std::vector<EntryDiagnosis> entries;  // of the table its kind uses; empty for kind "none"
  std::vector<verifier::Finding> findings;

  size_t count(EntryDiagnosis::State state) const;
  size_t count_imports(std::string_view support) const;
  /// True if it can be started: DriverEntry succeeded and broke no rule.
  bool can_start() const;
};

/// Reads the file, and runs DriverEntry and Unload in a kernel made for the purpose. The error is
/// one sentence with the path: no such file, not an image, not made for the kernel. Runs driver
/// code in this process: see run_in_child. Not from inside a runtime.
std::expected<Diagnosis, std::string> diagnose(const std::string& path,
                                               const nt::KernelConfig& config);

/// The end of the process of a diagnosis.
struct DoctorEnd {
  int code = 0;
  std::string what;  // the line for stderr; empty if there is none, or if it is there already
};
/// Diagnoses the driver in a process of its own, which calls `tell` and ends with its value.
DoctorEnd examine(const std::string& path, const nt::KernelConfig& config,
                  const std::function<int(const Diagnosis&)>& tell);

std::string to_text(const Diagnosis& diagnosis);
nlohmann::ordered_json to_json(const Diagnosis& diagnosis);

}  // namespace dxgkit::tool
