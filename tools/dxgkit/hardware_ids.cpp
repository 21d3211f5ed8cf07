#include "tools/dxgkit/hardware_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/spelling.h"
#include "devices/catalog/catalog.h"
#include "tools/dxgkit/files.h"

namespace dxgkit::tool {
namespace {

constexpr uintmax_t kInfBytesMost = uintmax_t{4} << 20;
constexpr size_t kInfFilesMost = 64;

/// Every `stride`th byte, as long as the bytes between are 0.
std::string narrowed(std::string_view bytes, size_t at, size_t units, size_t stride) {
  std::string text;
  for (; text.size() < units && at + stride <= bytes.size(); at += stride) {
    if (stride == 2 && bytes[at + 1] != 0) break;
    text += bytes[at];
  }
  return lower(text);
}

std::optional<uint16_t> four_digits(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  uint16_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + 4, value, 16);
  if (error != std::errc() || end != text.data() + 4) return std::nullopt;
  return value;
}

/// Both widths of a text, for files that may be either.
bool mentions(std::string_view bytes, std::string_view text) {
  const std::string wanted = lower(text);
  std::string wide;
  for (const char c : wanted) wide += {c, '\0'};
  const std::string all = lower(bytes);
  return all.find(wanted) != std::string::npos || all.find(wide) != std::string::npos;
}

std::vector<HardwareId> ids_of(const DeviceChoice& device) {
  std::vector<HardwareId> ids;
  for (const auto& [vendor, id] : device.type->ids) {
    const auto option = [&](std::string_view name, uint16_t otherwise) {
      return static_cast<uint16_t>(
          device.type->option(name) == nullptr
              ? otherwise
              : device.options.hexadecimal(name, otherwise, 16).value_or(otherwise));
    };
    ids.push_back({option("vendor", vendor), option("device", id)});
  }
  return ids;
}

bool have_one_in_common(const std::vector<HardwareId>& a, const std::vector<HardwareId>& b) {
  return std::ranges::any_of(
      a, [&](const HardwareId& id) { return std::ranges::find(b, id) != b.end(); });
}

/// The names of all devices of the catalogue with such an id.
std::vector<std::string> fitting(const std::vector<HardwareId>& ids) {
  std::vector<std::string> names;
  for (const auto& type : devices::catalog().types()) {
    const auto device = devices::catalog().parse(type->name);
    if (device.has_value() && have_one_in_common(ids, ids_of(*device))) names.push_back(type->name);
  }
  return names;
}

std::string id_text(const HardwareId& id) {
  return fmt::format("PCI\\VEN_{:04X}&DEV_{:04X}", id.vendor, id.device);
}

}  // namespace

std::vector<HardwareId> find_hardware_ids(std::string_view bytes) {
  constexpr std::string_view kVendor = "pci\\ven_", kDevice = "&dev_";
  constexpr size_t kUnits = kVendor.size() + 4 + kDevice.size() + 4;
  std::vector<HardwareId> ids;
  for (size_t at = 0; at < bytes.size() && ids.size() < kHardwareIdsMost; ++at) {
    if ((bytes[at] | 0x20) != 'p') continue;
    const size_t stride = at + 1 < bytes.size() && bytes[at + 1] == 0 ? 2 : 1;
    const std::string text = narrowed(bytes, at, kUnits, stride);
    if (text.size() != kUnits || !text.starts_with(kVendor) ||
        text.compare(kVendor.size() + 4, kDevice.size(), kDevice) != 0)
      continue;
    const auto vendor = four_digits(std::string_view(text).substr(kVendor.size()));
    const auto device = four_digits(std::string_view(text).substr(kUnits - 4));
    if (!vendor.has_value() || !device.has_value()) continue;
    const HardwareId id{*vendor, *device};
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

std::vector<HardwareId> hardware_ids(const std::string& driver_path) {
  const std::filesystem::path path(driver_path);
  std::vector<HardwareId> ids = find_hardware_ids(read_file(driver_path).value_or(""));
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (lower(at->path().extension().string()) == ".inf" && at->is_regular_file(error) &&
        at->file_size(error) <= kInfBytesMost)
      files.push_back(at->path());
  }
  std::ranges::sort(files);
  files.resize(std::min(files.size(), kInfFilesMost));
  for (const std::filesystem::path& file : files) {
    const std::string text = read_file(file.string()).value_or("");
    // The ELF form of a driver is named in no INF; its Windows form has the same stem.
    if (!mentions(text, path.stem().string() + ".sys")) continue;
    for (const HardwareId& id : find_hardware_ids(text)) {
      if (ids.size() < kHardwareIdsMost && std::ranges::find(ids, id) == ids.end())
        ids.push_back(id);
    }
  }
  return ids;
}

std::optional<DeviceChoice> only_fitting_device(const std::vector<HardwareId>& ids) {
  const std::vector<std::string> names = fitting(ids);
  if (names.size() != 1 || names.front() == kDefaultDevice) return std::nullopt;
  auto device = devices::catalog().parse(names.front());
  if (!device.has_value()) return std::nullopt;
  return std::move(*device);
}

std::string device_advice(const std::vector<HardwareId>& ids, const DeviceChoice& used) {
  // Of a plug-in, and of a device in another process, the ids are not known here.
  const std::vector<HardwareId> own = ids_of(used);
  if (ids.empty() || own.empty() || have_one_in_common(ids, own)) return {};
  const std::string named = ids.size() == 1 ? id_text(ids.front())
                                            : fmt::format("{} and {} more", id_text(ids.front()),
                                                          counted(ids.size() - 1, "hardware id"));
  if (const std::vector<std::string> names = fitting(ids); !names.empty()) {
    std::string list;
    for (const std::string& name : names)
      list += fmt::format("{}--device {}", list.empty() ? "" : " or ", name);
    return fmt::format("the driver is for {}, which {} has: {} would fit", named,
                       counted(names.size(), "other device"), list);
  }
  return fmt::format(
      "the driver is for {}, which --device {} is not; --device pci:{:04x}:{:04x} has that id, and "
      "memory for BARs, but does nothing; a model of the device can be a plug-in",
      named, used.text, ids.front().vendor, ids.front().device);
}

DeviceChoice device_of_driver(const std::string& driver_path) {
  std::optional<DeviceChoice> fits = only_fitting_device(hardware_ids(driver_path));
  if (!fits.has_value()) return default_device();
  fmt::print(stderr, "dxgkit: --device {} was chosen by the hardware ids that the driver names\n",
             fits->text);
  return std::move(*fits);
}

}  // namespace dxgkit::tool
