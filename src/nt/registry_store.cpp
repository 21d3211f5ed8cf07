#include "nt/registry_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

/// The next component of a path, taken off its front; empty at the end.
std::u16string_view take_component(std::u16string_view& path) {
  while (!path.empty() && path[0] == u'\\') path.remove_prefix(1);
  const size_t end = std::min(path.find(u'\\'), path.size());
  const std::u16string_view component = path.substr(0, end);
  path.remove_prefix(end);
  return component;
}

std::u16string units_of(const std::vector<std::byte>& data) {
  std::u16string units(data.size() / sizeof(char16_t), u'\0');
  std::memcpy(units.data(), data.data(), units.size() * sizeof(char16_t));
  return units;
}

/// Whether text can stand for the data: an even number of bytes, terminated as `string` does it,
/// with no other zero and no lone surrogate.
bool is_plain_text(const std::vector<std::byte>& data, std::u16string* text) {
  if (data.size() < sizeof(char16_t) || data.size() % sizeof(char16_t) != 0) return false;
  *text = units_of(data);
  if (text->back() != 0) return false;
  text->pop_back();
  return text->find(u'\0') == std::u16string::npos && widen(narrow(*text)) == *text;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string hex_of(const std::vector<std::byte>& data) {
  std::string out;
  for (const std::byte byte : data) {
    if (!out.empty()) out += ' ';
    out += fmt::format("{:02X}", static_cast<unsigned>(byte));
  }
  return out;
}

std::string value_text(const RegistryValue& value) {
  std::u16string text;
  switch (value.type) {
    case kRegDword:
      if (value.data.size() == 4) {
        uint32_t number = 0;
        std::memcpy(&number, value.data.data(), 4);
        return fmt::format("{:#x}", number);
      }
      break;
    case kRegQword:
      if (value.data.size() == 8) {
        uint64_t number = 0;
        std::memcpy(&number, value.data.data(), 8);
        return fmt::format("{{ type = \"qword\", value = \"{:#x}\" }}", number);
      }
      break;
    case kRegSz:
      if (is_plain_text(value.data, &text)) return in_quotes(narrow(text));
      break;
    case kRegExpandSz:
      if (is_plain_text(value.data, &text))
        return fmt::format("{{ type = \"expand_sz\", value = {} }}", in_quotes(narrow(text)));
      break;
    case kRegMultiSz: {
      if (value.data.size() < 2 || value.data.size() % 2 != 0) break;
      const std::u16string all = units_of(value.data);
      std::string list;
      size_t at = 0;
      bool good = true;
      while (at < all.size() && all[at] != 0) {
        const size_t end = all.find(u'\0', at);
        if (end == std::u16string::npos) {
          good = false;
          break;
        }
        const std::u16string part = all.substr(at, end - at);
        good = good && widen(narrow(part)) == part;
        list += (list.empty() ? "" : ", ") + in_quotes(narrow(part));
        at = end + 1;
      }
      if (!good || at + 1 != all.size()) break;
      return "[" + list + "]";
    }
    default:
      break;
  }
  // Data that is not a well-formed text or number of its type is written as bytes.
  return fmt::format("{{ type = \"{}\", data = \"{}\" }}",
                     value.type == 3 ? std::string("binary") : std::to_string(value.type),
                     hex_of(value.data));
}

void add_to_map(const RegistryKey& key, const std::u16string& path, Registry::Map* map) {
  if (key.is_volatile) return;
  if (!key.values.empty() || key.children.empty()) {
    auto& values = (*map)[narrow(path)];
    for (const auto& [name, value] : key.values) values[narrow(name)] = value;
  }
  for (const auto& [name, child] : key.children)
    add_to_map(*child, path + u"\\" + child->name, map);
}

}  // namespace

Registry::Registry() : root_(std::make_shared<RegistryKey>()) {
  root_->name = u"Registry";
  for (const std::u16string_view path :
       {u"Machine\\Software\\Microsoft\\Windows NT\\CurrentVersion",
        u"Machine\\System\\CurrentControlSet\\Services",
        u"Machine\\System\\CurrentControlSet\\Control", u"Machine\\Hardware\\DeviceMap", u"User"}) {
    create_below(root_, path);
  }
  for (const char* path : {KernelConfig::kDeviceKey, KernelConfig::kSoftwareKey,
                           KernelConfig::kPropertiesKey, KernelConfig::kDriverKey}) {
    create_below(root_, widen(path).substr(std::strlen("\\Registry")));
  }
}

Registry::Registry(const Map& map) : Registry() {
  for (const auto& [path, values] : map) {
    std::u16string wide = widen(path);
    std::u16string_view below = wide;
    constexpr std::u16string_view kPrefix = u"\\Registry";
    if (same_text(below.substr(0, kPrefix.size()), kPrefix)) below.remove_prefix(kPrefix.size());
    const std::shared_ptr<RegistryKey> key = create_below(root_, below);
    for (const auto& [name, value] : values) key->values.insert_or_assign(widen(name), value);
  }
}

std::shared_ptr<RegistryKey> Registry::find(std::u16string_view path) const {
  if (path.empty() || path[0] != u'\\') return nullptr;
  if (!same_text(take_component(path), u"Registry")) return nullptr;
  return find_below(root_, path);
}

std::shared_ptr<RegistryKey> Registry::find_below(const std::shared_ptr<RegistryKey>& start,
                                                  std::u16string_view path) {
  std::shared_ptr<RegistryKey> key = start;
  for (std::u16string_view name = take_component(path); !name.empty();
       name = take_component(path)) {
    const auto found = key->children.find(name);
    if (found == key->children.end()) return nullptr;
    key = found->second;
  }
  return key;
}

std::shared_ptr<RegistryKey> Registry::create_below(const std::shared_ptr<RegistryKey>& start,
                                                    std::u16string_view path) {
  std::shared_ptr<RegistryKey> key = start;
  for (std::u16string_view name = take_component(path); !name.empty();
       name = take_component(path)) {
    std::shared_ptr<RegistryKey>& child = key->children[std::u16string(name)];
    if (child == nullptr) {
      child = std::make_shared<RegistryKey>();
      child->name = name;
      child->parent = key;
    }
    key = child;
  }
  return key;
}

std::u16string Registry::path_of(const RegistryKey& key) {
  const std::shared_ptr<RegistryKey> parent = key.parent.lock();
  return (parent == nullptr ? std::u16string() : path_of(*parent)) + u"\\" + key.name;
}

Registry::Map Registry::to_map() const {
  Map map;
  add_to_map(*root_, u"\\" + root_->name, &map);
  return map;
}

std::string Registry::to_text() const {
  std::string text;
  for (const auto& [path, values] : to_map()) {
    if (values.empty()) continue;
    text += fmt::format("[{}]\n", in_quotes(path));
    for (const auto& [name, value] : values)
      text += fmt::format("{} = {}\n", in_quotes(name), value_text(value));
    text += "\n";
  }
  return text;
}

std::optional<RegistryValue> registry_value(Kernel& kernel, std::u16string_view key,
                                            std::u16string_view name) {
  Executive& state = executive_of(kernel);
  runtime::MutexLock lock(state.lock);
  const std::shared_ptr<RegistryKey> found = state.registry.find(key);
  if (!found) return std::nullopt;
  const auto value = found->values.find(name);
  if (value == found->values.end()) return std::nullopt;
  return value->second;
}

std::string registry_text(Kernel& kernel) {
  Executive& state = executive_of(kernel);
  runtime::MutexLock lock(state.lock);
  return state.registry.to_text();
}

}  // namespace dxgkit::nt
