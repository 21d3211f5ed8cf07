// A program that draws its share of the picture job with the functions of libdxcore.so. No kernel
// is in it. `dxgkit run --clients processes` starts it.
//
//     picture_client NUMBER WIDTH HEIGHT PAGE_BYTES
#include <d3dkmthk.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "tools/dxgkit/processes/job_memory.h"

namespace dxgkit::tool {
namespace {

void note(std::string_view text) { static_cast<void>(!write(kJobNotes, text.data(), text.size())); }

int fail(const std::string& why) {
  note(kNoteError + why);
  return 1;
}

std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? std::optional(number)
                                                                         : std::nullopt;
}

int run(int count, char** words) {
  std::optional<uint64_t> numbers[4];
  if (count != 5) return fail("it has four arguments");
  for (int i = 0; i < 4; ++i) {
    numbers[i] = number_of(words[i + 1]);
    if (!numbers[i].has_value()) return fail(fmt::format("'{}' is no number", words[i + 1]));
  }
  const auto [process, width, height, page_bytes] = numbers;
  if (*process >= kProcesses || *width == 0 || *width > kPictureSideMax || *height == 0 ||
      *height > kPictureSideMax || *width * *height > kPicturePixelsMax)
    return fail("it cannot draw such a picture");
  const Plan plan =
      make_plan(static_cast<uint32_t>(*width), static_cast<uint32_t>(*height), 0, *page_bytes);
  const JobMemory memory(plan, kJobMemory);
  if (!memory.is_there()) return fail("the picture's memory cannot be mapped");

  D3DKMT_ADAPTERINFO adapters[8];
  D3DKMT_ENUMADAPTERS2 list{.NumAdapters = 8, .pAdapters = adapters};
  if (const CallAnswer answer = answer_of("D3DKMTEnumAdapters2", D3DKMTEnumAdapters2(&list));
      answer.refused())
    return fail(answer.error);
  if (list.NumAdapters == 0) return fail("the server has no adapter");
  const LUID luid = adapters[0].AdapterLuid;
  const auto done = run_process_job(
      {.adapter = {.low = static_cast<uint32_t>(luid.LowPart), .high = luid.HighPart},
       .calls = make_d3dkmt_calls,
       .plan = &plan,
       .process = static_cast<uint32_t>(*process),
       .source = memory.source(),
       .result = memory.result(),
       .checksums = memory.checksums(),
       .step_done =
           [] {
             note({&kNoteStep, 1});
           },
       .stage_done =
           [](Stage stage) {
             const char digit = static_cast<char>('0' + static_cast<int>(stage));
             note({&digit, 1});
           }});
  if (!done) return fail(done.error().text);
  note({&kNoteDone, 1});
  return 0;
}

}  // namespace
}  // namespace dxgkit::tool

int main(int count, char** words) { return dxgkit::tool::run(count, words); }
