#include "wire/call_text.h"

#include <fmt/format.h>

#include "wire/walk.h"

namespace dxgkit::wire {
namespace {

/// What a pointer leads to.
std::string pointed(const Structure& structure, const std::byte* base, uint32_t function,
                    uint16_t offset) {
  std::string text = "...";
  for_each_field(structure, base, function, [&](const Field& field, Kind kind) {
    if (field.offset != offset || kind != Kind::kBlock) return;
    const uint64_t count =
        field.count.width == 0 ? field.fixed_count : number_at(base, field.count);
    text = fmt::format("[{}]", count);
  });
  return text;
}

}  // namespace

std::string call_text(uint32_t function, const std::byte* arguments, int64_t result) {
  const Function& called = functions()[function];
  const Structure& structure = structure_at(called.structure);
  std::string text = fmt::format("{}(", called.name);
  for (size_t i = 0; i < called.shown.size(); ++i) {
    const Shown& shown = called.shown[i];
    if (i != 0) text += ", ";
    const uint64_t value = number_at(arguments, shown.place);
    if (shown.pointer)
      text += fmt::format("{}={}", shown.name,
                          pointed(structure, arguments, function, shown.place.offset));
    else if (shown.hexadecimal)
      text += fmt::format("{}={:#x}", shown.name, value);
    else
      text += fmt::format("{}={}", shown.name, value);
  }
  return text + fmt::format(") = {:#x}", static_cast<uint32_t>(result));
}

}  // namespace dxgkit::wire
