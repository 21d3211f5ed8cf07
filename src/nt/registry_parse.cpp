// The text forms of a registry: TOML and JSON, into one tree.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/plain_text.h"
#include "base/toml_parser.h"
#include "nt/executive.h"
#include "nt/registry_store.h"

namespace dxgkit::nt {
namespace {

constexpr size_t kNameMax = 16'383;

/// The common form of both formats before it is interpreted.
struct Node {
  enum class Kind { kOther, kInteger, kText, kList, kTable } kind = Kind::kOther;
  uint32_t line = 0;  // 0: not known
  int64_t integer = 0;
  bool is_unsigned = false;  // JSON numbers above INT64_MAX
  std::string text;
  std::string name;           // of a member of a table
  std::vector<Node> members;  // of a list or a table
};

/// An error; only the first one is kept.
class Reason {
 public:
  explicit Reason(std::string* message) : message_(message) {}
  Error operator()(std::string text) const {
    *message_ = std::move(text);
    return Error(Status::kInvalidParameter);
  }

 private:
  std::string* message_;
};

std::string place(const Node& node, std::string_view path) {
  return node.line > 0 ? fmt::format("line {}, {}", node.line, path) : std::string(path);
}

Node from_toml(const toml::node& source) {
  Node node;
  node.line = source.source().begin.line;
  if (const auto* integer = source.as_integer()) {
    node.kind = Node::Kind::kInteger;
    node.integer = integer->get();
  } else if (const auto* text = source.as_string()) {
    node.kind = Node::Kind::kText;
    node.text = text->get();
  } else if (const auto* boolean = source.as_boolean()) {
    node.kind = Node::Kind::kInteger;
    node.integer = boolean->get() ? 1 : 0;
  } else if (const auto* array = source.as_array()) {
    node.kind = Node::Kind::kList;
    for (const toml::node& item : *array) node.members.push_back(from_toml(item));
  } else if (const auto* table = source.as_table()) {
    node.kind = Node::Kind::kTable;
    for (const auto& [key, value] : *table) {
      node.members.push_back(from_toml(value));
      node.members.back().name = key.str();
    }
  }
  return node;
}

Node from_json(const nlohmann::json& source) {
  Node node;
  if (source.is_number_unsigned()) {
    node.kind = Node::Kind::kInteger;
    node.integer = static_cast<int64_t>(source.get<uint64_t>());
    node.is_unsigned = true;
  } else if (source.is_number_integer()) {
    node.kind = Node::Kind::kInteger;
    node.integer = source.get<int64_t>();
  } else if (source.is_boolean()) {
    node.kind = Node::Kind::kInteger;
    node.integer = source.get<bool>() ? 1 : 0;
  } else if (source.is_string()) {
    node.kind = Node::Kind::kText;
    node.text = source.get<std::string>();
  } else if (source.is_array()) {
    node.kind = Node::Kind::kList;
    for (const auto& item : source) node.members.push_back(from_json(item));
  } else if (source.is_object()) {
    node.kind = Node::Kind::kTable;
    for (const auto& [key, value] : source.items()) {
      node.members.push_back(from_json(value));
      node.members.back().name = key;
    }
  }
  return node;
}

template <typename T>
RegistryValue number_value(uint32_t type, T number) {
  RegistryValue value{type, std::vector<std::byte>(sizeof(number))};
  std::memcpy(value.data.data(), &number, sizeof(number));
  return value;
}

void append_units(std::vector<std::byte>& data, std::u16string_view text) {
  const size_t at = data.size();
  data.resize(at + (text.size() + 1) * sizeof(char16_t));
  std::memcpy(data.data() + at, text.data(), text.size() * sizeof(char16_t));
}

RegistryValue text_value(uint32_t type, std::string_view text) {
  RegistryValue value{type, {}};
  append_units(value.data, widen(text));
  return value;
}

/// "00 1F, 2a": hexadecimal bytes, with spaces, commas or nothing between them.
std::optional<std::vector<std::byte>> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes;
  int high = -1;
  for (const char c : text) {
    int digit = -1;
    if (c >= '0' && c <= '9') digit = c - '0';
    if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
    if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
    if (digit < 0) {
      if (high >= 0 || (c != ' ' && c != ',' && c != '\n' && c != '\r' && c != '\t')) return {};
      continue;
    }
    if (high < 0) {
      high = digit;
    } else {
      bytes.push_back(static_cast<std::byte>(high * 16 + digit));
      high = -1;
    }
  }
  if (high >= 0) return {};
  return bytes;
}

std::optional<uint64_t> number_of(const Node& node) {
  if (node.kind == Node::Kind::kInteger) return static_cast<uint64_t>(node.integer);
  if (node.kind != Node::Kind::kText || node.text.empty() || node.text.size() > 32) return {};
  errno = 0;
  char* end = nullptr;
  if (node.text[0] == '-' || node.text[0] == ' ') return {};
  const uint64_t number = std::strtoull(node.text.c_str(), &end, 0);
  if (errno != 0 || *end != 0) return {};
  return number;
}

class Builder {
 public:
  explicit Builder(Reason reason) : reason_(reason) {}

