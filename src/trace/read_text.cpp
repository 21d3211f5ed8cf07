// The reader for the output of to_text. Files are hostile.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "trace/trace.h"

namespace dxgkit::trace {
namespace {

constexpr size_t kShownMost = 40;

/// A piece of a hostile file as it may be printed.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kShownMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kShownMost ? out + "..." : out;
}

/// Digits only: decimal, or hexadecimal behind 0x.
std::optional<uint64_t> number(std::string_view word) {
  const bool hex = word.starts_with("0x");
  if (hex) word.remove_prefix(2);
  uint64_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, value, hex ? 16 : 10);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

void skip_spaces(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(' '), line->size()));
}

std::string_view take_word(std::string_view* line) {
  skip_spaces(line);
  const std::string_view word = line->substr(0, line->find(' '));
  line->remove_prefix(word.size());
  return word;
}

/// A word, or the unescaped text between quotes. Nothing if the quote does not end.
std::optional<std::string> take_quoted(std::string_view* line) {
  std::string out;
  for (size_t i = 1; i < line->size(); ++i) {
    const char c = (*line)[i];
    if (c == '"') {
      line->remove_prefix(i + 1);
      return out;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    const std::string_view escape = line->substr(i, 4);
    if (escape.size() < 4 || escape[1] != 'x') return std::nullopt;
    const std::optional<uint64_t> byte = number(fmt::format("0x{}", escape.substr(2)));
    if (!byte.has_value()) return std::nullopt;
    out += static_cast<char>(*byte);
    i += 3;
  }
  return std::nullopt;
}

class Reader {
 public:
  std::expected<Recording, std::string> read(std::string_view text) {
    for (const KindInfo& info : schema()) kinds_.emplace(info.name, &info);
    recording_.events.reserve(static_cast<size_t>(std::ranges::count(text, '\n')));
    while (!text.empty()) {
      ++line_;
      const size_t end = std::min(text.find('\n'), text.size());
      std::string wrong = read_line(text.substr(0, end));
      if (!wrong.empty()) return std::unexpected(fmt::format("line {}: {}", line_, wrong));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return std::move(recording_);
  }

 private:
  std::string read_line(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view first = take_word(&line);
    if (first.empty() || first.starts_with('#')) return {};  // a comment
    if (first == "dropped") {
      const std::optional<uint64_t> count = number(take_word(&line));
      if (!count.has_value()) return "'dropped' wants a number of events";
      recording_.dropped = *count;
      return {};
    }
    const std::optional<uint64_t> time = number(first);
    if (!time.has_value() || *time > INT64_MAX)
      return fmt::format("'{}' is not a time in nanoseconds; this is not a trace as text",
                         shown(first));
    Event event;
    event.time_ns = static_cast<int64_t>(*time);
    const std::string_view thread = take_word(&line);
    const std::optional<uint64_t> thread_number =
        thread.starts_with('t') ? number(thread.substr(1)) : std::nullopt;
    if (!thread_number.has_value() || *thread_number > UINT32_MAX)
      return fmt::format("'{}' is not a thread like t5", shown(thread));
    event.thread = static_cast<uint32_t>(*thread_number);
    const std::string_view kind = take_word(&line);
    const KindInfo* info = nullptr;
    if (const auto found = kinds_.find(kind); found != kinds_.end()) {
      info = found->second;
      event.kind = static_cast<uint16_t>(info->kind);
    } else {
      const std::optional<uint64_t> unknown =
          kind.starts_with("kind_") ? number(kind.substr(5)) : std::nullopt;
      if (!unknown.has_value() || *unknown > UINT16_MAX)
        return fmt::format("'{}' is no kind of event", shown(kind));
      event.kind = static_cast<uint16_t>(*unknown);
    }
    for (skip_spaces(&line); !line.empty(); skip_spaces(&line)) {
      std::string wrong = read_argument(&line, info, &event);
      if (!wrong.empty()) return wrong;
    }
    recording_.events.push_back(event);
    return {};
  }

  std::string read_argument(std::string_view* line, const KindInfo* info, Event* event) {
    const size_t sign = line->find('=');
    if (sign == std::string_view::npos)
      return fmt::format("'{}' is not an argument like node=1", shown(*line));
    const std::string_view name = line->substr(0, sign);
    line->remove_prefix(sign + 1);
    std::optional<uint64_t> value;
    if (line->starts_with('"')) {
      const std::optional<std::string> text = take_quoted(line);
      if (!text.has_value()) return fmt::format("the text of '{}' does not end", shown(name));
      const auto known = names_.emplace(*text, recording_.names.size()).first;
      if (known->second == recording_.names.size()) recording_.names.push_back(*text);
      value = known->second;
    } else {
      const std::string_view word = take_word(line);
      value = number(word);
      if (!value.has_value())
        return fmt::format("'{}' of '{}' is not a number below 2^64", shown(word), shown(name));
    }
    if (name == "node") {
      if (*value > UINT16_MAX) return fmt::format("there is no node {}", *value);
      event->node = static_cast<uint16_t>(*value);
      return {};
    }
    uint64_t* const slots[4] = {&event->a, &event->b, &event->c, &event->d};
    for (size_t i = 0; i < 4; ++i) {
      const char* const expected = info != nullptr ? info->arguments[i].name : nullptr;
      const char letter[2] = {"abcd"[i], 0};
      if (name != (expected != nullptr ? expected : letter)) continue;
      *slots[i] = *value;
      return {};
    }
    return fmt::format("'{}' is no argument of this kind of event", shown(name));
  }

  Recording recording_;
  size_t line_ = 0;
  std::unordered_map<std::string_view, const KindInfo*> kinds_;  // looked up only
  std::unordered_map<std::string, uint64_t> names_;              // looked up only
};

}  // namespace

std::expected<Recording, std::string> from_text(std::string_view text) {
  return Reader().read(text);
}

}  // namespace dxgkit::trace
