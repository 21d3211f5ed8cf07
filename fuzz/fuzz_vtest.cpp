// A GL program's bytes, as a whole connection: messages of the vtest protocol with command streams
// of virgl in them. Bit 0 of the first byte: the program greets rightly and makes two resources
// first.
#include <cstring>
#include <string>

#include "fuzz/demand.h"
#include "tools/dxgkit/gl/session.h"
#include "tools/dxgkit/gl/session_rig.h"

namespace {

using namespace dxgkit::gl;
using dxgkit::fuzz::demand;

constexpr SessionLimits kLimits = {.resources = 8, .shared_bytes = 1U << 20};

/// What was accepted is encoded alike; a refusal is one sentence.
template <typename T, typename Decode>
void check(std::span<const uint32_t> words, size_t dwords, const Decode& decode) {
  if (words.size() < dwords) return;
  const Decoded<T> value = decode(words.first(dwords));
  if (value.has_value()) {
    const auto again = encode(*value);
    demand(std::ranges::equal(again, words.first(dwords)));
  } else {
    demand(!value.error().empty() && value.error().find('\n') == std::string::npos);
  }
}

void check_decoders(std::span<const uint32_t> words) {
  check<ResourceDescription>(words, ResourceDescription::kDwords, decode_resource);
  check<Transfer>(words, Transfer::kDwords, decode_transfer);
  check<BusyWait>(words, BusyWait::kDwords, decode_busy_wait);
  StreamReader reader;
  const auto facts = reader.read(words);
  if (!facts.has_value()) return;
  size_t at = 0, last = 0;
  for (const StreamCommand& command : facts->commands) {
    demand(command.first == at && command.dwords != 0);
    at += command.dwords;
  }
  demand(at == words.size());
  for (const ResourceUse& use : facts->resources) {
    demand(use.position >= last && use.position < words.size());
    demand(words[use.position] == use.handle && use.handle != 0);
    last = use.position;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  SessionRig rig(kLimits);
  if ((data[0] & 1) != 0) {
    rig.channel.send_greeting();
    ResourceDescription resource{.handle = 1,
                                 .target = ResourceDescription::kTargetBuffer,
                                 .width = 256,
                                 .height = 1,
                                 .depth = 1,
                                 .array_size = 1,
                                 .data_bytes = 256};
    rig.channel.send(Command::kResourceCreate2, encode(resource));
    resource = {.handle = 2,
                .target = 2,
                .bind = 0x8A,
                .width = 8,
                .height = 8,
                .depth = 1,
                .array_size = 1,
                .data_bytes = 256};
    rig.channel.send(Command::kResourceCreate2, encode(resource));
  }
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  rig.channel.send(bytes);
  const auto end = rig.session.run();
  demand(rig.state.misuse.empty());
  demand(!end.has_value() || (!end->empty() && end->find('\n') == std::string::npos));
  demand(rig.state.backings.size() <= kLimits.resources);

  std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint32_t));
  check_decoders(words);
  return 0;
}
