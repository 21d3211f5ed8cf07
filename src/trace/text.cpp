#include <fmt/format.h>

#include <iterator>

#include "trace/story.h"

namespace dxgkit::trace {
namespace {

/// Names may come from a driver: whatever would break a line or a column is escaped.
void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

std::string to_text(const Recording& recording) {
  std::string out;
  if (recording.dropped != 0) {
    fmt::format_to(std::back_inserter(out), "dropped {}\n", recording.dropped);
  }
  for (const Event& event : recording.events) {
    fmt::format_to(std::back_inserter(out), "{:>12} t{}", event.time_ns, event.thread);
    const KindInfo* const info = kind_info(event.kind);
    if (info != nullptr) {
      fmt::format_to(std::back_inserter(out), " {}", info->name);
    } else {
      fmt::format_to(std::back_inserter(out), " kind_{}", event.kind);
    }
    if (event.node != kNoNode) fmt::format_to(std::back_inserter(out), " node={}", event.node);
    const uint64_t values[4] = {event.a, event.b, event.c, event.d};
    for (size_t i = 0; i < 4; ++i) {
      const ArgumentInfo argument = info != nullptr ? info->arguments[i] : ArgumentInfo{};
      if (argument.name == nullptr) {
        // Not in the schema: still shown when it holds something.
        if (values[i] != 0) {
          fmt::format_to(std::back_inserter(out), " {}={}", "abcd"[i], values[i]);
        }
      } else if (argument.is_name_id) {
        fmt::format_to(std::back_inserter(out), " {}=", argument.name);
        append_quoted(out, name_of(recording, values[i]));
      } else if (std::string_view(argument.name) == "status") {
        fmt::format_to(std::back_inserter(out), " {}={:#x}", argument.name, values[i]);
      } else {
        fmt::format_to(std::back_inserter(out), " {}={}", argument.name, values[i]);
      }
    }
    out += '\n';
  }
  return out;
}

}  // namespace dxgkit::trace
