// Any text as a reference trace: an error that names the line, or a trace whose numbers add up and
// that reads back as it is.
#include "fuzz/demand.h"
#include "tools/dxgkit/evict/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace evict = dxgkit::tool::evict;
  using dxgkit::fuzz::demand;
  const auto trace = evict::parse_trace({reinterpret_cast<const char*>(data), size});
  if (!trace.has_value()) {
    demand(trace.error().starts_with("line "));
    return 0;
  }
  demand(trace->total_bytes() < evict::kTraceBytesMax);
  demand(trace->largest_submission_bytes() <= trace->total_bytes());
  demand(trace->ids.size() == trace->bytes.size());
  for (const auto& submission : trace->submissions) {
    demand(submission.process < trace->processes);
    for (const uint32_t reference : trace->of(submission)) demand(reference < trace->ids.size());
  }
  const std::string text = evict::to_text(*trace, "again");
  const auto again = evict::parse_trace(text);
  demand(again.has_value() && evict::to_text(*again, "again") == text);
  return 0;
}
