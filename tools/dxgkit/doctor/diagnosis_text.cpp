// How a diagnosis is shown.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/spelling.h"
#include "tools/dxgkit/doctor/diagnosis.h"

namespace dxgkit::tool {
namespace {

using State = EntryDiagnosis::State;

const char* state_name(State state) {
  switch (state) {
    case State::kFilled:
      return "filled";
    case State::kMissing:
      return "missing";
    case State::kEmpty:
      return "empty";
    case State::kNotApplicable:
      return "not applicable";
  }
  return "";
}

std::string import_name(const ImageImport& import) {
  return import.name.empty() ? fmt::format("ordinal {}", import.ordinal) : import.name;
}

}  // namespace

std::string to_text(const Diagnosis& d) {
  std::string out;
  const auto add = [&]<typename... A>(fmt::format_string<A...> format, A&&... arguments) {
    fmt::format_to(std::back_inserter(out), format, std::forward<A>(arguments)...);
  };
  const ImageFacts& image = d.image;
  const bool pe = image.form == ImageFacts::Form::kPe;
  add("{}\n", d.path);
  add("  form        {}, {}{}, {} bytes ({} in memory)\n", pe ? "Windows PE" : "ELF twin",
      image.machine, pe ? ", " + image.subsystem + " subsystem" : "", image.file_bytes,
      image.image_bytes);
  add("  linked      {}\n", image.linked);
  if (pe) {
    add("  PDB         {}\n",
        image.pdb.empty() ? "none named" : fmt::format("{} ({})", image.pdb, image.pdb_id));
    add("  exceptions  {}\n",
        image.exception_entries == 0
            ? "no unwind data: __try would not work"
            : fmt::format("unwind data of {}", counted(image.exception_entries, "function")));
    add("  signature   {}; control-flow guard {}\n",
        image.is_signed ? "present, not checked" : "none",
        image.guarded ? "asked for" : "not asked for");
  }
  add("  relocations {}\n", image.relocatable ? fmt::format("{}", image.relocations) : "stripped");
  if (image.delay_imports != 0)
    add("  late        {} loaded late\n", counted(image.delay_imports, "library", "libraries"));
  for (const std::string& oddity : image.oddities) add("  odd         {}\n", oddity);

  add("\nkind: {}", d.kind);
  if (d.version != 0)
    add(", interface version {:#06x}{}", d.version,
        d.version_name.empty() ? "" : " (" + d.version_name + ")");
  add("\nDriverEntry: {}\n", d.accepted  ? "succeeded, and its table was accepted"
                             : d.entered ? d.refusal
                                         : "not called: " + d.refusal);
  for (const std::string& line : d.before) add("  {}\n", line);

  if (!d.entries.empty()) {
    size_t width = 0;
    for (const EntryDiagnosis& entry : d.entries) width = std::max(width, entry.name.size());
    add("\nDDI table: {} filled, {} missing, {} empty, {} not applicable\n",
        d.count(State::kFilled), d.count(State::kMissing), d.count(State::kEmpty),
        d.count(State::kNotApplicable));
    for (const State state : {State::kMissing, State::kFilled, State::kEmpty}) {
      for (const EntryDiagnosis& entry : d.entries) {
        if (entry.state != state) continue;
        std::string line = fmt::format(
            "  {:<8}{:<{}}  {:<9}  {}", state == State::kMissing ? "MISSING" : state_name(state),
            entry.name, width, entry.mandatory ? "mandatory" : "", entry.note);
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
      }
    }
  }

  add("\nimports: {} supported, {} partial, {} refused, {} missing\n", d.count_imports("supported"),
      d.count_imports("partial"), d.count_imports("refused"), d.count_imports("missing"));
  size_t width = 0;
  for (const ImportDiagnosis& import : d.imports) {
    if (import.support != "supported" || !import.note.empty())
      width = std::max(width, import_name(import.import).size() + import.import.library.size() + 1);
  }
  for (const char* support : {"missing", "refused", "partial", "supported"}) {
    for (const ImportDiagnosis& import : d.imports) {
      if (import.support != support) continue;
      if (import.support == "supported" && import.note.empty()) continue;  // only counted
      const std::string library = import.import.library.empty() ? "" : import.import.library + "!";
      add("  {:<10}{:<{}}  {}\n", support, library + import_name(import.import), width,
          import.note);
    }
  }

  if (!d.findings.empty()) {
    add("\nfindings: {}\n", d.findings.size());
    for (const verifier::Finding& finding : d.findings) add("{}", verifier::to_text(finding));
  }
  add("\nverdict: {}\n",
      d.can_start()  ? "it can be started; `dxgkit verify` does so and exercises it"
      : d.accepted   ? "it was accepted, but broke a rule on the way: see the findings"
      : d.unloadable ? "it cannot be loaded: " + d.refusal
                     : "it cannot be started: " + d.refusal);
  return out;
}

nlohmann::ordered_json to_json(const Diagnosis& d) {
  nlohmann::ordered_json out;
  const ImageFacts& image = d.image;
  out["path"] = d.path;
  out["can_start"] = d.can_start();
  out["kind"] = d.kind;
  out["interface_version"] = d.version;
  out["interface_version_name"] = d.version_name;
  out["driver_entry"] = d.accepted ? "accepted" : d.entered ? "refused" : "not called";
  out["refusal"] = d.refusal;
  out["before"] = d.before;
  out["image"] = {{"form", image.form == ImageFacts::Form::kPe ? "pe" : "elf"},
                  {"machine", image.machine},
                  {"subsystem", image.subsystem},
                  {"linked", image.linked},
                  {"pdb", image.pdb},
                  {"pdb_id", image.pdb_id},
                  {"file_bytes", image.file_bytes},
                  {"image_bytes", image.image_bytes},
                  {"entry", image.entry},
                  {"exception_entries", image.exception_entries},
                  {"relocations", image.relocations},
                  {"relocatable", image.relocatable},
                  {"signed", image.is_signed},
                  {"control_flow_guard", image.guarded},
                  {"delay_imports", image.delay_imports},
                  {"oddities", image.oddities}};
  out["ddis"] = nlohmann::ordered_json::array();
  for (const EntryDiagnosis& entry : d.entries) {
    out["ddis"].push_back({{"name", entry.name},
                           {"state", state_name(entry.state)},
                           {"mandatory", entry.mandatory},
                           {"note", entry.note}});
  }
  out["imports"] = nlohmann::ordered_json::array();
  for (const ImportDiagnosis& import : d.imports) {
    out["imports"].push_back({{"library", import.import.library},
                              {"name", import_name(import.import)},
                              {"support", import.support},
                              {"note", import.note}});
  }
  out["findings"] = nlohmann::ordered_json::array();
  for (const verifier::Finding& finding : d.findings)
    out["findings"].push_back(
        nlohmann::ordered_json::parse(verifier::to_json(finding), nullptr, false));
  return out;
}

}  // namespace dxgkit::tool
