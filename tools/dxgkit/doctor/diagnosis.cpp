#include "tools/dxgkit/doctor/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "bus/machine.h"
#include "dxgkit/abi_versions.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "port/support.h"
#include "runtime/runtime.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

using State = EntryDiagnosis::State;

constexpr uint64_t kMemoryBytes = uint64_t{256} << 20;

/// Entries that only an adapter with display outputs needs. A driver without any of them is
/// render-only. By the DDI table of the rulebook.
constexpr std::string_view kDisplayEntries[] = {
    "DxgkDdiQueryChildRelations",
    "DxgkDdiQueryChildStatus",
    "DxgkDdiQueryDeviceDescriptor",
    "DxgkDdiSetPalette",
    "DxgkDdiSetPointerPosition",
    "DxgkDdiSetPointerShape",
    "DxgkDdiIsSupportedVidPn",
    "DxgkDdiRecommendFunctionalVidPn",
    "DxgkDdiEnumVidPnCofuncModality",
    "DxgkDdiSetVidPnSourceAddress",
    "DxgkDdiSetVidPnSourceVisibility",
    "DxgkDdiCommitVidPn",
    "DxgkDdiUpdateActiveVidPnPresentPath",
    "DxgkDdiRecommendMonitorModes",
    "DxgkDdiRecommendVidPnTopology",
    "DxgkDdiGetScanLine",
    "DxgkDdiControlInterrupt",
    "DxgkDdiQueryVidPnHWCapability",
    "DxgkDdiStopDeviceAndReleasePostDisplayOwnership",
    "DxgkDdiSystemDisplayEnable",
    "DxgkDdiSystemDisplayWrite",
};
/// The entries without which there is no picture: the test for "render-only".
constexpr std::string_view kPictureEntries[] = {"DxgkDdiCommitVidPn", "DxgkDdiIsSupportedVidPn",
                                                "DxgkDdiEnumVidPnCofuncModality"};

bool is_display_entry(std::string_view name) {
  return std::ranges::find(kDisplayEntries, name) != std::end(kDisplayEntries);
}

/// The libraries from which a display miniport imports on Windows; others do not resolve there.
bool is_kernel_library(std::string_view library) {
  constexpr std::array<std::string_view, 12> kKnown{
      "ntoskrnl.exe", "hal.dll",         "displib.sys", "dxgkrnl.sys",
      "watchdog.sys", "wpprecorder.sys", "wdfldr.sys",  "bootvid.dll",
      "ksecdd.sys",   "cng.sys",         "kdcom.dll",   "ci.dll"};
  std::string lower(library);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::ranges::find(kKnown, lower) != kKnown.end();
}

ImportDiagnosis diagnose_import(const ImageImport& import) {
  ImportDiagnosis out{import, "missing", {}};
  if (import.name.empty()) {
    out.note = "imported by ordinal; the executive has names only";
    return out;
  }
  const nt::Export* found = nt::find_export(import.name);
  if (found == nullptr) {
    out.note = "a call of it stops the driver and names it";
  } else {
    out.note = found->note;
    switch (found->support) {
      case nt::Support::kSupported:
        out.support = "supported";
        break;
      case nt::Support::kPartial:
        out.support = "partial";
        break;
      case nt::Support::kRefused:
        out.support = "refused";
        break;
    }
  }
  if (!import.library.empty() && !is_kernel_library(import.library)) {
    out.note += fmt::format("{}{} is no library of the Windows kernel that display drivers use",
                            out.note.empty() ? "" : "; ", import.library);
  }
  return out;
}

