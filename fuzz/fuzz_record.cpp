// Recordings of D3DKMT calls: any bytes as a file, and as the entries of a chunk whose head and
// checksum are right.
#include <span>
#include <string>
#include <vector>

#include "fuzz/demand.h"
#include "record/compare.h"
#include "record/file.h"
#include "record/jobs.h"
#include "record/message.h"
#include "wire/call_text.h"

namespace {

using namespace dxgkit;
using namespace dxgkit::record;

/// What a replay does with a call beside making it.
void check_call(const Call& call) {
  if (!call.unrecorded.empty()) return;
  const auto request = read_request(call.request);
  fuzz::demand(request.has_value() && request->function == call.function);
  const auto reply = read_reply(*request, call.request, call.reply);
  fuzz::demand(reply.has_value());
  const std::byte* const arguments = call.request.data() + request->blocks.front().at;
  fuzz::demand(!wire::call_text(call.function, arguments, call.result).empty());
  // A kernel that gives the same names to everything.
  NameMap names;
  std::vector<std::byte> renamed = call.request;
  rename(names, *request, renamed);
  fuzz::demand(renamed == call.request);
  const Side side{call.request, *reply};
  fuzz::demand(compare(*request, side, side, names).empty());
  fuzz::demand(names.renamed() == 0);
  rename(names, *request, renamed);
  // Another one.
  names.learn(arguments::Names::kHandle, 0x40000040, 0x40000080);
  rename(names, *request, renamed);
  fuzz::demand(read_request(renamed).has_value());
}

/// What verify takes from a recording.
void check_work(const Recording& recording) {
  const Work work = work_of(recording, 1 << 20);
  for (const Job& job : work.jobs) {
    fuzz::demand(job.call >= 1 && job.call <= recording.calls.size());
    for (const JobUse& use : job.uses)
      fuzz::demand(use.allocation < job.allocations.size() || use.allocation == kNoJobAllocation);
    for (const Job::Memory& one : job.allocations)
      fuzz::demand(one.allocation < work.allocations.size());
  }
  if (!work.asked_size) return;
  const SizeField& field = *work.asked_size;
  fuzz::demand(field.width <= sizeof(uint64_t) && field.offset + field.width <= field.data_bytes);
}

void read(std::span<const std::byte> file) {
  const auto recording = read_recording(file);
  if (!recording.has_value()) {
    fuzz::demand(recording.error().starts_with("byte "));
    return;
  }
  for (const Call& call : recording->calls) check_call(call);
  check_work(*recording);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  read(input);
  std::vector<std::byte> file = file_head();
  std::string error;
  const std::vector<std::byte> chunk = chunk_of_calls(input, &error);
  fuzz::demand(error.empty());
  file.insert(file.end(), chunk.begin(), chunk.end());
  read(file);
  return 0;
}
