#include "tools/dxgkit/check/driver_facts.h"

#include "tools/dxgkit/check/hand_over.h"
#include "tools/dxgkit/doctor/diagnosis.h"
#include "tools/dxgkit/options.h"

namespace dxgkit::tool::check {

DriverFacts facts_of(const std::string& path, const nt::KernelConfig& config) {
  const SharedText told;
  const DoctorEnd end = examine(path, config, [&](const Diagnosis& diagnosis) {
    const std::string text =
        to_json(diagnosis).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return SharedText::write(told.fd(), text) ? kExitDone : kExitNotWritten;
  });
  DriverFacts facts;
  facts.diagnosis = nlohmann::ordered_json::parse(told.read(), nullptr, false);
  if (!facts.diagnosis.is_object()) {
    facts.diagnosis = nullptr;
    facts.missing = end.what.empty() ? "nothing is known of its file" : end.what;
  }
  return facts;
}

}  // namespace dxgkit::tool::check
