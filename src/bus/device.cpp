#include "bus/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/sealed_memory.h"
#include "base/spelling.h"
#include "bus/machine.h"

namespace dxgkit::bus {
namespace {

constexpr size_t kFunctionsMax = 8;

std::unexpected<std::string> wrong(std::string text) { return std::unexpected(std::move(text)); }

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// A whole number in `base`, no sign, no spaces.
std::optional<uint64_t> whole_number(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

bool matches(std::string_view pattern, std::string_view name) {
  return std::ranges::equal(pattern, name, [](char wanted, char given) {
    return wanted == '#' ? given >= '0' && given <= '9' : wanted == given;
  });
}

bool is_file_name(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".so");
}

}  // namespace

// --- devices

void Device::set_power(size_t, FunctionPower) {}
void Device::reset(size_t) {}
void Device::pulled_out() {}
void Device::on_loss(std::function<void(const std::string& why)>) {}

Status plug_in(Machine& machine, Device& device) {
  const std::span<PciFunction* const> functions = device.functions();
  if (functions.empty() || functions.size() > kFunctionsMax) return Status::kInvalidParameter;
  for (size_t i = 0; i < functions.size(); ++i) {
    functions[i]->on_power([&device, i](FunctionPower power) { device.set_power(i, power); });
    functions[i]->on_reset([&device, i] { device.reset(i); });
    if (functions.size() > 1) functions[i]->set_multifunction();
  }
  for (size_t i = 0; i < functions.size(); ++i) {
    const Status status = machine.add_function(*functions[i]);
    if (is_success(status)) continue;
    while (i > 0) machine.remove_function(*functions[--i]);
    return status;
  }
  return Status::kSuccess;
}

void pull_out(Machine& machine, Device& device) {
  for (PciFunction* const function : device.functions()) machine.pull_out(*function);
  device.pulled_out();
}

void unplug(Machine& machine, Device& device) {
  for (PciFunction* const function : device.functions()) machine.remove_function(*function);
}

// --- options

std::optional<uint64_t> parse_byte_count(std::string_view text) {
  struct Suffix {
    std::string_view name;
    uint64_t factor;
  };
  static constexpr std::array<Suffix, 10> kSuffixes{{{"KiB", 1ULL << 10},
                                                     {"MiB", 1ULL << 20},
                                                     {"GiB", 1ULL << 30},
                                                     {"K", 1ULL << 10},
                                                     {"M", 1ULL << 20},
                                                     {"G", 1ULL << 30},
                                                     {"k", 1ULL << 10},
                                                     {"m", 1ULL << 20},
                                                     {"g", 1ULL << 30},
                                                     {"", 1}}};
  for (const Suffix& suffix : kSuffixes) {
    if (!text.ends_with(suffix.name)) continue;
    const std::optional<uint64_t> number =
        whole_number(text.substr(0, text.size() - suffix.name.size()), 10);
    uint64_t bytes = 0;
    if (!number.has_value() || !checked_mul(*number, suffix.factor, &bytes)) break;
    return bytes;
  }
  return std::nullopt;
}

bool DeviceOptions::add(std::string name, std::string value) {
  if (find(name).has_value()) return false;
  given_.emplace_back(std::move(name), std::move(value));
  return true;
}

std::optional<std::string_view> DeviceOptions::find(std::string_view name) const {
  const auto found = std::ranges::find(
      given_, name, [](const auto& one) -> std::string_view { return one.first; });
  if (found == given_.end()) return std::nullopt;
  return found->second;
}

std::expected<uint64_t, std::string> DeviceOptions::bytes(std::string_view name,
                                                          uint64_t fallback) const {
  const std::optional<std::string_view> text = find(name);
  if (!text.has_value()) return fallback;
  const std::optional<uint64_t> value = parse_byte_count(*text);
  if (!value.has_value())
    return wrong(std::string(name) + ": " + quoted(*text) +
                 " is not a number of bytes (like 67108864, 64M or 1GiB)");
  return *value;
}

std::expected<uint64_t, std::string> DeviceOptions::number(std::string_view name, uint64_t fallback,
                                                           uint64_t least, uint64_t most) const {
  const std::optional<std::string_view> text = find(name);
  if (!text.has_value()) return fallback;
  const std::optional<uint64_t> value = whole_number(*text, 10);
  if (!value.has_value() || *value < least || *value > most)
    return wrong(std::string(name) + ": " + quoted(*text) + " is not a whole number from " +
                 std::to_string(least) + " to " + std::to_string(most));
  return *value;
}

std::expected<uint64_t, std::string> DeviceOptions::hexadecimal(std::string_view name,
                                                                uint64_t fallback,
                                                                uint32_t bits) const {
  const std::optional<std::string_view> text = find(name);
  if (!text.has_value()) return fallback;
  const bool prefixed = text->starts_with("0x") || text->starts_with("0X");
  const std::optional<uint64_t> value = whole_number(prefixed ? text->substr(2) : *text, 16);
  if (!value.has_value() || (bits < 64 && *value >> bits != 0))
    return wrong(std::string(name) + ": " + quoted(*text) + " is not a hexadecimal number of " +
                 std::to_string(bits) + " bits");
  return *value;
}

std::expected<bool, std::string> DeviceOptions::on_off(std::string_view name, bool fallback) const {
  const std::optional<std::string_view> text = find(name);
  if (!text.has_value()) return fallback;
  if (*text != "on" && *text != "off")
    return wrong(std::string(name) + ": " + quoted(*text) + " is neither on nor off");
  return *text == "on";
}

// --- types

const DeviceOption* DeviceType::option(std::string_view wanted) const {
  const auto found = std::ranges::find_if(
      options, [&](const DeviceOption& one) { return matches(one.name, wanted); });
  return found == options.end() ? nullptr : &*found;
}

DeviceChoice DeviceChoice::with(
    std::span<const std::pair<std::string, std::string>> changes) const {
  DeviceChoice choice{.text = type->name, .type = type, .options = {}};
  for (const auto& [option_name, value] : changes) choice.options.add(option_name, value);
  for (const auto& [option_name, value] : options.all()) choice.options.add(option_name, value);
  for (const auto& [option_name, value] : choice.options.all())
    choice.text += "," + option_name + "=" + value;
  return choice;
}

std::expected<std::unique_ptr<Device>, std::string> DeviceChoice::make(
    const DeviceHost& host, std::span<const std::pair<std::string, std::string>> defaults) const {
  DeviceOptions all = options;
  for (const auto& [option_name, value] : defaults) {
    if (type->option(option_name) != nullptr) all.add(option_name, value);
  }
  const std::expected<DeviceMaker, std::string> maker = type->configure(all);
  if (!maker.has_value()) return wrong(type->name + ": " + maker.error());
  std::expected<std::unique_ptr<Device>, std::string> made = (*maker)(host);
  if (!made.has_value()) return wrong(type->name + ": " + made.error());
  return made;
}

void DeviceRegistry::add(DeviceType type) {
  DXGKIT_CHECK(find(type.name) == nullptr);
  types_.push_back(std::make_shared<const DeviceType>(std::move(type)));
}

void DeviceRegistry::add_spelling(DeviceSpelling spelling) {
  spellings_.push_back(std::move(spelling));
}

void DeviceRegistry::set_loader(
    std::function<std::expected<DeviceType, std::string>(const std::string& path)> loader) {
  loader_ = std::move(loader);
}

std::shared_ptr<const DeviceType> DeviceRegistry::find(std::string_view name) const {
  const auto found = std::ranges::find(
      types_, name, [](const auto& type) -> std::string_view { return type->name; });
  return found == types_.end() ? nullptr : *found;
}

std::expected<DeviceChoice, std::string> DeviceRegistry::parse(std::string_view text) const {
  const auto refused = [&](const std::string& why) { return wrong(quoted(text) + ": " + why); };
  std::string whole(text);
  const size_t first_comma = std::min(text.find(','), text.size());
  for (const DeviceSpelling& spelling : spellings_) {
    const std::optional<std::string> meant = spelling.expand(text.substr(0, first_comma));
    if (!meant.has_value()) continue;
    whole = *meant + std::string(text.substr(first_comma));
    break;
  }
  std::string_view rest = whole;
  const auto take = [&rest] {
    const size_t length = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    return part;
  };
  DeviceChoice choice;
  choice.text = text;
  const std::string name(take());
  choice.type = find(name);
  if (choice.type == nullptr && loader_ && is_file_name(name)) {
    std::expected<DeviceType, std::string> loaded = loader_(name);
    if (!loaded.has_value()) return wrong(loaded.error());
    choice.type = std::make_shared<const DeviceType>(std::move(*loaded));
  }
  if (choice.type == nullptr) {
    std::string known;
    for (const auto& type : types_) known += (known.empty() ? "" : ", ") + type->name;
    for (const DeviceSpelling& spelling : spellings_) known += ", " + spelling.text;
    const auto name_of = [](const auto& type) -> std::string_view { return type->name; };
    return refused("there is no device of that name; there are " + known +
                   (loader_ ? ", and plug-ins (FILE.so)" : "") +
                   did_you_mean(name, types_, name_of));
  }
  if (whole.ends_with(',')) return refused("it ends with a comma");
  while (!rest.empty()) {
    const std::string_view part = take();
    const size_t equals = part.find('=');
    const std::string option(part.substr(0, std::min(equals, part.size())));
    if (choice.type->option(option) == nullptr) {
      std::string known;
      for (const DeviceOption& one : choice.type->options)
        known += (known.empty() ? "" : ", ") + one.name;
      const auto name_of = [](const DeviceOption& one) -> std::string_view { return one.name; };
      return refused(name + " has no option " + quoted(option) +
                     (known.empty() ? "; it has none" : "; it has " + known) +
                     did_you_mean(option, choice.type->options, name_of));
    }
    if (equals == std::string_view::npos)
      return refused(option + " needs a value: " + option + "=" +
                     choice.type->option(option)->value);
    if (!choice.options.add(option, std::string(part.substr(equals + 1))))
      return refused(option + " is given twice");
  }
  if (const auto maker = choice.type->configure(choice.options); !maker.has_value())
    return refused(maker.error());
  return choice;
}

// --- memory

std::expected<std::unique_ptr<DeviceMemory>, Status> DeviceMemory::create(uint64_t size) {
  DXGKIT_CHECK(size > 0);
  DXGKIT_CHECK(size % kPageBytes == 0);
  const int fd = create_sealed_memory("dxgkit-device-memory", size);
  if (fd < 0) return std::unexpected(Status::kNoMemory);
  void* const mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (mapped == MAP_FAILED) {
    close(fd);
    return std::unexpected(Status::kNoMemory);
  }
  return std::unique_ptr<DeviceMemory>(
      new DeviceMemory(fd, {static_cast<std::byte*>(mapped), size}));
}

DeviceMemory::~DeviceMemory() {
  munmap(bytes_.data(), bytes_.size());
  close(fd_);
}

}  // namespace dxgkit::bus