void diagnose_table(bool display_only, uint32_t version, std::span<const std::byte> table,
                    Diagnosis& out) {
  const std::span<const abi::TableEntry> entries =
      display_only ? std::span<const abi::TableEntry>(abi::kKmddodInitializationData)
                   : std::span<const abi::TableEntry>(abi::kDriverInitializationData);
  const auto filled = [&](const abi::TableEntry& entry) {
    void* pointer = nullptr;
    if (entry.since > version || entry.offset_bytes + sizeof(pointer) > table.size()) return false;
    std::memcpy(&pointer, table.data() + entry.offset_bytes, sizeof(pointer));
    return pointer != nullptr;
  };
  const bool picture = std::ranges::any_of(entries, [&](const abi::TableEntry& entry) {
    return std::ranges::find(kPictureEntries, entry.name) != std::end(kPictureEntries) &&
           filled(entry);
  });
  out.version = version;
  for (const abi::InterfaceVersion& known : abi::kVersions) {
    if (known.value == version) out.version_name = known.name;
  }
  out.kind = display_only ? "display-only" : picture ? "full" : "render-only";
  const std::vector<std::string_view> mandatory =
      port::mandatory_entries(display_only, version, table);
  for (const abi::TableEntry& entry : entries) {
    if (!entry.name.starts_with("DxgkDdi")) continue;
    EntryDiagnosis line{.name = std::string(entry.name),
                        .state = State::kEmpty,
                        .mandatory = std::ranges::find(mandatory, entry.name) != mandatory.end(),
                        .note = {}};
    if (filled(entry)) {
      line.state = State::kFilled;
      for (const port::SupportEntry& support : port::ddi_support()) {
        if (support.name != entry.name) continue;
        line.note = support.note;
      }
    } else if (entry.since > version) {
      line.state = State::kNotApplicable;
      line.note = fmt::format("since {:#x}", entry.since);
    } else if (line.mandatory) {
      line.state = State::kMissing;
    } else if (!display_only && !picture && is_display_entry(entry.name)) {
      line.state = State::kNotApplicable;
      line.note = "for adapters with outputs";
    }
    out.entries.push_back(std::move(line));
  }
}

void run_entry(const nt::KernelConfig& config, Diagnosis& out) {
  verifier::Findings findings;
  const std::unique_ptr<runtime::Runtime> runtime = runtime::make_sim_runtime(1);
  runtime->run_main([&] {
    bus::Machine machine(kMemoryBytes);
    nt::Kernel kernel(*runtime, machine, findings, config);
    port::DriverSource source;
    source.name = out.path.substr(out.path.rfind('/') + 1);
    source.path = out.path;
    source.on_table = [&](bool display_only, uint32_t version, std::span<const std::byte> table) {
      diagnose_table(display_only, version, table, out);
    };
    out.entered = true;
    std::string message;
    const nt::CallLog calls(kernel);
    const auto driver = port::Driver::load(kernel, findings, source, &message);
    out.accepted = driver.has_value();
    out.unloadable =
        !out.accepted && driver.error() == Status::kInvalidImageFormat && findings.total() == 0;
    if (!out.accepted) {
      out.refusal = message.empty()
                        ? fmt::format("loading failed with {}", status_name(driver.error()))
                        : message;
      out.before = calls.lines();
    }
  });
  out.findings = findings.all();
}

}  // namespace

size_t Diagnosis::count(State state) const {
  return static_cast<size_t>(std::ranges::count_if(
      entries, [&](const EntryDiagnosis& entry) { return entry.state == state; }));
}

size_t Diagnosis::count_imports(std::string_view support) const {
  return static_cast<size_t>(std::ranges::count_if(
      imports, [&](const ImportDiagnosis& import) { return import.support == support; }));
}

bool Diagnosis::can_start() const {
  return accepted && std::ranges::none_of(findings, verifier::is_mistake);
}

std::expected<Diagnosis, std::string> diagnose(const std::string& path,
                                               const nt::KernelConfig& config) {
  const std::expected<std::string, std::string> file = read_file(path);
  if (!file.has_value()) return std::unexpected(file.error());
  std::expected<ImageFacts, std::string> facts =
      read_image_facts(std::as_bytes(std::span(file->data(), file->size())));
  if (!facts.has_value())
    return std::unexpected(fmt::format("{}: not a driver: {}", path, facts.error()));
  if (const auto why = no_driver(*facts))
    return std::unexpected(fmt::format("{}: not a driver: {}", path, *why));
  Diagnosis out;
  out.path = path;
  out.kind = "none";
  out.image = std::move(*facts);
  for (const ImageImport& import : out.image.imports)
    out.imports.push_back(diagnose_import(import));
  if (!out.image.runs_here) {
    out.unloadable = true;
    out.refusal = built_for_another_machine(out.image);
    return out;
  }
  run_entry(config, out);
  return out;
}

}  // namespace dxgkit::tool