  Status fill(const std::shared_ptr<RegistryKey>& key, const Node& table, const std::string& path,
              size_t depth) {
    if (depth > kRegistryDepthMax)
      return reason_(fmt::format("{}: keys nest deeper than {}.", place(table, path),
                                 kRegistryDepthMax))
          .error();
    for (const Node& node : table.members) {
      const std::string& name = node.name;
      const std::string below = fmt::format("{}\\{}", path, name);
      const std::u16string wide = widen(name);
      if (wide.size() > kNameMax)
        return reason_(fmt::format("{}: a name longer than {}.", place(node, path), kNameMax))
            .error();
      if (node.kind == Node::Kind::kTable && !is_typed(node)) {
        if (wide.empty() || wide.size() > 256 || wide.find(u'\\') != std::u16string::npos) {
          return reason_(fmt::format("{}: a key has 1 to 256 characters and no backslash.",
                                     place(node, below)))
              .error();
        }
        const Status status = fill(Registry::create_below(key, wide), node, below, depth + 1);
        if (!is_success(status)) return status;
        continue;
      }
      RegistryValue value;
      const Status status = convert(node, below, &value);
      if (!is_success(status)) return status;
      if (!key->values.emplace(wide, std::move(value)).second)
        return reason_(fmt::format("{}: given twice (names have no case).", place(node, below)))
            .error();
    }
    return Status::kSuccess;
  }

 private:
  /// A table with a text "type" and a value or data is a value; any other is a key.
  static bool is_typed(const Node& node) {
    bool type = false, content = false;
    for (const Node& member : node.members) {
      type = type || (member.name == "type" && member.kind == Node::Kind::kText);
      content = content || member.name == "value" || member.name == "data";
    }
    return type && content && node.members.size() == 2;
  }

  Status convert(const Node& node, const std::string& path, RegistryValue* value) {
    switch (node.kind) {
      case Node::Kind::kInteger:
        if (node.integer < 0 || node.integer > UINT32_MAX) {
          if (node.integer < 0 && !node.is_unsigned) {
            if (node.integer < INT32_MIN)
              return reason_(fmt::format("{}: {} fits no dword; write a qword.", place(node, path),
                                         node.integer))
                  .error();
            *value = number_value(kRegDword, static_cast<uint32_t>(node.integer));
            return Status::kSuccess;
          }
          *value = number_value(kRegQword, static_cast<uint64_t>(node.integer));
          return Status::kSuccess;
        }
        *value = number_value(kRegDword, static_cast<uint32_t>(node.integer));
        return Status::kSuccess;
      case Node::Kind::kText:
        *value = text_value(kRegSz, node.text);
        return Status::kSuccess;
      case Node::Kind::kList:
        return convert_list(node, path, value);
      case Node::Kind::kTable:
        return convert_typed(node, path, value);
      default:
        return reason_(fmt::format("{}: a value is a number, a text, a list of texts or a table "
                                   "with type and value.",
                                   place(node, path)))
            .error();
    }
  }

  Status convert_list(const Node& node, const std::string& path, RegistryValue* value) {
    value->type = kRegMultiSz;
    value->data.clear();
    for (const Node& item : node.members) {
      if (item.kind != Node::Kind::kText || item.text.empty())
        return reason_(
                   fmt::format("{}: a list holds texts, none of them empty.", place(node, path)))
            .error();
      append_units(value->data, widen(item.text));
    }
    append_units(value->data, u"");
    return Status::kSuccess;
  }

  Status convert_typed(const Node& node, const std::string& path, RegistryValue* value) {
    const bool first = node.members[0].name == "type";
    const std::string& type = node.members[first ? 0 : 1].text;
    const Node& content = node.members[first ? 1 : 0];
    if (content.name == "data") {
      const auto bytes = content.kind == Node::Kind::kText ? bytes_of(content.text) : std::nullopt;
      if (!bytes.has_value())
        return reason_(fmt::format("{}: data is a text of hexadecimal bytes.", place(node, path)))
            .error();
      const auto number = type_number(type);
      if (!number.has_value())
        return reason_(fmt::format("{}: '{}' is no type.", place(node, path), type)).error();
      *value = {*number, *bytes};
      return Status::kSuccess;
    }
    if (type == "dword" || type == "qword") {
      const auto number = number_of(content);
      if (!number.has_value() ||
          (type == "dword" && *number > UINT32_MAX && static_cast<int64_t>(*number) < INT32_MIN)) {
        return reason_(fmt::format("{}: no {}.", place(node, path), type)).error();
      }
      if (type == "dword" && *number > UINT32_MAX && content.integer >= 0)
        return reason_(fmt::format("{}: {} fits no dword.", place(node, path), *number)).error();
      *value = type == "dword" ? number_value(kRegDword, static_cast<uint32_t>(*number))
                               : number_value(kRegQword, *number);
      return Status::kSuccess;
    }
    if (type == "sz" || type == "expand_sz") {
      if (content.kind != Node::Kind::kText)
        return reason_(fmt::format("{}: {} wants a text.", place(node, path), type)).error();
      *value = text_value(type == "sz" ? kRegSz : kRegExpandSz, content.text);
      return Status::kSuccess;
    }
    if (type == "multi_sz" && content.kind == Node::Kind::kList)
      return convert_list(content, path, value);
    if (type == "binary" && content.kind == Node::Kind::kText) {
      if (const auto bytes = bytes_of(content.text)) {
        *value = {kRegBinary, *bytes};
        return Status::kSuccess;
      }
    }
    return reason_(fmt::format("{}: '{}' is no type, or its value is of another.",
                               place(node, path), type))
        .error();
  }

