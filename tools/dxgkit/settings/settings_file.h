// dxgkit.toml, the file beside a driver: options of the command line that are kept with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::tool {

inline constexpr std::string_view kSettingsName = "dxgkit.toml";
inline constexpr size_t kSettingsBytesMost = size_t{1} << 20;

/// One option. A command that does not have it takes no notice, unless it is the command's own.
struct Setting {
  std::string command;               // empty: of every command that has such an option
  std::string option;                // "--device"
  std::optional<std::string> value;  // nothing: a flag
  uint32_t line = 0;
};

struct SettingsFile {
  std::vector<Setting> settings;  // in the order of the file
  std::string registry;           // the table `registry` as a text of its own; empty: none
};

/// What the file may say of options: the command line knows.
class OptionTable {
 public:
  enum class Kind { kFlag, kValue, kPath };
  struct Entry {
    Kind kind = Kind::kValue;
    bool repeats = false;
  };
  virtual ~OptionTable() = default;
  virtual std::vector<std::string> commands() const = 0;
  /// Names like "--device"; of no such command none.
  virtual std::vector<std::string> options(std::string_view command) const = 0;
  /// Of one of these.
  virtual Entry entry(std::string_view command, std::string_view option) const = 0;
};

/// Reads the text of a file. Any bytes. Paths in it are relative to `folder`. The error is a
/// sentence that begins with the line: a key or option that there is not, a value of another type,
/// an output (only the command line says where to write).
std::expected<SettingsFile, std::string> parse_settings(std::string_view text,
                                                        const std::string& folder,
                                                        const OptionTable& table);

}  // namespace dxgkit::tool
