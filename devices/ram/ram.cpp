#include "devices/ram/ram.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>

namespace dxgkit::ram {
namespace {

/// Slots that leave room for the upper half of a 64-bit address behind them.
constexpr uint32_t kBarSlots = 5;
constexpr size_t kPatternBytesMost = 64;
/// As wide and high as a mode of firmware may be.
constexpr uint32_t kPostSideMost = 16384, kPostPixelBytes = 4;

struct BarConfig {
  uint32_t slot = 0;
  uint64_t size_bytes = 0;
  std::string file;
  std::vector<std::byte> pattern;  // repeated; empty: zeros
};

struct Config {
  bus::PciIdentity identity;
  std::vector<BarConfig> bars;           // by slot
  std::optional<bus::PostDisplay> post;  // at the start of the first BAR
};

std::unexpected<std::string> wrong(std::string text) { return std::unexpected(std::move(text)); }

/// An open file, closed at the end.
class File {
 public:
  explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  /// The bytes of a regular file. nullopt if it cannot be opened or is another kind of file.
  std::optional<uint64_t> size() const {
    struct stat status {};
    if (fd_ < 0 || fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return static_cast<uint64_t>(status.st_size);
  }
  /// All of the file to the start of `out`; false: it could not be read, or does not fit any more.
  bool read_all(std::span<std::byte> out) const {
    size_t at = 0;
    for (ssize_t got = 1; got > 0; at += static_cast<size_t>(got)) {
      got = read(fd_, out.data() + at, out.size() - at);
      if (got < 0) return false;
    }
    return size() == at;
  }

 private:
  int fd_;
};

/// "DEADBEEF": bytes in the order written.
std::optional<std::vector<std::byte>> parse_pattern(std::string_view text) {
  if (text.empty() || text.size() % 2 != 0 || text.size() / 2 > kPatternBytesMost)
    return std::nullopt;
  std::vector<std::byte> bytes;
  for (size_t at = 0; at < text.size(); at += 2) {
    uint8_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 2, value, 16);
    if (error != std::errc() || end != text.data() + at + 2) return std::nullopt;
    bytes.push_back(std::byte{value});
  }
  return bytes;
}

std::expected<BarConfig, std::string> read_bar(const bus::DeviceOptions& options, uint32_t slot,
                                               uint64_t size_bytes) {
  BarConfig bar;
  bar.slot = slot;
  bar.size_bytes = size_bytes;
  const std::string number = std::to_string(slot);
  const auto file = options.find("file" + number);
  const auto fill = options.find("fill" + number);
  if (file.has_value() && fill.has_value())
    return wrong("file" + number + " and fill" + number + " exclude each other");
  if (file.has_value()) {
    bar.file = *file;
    const std::optional<uint64_t> bytes = File(bar.file).size();
    if (!bytes.has_value()) return wrong("file" + number + ": " + bar.file + " cannot be read");
    if (*bytes > size_bytes)
      return wrong("file" + number + ": " + bar.file + " has " + std::to_string(*bytes) +
                   " bytes, the BAR " + std::to_string(size_bytes));
  }
  if (fill.has_value()) {
    auto pattern = parse_pattern(*fill);
    if (!pattern.has_value())
      return wrong("fill" + number + ": '" + std::string(*fill) +
                   "' is not a pattern of 1 to 64 bytes, two hexadecimal digits each");
    bar.pattern = std::move(*pattern);
  }
  return bar;
}

std::expected<std::vector<BarConfig>, std::string> read_bars(const bus::DeviceOptions& options) {
  std::vector<BarConfig> bars;
  uint32_t slots_used = 0;
  for (uint32_t slot = 0; slot < 10; ++slot) {
    const std::string number = std::to_string(slot);
    if (!options.find("bar" + number).has_value()) {
      for (const char* const content : {"file", "fill"}) {
        if (options.find(content + number).has_value())
          return wrong(content + number + " is content of a BAR that is not there: bar" + number +
                       "=SIZE");
      }
      continue;
    }
    if (slot >= kBarSlots) return wrong("a BAR is barN=SIZE with N from 0 to 4");
    const auto size = options.bytes("bar" + number, 0);
    if (!size.has_value()) return wrong(size.error());
    if (!std::has_single_bit(*size) || *size < kBarBytesLeast || *size > kBarBytesMost)
      return wrong("the size of a BAR is a power of two from 4K to 1G");
    // 64 bits wide: it takes two slots.
    if ((slots_used & (3U << slot)) != 0)
      return wrong("two BARs want the same slot (each takes two)");
    slots_used |= 3U << slot;
    auto bar = read_bar(options, slot, *size);
    if (!bar.has_value()) return wrong(bar.error());
    bars.push_back(std::move(*bar));
  }
  return bars;
}

/// "1024x768": the mode that firmware left in the first BAR.
std::expected<bus::PostDisplay, std::string> read_post(std::string_view text,
                                                       const std::vector<BarConfig>& bars) {
  bus::PostDisplay post;
  const char* const end = text.data() + text.size();
  const auto [cross, no_width] = std::from_chars(text.data(), end, post.width);
  if (no_width != std::errc() || cross == end || *cross != 'x')
    return wrong("post: '" + std::string(text) + "' is neither WIDTHxHEIGHT nor off");
  const auto [last, no_height] = std::from_chars(cross + 1, end, post.height);
  if (no_height != std::errc() || last != end || post.width == 0 || post.height == 0 ||
      post.width > kPostSideMost || post.height > kPostSideMost)
    return wrong("post: each side of '" + std::string(text) + "' is a number from 1 to 16384");
  post.pitch_bytes = post.width * kPostPixelBytes;
  if (bars.empty()) return wrong("post: the picture lies in the first BAR, and there is none");
  post.bar = bars.front().slot;
  if (uint64_t{post.pitch_bytes} * post.height > bars.front().size_bytes)
    return wrong("post: " + std::string(text) + " needs " +
                 std::to_string(uint64_t{post.pitch_bytes} * post.height) +
                 " bytes, the first BAR has " + std::to_string(bars.front().size_bytes));
  return post;
}

std::expected<Config, std::string> read_config(const bus::DeviceOptions& options) {
  Config config;
  const struct {
    const char* name;
    uint16_t fallback;
    uint16_t* to;
  } ids[] = {{"vendor", kVendorId, &config.identity.vendor_id},
             {"device", kDeviceId, &config.identity.device_id},
             {"subvendor", 0, &config.identity.subsystem_vendor_id},
             {"subsystem", 0, &config.identity.subsystem_id}};
  for (const auto& id : ids) {
    const auto value = options.hexadecimal(id.name, id.fallback, 16);
    if (!value.has_value()) return wrong(value.error());
    *id.to = static_cast<uint16_t>(*value);
  }
  const auto revision = options.hexadecimal("revision", 0, 8);
  if (!revision.has_value()) return wrong(revision.error());
  config.identity.revision = static_cast<uint8_t>(*revision);
  const auto code = options.hexadecimal("class", 0x030200, 24);
  if (!code.has_value()) return wrong(code.error());
  config.identity.base_class = static_cast<uint8_t>(*code >> 16);
  config.identity.sub_class = static_cast<uint8_t>(*code >> 8);
  config.identity.programming_interface = static_cast<uint8_t>(*code);
  auto bars = read_bars(options);
  if (!bars.has_value()) return wrong(bars.error());
  config.bars = std::move(*bars);
  if (const auto given = options.find("post"); given.has_value() && given != "off") {
    const auto post = read_post(*given, config.bars);
    if (!post.has_value()) return wrong(post.error());
    config.post = *post;
  }
  return config;
}

class Ram final : public bus::Device {
 public:
  static std::expected<std::unique_ptr<bus::Device>, std::string> create(const Config& config) {
    std::unique_ptr<Ram> ram(new Ram);
    std::vector<bus::Bar> bars;
    for (const BarConfig& wanted : config.bars) {
      auto memory = bus::DeviceMemory::create(wanted.size_bytes);
      if (!memory.has_value()) return wrong("there is no memory for its BARs");
      const std::span<std::byte> bytes = (*memory)->bytes();
      if (!wanted.file.empty() && !File(wanted.file).read_all(bytes))
        return wrong(wanted.file + " cannot be read");
      for (size_t at = 0; !wanted.pattern.empty() && at < bytes.size();) {
        const size_t length = std::min(wanted.pattern.size(), bytes.size() - at);
        std::memcpy(bytes.data() + at, wanted.pattern.data(), length);
        at += length;
      }
      bars.resize(wanted.slot + 2);
      bars[wanted.slot].kind = bus::BarKind::kMemory;
      bars[wanted.slot].size = wanted.size_bytes;
      bars[wanted.slot].memory = (*memory)->window();
      ram->memory_.push_back(std::move(*memory));
    }
    ram->function_.emplace(config.identity, std::move(bars));
    if (config.post.has_value()) ram->function_->set_post_display(config.post);
    ram->functions_ = {&*ram->function_};
    return ram;
  }

