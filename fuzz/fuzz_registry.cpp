// Any text as a registry: a sentence that says what is wrong, or keys and values that are within
// bounds and read back as they are.
#include "fuzz/demand.h"
#include "nt/registry_store.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dxgkit;
  using fuzz::demand;
  std::string why;
  const auto registry = nt::parse_registry({reinterpret_cast<const char*>(data), size}, &why);
  if (!registry.has_value()) {
    demand(registry.error() == Status::kInvalidParameter && !why.empty());
    return 0;
  }
  const std::string text = registry->to_text();
  const auto again = nt::parse_registry(text, &why);
  demand(again.has_value() && again->to_text() == text);
  demand(nt::Registry(registry->to_map()).to_text() == text);
  return 0;
}