  static std::optional<uint32_t> type_number(std::string_view type) {
    static constexpr std::pair<std::string_view, uint32_t> kTypes[] = {
        {"none", kRegNone},     {"sz", kRegSz},       {"expand_sz", kRegExpandSz},
        {"binary", kRegBinary}, {"dword", kRegDword}, {"multi_sz", kRegMultiSz},
        {"qword", kRegQword}};
    for (const auto& [name, number] : kTypes) {
      if (name == type) return number;
    }
    Node node;
    node.kind = Node::Kind::kText;
    node.text = type;
    const auto number = number_of(node);
    if (!number.has_value() || *number > UINT32_MAX) return {};
    return static_cast<uint32_t>(*number);
  }

  Reason reason_;
};

}  // namespace

Result<Registry> parse_registry(std::string_view text, std::string* message,
                                std::string_view table) {
  std::string ignored;
  if (message == nullptr) message = &ignored;
  const Reason reason(message);
  if (text.size() > kRegistryTextMax)
    return reason(
        fmt::format("{} bytes; a registry text has at most {}.", text.size(), kRegistryTextMax));
  if (auto why = why_no_plain_text(text, kRegistryDepthMax)) return reason(std::move(*why));
  const size_t start = text.find_first_not_of(" \t\r\n");
  Node root;
  if (start != std::string_view::npos && text[start] == '{') {
    size_t error_at = 0;
    std::string what;
    nlohmann::json parsed;
    try {
      parsed = nlohmann::json::parse(text);
    } catch (const nlohmann::json::parse_error& error) {
      error_at = std::max<size_t>(error.byte, 1);
      what = error.what();
    } catch (const nlohmann::json::exception& error) {
      return reason(error.what());  // a number that is none: 1e999
    }
    if (error_at > 0) {
      const auto line =
          1 + std::ranges::count(text.substr(0, std::min(error_at - 1, text.size())), '\n');
      return reason(fmt::format("line {}: {}", line, what));
    }
    root = from_json(parsed);
  } else {
    try {
      root = from_toml(toml::parse(text));
    } catch (const toml::parse_error& error) {
      return reason(fmt::format("line {}: {}", error.source().begin.line, error.description()));
    } catch (const TomlParserLost&) {
      return reason("A bracket or a dot is followed by something that begins no key.");
    }
  }
  if (!table.empty()) {
    const auto found = std::ranges::find(root.members, table, &Node::name);
    if (found == root.members.end() || found->kind != Node::Kind::kTable)
      return reason(fmt::format("There is no table {}.", table));
    root = Node(std::move(*found));
  }
  Registry registry;
  Builder builder(reason);
  for (const Node& node : root.members) {
    const std::string& name = node.name;
    if (node.kind != Node::Kind::kTable)
      return reason(fmt::format("{}: only keys stand at the top.", place(node, name)));
    std::u16string path;
    if (name == "device") path = widen(KernelConfig::kDeviceKey);
    if (name == "driver") path = widen(KernelConfig::kSoftwareKey);
    if (name == "service") path = widen(KernelConfig::kDriverKey);
    if (name == "properties") path = widen(KernelConfig::kPropertiesKey);
    if (path.empty()) path = widen(name);
    constexpr std::u16string_view kPrefix = u"\\Registry\\";
    if (!same_text(std::u16string_view(path).substr(0, kPrefix.size()), kPrefix)) {
      return reason(fmt::format(
          "{}: a key at the top is device, driver, service, properties or a path that begins with "
          "\\Registry\\.",
          place(node, name)));
    }
    if (static_cast<size_t>(std::ranges::count(path, u'\\')) > kRegistryDepthMax)
      return reason(
          fmt::format("{}: the path is deeper than {}.", place(node, name), kRegistryDepthMax));
    const auto key = Registry::create_below(registry.root(),
                                            std::u16string_view(path).substr(kPrefix.size() - 1));
    const Status status = builder.fill(key, node, name, 1);
    if (!is_success(status)) return Error(status);
  }
  return registry;
}

}  // namespace dxgkit::nt
