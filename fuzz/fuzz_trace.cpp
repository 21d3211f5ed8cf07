// Any bytes as a text trace: an error that names the line, or a recording that every writer takes
// and that reads back as it is.
#include "fuzz/demand.h"
#include "trace/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dxgkit;
  using fuzz::demand;
  const auto recording = trace::from_text({reinterpret_cast<const char*>(data), size});
  if (!recording.has_value()) {
    demand(recording.error().starts_with("line "));
    return 0;
  }
  const std::string text = trace::to_text(*recording);
  const auto again = trace::from_text(text);
  demand(again.has_value() && trace::to_text(*again) == text);
  demand(!trace::to_perfetto(*recording).empty() || recording->events.empty());
  trace::to_report_json(*recording);
  return 0;
}