  std::span<bus::PciFunction* const> functions() override { return functions_; }

 private:
  Ram() = default;
  std::vector<std::unique_ptr<bus::DeviceMemory>> memory_;  // outlives the function
  std::optional<bus::PciFunction> function_;
  std::array<bus::PciFunction*, 1> functions_{};
};

}  // namespace

bus::DeviceType device_type() {
  bus::DeviceType type;
  type.name = "ram";
  type.summary = "a PCI function whose BARs are memory and do nothing";
  type.ids = {{kVendorId, kDeviceId}};
  type.options = {
      {"vendor", "HEX", "vendor id (1b36)"},
      {"device", "HEX", "device id (d0dd)"},
      {"subvendor", "HEX", "subsystem vendor id (0)"},
      {"subsystem", "HEX", "subsystem id (0)"},
      {"revision", "HEX", "revision id (0)"},
      {"class", "HEX", "base class, subclass, programming interface: six digits (030200)"},
      {"bar#", "SIZE", "a memory BAR, 64 bits wide, in slot 0 to 4; it takes the next slot too"},
      {"file#", "PATH", "the file's bytes are at the start of that BAR"},
      {"fill#", "HEX", "these bytes, repeated, fill that BAR (zeros)"},
      {"post", "WIDTHxHEIGHT|off",
       "firmware left a mode of that size in the first BAR, 4 bytes per pixel (off)"}};
  type.configure =
      [](const bus::DeviceOptions& options) -> std::expected<bus::DeviceMaker, std::string> {
    auto config = read_config(options);
    if (!config.has_value()) return wrong(config.error());
    return [config = std::move(*config)](const bus::DeviceHost&) { return Ram::create(config); };
  };
  return type;
}

bus::DeviceSpelling spelling_none() {
  return {"none", "ram without BARs: for drivers of software devices",
          [](std::string_view name) -> std::optional<std::string> {
            if (name != "none") return std::nullopt;
            return "ram";
          }};
}

bus::DeviceSpelling spelling_pci() {
  return {"pci:VENDOR:DEVICE", "ram with these ids, in hexadecimal",
          [](std::string_view name) -> std::optional<std::string> {
            constexpr std::string_view kPrefix = "pci:";
            if (!name.starts_with(kPrefix)) return std::nullopt;
            name.remove_prefix(kPrefix.size());
            const size_t colon = std::min(name.find(':'), name.size());
            const std::string device(name.substr(std::min(colon + 1, name.size())));
            return "ram,vendor=" + std::string(name.substr(0, colon)) + ",device=" + device;
          }};
}

}  // namespace dxgkit::ram
